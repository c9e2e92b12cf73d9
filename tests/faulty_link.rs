//! A gigabyte each way over a wire that loses, reorders and repeats: every byte arrives as it was.
#![forbid(unsafe_code)]

use host::{Accepted, Errno, Listener, Readiness, Session, Socket};
use lab::faults::{Faults, FaultyWire};
use lab::outboard::Outboard;
use lab::{Side, World, skip_without_root};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// No call waits longer than this for its next byte: a stall is a failure.
const STALL: Duration = Duration::from_secs(120);

const FAULTS: Faults = Faults {
    loss: 0.01,
    duplication: 0.01,
    reorder: 0.01,
    reorder_distance: 8,
    ..Faults::NONE
};

#[test]
fn a_gigabyte_survives_the_way_to_the_client() {
    if skip_without_root("a_gigabyte_survives_the_way_to_the_client") {
        return;
    }
    transfer(1, |socket| send_pattern(&socket), receive_pattern);
}

#[test]
fn a_gigabyte_survives_the_way_to_the_server() {
    if skip_without_root("a_gigabyte_survives_the_way_to_the_server") {
        return;
    }
    transfer(
        2,
        |socket| receive_pattern(Offloaded(socket)),
        |mut stream| {
            let mut pattern = Pattern::default();
            let mut buffer = vec![0; 64 * 1024];
            let mut left = length();
            while left > 0 {
                let piece = left.min(buffer.len());
                pattern.fill(&mut buffer[..piece]);
                stream.write_all(&buffer[..piece]).unwrap();
                left -= piece;
            }
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            // The end comes back when the server has all.
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        },
    );
}

/// Bytes each way: 1 GB, or as much as OUTBOARD_TEST_BYTES says.
fn length() -> usize {
    std::env::var("OUTBOARD_TEST_BYTES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000_000_000)
}

/// Joins a server on the engine, in this process, with a client on the kernel by a faulty wire.
fn transfer(seed: u64, serve: impl FnOnce(Socket) + Send, consume: impl FnOnce(TcpStream) + Send) {
    let world = World::with_middle().unwrap();
    let wire = FaultyWire::start(&world, FAULTS, seed).unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine(&world, None).unwrap();
    let address = SocketAddr::from((Side::Server.ipv4(), 7_000));
    let (_session, listener) = world
        .on(Side::Server, || {
            let session = Session::attach_at(outboard.socket(), "test")?;
            let listener = session.listen(address, 16)?;
            Ok((session, listener))
        })
        .unwrap();
    assert!(listener.is_offloaded());
    std::thread::scope(|scope| {
        scope.spawn(|| serve(accept(&listener)));
        world
            .on(Side::Client, || {
                let stream = TcpStream::connect_timeout(&address, STALL)?;
                stream.set_read_timeout(Some(STALL))?;
                stream.set_write_timeout(Some(STALL))?;
                consume(stream);
                Ok(())
            })
            .unwrap();
    });
    let report = wire.stop().unwrap();
    assert!(
        report.there.lost + report.back.lost > 0,
        "no faults: {report}"
    );
}

fn accept(listener: &Listener) -> Socket {
    loop {
        listener.wait(Some(STALL)).unwrap();
        match listener.accept() {
            Ok(Accepted::Offloaded(socket)) => return socket,
            Ok(Accepted::Kernel(_)) => panic!("the kernel accepted"),
            Err(Errno::AGAIN) => {}
            Err(error) => panic!("accept: {error}"),
        }
    }
}

fn send_pattern(socket: &Socket) {
    let mut pattern = Pattern::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut left = length();
    while left > 0 {
        let piece = left.min(buffer.len());
        pattern.fill(&mut buffer[..piece]);
        let mut sent = 0;
        while sent < piece {
            match socket.send(&buffer[sent..piece], false) {
                Ok(length) => sent += length,
                Err(Errno::AGAIN) => drop(socket.wait(Readiness::OUT, Some(STALL)).unwrap()),
                Err(error) => panic!("send: {error}"),
            }
        }
        left -= piece;
    }
    socket.shutdown(host::Shutdown::Write).unwrap();
    // The client ends its side when it has all.
    loop {
        match socket.recv(&mut [0]) {
            Ok(0) => break,
            Err(Errno::AGAIN) => drop(socket.wait(Readiness::IN, Some(STALL)).unwrap()),
            other => panic!("recv: {other:?}"),
        }
    }
}

/// Reads to the end of the stream, which is the whole pattern and no more.
fn receive_pattern(mut stream: impl Read) {
    let mut pattern = Pattern::default();
    let mut buffer = vec![0; 256 * 1024];
    let mut expected = vec![0; 256 * 1024];
    let mut received = 0;
    loop {
        let piece = stream.read(&mut buffer).unwrap();
        if piece == 0 {
            break;
        }
        pattern.fill(&mut expected[..piece]);
        assert!(
            buffer[..piece] == expected[..piece],
            "the data differs within {piece} bytes after {received}"
        );
        received += piece;
    }
    assert_eq!(received, length());
}

/// An offloaded socket as a blocking stream.
struct Offloaded(Socket);

impl Read for Offloaded {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.0.recv(buffer) {
                Err(Errno::AGAIN) => drop(self.0.wait(Readiness::IN, Some(STALL))?),
                outcome => return Ok(outcome?),
            }
        }
    }
}

/// Bytes that depend on their place, so that a hash would say no more than a comparison.
#[derive(Default)]
struct Pattern {
    position: u64,
}

impl Pattern {
    fn fill(&mut self, buffer: &mut [u8]) {
        for byte in buffer {
            // The low bits of a product run through all residues; the high ones look random.
            let word = (self.position / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *byte = word.to_le_bytes()[(self.position % 8) as usize];
            self.position += 1;
        }
    }
}
