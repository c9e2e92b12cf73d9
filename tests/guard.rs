//! The guard: a server that grows with what it serves is reloaded in time, and no client notices.
#![forbid(unsafe_code)]

use lab::growing::{Growing, Guard, PATH};
use lab::load::Load;
use lab::outboard::Outboard;
use lab::{Process, Program, Side, World};
use std::path::{Path, PathBuf};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_outboard");
const LIMIT: Duration = Duration::from_secs(60);

/// A place for a test's files, which is removed again.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let name = format!("outboard-test-guard-{}-{test}", std::process::id());
        let place = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&place.0).expect("a directory");
        place
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join(name)).unwrap_or_default();
        text.lines().map(String::from).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn guard(options: &[&str]) -> Process {
    let program = Program::new(BINARY).arg("guard").args(options);
    program.start().expect("a guard")
}

/// 48 MB of growth under a limit of 24: reloaded at least twice, every request answered.
fn grows(test: &str, engine: bool) {
    if lab::skip_without(test, &["nginx"]) || lab::built_beside(test, BINARY).is_none() {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = engine.then(|| outboard.start_engine(&world, None).expect("an engine"));
    let metrics = world.scratch().join("guard.prom");
    let metrics = metrics.to_str().expect("plain letters");
    let options = [
        "--max",
        "24M",
        "--at",
        "60%",
        "--interval",
        "50ms",
        "--pause",
        "500ms",
        "--min-available",
        "0",
        "--pressure",
        "0",
        "--metrics",
        metrics,
    ];
    let guarded = Guard {
        binary: Path::new(BINARY),
        options: &options,
    };
    let on = engine.as_ref().map(|_| &outboard);
    let server = Growing::start(&world, on, Some(guarded), None).expect("a server");
    let load = Load {
        server: Growing::address(),
        path: PATH.into(),
        close: true,
        connections: 64,
        rate: 1_000.0,
        duration: Duration::from_secs(12),
        grace: LIMIT,
    };
    let outcome = world.on(Side::Client, || load.run()).expect("a load");
    let told = server.told().expect("a report");
    let of = |event: &str| told.iter().filter(|line| line["event"] == event).count();
    assert_eq!(
        (outcome.due, outcome.answered),
        (12_000, 12_000),
        "{told:?}"
    );
    assert!(of("reload") >= 2, "{told:?}");
    assert!(of("recovered") >= 1, "{told:?}");
    assert_eq!(of("failed"), 0, "{told:?}");
    let text = std::fs::read_to_string(metrics).expect("metrics");
    let most = text
        .lines()
        .find_map(|line| line.strip_prefix("outboard_guard_server_bytes_most "));
    let most: f64 = most
        .and_then(|number| number.parse().ok())
        .expect("a number");
    assert!(most < f64::from(24 << 20), "{most}");
    server.stop().expect("it ends as its server does");
    if let Some(engine) = engine {
        engine.stop(LIMIT).expect("an end");
    }
}

#[test]
fn a_server_that_grows_on_the_kernel_loses_no_request() {
    grows("a_server_that_grows_on_the_kernel_loses_no_request", false);
}

#[test]
fn a_server_that_grows_on_the_engine_loses_no_request() {
    grows("a_server_that_grows_on_the_engine_loses_no_request", true);
}

#[test]
fn a_guard_ends_as_its_server_does() {
    let place = Place::new("ends");
    let file = place.file("late");
    let behind = format!("(sleep 0.3; echo there >{file}) & exit 0");
    for (script, status) in [
        ("exit 7", 7),
        ("kill -KILL $$", 128 + 9),
        // What puts itself behind is waited for.
        (&behind, 0),
    ] {
        let mut guard = guard(&["--", "sh", "-c", script]);
        let ended = guard.wait(LIMIT).expect("it ends");
        assert_eq!(ended.code(), Some(status), "{script}");
    }
    assert_eq!(place.lines("late"), ["there"]);
    let mut nothing = guard(&["--", "/nowhere/at-all"]);
    assert_eq!(nothing.wait(LIMIT).expect("it ends").code(), Some(1));
}

#[test]
fn what_a_guard_is_told_its_server_hears() {
    let place = Place::new("told");
    let file = place.file("said");
    let script = format!(
        "trap 'echo again >>{file}' HUP; trap 'exit 5' TERM; echo ready >>{file}; while :; do sleep 0.01; done"
    );
    let mut guard = guard(&["--", "sh", "-c", &script]);
    guard
        .wait_until(LIMIT, || place.lines("said") == ["ready"])
        .expect("it starts");
    guard
        .signal(rustix::process::Signal::HUP)
        .expect("a signal");
    guard
        .wait_until(LIMIT, || place.lines("said") == ["ready", "again"])
        .expect("it hears");
    guard
        .signal(rustix::process::Signal::TERM)
        .expect("a signal");
    assert_eq!(guard.wait(LIMIT).expect("it ends").code(), Some(5));
}

#[test]
fn a_server_that_runs_already_is_reloaded_by_a_command() {
    let place = Place::new("runs");
    let server = Program::new("sleep").arg("600").start().expect("a server");
    let (pid, report) = (server.id().to_string(), place.file("report"));
    let command = format!("echo $OUTBOARD_GUARD_PID >>{}", place.file("reloaded"));
    let mut guard = guard(&[
        "--max",
        "1K",
        "--interval",
        "10ms",
        "--pause",
        "20ms",
        "--report",
        &report,
        "--reload-command",
        &command,
        "--pid",
        &pid,
    ]);
    guard
        .wait_until(LIMIT, || place.lines("reloaded").len() >= 3)
        .expect("it reloads");
    assert!(place.lines("reloaded").iter().all(|line| *line == pid));
    let reloads: Vec<String> = place.lines("report");
    let has = |line: &String, what: &str| line.contains(what);
    assert!(
        has(&reloads[0], "\"in_vain\":0") && has(&reloads[0], "\"measure\":\"server\""),
        "{reloads:?}"
    );
    assert!(has(&reloads[1], "\"in_vain\":1"), "{reloads:?}");
    server.kill().expect("an end");
    assert_eq!(guard.wait(LIMIT).expect("it ends, too").code(), Some(0));
}

#[test]
fn a_reload_that_fails_is_told() {
    let place = Place::new("fails");
    let report = place.file("report");
    let options = [
        "--max",
        "1K",
        "--interval",
        "10ms",
        "--pause",
        "10ms",
        "--report",
        &report,
    ];
    for (further, expected) in [
        (["--reload-command", "exit 3"].as_slice(), "status 3"),
        (&[], "give --reload-command"),
    ] {
        let mut words = options.to_vec();
        words.extend(further);
        words.extend(["--", "sleep", "600"]);
        let mut guard = guard(&words);
        let failed = || {
            let lines = place.lines("report");
            let mut lines = lines.iter();
            lines.any(|line| line.contains("\"event\":\"failed\"") && line.contains(expected))
        };
        guard.wait_until(LIMIT, failed).expect("it is told");
        guard.stop(LIMIT).expect("an end");
    }
}

const APACHE: &str = "ServerRoot SCRATCH\nPidFile SCRATCH/pid\nErrorLog SCRATCH/error.log\nServerName test\n\
    LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so\n\
    LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
    User nobody\nGroup nogroup\nListen 8000\nDocumentRoot SCRATCH\n";
const HAPROXY: &str = "defaults\n  mode http\n  timeout client 9s\n  timeout server 9s\n  \
    timeout connect 9s\nfrontend test\n  bind :8000\n  http-request return status 200 content-type text/plain string page\n";

/// The processes below one.
fn below(pid: u32) -> std::collections::BTreeSet<String> {
    let children = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(children).unwrap_or_default();
    children.split_whitespace().map(String::from).collect()
}

/// And whoever asks them meanwhile has an answer to each request.
#[test]
fn servers_that_run_already_are_reloaded_by_their_own_signals() {
    let test = "servers_that_run_already_are_reloaded_by_their_own_signals";
    for (name, config, options) in [
        ("apache2", APACHE, &["-DFOREGROUND", "-f"][..]),
        ("haproxy", HAPROXY, &["-W", "-db", "-f"]),
    ] {
        if lab::skip_without(test, &[name]) {
            continue;
        }
        let world = World::new().expect("a private network");
        let scratch = world.scratch().display().to_string();
        let file = world.scratch().join("server.conf");
        std::fs::write(&file, config.replace("SCRATCH", &scratch)).expect("a file");
        std::fs::write(world.scratch().join("page"), "page").expect("a page");
        let program = world.program(Side::Server, name);
        let program = program.args(options).arg(&file);
        let mut server = program
            .log(world.scratch().join("server.log"))
            .start()
            .expect("a server");
        let address = (Side::Server.ipv4(), 8000).into();
        let pid = server.id();
        // The master listens before it has workers.
        server
            .wait_until(LIMIT, || {
                world.is_reached(address) && !below(pid).is_empty()
            })
            .expect("it serves");
        let before = below(pid);
        let own = pid.to_string();
        // A connection for each request: every reload finds some that are begun, and some that wait.
        let load = Load {
            server: address,
            path: "/page".into(),
            close: true,
            connections: 32,
            rate: 500.0,
            duration: Duration::from_secs(3),
            grace: LIMIT,
        };
        let asked = std::thread::scope(|scope| {
            let clients = scope.spawn(|| world.on(Side::Client, || load.run()));
            let mut guard = guard(&[
                "--max",
                "1K",
                "--interval",
                "20ms",
                "--pause",
                "300ms",
                "--pid",
                &own,
            ]);
            // All that were there are replaced, and the master is not.
            guard
                .wait_until(LIMIT, || {
                    let now = below(pid);
                    !now.is_empty() && now.is_disjoint(&before)
                })
                .expect("reloaded");
            let asked = clients.join().expect("clients").expect("a load");
            guard.stop(LIMIT).expect("an end");
            asked
        });
        assert_eq!(
            (asked.failed, asked.unanswered()),
            (0, 0),
            "{name}: {asked:?}"
        );
        assert_eq!(asked.answered, asked.due, "{name}");
        server
            .wait_until(LIMIT, || world.is_reached(address))
            .expect("it serves still");
        server.stop(LIMIT).expect("an end");
    }
}
