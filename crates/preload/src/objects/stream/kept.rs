//! Options that change nothing on a connection of the engine's, and whose values are kept: a program
//! reads back what it has set, or what its listener had.

use core::ffi::c_int;
use std::sync::Arc;

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};

use crate::kernel::lock::Small;
use crate::kernel::option::kernel_value;

/// An option: its level and its name.
type Name = (c_int, c_int);

/// Of these the kernel keeps only whether they are set.
const SWITCHES: [Name; 18] = [
    (SOL_SOCKET, libc::SO_REUSEADDR),
    (SOL_SOCKET, libc::SO_REUSEPORT),
    (SOL_SOCKET, libc::SO_BROADCAST),
    (SOL_SOCKET, libc::SO_OOBINLINE),
    (SOL_SOCKET, libc::SO_RXQ_OVFL),
    (SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE),
    (SOL_SOCKET, libc::SO_PREFER_BUSY_POLL),
    (IPPROTO_IP, libc::IP_RECVERR),
    (IPPROTO_IP, libc::IP_RECVOPTS),
    (IPPROTO_IP, libc::IP_RETOPTS),
    (IPPROTO_IP, libc::IP_PKTINFO),
    (IPPROTO_IP, libc::IP_RECVTTL),
    (IPPROTO_IP, libc::IP_RECVTOS),
    (IPPROTO_IP, libc::IP_FREEBIND),
    (IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT),
    (IPPROTO_IPV6, libc::IPV6_RECVERR),
    (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    (IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
];

/// Whether the kernel takes any integer for an option: then it need not be asked.
pub fn is_any_integer(level: c_int, name: c_int) -> bool {
    let name = (level, name);
    // To poll first takes a right, and those of IP may be a byte.
    let is_switch = level == SOL_SOCKET && SWITCHES.contains(&name);
    is_switch && name != (SOL_SOCKET, libc::SO_PREFER_BUSY_POLL)
}

/// Those that a connection has of its listener.
const INHERITED: [Name; 9] = [
    (SOL_SOCKET, libc::SO_REUSEADDR),
    (SOL_SOCKET, libc::SO_REUSEPORT),
    (SOL_SOCKET, libc::SO_BROADCAST),
    (SOL_SOCKET, libc::SO_OOBINLINE),
    (SOL_SOCKET, libc::SO_PRIORITY),
    (IPPROTO_TCP, libc::TCP_SYNCNT),
    (IPPROTO_IPV6, libc::IPV6_V6ONLY),
    // For the one of them that is not about its packets.
    (IPPROTO_IP, libc::IP_TOS),
    (IPPROTO_IPV6, libc::IPV6_TCLASS),
];

/// Values of options, shared by a listener and what it accepts.
pub type Values = Arc<[(Name, c_int)]>;

/// What is kept of one connection.
#[derive(Default)]
pub struct Kept(Small<Option<Values>>);

impl Kept {
    /// Takes over what its listener has.
    pub fn take(&self, values: Option<Values>) {
        *self.0.lock() = values;
    }

    /// The program sets one.
    pub fn set(&self, level: c_int, name: c_int, value: c_int) {
        let name = (level, name);
        let value = if SWITCHES.contains(&name) {
            c_int::from(value != 0)
        } else {
            value
        };
        let mut kept = self.0.lock();
        let others = kept.iter().flat_map(|values| values.iter().copied());
        let others = others.filter(|(other, _)| *other != name);
        *kept = Some(others.chain([(name, value)]).collect());
    }

    /// All of it: level, name, value.
    pub fn list(&self) -> Vec<(c_int, c_int, c_int)> {
        let kept = self.0.lock();
        let values = kept.iter().flat_map(|values| values.iter());
        values
            .map(|((level, name), value)| (*level, *name, *value))
            .collect()
    }

    /// What was set, here or on the listener.
    pub fn get(&self, level: c_int, name: c_int) -> Option<c_int> {
        let kept = self.0.lock();
        let mut values = kept.iter().flat_map(|values| values.iter());
        let found = values.find(|(other, _)| *other == (level, name));
        found.map(|(_, value)| *value)
    }
}

/// What a connection has of the kernel's listening socket `fd`, if its program has set any.
pub fn of_listener(fd: c_int) -> Option<Values> {
    let set = INHERITED.iter().filter_map(|&(level, name)| {
        let value = kernel_value::<c_int>(fd, level, name).ok()?;
        Some(((level, name), value))
    });
    // The seconds stay when it is switched off.
    let lingers = kernel_value::<libc::linger>(fd, SOL_SOCKET, libc::SO_LINGER).ok();
    let lingers = lingers.filter(|value| value.l_linger != 0);
    let lingers = lingers.map(|value| ((SOL_SOCKET, libc::SO_LINGER), value.l_linger));
    let set: Values = set.chain(lingers).collect();
    (!set.is_empty()).then_some(set)
}
