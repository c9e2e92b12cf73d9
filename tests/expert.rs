//! What tshark's experts say of the engine's TCP: of no frame that it sends do they find what they
//! would not find of Linux's, in the same transfers over the same wire.
//!
//! Captured is what the server's side sends and receives, before and behind the wire's faults. The
//! wire damages nothing: what experts find in a damaged frame is chance. On the perfect wire only a
//! machine that stops for a moment makes anyone send twice, and what follows from that is chance as
//! well: there, connections in which something was sent twice are left out.
//! `OUTBOARD_TEST_SEED` chooses other transfers and faults.
#![forbid(unsafe_code)]

#[path = "transfers/mod.rs"]
mod transfers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lab::faults::{Faults, FaultyWire, Wire};
use lab::outboard::Outboard;
use lab::world::MIDDLE_INTERFACES;
use lab::{Process, Side, World};

use transfers::Series;

const STARTING: Duration = Duration::from_secs(10);

/// Frames that are lost leave room for those that come later, and long waits for both to be seen.
const DELAY: Duration = Duration::from_millis(3);

#[test]
#[ignore = "only run by the tests of this file"]
fn an_end_of_transfers() {
    transfers::program();
}

#[test]
fn experts_find_nothing_new_on_a_perfect_wire() {
    let wire = Wire {
        delay: DELAY,
        ..Wire::PERFECT
    };
    compare(
        "experts_find_nothing_new_on_a_perfect_wire",
        wire,
        Frames::NothingSentTwice,
    );
}

#[test]
fn experts_find_nothing_new_on_a_faulty_wire() {
    let faults = Faults {
        loss: 0.01,
        duplication: 0.005,
        reorder: 0.01,
        reorder_distance: 8,
        burst: 0.000_5,
        burst_length: 6,
        ..Faults::NONE
    };
    let wire = Wire {
        faults,
        delay: DELAY,
        ..Wire::PERFECT
    };
    compare(
        "experts_find_nothing_new_on_a_faulty_wire",
        wire,
        Frames::All,
    );
}

