//! The interfaces that a worker receives from and sends by. Each has a device of its own, and what is known of
//! its link and of its receive queues; the TCP above is one.

use std::ops::{Index, IndexMut};

use netdev::Device;
use rustix::event::PollFd;
use tcp::ConnId;
use wire::segment::ChecksumPolicy;

use super::blocked::Blocked;
use super::link::Served;
use crate::network::NicId;

/// One of them.
#[derive(Debug)]
pub(super) struct Nic<D> {
    pub device: D,
    /// What is asked of the checksums of what comes.
    pub checksum: ChecksumPolicy,
    /// It has a carrier.
    pub is_up: bool,
    /// Bytes of the largest packet that can go by it.
    pub mtu: u16,
    /// The MTU of which it was said that what is sent does not become as large.
    pub told_of_mtu: u32,
    /// Its receive queues.
    pub served: Served,
    /// Whose sends it has no room for.
    pub blocked: Blocked,
}

impl<D: Device> Nic<D> {
    fn new(device: D) -> Self {
        let checksum = match device.offloads().receive_partial_checksum {
            true => ChecksumPolicy::AcceptPartial,
            false => ChecksumPolicy::Verify,
        };
        let mtu = u16::try_from(device.limits().mtu).unwrap_or(u16::MAX);
        Self {
            device,
            checksum,
            is_up: true,
            mtu,
            told_of_mtu: 0,
            served: Served::default(),
            blocked: Blocked::default(),
        }
    }
}

/// All of them, by their places in the configuration; one at least.
#[derive(Debug)]
pub(super) struct Nics<D> {
    all: Vec<Nic<D>>,
    /// Which is received from first the next time.
    turn: usize,
    /// The connection whose send one of them has just had no room for.
    refused: Option<ConnId>,
}

impl<D: Device> Nics<D> {
    /// Those with these devices.
    pub fn of(devices: Vec<D>) -> Self {
        let all = devices.into_iter().map(Nic::new).collect();
        Self {
            all,
            turn: 0,
            refused: None,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Nic<D>> {
        self.all.iter()
    }

    /// Whether frames of every receive queue of each come here.
    pub fn serve_all_queues(&self) -> bool {
        self.all.iter().all(|nic| nic.served.is_all())
    }

    /// Their places.
    pub fn ids(&self) -> impl Iterator<Item = NicId> + use<D> {
        (0..self.all.len()).map(NicId::at)
    }

    /// Whether there is only one.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.all.len() == 1
    }

    /// Whether nothing leaves by it, and what is to be sent by it is lost, as the kernel does it: its link is down, and
    /// there are others. The only one keeps what it has until its link is up again.
    #[inline]
    pub fn is_dead(&self, nic: NicId) -> bool {
        !self[nic].is_up && !self.is_one()
    }

    /// What to wait for. One by which nothing leaves has nothing to say: that it does again its link says.
    pub fn poll_fds<'a>(&'a self, set: &mut Vec<PollFd<'a>>) {
        for nic in self.ids().filter(|nic| !self.is_dead(*nic)) {
            self[nic].device.poll_fds(set);
        }
    }

    /// Bytes of the largest packet that can go by any of them.
    pub fn mtu(&self) -> u16 {
        let all = self.all.iter().map(|nic| nic.mtu);
        all.min().unwrap_or(u16::MAX)
    }

    /// Receives from all, `budget` frames at most: from each in its turn its share, so that a flood by one leaves
    /// room for the others, and then what is left.
    pub fn receive(
        &mut self,
        budget: usize,
        mut each: impl FnMut(NicId, &mut Nic<D>, usize) -> usize,
    ) -> usize {
        let count = self.all.len();
        if count == 1 {
            return each(NicId::default(), &mut self.all[0], budget);
        }
        self.turn = (self.turn + 1) % count;
        let mut left = budget;
        for share in [budget.div_ceil(count), budget] {
            for ahead in 0..count {
                let nic = NicId::at((self.turn + ahead) % count);
                left -= each(nic, &mut self[nic], share.min(left));
            }
        }
        budget - left
    }

    /// Whether connections wait for room on any.
    pub fn any_blocked(&self) -> bool {
        self.all.iter().any(|nic| nic.blocked.any())
    }

