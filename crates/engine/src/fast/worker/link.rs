//! What changes under all connections: the link, its receive queues, and the addresses on it.

use netdev::Device;
use netdev::steering::MAX_QUEUES;
use rustix::io::{Errno, Result};
use tcp::ConnId;

use super::Worker;
use crate::config::Queues;
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
        if usable != self.stack.config().mtu {
            tracing::info!(interface, mtu, usable, "the MTU has changed");
            self.stack.set_mtu(self.now, usable);
        }
        tracing::debug!(interface, ?mac, "the link has changed");
    }

    /// The interface has more receive queues than before, `count` now. What comes to one of them
    /// before it is opened is dropped by the steering, and sent again by its peer.
    pub(super) fn queues_added(&mut self, count: u32) {
        let interface = &self.config.interface;
        if let Err(error) = self.network.renew_steering() {
            tracing::warn!(interface, %error, "the new receive queues are not steered");
        }
        let mut all = self.config.queues == Queues::All && count <= MAX_QUEUES;
        if self.config.queues == Queues::All {
            for queue in 0..count.min(MAX_QUEUES) {
                let opened = match self.device.grow(queue) {
                    Ok(None) => continue,
                    Ok(Some(socket)) => self.network.connect_queue(queue, socket),
                    Err(error) => Err(error),
                };
                match opened {
                    Ok(()) => tracing::info!(interface, queue, "a new receive queue is served"),
                    Err(error) => {
                        tracing::warn!(interface, queue, %error, "a new receive queue is not served");
                        all = false;
                    }
                }
            }
        }
        if self.serves_all_queues && !all {
            tracing::warn!(
                interface,
                "not all receive queues are served: new clients whose frames come to another one \
                 are the kernel's, and so are all connections that programs open; start the engine \
                 again to serve all"
            );
        }
        self.serves_all_queues = all;
        self.tell_opening();
    }

    /// `NODEV` if the interface is gone.
    pub(super) fn still_there(&self) -> Result<()> {
        if self.interface_gone {
            return Err(Errno::NODEV);
        }
        Ok(())
    }

    /// Ends the connections of addresses that are not the interface's any more.
    pub(super) fn end_of_lost_addresses(&mut self) {
        let own = self.network.addresses();
        let lost = |id: &ConnId| {
            let info = self.stack.info(self.now, *id);
            info.is_some_and(|info| {
                let local = info.local.ip();
                !own.contains(&local) && !local.is_loopback()
            })
        };
        let lost: Vec<ConnId> = self.stack.connections().filter(lost).collect();
        if lost.is_empty() {
            return;
        }
        let connections = lost.len();
        tracing::info!(connections, "an address is gone, and its connections end");
        for id in lost {
            self.stack.on_address_gone(self.now, id);
        }
    }
}
