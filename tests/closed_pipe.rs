//! What commands do when nobody reads what they say, as behind `| head -1`: none panics.
#![forbid(unsafe_code)]

use lab::outboard::Outboard;
use lab::{Side, World};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OUTBOARD: &str = env!("CARGO_BIN_EXE_outboard");
const SIGPIPE: i32 = 13;
const LIMIT: Duration = Duration::from_secs(60);

/// An end of a pipe for a command to write to, whose other end is closed.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn outboard(arguments: &[&str]) -> Command {
    let mut command = Command::new(OUTBOARD);
    command
        .args(arguments)
        .env("OUTBOARD_SOCKET", "/nonexistent/engine.sock");
    command
}

#[test]
fn a_command_whose_work_is_its_output_ends_by_sigpipe_without_a_word() {
    let times = ["-a", "50us", "-p", "80us", "-o", "10us", "-e", "60us"];
    for more in [&[][..], &["--csv"], &["--json"]] {
        let mut command = outboard(&[&["plan"], &times[..], more].concat());
        let output = command.stdout(unread()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(SIGPIPE), "{more:?}: {said}");
        assert_eq!(said, "");
    }
    let status = outboard(&["plan", "--source-003"])
        .stdout(unread())
        .status();
    assert_eq!(status.expect("it runs").signal(), Some(SIGPIPE));
}

/// The commands that the help lists.
fn commands_of(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let names: Vec<&str> = listed
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() > 10 && names.contains(&"demo"), "{help}");
    names
}

