//! A systemd of a test's own: process 1 of namespaces in which nothing of this machine is touched.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(900);

/// What is asked for before any of it can be tried.
pub const NEEDED: [&str; 5] = [
    "/lib/systemd/systemd",
    "unshare",
    "nginx",
    "curl",
    "systemd-analyze",
];

/// A directory, and a process in it, that are gone in the end.
pub struct Machine {
    directory: PathBuf,
    systemd: Option<Child>,
}

impl Machine {
    /// One that is not booted yet.
    pub fn new(name: &str) -> Self {
        let name = format!("outboard-{name}-{}", std::process::id());
        let machine = Self {
            directory: std::env::temp_dir().join(name),
            systemd: None,
        };
        for directory in [machine.stage(), machine.out()] {
            std::fs::create_dir_all(directory).expect("a directory");
        }
        machine
    }

    /// What its control groups are below.
    fn name(&self) -> &OsStr {
        self.directory.file_name().expect("a name")
    }

    /// What lies above this machine's file system there.
    pub fn stage(&self) -> PathBuf {
        self.directory.join("stage")
    }

    /// What is `/out` there.
    pub fn out(&self) -> PathBuf {
        self.directory.join("out")
    }

    /// A directory that it does not see.
    pub fn scratch(&self) -> PathBuf {
        self.directory.join("scratch")
    }

    /// Boots, and runs a script of this directory as root, as a service; what it has said.
    #[track_caller]
    pub fn run(&mut self, script: &str) -> String {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machine");
        let out = self.out();
        std::fs::copy(here.join(script), out.join("try.sh")).expect("a copy");
        let systemd = Command::new("unshare")
            .args(["-m", "-p", "-f", "-n", "-u", "-i"])
            .args(["--kill-child=KILL", "bash"])
            .arg(here.join("boot.sh"))
            .args([self.stage(), out.clone()])
            .arg(self.name())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("unshare");
        let systemd = self.systemd.insert(systemd);
        let start = Instant::now();
        let said = |what: &str| std::fs::read_to_string(out.join(what)).unwrap_or_default();
        while !out.join("status").exists() {
            let ended = systemd.try_wait().expect("a child");
            let log = format!("{}{}", said("console"), said("log"));
            assert!(ended.is_none(), "systemd has ended: {log}");
            assert!(start.elapsed() < LIMIT, "it hangs: {log}");
            std::thread::sleep(Duration::from_millis(100));
        }
        let log = said("log");
        assert_eq!(said("status").trim(), "0", "{log}");
        assert!(log.ends_with("all done\n"), "{log}");
        log
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(systemd) = &mut self.systemd {
            // Its namespaces go with it, and what is mounted in them.
            let _ = systemd.kill();
            let _ = systemd.wait();
            let groups = self.directory.join("groups");
            let _ = std::fs::create_dir_all(&groups);
            // Mounted for as long as it takes. What died a moment ago may hold one yet.
            let clean = "mount -t cgroup2 cgroup2 \"$0\"; for n in 1 2 3 4 5 6 7 8 9; do \
                         find \"$0/$1\" -depth -type d -exec rmdir {} + && exit; sleep 0.2; done";
            let _ = Command::new("unshare")
                .args(["-m", "sh", "-c", clean])
                .arg(&groups)
                .arg(self.name())
                .stderr(Stdio::null())
                .status();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
