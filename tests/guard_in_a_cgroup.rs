//! The guard, and a limit that is not its own: that of the cgroup in which its server is.
#![forbid(unsafe_code)]

use lab::growing::{Growing, Guard, PATH};
use lab::load::Load;
use lab::{Side, World};
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

impl Cgroup {
    /// `None`, where there are none of version 2, or the controller of memory is not given to those below the root.
    fn new() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let mut fields = mounts.lines().map(|line| line.split(' '));
        let root = fields.find_map(|mut fields| {
            let place = fields.nth(1)?;
            (fields.next()? == "cgroup2").then(|| PathBuf::from(place))
        })?;
        let name = format!("outboard-test-guard-{}", std::process::id());
        let made = Self(root.join(name));
        std::fs::create_dir(&made.0).ok()?;
        std::fs::write(made.0.join("memory.max"), MOST.to_string()).ok()?;
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
        let file = self.0.join("cgroup.procs");
        format!("echo $$ >{}; shift; exec \"$@\"", file.display())
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
    let Some(cgroup) = Cgroup::new() else {
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
