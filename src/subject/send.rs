//! What a send costs. A batch of sends, which the buffers have room for, then a byte of the peer's, who
//! has all of it; only the sends are timed.

use super::channel::posting;
use super::median::median;
use super::sender::{Sender, Way};
use super::used::cpu;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::OnceLock;
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

/// Batches by which it is learnt what a send takes that finds the engine awake, and sends of one.
const LEARN: usize = 200;
const LEARN_BATCH: u32 = 8;

/// Sends, and says what a call took, in nanoseconds: the median over batches; and of native sends its parts.
pub fn run(args: &Args) -> Result<Value> {
    let mut sender = Sender::connect(args.to, args.way, args.size as usize, true)?;
    for _ in 0..WARM_UP {
        batch(&mut sender, args.batch)?;
    }
    // Of those that are waited for every one is a first one.
    let learnt = sender.is_synchronous().then(|| learn(&mut sender));
    let learnt = learnt.transpose()?;
    let window = Duration::from_secs(args.seconds);
    let mut taken = Vec::new();
    let (began, used) = (Instant::now(), cpu());
    while began.elapsed() < window && taken.len() < MOST {
        taken.push(batch(&mut sender, args.batch)?);
    }
    let used = cpu().saturating_sub(used);
    ensure!(!taken.is_empty(), "no time passed for a single batch");
    let sends = taken.len() as u64 * u64::from(args.batch);
    let each = f64::from(args.batch);
    let middle = |of: fn(&Taken) -> f64| median(&mut taken.iter().map(of).collect::<Vec<_>>());
    let call = (middle(|taken| taken.first + taken.rest + taken.waited)) / each;
    let is_native = args.way != Way::Sockets;
    let parts = is_native.then(|| -> Result<Parts> {
        let later = match learnt {
            Some(later) => later,
            None => middle(|taken| taken.rest) / (each - 1.0).max(1.0),
        };
        Ok(Parts::of(
            middle(|taken| taken.first),
            later,
            posting(args.size)?,
            each,
        ))
    });
    let parts = parts.transpose()?;
    let waited = is_native.then(|| middle(|taken| taken.waited) / each);
    let also = WARM_UP as u64 * u64::from(args.batch)
        + learnt.map_or(0, |_| LEARN as u64 * u64::from(LEARN_BATCH));
    Ok(json!({
        "sends": sends,
        "all_sends": sends + also,
        "call_ns": call,
        "wait_ns": waited,
        "processing_ns": parts.as_ref().map(|parts| parts.processing),
        "posting_ns": parts.as_ref().map(|parts| parts.posting),
        "doorbell_ns": parts.as_ref().map(|parts| parts.doorbell),
        "cpu_ns": used.as_nanos() as f64 / sends as f64,
    }))
}

/// What the sends of a batch took, in nanoseconds.
struct Taken {
    /// The first: the engine may sleep, and is rung for then.
    first: f64,
    /// All others together.
    rest: f64,
    /// What all waited, if they are waited for.
    waited: f64,
}

/// What a send took at its host, in nanoseconds.
#[derive(Debug, PartialEq)]
struct Parts {
    /// Finding the connection, looking whether it may be sent, remembering the cookie; copying, if it does.
    processing: f64,
    /// The entry of the ring, its publication, and the look whether the engine sleeps.
    posting: f64,
    /// What the first of a batch took more: it rings for an engine that sleeps.
    doorbell: f64,
}

impl Parts {
    /// The parts of a send on average, if the first of a batch of `each` took so long, each later one so long, and
    /// posting by itself so long.
    fn of(first: f64, later: f64, posting: f64, each: f64) -> Self {
        // A first send is at least a later one.
        let later = later.min(first);
        Self {
            processing: (later - posting).max(0.0),
            posting: posting.min(later),
            doorbell: (first - later) / each,
        }
    }
}

/// Sends once each batch, with looks at the clock around the first send, and around each wait.
fn batch(sender: &mut Sender, sends: u32) -> Result<Taken> {
    let is_synchronous = sender.is_synchronous();
    let began = Instant::now();
    sender.send()?;
    let sent = Instant::now();
    let mut waited = Duration::ZERO;
    if is_synchronous {
        sender.settle()?;
        waited = sent.elapsed();
    }
    let first = sent - began;
    let began = Instant::now();
    for _ in 1..sends {
        sender.send()?;
        // A look at the clock costs as much as a part of an asynchronous send.
        if is_synchronous {
            let posted = Instant::now();
            sender.settle()?;
            waited += posted.elapsed();
        }
    }
    let rest = began.elapsed();
    sender.answer()?;
    let waited = waited.as_nanos() as f64;
    let looked = clock();
    let rest = match sends {
        1 => 0.0,
        _ if is_synchronous => rest.as_nanos() as f64 - waited,
        _ => rest.as_nanos() as f64 - looked,
    };
    Ok(Taken {
        first: (first.as_nanos() as f64 - looked).max(0.0),
        rest: rest.max(0.0),
        waited,
    })
}

/// What a send takes, in nanoseconds, that follows another one at once, and is not waited for; the peer answers
/// each.
fn learn(sender: &mut Sender) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..LEARN {
        sender.send()?;
        let began = Instant::now();
        for _ in 1..LEARN_BATCH {
            sender.send()?;
        }
        let took = began.elapsed().as_nanos() as f64 - clock();
        times.push(took / f64::from(LEARN_BATCH - 1));
        for _ in 0..LEARN_BATCH {
            sender.answer()?;
        }
        sender.settle()?;
    }
    Ok(median(&mut times).max(0.0))
}

/// What a look at the clock takes, in nanoseconds.
fn clock() -> f64 {
    static TAKES: OnceLock<f64> = OnceLock::new();
    *TAKES.get_or_init(|| {
        let look = |_| {
            let before = Instant::now();
            (Instant::now() - before).as_nanos() as f64
        };
        median(&mut (0..1_001).map(look).collect::<Vec<_>>())
    })
}

#[cfg(test)]
mod tests {
    use super::{Args, Parts, run};
    use crate::subject::sender::Way;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn the_middle_is_told_and_not_the_mean() {
        assert_eq!(super::median(&mut [9.0, 1.0, 500.0]), 9.0);
    }

    /// Of eight sends, seven without a ring: together they are what all eight took.
    #[test]
    fn the_parts_of_a_send_are_the_whole() {
        let found = Parts::of(2_000.0, 200.0, 50.0, 8.0);
        let (processing, posting, doorbell) = (150.0, 50.0, 225.0);
        let wanted = Parts {
            processing,
            posting,
            doorbell,
        };
        assert_eq!(found, wanted);
        assert_eq!(
            processing + posting + doorbell,
            (2_000.0 + 7.0 * 200.0) / 8.0
        );
        // The clock is not so exact that a part could not come out below nothing.
        let found = Parts::of(180.0, 200.0, 190.0, 1.0);
        assert_eq!((found.processing, found.doorbell), (0.0, 0.0));
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
        for part in ["wait_ns", "processing_ns", "posting_ns", "doorbell_ns"] {
            assert!(found[part].is_null(), "sockets do not say: {part}");
        }
    }
}
