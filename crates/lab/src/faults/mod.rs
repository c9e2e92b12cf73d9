//! A wire that loses, repeats, reorders and damages TCP segments, between two interfaces, and that
//! can be long and narrow.
//!
//! The kernel can do this by itself where it has netem; where it has not, this forwards every
//! frame in user space. The faults come from a seed. They hit TCP segments only: a lost ARP request
//! costs a second and tests nothing.
//!
//! [`FaultyWire`] joins the two sides of a [`World`] made by [`World::with_middle`]; [`forward`]
//! joins any two interfaces of the caller's namespace.

mod forwarder;
mod lane;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use netdev::Interface;

pub use forwarder::forward;
pub use netdev::faults::Faults;
pub use wire::{Passed, Report, Wire};

use crate::World;
use crate::namespace::enter_file;
use crate::world::MIDDLE_INTERFACES;

/// A faulty wire between the two sides of a world, kept by a thread of this process.
#[derive(Debug)]
pub struct FaultyWire {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Report>>>,
}

impl FaultyWire {
    /// Joins the sides of a world that was made [with a middle](World::with_middle) by a wire that
    /// is the same both ways. Frames pass when this returns.
    pub fn start(world: &World, wire: impl Into<Wire>, seed: u64) -> Result<Self> {
        let wire = wire.into();
        Self::start_with(world, [wire, wire], seed)
    }

    /// The same with a wire that differs: from server to client, and back.
    pub fn start_with(world: &World, wires: [Wire; 2], seed: u64) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, started) = mpsc::channel();
        let middle = world.middle_file()?;
        let thread = std::thread::Builder::new().name("faulty wire".into());
        let thread = thread.spawn({
            let stop = Arc::clone(&stop);
            move || {
                enter_file(&middle)?;
                let [server, client] = MIDDLE_INTERFACES.map(Interface::find);
                let (server, client) = (server?, client?);
                forward(&server, &client, wires, seed, &stop, || {
                    // Whoever waits for it is gone only if `start` has failed.
                    let _ = ready.send(());
                })
            }
        })?;
        let mut wire = Self {
            stop,
            thread: Some(thread),
        };
        match started.recv() {
            Ok(()) => Ok(wire),
            Err(_) => Err(wire
                .finish()
                .err()
                .unwrap_or_else(|| anyhow!("the faulty wire ended at once"))),
        }
    }

    /// Takes the wire away, and says what passed.
    pub fn stop(mut self) -> Result<Report> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("stopped before")?;
        thread
            .join()
            .map_err(|_| anyhow!("the faulty wire panicked"))?
    }
}

impl Drop for FaultyWire {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Nobody asks for its report.
            let _ = self.finish();
        }
    }
}
