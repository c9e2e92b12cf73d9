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

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use netdev::Interface;

pub use forwarder::forward;
pub use netdev::faults::Faults;

use crate::World;
use crate::world::{MIDDLE_INTERFACES, enter_file};

/// The nature of a wire in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wire {
    /// What it does to TCP segments.
    pub faults: Faults,
    /// How long the way is.
    pub delay: Duration,
    /// Bits a second, of whole Ethernet frames without preamble and checksum; without bound if
    /// `None`.
    pub bandwidth: Option<u64>,
    /// How many bytes may wait for bandwidth, with what is left of the frame that is being sent.
    /// While there are more, TCP segments that come are lost.
    pub queue: usize,
}

impl Wire {
    /// No faults, no delay, no bound.
    pub const PERFECT: Self = Self {
        faults: Faults::NONE,
        delay: Duration::ZERO,
        bandwidth: None,
        queue: usize::MAX,
    };
}

impl From<Faults> for Wire {
    fn from(faults: Faults) -> Self {
        Self {
            faults,
            ..Self::PERFECT
        }
    }
}

/// What became of the frames of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Frames that came.
    pub received: u64,
    /// Frames that went on, copies included.
    pub sent: u64,
    /// Frames lost on purpose.
    pub lost: u64,
    /// Frames repeated on purpose.
    pub duplicated: u64,
    /// Frames held back for others to overtake.
    pub held_back: u64,
    /// Frames with a bit turned over on purpose.
    pub damaged: u64,
    /// Frames lost because the queue for bandwidth was full.
    pub overflowed: u64,
    /// Frames lost because the forwarder could not keep up. If this is much, the faults are not
    /// the ones that were asked for.
    pub overrun: u64,
    /// By how much frames left later than they should have, all together: divided by `sent`, how
    /// true the delay was.
    pub lateness: Duration,
}

impl fmt::Display for Passed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} frames in, {} out; {} lost, {} repeated, {} held back, {} damaged, {} overflowed, \
             {} overrun; {} us late on average",
            self.received,
            self.sent,
            self.lost,
            self.duplicated,
            self.held_back,
            self.damaged,
            self.overflowed,
            self.overrun,
            self.lateness.as_micros() / u128::from(self.sent.max(1))
        )
    }
}

/// What became of the frames of both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// From the first interface to the second: from server to client.
    pub there: Passed,
    /// From the second to the first.
    pub back: Passed,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "there: {}\nback: {}", self.there, self.back)
    }
}

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
