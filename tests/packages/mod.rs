//! Debian packages, made of what the tests are made of.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What it takes to make one.
pub const NEEDED: [&str; 3] = ["dh", "dh_installsysusers", "dpkg"];

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

/// Runs it; what it says.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let both = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&both).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Builds the package of a version in a copy of the sources; where it is.
pub fn build(scratch: &Path, built: &Path, version: &str) -> PathBuf {
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
    rules.arg("binary").current_dir(&tree).env("BUILT", built);
    // What the tests are made of is large: no packages of its symbols, in which nobody looks here, and no more
    // compression than there must be.
    rules.env("DEB_BUILD_OPTIONS", "noautodbgsym");
    rules.env("DPKG_DEB_COMPRESSOR_LEVEL", "0");
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
pub fn all_beside(package: &Path) -> Vec<PathBuf> {
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
