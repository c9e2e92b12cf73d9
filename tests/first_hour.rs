//! Every command of docs/first-hour.md, as a newcomer would type them; but what it installs goes to a
//! directory of the test's own, and comes from what the tests are made of.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is left if a step fails.
struct Traces {
    root: PathBuf,
    names: [String; 2],
}

impl Drop for Traces {
    fn drop(&mut self) {
        for name in &self.names {
            // Whoever still runs in it goes first.
            let pids = Command::new("ip").args(["netns", "pids", name]).output();
            if let Ok(pids) = pids {
                let pids = String::from_utf8_lossy(&pids.stdout).into_owned();
                let _ = Command::new("kill")
                    .arg("-9")
                    .args(pids.split_whitespace())
                    .output();
            }
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// The blocks of commands of a document, in their order.
fn commands(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        match (&mut current, line) {
            (None, "```bash") => current = Some(String::new()),
            (Some(_), "```") => blocks.extend(current.take()),
            (Some(block), line) => {
                block.push_str(line);
                block.push('\n');
            }
            _ => {}
        }
    }
    blocks
}

#[test]
fn a_newcomer_comes_from_nothing_to_nginx_and_back() {
    let test = "a_newcomer_comes_from_nothing_to_nginx_and_back";
    if lab::skip_without(test, &["bash", "nginx", "curl", "ip", "make"]) {
        return;
    }
    let Some(built) = lab::built_beside(test, env!("CARGO_BIN_EXE_outboard")) else {
        return;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(source.join("docs/first-hour.md")).expect("a document");
    let id = std::process::id();
    let traces = Traces {
        root: std::env::temp_dir().join(format!("outboard-hour-{id}")),
        names: [format!("hour-s-{id}"), format!("hour-c-{id}")],
    };
    std::fs::create_dir_all(&traces.root).expect("a directory");
    // nginx serves as another user.
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&traces.root, open).expect("rights");
    let root = traces.root.display().to_string();
    let make = format!(
        "BUILT={} PREFIX={root}/usr generated={root}/generated",
        built.display()
    );
    let blocks = commands(&document);
    assert_eq!(blocks.len(), document.matches("\n```bash\n").count());
    assert!(blocks.len() >= 8);
    // Whatever would touch this machine is this test's own.
    let script = blocks
        .concat()
        .replace(
            "sudo make install",
            &format!("make -s install-files {make}"),
        )
        .replace("sudo make uninstall", &format!("make -s uninstall {make}"))
        .replace("sudo ", "")
        .replace("/etc/outboard", &format!("{root}/etc"))
        .replace("/run/outboard-hour.pid", &format!("{root}/pid"))
        .replace("hour-server", &traces.names[0])
        .replace("hour-client", &traces.names[1]);
    let log = std::fs::File::create(traces.root.join("said")).expect("a file");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("timeout");
    shell
        .args(["-k", "5", "300", "bash", "-euo", "pipefail", "-xc", &script])
        .current_dir(source)
        .env("PATH", format!("{root}/usr/bin:{path}:/usr/sbin:/sbin"))
        .env("TMPDIR", &root)
        // No other engine of this machine's is meant.
        .env("OUTBOARD_SOCKET", format!("{root}/engine.sock"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a descriptor"))
        .stderr(log);
    let status = shell.status().expect("it runs");
    let said = std::fs::read_to_string(traces.root.join("said")).expect("a log");
    assert!(status.success(), "{status}: {said}");
    for part in [
        "ok: engine default on eth1",
        "hello from the engine",
        "LISTEN",
        "users:((\"nginx\"",
        "outboard_tcp_passive_opens_total",
        "2000 requests and",
        "Offload everything, at every load.",
    ] {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
    std::fs::remove_file(traces.root.join("said")).expect("it is there");
    let left = Command::new("find")
        .args([&root, "-not", "-type", "d"])
        .output()
        .expect("find");
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "nothing is left");
}
