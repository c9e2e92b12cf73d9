//! A server that is killed in the middle of 1,000 connections: each ends as the kernel would end
//! it, all it held is free, and a new server takes the port at once.
#![forbid(unsafe_code)]

use lab::outboard::Outboard;
use lab::{Side, World, skip_without_root};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

const IDLE: usize = 500;
/// More than what the server may have written for them fits into its send area (64 MiB): each
/// still gets the head of its response.
const IN_TRANSFER: usize = 500;
const LARGE: usize = 8 << 20;
/// No read waits longer than this; nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn connections_of_a_killed_server_end_and_leave_nothing() {
    if skip_without_root("connections_of_a_killed_server_end_and_leave_nothing") {
        return;
    }
    let world = World::new().unwrap();
    let large = vec![7; LARGE];
    let files: [(&str, &[u8]); 2] = [("small", b"hello"), ("large", &large)];
    let site = world.site(&files).unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine(&world, None).unwrap();
    let address = SocketAddr::from((Side::Server.ipv4(), 80));
    let server = outboard.start_serve(&world, &site, address).unwrap();

    let (mut idle, mut in_transfer) = world
        .on(Side::Client, || {
            let open = |path: &str, count: usize| -> Vec<TcpStream> {
                (0..count).map(|_| ask(address, path)).collect()
            };
            Ok((open("/small", IDLE), open("/large", IN_TRANSFER)))
        })
        .unwrap();
    for stream in &mut idle {
        read_until(stream, b"hello");
    }
    for stream in &mut in_transfer {
        read_until(stream, b"\r\n\r\n");
    }
    let open = connections(&outboard);
    assert!(
        open >= IDLE + IN_TRANSFER,
        "{open} connections, of which {} were accepted here",
        lab::outboard::total(&outboard.stats().unwrap(), "tcp_passive_opens")
    );

    server.kill().unwrap();
    // What had been asked and answered ends in good order.
    for stream in &mut idle {
        let mut rest = Vec::new();
        assert_eq!(stream.read_to_end(&mut rest).unwrap(), 0);
    }
    // What was under way ends before the file does: with an end, or with a reset.
    for stream in &mut in_transfer {
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        assert!(rest.len() < LARGE, "a killed server finished its response");
    }
    drop((idle, in_transfer));
    let drained = Instant::now();
    while connections(&outboard) > 0 {
        assert!(
            drained.elapsed() < PATIENCE,
            "{} connections stay",
            connections(&outboard)
        );
        std::thread::sleep(Duration::from_millis(10));
    }

    let _server = outboard.start_serve(&world, &site, address).unwrap();
    let text = world
        .on(Side::Client, || {
            let mut stream = ask(address, "/small");
            Ok(read_until(&mut stream, b"hello"))
        })
        .unwrap();
    assert!(text.starts_with(b"HTTP/1.1 200 "));
}

/// Opens a connection and asks for `path`.
fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut heard = Vec::new();
    let mut byte = [0];
    while !heard.ends_with(end) {
        stream.read_exact(&mut byte).unwrap();
        heard.push(byte[0]);
    }
    heard
}

/// Connections that the engine holds, those in TIME-WAIT not counted.
fn connections(outboard: &Outboard) -> usize {
    outboard
        .sockets()
        .unwrap()
        .iter()
        .filter(|row| !row["peer"].is_null() && row["state"] != "TIME-WAIT")
        .count()
}
