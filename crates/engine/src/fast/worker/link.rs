//! What changes under all connections: the link, and the addresses on it.

use netdev::Device;
use rustix::io::{Errno, Result};
use tcp::ConnId;

use super::Worker;
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
