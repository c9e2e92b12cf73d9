//! Traffic control (tc), which what is offloaded does not pass: who asks is told of it.

use std::io::Write;

use lab::{Side, World};
use queue_pair::control::{Fds, Reply, Request};

use crate::beside::{Engine, Host, LIMIT};

/// What is said of it to who asks about this process.
fn told(host: &mut Host) -> Vec<String> {
    let pid = std::process::id();
    let answer = host
        .channel
        .request(&Request::Explain { pid }, Fds::new(), LIMIT);
    let (Reply::Explained(lines), _) = answer.expect("answered") else {
        panic!("explained");
    };
    let of_tc = lines.into_iter().filter(|line| line.kind == "tc");
    of_tc.map(|line| line.reason).collect()
}

#[test]
fn filters_and_shapers_are_told_of() {
    if lab::skip_without("filters_and_shapers_are_told_of", &["tc"]) {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let (mut host, ..) = engine.listening(&world);
    assert_eq!(told(&mut host), [""; 0], "a veth has none by itself");
    drop((host, engine));
    let tc = |what: &str| {
        let what = what.replace("DEVICE", Side::Server.interface());
        let done = world.program(Side::Server, "tc").args(what.split(' '));
        done.output().map_err(|error| format!("{error:#}"))
    };
    let mut expected = Vec::new();
    for (what, told) in [
        (
            "qdisc add dev DEVICE root tbf rate 1gbit burst 64k latency 9ms",
            "the queueing discipline tbf",
        ),
        ("qdisc add dev DEVICE clsact", ""),
        (
            "filter add dev DEVICE ingress protocol ip u32 match ip src 10.99.0.0/16 action drop",
            "filters at ingress (u32)",
        ),
    ] {
        match tc(what) {
            Ok(_) if told.is_empty() => {}
            Ok(_) => expected.push(told),
            // Not every kernel has all of them.
            Err(why) => {
                let line = format!("SKIPPED in part ({why}): filters_and_shapers_are_told_of\n");
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
        }
    }
    if expected.is_empty() {
        return;
    }
    let engine = Engine::start(&world, |_| ());
    let (mut host, ..) = engine.listening(&world);
    let [line] = &told(&mut host)[..] else {
        panic!("one line");
    };
    assert!(line.ends_with(&expected.join(", ")), "{line}");
    assert!(line.contains(Side::Server.interface()), "{line}");
}
