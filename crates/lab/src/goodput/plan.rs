//! How the benchmark is run.

use super::fetch::Fetch;
use super::subject::Congestion;
use crate::faults::{Faults, Wire};
use crate::nginx::Nginx;
use crate::world::Side;
use std::path::PathBuf;
use std::time::Duration;

/// How to run the benchmark.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary that runs engine and programs.
    pub binary: PathBuf,
    /// Rounds; each measures both stacks under every loss.
    pub rounds: usize,
    /// Length of each measurement, from when a connection stands.
    pub window: Duration,
    /// How likely a frame is to be lost, each way, from 0.0 to 1.0; one case each.
    pub losses: Vec<f64>,
    /// Frames that are lost at once, at most; a burst has half as many on average, and as many frames are
    /// lost in all. One or none: each is lost by itself.
    pub burst: u16,
    /// The congestion control of both.
    pub congestion: Congestion,
    /// Connections at once.
    pub connections: usize,
    /// The round trip.
    pub round_trip: Duration,
    /// Bits a second, each way.
    pub bandwidth: u64,
    /// Bytes that may wait for bandwidth.
    pub queue: usize,
    /// What the seeds of the rounds begin with.
    pub seed: u64,
}

impl Plan {
    /// Connections at once, if nobody says otherwise.
    pub const CONNECTIONS: usize = 4;
    /// The round trip.
    pub const ROUND_TRIP: Duration = Duration::from_millis(50);
    /// Bits a second, each way.
    pub const BANDWIDTH: u64 = 50_000_000;
    /// Bytes that may wait for bandwidth.
    pub const QUEUE: usize = 300_000;

    pub(super) fn fetches(&self) -> Vec<Fetch> {
        let each = Fetch {
            from: Side::Client.ipv4(),
            at: Nginx::address(),
        };
        vec![each; self.connections]
    }

    pub(super) fn wire(&self, loss: f64) -> Wire {
        Wire {
            faults: Faults::losing(loss, self.burst),
            delay: self.round_trip / 2,
            bandwidth: Some(self.bandwidth),
            queue: self.queue,
        }
    }
}