#[test]
fn no_command_panics_when_nobody_reads_it() {
    let test = "no_command_panics_when_nobody_reads_it";
    if lab::skip_without(test, &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let beside = Outboard::new(Path::new(OUTBOARD), &world);
    let engine = beside.start_engine(&world, None).expect("an engine");
    let own = Side::Server.ipv4().to_string();
    let address = (Side::Server.ipv4(), 8080).into();
    let server = beside
        .start_serve(&world, world.scratch(), address)
        .expect("a server");
    let pid = server.id().to_string();
    let url = format!("http://{own}:8080/");
    let generated = world.scratch().join("generated").display().to_string();
    let service = world.scratch().display().to_string();
    let times = ["-a", "50us", "-p", "80us", "-o", "10us", "-e", "60us"];
    let shared: &[&[&str]] = &[
        &["--help"],
        &["--version"],
        &["help", "engine"],
        &["ss", "-a"],
        &["ss", "-a", "--json"],
        &["top", "-n", "2", "--interval", "100ms"],
        &["stats"],
        &["stats", "--prometheus"],
        &["reload"],
        &["explain", &pid],
        &["explain", "--json", &pid],
        &["capture", "--seconds", "1", "-w", "-"],
        &["trace", "begin", "--sends", "1"],
        &["trace", "end", "--json"],
        &["service", "list", "--root", &service],
        &["service", "enable", "no-such", "--root", &service],
        &["engine", "--check", "-i", "lo"],
        &["engine", "-i", "no-such-iface"],
        &["serve", "/nonexistent", "-p", "8081"],
        &["respond", "-i", "no-such-iface", "-p", "80"],
        &["run", "--", "echo", "hello"],
        &["load", "nonsense"],
        &["lab", "list"],
        &["lab", "run", "no-such"],
        &["lab", "compare", "/nonexistent", "/nonexistent"],
        &["divert", "list"],
        &["divert", "unload"],
        &["guard", "--max", "1G", "--", "true"],
        &["guard", "--pid", "999999999", "--max", "1G"],
        // Its whole work is tried with everything else of it.
        &["demo", "--no-such"],
        &["generate", &generated],
    ];
    let help = outboard(&["--help"]).output().expect("it runs").stdout;
    for command in commands_of(&String::from_utf8_lossy(&help)) {
        let is_tried = shared.iter().any(|tried| tried[0] == command) || command == "plan";
        assert!(is_tried, "{command} is not tried");
    }
    let plan = [&["plan"], &times[..]].concat();
    let commands = shared.iter().copied().chain([&plan[..]]);
    for arguments in commands {
        // Nobody reads what it says, what it complains of, or either.
        for (out, err) in [(true, false), (false, true), (true, true)] {
            let mut command = Command::new(OUTBOARD);
            command
                .args(arguments)
                .env("OUTBOARD_SOCKET", beside.socket())
                .stdin(Stdio::null())
                .stdout(if out { unread() } else { Stdio::null() })
                .stderr(if err { unread() } else { Stdio::piped() });
            let output = command.output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            let status = output.status;
            let is_plain = matches!(status.code(), Some(0..=2)) || status.signal() == Some(SIGPIPE);
            assert!(is_plain, "{arguments:?} {out} {err}: {status} {said}");
            assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        }
    }
    // From where clients are.
    let rated: &[&str] = &["--sockets", "--close", "-n", "50", "--conn-rate", "500"];
    let people: &[&str] = &["--users", "200", "-d", "1s"];
    let printed = [&["--json"][..], &["--csv"], &[]];
    let loads = [rated, people].map(|load| printed.map(|further| [load, further].concat()));
    for further in loads.concat() {
        let status = world.on(Side::Client, || {
            let mut load = Command::new(OUTBOARD);
            load.args(["load", &url]).args(&further).stdout(unread());
            Ok(load.status()?)
        });
        let status = status.expect("it runs");
        let is_plain = matches!(status.code(), Some(0 | 1)) || status.signal() == Some(SIGPIPE);
        assert!(is_plain, "{further:?}: {status}");
        assert_ne!(status.code(), Some(1), "it loads, and does not complain");
    }
    server.stop(LIMIT).expect("an end");
    engine.stop(LIMIT).expect("an end");
}

#[test]
fn a_demo_that_nobody_reads_ends_and_leaves_nothing() {
    if lab::skip_without(
        "a_demo_that_nobody_reads_ends_and_leaves_nothing",
        &["curl"],
    ) {
        return;
    }
    let mut demo = outboard(&["demo"])
        .stdout(unread())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let prefix = format!("outboard-{}-", demo.id());
    let status = demo.wait().expect("it ends");
    assert_eq!(status.signal(), Some(SIGPIPE), "{status}");
    let left = Command::new("ip").args(["netns", "list"]).output();
    let left = String::from_utf8_lossy(&left.expect("ip").stdout).into_owned();
    assert!(!left.contains(&prefix), "{left}");
}

#[test]
fn a_complaint_that_nobody_hears_is_still_a_failure() {
    for arguments in [
        &["plan", "--from", "/nonexistent"][..],
        &["ss"],
        &["engine", "-i", "no-such-iface"],
        &["run", "--", "/nonexistent"],
    ] {
        let status = outboard(arguments).stderr(unread()).status().expect("runs");
        // A panic would be 101.
        let quiet = status.code() == Some(1) || status.signal() == Some(SIGPIPE);
        assert!(quiet, "{arguments:?}: {status}");
    }
}

#[test]
fn a_responder_answers_on_when_nobody_reads_its_lines() {
    let test = "a_responder_answers_on_when_nobody_reads_its_lines";
    if lab::skip_without(test, &["curl"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let url = format!("http://{}:8000/?s=10", Side::Server.ipv4());
    let metrics = world.scratch().join("respond.prom");
    let mut responder = world
        .on(Side::Server, || {
            let mut responder = outboard(&["respond", "-i", Side::Server.interface()]);
            responder
                .args(["-p", "8000", "--mode", "afxdp", "--prometheus"])
                .arg(&metrics)
                .stdout(unread())
                .stderr(unread());
            Ok(responder.spawn()?)
        })
        .expect("it starts");
    let fetch = || {
        let curl = world.program(Side::Client, "curl");
        curl.args(["-s", "--max-time", "5", &url]).output().is_ok()
    };
    let until = Instant::now() + LIMIT;
    let count = |name: &str| {
        let text = std::fs::read_to_string(&metrics).unwrap_or_default();
        let line = text
            .lines()
            .find(|line| line.contains(name) && !line.starts_with('#'));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    // Until it has answered, has said so in vain, and has answered again.
    for answers in 1..=2 {
        while !fetch() || count("requests").is_none_or(|requests| requests < f64::from(answers)) {
            assert_eq!(responder.try_wait().expect("it runs"), None);
            assert!(Instant::now() < until, "no answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    responder.kill().expect("it runs");
    responder.wait().expect("it ends");
}

#[test]
fn a_server_serves_on_when_nobody_reads_its_log() {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
    let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut server = outboard(&["serve", "--log", "-L", &format!("127.0.0.1:{port}")])
        .arg(site)
        .stdout(unread())
        .stderr(unread())
        .spawn()
        .expect("it starts");
    let fetch = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"GET /plan.md HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let until = Instant::now() + LIMIT;
    // The second is served by who logged the first.
    for _ in 0..2 {
        let answer = loop {
            match fetch() {
                Ok(answer) => break answer,
                Err(error) if Instant::now() > until => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer:.80}");
    }
    assert_eq!(server.try_wait().expect("it runs"), None);
    server.kill().expect("it runs");
    server.wait().expect("it ends");
}
