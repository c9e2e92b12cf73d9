//! A program of ours that answers every message with as many bytes, and a client for it.

use super::super::Setup;
use super::super::bed::{Bed, CLIENT_CORE};
use super::subject;
use crate::cores;
use crate::process::Process;
use crate::world::Side;
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const PORT: u16 = 7_009;
/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);

/// How the program is told what it is.
pub struct Words<'a> {
    /// Its way, and further arguments.
    pub way: &'a [&'a str],
    /// Bytes of a message.
    pub size: usize,
    /// Whether it is on the engine by the interposer.
    pub is_interposed: bool,
    /// Whether it is on the engine, if there is one.
    pub is_on_engine: bool,
}

/// Where it listens.
fn address() -> SocketAddr {
    (Side::Server.ipv4(), PORT).into()
}

/// Starts it, and waits until it is reached, by its engine if it has one.
pub fn start(setup: &Setup, bed: &Bed, words: &Words<'_>) -> Result<Process> {
    let world = bed.world();
    let mut server = subject(setup, bed, words.is_interposed)
        .args(["echo", "--at", &address().to_string()])
        .args(["--size", &words.size.to_string(), "--way"])
        .args(words.way)
        .log(world.scratch().join("echo.log"))
        .start()?;
    match bed.outboard() {
        Some(outboard) if words.is_on_engine => {
            outboard.wait_until_taken(&mut server, LIMIT, PORT, || true)?;
        }
        _ => server.wait_until(LIMIT, || world.is_reached(address()))?,
    }
    Ok(server)
}

/// Runs `work` where clients are.
pub fn as_client<T: Send>(bed: &Bed, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    as_client_on(bed, CLIENT_CORE, work)
}

/// As [`as_client`], on this core.
pub fn as_client_on<T: Send>(
    bed: &Bed,
    core: usize,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    bed.world().on(Side::Client, || {
        cores::stay_on(core)?;
        work()
    })
}

/// A connection to it.
pub fn connect() -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address(), LIMIT).context("connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// One message there, and one back. How long that took.
pub fn exchange(stream: &mut TcpStream, message: &mut [u8]) -> Result<Duration> {
    let began = Instant::now();
    stream.write_all(message).context("message")?;
    stream.read_exact(message).context("answer")?;
    Ok(began.elapsed())
}

/// Messages before those that count.
pub const WARM_UP: usize = 50;

/// One message of so many bytes after another, for a while, over one connection: how long each took there and back.
pub fn exchanges(size: usize, window: Duration) -> Result<Vec<Duration>> {
    let (mut stream, mut message) = (connect()?, vec![7; size]);
    for _ in 0..WARM_UP {
        exchange(&mut stream, &mut message)?;
    }
    let (mut times, began) = (Vec::new(), Instant::now());
    while began.elapsed() < window {
        times.push(exchange(&mut stream, &mut message)?);
    }
    Ok(times)
}

/// The middle of some times, in microseconds.
pub fn median(times: &mut [Duration]) -> Option<f64> {
    let [middle] = quantiles(times, [0.5])?;
    Some(middle)
}

/// What such parts of some times are below, from 0 to 1, in microseconds.
pub fn quantiles<const N: usize>(times: &mut [Duration], parts: [f64; N]) -> Option<[f64; N]> {
    let last = times.len().checked_sub(1)?;
    Some(parts.map(|part| {
        let index = (times.len() as f64 * part) as usize;
        let (_, time, _) = times.select_nth_unstable(index.min(last));
        time.as_secs_f64() * 1e6
    }))
}

#[cfg(test)]
mod tests {
    use super::{median, quantiles};
    use std::time::Duration;

    #[test]
    fn the_middle_is_in_microseconds() {
        let mut times = [9, 2_500, 1].map(Duration::from_nanos);
        assert_eq!(median(&mut times), Some(0.009));
        assert_eq!(median(&mut []), None);
        let mut times: Vec<Duration> = (0..200).rev().map(Duration::from_micros).collect();
        assert_eq!(
            quantiles(&mut times, [0.99, 0.5, 1.0]),
            Some([198.0, 100.0, 199.0])
        );
    }
}
