//! `outboard plan`, called.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

const OUTBOARD: &str = env!("CARGO_BIN_EXE_outboard");

/// A directory of this test's own, removed at its end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(test: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("outboard-plan-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of a file with this text.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn plan(arguments: &[&str]) -> Output {
    Command::new(OUTBOARD)
        .arg("plan")
        .args(arguments)
        // No engine of this machine's is asked.
        .env("OUTBOARD_SOCKET", "/nonexistent/engine.sock")
        .output()
        .unwrap()
}

/// What it prints; it has to succeed.
#[track_caller]
pub fn says(arguments: &[&str]) -> String {
    let output = plan(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it complains of; it has to fail, and to print nothing else.
#[track_caller]
pub fn refuses(arguments: &[&str]) -> String {
    let output = plan(arguments);
    assert!(!output.status.success(), "{arguments:?} was accepted");
    assert!(output.stdout.is_empty(), "{arguments:?} answered as well");
    String::from_utf8(output.stderr).unwrap()
}

#[track_caller]
pub fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

pub fn close(value: &Value, expected: f64) -> bool {
    value
        .as_f64()
        .is_some_and(|value| (value / expected - 1.0).abs() < 1e-9)
}
