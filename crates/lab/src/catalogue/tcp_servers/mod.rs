//! 001, chapter 6, up to its web servers: what offloading is worth to a program that knows of it. The
//! programs that are measured are ours (`outboard subject`), the same over sockets and over each way of
//! the native interface; the other end is in the lab, over the kernel's TCP. Beside them whole servers that know of
//! their engine, and those that people have instead.

pub mod accept;
pub mod channel;
pub mod course;
pub mod key_value;
pub mod latency;
pub mod peer;
pub mod receive;
pub mod send_cost;
pub mod serve;
pub mod server;
pub mod ttcp;
pub mod uploads;

use super::Setup;
use super::bed::{Bed, CLIENT_CORE, SERVER_CORE, STACKS};
use crate::experiment::declaration::Citation;
use crate::process::Program;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The names of this document's first experiments, in its order, and of the servers.
pub const NAMES: &[&str] = &[
    channel::ENTRY.name,
    send_cost::ENTRY.name,
    course::ENTRY.name,
    latency::ENTRY.name,
    accept::ENTRY.name,
    ttcp::ENTRY.name,
    receive::ENTRY.name,
    serve::ENTRY.name,
    uploads::ENTRY.name,
    key_value::ENTRY.name,
];

const PLACE: &str = "engine";
/// Where the engine is, and its core.
const PLACES: [(&str, usize); 2] = [
    ("on its program's core", SERVER_CORE),
    ("on the other core", CLIENT_CORE),
];

/// A place in the source.
fn cited(place: &str) -> Citation {
    Citation {
        document: "001".into(),
        place: place.into(),
    }
}

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

/// A kernel, and an engine in each place.
struct Beds {
    kernel: Bed,
    engines: Vec<Bed>,
}

impl Beds {
    fn new(setup: &Setup) -> Result<Self> {
        let engines = PLACES
            .iter()
            .map(|(_, core)| Bed::with_engine_on(setup, STACKS[1], World::new()?, *core));
        Ok(Self {
            kernel: Bed::bare(setup, STACKS[0])?,
            engines: engines.collect::<Result<_>>()?,
        })
    }

    /// The kernel's, or that with the engine at a place.
    fn get(&self, is_kernel: bool, place: &str) -> Result<&Bed> {
        if is_kernel {
            return Ok(&self.kernel);
        }
        let index = PLACES.iter().position(|(name, _)| *name == place);
        match index.and_then(|index| self.engines.get(index)) {
            Some(bed) => Ok(bed),
            None => bail!("no engine {place}"),
        }
    }
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
