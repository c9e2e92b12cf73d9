//! Runs scenarios by seed on all cores, until one fails, the seeds are used up or the time is:
//!
//! ```text
//! cargo run --release -p outboard-sim --example simulate -- 0..1000000 10
//! ```
//!
//! The second argument is a number of minutes, 0 for no end. `cargo xtask simulate` is the same with
//! options that have names.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sim::scenario::Scenario;

/// How often the run says how far it has come.
const PROGRESS: Duration = Duration::from_secs(10);

/// A seed that takes so long stands still where no count of steps sees it: most take milliseconds.
const STANDSTILL: Duration = Duration::from_secs(600);

/// What a thread is doing: the seed, and since when.
type Doing = Mutex<Option<(u64, Instant)>>;

/// What all threads have done together.
#[derive(Default)]
struct Done {
    seeds: u64,
    segments: u64,
    retransmitted: u64,
    bytes: u64,
    virtual_time: Duration,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let seeds = arguments.next().as_deref().and_then(range);
    let minutes = arguments.next().and_then(|text| text.parse::<f64>().ok());
    let (Some(seeds), Some(minutes)) = (seeds, minutes) else {
        eprintln!("usage: simulate FIRST..END MINUTES");
        return ExitCode::FAILURE;
    };
    if seeds.end - seeds.start == 1 {
        let scenario = Scenario::random(seeds.start).traced();
        println!("{scenario:#?}");
        println!("{}", scenario.run());
        return ExitCode::SUCCESS;
    }
    match run(seeds, minutes) {
        Some(failed) => {
            println!("seed {failed} fails; again with every segment:");
            println!("  cargo xtask simulate --seeds {failed}..{}", failed + 1);
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// `17..18`.
fn range(text: &str) -> Option<Range<u64>> {
    let (first, end) = text.split_once("..")?;
    let range = first.parse().ok()?..end.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

/// Runs the seeds; returns one that fails, if any does.
fn run(seeds: Range<u64>, minutes: f64) -> Option<u64> {
    let begin = Instant::now();
    let limit = (minutes > 0.0).then(|| Duration::from_secs_f64(minutes * 60.0));
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    let failed = Mutex::new(None);
    let done = Mutex::new(Done::default());
    let work = |doing: &Doing| {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || limit.is_some_and(|limit| begin.elapsed() >= limit) {
                return;
            }
            *doing.lock().expect("no panic holds it") = Some((seed, Instant::now()));
            let Ok(outcome) = catch_unwind(|| Scenario::random(seed).run()) else {
                stop.store(true, Ordering::Relaxed);
                failed
                    .lock()
                    .expect("no panic holds it")
                    .get_or_insert(seed);
                return;
            };
            let mut done = done.lock().expect("no panic holds it");
            done.seeds += 1;
            done.segments += outcome.segments;
            done.retransmitted += outcome.retransmitted;
            done.bytes += outcome.bytes;
            done.virtual_time += outcome.time;
        }
    };
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let doing: Vec<Doing> = (0..cores).map(|_| Doing::default()).collect();
    thread::scope(|scope| {
        let spawn = |doing| scope.spawn(move || work(doing));
        let workers: Vec<_> = doing.iter().map(spawn).collect();
        let mut said = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::park_timeout(Duration::from_millis(50));
            let running = doing.iter().zip(&workers).filter(|it| !it.1.is_finished());
            for (doing, _) in running {
                give_up_if_still(*doing.lock().expect("no panic holds it"));
            }
            if said.elapsed() >= PROGRESS {
                said = Instant::now();
                say(&done.lock().expect("no panic holds it"), begin);
            }
        }
    });
    say(&done.into_inner().expect("no panic holds it"), begin);
    failed.into_inner().expect("no panic holds it")
}

/// Ends the run if a seed makes no progress. Its thread cannot be ended alone.
fn give_up_if_still(doing: Option<(u64, Instant)>) {
    if let Some((seed, since)) = doing
        && since.elapsed() >= STANDSTILL
    {
        let took = since.elapsed().as_secs();
        println!("seed {seed} stands still: it has taken {took} s; again with every segment:");
        println!("  cargo xtask simulate --seeds {seed}..{}", seed + 1);
        std::process::exit(1);
    }
}

fn say(done: &Done, begin: Instant) {
    println!(
        "{} seeds, {} segments ({} of them again), {} MB, {:.1} days of their time, in {:.0} s",
        done.seeds,
        done.segments,
        done.retransmitted,
        done.bytes / 1_000_000,
        done.virtual_time.as_secs_f64() / 86_400.0,
        begin.elapsed().as_secs_f64(),
    );
}
