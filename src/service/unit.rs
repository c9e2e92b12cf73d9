//! What a unit of systemd's says of its program. Only what the drop-in depends on is read; a line
//! that ends in a backslash goes on in the next (systemd.syntax(7)).

use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};

/// Where units are, in the order of precedence (systemd.unit(5)).
const PLACES: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// A service's name as it is typed: without its suffix.
pub fn name(text: &str) -> Result<String, String> {
    let name = text.strip_suffix(".service").unwrap_or(text);
    let fits = |c: char| c.is_ascii_alphanumeric() || "@:-_.\\".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
        return Err("write the name of a service, such as nginx".into());
    }
    Ok(name.into())
}

/// A unit.
pub struct Unit {
    /// Its file.
    pub path: PathBuf,
    /// Names and values, in their order.
    settings: Vec<(String, String)>,
}

impl Unit {
    /// The unit of a service, or of its template.
    pub fn find(root: &Path, service: &str) -> Result<Self> {
        let template = service
            .split_once('@')
            .map(|(front, _)| format!("{front}@.service"));
        let names = std::iter::once(format!("{service}.service")).chain(template);
        let path = names
            .flat_map(|name| PLACES.map(|place| root.join(place).join(&name)))
            .find(|path| path.is_file())
            .with_context(|| {
                format!("there is no {service}.service; `systemctl list-unit-files` shows those that are")
            })?;
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self {
            settings: settings(&text),
            path,
        })
    }

    fn values<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = &'a str> {
        self.settings
            .iter()
            .filter_map(move |(name, value)| (name == wanted).then_some(value.as_str()))
    }

    /// The program that it starts.
    pub fn program(&self) -> Result<PathBuf> {
        let line = self
            .values("ExecStart")
            .filter(|line| !line.is_empty())
            .last();
        let line = line.ok_or_else(|| anyhow!("{} starts no program", self.path.display()))?;
        // Marks before the path say how it is run.
        let line = line.trim_start_matches(['@', '-', ':', '+', '!', '|']);
        let program = line.split_whitespace().next().unwrap_or("");
        if !program.starts_with('/') {
            return Err(anyhow!(
                "{} starts {program:?}, which is no absolute path: it cannot be told whether it \
                 can run on the engine",
                self.path.display()
            ));
        }
        Ok(program.into())
    }

    /// Whether it has a library of its own preloaded.
    pub fn sets_preload(&self) -> bool {
        self.values("Environment")
            .any(|value| value.contains("LD_PRELOAD="))
    }

    /// Whether it lists the families of its sockets, and UNIX sockets are not among them.
    pub fn forbids_unix_sockets(&self) -> bool {
        let mut allowed: Vec<&str> = Vec::new();
        for value in self.values("RestrictAddressFamilies") {
            if value.is_empty() {
                allowed.clear();
            }
            allowed.extend(value.split_whitespace());
        }
        let is_list = allowed.first().is_some_and(|first| !first.starts_with('~'));
        is_list && !allowed.contains(&"AF_UNIX")
    }
}

fn settings(text: &str) -> Vec<(String, String)> {
    let whole = text.replace("\\\n", " ");
    let lines = whole.lines().map(str::trim);
    lines
        .filter(|line| !line.starts_with(['#', ';', '[']))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(text: &str) -> Unit {
        Unit {
            path: "x.service".into(),
            settings: settings(text),
        }
    }

    #[test]
    fn the_program_is_found_behind_marks_resets_and_broken_lines() {
        let program = |text: &str| unit(text).program().map(|path| path.display().to_string());
        let nginx = "[Service]\nExecStartPre=/bin/true\n# ExecStart=/no\nExecStart=/old\nExecStart=\n\
                     ExecStart=-@/usr/sbin/nginx \\\n  -g 'daemon on;'\n";
        assert_eq!(program(nginx).unwrap(), "/usr/sbin/nginx");
        assert!(program("[Service]\nType=oneshot\n").is_err());
        assert!(program("ExecStart=nginx\n").is_err());
    }

    #[test]
    fn what_stands_in_the_way_is_seen() {
        assert!(unit("Environment=A=b \"LD_PRELOAD=/x.so\"").sets_preload());
        assert!(!unit("Environment=A=b").sets_preload());
        let forbids = |text: &str| unit(text).forbids_unix_sockets();
        assert!(forbids("RestrictAddressFamilies=AF_INET AF_INET6"));
        assert!(!forbids(
            "RestrictAddressFamilies=AF_INET\nRestrictAddressFamilies=AF_UNIX"
        ));
        assert!(!forbids("RestrictAddressFamilies=~AF_PACKET"));
        assert!(!forbids(
            "RestrictAddressFamilies=AF_INET\nRestrictAddressFamilies=\n"
        ));
        assert!(!forbids("Type=notify"));
    }

    #[test]
    fn names_are_those_of_units() {
        assert_eq!(name("nginx.service").as_deref(), Ok("nginx"));
        assert_eq!(
            name("postgresql@15-main").as_deref(),
            Ok("postgresql@15-main")
        );
        for wrong in ["", "../x", "a/b", ".service", "a b"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
