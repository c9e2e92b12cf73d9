//! The Debian package: made of what the tests are made of, looked through by lintian, and installed,
//! upgraded and removed in a root of its own by dpkg.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the package is made from, beside the programs.
const SOURCES: [&str; 10] = [
    "Makefile",
    "crates/capi",
    "debian",
    "packaging",
    "docs",
    "examples",
    "README.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let both = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&both).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Builds the package of a version in a copy of the sources; where it is.
fn build(scratch: &Path, built: &Path, version: &str) -> PathBuf {
    let tree = scratch.join(version);
    std::fs::create_dir_all(tree.join("target/debian")).expect("a directory");
    for source in SOURCES {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let to = tree.join(source);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        run(Command::new("cp").arg("-r").arg(from).arg(&to));
    }
    let changelog = tree.join("debian/changelog");
    let text = std::fs::read_to_string(&changelog).expect("a changelog");
    let text = text.replacen("(0.1.0-", &format!("({version}-"), 1);
    std::fs::write(&changelog, text).expect("a changelog");
    let mut rules = Command::new("debian/rules");
    // What the tests are made of is large, and its symbols are in a package of their own.
    rules.arg("binary").current_dir(&tree).env("BUILT", built);
    run(&mut rules);
    let packages = std::fs::read_dir(tree.join("target/debian")).expect("packages");
    packages
        .map(|entry| entry.expect("a package").path())
        .find(|path| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            name.starts_with("outboard_") && name.ends_with(".deb")
        })
        .expect("the package")
}

/// All packages that were built with one, those of the libraries, too.
fn all_beside(package: &Path) -> Vec<PathBuf> {
    let folder = package.parent().expect("a folder");
    let entries = std::fs::read_dir(folder).expect("packages");
    let paths = entries.map(|entry| entry.expect("a package").path());
    let packages: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "deb"))
        .filter(|path| !path.to_string_lossy().contains("-dbgsym_"))
        .collect();
    assert_eq!(packages.len(), 3, "{packages:?}");
    packages
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
    if lab::skip_without(test, &["dh", "dh_installsysusers", "lintian", "dpkg"]) {
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
