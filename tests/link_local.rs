//! Link-local addresses of IPv6 on the engine: they work, and programs are told their scope.
#![forbid(unsafe_code)]

mod native_programs;

use lab::outboard::{Outboard, total};
use lab::{Side, World, tool};
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddrV6, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const SERVER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);
const CLIENT: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x78);

/// Accepts on every address, IPv4 too, and says who came and where; then connects back.
const PROGRAM: &str = r#"
import socket, sys
listener = socket.create_server(("::", 5003), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    peer, address = listener.accept()
    line = peer.recv(100)
    if line == b"who am I?":
        peer.sendall(repr((address, peer.getsockname())).encode())
    elif line == b"call me":
        back = socket.socket(socket.AF_INET6)
        back.connect((address[0], 5004, 0, address[3]))
        back.sendall(repr(back.getpeername()).encode())
        back.close()
    peer.close()
"#;

/// Gives both sides their addresses; the numbers of their interfaces.
fn linked(world: &World) -> Vec<u32> {
    let mut indices = Vec::new();
    for (side, address) in [(Side::Server, SERVER), (Side::Client, CLIENT)] {
        let (name, interface) = (world.name(side), side.interface());
        tool::run(&format!(
            "ip -n {name} addr add {address}/64 dev {interface} nodad"
        ))
        .unwrap();
        let listed = tool::run(&format!("ip -n {name} -o link show {interface}")).unwrap();
        indices.push(
            listed
                .split(':')
                .next()
                .unwrap()
                .trim()
                .parse::<u32>()
                .unwrap(),
        );
    }
    indices
}

#[test]
fn the_way_to_a_link_local_address_says_on_which_link() {
    let test = "the_way_to_a_link_local_address_says_on_which_link";
    let Some(library) = native_programs::library() else {
        return;
    };
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let world = World::new().unwrap();
    linked(&world);
    let program = native_programs::compile(&world, &library, "tests/link_local.c");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine_with(&world, "").unwrap();
    let said = world
        .program(Side::Server, &program)
        .env("OUTBOARD_SOCKET", outboard.socket())
        .args([&CLIENT.to_string(), Side::Server.interface()])
        .output()
        .unwrap();
    assert_eq!(said.trim(), "all as outboard.h says");
}

#[test]
fn programs_learn_the_scope_of_link_local_peers() {
    if lab::skip_without("programs_learn_the_scope_of_link_local_peers", &["python3"]) {
        return;
    }
    let world = World::new().unwrap();
    let indices = linked(&world);
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine_with(&world, "").unwrap();
    let mut server = outboard
        .on_engine(&world, "python3")
        .args(["-c", PROGRAM])
        .log(world.scratch().join("server.log"))
        .start()
        .unwrap();
    let listens = || {
        let rows = outboard.sockets().unwrap_or_default();
        rows.iter().any(|row| row["state"] == "LISTEN")
    };
    server.wait_until(PATIENCE, listens).unwrap();
    let target = SocketAddrV6::new(SERVER, 5003, 0, indices[1]);
    let scope = indices[0];

    let who = world
        .on(Side::Client, || {
            Ok(ask(TcpStream::connect(target)?, b"who am I?")?)
        })
        .unwrap();
    assert!(who.contains("('fe80::78', "), "{who}");
    assert_eq!(who.matches(&format!(", 0, {scope})")).count(), 2, "{who}");

    // It calls back: a connection that the engine opens.
    let called = world
        .on(Side::Client, || {
            let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 5004))?;
            // For accept: nothing may hang.
            sockopt::set_socket_timeout(&listener, sockopt::Timeout::Recv, Some(PATIENCE))?;
            let mut asking = TcpStream::connect(target)?;
            asking.write_all(b"call me")?;
            let (stream, _) = listener.accept()?;
            Ok(ask(stream, b"")?)
        })
        .unwrap();
    assert!(
        called.ends_with(&format!(", 5004, 0, {scope})")),
        "{called}"
    );

    // And an IPv4 client of the same listener is a mapped address without scope.
    let who = world
        .on(Side::Client, || {
            let stream = TcpStream::connect((Side::Server.ipv4(), 5003))?;
            Ok(ask(stream, b"who am I?")?)
        })
        .unwrap();
    assert!(
        who.contains("'::ffff:10.77.0.2'") && who.contains(", 0, 0)"),
        "{who}"
    );
    let stats = outboard.stats().unwrap();
    assert!(total(&stats, "tcp_passive_opens") >= 3.0);
    assert!(total(&stats, "tcp_active_opens") >= 1.0);
}

fn ask(mut stream: TcpStream, question: &[u8]) -> std::io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(question)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
