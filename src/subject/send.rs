//! What a send costs. A batch of sends, which the buffers have room for, then a byte of the peer's, who
//! has all of it; only the sends are timed.

use super::sender::{Sender, Way};
use super::used::cpu;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time sends
#[derive(clap::Args)]
pub struct Args {
    /// Whom to send to; after each batch it answers with a byte
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// How
    #[arg(long)]
    way: Way,
    /// Bytes of a send
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    size: u32,
    /// Sends of a batch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    batch: u32,
    /// For how long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
}

/// Batches before those that count: pages are touched and windows open then.
const WARM_UP: usize = 20;
/// More batches are not kept, however fast the machine is.
const MOST: usize = 2_000_000;

/// Sends, and says what a call took, in nanoseconds: the median over batches.
pub fn run(args: &Args) -> Result<Value> {
    let mut sender = Sender::connect(args.to, args.way, args.size as usize, true)?;
    for _ in 0..WARM_UP {
        batch(&mut sender, args.batch)?;
    }
    let window = Duration::from_secs(args.seconds);
    let (mut calls, mut waits) = (Vec::new(), Vec::new());
    let (began, used) = (Instant::now(), cpu());
    while began.elapsed() < window && calls.len() < MOST {
        let (call, wait) = batch(&mut sender, args.batch)?;
        calls.push(call);
        waits.push(wait);
    }
    let used = cpu().saturating_sub(used);
    ensure!(!calls.is_empty(), "no time passed for a single batch");
    let sends = calls.len() as u64 * u64::from(args.batch);
    let each = f64::from(args.batch);
    Ok(json!({
        "sends": sends,
        "all_sends": sends + WARM_UP as u64 * u64::from(args.batch),
        "call_ns": median(&mut calls) / each,
        "wait_ns": sender.is_synchronous().then(|| median(&mut waits) / each),
        "cpu_ns": used.as_nanos() as f64 / sends as f64,
    }))
}

/// What the calls of a batch took, in nanoseconds, and what of it they waited.
fn batch(sender: &mut Sender, sends: u32) -> Result<(f64, f64)> {
    let is_synchronous = sender.is_synchronous();
    let mut waited = Duration::ZERO;
    let began = Instant::now();
    for _ in 0..sends {
        sender.send()?;
        // A look at the clock costs as much as a part of an asynchronous send.
        if is_synchronous {
            let posted = Instant::now();
            sender.settle()?;
            waited += posted.elapsed();
        }
    }
    let took = began.elapsed();
    sender.answer()?;
    Ok((took.as_nanos() as f64, waited.as_nanos() as f64))
}

/// The middle of them, which are at least one.
pub fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::{Args, run};
    use crate::subject::sender::Way;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn the_middle_is_told_and_not_the_mean() {
        assert_eq!(super::median(&mut [9.0, 1.0, 500.0]), 9.0);
    }

    #[test]
    fn every_batch_is_answered_and_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut batch = [0; 4 * 100];
            let mut batches = 0_u64;
            while stream.read_exact(&mut batch).is_ok() {
                assert_eq!((batch[99], batch[100], batch[350]), (99, 0, 50));
                batches += 1;
                stream.write_all(&[1]).unwrap();
            }
            batches
        });
        let args = Args {
            to,
            way: Way::Sockets,
            size: 100,
            batch: 4,
            seconds: 1,
        };
        let found = run(&args).unwrap();
        assert_eq!(found["all_sends"], 4 * peer.join().unwrap());
        assert!(found["call_ns"].as_f64().unwrap() > 0.0);
        assert!(found["cpu_ns"].as_f64().unwrap() > 0.0);
        assert!(found["wait_ns"].is_null(), "sockets do not say");
    }
}
