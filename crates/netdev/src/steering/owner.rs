//! Who holds a program: for the message that says why an interface is not to be had.

use std::fmt;
use std::fs;

/// Characters of a command line that a message quotes, at most.
const QUOTED: usize = 160;

/// A process that has a program open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOwner {
    /// Its number, in the PID namespace of who asks.
    pub process: u32,
    /// Its name, as the kernel has it.
    pub name: String,
    /// The words of its command line; none if they cannot be read.
    pub command: Vec<String>,
}

impl ProgramOwner {
    /// The first process found that has the program with this id open, or a link that holds it. The
    /// kernel tells the id with the descriptor.
    pub(super) fn find(program: u32) -> Option<Self> {
        let line = format!("prog_id:\t{program}");
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let process = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if let Some(process) = process.filter(|process| holds(*process, &line)) {
                return Some(Self::read(process));
            }
        }
        None
    }

    fn read(process: u32) -> Self {
        let of = |file: &str| fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
        let words = of("cmdline");
        Self {
            process,
            name: String::from_utf8_lossy(&of("comm")).trim().to_owned(),
            command: words
                .split(|byte| *byte == 0)
                .filter(|word| !word.is_empty())
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect(),
        }
    }
}

/// Whether a descriptor of the process says `line` of itself.
fn holds(process: u32, line: &str) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fdinfo")) else {
        return false;
    };
    entries.flatten().any(|entry| {
        fs::read_to_string(entry.path()).is_ok_and(|text| text.lines().any(|found| found == line))
    })
}

impl fmt::Display for ProgramOwner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (process {})", self.name, self.process)?;
        if self.command.is_empty() {
            return Ok(());
        }
        let command = self.command.join(" ");
        let quoted: String = command.chars().take(QUOTED).collect();
        let rest = if quoted.len() < command.len() {
            "..."
        } else {
            ""
        };
        write!(formatter, ": {quoted}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_cut() {
        let mut owner = ProgramOwner {
            process: 7,
            name: "outboard".to_owned(),
            command: Vec::new(),
        };
        assert_eq!(owner.to_string(), "outboard (process 7)");
        owner.command = vec!["outboard".to_owned(), "engine".to_owned()];
        assert_eq!(owner.to_string(), "outboard (process 7): outboard engine");
        owner.command.push("ü".repeat(1000));
        let shown = owner.to_string();
        assert!(shown.ends_with("üüü..."), "{shown}");
        assert!(shown.chars().count() < 200, "{shown}");
    }
}
