//! The list of requirements, and what is excepted from it.

use crate::shell;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;

/// A requirement: a numbered one, such as MUST-7 of RFC 9293, or a section, such as §7.2.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    pub rfc: u16,
    pub name: String,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RFC {} {}", self.rfc, self.name)
    }
}

#[derive(Deserialize)]
pub struct Document {
    pub rfc: u16,
    pub title: String,
    requires: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Documents {
    document: Vec<Document>,
}

/// What an exception says is lacking.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lacks {
    Code,
    Test,
    Both,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    rfc: u16,
    items: Vec<String>,
    lacks: Lacks,
    reason: String,
}

/// Requirements that are being worked on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pending {
    rfc: u16,
    items: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    #[serde(default)]
    exception: Vec<Exception>,
    #[serde(default)]
    pending: Vec<Pending>,
}

/// The requirements with what is said of them.
pub struct List {
    documents: Vec<Document>,
    items: BTreeMap<Item, String>,
    exceptions: Exceptions,
}

impl List {
    /// Reads `docs/requirements`.
    pub fn read() -> Result<List> {
        let Documents { document } = read("list.toml")?;
        let items = document
            .iter()
            .flat_map(|document| {
                document.requires.iter().map(|(name, says)| {
                    let item = Item {
                        rfc: document.rfc,
                        name: name.clone(),
                    };
                    (item, says.clone())
                })
            })
            .collect();
        Ok(List {
            documents: document,
            items,
            exceptions: read("exceptions.toml")?,
        })
    }

    /// The documents, in the order of the file.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// Every requirement.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.keys()
    }

    /// What a requirement says.
    pub fn says(&self, item: &Item) -> &str {
        self.items.get(item).map_or("", String::as_str)
    }

    /// The requirement that a citation means: itself, or the section that it is part of.
    pub fn covering(&self, cited: &Item) -> Option<&Item> {
        let mut item = cited.clone();
        loop {
            if let Some((found, _)) = self.items.get_key_value(&item) {
                return Some(found);
            }
            let (parent, _) = item.name.rsplit_once('.')?;
            item.name = parent.to_string();
        }
    }

    /// What is excused, if anything is.
    pub fn exception(&self, item: &Item) -> Option<Lacks> {
        let exceptions = &self.exceptions.exception;
        let found = exceptions
            .iter()
            .find(|e| e.rfc == item.rfc && e.items.contains(&item.name))?;
        Some(found.lacks)
    }

    /// How many requirements have an exception.
    pub fn exceptions(&self) -> usize {
        self.exceptions
            .exception
            .iter()
            .map(|e| e.items.len())
            .sum()
    }

    /// Whether somebody is at it.
    pub fn is_pending(&self, item: &Item) -> bool {
        let pending = &self.exceptions.pending;
        pending
            .iter()
            .any(|p| p.rfc == item.rfc && p.items.contains(&item.name))
    }

    /// Exceptions from what is not required, and those without a reason.
    pub fn contradictions(&self) -> Vec<String> {
        let Exceptions { exception, pending } = &self.exceptions;
        let excepted = exception.iter().map(|e| (e.rfc, &e.items));
        let pending = pending.iter().map(|p| (p.rfc, &p.items));
        let mut wrong = Vec::new();
        for (rfc, names) in excepted.chain(pending) {
            for name in names {
                let item = Item {
                    rfc,
                    name: name.clone(),
                };
                if !self.items.contains_key(&item) {
                    wrong.push(format!("exceptions.toml: {item} is not in the list"));
                }
            }
        }
        for exception in exception.iter().filter(|e| e.reason.trim().is_empty()) {
            wrong.push(format!(
                "exceptions.toml: RFC {} without reason",
                exception.rfc
            ));
        }
        wrong
    }
}

fn read<T: DeserializeOwned>(name: &str) -> Result<T> {
    let path = shell::root().join("docs/requirements").join(name);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} makes no sense", path.display()))
}
