//! `lab run installed` on the kernel: what is prepared, and that no more is started while it is measured.
#![forbid(unsafe_code)]

use lab::catalogue::{Extent, Setup, find};
use lab::experiment::At;
use lab::skip_without;
use std::collections::BTreeSet;
use std::time::Duration;

/// The programs that this process has started, and that run.
fn running() -> BTreeSet<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let each = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")));
    let children = each.map(Result::unwrap_or_default).collect::<String>();
    children.split_whitespace().map(str::to_owned).collect()
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
    let setup = Setup {
        binary: "none".into(),
        log: None,
        kept: std::env::temp_dir(),
        subjects: vec!["kernel".into()],
    };
    let mut bench = entry.open(&setup).unwrap();
    for name in ["ping-pong", "sockperf, throughput", "ping-pong"] {
        let levels = experiment.axes[0].levels.iter();
        let level = levels.clone().find(|level| level.name == name).unwrap();
        let at = At {
            experiment: &experiment,
            subject: "kernel",
            levels: &[level],
            window: Duration::from_secs(1),
            seed: 1,
        };
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
    }
}
