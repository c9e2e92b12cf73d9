//! What a program is to the table: what it needs, how it is started, told to reload, and spoken to.

use super::clients::Client;
use super::exchange::Protocol;
use super::place::Place;
use super::serving::Reload;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Who speaks to a program.
#[derive(Clone, Copy, Debug)]
pub enum Clients {
    /// The lab itself.
    Speak(Protocol),
    /// Other programs.
    Run(&'static Client),
}

/// A program in one of the ways in which people run it.
pub struct Subject {
    /// As the table calls it.
    pub name: &'static str,
    /// The Debian packages that bring all that it needs, with blanks between; none for an example of
    /// outboard's own.
    pub packages: &'static str,
    /// Its executable, as [`find`] looks for it.
    pub program: &'static str,
    /// What else it takes to prepare it and to be its client, looked for likewise.
    pub also: &'static [&'static str],
    /// Prepares it, and returns its command, the executable first.
    pub command: fn(&Place) -> Result<Vec<String>>,
    /// Who speaks to it.
    pub clients: Clients,
    /// How it takes a new configuration while it serves.
    pub reload: Option<Reload>,
    /// Whether it passes on to [`BEHIND`](super::place::BEHIND).
    pub passes_on: bool,
    /// The most bytes that it takes or gives at once, if fewer than the large file has.
    pub most: Option<usize>,
    /// Whether nothing can take the place of its calls.
    pub apart: bool,
}

impl Subject {
    /// A web server of which nothing is known yet.
    pub const WEB: Self = Self {
        name: "",
        packages: "",
        program: "",
        also: &[],
        command: |place| Ok(place.command("")),
        clients: Clients::Speak(Protocol::Http),
        reload: None,
        passes_on: false,
        most: None,
        apart: false,
    };

    /// The executable.
    ///
    /// # Errors
    /// It is not installed.
    pub fn executable(&self) -> Result<PathBuf> {
        find(self.program).with_context(|| format!("there is no {}", self.program))
    }

    /// How one comes by what it needs.
    pub fn brought_by(&self) -> String {
        match self.packages {
            "" => "cargo build --workspace --examples".into(),
            packages => format!("apt-get install {packages}"),
        }
    }

    /// What is not there of what it needs.
    pub fn missing(&self) -> Vec<&'static str> {
        let all = std::iter::once(&self.program).chain(self.also);
        all.filter(|name| find(name).is_none()).copied().collect()
    }
}

/// A program, looked for in PATH and where administrators' tools are, or a file by its whole path, or by
/// its path from where this program is. A star in a whole path stands for a version: the last one is meant.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.is_relative() && name.contains('/') {
        let own = std::env::current_exe().ok()?;
        return Some(own.with_file_name(name)).filter(|path| path.exists());
    }
    if path.is_relative() {
        return crate::tool::find(name);
    }
    let Some((before, after)) = name.split_once('*') else {
        return Some(path).filter(|path| path.exists()).map(Path::to_owned);
    };
    let cut = before.rfind('/')? + 1;
    let entries = std::fs::read_dir(&before[..cut]).ok()?;
    let mut versions: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|entry| entry.starts_with(&before[cut..]))
        .map(|entry| format!("{}{entry}{after}", &before[..cut]))
        .filter(|path| Path::new(path).exists())
        .collect();
    // 9 comes before 15.
    versions.sort_unstable_by_key(|path| (path.len(), path.clone()));
    versions.pop().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_the_last_version() {
        let root = std::env::temp_dir().join(format!("lab-versions-{}", std::process::id()));
        for version in ["14", "15", "16"] {
            std::fs::create_dir_all(root.join(version)).unwrap();
        }
        for version in ["14", "15"] {
            std::fs::write(root.join(version).join("server"), "").unwrap();
        }
        let pattern = format!("{}/1*/server", root.display());
        let found = find(&pattern);
        let none = find(&format!("{}/2*/server", root.display()));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, Some(root.join("15/server")));
        assert_eq!(none, None);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let subject = Subject {
            program: "sh",
            also: &["/no/such/file", "sh"],
            ..Subject::WEB
        };
        assert_eq!(subject.missing(), ["/no/such/file"]);
    }
}
