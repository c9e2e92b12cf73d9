//! A stream between a program and the other end, in either direction: what one has sent the other has received.

use super::super::bed::{Bed, Cost};
use super::{number, peer, read};
use crate::process::Program;
use crate::sampler::thread_time;
use anyhow::{Result, bail};
use serde_json::Value;
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What a receiver got.
pub struct Received {
    /// In all.
    pub bytes: u64,
    /// From the first byte to the end of the stream.
    pub passed: Duration,
    /// CPU time of its thread.
    pub used: Duration,
}

/// Has `program` (`outboard subject stream`) send for a while: what the other end got, what the program has printed,
/// and what that cost.
pub fn sent_by(program: Program, bed: &Bed, window: Duration) -> Result<(Received, Value, Cost)> {
    let program = program.args(["--seconds", &window.as_secs().max(1).to_string()]);
    let ((received, printed), cost) = bed.account(|| {
        peer::with(bed, receive, |address| {
            program.args(["--to", &address.to_string()]).output()
        })
    })?;
    let printed = read(&printed)?;
    are_equal(number(&printed, "bytes")?, received.bytes as f64)?;
    let cost = cost.of_child(received.used);
    Ok((received, printed, cost))
}

/// Has `program` (`outboard subject sink`) receive what the other end sends without a pause for a while, so many bytes
/// at once: how many bytes that were, what the program has printed, and what that cost.
pub fn received_by(
    program: Program,
    bed: &Bed,
    sent_at_once: usize,
    window: Duration,
) -> Result<(f64, Value, Cost)> {
    let (((sent, used), printed), cost) = bed.account(|| {
        peer::with(
            bed,
            |stream| {
                let before = thread_time();
                let sent = peer::pour(stream, sent_at_once, window)?;
                Ok((sent, thread_time().saturating_sub(before)))
            },
            |address| program.args(["--from", &address.to_string()]).output(),
        )
    })?;
    let printed = read(&printed)?;
    let received = number(&printed, "bytes")?;
    are_equal(sent as f64, received)?;
    Ok((received, printed, cost.of_child(used)))
}

fn are_equal(sent: f64, received: f64) -> Result<()> {
    if sent != received {
        bail!("{sent} bytes were sent, and {received} received");
    }
    Ok(())
}

/// Bytes that a receiver asks for at once, and a sender sends that has no messages of a size.
pub const PIECE: usize = 64 << 10;

/// Receives to the end of the stream.
fn receive(mut stream: TcpStream) -> Result<Received> {
    let mut bytes = vec![0; PIECE];
    let mut got = stream.read(&mut bytes)? as u64;
    let (began, used) = (Instant::now(), thread_time());
    loop {
        let read = stream.read(&mut bytes)?;
        if read == 0 {
            break;
        }
        got += read as u64;
    }
    Ok(Received {
        bytes: got,
        passed: began.elapsed(),
        used: thread_time().saturating_sub(used),
    })
}

#[cfg(test)]
mod tests {
    use super::{are_equal, receive};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn every_byte_is_counted_to_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let received = std::thread::spawn(|| receive(stream));
        sender.write_all(&[7; 100_001]).unwrap();
        drop(sender);
        assert_eq!(received.join().unwrap().unwrap().bytes, 100_001);
    }

    #[test]
    fn a_byte_that_did_not_arrive_is_an_error() {
        assert!(are_equal(7.0, 7.0).is_ok());
        let error = are_equal(7.0, 6.0).unwrap_err().to_string();
        assert_eq!(error, "7 bytes were sent, and 6 received");
    }
}
