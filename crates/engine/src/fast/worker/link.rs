//! What changes under all connections: the links, and their receive queues.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use netdev::Device;
use netdev::steering::MAX_QUEUES;
use rustix::io::{Errno, Result};
use tcp::Instant;

use super::Worker;
use crate::config::Queues;
use crate::config::queues::of_worker;
use crate::network::{Network, NicId};
use crate::slow::kernel::link::LinkState;

/// How long receive queues that are not to be had wait before they are tried again: at first, and at most.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));

/// What of the receive queues is not as it should be, and is tried again.
#[derive(Debug, Default)]
pub(super) struct Unserved {
    /// The steering does not know all of them.
    steering: bool,
    /// Those that are open and to which the steering sends nothing.
    unsteered: BTreeSet<u32>,
    /// What was last said of each that is not served, and of the steering (`None`).
    said: BTreeMap<Option<u32>, String>,
    /// When the next try is due.
    due: Option<Instant>,
    /// For how long it has waited before the last one.
    waited: Duration,
}

impl Unserved {
    /// What is tried now has not been tried before.
    fn begin_anew(&mut self) {
        self.waited = Duration::ZERO;
        self.said.clear();
    }

    /// Whether something else was last said of this queue, or of the steering: what stays as it is is said once,
    /// and not at each try.
    fn is_news(&mut self, of: Option<u32>, error: &io::Error) -> bool {
        let error = error.to_string();
        let is_news = self.said.get(&of) != Some(&error);
        self.said.insert(of, error);
        is_news
    }

    /// It was tried, and something is left to be tried again, or nothing.
    fn tried(&mut self, now: Instant, is_left: bool) {
        let (first, most) = TRY_AGAIN;
        self.waited = match is_left {
            true => (2 * self.waited).clamp(first, most),
            false => Duration::ZERO,
        };
        self.due = is_left.then_some(now + self.waited);
    }
}

/// The receive queues of an interface, as far as this worker serves them.
#[derive(Debug)]
pub(super) struct Served {
    /// How many the interface has, if it has said so.
    there: Option<u32>,
    /// Frames of every one come to a worker.
    all: bool,
    unserved: Unserved,
}

impl Default for Served {
    fn default() -> Self {
        Self {
            there: None,
            all: true,
            unserved: Unserved::default(),
        }
    }
}

impl Served {
    /// Of an interface that has `there`, all of them or not.
    pub fn of(there: u32, all: bool) -> Self {
        Self {
            there: Some(there),
            all,
            unserved: Unserved::default(),
        }
    }

