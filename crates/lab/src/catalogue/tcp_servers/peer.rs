//! The other end of what is measured: a thread of the lab on the client's side, on the kernel's TCP.

use super::super::bed::{Bed, CLIENT_CORE};
use crate::cores;
use crate::world::Side;
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs `program`, which connects to the address that it is given, while a thread serves its connection by
/// `serve`. What both returned.
pub fn with<T: Send, U>(
    bed: &Bed,
    serve: impl FnOnce(TcpStream) -> Result<T> + Send,
    program: impl FnOnce(SocketAddr) -> Result<U>,
) -> Result<(T, U)> {
    let listener = bed.world().on(Side::Client, || {
        Ok(TcpListener::bind((Side::Client.ipv4(), 0))?)
    })?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            cores::stay_on(CLIENT_CORE)?;
            serve(accept(&listener, &over)?)
        });
        let did = program(address);
        over.store(true, Ordering::Relaxed);
        let served = match served.join() {
            Ok(served) => served,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // What the program complains of is the cause, if both do.
        let did = did?;
        Ok((served.context("the other end")?, did))
    })
}

/// The program's connection, unless it is over before.
fn accept(listener: &TcpListener, over: &AtomicBool) -> Result<TcpStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if over.load(Ordering::Relaxed) {
                    bail!("nobody has connected");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Answers every `length` bytes with one, to the end of the stream. How often it did.
pub fn acknowledge(mut stream: TcpStream, length: usize) -> Result<u64> {
    let mut bytes = vec![0; length];
    let mut answers = 0;
    loop {
        let mut read = 0;
        while read < length {
            match stream.read(&mut bytes[read..])? {
                0 if read == 0 => return Ok(answers),
                0 => bail!("the stream ends in the middle of a batch"),
                count => read += count,
            }
        }
        stream.write_all(&[1])?;
        answers += 1;
    }
}

/// Sends pieces of so many bytes without a pause for a while, and ends the stream. How many bytes that were.
pub fn pour(mut stream: TcpStream, piece: usize, window: Duration) -> Result<u64> {
    // Small ones are joined, as those of a program are that streams.
    stream.set_nodelay(false)?;
    let bytes: Vec<u8> = (0..piece).map(|index| (index % 251) as u8).collect();
    let (began, mut sent) = (Instant::now(), 0);
    while began.elapsed() < window {
        stream.write_all(&bytes)?;
        sent += piece as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    // The other end closes when it has all of it.
    let left = stream.read(&mut [0])?;
    if left > 0 {
        bail!("the other end has something to say");
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::{accept, acknowledge, pour};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::AtomicBool;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.set_nonblocking(true).unwrap();
        (one, accept(&listener, &AtomicBool::new(false)).unwrap())
    }

    #[test]
    fn whole_batches_are_answered_and_half_a_one_is_an_error() {
        let (mut one, other) = pair();
        let served = std::thread::spawn(|| acknowledge(other, 10));
        for _ in 0..3 {
            one.write_all(&[7; 6]).unwrap();
            one.write_all(&[7; 4]).unwrap();
            one.read_exact(&mut [0]).unwrap();
        }
        drop(one);
        assert_eq!(served.join().unwrap().unwrap(), 3);
        let (mut one, other) = pair();
        one.write_all(&[7; 6]).unwrap();
        drop(one);
        assert!(acknowledge(other, 10).is_err());
    }

    #[test]
    fn what_is_poured_arrives_to_the_end() {
        for piece in [7, 64 << 10] {
            let (mut one, other) = pair();
            let window = std::time::Duration::from_millis(20);
            let pouring = std::thread::spawn(move || pour(other, piece, window));
            let mut all = Vec::new();
            one.read_to_end(&mut all).unwrap();
            drop(one);
            assert_eq!(pouring.join().unwrap().unwrap(), all.len() as u64);
            assert!(!all.is_empty() && all.len().is_multiple_of(piece));
        }
    }

    #[test]
    fn a_program_that_never_connects_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let error = accept(&listener, &AtomicBool::new(true)).unwrap_err();
        assert!(error.to_string().contains("nobody"), "{error}");
    }
}
