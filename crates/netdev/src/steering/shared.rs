//! Endpoints that engine and kernel share by connections: what the program is told of them, and what it
//! counts there.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::AddAssign;

use aya::maps::{MapData, PerCpuArray};

use super::SteeringError;
use super::layout::{Endpoint, Share};

/// The global of the program that holds the key of its hash.
pub(super) const SECRET: &str = "secret";
/// The map of connections.
pub(super) const FLOWS: &str = "flows";

/// The map of loads.
pub(super) const LOADS: &str = "loads";

/// A key that nobody outside can know.
pub(super) fn secret() -> [u64; 2] {
    [0u8, 1].map(|half| RandomState::new().hash_one(half))
}

/// Since when each endpoint is shared. What the program remembers from an earlier time may be wrong: meanwhile
/// it was told nothing.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    last: u32,
    of: HashMap<Endpoint, u32>,
}

impl Epochs {
    /// The epoch of an endpoint from now on: the one that it has if it stays shared, a new one if it becomes so.
    pub fn of(&mut self, endpoint: Endpoint, share: Share) -> u32 {
        if !matches!(share, Share::Shared { .. }) {
            self.of.remove(&endpoint);
            return 0;
        }
        *self.of.entry(endpoint).or_insert_with(|| {
            self.last = self.last.wrapping_add(1);
            self.last
        })
    }

    /// An endpoint is steered no longer.
    pub fn end(&mut self, endpoint: Endpoint) {
        self.of.remove(&endpoint);
    }
}

/// `struct load`, of one CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    opened: [u64; 2],
    data: [u64; 2],
    ended: u64,
    lived: u64,
}

// SAFETY: integers only, without padding.
unsafe impl aya::Pod for Counted {}

/// What has come to the shared endpoints of a slot since the program was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Connections that the engine was given, by their first SYNs.
    pub opened_engine: u64,
    /// Connections that the kernel was given.
    pub opened_kernel: u64,
    /// Segments with data for the engine; a SYN's do not count.
    pub data_engine: u64,
    /// Segments with data for the kernel.
    pub data_kernel: u64,
    /// Connections that their client has ended, by FIN or RST.
    pub ended: u64,
    /// How long those were open from their first SYN on, together, in nanoseconds.
    pub lived_ns: u64,
}

impl AddAssign for Load {
    fn add_assign(&mut self, more: Self) {
        self.opened_engine += more.opened_engine;
        self.opened_kernel += more.opened_kernel;
        self.data_engine += more.data_engine;
        self.data_kernel += more.data_kernel;
        self.ended += more.ended;
        self.lived_ns += more.lived_ns;
    }
}

/// Reads what is counted at shared endpoints. It goes with any thread.
pub struct Loads(PerCpuArray<MapData, Counted>);

impl Loads {
    pub(super) fn of(map: PerCpuArray<MapData, Counted>) -> Self {
        Self(map)
    }

    /// What is counted under a number.
    ///
    /// # Errors
    /// [`SteeringError::Map`]: there is no such number, or the kernel does not tell.
    pub fn of_slot(&self, slot: u16) -> Result<Load, SteeringError> {
        let mut all = Load::default();
        for cpu in self.0.get(&slot.into(), 0)?.iter() {
            let Counted {
                opened,
                data,
                ended,
                lived,
            } = *cpu;
            all.opened_engine += opened[0];
            all.opened_kernel += opened[1];
            all.data_engine += data[0];
            all.data_kernel += data[1];
            all.ended += ended;
            all.lived_ns += lived;
        }
        Ok(all)
    }
}
