//! Experiments on the kernel: what is made ready for a measurement, and that no more is started while it is measured.
#![forbid(unsafe_code)]

mod first_levels;

use first_levels::{at, levels, setup};
use lab::catalogue::{Extent, find};
use lab::skip_without;
use std::collections::BTreeSet;

/// The programs that this thread has started, and that run: other tests have others.
fn running() -> BTreeSet<String> {
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap();
    children.split_whitespace().map(str::to_owned).collect()
}

/// What they are called.
fn names(processes: &BTreeSet<String>) -> BTreeSet<String> {
    let name = |process| std::fs::read_to_string(format!("/proc/{process}/comm"));
    let names = processes.iter().filter_map(|process| name(process).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// One that is for a single measurement stands ready before it, and is gone after it.
#[test]
fn a_server_of_one_measurement_is_there_before_it_begins() {
    let test = "a_server_of_one_measurement_is_there_before_it_begins";
    for (name, subject, server, needs) in [
        ("echo", "kernel", "sockperf", &["sockperf"][..]),
        (
            "key-value",
            "memcached on the kernel",
            "memcached",
            &["memcached"],
        ),
        ("guard", "kernel", "nginx", &["nginx"]),
        ("respond", "nginx", "nginx", &["nginx", "wrk"]),
    ] {
        if skip_without(test, needs) {
            continue;
        }
        let entry = find(name).unwrap();
        let experiment = entry.declare(Extent::Full);
        let mut bench = entry.open(&setup(subject)).unwrap();
        let levels = levels(&experiment);
        let at = at(&experiment, subject, &levels, 1);
        bench.prepare(&at).unwrap();
        let prepared = running();
        assert!(names(&prepared).contains(server), "{name}: {prepared:?}");
        let sample = bench.measure(&at).unwrap();
        let measured = running();
        assert!(measured.is_subset(&prepared), "{name}: {measured:?}");
        assert!(!names(&measured).contains(server), "{name}");
        assert!(!sample.values.is_empty(), "{name}");
        // Without it there is nothing to be measured.
        assert!(bench.measure(&at).is_err(), "{name}");
    }
}

/// A server that is started while the machine is watched would be measured itself; and what a stream is counted by is
/// what was received.
#[test]
fn servers_are_started_before_they_are_measured() {
    let needs = ["nginx", "wrk", "sockperf"];
    if skip_without("servers_are_started_before_they_are_measured", &needs) {
        return;
    }
    let entry = find("installed").unwrap();
    let experiment = entry.declare(Extent::Full);
    let mut bench = entry.open(&setup("kernel")).unwrap();
    for name in ["ping-pong", "sockperf, throughput", "ping-pong"] {
        let levels = experiment.axes[0].levels.iter();
        let level = levels.clone().find(|level| level.name == name).unwrap();
        let levels = [level];
        let at = at(&experiment, "kernel", &levels, 1);
        bench.prepare(&at).unwrap();
        let prepared = running();
        let sample = bench.measure(&at).unwrap();
        let measured = running();
        assert!(
            measured.is_subset(&prepared),
            "{name}: {measured:?} of {prepared:?}"
        );
        assert!(sample.values["requests"] > 0.0, "{name}");
        assert!(sample.values["CPU of the server"] > 0.0, "{name}");
        let used = sample.used.expect("who used what");
        assert!(used.processes["server"] > 0.0, "{name}: {used:?}");
        assert!(used.processes.contains_key("client"), "{name}: {used:?}");
    }
}
