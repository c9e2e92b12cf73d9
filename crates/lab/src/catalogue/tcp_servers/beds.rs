//! Where it is measured: on a kernel, and beside an engine in each place.

use super::super::Setup;
use super::super::bed::{Bed, CLIENT_CORE, SERVER_CORE, STACKS};
use crate::experiment::declaration::Citation;
use crate::world::World;
use anyhow::{Context, Result, bail};

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

/// A kernel, and an engine in each place, as far as they are asked for.
pub(super) struct Beds {
    kernel: Option<Bed>,
    engines: Vec<Bed>,
}

impl Beds {
    pub(super) fn new(setup: &Setup) -> Result<Self> {
        let is_kernel = |subject: &&String| *subject == STACKS[0];
        let kernel = setup.subjects.iter().find(is_kernel);
        let engine = setup.subjects.iter().find(|subject| !is_kernel(subject));
        let places = PLACES.iter().filter(|_| engine.is_some());
        let engines =
            places.map(|(_, core)| Bed::with_engine_on(setup, STACKS[1], World::new()?, *core));
        Ok(Self {
            kernel: kernel.map(|kernel| Bed::bare(setup, kernel)).transpose()?,
            engines: engines.collect::<Result<_>>()?,
        })
    }

    /// The kernel's, or that with the engine at a place.
    pub(super) fn get(&self, is_kernel: bool, place: &str) -> Result<&Bed> {
        if is_kernel {
            return self.kernel.as_ref().context("there is no kernel");
        }
        let index = PLACES.iter().position(|(name, _)| *name == place);
        match index.and_then(|index| self.engines.get(index)) {
            Some(bed) => Ok(bed),
            None => bail!("no engine {place}"),
        }
    }
}
