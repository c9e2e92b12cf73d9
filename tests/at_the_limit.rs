//! Programs that have as many descriptors as they may have (RLIMIT_NOFILE). The kernel needs none for what they do.

mod scene;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use scene::Scene;

const LIMIT: Duration = Duration::from_secs(60);

/// As in the script.
const GENERATIONS: usize = 4;

/// Sends a line: the next line that comes.
fn ask(stream: &mut BufReader<TcpStream>, line: &str) -> String {
    stream.get_mut().write_all(line.as_bytes()).expect("sent");
    let mut answer = String::new();
    if let Err(error) = stream.read_line(&mut answer) {
        return error.to_string();
    }
    answer
}

#[test]
fn children_have_their_parents_connections_without_a_descriptor_left() {
    let test = "children_have_their_parents_connections_without_a_descriptor_left";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let scene = Scene::start("at_the_limit/fork.py", 1, LIMIT);
    for round in 0..2 {
        let mut stream = BufReader::new(scene.connect(7000));
        stream.get_mut().write_all(b"lines\n").expect("sent");
        for generation in 1..=GENERATIONS {
            let answer = ask(&mut stream, &format!("round {round}\n"));
            let printed = scene.server.printed();
            assert_eq!(answer, format!("{generation} round {round}\n"), "{printed}");
        }
        for generation in (1..=GENERATIONS).rev() {
            let answer = ask(&mut stream, "parent\n");
            assert_eq!(answer, format!("{generation} again parent\n"));
        }
    }
}

#[test]
fn a_program_that_is_executed_has_what_stays_open_without_a_descriptor_left() {
    let test = "a_program_that_is_executed_has_what_stays_open_without_a_descriptor_left";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let scene = Scene::start("at_the_limit/execute.py", 1, LIMIT);
    let mut stream = BufReader::new(scene.connect(7000));
    assert_eq!(ask(&mut stream, "one\n"), "one\n");
    let answer = ask(&mut stream, "two\n");
    assert_eq!(answer, "again two\n", "{}", scene.server.printed());
}

#[test]
fn a_child_without_a_descriptor_left_hears_what_comes_to_a_set_in_a_set() {
    let test = "a_child_without_a_descriptor_left_hears_what_comes_to_a_set_in_a_set";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let scene = Scene::start("at_the_limit/nested.py", 1, LIMIT);
    for how in ["level", "edge", "level lowered", "edge lowered"] {
        let mut stream = BufReader::new(scene.connect(7000));
        assert_eq!(ask(&mut stream, &format!("{how}\n")), "the child\n");
        for _ in 0..3 {
            let answer = ask(&mut stream, "something\n");
            assert_eq!(answer, "something\n", "{how}: {}", scene.server.printed());
        }
        assert_eq!(ask(&mut stream, "end\n"), "", "{how}");
    }
}

/// What the child has done so that its outer set hears of the inner one stays behind in that.
#[test]
fn a_parent_does_not_spin_in_a_set_of_which_its_child_was_told_last() {
    let test = "a_parent_does_not_spin_in_a_set_of_which_its_child_was_told_last";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let scene = Scene::start("at_the_limit/nested.py", 1, LIMIT);
    for how in [
        "level dies",
        "level lowered dies",
        "edge lowered dies",
        "level own lowered dies",
        "edge own lowered dies",
        "level own late lowered dies",
        "edge own late lowered dies",
    ] {
        let mut stream = BufReader::new(scene.connect(7000));
        let printed = || scene.server.printed();
        let line = format!("{how}\n");
        assert_eq!(
            ask(&mut stream, &line),
            "the child\n",
            "{how}: {}",
            printed()
        );
        let answer = ask(&mut stream, "something\n");
        assert_eq!(answer, "idle something\n", "{how}: {}", printed());
    }
}

#[test]
fn the_next_engine_is_found_without_a_descriptor_left_and_children_have_its_connections() {
    let test =
        "the_next_engine_is_found_without_a_descriptor_left_and_children_have_its_connections";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let mut scene = Scene::start("at_the_limit/next_engine.py", 1, LIMIT);
    let is_answered = |scene: &Scene, line: &str| {
        let mut stream = BufReader::new(scene.connect(7000));
        let answer = ask(&mut stream, line);
        assert_eq!(
            answer,
            format!("again {line}"),
            "{}",
            scene.server.printed()
        );
    };
    is_answered(&scene, "one\n");
    scene._engine.signal(Signal::KILL).expect("killed");
    scene._engine.wait(LIMIT).expect("it ends");
    let engine = scene.outboard.start_engine(&scene.world, None);
    scene._engine = engine.expect("another");
    let outboard = &scene.outboard;
    let is_listening = || {
        let rows = outboard.sockets().unwrap_or_default();
        rows.iter().any(|row| row["state"] == "LISTEN")
    };
    let waited = scene.server.wait_until(LIMIT, is_listening);
    waited.unwrap_or_else(|error| panic!("{error:#}\n{}", scene.server.printed()));
    is_answered(&scene, "another\n");
}

#[test]
fn a_child_that_cannot_have_them_fails_and_this_is_said() {
    let test = "a_child_that_cannot_have_them_fails_and_this_is_said";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let mut scene = Scene::start("at_the_limit/fork.py", 1, LIMIT);
    let mut stream = BufReader::new(scene.connect(7000));
    let answer = ask(&mut stream, "lowered\n");
    assert_eq!(
        answer,
        format!("{}\n", rustix::io::Errno::CONNRESET.raw_os_error())
    );
    let Scene {
        world,
        outboard,
        server,
        ..
    } = &mut scene;
    let pid = server.id().to_string();
    let mut explained = String::new();
    let waited = server.wait_until(LIMIT, || {
        let explain = outboard.command(world, "explain").arg(&pid);
        explained = explain.output().unwrap_or_default();
        explained.contains("has none of its connections")
    });
    waited.unwrap_or_else(|error| panic!("{error:#}\n{explained}"));
}
