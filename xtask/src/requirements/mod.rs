//! Whether everything that the RFCs require is met by code and shown by a test, as far as citations
//! can say. The list of requirements is `docs/requirements/list.toml`, which describes the form of
//! a citation; what is not met has its reason in `exceptions.toml` beside it.

mod citations;
mod list;

use crate::sources;
use anyhow::{Result, bail};
use citations::{Citation, Side};
use list::{Item, Lacks, List};
use std::collections::{BTreeMap, BTreeSet};

/// What speaks for a requirement.
#[derive(Default)]
struct Evidence {
    code: usize,
    tests: usize,
}

impl Evidence {
    /// Whether this is all that is asked for, apart from what an exception says is lacking.
    fn suffices(&self, lacks: Option<Lacks>) -> bool {
        let code = self.code > 0 || matches!(lacks, Some(Lacks::Code | Lacks::Both));
        let tests = self.tests > 0 || matches!(lacks, Some(Lacks::Test | Lacks::Both));
        code && tests
    }
}

/// Checks the citations, prints the table; with `missing`, also each requirement that lacks one.
///
/// # Errors
/// Every requirement that is neither met nor excepted nor pending, every citation of something that
/// is not required, every exception that is not needed.
pub fn check(missing: bool) -> Result<String> {
    let list = List::read()?;
    let mut wrong = list.contradictions();
    let mut evidence: BTreeMap<&Item, Evidence> = BTreeMap::new();
    for source in &sources::all()? {
        let (found, complaints) = citations::of(source);
        wrong.extend(complaints);
        for Citation { line, side, item } in found {
            let Some(required) = list.covering(&item) else {
                wrong.push(format!(
                    "{}:{line}: {item} is not in the list of requirements",
                    source.path.display()
                ));
                continue;
            };
            let evidence = evidence.entry(required).or_default();
            match side {
                Side::Code => evidence.code += 1,
                Side::Test => evidence.tests += 1,
            }
        }
    }

    let mut pending = BTreeSet::new();
    for item in list.items() {
        let nothing = Evidence::default();
        let found = evidence.get(item).unwrap_or(&nothing);
        let lacks = list.exception(item);
        if lacks.is_some() && found.suffices(None) {
            wrong.push(format!("{item} is met and shown: it needs no exception"));
        }
        if found.suffices(lacks) {
            continue;
        }
        let what = match (found.code, found.tests) {
            (0, 0) => "code and test",
            (0, _) => "code",
            _ => "test",
        };
        let said = format!("{item} ({}): no {what} cited", list.says(item));
        if list.is_pending(item) {
            pending.insert(item);
            if missing {
                println!("  pending: {said}");
            }
        } else {
            wrong.push(said);
        }
    }

    println!("{}", table(&list, &evidence, &pending));
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!(
        "{} requirements, {} citations, {} exceptions, {} pending",
        list.items().count(),
        evidence.values().map(|e| e.code + e.tests).sum::<usize>(),
        list.exceptions(),
        pending.len()
    ))
}

fn table(list: &List, evidence: &BTreeMap<&Item, Evidence>, pending: &BTreeSet<&Item>) -> String {
    let mut table = String::from("   RFC  required  in code  in tests  excepted  pending\n");
    for document in list.documents() {
        let items: Vec<&Item> = list.items().filter(|i| i.rfc == document.rfc).collect();
        let count = |wanted: &dyn Fn(&Item) -> bool| items.iter().filter(|i| wanted(i)).count();
        let has = |item: &Item, of: fn(&Evidence) -> usize| {
            evidence.get(item).is_some_and(|found| of(found) > 0)
        };
        table += &format!(
            "  {:4}  {:8}  {:7}  {:8}  {:8}  {:7}  {}\n",
            document.rfc,
            items.len(),
            count(&|item| has(item, |e| e.code)),
            count(&|item| has(item, |e| e.tests)),
            count(&|item| list.exception(item).is_some()),
            count(&|item| pending.contains(item)),
            document.title,
        );
    }
    table
}
