//! What is installed, under a systemd of its own: process 1 of namespaces in which nothing of this
//! machine is touched.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(900);

/// A directory, and a process in it, that are gone in the end.
struct Trial {
    directory: PathBuf,
    systemd: Option<Child>,
}

impl Drop for Trial {
    fn drop(&mut self) {
        if let Some(systemd) = &mut self.systemd {
            // Its namespaces go with it, and what is mounted in them.
            let _ = systemd.kill();
            let _ = systemd.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn systemd_runs_an_engine_and_nginx_on_it() {
    let needed = [
        "/lib/systemd/systemd",
        "unshare",
        "nginx",
        "make",
        "curl",
        "systemd-analyze",
    ];
    if lab::skip_without("systemd_runs_an_engine_and_nginx_on_it", &needed) {
        return;
    }
    let Some(built) = lab::built_beside(
        "systemd_runs_an_engine_and_nginx_on_it",
        env!("CARGO_BIN_EXE_outboard"),
    ) else {
        return;
    };
    let name = format!("outboard-systemd-{}", std::process::id());
    let mut trial = Trial {
        directory: std::env::temp_dir().join(name),
        systemd: None,
    };
    let (stage, out) = (trial.directory.join("stage"), trial.directory.join("out"));
    std::fs::create_dir_all(&stage).expect("a directory");
    std::fs::create_dir_all(&out).expect("a directory");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = Command::new("make")
        .current_dir(here)
        .args(["-s", "install-files", "PREFIX=/usr"])
        .arg(format!("BUILT={}", built.display()))
        .arg(format!("DESTDIR={}", stage.display()))
        .arg(format!(
            "TARGET={}",
            trial.directory.join("target").display()
        ))
        .status()
        .expect("make");
    assert!(installed.success());
    std::fs::copy(here.join("tests/systemd/try.sh"), out.join("try.sh")).expect("a copy");
    // What docs/first-hour.md says of systemd is done as it stands there.
    let document = std::fs::read_to_string(here.join("docs/first-hour.md")).expect("a document");
    let blocks: Vec<&str> = document
        .split("\n```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```").map(|(block, _)| block))
        .collect();
    assert_eq!(blocks.len(), 3, "service, upgrade, and off again");
    for (block, name) in blocks.iter().zip(["service", "upgrade", "off"]) {
        let commands = block.replace("sudo ", "") + "\n";
        std::fs::write(out.join(format!("hour-{name}.sh")), commands).expect("a file");
    }
    let systemd = Command::new("unshare")
        .args([
            "-m",
            "-p",
            "-f",
            "-n",
            "-u",
            "-i",
            "-C",
            "--kill-child=KILL",
        ])
        .arg("bash")
        .arg(here.join("tests/systemd/boot.sh"))
        .args([&stage, &out])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("unshare");
    let systemd = trial.systemd.insert(systemd);
    let start = Instant::now();
    let said = |what: &str| std::fs::read_to_string(out.join(what)).unwrap_or_default();
    while !out.join("status").exists() {
        let ended = systemd.try_wait().expect("a child");
        let log = format!("{}{}", said("console"), said("log"));
        assert!(ended.is_none(), "systemd has ended: {log}");
        assert!(start.elapsed() < LIMIT, "it hangs: {log}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(said("status").trim(), "0", "{}", said("log"));
    assert!(said("log").ends_with("all done\n"), "{}", said("log"));
}