    /// Whether frames of every one come to a worker.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// Whether some are not as they should be, and are tried again.
    pub fn is_tried_again(&self) -> bool {
        self.unserved.due.is_some()
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// An interface has changed; `None`: it is gone.
    pub(super) fn link_changed(&mut self, nic: NicId, state: Option<LinkState>) {
        let Some(LinkState { mac, mtu, up }) = state else {
            self.interface_gone = Some(nic);
            return;
        };
        let interface = self.config.interface.name(nic.index());
        let of = &mut self.nics[nic];
        if up != of.is_up {
            of.is_up = up;
            if up {
                tracing::info!(interface, "the link is up again");
                // What has waited in it.
                of.device.flush();
            } else {
                tracing::warn!(interface, "the link is down: what is to be sent waits");
            }
        }
        // The device's frames are as long as the packets were when it was opened.
        let largest = of.device.limits().mtu;
        let usable = usize::try_from(mtu).unwrap_or(usize::MAX).min(largest);
        of.mtu = u16::try_from(usable).unwrap_or(u16::MAX);
        if mtu as usize > largest && core::mem::replace(&mut of.told_of_mtu, mtu) != mtu {
            tracing::info!(
                interface,
                mtu,
                largest,
                "packets that are sent stay as small as frames were made for when the engine began: one that is started \
                 again may make larger ones"
            );
        }
        let usable = self.nics.mtu();
        tracing::debug!(interface, %mac, "the link has changed");
        if usable != self.stack.config().mtu {
            tracing::info!(interface, mtu, usable, "the MTU has changed");
            self.stack.set_mtu(usable);
            self.sweep_for_mtu();
        }
    }

    /// An interface has more or fewer receive queues than before, `count` now. What comes to a new one
    /// before it is opened is dropped by the steering, and sent again by its peer.
    pub(super) fn queues_changed(&mut self, nic: NicId, count: u32) {
        let served = &mut self.nics[nic].served;
        served.there = Some(count);
        served.unserved.begin_anew();
        served.unserved.steering = true;
        self.open_queues(nic);
    }

    /// What could not be opened is tried again, if its time has come: the kernel lets go of a queue some time after
    /// its socket was closed.
    pub(super) fn try_queues_again(&mut self) {
        for nic in self.nics.ids() {
            let due = self.nics[nic].served.unserved.due;
            if due.is_some_and(|due| due <= self.now) {
                self.open_queues(nic);
            }
        }
    }

    /// The configuration names other queues than before: those that it does not name are closed, so that
    /// the interface can do without them (`ethtool -L`).
    pub(super) fn queues_wanted(&mut self) {
        for nic in self.nics.ids() {
            self.close_queues(nic);
            self.nics[nic].served.unserved.begin_anew();
            self.open_queues(nic);
        }
    }

    /// Closes the queues of an interface that are not wanted.
    fn close_queues(&mut self, nic: NicId) {
        let interface = self.config.interface.name(nic.index());
        let of = &mut self.nics[nic];
        for (queue, _) in of.device.queues() {
            let wanted = match &self.config.queues {
                Queues::All => true,
                Queues::These(numbers) => numbers.contains(&queue),
            };
            if wanted {
                continue;
            }
            match of.device.shrink(queue) {
                Ok(_) => {
                    of.served.unserved.unsteered.remove(&queue);
                    tracing::info!(interface, queue, "a receive queue is no longer served");
                }
                Err(error) => {
                    tracing::warn!(interface, queue, %error, "a receive queue stays served")
                }
            }
        }
    }

    /// Opens the queues of an interface that are wanted and there; sees whether that is all of them.
    fn open_queues(&mut self, nic: NicId) {
        let (own, workers) = self.number();
        let interface = self.config.interface.name(nic.index());
        let of = &mut self.nics[nic];
        let unserved = &mut of.served.unserved;
        if unserved.steering {
            match self.network.renew_steering(nic) {
                Ok(()) => unserved.steering = false,
                Err(error) => {
                    if unserved.is_news(None, &error) {
                        tracing::warn!(interface, %error, "the new receive queues are not steered yet");
                    }
                }
            }
        }
        let mut is_left = unserved.steering;
        let count = of.served.there.unwrap_or_default();
        let wanted = self.config.queues.of(count.min(MAX_QUEUES));
        for queue in of_worker(&wanted, own, workers) {
            if queue >= count {
                continue;
            }
            let opened = match of.device.grow(queue).map(|new| new.is_some()) {
                Ok(false) if !unserved.unsteered.contains(&queue) => continue,
                Ok(_) => match of.device.socket_of(queue) {
                    Some(socket) => {
                        let steered = self.network.connect_queue(nic, queue, socket);
                        // It stays open for the next try: if it were closed, that would take another socket.
                        match &steered {
                            Ok(()) => unserved.unsteered.remove(&queue),
                            Err(_) => unserved.unsteered.insert(queue),
                        };
                        steered
                    }
                    None => Err(io::ErrorKind::NotFound.into()),
                },
                Err(error) => Err(error),
            };
            match opened {
                Ok(()) => {
                    unserved.said.remove(&Some(queue));
                    tracing::info!(interface, queue, "a new receive queue is served");
                }
                Err(error) => {
                    is_left = true;
                    if unserved.is_news(Some(queue), &error) {
                        tracing::warn!(interface, queue, %error, "a new receive queue is not served yet");
                    }
                }
            }
        }
        unserved.tried(self.now, is_left);
        let open = of.device.queues();
        let unsteered = &unserved.unsteered;
        let is_served = |queue: u32| {
            open.iter().any(|(number, _)| *number == queue) && !unsteered.contains(&queue)
        };
        let mut all = (0..count).filter(|queue| *queue as usize % workers == own);
        let all = all.all(is_served);
        if of.served.all && !all {
            tracing::warn!(
                interface,
                "not all receive queues are served: new clients whose frames come to another one \
                 are the kernel's, and so are all connections that programs open"
            );
        }
        of.served.all = all;
        self.tell_opening();
    }

    /// Which worker this is, of how many.
    fn number(&self) -> (usize, usize) {
        let place = self.handoff.as_ref();
        place.map_or((0, 1), |place| (place.own().index(), place.workers()))
    }

    /// The name of the interface that is gone.
    pub fn interface_gone(&self) -> &str {
        let nic = self.interface_gone.unwrap_or_default();
        self.config.interface.name(nic.index())
    }

    /// `NODEV` if an interface is gone.
    pub(super) fn still_there(&self) -> Result<()> {
        if self.interface_gone.is_some() {
            return Err(Errno::NODEV);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_to_be_had_is_tried_again_ever_more_rarely() {
        let mut unserved = Unserved::default();
        let mut now = Instant::ZERO;
        let mut waits = Vec::new();
        for _ in 0..9 {
            unserved.tried(now, true);
            let due = unserved.due.expect("it is tried again");
            waits.push(due.saturating_duration_since(now).as_secs());
            now = due;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        unserved.tried(now, false);
        assert!(unserved.due.is_none() && unserved.waited.is_zero());
    }

    #[test]
    fn what_is_said_is_said_again_if_it_is_something_else() {
        let mut unserved = Unserved::default();
        let (busy, none_left) = (io::Error::other("busy"), io::Error::other("none left"));
        assert!(unserved.is_news(Some(1), &busy));
        assert!(!unserved.is_news(Some(1), &busy));
        assert!(unserved.is_news(Some(2), &busy) && unserved.is_news(None, &busy));
        assert!(unserved.is_news(Some(1), &none_left));
        assert!(!unserved.is_news(Some(1), &none_left));
        unserved.begin_anew();
        assert!(unserved.is_news(Some(1), &none_left));
    }
}
