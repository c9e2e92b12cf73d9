//! What is listened on, as the steering program's table has it.

use std::net::IpAddr;

use netdev::Interface;
use netdev::steering::{Endpoint, MAX_ENDPOINTS};

use super::{Options, StartError, step};

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
