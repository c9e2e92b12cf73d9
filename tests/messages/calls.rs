//! Commands that fail, and what they say.

use std::process::Command;

/// The program.
pub const OUTBOARD: &str = env!("CARGO_BIN_EXE_outboard");
/// Who has no rights.
pub const NOBODY: u32 = 65_534;

/// What a command says; it has to fail.
#[track_caller]
pub fn complaint(mut command: Command) -> String {
    let output = command
        .env("OUTBOARD_SOCKET", "/nonexistent/engine.sock")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{command:?} succeeded: {said}");
    assert!(!said.contains("(os error"), "{command:?}: {said}");
    assert!(!said.contains("panicked"), "{command:?}: {said}");
    said
}

/// It fails, and says these things.
#[track_caller]
pub fn says(arguments: &[&str], parts: &[&str]) {
    let mut command = Command::new(OUTBOARD);
    command.args(arguments);
    let said = complaint(command);
    for part in parts {
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}
