//! The faulty wire, with the kernel's TCP at both ends.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use lab::faults::{Faults, FaultyWire, Report, Wire};
use lab::{Side, World};

const LIMIT: Duration = Duration::from_secs(60);

/// Sends `total` bytes from server to client over a faulty wire, and returns what the wire did and
/// how long it took.
fn transfer(address: IpAddr, wire: impl Into<Wire>, total: usize) -> (Report, Duration) {
    let world = World::with_middle().expect("a private network");
    let wire = FaultyWire::start(&world, wire, 1).expect("wire");
    let start = Instant::now();
    std::thread::scope(|scope| {
        let world = &world;
        let listener = scope.spawn(move || {
            world.enter(Side::Server).expect("enter");
            TcpListener::bind((address, 80)).expect("listen")
        });
        let listener = listener.join().expect("listener");
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            stream.set_write_timeout(Some(LIMIT)).expect("timeout");
            stream.write_all(&pattern(total)).expect("write");
        });
        scope.spawn(move || {
            world.enter(Side::Client).expect("enter");
            let server = SocketAddr::new(address, 80);
            let mut stream = TcpStream::connect_timeout(&server, LIMIT).expect("connect");
            stream.set_read_timeout(Some(LIMIT)).expect("timeout");
            let mut received = Vec::with_capacity(total);
            stream.read_to_end(&mut received).expect("read");
            assert!(received == pattern(total), "the data is not what was sent");
        });
    });
    let taken = start.elapsed();
    (wire.stop().expect("report"), taken)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index ^ (index >> 8)) as u8)
        .collect()
}

#[test]
fn a_faultless_wire_passes_everything_unchanged() {
    if lab::skip_without_root("a_faultless_wire_passes_everything_unchanged") {
        return;
    }
    const TOTAL: usize = 100 << 20;
    let (report, taken) = transfer(Side::Server.ipv4().into(), Faults::NONE, TOTAL);
    println!(
        "{:.2} Gb/s\n{report}",
        TOTAL as f64 * 8.0 / taken.as_secs_f64() / 1e9
    );
    for passed in [report.there, report.back] {
        assert_eq!(passed.sent + passed.overrun, passed.received);
        assert_eq!(
            (passed.lost, passed.duplicated, passed.held_back),
            (0, 0, 0)
        );
    }
    // Frames are of the size of the MTU, not the super-frames that the kernel likes to pass.
    assert!(report.there.received > TOTAL as u64 / 1500);
}

#[test]
fn faults_come_as_asked_for_and_tcp_survives_them() {
    if lab::skip_without_root("faults_come_as_asked_for_and_tcp_survives_them") {
        return;
    }
    let faults = Faults {
        loss: 0.01,
        duplication: 0.01,
        reorder: 0.02,
        reorder_distance: 4,
        ..Faults::NONE
    };
    let (report, _) = transfer(Side::Server.ipv6().into(), faults, 20 << 20);
    println!("{report}");
    let there = report.there;
    let share = |count: u64| count as f64 / there.received as f64;
    assert!((0.005..0.02).contains(&share(there.lost)), "{there}");
    assert!((0.005..0.02).contains(&share(there.duplicated)), "{there}");
    assert!((0.01..0.04).contains(&share(there.held_back)), "{there}");
    assert_eq!(
        there.received + there.duplicated,
        there.sent + there.lost + there.overrun,
        "{there}"
    );
}

#[test]
fn damaged_segments_are_dropped_by_their_checksums() {
    if lab::skip_without_root("damaged_segments_are_dropped_by_their_checksums") {
        return;
    }
    for address in [
        IpAddr::from(Side::Server.ipv4()),
        Side::Server.ipv6().into(),
    ] {
        let faults = Faults {
            corruption: 0.02,
            burst: 0.001,
            burst_length: 8,
            ..Faults::NONE
        };
        let (report, _) = transfer(address, faults, 10 << 20);
        println!("{report}");
        assert!(report.there.damaged > 50, "{report}");
        assert!(report.there.lost > 10, "{report}");
    }
}

#[test]
fn a_long_and_narrow_wire_takes_its_time() {
    if lab::skip_without_root("a_long_and_narrow_wire_takes_its_time") {
        return;
    }
    let wire = Wire {
        delay: Duration::from_millis(25),
        bandwidth: Some(20_000_000),
        queue: 30_000,
        ..Wire::PERFECT
    };
    const TOTAL: usize = 2_000_000;
    let (report, taken) = transfer(Side::Server.ipv4().into(), wire, TOTAL);
    println!("{taken:?}\n{report}");
    // The handshake and the first byte take a round trip and a half, and then come 2 MB at 2.5 MB/s
    // at most. (How much longer depends on the machine.)
    assert!(taken > Duration::from_millis(75 + 800), "{taken:?}");
    assert!(report.there.overflowed > 0, "{report}");
}
