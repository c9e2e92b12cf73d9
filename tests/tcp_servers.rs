//! `outboard lab run tcp-servers`: each of its programs runs in each of its ways, and is measured; and the web
//! experiments of the same document with a server that knows of its engine.
#![forbid(unsafe_code)]

mod measured;

use lab::catalogue::{Entry, Extent, meant};
use lab::outboard::Outboard;
use lab::{Side, World, built_beside, skip_without, skip_without_root};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

/// Measures each subject that is `wanted`, also those that a first impression leaves out, at the first levels:
/// figures, whatever they are on a machine with others on it.
fn measure(entry: &Entry, wanted: impl Fn(&str) -> bool) {
    let mut subjects = entry.declare(Extent::Full).subjects;
    subjects.retain(|name| wanted(name));
    let experiment = entry.declare(Extent::Quick);
    let samples = measured::once(entry, &experiment, &subjects);
    for (subject, sample) in subjects.iter().zip(samples) {
        let first = &experiment.measures[0].name;
        assert!(sample.values[first] > 0.0, "{} {subject}", entry.name);
        for (name, value) in &sample.values {
            assert!(experiment.measure(name).is_some(), "{} {name}", entry.name);
            assert!(value.is_finite(), "{} {subject}: {name}", entry.name);
        }
    }
}

/// What `name` means, unless something is missing that it needs.
fn entries(test: &str, names: &[&str]) -> Vec<&'static Entry> {
    let each = names.iter().flat_map(|name| meant(name).unwrap());
    let entries: Vec<&Entry> = each.collect();
    let needs: Vec<&str> = entries
        .iter()
        .flat_map(|entry| entry.needs)
        .copied()
        .collect();
    // The interposer is one of the ways.
    if skip_without(test, &needs) || built_beside(test, BINARY).is_none() {
        return Vec::new();
    }
    entries
}

#[test]
fn every_way_is_measured() {
    for entry in entries("every_way_is_measured", &["tcp-servers"]) {
        measure(entry, |_| true);
    }
}

/// One request in five is for what the server computes, and some come in bursts: in each variant there is an answer.
#[test]
fn every_workload_of_a_web_server_by_load_is_measured() {
    let test = "every_workload_of_a_web_server_by_load_is_measured";
    for entry in entries(test, &["web-loads"]) {
        let mut experiment = entry.declare(Extent::Full);
        let at = experiment
            .axes
            .iter()
            .position(|axis| axis.name == "workload");
        let all = std::mem::take(&mut experiment.axes[at.unwrap()].levels);
        for level in all {
            let wanted = ["kernel sockets", "synchronous", "asynchronous, registered"];
            let mut subjects = experiment.subjects.clone();
            subjects.retain(|name| wanted.contains(&name.as_str()));
            assert!(subjects.len() > 1, "{:?}", experiment.subjects);
            experiment.axes[at.unwrap()].levels = vec![level.clone()];
            for sample in measured::once(entry, &experiment, &subjects) {
                assert!(sample.values["replies"] > 0.0, "{level:?}: {sample:?}");
                let failed = |note: &String| note.contains("requests failed");
                assert!(!sample.notes.iter().any(failed), "{level:?}: {sample:?}");
            }
        }
    }
}

/// Of the web experiments those that such a server can serve: their requests are answered by it, too.
#[test]
fn a_server_that_knows_of_its_engine_answers_what_nginx_does() {
    let test = "a_server_that_knows_of_its_engine_answers_what_nginx_does";
    for entry in entries(test, &["static", "bursts", "trace", "engine-strength"]) {
        measure(entry, |subject| subject.starts_with("serve"));
    }
}

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of a web server.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    fn say(&mut self, words: &str) {
        self.0.get_mut().write_all(words.as_bytes()).unwrap();
    }

    fn ask(&mut self, line: &str) {
        self.say(&format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n"));
    }

    /// The next answer: its head, and its body if it has one.
    fn answer(&mut self, has_body: bool) -> (String, Vec<u8>) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).unwrap() > 0, "{head}");
        }
        let length = head.split("Content-Length: ").nth(1).unwrap();
        let length = length.lines().next().unwrap().parse().unwrap();
        let mut body = vec![0; if has_body { length } else { 0 }];
        self.0.read_exact(&mut body).unwrap();
        (head, body)
    }

    fn gets(&mut self, file: &[u8]) {
        let (head, body) = self.answer(true);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(body == file, "{} bytes of {}", body.len(), file.len());
    }

    fn finds_end(mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty(), "{rest:?}");
    }
}

/// Bytes of what the server computes.
const COMPUTED: usize = 20_000;

