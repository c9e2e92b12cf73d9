//! What changes under all connections: the link, its receive queues, and the addresses on it.

use netdev::Device;
use netdev::steering::MAX_QUEUES;
use rustix::io::{Errno, Result};

use super::Worker;
use crate::config::Queues;
use crate::config::queues::of_worker;
use crate::network::Network;
use crate::slow::kernel::link::LinkState;

impl<D: Device, N: Network> Worker<D, N> {
    /// The interface has changed; `None`: it is gone.
    pub(super) fn link_changed(&mut self, state: Option<LinkState>) {
        let Some(LinkState { mac, mtu, up }) = state else {
            self.interface_gone = true;
            return;
        };
        let interface = &self.config.interface;
        if up != self.link_up {
            self.link_up = up;
            if up {
                tracing::info!(interface, "the link is up again");
            } else {
                tracing::warn!(interface, "the link is down: what is to be sent waits");
            }
        }
        // The device's frames are as long as the packets were when it was opened.
        let largest = self.device.limits().mtu;
        let usable = usize::try_from(mtu).unwrap_or(usize::MAX).min(largest);
        let usable = u16::try_from(usable).unwrap_or(u16::MAX);
        tracing::debug!(interface, %mac, "the link has changed");
        if usable != self.stack.config().mtu {
            tracing::info!(interface, mtu, usable, "the MTU has changed");
            self.stack.set_mtu(usable);
            self.sweep_for_mtu();
        }
    }

    /// The interface has more or fewer receive queues than before, `count` now. What comes to a new one
    /// before it is opened is dropped by the steering, and sent again by its peer.
    pub(super) fn queues_changed(&mut self, count: u32) {
        let interface = &self.config.interface;
        if let Err(error) = self.network.renew_steering() {
            tracing::warn!(interface, %error, "the new receive queues are not steered");
        }
        self.interface_queues = Some(count);
        self.open_queues();
    }

    /// The configuration names other queues than before: those that it does not name are closed, so that
    /// the interface can do without them (`ethtool -L`).
    pub(super) fn queues_wanted(&mut self) {
        let interface = &self.config.interface;
        for (queue, _) in self.device.queues() {
            let wanted = match &self.config.queues {
                Queues::All => true,
                Queues::These(numbers) => numbers.contains(&queue),
            };
            if wanted {
                continue;
            }
            match self.device.shrink(queue) {
                Ok(_) => tracing::info!(interface, queue, "a receive queue is no longer served"),
                Err(error) => {
                    tracing::warn!(interface, queue, %error, "a receive queue stays served")
                }
            }
        }
        self.open_queues();
    }

    /// Opens the queues that are wanted and there; sees whether that is all of them.
    fn open_queues(&mut self) {
        let interface = &self.config.interface;
        let count = self.interface_queues.unwrap_or_default();
        let wanted = self.config.queues.of(count.min(MAX_QUEUES));
        let (own, workers) = self.number();
        for queue in of_worker(&wanted, own, workers) {
            if queue >= count {
                continue;
            }
            let opened = match self.device.grow(queue) {
                Ok(None) => continue,
                Ok(Some(socket)) => self.network.connect_queue(queue, socket),
                Err(error) => Err(error),
            };
            match opened {
                Ok(()) => tracing::info!(interface, queue, "a new receive queue is served"),
                Err(error) => {
                    tracing::warn!(interface, queue, %error, "a new receive queue is not served");
                }
            }
        }
        let open = self.device.queues();
        let is_open = |queue: u32| open.iter().any(|(number, _)| *number == queue);
        let mut all = (0..count).filter(|queue| *queue as usize % workers == own);
        let all = all.all(is_open);
        if self.serves_all_queues && !all {
            tracing::warn!(
                interface,
                "not all receive queues are served: new clients whose frames come to another one \
                 are the kernel's, and so are all connections that programs open"
            );
        }
        self.serves_all_queues = all;
        self.tell_opening();
    }

    /// Which worker this is, of how many.
    fn number(&self) -> (usize, usize) {
        let place = self.handoff.as_ref();
        place.map_or((0, 1), |place| (place.own().index(), place.workers()))
    }

    /// `NODEV` if the interface is gone.
    pub(super) fn still_there(&self) -> Result<()> {
        if self.interface_gone {
            return Err(Errno::NODEV);
        }
        Ok(())
    }
}
