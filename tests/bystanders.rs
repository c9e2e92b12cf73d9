//! What nobody offloaded works through the kernel all the while: other ports of the same address,
//! and clients on the same machine, under load on the engine.
#![forbid(unsafe_code)]

use lab::load::Load;
use lab::outboard::{Outboard, total};
use lab::{Side, World, skip_without_root};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const LOAD: Duration = Duration::from_secs(2);

#[test]
fn other_ports_and_local_clients_are_served_while_the_engine_works() {
    if skip_without_root("other_ports_and_local_clients_are_served_while_the_engine_works") {
        return;
    }
    let world = World::new().unwrap();
    let site = world.site(&[("small", b"hello")]).unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine(&world, None).unwrap();
    let address = SocketAddr::from((Side::Server.ipv4(), 80));
    let _server = outboard.start_serve(&world, &site, address).unwrap();
    let other = SocketAddr::from((Side::Server.ipv4(), 2222));
    let listener = world
        .on(Side::Server, || Ok(TcpListener::bind(other)?))
        .unwrap();
    let before = total(&outboard.stats().unwrap(), "tcp_passive_opens");

    let local_fetches = std::thread::scope(|scope| {
        let loaded = scope.spawn(|| {
            world.on(Side::Client, || {
                Load {
                    server: address,
                    path: "/small".into(),
                    close: false,
                    connections: 16,
                    rate: 2_000.0,
                    duration: LOAD,
                    grace: PATIENCE,
                }
                .run()
            })
        });
        let mut fetches = 0;
        while !loaded.is_finished() {
            // A port of the kernel's, from the other machine, both ways.
            let mut client = world
                .on(Side::Client, || {
                    Ok(TcpStream::connect_timeout(&other, PATIENCE)?)
                })
                .unwrap();
            let (mut accepted, _) = listener.accept().unwrap();
            for stream in [&client, &accepted] {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
            }
            client.write_all(b"ping").unwrap();
            let mut heard = [0; 4];
            accepted.read_exact(&mut heard).unwrap();
            accepted.write_all(&heard).unwrap();
            client.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"ping");
            // The offloaded port, from the same machine.
            let mut local = world
                .on(Side::Server, || {
                    Ok(TcpStream::connect_timeout(&address, PATIENCE)?)
                })
                .unwrap();
            local.set_read_timeout(Some(PATIENCE)).unwrap();
            local.write_all(b"GET /small HTTP/1.0\r\n\r\n").unwrap();
            let mut text = String::new();
            local.read_to_string(&mut text).unwrap();
            assert!(text.ends_with("hello"), "{text}");
            fetches += 1;
        }
        let outcome = loaded.join().unwrap().unwrap();
        assert_eq!(outcome.answered, outcome.due);
        fetches
    });
    assert!(local_fetches > 0);
    // The load was the engine's, the local clients were not.
    let accepted = total(&outboard.stats().unwrap(), "tcp_passive_opens") - before;
    assert_eq!(accepted, 16.0);
}
