//! The Test Anything Protocol: a line for each thing that a program has looked at.

use super::printed::Ran;
use crate::others::results::Results;

/// The results of a program: one for each of its lines, and one for how it ended. What is skipped does
/// not count, and neither does what is not expected to pass yet. Of a program that does not say first how
/// many lines there will be, that number may be chance: such a one is one test.
pub fn read(ran: &Ran<'_>) -> Results {
    let mut results = Results::new();
    let mut is_planned = None;
    for line in ran.text.lines() {
        if line.starts_with("1..0") {
            return Results::new();
        }
        if line.starts_with("1..") {
            is_planned.get_or_insert(true);
        }
        let (passed, rest) = match line.strip_prefix("not ok ") {
            Some(rest) => (false, rest),
            None => match line.strip_prefix("ok ") {
                Some(rest) => (true, rest),
                None => continue,
            },
        };
        let number = rest.split(|c: char| !c.is_ascii_digit()).next();
        let Some(number) = number.filter(|number| !number.is_empty()) else {
            continue;
        };
        is_planned.get_or_insert(false);
        let directive = rest.to_lowercase();
        if !directive.contains("# skip") && !directive.contains("# todo") {
            results.insert(format!("{} {number}", ran.name), passed);
        }
    }
    if is_planned != Some(true) {
        results.clear();
    }
    results.insert(format!("{} to its end", ran.name), ran.status == Some(0));
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: Option<i32>, text: &str) -> Vec<(String, bool)> {
        let ran = Ran {
            name: "t/a.t",
            status,
            text,
        };
        read(&ran).into_iter().collect()
    }

    #[test]
    fn each_line_has_its_result() {
        let text = "1..5\nok 1 - connected\nnot ok 2 - closed\n# Failed\nok 3 # skip no IPv6\n\
            not ok 4 # Todo later\nok then\nok 5\n";
        let expected = [
            ("t/a.t 1", true),
            ("t/a.t 2", false),
            ("t/a.t 5", true),
            ("t/a.t to its end", false),
        ];
        let expected = expected.map(|(name, passed)| (name.to_owned(), passed));
        assert_eq!(of(Some(1), text), expected);
    }

    #[test]
    fn one_that_was_broken_off_is_seen() {
        let end = |passed| ("t/a.t to its end".to_owned(), passed);
        assert_eq!(of(None, ""), [end(false)]);
        assert_eq!(of(Some(124), "1..2\n"), [end(false)]);
        assert_eq!(of(Some(0), "1..2\n"), [end(true)]);
    }

    #[test]
    fn one_that_counts_only_at_its_end_is_one_test() {
        let text = "ok 1 # skip no IPv6\n1..2\nok 2 - closed\n";
        assert_eq!(of(Some(0), text), [("t/a.t to its end".to_owned(), true)]);
    }

    #[test]
    fn one_that_skips_itself_does_not_count() {
        assert!(of(Some(0), "1..0 # SKIP no network\n").is_empty());
    }
}
