//! One of the two that are compared: nginx in its own world, on one of the stacks.

use super::{SERVER_CORE, make_site};
use crate::nginx::Nginx;
use crate::outboard::Outboard;
use crate::process::Process;
use crate::sampler;
use crate::world::World;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

pub(super) struct Subject {
    nginx: Nginx,
    engine: Option<(Outboard, Process)>,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Subject {
    pub(super) fn new(binary: &Path, on_engine: bool) -> Result<Self> {
        let world = World::new()?;
        let site = world.scratch().join("site");
        make_site(&site)?;
        let engine = if on_engine {
            let outboard = Outboard::new(binary, &world);
            let process = outboard.start_engine(&world, Some(SERVER_CORE))?;
            Some((outboard, process))
        } else {
            None
        };
        let outboard = engine.as_ref().map(|(outboard, _)| outboard);
        let nginx = Nginx::start(&world, outboard, &site, Some(SERVER_CORE))?;
        Ok(Self {
            nginx,
            engine,
            world,
        })
    }

    pub(super) fn name(&self) -> &'static str {
        if self.is_engine() { "engine" } else { "kernel" }
    }

    pub(super) fn is_engine(&self) -> bool {
        self.engine.is_some()
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    pub(super) fn outboard(&self) -> Option<&Outboard> {
        self.engine.as_ref().map(|(outboard, _)| outboard)
    }

    /// The process that serves.
    pub(super) fn worker(&self) -> u32 {
        self.nginx.worker()
    }

    /// The CPU time of the engine so far; nothing without one.
    pub(super) fn engine_time(&self) -> Result<Duration> {
        match &self.engine {
            Some((_, process)) => sampler::run_time(process.id()),
            None => Ok(Duration::ZERO),
        }
    }
}
