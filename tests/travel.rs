//! Connections that travel to other programs, in messages and through exec, as on the kernel.

mod scene;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use lab::outboard::total;
use rustix::process::Signal;
use scene::Scene;

const LIMIT: Duration = Duration::from_secs(120);

/// Bytes of a conversation: more than either side buffers.
const LONG: usize = 3_000_000;

fn start(name: &str) -> Scene {
    Scene::start(&format!("travel/{name}"), 1, LIMIT)
}

impl Scene {
    /// Sends a line and then much else, while reading: all that comes back.
    fn converse(&self, line: &str, rest: &[u8]) -> Vec<u8> {
        let mut stream = self.connect(7000);
        let mut writer = stream.try_clone().expect("descriptors");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // In one piece, so that what follows the line lies there when the connection travels.
                let all = [line.as_bytes(), b"\n", rest].concat();
                let _ = writer.write_all(&all);
                let _ = writer.shutdown(Shutdown::Write);
            });
            let mut answer = Vec::new();
            if let Err(error) = stream.read_to_end(&mut answer) {
                answer.extend_from_slice(error.to_string().as_bytes());
            }
            answer
        })
    }

    fn counted(&self, name: &str) -> f64 {
        total(&self.outboard.stats().expect("the engine answers"), name)
    }

    /// Waits until the engine has counted so many.
    fn await_count(&mut self, name: &str, wanted: f64) {
        let Self {
            server, outboard, ..
        } = self;
        server
            .wait_until(LIMIT, || {
                let stats = outboard.stats().unwrap_or_default();
                total(&stats, name) >= wanted
            })
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }

    /// No connection is left behind, and no rule was broken.
    fn at_rest(&mut self) {
        let Self {
            server, outboard, ..
        } = self;
        server
            .wait_until(LIMIT, || {
                let stats = outboard.stats().unwrap_or_default();
                total(&stats, "connections") == 0.0
            })
            .expect("every connection ends");
        assert_eq!(self.counted("violations"), 0.0);
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 251) as u8).collect()
}

/// Compares without printing megabytes.
#[track_caller]
fn ends_with(answer: &[u8], rest: &[u8]) -> String {
    let head = answer.len().saturating_sub(rest.len());
    let begin = String::from_utf8_lossy(&answer[..head.min(200)]).into_owned();
    assert_eq!(
        answer.len(),
        head + rest.len(),
        "{} bytes: {begin}",
        answer.len()
    );
    let differs = answer[head..].iter().zip(rest).position(|(a, b)| a != b);
    assert_eq!(differs, None, "after {begin}");
    begin
}

#[test]
fn a_connection_is_passed_in_a_message() {
    if lab::skip_without("a_connection_is_passed_in_a_message", &["python3"]) {
        return;
    }
    let mut scene = start("pass.py");
    for length in [0, 10, LONG] {
        let rest = pattern(length);
        let begin = ends_with(&scene.converse(&format!("with {length}"), &rest), &rest);
        assert!(begin.starts_with("master worker "), "{begin}");
        assert!(begin.ends_with(&format!(" with {length} ")), "{begin}");
    }
    assert_eq!(scene.counted("passed"), 3.0);
    assert_eq!(scene.counted("passed_claimed"), 3.0);
    assert_eq!(scene.counted("passed_unclaimed"), 0.0);
    scene.at_rest();
}

#[test]
fn many_connections_are_passed_at_once() {
    if lab::skip_without("many_connections_are_passed_at_once", &["python3"]) {
        return;
    }
    let mut scene = start("pass.py");
    let streams: Vec<TcpStream> = (0..200).map(|_| scene.connect(7000)).collect();
    for (index, stream) in streams.iter().enumerate() {
        let mut stream = stream;
        let text = format!("with {index}\nand more of {index}");
        stream.write_all(text.as_bytes()).expect("taken");
        stream.shutdown(Shutdown::Write).expect("a connection");
    }
    for (index, mut stream) in streams.into_iter().enumerate() {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("master worker "), "{answer}");
        let end = format!(" with {index} and more of {index}");
        assert!(answer.ends_with(&end), "{answer}");
    }
    scene.at_rest();
}

#[test]
fn what_a_program_without_the_library_was_passed_ends_and_is_told() {
    let name = "what_a_program_without_the_library_was_passed_ends_and_is_told";
    if lab::skip_without(name, &["python3"]) {
        return;
    }
    let mut scene = start("pass.py");
    // The program finds that its descriptor is not connected, and dies of it. Nothing was left unread.
    let answer = scene.converse("without", b"");
    assert_eq!(answer, b"master ");
    scene.await_count("passed_unclaimed", 1.0);
    let pid = scene.server.id().to_string();
    let explained = scene
        .outboard
        .command(&scene.world, "explain")
        .arg(&pid)
        .output()
        .expect("it runs");
    assert!(explained.contains("passed away"), "{explained}");
    scene.at_rest();
}

#[test]
fn a_connection_goes_through_exec() {
    if lab::skip_without("a_connection_goes_through_exec", &["python3"]) {
        return;
    }
    let mut scene = start("execute.py");
    for length in [0, 10, LONG] {
        let rest = pattern(length);
        let begin = ends_with(&scene.converse("cat", &rest), &rest);
        assert_eq!(begin, "");
        let begin = ends_with(&scene.converse("python", &rest), &rest);
        let mut words = begin.split(' ');
        assert!(words.next().is_some_and(|port| port.parse::<u16>().is_ok()));
        assert_eq!(words.next(), Some("77"), "an option goes along: {begin}");
        let twice = [&rest[..], b"end\n"].concat();
        assert_eq!(ends_with(&scene.converse("twice", &rest), &twice), "");
    }
    assert_eq!(scene.counted("passed_unclaimed"), 0.0);
    scene.at_rest();
}

