//! The program that is measured, and what it has printed.

use super::super::Setup;
use super::super::bed::{Bed, SERVER_CORE};
use crate::process::Program;
use crate::world::Side;
use anyhow::{Context, Result};
use serde_json::Value;

/// The program to be measured on `bed`, by its words.
pub fn subject(setup: &Setup, bed: &Bed, is_interposed: bool) -> Program {
    let program = match bed.outboard() {
        Some(outboard) if is_interposed => outboard
            .on_engine(bed.world(), &setup.binary)
            .arg("subject"),
        Some(outboard) => outboard.command(bed.world(), "subject"),
        None => {
            let program = bed.world().program(Side::Server, &setup.binary);
            program.arg("subject")
        }
    };
    program.on_core(SERVER_CORE)
}

/// What it has printed.
pub fn read(printed: &str) -> Result<Value> {
    let line = printed.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("it printed {printed:?}"))
}

/// A number in it.
pub fn number(found: &Value, name: &str) -> Result<f64> {
    let number = found[name].as_f64();
    number.with_context(|| format!("no {name} in {found}"))
}

#[cfg(test)]
mod tests {
    use super::{number, read};

    #[test]
    fn the_last_line_is_read_and_what_is_missing_named() {
        let found = read("a word before\n{\"calls\": 3, \"wait\": null}\n").unwrap();
        assert_eq!(number(&found, "calls").unwrap(), 3.0);
        let missing = number(&found, "wait").unwrap_err().to_string();
        assert!(missing.contains("no wait in"), "{missing}");
        assert!(read("").is_err());
    }
}
