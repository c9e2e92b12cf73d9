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

/// What the subject, started by `program`, writes down, of all scenarios or one.
fn record(
    world: &World,
    example: &Path,
    program: Program,
    name: &str,
    addresses: [IpAddr; 2],
    only: Option<&str>,
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
        .args(only)
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

/// Where the records differ first, in each scenario.
fn differences(kernel: &str, engine: &str) -> String {
    let (kernel, engine) = (scenarios(kernel), scenarios(engine));
    let mut found = String::new();
    for (name, expected) in &kernel {
        let Some((_, got)) = engine.iter().find(|(other, _)| other == name) else {
            found += &format!("{name}\n  the engine has not got so far\n");
            continue;
        };
        let lines = expected.len().max(got.len());
        let pair = |at: usize| {
            let line = |lines: &[&str]| lines.get(at).map_or("  nothing".into(), |l| l.to_string());
            (line(expected), line(got))
        };
        let pairs = (0..lines).map(pair);
        for (kernel, engine) in pairs.filter(|(one, other)| one != other).take(SHOWN) {
            found += &format!("{name}\n  the kernel:{kernel}\n  the engine:{engine}\n");
        }
    }
    found
}

/// Lines that differ of one scenario: after the first, the others may follow from it.
const SHOWN: usize = 20;

/// The scenarios of a record by their names.
fn scenarios(record: &str) -> Vec<(&str, Vec<&str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in record.lines() {
        match all.last_mut() {
            Some((_, lines)) if line.starts_with(' ') => lines.push(line),
            _ => all.push((line, Vec::new())),
        }
    }
    all
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
    let kernel =
        families.map(|addresses| record(&world, &example, subject(), "kernel", addresses, None));

    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    for (addresses, kernel) in families.into_iter().zip(kernel) {
        let subject = outboard.on_engine(&world, &example);
        let engine = record(&world, &example, subject, "engine", addresses, None);
        let differences = differences(&kernel, &engine);
        assert!(differences.is_empty(), "{addresses:?}\n{differences}");
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

#[test]
fn threads_are_cancelled_without_an_engine_as_on_the_kernel() {
    let test = "threads_are_cancelled_without_an_engine_as_on_the_kernel";
    let built = lab::built_beside(test, env!("CARGO_BIN_EXE_outboard"));
    let (Some(built), false) = (built, lab::skip_without_root(test)) else {
        return;
    };
    let library = built.join("liboutboard_preload.so");
    let example = example::build("socket_calls");
    let world = World::new().expect("a private network");
    let addresses = [Side::Server.ipv4().into(), Side::Client.ipv4().into()];
    let subject = || world.program(Side::Server, &example);
    let with_library = || subject().env("LD_PRELOAD", &library);
    let nobody = world.scratch().join("nobody.sock");
    for scenario in [
        "cancelled in a set",
        "cancelled while it waits",
        "cancelled while it accepts",
    ] {
        let record = |program, name| {
            let record = record(&world, &example, program, name, addresses, Some(scenario));
            assert!(record.contains("cancelled true"), "{name}\n{record}");
            record
        };
        let kernel = record(subject(), "kernel");
        let away = with_library().env("OUTBOARD_SOCKET", &nobody);
        assert_eq!(kernel, record(away, "away"));
        assert_eq!(kernel, record(with_library(), "unnamed"));
    }
}
