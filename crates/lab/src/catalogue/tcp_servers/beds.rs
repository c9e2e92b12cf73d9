//! Where it is measured: on a kernel, and beside an engine in each place.

use super::super::Setup;
use super::super::bed::{Bed, CLIENT_CORE, SERVER_CORE, STACKS};
use crate::experiment::declaration::Citation;
use crate::world::World;
use anyhow::{Result, bail};

pub(super) const PLACE: &str = "engine";

/// Where the engine is, and its core.
pub(super) const PLACES: [(&str, usize); 2] = [
    ("on its program's core", SERVER_CORE),
    ("on the other core", CLIENT_CORE),
];

/// The core of the engine in this place.
pub(super) fn core_of(place: &str) -> Option<usize> {
    let known = PLACES.iter().find(|(name, _)| *name == place);
    known.map(|(_, core)| *core)
}

/// A place in the source.
pub(super) fn cited(place: &str) -> Citation {
    Citation {
        document: "001".into(),
        place: place.into(),
    }
}

/// A kernel, and an engine in each place.
pub(super) struct Beds {
    pub(super) kernel: Bed,
    pub(super) engines: Vec<Bed>,
}

impl Beds {
    pub(super) fn new(setup: &Setup) -> Result<Self> {
        let engines = PLACES
            .iter()
            .map(|(_, core)| Bed::with_engine_on(setup, STACKS[1], World::new()?, *core));
        Ok(Self {
            kernel: Bed::bare(setup, STACKS[0])?,
            engines: engines.collect::<Result<_>>()?,
        })
    }

    /// The kernel's, or that with the engine at a place.
    pub(super) fn get(&self, is_kernel: bool, place: &str) -> Result<&Bed> {
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
