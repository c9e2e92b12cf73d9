//! Connections within this machine (`local = true`): both ends are the engine's, and what they send
//! each other goes through a queue instead of a wire.
//!
//! Only to its own listeners: a program asks before it connects, and whatever the engine does not
//! listen on is the kernel's. What comes by the wire can have nothing to do with these connections,
//! whatever addresses it bears.

use std::net::{IpAddr, SocketAddr};

use netdev::{Device, loopback};
use rustix::io::Errno;
use wire::segment::{ChecksumPolicy, Segment, parse};

use super::Worker;
use crate::capture::{Direction, Frame};
use crate::fast::listeners::Listener;
use crate::fast::memory::Store;
use crate::network::{Network, NicId, Steered};

impl<D: Device, N: Network> Worker<D, N> {
    /// Whether connections to `address` stay within the engine.
    pub(super) fn is_here(&self, address: IpAddr) -> bool {
        self.local.is_some() && self.network.is_here(address)
    }

    /// Whether a connection to `remote` would find a listener here: otherwise it is the kernel's.
    pub(super) fn listens_here(&self, remote: SocketAddr) -> bool {
        let takes = |listener: &Listener| {
            listener.local.port() == remote.port()
                && listener.covers(remote.ip())
                && listener.how_on(remote.ip()) != Steered::Closing
        };
        !self.stopping
            && self.is_here(remote.ip())
            && self.is_on_our_link(remote)
            && self.config.access.admits_peer(remote.ip(), remote.port())
            && self.listeners.iter().any(takes)
    }

    /// The address from which a connection to `remote`, which is here, comes. The kernel's loopback
    /// has one address for all of 127.0.0.0/8; every other address is its own source.
    pub(super) fn local_source(&self, wanted: IpAddr, remote: IpAddr) -> Result<IpAddr, Errno> {
        if !wanted.is_unspecified() {
            return if self.is_here(wanted) {
                Ok(wanted)
            } else {
                Err(Errno::OPNOTSUPP)
            };
        }
        Ok(match remote {
            IpAddr::V4(v4) if v4.is_loopback() => std::net::Ipv4Addr::LOCALHOST.into(),
            other => other,
        })
    }

    /// Takes what was sent to ourselves in the last turn; whether there was anything.
    pub(super) fn receive_local(&mut self) -> bool {
        let Self {
            local: Some(local),
            stack,
            connections,
            memory,
            listeners,
            counters,
            captures,
            starved,
            now,
            ..
        } = self
        else {
            return false;
        };
        let mut store = Store {
            connections,
            memory,
            listeners,
            starved,
        };
        let count = local.receive(|frame| {
            // What was never on a wire needs no checksum.
            let dropped = match parse(frame, ChecksumPolicy::Ignore) {
                Ok(segment) => stack
                    .on_segment(*now, &segment, &mut store)
                    .err()
                    .map(|reason| reason.name()),
                Err(reason) => {
                    counters.malformed(reason);
                    Some(reason.name())
                }
            };
            if captures.is_on() {
                let frame = Frame {
                    direction: Direction::In,
                    nic: NicId::default(),
                    head: frame,
                    payload: &[],
                    dropped,
                };
                captures.frame(*now, &frame);
            }
        });
        counters.local_frames += count as u64;
        count != 0
    }
}

/// Whether a segment that came by the wire says that it is from this machine, or to its loopback:
/// whoever sent it lies. Where no connection is within the machine, only those that open one matter.
pub(super) fn is_martian(segment: &Segment<'_>, own: &[IpAddr]) -> bool {
    segment.src.is_loopback() || segment.dst.is_loopback() || own.contains(&segment.src)
}

/// Whether a segment came through the queue: nothing else has its hardware address and reaches us.
pub(super) fn came_through_queue(link: wire::segment::Link) -> bool {
    link.src == loopback::MAC && link.dst == loopback::MAC
}
