//! Many connections, and what a process holds.

use super::*;

/// Resident memory of this process, in bytes.
pub fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Opens and accepts so many connections, each from a port or address of its own.
fn open(b: &mut Bench, count: u32) {
    for i in 0..count {
        let [_, _, high, low] = (i / 50_000).to_be_bytes();
        b.peer = [198, 51, high, low].into();
        b.offer = b.offer.port((i % 50_000) as u16 + 1);
        b.handshake();
    }
}

/// A listener with this many connections.
pub fn many(count: u32) -> Bench {
    let config = Config {
        timestamps: false,
        ..Config::default()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    b.offer = b.offer.sack_permitted().wscale(7);
    open(&mut b, count);
    assert_eq!(b.stack.connection_count(), count);
    b
}
