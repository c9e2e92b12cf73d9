//! Where a program finds what it needs.

use crate::tool;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// The port at which every one of them listens.
pub const PORT: u16 = 8080;
/// The port of the server behind those that pass requests on, at the client's side.
pub const BEHIND: u16 = 8081;

/// Where a program finds what it needs.
pub struct Place {
    /// Its executable.
    pub program: PathBuf,
    /// A directory of its own.
    pub directory: PathBuf,
    /// The files to serve.
    pub site: PathBuf,
    /// The address of the server behind.
    pub behind: String,
}

impl Place {
    /// Its command: the executable, and the words of `line`.
    pub fn command(&self, line: &str) -> Vec<String> {
        self.command_of(line.split_whitespace())
    }

    /// Its command: the executable, and `arguments`.
    pub fn command_of(
        &self,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Vec<String> {
        let program = self.program.display().to_string();
        let arguments = arguments.into_iter().map(Into::into);
        std::iter::once(program).chain(arguments).collect()
    }

    /// Writes a file into its directory, and returns the file's path.
    pub fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.path(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {path}"))?;
        Ok(path)
    }

    /// Writes a program into its directory, and returns the file's path. Another process writes the file:
    /// what is open for writing here at the moment of a fork cannot be executed (ETXTBSY).
    pub fn script(&self, name: &str, text: &str) -> Result<String> {
        let (text, script) = (self.write(&format!("{name}.text"), text)?, self.path(name));
        tool::run(&format!("install -m 755 {text} {script}"))?;
        Ok(script)
    }

    /// The path of a file in its directory.
    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}
