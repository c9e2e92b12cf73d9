//! What the parts cost: `cargo bench -p outboard-queue-pair`. Ratios within one run count; the
//! absolute figures are the machine's.

use queue_pair::{Area, ConnRef, EngineSide, HostSide, Layout, Sizes, Submission};
use queue_pair::{bells, region};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The best of several rounds, in nanoseconds a call: whatever else runs only makes it worse.
fn nanoseconds(mut call: impl FnMut()) -> f64 {
    let round = |calls: u32, call: &mut dyn FnMut()| {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        start.elapsed()
    };
    let mut calls = 1;
    while round(calls, &mut call) < Duration::from_millis(5) {
        calls *= 2;
    }
    (0..20)
        .map(|_| round(calls, &mut call).as_nanos() as f64 / f64::from(calls))
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    rings();
    sleeping();
    copies();
}

fn sides() -> (EngineSide, HostSide) {
    let sizes = Sizes {
        submission_entries: 256,
        ..Sizes::default()
    };
    region::on_heap(&Layout::new(sizes).expect("possible sizes")).expect("an honest header")
}

fn rings() {
    let (mut engine, mut host) = sides();
    let conn = ConnRef {
        index: 1,
        generation: 1,
    };
    let send = Submission::Send {
        conn,
        addr: 64,
        len: 1448,
        more: false,
        consumed: 99,
    };
    for batch in [1, 16, 128] {
        let cost = nanoseconds(|| {
            for _ in 0..batch {
                assert_eq!(host.submissions.post(black_box(&send)), Ok(true));
            }
            host.submissions.publish();
            while let Ok(Some(submission)) = engine.submissions.take() {
                black_box(submission);
            }
            engine.submissions.release();
        });
        println!(
            "post and take, on one core, batches of {batch:>3}: {:6.1} ns each",
            cost / f64::from(batch)
        );
    }
    let cost = nanoseconds(|| {
        let _ = black_box(engine.submissions.take());
    });
    println!("look at an empty ring:                         {cost:6.1} ns");
}

fn sleeping() {
    let (engine, host) = sides();
    let cost = nanoseconds(|| {
        black_box(host.sleepers.take(bells::ALL));
    });
    println!("fence, and nobody sleeps:                      {cost:6.1} ns");
    let cost = nanoseconds(|| {
        engine.armed.arm(0);
        engine.armed.disarm(0);
    });
    println!("arm and disarm:                                {cost:6.1} ns");
}

fn copies() {
    // A working set of 256 KiB: in the second-level cache, not in the first.
    const WORKING_SET: usize = 256 << 10;
    let area = Area::private("bench", WORKING_SET);
    let mut out = vec![0; WORKING_SET];
    for len in [64, 256, 1024, 1448, 4096, 16384, 65536] {
        let places = WORKING_SET / len;
        let mut at = 0;
        let mut next = || {
            at = (at + 1) % places;
            at * len
        };
        let plain = nanoseconds(|| {
            let at = next();
            area.copy_out(at as u64, black_box(&mut out[..len]))
                .expect("inside");
        });
        let summed = nanoseconds(|| {
            let at = next();
            black_box(
                area.copy_out_sum(at as u64, black_box(&mut out[..len]))
                    .expect("inside"),
            );
        });
        println!(
            "copy {len:>5} bytes: {:5.1} GB/s, with their sum {:5.1} GB/s ({:4.2} of it)",
            len as f64 / plain,
            len as f64 / summed,
            plain / summed,
        );
    }
}
