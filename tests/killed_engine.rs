//! An engine that is killed under nginx: connections end, the kernel serves the port meanwhile, a
//! new engine takes it up without a restart of nginx.
#![forbid(unsafe_code)]

use lab::nginx::{BODY_64, Nginx};
use lab::outboard::{Outboard, total};
use lab::{Side, World, skip_without_root};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn nginx_serves_on_while_engines_come_and_go() {
    if skip_without_root("nginx_serves_on_while_engines_come_and_go") {
        return;
    }
    let world = World::new().unwrap();
    let site = world.site(&[]).unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).unwrap();
    let mut nginx = Nginx::start(&world, Some(&outboard), &site, None).unwrap();

    world
        .on(Side::Client, || {
            // A connection of the engine's.
            let before = accepted(&outboard);
            let mut kept = TcpStream::connect_timeout(&Nginx::address(), PATIENCE)?;
            kept.set_read_timeout(Some(PATIENCE))?;
            assert!(fetch(&mut kept).ends_with(BODY_64));
            assert!(accepted(&outboard) > before, "the engine did not accept");

            engine.kill()?;
            // It ends, rather than hang: the kernel knows no such connection and resets it.
            let ended = kept
                .write_all(REQUEST)
                .and_then(|()| kept.read(&mut [0; 1024]));
            assert!(!matches!(ended, Ok(length) if length > 0), "{ended:?}");

            // New clients are the kernel's.
            let mut stream = TcpStream::connect_timeout(&Nginx::address(), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            assert!(fetch(&mut stream).ends_with(BODY_64));
            // And stay the kernel's when there is an engine again.
            let _engine = outboard.start_engine(&world, None)?;
            assert!(fetch(&mut stream).ends_with(BODY_64));

            // Which takes the port up by itself.
            let started = Instant::now();
            loop {
                let mut stream = TcpStream::connect_timeout(&Nginx::address(), PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                assert!(fetch(&mut stream).ends_with(BODY_64));
                if accepted(&outboard) > 0.0 {
                    break;
                }
                assert!(started.elapsed() < PATIENCE, "the port is not taken up");
                std::thread::sleep(Duration::from_millis(50));
            }
            assert!(fetch(&mut stream).ends_with(BODY_64));
            Ok(())
        })
        .unwrap();
    assert!(nginx.master().ended().unwrap().is_none(), "nginx ended");
}

const REQUEST: &[u8] = b"GET /64 HTTP/1.1\r\nHost: test\r\n\r\n";

/// Asks on an open connection, and reads to the end of the body.
fn fetch(stream: &mut TcpStream) -> String {
    stream.write_all(REQUEST).unwrap();
    let mut heard = String::new();
    let mut buffer = [0; 4096];
    while !heard.ends_with(BODY_64) {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0, "the connection ended after {heard:?}");
        heard.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    }
    heard
}

/// Connections that the engine has accepted.
fn accepted(outboard: &Outboard) -> f64 {
    total(&outboard.stats().unwrap(), "tcp_passive_opens")
}
