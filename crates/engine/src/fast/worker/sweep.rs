//! What concerns every connection is done with some of them at a time, however many there are.

use netdev::Device;

use super::Worker;
use crate::network::Network;

/// Places in the table of connections that are looked at in a turn.
const LOOKS: u32 = 512;

/// Something has changed for all connections, and so many have not been looked at since.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The place that is looked at next; after the last comes the first.
    next: u32,
    left: u32,
    /// The link's MTU is another.
    mtu: bool,
    /// An address is not the interface's any more.
    addresses: bool,
    /// Connections that have ended by it.
    ended: usize,
}

impl Sweep {
    /// All connections are to be looked at, in a table of so many places. It
    /// goes on from where it is: what changes again and again does not keep it from coming around.
    fn begin(&mut self, slots: u32) {
        self.left = slots;
    }

    /// The place that is to be looked at next.
    fn step(&mut self, slots: u32) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let slot = self.next.checked_rem(slots)?;
        self.next = slot + 1;
        Some(slot)
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Connections are to hear of the link's MTU.
    pub(super) fn sweep_for_mtu(&mut self) {
        self.sweep.mtu = true;
        self.sweep.begin(self.stack.connection_slots());
    }

    /// The connections of addresses that are not the interface's any more are to end.
    pub(super) fn sweep_for_addresses(&mut self) {
        self.sweep.addresses = true;
        self.sweep.begin(self.stack.connection_slots());
    }

    /// Looks at some connections, if there is something to look for; true if there was.
    pub(super) fn go_on_sweeping(&mut self) -> bool {
        if self.sweep.is_over() {
            return false;
        }
        for _ in 0..LOOKS {
            // There are no fewer places than when it began.
            match self.sweep.step(self.stack.connection_slots()) {
                Some(slot) => self.sweep_one(slot),
                None => break,
            }
        }
        if self.sweep.is_over() {
            let connections = core::mem::take(&mut self.sweep).ended;
            if connections > 0 {
                tracing::info!(connections, "an address is gone, and its connections end");
            }
        }
        true
    }

    fn sweep_one(&mut self, slot: u32) {
        let Some((id, local)) = self.stack.connection_at(slot) else {
            return;
        };
        if self.sweep.mtu {
            self.stack.learn_mtu(self.now, id);
        }
        if self.sweep.addresses
            && !local.is_loopback()
            && !self.network.addresses().contains(&local)
        {
            self.sweep.ended += 1;
            self.stack.on_address_gone(self.now, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sweep;

    #[test]
    fn every_place_is_looked_at_once_since_it_last_began() {
        let mut sweep = Sweep::default();
        assert!(sweep.is_over() && sweep.step(64).is_none());
        sweep.begin(64);
        let some: Vec<u32> = (0..40).filter_map(|_| sweep.step(64)).collect();
        assert!(some.into_iter().eq(0..40));
        // The table has grown, and there is something new to look for.
        sweep.begin(128);
        let mut all: Vec<u32> = core::iter::from_fn(|| sweep.step(128)).collect();
        assert_eq!(all[0], 40);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..128) && sweep.is_over());
    }
}
