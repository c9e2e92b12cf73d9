//! What is known of the engine.

use std::net::IpAddr;

use queue_pair::control::{EngineFacts, Fds, Reply, Request, Way};
use rustix::io::Errno;

use super::Attachment;
use super::connection::Connection;
use super::control::RUNS_WITHIN;
use crate::lock::lock;

/// The first version of the protocol in which an engine tells of itself and of ways.
const SINCE: u32 = 7;

/// What is known of an engine.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    /// It is there.
    pub is_attached: bool,
    /// The version of the protocol that is spoken with it.
    pub protocol: u32,
    /// The index of the first of its interfaces.
    pub interface: u32,
    /// It may have connections within this machine.
    pub local: bool,
    /// Bytes of this process's send area, of which registered memory is a part.
    pub send_area: u64,
    /// How many of them nobody uses.
    pub send_free: u64,
    /// Bytes of this process's receive area.
    pub receive_area: u64,
    /// What it says of itself; nothing, if it speaks an earlier version.
    pub facts: EngineFacts,
}

impl<C: Connection<Attachment<C>>> Attachment<C> {
    pub(crate) fn engine(&self) -> Result<Engine, Errno> {
        let facts = match self.speaks(SINCE) {
            false => EngineFacts::default(),
            true => match self.request(&Request::Engine, Fds::new(), RUNS_WITHIN)? {
                (Reply::Engine(facts), _) => facts,
                _ => return Err(Errno::PROTO),
            },
        };
        Ok(Engine {
            is_attached: true,
            protocol: self.version,
            interface: self.interface,
            local: self.local,
            send_area: self.send.len(),
            send_free: lock(&self.pool).free_bytes(),
            receive_area: self.receive.len(),
            facts,
        })
    }

    pub(crate) fn way(&self, remote: IpAddr, doubted: bool) -> Result<Way, Errno> {
        if !self.speaks(SINCE) {
            return Err(Errno::OPNOTSUPP);
        }
        match self.request(&Request::Way { remote, doubted }, Fds::new(), RUNS_WITHIN)? {
            (Reply::Way(way), _) => Ok(way),
            _ => Err(Errno::PROTO),
        }
    }
}
