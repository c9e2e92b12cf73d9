//! The first thing that a newcomer sees: `outboard demo`, as it is.
#![forbid(unsafe_code)]

use std::process::Command;

/// It gives up on a machine that is busy with other things, and says so; then it is run again.
const ATTEMPTS: u32 = 5;

#[test]
fn the_demo_serves_accounts_for_it_and_leaves_nothing() {
    let test = "the_demo_serves_accounts_for_it_and_leaves_nothing";
    let binary = env!("CARGO_BIN_EXE_outboard");
    if lab::skip_without(test, &["curl", "nginx"]) || lab::built_beside(test, binary).is_none() {
        return;
    }
    for attempt in 1.. {
        let demo = Command::new(binary).arg("demo").output().expect("it runs");
        let said = String::from_utf8_lossy(&demo.stdout).into_owned();
        let complained = String::from_utf8_lossy(&demo.stderr).into_owned();
        if complained.contains("is the machine busy") && attempt < ATTEMPTS {
            continue;
        }
        assert!(demo.status.success(), "{said}{complained}");
        for part in [
            "Served on the engine by",
            "99 of 100 take no longer than",
            "equal hash",
            "All as it should be",
            "Nothing of it stays",
            // Where it is weak, and what to do to know more, stands beside the figures.
            "There an engine gains least",
            "`outboard lab run web`",
            "`outboard plan`",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(
            !said.contains("DIFFERS") && !said.contains("DID NOT ANSWER"),
            "{said}"
        );
        for row in ["outboard serve", "nginx"] {
            let shown = said.lines().filter(|line| line.starts_with(row)).count();
            assert!(shown >= 6, "{row}: {said}");
        }
        return;
    }
}
