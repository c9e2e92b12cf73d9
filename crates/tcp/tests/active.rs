//! What an active connection holds: in a process of its own, since resident memory is the whole
//! process's and what one test has freed the next one reuses.

mod common;

use common::*;
use tcp::{Config, ConnOptions};

/// Connections of the measurement.
const COUNT: u16 = 20_000;

/// Bytes that a connection may take while ten segments of ours are in flight and three ranges of the
/// peer's are held out of order.
const ACTIVE: usize = 2_048;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn active_connections_take_little_more_than_idle_ones() {
    let config = Config {
        timestamps: false,
        ..Config::default()
    };
    let before = resident();
    let mut b = Bench::listening(config, ConnOptions::default());
    b.offer = b.offer.sack_permitted().wscale(7);
    for port in 1..=COUNT {
        b.offer = b.offer.port(port);
        b.handshake();
        b.send(10_000);
        for hole in [2_000, 4_000, 6_000] {
            b.inject(seg(1 + hole, 500).ack(1).port(port));
        }
        b.sink.sent.clear();
        b.store.placed.clear();
    }
    assert_eq!(b.info().in_flight, 10_000);
    assert_eq!(b.info().out_of_order, 1_500);
    let each = resident().saturating_sub(before) / usize::from(COUNT);
    println!("{each} bytes an active connection");
    assert!(each > 500, "{each} bytes: that was no measurement");
    assert!(each < ACTIVE, "{each} bytes");
}
