//! The Debian package: made of what the tests are made of, looked through by lintian, and installed,
//! upgraded and removed in a root of its own by dpkg.
#![forbid(unsafe_code)]

mod packages;

use packages::{all_beside, build, run};
use std::path::{Path, PathBuf};
use std::process::Command;

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn dpkg(root: &Path, arguments: &[&str]) -> String {
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", root.display()))
        // Nothing else is installed there, not even a shell.
        .args(["--force-script-chrootless", "--force-depends"])
        .args(arguments);
    run(&mut dpkg)
}

/// The files below a root, without dpkg's own.
fn files(root: &Path) -> Vec<String> {
    let list = run(Command::new("find").arg(root).args(["-not", "-type", "d"]));
    let own = format!("{}/", root.display());
    let mut files: Vec<String> = list
        .lines()
        .filter_map(|line| line.strip_prefix(&own))
        .filter(|file| !file.starts_with("var/lib/dpkg/") && !file.starts_with("var/log/"))
        .map(str::to_owned)
        .collect();
    files.sort();
    files
}

#[test]
fn the_package_is_clean_and_comes_and_goes() {
    let test = "the_package_is_clean_and_comes_and_goes";
    if lab::skip_without(test, &[&packages::NEEDED[..], &["lintian"]].concat()) {
        return;
    }
    let Some(built) = lab::built_beside(test, env!("CARGO_BIN_EXE_outboard")) else {
        return;
    };
    let name = format!("outboard-package-{}", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    let first = build(&scratch.0, built, "0.1.0");
    let mut lintian = Command::new("lintian");
    lintian
        .args(["--fail-on", "error,warning", "--allow-root"])
        .args(all_beside(&first));
    let said = run(&mut lintian);
    assert_eq!(said.trim(), "", "lintian has something to say");

    let root = scratch.0.join("root");
    for directory in [
        "var/lib/dpkg/info",
        "var/lib/dpkg/updates",
        "var/log",
        "etc",
        "run",
    ] {
        std::fs::create_dir_all(root.join(directory)).expect("a directory");
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").expect("a file");
    let first = first.display().to_string();
    dpkg(&root, &["-i", &first]);
    let users = std::fs::read_to_string(root.join("etc/passwd")).expect("users");
    assert!(
        users.lines().any(|line| line.starts_with("outboard:")),
        "{users}"
    );
    let installed = files(&root);
    assert!(
        installed.contains(&"usr/bin/outboard".to_owned()),
        "{installed:?}"
    );
    // It works where it is, and what was enabled by hand stays over an upgrade.
    let outboard = root.join("usr/bin/outboard");
    assert!(run(Command::new(&outboard).arg("--version")).contains("0.1.0"));
    let unit = root.join("usr/lib/systemd/system/server.service");
    std::fs::write(&unit, "[Service]\nExecStart=/usr/bin/outboard\n").expect("a unit");
    let mut enable = Command::new(&outboard);
    enable
        .args(["service", "enable", "server", "--root"])
        .arg(&root);
    run(enable.env_remove("OUTBOARD_PRELOAD"));
    let dropin = root.join("etc/systemd/system/server.service.d/90-outboard.conf");
    let text = std::fs::read_to_string(&dropin).expect("a drop-in");
    let library = "LD_PRELOAD=/usr/lib/outboard/liboutboard_preload.so\n";
    assert!(text.contains(library), "{text}");

    let second = build(&scratch.0, built, "0.1.1").display().to_string();
    dpkg(&root, &["-i", &second]);
    assert!(dpkg(&root, &["-s", "outboard"]).contains("Version: 0.1.1-"));
    let mut disable = Command::new(&outboard);
    run(disable
        .args(["service", "disable", "server", "--root"])
        .arg(&root));
    std::fs::remove_file(&unit).expect("the unit");
    assert_eq!(files(&root), installed, "an upgrade leaves nothing else");

    dpkg(&root, &["-P", "outboard"]);
    let left: Vec<String> = files(&root)
        .into_iter()
        // The user stays, as policy wants it: files may be his.
        .filter(|file| !file.starts_with("etc/"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}
