//! What an ordinary user is told who asks an engine of root's: answers, where they are for everybody, and
//! otherwise what to do.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Side, World};

const LIMIT: Duration = Duration::from_secs(60);
const NOBODY: u32 = 65_534;

/// A program that everybody may run, and that is gone in the end.
struct Copied(PathBuf);

impl Drop for Copied {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn whoever_asks_an_engine_of_roots_is_answered_or_told_what_to_do() {
    let test = "whoever_asks_an_engine_of_roots_is_answered_or_told_what_to_do";
    if lab::skip_without(test, &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let binary = Path::new(env!("CARGO_BIN_EXE_outboard"));
    let outboard = Outboard::new(binary, &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    let address = (Side::Server.ipv4(), 8080).into();
    let server = outboard
        .start_serve(&world, world.scratch(), address)
        .expect("a server");
    let name = format!("outboard-of-nobody-{}", std::process::id());
    let own = Copied(std::env::temp_dir().join(name));
    lab::tool::copy_program(binary, &own.0).expect("a copy");
    let ask = |arguments: &[&str]| -> Output {
        let mut command = Command::new(&own.0);
        command
            .args(arguments)
            .env("OUTBOARD_SOCKET", outboard.socket())
            .uid(NOBODY)
            .gid(NOBODY);
        command.output().expect("it runs")
    };
    let pid = server.id().to_string();
    for (arguments, part) in [
        (&["ss", "-ap"][..], "LISTEN"),
        (&["stats"], "listeners"),
        (&["stats", "--prometheus"], "# EOF"),
        (&["top", "-n", "1", "--interval", "100ms"], "accept/s"),
        (&["explain", &pid], "listener"),
        (&["explain", "--json", &pid], "explanations"),
    ] {
        let answer = ask(arguments);
        let said = String::from_utf8_lossy(&answer.stdout);
        assert!(answer.status.success(), "{arguments:?}: {answer:?}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    let file = world.scratch().join("of-nobody.pcapng");
    let file = file.display().to_string();
    for arguments in [&["reload"][..], &["capture", "-w", &file]] {
        let answer = ask(arguments);
        let said = String::from_utf8_lossy(&answer.stderr);
        assert!(!answer.status.success(), "{arguments:?}: {answer:?}");
        assert!(
            said.contains("root and the engine's own user") && said.contains("use sudo"),
            "{arguments:?}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    }
    assert!(!Path::new(&file).exists(), "nothing was begun");
    // The directory of engines may be closed to others altogether.
    use std::os::unix::fs::PermissionsExt;
    let closed = world.scratch().join("closed");
    std::fs::create_dir(&closed).expect("a directory");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).expect("rights");
    for command in ["ss", "stats", "top", "reload"] {
        let mut refused = Command::new(&own.0);
        refused
            .arg(command)
            .env("OUTBOARD_SOCKET", closed.join("engine.sock"))
            .uid(NOBODY)
            .gid(NOBODY);
        let answer = refused.output().expect("it runs");
        let said = String::from_utf8_lossy(&answer.stderr);
        assert!(
            !answer.status.success() && said.contains("use sudo"),
            "{command}: {said}"
        );
    }
    server.stop(LIMIT).expect("an end");
    engine.stop(LIMIT).expect("an end");
}
