//! The engine's TCP and the kernel's, over a wire with every fault there is: two hundred transfers of
//! random size and pattern, with half-closes, resets and slow readers, in which either is client
//! and server, on IPv4 and IPv6. What was sent and what arrived is hashed at both ends.
//!
//! `OUTBOARD_TEST_SEED` chooses other transfers and faults, `OUTBOARD_TEST_TRANSFERS` how many.
#![forbid(unsafe_code)]

#[path = "transfers/mod.rs"]
mod transfers;

use std::path::Path;
use std::time::Duration;

use lab::World;
use lab::faults::{Faults, FaultyWire, Wire};
use lab::outboard::{Outboard, total};

use transfers::Series;

/// Each way.
const WIRE: Wire = Wire {
    faults: Faults {
        loss: 0.01,
        duplication: 0.005,
        reorder: 0.01,
        reorder_distance: 8,
        burst: 0.000_5,
        burst_length: 6,
        corruption: 0.005,
    },
    delay: Duration::from_millis(3),
    ..Wire::PERFECT
};

#[test]
#[ignore = "only run by the tests of this file"]
fn an_end_of_transfers() {
    transfers::program();
}

#[test]
fn transfers_of_every_kind_between_engine_and_kernel() {
    if lab::skip_without_root("transfers_of_every_kind_between_engine_and_kernel") {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let series = Series {
        seed: number("OUTBOARD_TEST_SEED").unwrap_or(1),
        count: number("OUTBOARD_TEST_TRANSFERS").unwrap_or(200),
    };
    println!("OUTBOARD_TEST_SEED={}", series.seed);
    let world = World::with_middle().expect("a private network");
    let wire = FaultyWire::start(&world, WIRE, series.seed).expect("a wire");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine(&world, None).expect("an engine");

    transfers::run(&world, Some(&outboard), series);

    let report = wire.stop().expect("a report");
    println!("{report}");
    for passed in [report.there, report.back] {
        let faults = [
            passed.lost,
            passed.duplicated,
            passed.held_back,
            passed.damaged,
        ];
        assert!(faults.iter().all(|&count| count > 0), "{report}");
    }
    // It was the engine that accepted one half, and opened the other.
    let counters = outboard.stats().expect("stats");
    for opened in ["tcp_passive_opens", "tcp_active_opens"] {
        assert_eq!(
            total(&counters, opened),
            series.count as f64 / 2.0,
            "{opened}"
        );
    }
}
