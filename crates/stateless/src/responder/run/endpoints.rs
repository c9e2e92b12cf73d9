//! What is listened on, as the steering program's table has it.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use netdev::Interface;
use netdev::steering::{Endpoint, MAX_ENDPOINTS};

use super::{Options, StartError, step};

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

/// All endpoints, each once.
///
/// # Errors
/// [`StartError::NoAddress`], [`StartError::TooMany`].
pub(super) fn all(options: &Options) -> Result<Vec<Endpoint>, StartError> {
    let mut endpoints = Vec::new();
    for vlan in std::iter::once(0).chain(options.vlans.iter().copied()) {
        let own = addresses(options, vlan)?;
        for listen in &options.listen {
            // A VLAN's address may be that of an interface which is made later.
            if let Some(address) = listen.address
                && options.vlans.is_empty()
                && !is_own(&options.interface, &own, address)
            {
                return Err(StartError::NotThere {
                    address,
                    interface: options.interface.name.clone(),
                    has: match &own[..] {
                        [] => "none".into(),
                        own => own
                            .iter()
                            .map(IpAddr::to_string)
                            .collect::<Vec<_>>()
                            .join(", "),
                    },
                });
            }
            let addresses = listen.address.map_or(own.clone(), |address| vec![address]);
            if addresses.is_empty() && vlan == 0 && options.vlans.is_empty() {
                return Err(StartError::NoAddress(options.interface.name.clone()));
            }
            for address in addresses {
                for port in listen.ports.clone() {
                    endpoints.push(Endpoint::new(address, port).on_vlan(vlan));
                }
            }
        }
    }
    endpoints.sort_by_key(|endpoint| (endpoint.address, endpoint.port, endpoint.vlan));
    endpoints.dedup();
    if endpoints.is_empty() {
        return Err(StartError::NoAddress(options.interface.name.clone()));
    }
    if endpoints.len() > MAX_ENDPOINTS as usize {
        let most = MAX_ENDPOINTS as usize;
        return Err(StartError::TooMany(endpoints.len(), most));
    }
    Ok(endpoints)
}

/// Whether packets to an address come by the interface: one of its own, or, on the loopback, any of
/// 127/8.
fn is_own(interface: &Interface, own: &[IpAddr], address: IpAddr) -> bool {
    own.contains(&address) || interface.is_loopback() && address.is_loopback()
}

/// The addresses of the interface, or of the kernel's interface for one of its VLANs.
fn addresses(options: &Options, vlan: u16) -> Result<Vec<IpAddr>, StartError> {
    let of = |interface: &Interface| {
        interface
            .addresses()
            .map_err(step("list the addresses of the interface"))
    };
    if vlan == 0 {
        return of(&options.interface);
    }
    match Interface::find(&format!("{}.{vlan}", options.interface.name)) {
        Ok(interface) => of(&interface),
        Err(_) => of(&options.interface),
    }
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
