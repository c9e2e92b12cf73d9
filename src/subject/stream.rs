//! Sends without a pause, as ttcp does, and says how much.

use super::sender::{Sender, Way};
use super::used::cpu;
use anyhow::Result;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Send without a pause
#[derive(clap::Args)]
pub struct Args {
    /// Whom to send to
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// How
    #[arg(long)]
    way: Way,
    /// Bytes of a send
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    size: u32,
    /// For how long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
}

/// Sends that are made between two looks at the clock.
const RUN: u64 = 16;

/// Sends, and says what it used meanwhile.
pub fn run(args: &Args) -> Result<Value> {
    // Whoever waits until a send has left has it leave at once, however small it is: otherwise Nagle's algorithm
    // would have him wait for the acknowledgement of the one before.
    let at_once = args.way.is_synchronous();
    let mut sender = Sender::connect(args.to, args.way, args.size as usize, at_once)?;
    let window = Duration::from_secs(args.seconds);
    let (began, used) = (Instant::now(), cpu());
    let mut sends = 0;
    while began.elapsed() < window {
        for _ in 0..RUN {
            sender.send()?;
            if sender.is_synchronous() {
                sender.settle()?;
            }
        }
        sends += RUN;
    }
    let (passed, used) = (began.elapsed(), cpu().saturating_sub(used));
    sender.settle()?;
    Ok(json!({
        "bytes": sends * u64::from(args.size),
        "seconds": passed.as_secs_f64(),
        "cpu_seconds": used.as_secs_f64(),
    }))
}

#[cfg(test)]
mod tests {
    use super::{Args, run};
    use crate::subject::sender::Way;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn what_it_says_it_sent_has_arrived() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut bytes, mut all) = (vec![0; 1 << 16], 0);
            while let Ok(read @ 1..) = stream.read(&mut bytes) {
                all += read as u64;
            }
            all
        });
        let args = Args {
            to,
            way: Way::Sockets,
            size: 1_000,
            seconds: 1,
        };
        let found = run(&args).unwrap();
        assert_eq!(found["bytes"], peer.join().unwrap());
        assert!(found["seconds"].as_f64().unwrap() >= 1.0);
        assert!(found["cpu_seconds"].as_f64().unwrap() > 0.0);
    }
}
