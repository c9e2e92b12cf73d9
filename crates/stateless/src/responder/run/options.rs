//! What to run, and where it listens.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use netdev::Interface;
use netdev::steering::Placement;

/// Ports of one address, or of all that the interface has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The address; `None` for all of the interface's.
    pub address: Option<IpAddr>,
    /// The ports.
    pub ports: RangeInclusive<u16>,
}

impl FromStr for Listen {
    type Err = String;

    /// `PORT`, `:PORT-PORT`, `ADDR:PORT`, `[ADDR6]:PORT-PORT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: write [ADDR]:PORT[-PORT], as :80 or 10.0.0.1:8000-8009");
        let (address, ports) = text.rsplit_once(':').unwrap_or(("", text));
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let first: u16 = first.parse().map_err(|_| wrong())?;
        let last: u16 = last.parse().map_err(|_| wrong())?;
        if first == 0 || last < first {
            return Err(wrong());
        }
        let address = match address {
            "" | "*" => None,
            address => {
                // With any port, so that brackets are as everywhere.
                let socket: SocketAddr = format!("{address}:1").parse().map_err(|_| wrong())?;
                Some(socket.ip()).filter(|ip| !ip.is_unspecified())
            }
        };
        Ok(Self {
            address,
            ports: first..=last,
        })
    }
}

/// How frames get in and out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Answered in the driver, in place.
    #[default]
    Xdp,
    /// By AF_XDP, to this process: several segments a response.
    AfXdp,
    /// By a netfilter queue, to this process.
    NfQueue,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The interface.
    pub interface: Interface,
    /// Addresses and ports.
    pub listen: Vec<Listen>,
    /// VLANs beside untagged frames.
    pub vlans: Vec<u16>,
    /// The way.
    pub mode: Mode,
    /// Where the XDP program is to run.
    pub placement: Placement,
    /// The number of the netfilter queue.
    pub queue: u16,
    /// Whether the last SYNs are kept as they arrived ([`Mode::Xdp`] only).
    pub witness: bool,
}

/// The ports of all that is listened on.
pub fn ports(listen: &[Listen]) -> Vec<RangeInclusive<u16>> {
    let mut ports: Vec<_> = listen.iter().map(|listen| listen.ports.clone()).collect();
    ports.sort_by_key(|range| (*range.start(), *range.end()));
    ports.dedup();
    ports
}

/// Whether `address` is one that `listen` names.
pub(super) fn covers(listen: Option<IpAddr>, address: IpAddr) -> bool {
    listen.is_none_or(|listen| address.is_unspecified() || listen == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ranges_are_read() {
        let listen = |text: &str| text.parse::<Listen>();
        assert_eq!(
            listen(":80"),
            Ok(Listen {
                address: None,
                ports: 80..=80
            })
        );
        assert_eq!(listen("80"), listen(":80"));
        assert_eq!(listen("0.0.0.0:80"), listen(":80"));
        assert_eq!(
            listen("10.0.0.1:8000-8009").map(|listen| listen.ports),
            Ok(8000..=8009)
        );
        assert_eq!(
            listen("[fd00::1]:80").map(|listen| listen.address),
            Ok("fd00::1".parse().ok())
        );
        for wrong in [
            "", ":", ":0", ":9-8", "x:80", "10.0.0.1", "fd00::1", ":65536",
        ] {
            assert!(listen(wrong).is_err(), "{wrong:?}");
        }
    }
}