/// What a client is answered that wants many things, on connections that stay and on others.
fn converse(at: SocketAddr, small: &[u8], large: &[u8]) {
    let mut client = Client::connect(at);
    client.say("GET /small HTTP/1.1\r\nHo");
    client.say("st: x\r\n\r\n");
    client.gets(small);
    client.ask("GET /large");
    client.gets(large);
    client.ask("HEAD /large");
    let (head, _) = client.answer(false);
    assert!(head.contains(&format!("Content-Length: {}\r\n", large.len())));
    client.ask("GET /empty?x=1");
    client.gets(b"");
    client.say("GET /small HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nGET ");
    client.gets(small);
    let one = "GET /small HTTP/1.1\r\nHost: x\r\n\r\n";
    client.say(&one.repeat(3));
    for _ in 0..3 {
        client.gets(small);
    }
    client.ask("HEAD /computed");
    let (head, _) = client.answer(false);
    assert!(
        head.contains(&format!("Content-Length: {COMPUTED}\r\n")),
        "{head}"
    );
    client.say(&"GET /computed HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3));
    let mut computed = Vec::new();
    for _ in 0..3 {
        let (head, body) = client.answer(true);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        computed.push(body);
    }
    client.say("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    client.gets(large);
    client.finds_end();
    let mut last = Client::connect(at);
    last.say("GET /computed HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    computed.push(last.answer(true).1);
    last.finds_end();
    for (index, one) in computed.iter().enumerate() {
        assert_eq!(one.len(), COMPUTED);
        let mut counts = [0_u32; 256];
        one.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // Of 20,000 bytes 78 are each, give or take six deviations.
        assert!(
            counts.iter().all(|count| (25..132).contains(count)),
            "{counts:?}"
        );
        assert!(computed[..index].iter().all(|other| other != one));
    }
    for (words, status) in [
        ("GET /none HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        ("GET /small HTTP/1.1\r\n\r\n", 400),
        ("DELETE /small HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    ] {
        let mut client = Client::connect(at);
        client.say(words);
        let (head, _) = client.answer(true);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        client.finds_end();
    }
    let mut old = Client::connect(at);
    old.say("GET /small HTTP/1.0\r\n\r\n");
    old.gets(small);
    old.finds_end();
}

/// Each variant of the web server that `web-variants` and `web-sends` measure: a client alone, and many at once.
#[test]
fn each_variant_of_the_web_server_answers_the_bytes_that_are_asked_for() {
    let test = "each_variant_of_the_web_server_answers_the_bytes_that_are_asked_for";
    if skip_without_root(test) {
        return;
    }
    let world = World::new().unwrap();
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let small: Vec<u8> = (0..64).collect();
    let large: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let files: [(&str, &[u8]); 3] = [("small", &small), ("large", &large), ("empty", b"")];
    let site = world.site(&files).unwrap();
    std::fs::create_dir(site.join("a directory")).unwrap();
    let engine = outboard.start_engine(&world, None).unwrap();
    let variants: [&[&str]; 12] = [
        &["kernel"],
        &["kernel", "--piece", "4096"],
        &["synchronous"],
        &["synchronous-registered", "--piece", "4096"],
        &["asynchronous"],
        &["asynchronous-registered"],
        &["asynchronous-registered", "--eager", "64"],
        &["asynchronous-registered", "--setup"],
        &["asynchronous-registered", "--receive", "pull"],
        &["asynchronous-registered", "--receive", "push"],
        &["kernel", "--receive", "push"],
        &[
            "asynchronous-registered",
            "--setup",
            "--eager",
            "64",
            "--receive",
            "pull",
        ],
    ];
    for (variant, port) in variants.iter().zip(7_080..) {
        let at = SocketAddr::from((Side::Server.ipv4(), port));
        let mut server = outboard
            .command(&world, "subject")
            .args(["web", "--at", &at.to_string(), "--site"])
            .arg(&site)
            .args(["--computed", &COMPUTED.to_string(), "--way"])
            .args(*variant)
            .log(world.scratch().join("web.log"))
            .start()
            .unwrap();
        let is_kernel = variant[0] == "kernel";
        let is_up = || world.is_reached(at) && (is_kernel || outboard.takes(port));
        server.wait_until(PATIENCE, is_up).unwrap();
        assert_eq!(outboard.takes(port), !is_kernel, "{variant:?}");
        let talk = || {
            converse(at, &small, &large);
            std::thread::scope(|scope| {
                for _ in 0..20 {
                    // A thread is in the namespace of the one that made it.
                    scope.spawn(|| converse(at, &small, &large));
                }
            });
            Ok(())
        };
        world.on(Side::Client, talk).unwrap();
        let ended = server.ended().unwrap();
        assert!(ended.is_none(), "{variant:?}: {}", server.printed());
        server.kill().unwrap();
    }
    engine.stop(PATIENCE).unwrap();
}
