//! `outboard serve` that is told to stop: what was asked for is answered, nobody new is accepted,
//! and a second signal ends it at once.
#![forbid(unsafe_code)]

use lab::outboard::Outboard;
use lab::{Side, World, skip_without_root};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LARGE: usize = 32 << 20;
/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);

struct Stage {
    outboard: Outboard,
    _engine: lab::Process,
    site: PathBuf,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Stage {
    fn new() -> Self {
        let world = World::new().unwrap();
        let large = vec![7; LARGE];
        let files: [(&str, &[u8]); 2] = [("small", b"hello"), ("large", &large)];
        let site = world.site(&files).unwrap();
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        let engine = outboard.start_engine(&world, None).unwrap();
        Self {
            outboard,
            _engine: engine,
            site,
            world,
        }
    }

    fn serve(&self) -> lab::Process {
        self.outboard
            .start_serve(&self.world, &self.site, address())
            .unwrap()
    }

    /// Connects as a client, and asks for `path`.
    fn ask(&self, path: &str) -> TcpStream {
        self.world
            .on(Side::Client, || {
                let mut stream = TcpStream::connect_timeout(&address(), PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")?;
                Ok(stream)
            })
            .unwrap()
    }
}

fn address() -> SocketAddr {
    (Side::Server.ipv4(), 80).into()
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn a_server_that_is_told_to_stop_finishes_what_it_began() {
    if skip_without_root("a_server_that_is_told_to_stop_finishes_what_it_began") {
        return;
    }
    let stage = Stage::new();
    let mut server = stage.serve();
    let mut idle = stage.ask("/small");
    read_head(&mut idle);
    idle.read_exact(&mut [0; 5]).unwrap();
    let mut in_transfer = stage.ask("/large");
    read_head(&mut in_transfer);

    server.signal(Signal::TERM).unwrap();
    let mut rest = Vec::new();
    assert_eq!(
        idle.read_to_end(&mut rest).unwrap(),
        0,
        "an idle client is let go"
    );
    let mut body = Vec::new();
    in_transfer.read_to_end(&mut body).unwrap();
    assert_eq!(body.len(), LARGE);
    assert!(body.iter().all(|byte| *byte == 7));
    drop((idle, in_transfer));
    assert!(
        server.wait(PATIENCE).unwrap().success(),
        "{}",
        server.printed()
    );
    let refused = stage
        .world
        .on(Side::Client, || {
            Ok(TcpStream::connect_timeout(&address(), PATIENCE).is_err())
        })
        .unwrap();
    assert!(refused, "somebody still listens");
}

#[test]
fn a_second_signal_does_not_wait_for_anybody() {
    if skip_without_root("a_second_signal_does_not_wait_for_anybody") {
        return;
    }
    let stage = Stage::new();
    let mut server = stage.serve();
    // It asks for much and takes nothing: without the second signal it would be waited for.
    let mut stuck = stage.ask("/large");
    read_head(&mut stuck);
    // Two of a kind may become one on the way.
    server.signal(Signal::INT).unwrap();
    server.signal(Signal::TERM).unwrap();
    assert!(server.wait(PATIENCE).unwrap().success());
    let mut body = Vec::new();
    let complete = stuck.read_to_end(&mut body).is_ok() && body.len() == LARGE;
    assert!(!complete, "it was waited for");
}
