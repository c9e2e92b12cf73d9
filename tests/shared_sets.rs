//! Epoll sets that several processes have since a fork: what one of them puts in there, changes or takes
//! out, the others find, asleep or not.

mod scene;

use std::io::{Read, Write};
use std::time::Duration;

use lab::World;
use lab::outboard::Outboard;
use scene::Scene;

/// A case that fails is one in which somebody waits for ever.
const LIMIT: Duration = Duration::from_secs(30);

/// What explain says of connections that are told of to none of the others.
const SAID: &str = "they are not told of them";

/// A server that does what its client names.
fn start() -> Scene {
    Scene::start("families/shared_set.py", 3, LIMIT)
}

impl Scene {
    /// What comes of a case. The bytes are also sent on a new connection to `port`, if the case has one.
    fn outcome(&self, case: &str, port: Option<u16>) -> std::io::Result<String> {
        let mut stream = self.connect(7000);
        // One that says nothing.
        let _idle = port.is_none().then(|| self.connect(7002));
        stream.write_all(case.as_bytes())?;
        stream.read_exact(&mut [0; 2])?;
        let mut further = port.map(|port| self.connect(port));
        for stream in further.iter_mut().chain([&mut stream]) {
            stream.write_all(b"something")?;
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// Whether explain says of this process that others are not told.
fn explain_says_so(outboard: &Outboard, world: &World, pid: u32) -> bool {
    let explain = outboard.command(world, "explain").arg(pid.to_string());
    explain.output().expect("the engine answers").contains(SAID)
}

#[test]
fn what_a_process_changes_in_a_shared_set_the_others_find() {
    if lab::skip_without(
        "what_a_process_changes_in_a_shared_set_the_others_find",
        &["python3"],
    ) {
        return;
    }
    let mut wrong = Vec::new();
    for (case, port) in [
        ("added", None),
        ("added_at_the_edge", None),
        ("added_by_the_child", None),
        ("added_beside_another", None),
        ("modified", None),
        ("polled", None),
        ("selected", None),
        ("in_another_set", None),
        ("thread_of_the_parent", None),
        ("thread_beside_another", None),
        ("two_threads", None),
        ("removed", None),
        ("listens", Some(7001)),
    ] {
        // One that hangs would keep the next from being tried.
        let scene = start();
        for _ in 0..2 {
            match scene.outcome(case, port) {
                Ok(answer) if answer == "told something" => continue,
                other => wrong.push(format!("{case}: {other:?}")),
            }
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn who_has_not_got_a_connection_of_a_shared_set_is_not_told_and_explain_says_so() {
    if lab::skip_without(
        "who_has_not_got_a_connection_of_a_shared_set_is_not_told_and_explain_says_so",
        &["python3"],
    ) {
        return;
    }
    let mut scene = start();
    let answer = scene.outcome("added_beside_another", None).expect("told");
    assert_eq!(answer, "told something");
    let (outboard, world, pid) = (&scene.outboard, &scene.world, scene.server.id());
    let too_early = explain_says_so(outboard, world, pid);
    assert!(!too_early, "the child has it");
    let answer = scene.outcome("not_had", Some(7002)).expect("told");
    assert_eq!(answer, "told something");
    scene
        .server
        .wait_until(LIMIT, || explain_says_so(outboard, world, pid))
        .expect("explain says so");
}
