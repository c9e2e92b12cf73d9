//! What an experiment says of who used the cores, besides what it measures: by process, on the kernel.
#![forbid(unsafe_code)]

use lab::catalogue::{Extent, Setup, find};
use lab::experiment::At;
use lab::skip_without;
use std::time::Duration;

/// The lab itself is the client and, where there is one, the wire: they are told apart.
#[test]
fn what_each_used_is_known() {
    let test = "what_each_used_is_known";
    for (name, subject, needs, others) in [
        ("respond", "nginx", &["nginx", "wrk"][..], &[][..]),
        ("syn-answers", "kernel", &["nginx"], &[]),
        ("goodput", "kernel CUBIC", &["nginx", "ethtool"], &["wire"]),
        (
            "fairness",
            "kernel CUBIC",
            &["nginx", "ethtool"],
            &["wire", "server beside"],
        ),
        (
            "lossy-objects",
            "nginx",
            &["nginx", "ethtool", "taskset"],
            &["path"],
        ),
    ] {
        if skip_without(test, needs) {
            continue;
        }
        let entry = find(name).unwrap();
        let experiment = entry.declare(Extent::Full);
        let setup = Setup {
            binary: "none".into(),
            log: None,
            kept: std::env::temp_dir(),
            subjects: vec![subject.into()],
        };
        let mut bench = entry.open(&setup).unwrap();
        let levels = experiment.axes.iter().map(|axis| &axis.levels[0]);
        let levels: Vec<_> = levels.collect();
        let at = At {
            experiment: &experiment,
            subject,
            levels: &levels,
            window: Duration::from_secs(1),
            seed: 1,
        };
        bench.prepare(&at).unwrap();
        let sample = bench.measure(&at).unwrap();
        let used = sample.used.as_ref().expect(name);
        assert!(used.passed >= 1.0, "{name}: {used:?}");
        for who in ["client", "server"].iter().chain(others) {
            assert!(used.processes.contains_key(*who), "{name}: {used:?}");
        }
        // A SYN is answered before any program hears of it: the server has its own timers to see to, if anything.
        if name != "syn-answers" {
            assert!(used.processes["server"] > 0.0, "{name}: {used:?}");
        }
        assert_eq!(used.engine, None, "{name}");
        // Of a client that is a thread or has a core it is known what more it could have done.
        let is_known = !["respond", "syn-answers"].contains(&name);
        assert_eq!(sample.client.is_known(), is_known, "{name}");
    }
}
