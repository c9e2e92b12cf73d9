//! Every command of docs/first-hour.md, as a newcomer types them: from a package to nginx on an engine, through
//! an upgrade, to a machine that is as it was.
#![forbid(unsafe_code)]

mod machine;
mod packages;

use machine::Machine;
use std::path::Path;

/// The blocks of commands of a document, each with its heading and its number below that.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let (mut heading, mut number, mut inside) = ("", 0, false);
    for line in text.lines() {
        match (inside, line) {
            (false, "```bash") => {
                number += 1;
                blocks.push((format!("{heading} {number}"), String::new()));
                inside = true;
            }
            (true, "```") => inside = false,
            (true, line) => {
                let (_, block) = blocks.last_mut().expect("it has begun");
                block.push_str(line);
                block.push('\n');
            }
            (false, line) => {
                if let Some(title) = line.strip_prefix("## ") {
                    (heading, number) = (title, 0);
                }
            }
        }
    }
    blocks
}

#[test]
fn a_newcomer_comes_from_nothing_to_nginx_and_back() {
    let test = "a_newcomer_comes_from_nothing_to_nginx_and_back";
    let needed = ["apt", "dpkg", "useradd", "runuser", "man"];
    if lab::skip_without(
        test,
        &[&machine::NEEDED[..], &packages::NEEDED, &needed].concat(),
    ) {
        return;
    }
    let Some(built) = lab::built_beside(test, env!("CARGO_BIN_EXE_outboard")) else {
        return;
    };
    let mut machine = Machine::new("hour");
    for (place, version) in [("1", "0.1.0"), ("2", "0.1.1")] {
        let package = packages::build(&machine.scratch(), built, version);
        let to = machine.out().join("packages").join(place);
        std::fs::create_dir_all(&to).expect("a directory");
        for package in packages::all_beside(&package) {
            let name = package.file_name().expect("a name");
            std::fs::copy(&package, to.join(name)).expect("a copy");
        }
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(here.join("docs/first-hour.md")).expect("a document");
    let blocks = blocks(&document);
    assert_eq!(
        blocks.len(),
        document.matches("\n```").count() / 2,
        "of bash all"
    );
    assert!(blocks.len() >= 10, "{blocks:?}");
    let checks = include_str!("machine/hour-checks.sh");
    let mut script = format!("set -euo pipefail\ncd\n{checks}\nset -x\n");
    for (name, block) in &blocks {
        script += &format!("{block}check {name:?}\n");
    }
    std::fs::write(machine.out().join("hour.bash"), script).expect("a script");
    let said = machine.run("hour.sh");
    for part in [
        "ok: engine default on hour0",
        "Active: active (running)",
        "Welcome to nginx",
        "users:((\"nginx\"",
        "2000 requests and",
        "Offload everything, at every load",
        "changed: drain_seconds",
        "nginx runs on the kernel from its next start on",
    ] {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
}
