//! A log that nobody reads, such as a pager that stands still, holds up nobody.
#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lab::outboard::{Outboard, total};
use lab::{Side, World, skip_without_root};
use rustix::fs::OFlags;

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// Programs that attach, of each of which the engine has something to say.
const PROGRAMS: usize = 8;

/// A page by the engine.
fn ask(address: SocketAddr) {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("somebody answers");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    write!(stream, "GET /small HTTP/1.0\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert!(answer.ends_with(b"hello"));
}

#[test]
fn a_log_that_nobody_reads_holds_up_nobody() {
    if skip_without_root("a_log_that_nobody_reads_holds_up_nobody") {
        return;
    }
    let world = World::new().unwrap();
    // Where the engine's log goes, and what is full before it begins.
    let log = world.scratch().join("engine.log");
    let made = Command::new("mkfifo").arg(&log).status();
    assert!(made.expect("coreutils are there").success());
    let mut pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(&log)
        .unwrap();
    let full = loop {
        if let Err(error) = pipe.write(&[b'.'; 4096]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);

    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).unwrap();
    let site = world.site(&[("small", b"hello")]).unwrap();
    let address = SocketAddr::from((Side::Server.ipv4(), 80));
    let _serve = outboard.start_serve(&world, &site, address).unwrap();
    let served = || total(&outboard.stats().unwrap(), "tcp_passive_opens");
    let before = served();
    for _ in 0..PROGRAMS {
        let program = outboard.on_engine(&world, "true");
        program.output().expect("it begins and ends");
        world
            .on(Side::Client, || {
                ask(address);
                Ok(())
            })
            .unwrap();
    }
    assert_eq!(served() - before, PROGRAMS as f64, "all by the engine");
    engine.stop(PATIENCE).expect("it ends, too");
}
