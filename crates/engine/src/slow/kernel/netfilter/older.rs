//! Tables of the older kind that come while the engine runs. The kernel tells nobody of them, but lists them for who may
//! read that; what is in them only their own tools know, which this process does not start any more.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A family of them.
pub(super) struct Family {
    pub name: &'static str,
    /// Where the kernel lists its tables.
    pub list: &'static str,
    /// What reads them.
    pub tools: [&'static str; 2],
}

pub(super) const FAMILIES: [Family; 2] = [
    Family {
        name: "iptables",
        list: "/proc/net/ip_tables_names",
        tools: ["iptables-legacy-save", "iptables-save"],
    },
    Family {
        name: "ip6tables",
        list: "/proc/net/ip6_tables_names",
        tools: ["ip6tables-legacy-save", "ip6tables-save"],
    },
];

/// Bytes of a list that are read: there are some five tables in a family.
const MOST: usize = 4096;

/// The kernel's lists, opened by who still may, and the tables that there were then.
#[derive(Debug, Default)]
pub struct OlderTables {
    lists: Vec<(&'static str, File)>,
    known: BTreeSet<String>,
}

impl OlderTables {
    /// Those of now. Of a family whose list cannot be read nobody hears.
    pub fn of_now() -> Self {
        let open = |family: &Family| Some((family.name, File::open(family.list).ok()?));
        Self::listed_in(FAMILIES.iter().filter_map(open).collect())
    }

    fn listed_in(lists: Vec<(&'static str, File)>) -> Self {
        let mut tables = Self {
            lists,
            known: BTreeSet::new(),
        };
        tables.known = tables.there_are();
        tables
    }

    /// Whether some that come would be noticed.
    pub fn are_listed(&self) -> bool {
        !self.lists.is_empty()
    }

    /// Those that were not there then, in words.
    pub fn new_ones(&self) -> Vec<String> {
        let there_are = self.there_are();
        there_are.difference(&self.known).cloned().collect()
    }

    fn there_are(&self) -> BTreeSet<String> {
        let mut tables = BTreeSet::new();
        for (family, list) in &self.lists {
            let mut text = [0; MOST];
            let length = list.read_at(&mut text, 0).unwrap_or(0);
            let text = String::from_utf8_lossy(&text[..length]);
            tables.extend(text.lines().map(|table| format!("{table} of {family}")));
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_come_are_told_from_those_that_were_there() {
        let path = std::env::temp_dir().join(format!("outboard-tables-{}", std::process::id()));
        std::fs::write(&path, "nat\n").unwrap();
        let opened = File::open(&path).unwrap();
        let tables = OlderTables::listed_in(vec![("iptables", opened)]);
        assert!(tables.are_listed() && tables.new_ones().is_empty());
        std::fs::write(&path, "nat\nfilter\nmangle\n").unwrap();
        let new = ["filter of iptables", "mangle of iptables"];
        assert_eq!(tables.new_ones(), new);
        std::fs::write(&path, "filter\n").unwrap();
        assert_eq!(tables.new_ones(), new[..1]);
        std::fs::remove_file(&path).unwrap();
    }
}
