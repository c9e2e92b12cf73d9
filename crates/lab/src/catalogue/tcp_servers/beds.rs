//! Where it is measured: on a kernel, and beside an engine in each place.

use super::super::Setup;
// An engine that looks for work has a core of its own where there is one.
pub(super) use super::super::apart::{core_of_its_own as core_of_looking, cores_here};
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

/// What tells an engine to look for work, for up to a millisecond before it sleeps.
pub(super) const LOOKS: &[&str] = &["--profile", "latency"];

/// A further place, of an engine that [looks for work](LOOKS), on a machine with so many cores.
pub(super) fn awake(cores: usize) -> (&'static str, usize) {
    let core = core_of_looking(cores);
    let name = match core {
        CLIENT_CORE => "awake on the other core",
        _ => "awake on a core of its own",
    };
    (name, core)
}

/// The core of the engine in this place.
pub(super) fn core_of(place: &str) -> Option<usize> {
    let mut places = PLACES.into_iter().chain([awake(cores_here())]);
    let (_, core) = places.find(|(name, _)| *name == place)?;
    Some(core)
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
    engines: Vec<(&'static str, Bed)>,
}

impl Beds {
    pub(super) fn new(setup: &Setup) -> Result<Self> {
        let is_kernel = |subject: &&String| *subject == STACKS[0];
        let kernel = setup.subjects.iter().find(is_kernel);
        let engine = setup.subjects.iter().find(|subject| !is_kernel(subject));
        let places = PLACES.iter().filter(|_| engine.is_some());
        let engines = places.map(|(name, core)| {
            let bed = Bed::with_engine_on(setup, STACKS[1], World::new()?, *core)?;
            Ok((*name, bed))
        });
        Ok(Self {
            kernel: kernel.map(|kernel| Bed::bare(setup, kernel)).transpose()?,
            engines: engines.collect::<Result<_>>()?,
        })
    }

    /// As [`new`](Self::new), and one that is [awake], if any engine is asked for.
    pub(super) fn with_awake(setup: &Setup) -> Result<Self> {
        let mut beds = Self::new(setup)?;
        if !beds.engines.is_empty() {
            let (name, core) = awake(cores_here());
            let bed = Bed::with_engine_told(setup, STACKS[1], World::new()?, core, LOOKS)?;
            beds.engines.push((name, bed));
        }
        Ok(beds)
    }

    /// The kernel's, or that with the engine at a place.
    pub(super) fn get(&self, is_kernel: bool, place: &str) -> Result<&Bed> {
        if is_kernel {
            return self.kernel.as_ref().context("there is no kernel");
        }
        match self.engines.iter().find(|(name, _)| *name == place) {
            Some((_, bed)) => Ok(bed),
            None => bail!("no engine {place}"),
        }
    }
}