    /// Whether this connection does.
    pub fn is_blocked(&self, id: ConnId) -> bool {
        self.all.iter().any(|nic| nic.blocked.has(id))
    }

    /// One of them has no room for a send of this connection.
    #[cold]
    pub fn refuses(&mut self, nic: NicId, conn: Option<ConnId>) {
        self.refused = conn;
        self[nic].blocked.refuses(conn);
    }

    /// Whether one has just been refused.
    pub fn refuse_one(&self) -> bool {
        self.refused.is_some()
    }

    /// Whether it was this one that has just been refused.
    pub fn have_refused(&mut self, id: ConnId) -> bool {
        self.refused.take() == Some(id)
    }

    /// Whether some go on in the next turn, without anything having happened.
    pub fn go_on(&self) -> bool {
        self.all.iter().any(|nic| nic.blocked.goes_on())
    }

    /// Frames that have come and wait.
    pub fn waiting(&mut self) -> usize {
        self.all.iter_mut().map(|nic| nic.device.waiting()).sum()
    }

    /// Makes everything leave that was submitted. What waits in one whose link is down leaves when that is up again:
    /// each try would be a call that fails.
    pub fn flush(&mut self) {
        for nic in self.ids() {
            if !self.is_dead(nic) {
                self[nic].device.flush();
            }
        }
    }
}

impl<D> Index<NicId> for Nics<D> {
    type Output = Nic<D>;

    #[inline]
    fn index(&self, nic: NicId) -> &Nic<D> {
        &self.all[nic.index()]
    }
}

impl<D> IndexMut<NicId> for Nics<D> {
    #[inline]
    fn index_mut(&mut self, nic: NicId) -> &mut Nic<D> {
        &mut self.all[nic.index()]
    }
}

#[cfg(test)]
mod tests {
    use netdev::sim::{LinkConfig, SimDevice, link};

    use super::*;

    fn send(by: &mut SimDevice, count: usize) {
        for _ in 0..count {
            by.frame().expect("room")[..60].fill(0);
            by.submit(60, None);
        }
        by.flush();
    }

    #[test]
    fn a_flood_by_one_leaves_room_for_the_others() {
        let ends = || link(LinkConfig::default()).expect("descriptors");
        let [(one, mut beyond_one), (other, mut beyond_other)] = [ends(), ends()];
        let mut nics = Nics::of(vec![one, other]);
        let receive = |nics: &mut Nics<SimDevice>| {
            let mut came = [0; 2];
            let count = nics.receive(64, |nic, from, most| {
                let count = from.device.receive(most, |_| ());
                came[nic.index()] += count;
                count
            });
            assert_eq!(count, came[0] + came[1]);
            came
        };
        send(&mut beyond_one, 100);
        send(&mut beyond_other, 10);
        assert_eq!(receive(&mut nics), [54, 10]);
        send(&mut beyond_other, 100);
        assert_eq!(receive(&mut nics), [32, 32]);
        assert_eq!(receive(&mut nics), [14, 50]);
        assert_eq!(receive(&mut nics), [0, 18]);
    }

    #[test]
    fn one_whose_link_is_down_is_let_alone_if_there_are_others() {
        let ends = || link(LinkConfig::default()).expect("descriptors");
        let fds = |nics: &Nics<SimDevice>| {
            let mut set = Vec::new();
            nics.poll_fds(&mut set);
            set.len()
        };
        for others in [0, 1] {
            let (down, mut beyond) = ends();
            let mut devices = vec![down];
            devices.extend((0..others).map(|_| ends().0));
            let mut nics = Nics::of(devices);
            let all = fds(&nics);
            let nic = NicId::default();
            nics[nic].is_up = false;
            let device = &mut nics[nic].device;
            device.frame().expect("room")[..60].fill(0);
            device.submit(60, None);
            nics.flush();
            let mut arrived = |nics: &Nics<SimDevice>| (beyond.receive(9, |_| ()), fds(nics));
            let waits = others != 0;
            assert_eq!(arrived(&nics), (usize::from(!waits), all - others));
            nics[nic].is_up = true;
            nics.flush();
            assert_eq!(arrived(&nics), (usize::from(waits), all));
        }
    }
}
