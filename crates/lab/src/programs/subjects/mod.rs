//! The programs, by family: how each is configured and started.

mod copies;
mod databases;
mod messages;
mod proxies;
mod runtimes;
mod shells;
mod stores;
mod web;

use super::subject::Subject;

/// All of them, as the table has them.
pub fn all() -> impl Iterator<Item = &'static Subject> {
    let families = [
        web::SUBJECTS,
        proxies::SUBJECTS,
        stores::SUBJECTS,
        databases::SUBJECTS,
        messages::SUBJECTS,
        copies::SUBJECTS,
        shells::SUBJECTS,
        runtimes::SUBJECTS,
    ];
    families.into_iter().flatten()
}

/// Those whose names contain one of these words; all, without any.
pub fn chosen(words: &[String]) -> Vec<&'static Subject> {
    let has = |subject: &&Subject| {
        words.is_empty()
            || words
                .iter()
                .any(|word| subject.name.to_lowercase().contains(&word.to_lowercase()))
    };
    all().filter(has).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_tell_them_apart() {
        let names: BTreeSet<_> = all().map(|subject| subject.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(!chosen(&["APACHE".into()]).is_empty());
        assert_eq!(chosen(&[]).len(), all().count());
    }

    #[test]
    fn each_says_what_it_needs() {
        for subject in all() {
            assert!(!subject.program.is_empty(), "{}", subject.name);
            let example = subject.program.starts_with("examples/");
            assert_eq!(subject.packages.is_empty(), example, "{}", subject.name);
        }
    }
}
