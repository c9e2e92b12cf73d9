//! The same socket calls on the kernel and on the engine: what they return must be the same.
//!
//! The calls are those of `socket_calls`, an example of the interposer's crate, which writes down
//! what each returned. Here it runs twice, in two worlds, and the two records are compared.

mod example;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use lab::outboard::{Outboard, total};
use lab::{Program, Side, World};

/// All scenarios together take a few seconds, if nothing hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// What the subject, started by `program`, writes down.
fn record(
    world: &World,
    example: &Path,
    program: Program,
    name: &str,
    addresses: [IpAddr; 2],
) -> String {
    let [here, there] = addresses;
    let control = world.scratch().join(format!("{name}.control"));
    // That of the run before.
    let _ = std::fs::remove_file(&control);
    let agent = world
        .program(Side::Client, example)
        .arg("agent")
        .arg(&control)
        .arg(there.to_string())
        .log(world.scratch().join(format!("{name}.agent")))
        .start()
        .expect("the agent starts");
    let mut subject = program
        .arg("subject")
        .arg(&control)
        .arg(here.to_string())
        .log(world.scratch().join(format!("{name}.subject")))
        .start()
        .expect("the subject starts");
    let status = subject.wait(LIMIT).expect("the subject ends");
    assert!(
        status.success(),
        "{name}: {status}\n{}\n{}",
        subject.printed(),
        agent.printed()
    );
    subject.printed()
}

/// The scenario and the line in which the records differ first.
fn difference(kernel: &str, engine: &str) -> Option<String> {
    let mut scenario = "";
    let mut engine = engine.lines();
    for line in kernel.lines() {
        if !line.starts_with(' ') {
            scenario = line;
        }
        let other = engine.next().unwrap_or("nothing");
        if line != other {
            return Some(format!(
                "{scenario}\n  the kernel:{line}\n  the engine:{other}"
            ));
        }
    }
    None
}

#[test]
fn calls_return_what_they_return_on_the_kernel() {
    if lab::skip_without_root("calls_return_what_they_return_on_the_kernel") {
        return;
    }
    let example = example::build("socket_calls");
    let world = World::new().expect("a private network");
    let of = |address: fn(Side) -> IpAddr| [address(Side::Server), address(Side::Client)];
    let families = [of(|side| side.ipv4().into()), of(|side| side.ipv6().into())];
    let subject = || world.program(Side::Server, &example);
    let kernel = families.map(|addresses| record(&world, &example, subject(), "kernel", addresses));

    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    for (addresses, kernel) in families.into_iter().zip(kernel) {
        let subject = outboard.on_engine(&world, &example);
        let engine = record(&world, &example, subject, "engine", addresses);
        assert_eq!(difference(&kernel, &engine), None, "{addresses:?}");
        assert_eq!(kernel, engine);
    }

    let counters = outboard.stats().expect("the engine counts");
    assert!(
        total(&counters, "handed_over") >= 100.0,
        "accepted by the engine"
    );
    assert!(
        total(&counters, "tcp_active_opens") >= 90.0,
        "opened by the engine"
    );
}
