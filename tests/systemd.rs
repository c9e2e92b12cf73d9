//! What is installed, under a systemd of its own: process 1 of namespaces in which nothing of this
//! machine is touched.
#![forbid(unsafe_code)]

mod machine;

use machine::Machine;
use std::io::Write;
use std::process::Command;

#[test]
fn systemd_runs_an_engine_and_nginx_on_it() {
    let test = "systemd_runs_an_engine_and_nginx_on_it";
    if lab::skip_without(test, &[&machine::NEEDED[..], &["make"]].concat()) {
        return;
    }
    let Some(built) = lab::built_beside(test, env!("CARGO_BIN_EXE_outboard")) else {
        return;
    };
    let mut machine = Machine::new("systemd");
    let installed = Command::new("make")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["-s", "install-files", "PREFIX=/usr"])
        .arg(format!("BUILT={}", built.display()))
        .arg(format!("DESTDIR={}", machine.stage().display()))
        .arg(format!("TARGET={}", machine.scratch().display()))
        .status()
        .expect("make");
    assert!(installed.success());
    let said = machine.run("try.sh");
    for line in said.lines().filter(|line| line.starts_with("NOT HERE: ")) {
        let program = line.trim_start_matches("NOT HERE: ");
        let line = format!("SKIPPED (needs {program}): a part of {test}\n");
        // Whether anyone reads it is not the test's business.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}
