//! A policy that decides where listeners are `adaptive`: a file of its own, read with the setting that names it.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::Policy;
use rustix::fs::{Mode, OFlags, open};
use serde::Deserialize;

/// The longest file that is read, in bytes: a policy has some tens of short lines.
const LONGEST: u64 = 64 << 10;

/// A policy and the file that it was read from. Whoever has one has read it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "PathBuf")]
pub struct PolicyFile {
    path: PathBuf,
    policy: Arc<Policy>,
}

impl PolicyFile {
    /// Reads a file.
    ///
    /// # Errors
    /// There is no policy in it: what is wrong, and on which line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let unreadable = |error: Error| {
            format!("cannot read the policy {name}: {error} (`outboard plan --policy` writes one)")
        };
        let file = open_regular(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        let mut some = file.take(LONGEST + 1);
        some.read_to_end(&mut bytes).map_err(unreadable)?;
        // First: what is cut off in the middle of a letter would seem to be no text.
        if bytes.len() as u64 > LONGEST {
            let kib = LONGEST >> 10;
            return Err(format!(
                "the policy {name} is longer than {kib} KiB, and so it is none"
            ));
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| unreadable(Error::new(ErrorKind::InvalidData, error)))?;
        let policy = Policy::parse(text).map_err(|error| format!("{name}:{error}"))?;
        Ok(Self {
            path: path.to_owned(),
            policy: Arc::new(policy),
        })
    }

    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// Opens a file that can be read without waiting for somebody: an engine that runs reads it, too.
fn open_regular(path: &Path) -> std::io::Result<File> {
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, how, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(Error::other("it is no regular file")),
    }
}

impl TryFrom<PathBuf> for PolicyFile {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<Self, String> {
        Self::read(&path)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::Config;

    /// A file for a test, gone when this is.
    pub(crate) struct Written(PathBuf);

    impl Written {
        pub(crate) fn new(name: &str, text: &str) -> Self {
            let name = format!("outboard-policy-{name}-{}.json", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).expect("written");
            Self(path)
        }

        /// The line of a configuration that names it.
        pub(crate) fn setting(&self) -> String {
            format!("policy = \"{}\"\n", self.0.display())
        }
    }

    impl Drop for Written {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Connections from 100 requests a second on, and files above 1024 bytes.
    pub(crate) const FROM_100: &str = r#"{ "version": 2,
        "connections": { "offload_from_rate": 100, "offload_below_rate": null },
        "rules": [
            { "up_to_bytes": 1024, "offload_from_rate": null, "offload_below_rate": null }
        ],
        "above": { "offload_from_rate": 0, "offload_below_rate": null } }"#;

    #[test]
    fn a_policy_is_read_with_the_configuration() {
        let file = Written::new("read", FROM_100);
        let text = format!("placement = \"adaptive\"\n{}", file.setting());
        let config = Config::parse("x", &text).expect("valid");
        let read = config.policy.as_ref().expect("a policy");
        assert!(read.policy().offload_connections(100.0));
        assert!(!read.policy().offload(1024, 100.0));
        // The same path, and something else in it.
        let again = Config::parse("x", &text).expect("valid");
        assert_eq!(config.changes(&again).live.len(), 0);
        std::fs::write(read.path(), FROM_100.replace("100", "200")).expect("written");
        let other = Config::parse("x", &text).expect("valid");
        assert_eq!(config.changes(&other).live, ["policy"]);
    }

    #[test]
    fn what_is_no_policy_is_refused_with_both_lines() {
        let refused = |text: &str| Config::parse("x", text).expect_err("refused").to_string();
        let file = Written::new("wrong", &FROM_100.replace("\"above\"", "\"over\""));
        let error = refused(&format!("\n{}", file.setting()));
        let line = format!("x:2: {}:6: unknown field `over`", file.0.display());
        assert!(error.starts_with(&line), "{error}");
        let error = refused("policy = \"/nowhere/policy.json\"\n");
        assert!(
            error.starts_with("x:1: cannot read the policy /nowhere/policy.json: ")
                && error.contains("plan --policy"),
            "{error}"
        );
        let long = Written::new(
            "long",
            &format!("{}{FROM_100}", " ".repeat(LONGEST as usize)),
        );
        let error = refused(&long.setting());
        assert!(error.contains("is longer than 64 KiB"), "{error}");
        // The last letter that is read is read in half.
        let letters = " ".repeat(LONGEST as usize) + "ä";
        let error = refused(&Written::new("letters", &letters).setting());
        assert!(error.contains("is longer than 64 KiB"), "{error}");
        let place = Written::new("no-text", "");
        std::fs::write(&place.0, b"{\xff}").expect("written");
        let error = refused(&place.setting());
        assert!(error.contains("invalid utf-8"), "{error}");
        let longest = " ".repeat(LONGEST as usize - FROM_100.len()) + FROM_100;
        let longest = Written::new("longest", &longest);
        assert!(Config::parse("x", &longest.setting()).is_ok());
        let error = refused("policy = \"/dev/null\"\n");
        assert!(error.contains("it is no regular file"), "{error}");
    }

    #[test]
    fn nobody_is_waited_for_who_would_write_a_policy() {
        let place = Written::new("fifo", "");
        std::fs::remove_file(&place.0).expect("there");
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &place.0, fifo, Mode::RUSR, 0).expect("a FIFO");
        let error = PolicyFile::read(&place.0).expect_err("refused");
        assert!(error.contains("it is no regular file"), "{error}");
    }

    #[test]
    fn a_policy_that_decides_nothing_is_told_of_and_no_error() {
        let file = Written::new("nothing", FROM_100);
        let config = |further: &str| {
            let text = format!("interface = \"lo\"\n{}{further}", file.setting());
            Config::parse("x", &text).expect("read")
        };
        // `--placement kernel` is for an hour of need.
        for further in ["", "placement = \"kernel\"\n"] {
            assert!(config(further).check().is_ok());
            let warning = config(further).is_ignored().expect("nobody follows it");
            assert!(
                warning.starts_with("policy: ") && warning.contains("adaptive"),
                "{warning}"
            );
        }
        for further in [
            "placement = \"adaptive\"\n",
            "[placements]\n\"0.0.0.0:80\" = \"adaptive\"\n",
        ] {
            assert_eq!(config(further).is_ignored(), None);
        }
    }
}