fn compare(test: &str, wire: Wire, frames: Frames) {
    if lab::skip_without(test, &["tshark", "dumpcap"]) {
        return;
    }
    let seed = std::env::var("OUTBOARD_TEST_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("OUTBOARD_TEST_SEED={seed}");
    let series = Series { seed, count: 120 };
    let [one, other] = findings(false, wire, series, frames);
    let [ours, peer] = findings(true, wire, series, frames);
    println!("Linux: {one:#?}\n{other:#?}\nagainst the engine: {peer:#?}\nengine: {ours:#?}");
    let of_linux = |kind: &Kind| {
        let seen = [&one, &other, &peer]
            .iter()
            .any(|kinds| kinds.contains_key(kind));
        seen || BY_CHANCE.contains(&kind.2.as_str())
    };
    let new: Vec<_> = ours.keys().filter(|kind| !of_linux(kind)).collect();
    assert!(new.is_empty(), "seed {seed}, not so for Linux: {new:#?}");
}

/// The frames that the experts are asked about.
#[derive(Clone, Copy)]
enum Frames {
    All,
    /// Those of the connections in which neither side has sent anything twice.
    NothingSentTwice,
}

/// What Linux shows as well, but not every time.
const BY_CHANCE: &[&str] = &[
    // One segment in 65,536, and of Linux: where the sum is 0 its software writes the other zero.
    "TCP Checksum #xffff instead of #x# (see RFC #)",
    // A tail loss probe meets the acknowledgement that a slow reader has held up.
    "This frame is a (suspected) spurious retransmission",
    // A probe of a closed window meets the news that it has opened: the probe, and its answer.
    "TCP keep-alive segment",
    "ACK to a TCP keep-alive segment",
];

/// Frames to leave out: the answer to such a probe, which says once more what the acknowledgement
/// said, and is a duplicate acknowledgement if the window has not moved since.
const ANSWERED_PROBES: &str = "tcp.analysis.duplicate_ack && tcp.options.sack.dsack_le";

/// Severity, group and summary, numbers left out.
type Kind = (String, String, String);

/// What the experts find, and how often: of the frames of the server's side, and of the client's.
fn findings(
    on_engine: bool,
    wire: Wire,
    series: Series,
    frames: Frames,
) -> [BTreeMap<Kind, u64>; 2] {
    let world = World::with_middle().expect("a private network");
    let wire = FaultyWire::start(&world, wire, series.seed).expect("a wire");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = on_engine.then(|| outboard.start_engine(&world, None).expect("an engine"));
    let (capture, file) = capture(&world);
    transfers::run(&world, engine.as_ref().map(|_| &outboard), series);
    wire.stop().expect("a report");
    capture.stop(STARTING).expect("the capture ends");
    if let Ok(keep) = std::env::var("OUTBOARD_TEST_KEEP") {
        let to = format!(
            "{keep}/{}.pcapng",
            if on_engine { "engine" } else { "linux" }
        );
        std::fs::copy(&file, to).expect("copy");
    }
    let left_out = match frames {
        Frames::All => BTreeSet::new(),
        Frames::NothingSentTwice => sent_twice(&file),
    };
    assert!(
        left_out.len() as u64 <= series.count * 2 / 3,
        "{} of {} connections sent something twice on a perfect wire",
        left_out.len(),
        series.count
    );
    [Side::Server, Side::Client].map(|side| experts(&file, side, &left_out))
}

/// The connections, by tshark's numbers, in which a frame was sent twice: on a wire that keeps the
/// order, one that is out of order was as well.
fn sent_twice(file: &Path) -> BTreeSet<u64> {
    let mut tshark = tshark(file);
    let again = "tcp.analysis.retransmission || tcp.analysis.out_of_order";
    tshark.args(["-Y", again]);
    tshark.args(["-T", "fields", "-e", "tcp.stream"]);
    let printed = lab::tool::output(&mut tshark, "tshark").expect("tshark");
    let streams = printed.lines().map(|line| line.trim().parse());
    streams.map(|stream| stream.expect("a number")).collect()
}

/// tshark, reading a capture.
fn tshark(file: &Path) -> Command {
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(file);
    // Payload is random: whatever it looks like, it is not.
    for port in transfers::PORTS {
        tshark.args(["-d", &format!("tcp.port=={port},data")]);
    }
    for layer in ["tcp", "ip"] {
        tshark.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
    }
    tshark
}

/// Begins to capture between the server's side and the wire.
fn capture(world: &World) -> (Process, PathBuf) {
    let file = world.scratch().join("capture.pcapng");
    let log = world.scratch().join("dumpcap.log");
    let mut dumpcap = world
        .program_in_middle("dumpcap")
        .expect("a middle")
        .args(["-q", "-B", "256", "-i", MIDDLE_INTERFACES[0], "-w"])
        .arg(&file)
        .log(&log)
        .start()
        .expect("dumpcap");
    let started = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("File: "));
    dumpcap.wait_until(STARTING, started).expect("a capture");
    (dumpcap, file)
}

/// What tshark says of the frames that a side has sent, some connections left out.
fn experts(file: &Path, side: Side, left_out: &BTreeSet<u64>) -> BTreeMap<Kind, u64> {
    let (ipv4, ipv6) = (side.ipv4(), side.ipv6());
    let mut frames = format!("(ip.src == {ipv4} || ipv6.src == {ipv6}) && !({ANSWERED_PROBES})");
    for stream in left_out {
        frames += &format!(" && tcp.stream != {stream}");
    }
    let mut tshark = tshark(file);
    tshark.args(["-q", "-z", &format!("expert,chat,{frames}")]);
    let printed = lab::tool::output(&mut tshark, "tshark").expect("tshark");
    let mut kinds = BTreeMap::new();
    let mut severity = "";
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [name, count] if count.starts_with('(') => severity = name,
            [count, group, _protocol, ref summary @ ..] => {
                let Ok(count) = count.parse::<u64>() else {
                    continue;
                };
                let kind = (severity.into(), group.into(), without_numbers(summary));
                *kinds.entry(kind).or_default() += count;
            }
            _ => {}
        }
    }
    assert!(!kinds.is_empty(), "tshark said: {printed}");
    kinds
}

fn without_numbers(words: &[&str]) -> String {
    let mut text = String::new();
    for c in words.join(" ").chars() {
        match c {
            '0'..='9' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            _ => text.push(c),
        }
    }
    text
}
