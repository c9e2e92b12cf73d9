//! What an experiment says of who used the cores, besides what it measures: by process, on the kernel.
#![forbid(unsafe_code)]

mod first_levels;

use first_levels::{at, levels, setup};
use lab::catalogue::{Extent, find};
use lab::skip_without;

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
        let mut bench = entry.open(&setup(subject)).unwrap();
        let levels = levels(&experiment);
        let at = at(&experiment, subject, &levels, 1);
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
