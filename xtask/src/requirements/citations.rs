//! Citations in sources: `//= RFC 9293 MUST-18, §3.10.8` at code, `//~ RFC …` above a test.

use super::list::Item;
use crate::sources::Source;

/// What a citation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The code here meets the requirement.
    Code,
    /// The test below shows it.
    Test,
}

/// A requirement that a line names.
#[derive(Debug, PartialEq, Eq)]
pub struct Citation {
    pub line: usize,
    pub side: Side,
    pub item: Item,
}

/// The citations of a file, and complaints about those that are not in order.
pub fn of(source: &Source) -> (Vec<Citation>, Vec<String>) {
    let script = source.is("pkt");
    if !(script || source.is("rs") || source.is("c")) {
        return (Vec::new(), Vec::new());
    }
    let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
    let path = source.path.to_string_lossy();
    let of_tests = path.contains("/tests/") || path.starts_with("tests/");
    let tests_from = if script || of_tests || path.ends_with("/tests.rs") {
        0
    } else {
        let module = lines.iter().position(|line| *line == "#[cfg(test)]");
        module.unwrap_or(lines.len())
    };
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some((side, rest)) = marked(line) else {
            continue;
        };
        let complaint = match (side, index >= tests_from) {
            (Side::Code, true) => Some("code is cited in a test"),
            (Side::Test, false) => Some("a test is cited outside of tests"),
            (Side::Test, true) if !script && !stands_above_a_test(&lines[index..]) => {
                Some("no test follows the citation")
            }
            _ => None,
        };
        match (complaint, items(rest)) {
            (None, Some(items)) => found.extend(items.into_iter().map(|item| Citation {
                line: index + 1,
                side,
                item,
            })),
            (complaint, _) => wrong.push(format!(
                "{path}:{}: {}",
                index + 1,
                complaint.unwrap_or("no citation such as `RFC 9293 MUST-7, §3.4`")
            )),
        }
    }
    (found, wrong)
}

fn marked(line: &str) -> Option<(Side, &str)> {
    let sides = [("//=", Side::Code), ("//~", Side::Test)];
    sides
        .into_iter()
        .find_map(|(mark, side)| Some((side, line.strip_prefix(mark)?)))
}

/// `RFC 9293 MUST-7, §3.4`.
fn items(text: &str) -> Option<Vec<Item>> {
    let (rfc, names) = text.trim().strip_prefix("RFC ")?.split_once(' ')?;
    let rfc = rfc.parse().ok()?;
    names
        .split(',')
        .map(|name| {
            let name = name.trim();
            let number = name.strip_prefix("MUST-").or(name.strip_prefix('§'))?;
            let digits = |c: char| c.is_ascii_digit() || c == '.';
            (!number.is_empty() && number.chars().all(digits)).then(|| Item {
                rfc,
                name: name.to_string(),
            })
        })
        .collect()
}

/// Whether only comments and attributes, the test's own among them, stand before a function.
fn stands_above_a_test(lines: &[&str]) -> bool {
    let mut is_test = false;
    for line in lines {
        if line.starts_with("//") {
            continue;
        }
        if line.starts_with("#[") {
            is_test |= line.contains("test]");
            continue;
        }
        return is_test && line.contains("fn ");
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, text: &str) -> (Vec<String>, usize) {
        let source = Source {
            path: path.into(),
            text: text.into(),
        };
        let (found, wrong) = of(&source);
        let found = found
            .iter()
            .map(|c| format!("{} {:?} {}", c.line, c.side, c.item))
            .collect();
        (found, wrong.len())
    }

    // Spelled in parts, so that these lines are no citations of this file.
    const CODE: &str = concat!("/", "/= RFC 9293 MUST-7, §3.4\nlet a = 1;");
    const TEST: &str = concat!("/", "/~ RFC 8985 §7.2\n// Why.\n#[test]\nfn a() {}");

    #[test]
    fn citations_are_found_where_they_belong() {
        let (found, wrong) = read("crates/tcp/src/a.rs", CODE);
        let expected = ["1 Code RFC 9293 MUST-7", "1 Code RFC 9293 §3.4"];
        assert_eq!((found, wrong), (expected.map(String::from).to_vec(), 0));
        let (found, wrong) = read("crates/tcp/tests/a.rs", TEST);
        assert_eq!((found.len(), wrong), (1, 0));
        let script = concat!("/", "/~ RFC 8985 §7.2\n0 socket(...) = 3");
        assert_eq!(read("tests/a.pkt", script).0.len(), 1);
    }

    #[test]
    fn citations_elsewhere_and_others_are_complained_of() {
        let nothing = Vec::new();
        assert_eq!(read("crates/tcp/tests/a.rs", CODE), (nothing.clone(), 1));
        assert_eq!(read("crates/tcp/src/a.rs", TEST), (nothing.clone(), 1));
        let no_test = TEST.replace("#[test]\n", "");
        assert_eq!(
            read("crates/tcp/tests/a.rs", &no_test),
            (nothing.clone(), 1)
        );
        let unreadable = CODE.replace("MUST-7", "7");
        assert_eq!(read("crates/tcp/src/a.rs", &unreadable), (nothing, 1));
    }
}
