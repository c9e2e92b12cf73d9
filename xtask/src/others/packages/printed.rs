//! What the programs of a suite print, which `each.sh` has run one after the other.

use crate::others::results::Results;

/// A program of a suite, as it ran.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran<'a> {
    /// The last word of its line in the list.
    pub name: &'a str,
    /// The status that it ended with; none if the suite was broken off before.
    pub status: Option<i32>,
    /// What it printed.
    pub text: &'a str,
}

/// The programs that ran.
pub fn split(printed: &str) -> Vec<Ran<'_>> {
    let parts = printed.split("\n=== begin ").skip(1);
    let ran = |part| {
        let (words, rest): (&str, &str) = str::split_once(part, '\n')?;
        let (text, status) = rest.rsplit_once("\n=== end ").unwrap_or((rest, ""));
        Some(Ran {
            name: words.rsplit(' ').next()?,
            status: status.trim().parse().ok(),
            text,
        })
    };
    parts.filter_map(ran).collect()
}

/// The program is one test, which passes if it ends with 0, unless it says that it skips itself.
pub fn by_status(ran: &Ran<'_>) -> Results {
    let skips = |line: &str| {
        let of_tap = line.starts_with("ok ") || line.starts_with("1..0");
        of_tap && line.to_lowercase().contains("# skip")
    };
    if ran.text.lines().any(skips) {
        return Results::new();
    }
    Results::from([(ran.name.to_owned(), ran.status == Some(0))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_its_status_and_its_text() {
        let printed = "\n=== begin --flag a\nok 1\n\n=== end 0\n\n=== begin b\n\n=== end 124\n\
            \n=== begin c\nbroken off";
        let ran = |name, status, text| Ran { name, status, text };
        let expected = [
            ran("a", Some(0), "ok 1\n"),
            ran("b", Some(124), ""),
            ran("c", None, "broken off"),
        ];
        assert_eq!(split(printed), expected);
    }

    #[test]
    fn a_program_passes_by_its_status_unless_it_skips_itself() {
        let of = |status, text| {
            by_status(&Ran {
                name: "a",
                status,
                text,
            })
        };
        let result = |passed| Results::from([("a".to_owned(), passed)]);
        assert_eq!(of(Some(0), "ok 1 - a\n"), result(true));
        assert_eq!(of(Some(1), "not ok 1 - a\n"), result(false));
        assert_eq!(of(None, "ok 1 - a"), result(false));
        assert_eq!(of(Some(0), "ok 1 - a # SKIP no IPv6\n"), Results::new());
        assert_eq!(of(Some(0), "1..0 # Skipped: no IPv6\n"), Results::new());
        assert_eq!(of(Some(0), "It is ok to # skip\n"), result(true));
    }
}
