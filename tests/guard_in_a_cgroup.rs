//! The guard, and a limit that is not its own: that of the cgroup in which its server is.
#![forbid(unsafe_code)]

use lab::growing::{Growing, Guard, PATH};
use lab::load::Load;
use lab::{Program, Side, World};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_outboard");
const LIMIT: Duration = Duration::from_secs(60);
/// Of the cgroup, in bytes. Without a reload the server grows beyond it, and is killed.
const MOST: u64 = 40 << 20;

/// A cgroup of a test's own, with a limit of memory.
struct Cgroup(PathBuf);

/// Where cgroups of version 2 are.
fn root() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut fields = mounts.lines().map(|line| line.split(' '));
    fields.find_map(|mut fields| {
        let place = fields.nth(1)?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(place))
    })
}

/// A shell's script that goes into a cgroup, and becomes what follows its first argument.
fn into(cgroup: &Path) -> String {
    let file = cgroup.join("cgroup.procs");
    format!("echo $$ >{}; shift; exec \"$@\"", file.display())
}

impl Cgroup {
    /// One with so many bytes in these files. `None`, where there are none of version 2, or the controller of memory is not
    /// given to those below the root.
    fn new(test: &str, limits: &[(&str, u64)]) -> Option<Self> {
        let name = format!("outboard-test-guard-{test}-{}", std::process::id());
        let made = Self(root()?.join(name));
        std::fs::create_dir(&made.0).ok()?;
        for (file, bytes) in limits {
            std::fs::write(made.0.join(file), bytes.to_string()).ok()?;
        }
        // Where there is something to swap to it is not to be used.
        let _ = std::fs::write(made.0.join("memory.swap.max"), "0");
        Some(made)
    }

    /// How often the kernel killed in it for want of memory.
    fn killed(&self) -> u64 {
        let events = std::fs::read_to_string(self.0.join("memory.events")).expect("events");
        let killed = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        killed
            .and_then(|times| times.parse().ok())
            .expect("a number")
    }

    /// A shell's script that goes into it, and becomes what follows its first argument.
    fn script(&self) -> String {
        into(&self.0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Whatever a test that failed has left in it is in the way.
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        for _ in 0..100 {
            match std::fs::remove_dir(&self.0) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }
}

/// 48 MB of growth in a cgroup of 40, of which the guard is told nothing: it is reloaded before half of a worker's
/// growth is too much for two of them. From the one to the other it takes twenty seconds, so that a guard may be late for
/// as long.
#[test]
fn a_server_is_reloaded_before_the_limit_of_its_cgroup() {
    let test = "a_server_is_reloaded_before_the_limit_of_its_cgroup";
    if lab::skip_without(test, &["nginx", "sh"]) || lab::built_beside(test, BINARY).is_none() {
        return;
    }
    let Some(cgroup) = Cgroup::new("limit", &[("memory.max", MOST)]) else {
        lab::skip(test, "a cgroup of version 2 with a limit of memory");
        return;
    };
    let world = World::new().expect("a private network");
    let script = cgroup.script();
    let options = [
        "--at",
        "40%",
        "--interval",
        "50ms",
        "--pause",
        "500ms",
        "--min-available",
        "0",
        "--pressure",
        "0",
        "--",
        "sh",
        "-c",
        &script,
        "sh",
    ];
    let guarded = Guard {
        binary: Path::new(BINARY),
        options: &options,
    };
    let server = Growing::start(&world, None, Some(guarded), None).expect("a server");
    let load = Load {
        server: Growing::address(),
        path: PATH.into(),
        close: true,
        connections: 64,
        rate: 300.0,
        duration: Duration::from_secs(40),
        grace: LIMIT,
    };
    let outcome = world.on(Side::Client, || load.run()).expect("a load");
    let told = server.told().expect("a report");
    assert_eq!(
        (outcome.due, outcome.answered),
        (12_000, 12_000),
        "{told:?}"
    );
    let of = |event: &str| -> Vec<&Value> {
        let lines = told.iter();
        lines.filter(|line| line["event"] == event).collect()
    };
    let reloads = of("reload");
    assert!(reloads.len() >= 2, "{told:?}");
    for reload in reloads {
        assert_eq!(reload["measure"], "cgroup", "{reload}");
        assert_eq!(reload["cgroup_limit_bytes"], MOST, "{reload}");
        // Of the server's own cgroup, if the kernel keeps it.
        let is_kept = cgroup.0.join("memory.pressure").exists();
        assert!(
            !is_kept || reload["pressure_percent"].is_number(),
            "{reload}"
        );
    }
    assert!(
        of("failed").is_empty() && of("killed").is_empty(),
        "{told:?}"
    );
    assert_eq!(cgroup.killed(), 0);
    server.stop().expect("it ends as its server does");
}

/// A program that wants more and more in a cgroup whose `memory.high` it has passed is made to wait at each step, so that
/// all but nothing of its time goes by in waiting for memory. The server, which is another, is in the cgroup around that.
#[test]
fn a_server_is_reloaded_when_programs_wait_for_memory() {
    const HIGH: u64 = 8 << 20;
    let test = "a_server_is_reloaded_when_programs_wait_for_memory";
    if lab::skip_without(test, &["sh", "tail", "sleep"]) {
        return;
    }
    // What is beyond is killed; to get there it needs minutes.
    let limits = [("memory.high", HIGH), ("memory.max", 16 * HIGH)];
    let cgroup = Cgroup::new("pressure", &limits);
    let pressure = |cgroup: &Cgroup| std::fs::read_to_string(cgroup.0.join("memory.pressure"));
    let Some(cgroup) = cgroup.filter(|cgroup| pressure(cgroup).is_ok()) else {
        lab::skip(
            test,
            "a cgroup of version 2 with memory.high and memory.pressure",
        );
        return;
    };
    let within = |script: &str, program: &[&str]| {
        let shell = Program::new("sh").args(["-c", script, "sh", "--"]);
        shell.args(program).start().expect("a program")
    };
    let around = root().expect("it is below it");
    let server = within(&into(&around), &["sleep", "600"]);
    let report = std::env::temp_dir().join(format!("outboard-{test}-{}", std::process::id()));
    let mut guard = Program::new(BINARY)
        .args(["guard", "--pressure", "20%", "--min-available", "0"])
        .args(["--interval", "50ms", "--reload-command", ":", "--report"])
        .arg(&report)
        .args(["--pid", &server.id().to_string()])
        .start()
        .expect("a guard");
    // It has no end, and its last line is all of it.
    let hungry = within(&cgroup.script(), &["tail", "/dev/zero"]);
    let told = || -> Vec<Value> {
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str);
        lines.filter_map(Result::ok).collect()
    };
    guard
        .wait_until(LIMIT, || {
            told().iter().any(|line| line["event"] == "reload")
        })
        .unwrap_or_else(|error| panic!("{error:#}: {:?}", pressure(&cgroup)));
    let told = told();
    let _ = std::fs::remove_file(&report);
    let reload = told.iter().find(|line| line["event"] == "reload");
    let reload = reload.expect("it was there");
    assert_eq!(reload["measure"], "pressure", "{told:?}");
    assert!(
        reload["pressure_percent"].as_f64() >= Some(20.0),
        "{told:?}"
    );
    hungry.kill().expect("an end");
    server.kill().expect("an end");
    assert!(guard.wait(LIMIT).expect("it ends, too").success());
}
