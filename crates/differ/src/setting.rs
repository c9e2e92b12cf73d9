//! What an actor must know of where it runs.

use crate::program::Connection;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Given to the interpreter as its argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// The socket at which the stage takes its actors.
    pub control: String,
    /// The program's own addresses on the interface.
    pub here: (Ipv4Addr, Ipv6Addr),
    /// The peer's.
    pub there: (Ipv4Addr, Ipv6Addr),
    /// The first of the program's own ports.
    pub own_ports: u16,
    /// The first of the peer's ports: one for each connection, to listen on or to connect from.
    pub peer_ports: u16,
}

impl Setting {
    /// An address and a port by their parts in the program, so that they compare.
    pub fn name(&self, address: IpAddr, port: u16) -> String {
        let (plain, mapped) = match address {
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => (IpAddr::V4(v4), "mapped "),
                None => (address, ""),
            },
            IpAddr::V4(_) => (address, ""),
        };
        let family = if address.is_ipv4() { "v4" } else { "v6" };
        let place = match plain {
            _ if plain == self.here.0 || plain == self.here.1 => "here".to_owned(),
            _ if plain == self.there.0 || plain == self.there.1 => "there".to_owned(),
            _ if plain.is_unspecified() => "any".to_owned(),
            other => other.to_string(),
        };
        let own = port.wrapping_sub(self.own_ports);
        let port = match self.connection(port) {
            _ if port == 0 => "no port".to_owned(),
            _ if usize::from(own) < crate::program::PORTS => format!("own port {own}"),
            Some(peer) => format!("peer's port {peer}"),
            None => "some port".to_owned(),
        };
        format!("{family} {mapped}{place}, {port}")
    }

    /// Whose port that is of the peer's.
    pub fn connection(&self, port: u16) -> Option<Connection> {
        let connection = Connection::try_from(port.checked_sub(self.peer_ports)?).ok()?;
        (usize::from(connection) < crate::program::CONNECTIONS).then_some(connection)
    }
}

/// The first of the numbers of the actors' control sockets, beyond those that programs get.
pub const CONTROL_NUMBERS: i32 = 500;

/// Bytes of the largest message between stage and actor.
pub const MESSAGE: usize = 160_000;

/// Bytes that a receive may ask for: what it returns fits into a message.
pub const MOST: u32 = 100_000;