#[test]
fn a_connection_goes_to_what_libc_starts() {
    if lab::skip_without("a_connection_goes_to_what_libc_starts", &["python3"]) {
        return;
    }
    let mut scene = start("execute.py");
    for (way, end) in [
        ("posix_spawn", "spawned\n"),
        ("posix_spawnp", "spawned\n"),
        ("pidfd_spawn", "spawned\n"),
        ("system", "3\n"),
        ("popen", "4\n"),
        ("execl", "zero four\n"),
        ("execlp", "zero four\n"),
        ("execle", "word\n"),
    ] {
        for length in [10, LONG] {
            let wanted = [&pattern(length)[..], end.as_bytes()].concat();
            let answer = scene.converse(way, &pattern(length));
            assert_eq!(ends_with(&answer, &wanted), "", "{way}");
        }
    }
    assert_eq!(scene.counted("passed_unclaimed"), 0.0);
    scene.at_rest();
}

#[test]
fn who_fails_to_execute_goes_on_with_the_connection() {
    if lab::skip_without(
        "who_fails_to_execute_goes_on_with_the_connection",
        &["python3"],
    ) {
        return;
    }
    let mut scene = start("execute.py");
    let rest = pattern(LONG);
    let begin = ends_with(&scene.converse("fails", &rest), &rest);
    assert_eq!(begin, "errno 8 ");
    assert_eq!(scene.counted("passed"), 1.0);
    assert_eq!(scene.counted("passed_claimed"), 0.0);
    scene.at_rest();
}

#[test]
fn a_listening_socket_goes_from_program_to_program() {
    if lab::skip_without(
        "a_listening_socket_goes_from_program_to_program",
        &["python3"],
    ) {
        return;
    }
    let mut scene = start("listen.py");
    // Who has come, or comes while the socket is on its way, is served by whoever has it in the end.
    let mut streams: Vec<TcpStream> = (0..20).map(|_| scene.connect(7000)).collect();
    std::fs::write(scene.world.scratch().join("go"), "").expect("a file");
    streams.extend((0..20).map(|_| scene.connect(7000)));
    for stream in &streams {
        // They are served one after the other, in any order.
        stream.shutdown(Shutdown::Write).expect("a connection");
    }
    for mut stream in streams {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer, "third ");
    }
    scene.at_rest();
    let before = scene.counted("handed_over");
    for length in [10, LONG, 0] {
        let rest = pattern(length);
        let begin = ends_with(&scene.converse("", &rest), &rest);
        assert_eq!(begin, "third \n");
    }
    scene.at_rest();
    let accepted = scene.counted("handed_over") - before;
    assert_eq!(accepted, 3.0, "the engine accepts");
}

#[test]
fn a_listening_socket_that_went_through_exec_without_an_engine_is_the_next_ones() {
    let name = "a_listening_socket_that_went_through_exec_without_an_engine_is_the_next_ones";
    if lab::skip_without(name, &["python3"]) {
        return;
    }
    let mut scene = start("without_engine.py");
    scene._engine.signal(Signal::KILL).expect("it is there");
    scene._engine.wait(LIMIT).expect("it ends");
    let go = scene.world.scratch().join("go");
    std::fs::write(&go, "").expect("a file");
    let done = scene.world.scratch().join("go.done");
    let executed = scene.server.wait_until(LIMIT, || done.exists());
    executed.expect("it executes itself");
    let engine = scene.outboard.start_engine(&scene.world, None);
    scene._engine = engine.expect("another engine");
    let Scene {
        world,
        server,
        outboard,
        ..
    } = &mut scene;
    let listens = || {
        let rows = outboard.sockets().unwrap_or_default();
        rows.iter().any(|row| row["state"] == "LISTEN")
    };
    let taken = server.wait_until(LIMIT, listens);
    taken.expect("the listener is the engine's");
    let explain = outboard.command(world, "explain");
    let explained = explain.arg(server.id().to_string()).output();
    let explained = explained.expect("it explains");
    let lines: Vec<_> = explained.lines().skip(1).collect();
    assert_eq!(lines.len(), 1, "{explained}");
    let words: Vec<_> = lines[0].split_whitespace().collect();
    assert_ne!(words[0], "-", "its number is known: {explained}");
    assert_eq!(words[1..4], ["listener", "0.0.0.0:7000", "engine"]);
    let answer = scene.converse("", b"rest");
    assert_eq!(ends_with(&answer, b"rest"), "second \n");
    assert_eq!(scene.counted("handed_over"), 1.0);
}

#[test]
fn a_number_that_is_closed_while_a_program_is_started_is_its_new_files() {
    let name = "a_number_that_is_closed_while_a_program_is_started_is_its_new_files";
    if lab::skip_without(name, &["python3"]) {
        return;
    }
    let mut scene = start("reuses.py");
    let answer = String::from_utf8(scene.converse("", b"")).expect("words");
    assert_eq!(answer, "0 wrong of many");
    scene.at_rest();
}
