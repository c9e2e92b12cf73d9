//! What programs ask of the engine itself, and of the way to a destination; and what they say of it: who
//! has a reason to doubt a way, such as requests that nobody answers, has it looked at. It is believed no
//! more than that: the kernel is asked, and asks the neighbour.

use std::net::IpAddr;

use netdev::Device;
use queue_pair::control::{EngineFacts, Neighbour, Way};
use rustix::io::Errno;

use super::Worker;
use crate::config::Congestion;
use crate::network::{Network, NicId};
use crate::stats::Drop;

/// Ways that are looked at again in a second because programs doubt them, for all programs together.
const DOUBTS_PER_SECOND: u32 = 100;

/// How many doubts there were in which second.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    second: u64,
    count: u32,
}

impl Doubts {
    fn take(&mut self, second: u64) -> bool {
        if self.second != second {
            *self = Self { second, count: 0 };
        }
        self.count += 1;
        self.count <= DOUBTS_PER_SECOND
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// What programs can know of this engine, but for its name.
    pub(super) fn engine_facts(&self) -> EngineFacts {
        let limits = &self.config.limits;
        let congestion = match self.config.tcp.congestion {
            Congestion::Cubic => "cubic",
            Congestion::Reno => "reno",
            Congestion::Bbr => "bbr",
        };
        EngineFacts {
            name: String::new(),
            mtu: self.stack.config().mtu.into(),
            connections: self.stack.connection_count().into(),
            most_connections: limits.connections.into(),
            accept_backlog: limits.accept_backlog,
            congestion: congestion.to_owned(),
        }
    }

    /// The way to `remote`, which is looked at again if that is `doubted`.
    pub(super) fn way(&mut self, remote: IpAddr, doubted: bool) -> Result<Way, Errno> {
        // Who asks names no link: a link-local one is the first's.
        let scope = self.network.index(NicId::default());
        let source = self.network.source_for(remote, scope, None)?;
        let hop = self.network.next_hop(source, remote)?;
        let neighbour = hop.neighbour;
        if doubted {
            if !self.doubts.take(self.now.as_nanos() / 1_000_000_000) {
                self.counters.drop(Drop::TooManyDoubts);
                return Err(Errno::AGAIN);
            }
            let _ = self.network.probe(neighbour, self.paths.as_of());
        }
        let mut way = Way {
            source,
            next_hop: neighbour.address,
            neighbour: Neighbour::Unknown,
            hardware: None,
            mtu: hop.mtu.unwrap_or(self.stack.config().mtu).into(),
        };
        // Who is not in use, and cannot be asked for at once, is not known: nobody waits for the kernel here.
        let asked = self.network.neighbour_at_once(neighbour);
        if let Some(knowledge) = asked
            && doubted
            && self.paths.neighbour_changed(neighbour, knowledge)
        {
            self.drop_aged();
            self.neighbour_told(neighbour, knowledge);
        }
        if let Some(knowledge) = asked.or_else(|| self.paths.known_neighbour(neighbour)) {
            (way.neighbour, way.hardware) = knowledge.as_told();
        }
        Ok(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_are_limited_by_the_second() {
        let mut doubts = Doubts::default();
        let taken = (0..1000).filter(|_| doubts.take(7)).count();
        assert_eq!(taken, DOUBTS_PER_SECOND as usize);
        assert!(doubts.take(8));
    }
}
