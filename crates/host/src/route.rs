//! Which way a connection would go: the kernel is asked for its route (rtnetlink(7)), since only what
//! leaves by the engine's interface is the engine's.

use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTM_F_FIB_MATCH: u32 = 0x2000;
/// The destination is one of this machine's own addresses.
const RTN_LOCAL: u8 = 2;
/// It is that of several machines, to which TCP connects nobody.
const RTN_BROADCAST: u8 = 3;
const RTN_MULTICAST: u8 = 5;
/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Length of `struct nlmsghdr` and `struct rtmsg`.
const HEADERS: usize = HEADER + 12;
/// More than an answer about one route takes.
const ROOM: usize = 1024;

/// Where packets to an address go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nowhere: they stay on this machine.
    Here,
    /// Out of the interface with this index.
    By(u32),
}

/// The way to `remote`, from `local` if that names an address, by `interface` if that is not 0.
///
/// # Errors
/// The kernel's: `ENETUNREACH`, `EACCES`, and those of who may not ask (`EAFNOSUPPORT`, `EPERM`).
pub(crate) fn to(
    remote: SocketAddr,
    local: Option<SocketAddr>,
    interface: u32,
) -> Result<Way, Errno> {
    if remote.ip().is_multicast() {
        return Err(Errno::NETUNREACH);
    }
    let question = question(remote, local.map(|local| local.ip()), interface);
    let mut answer = [0; ROOM];
    read(ask(&question, &mut answer)?)
}

/// Whether an interface has an address, which others may have, too.
///
/// # Errors
/// Of who may not ask, as for [`to`].
pub(crate) fn has(interface: u32, own: IpAddr) -> Result<bool, Errno> {
    let mut question = question(SocketAddr::new(own, 0), None, interface);
    // The entry itself, rather than the way by it, which is over the loopback interface.
    question[HEADER + 8..HEADERS].copy_from_slice(&RTM_F_FIB_MATCH.to_ne_bytes());
    let mut answer = [0; ROOM];
    let answer = ask(&question, &mut answer)?;
    match route_type(answer) {
        Ok(RTN_LOCAL) => interface_of(answer).map(|holder| holder == interface),
        // There is another way to it, or none.
        Ok(_) | Err(Errno::NETUNREACH | Errno::HOSTUNREACH) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// What the kernel answers.
fn ask<'a>(question: &[u8], answer: &'a mut [u8; ROOM]) -> Result<&'a [u8], Errno> {
    let flags = SocketFlags::CLOEXEC;
    // NETLINK_ROUTE is protocol 0.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, question, SendFlags::empty(), &kernel)?;
    // The kernel answers within the call that asks.
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    Ok(answer.get(..length).unwrap_or_default())
}

fn question(remote: SocketAddr, local: Option<IpAddr>, interface: u32) -> Vec<u8> {
    let mut message = vec![0; HEADERS];
    let bits = if remote.is_ipv4() { 32 } else { 128 };
    let family = if remote.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    message[4..6].copy_from_slice(&RTM_GETROUTE.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    message[HEADER] = family.as_raw() as u8;
    message[HEADER + 1] = bits;
    let mut attribute = |kind: u16, value: &[u8]| {
        message.extend((value.len() as u16 + 4).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        // Addresses and indices fill whole words, as attributes must.
        message.extend(value);
    };
    let mut address = |kind, ip: IpAddr| match ip {
        IpAddr::V4(ip) => attribute(kind, &ip.octets()),
        IpAddr::V6(ip) => attribute(kind, &ip.octets()),
    };
    address(RTA_DST, remote.ip());
    let source = local.filter(|ip| !ip.is_unspecified() && ip.is_ipv4() == remote.is_ipv4());
    if let Some(ip) = source {
        address(RTA_SRC, ip);
    }
    let scope = match remote {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    if let Some(index) = [scope, interface].into_iter().find(|index| *index != 0) {
        attribute(RTA_OIF, &index.to_ne_bytes());
    }
    if source.is_some() {
        message[HEADER + 2] = bits;
    }
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

fn read(answer: &[u8]) -> Result<Way, Errno> {
    match route_type(answer)? {
        RTN_LOCAL => Ok(Way::Here),
        RTN_BROADCAST | RTN_MULTICAST => Err(Errno::NETUNREACH),
        _ => interface_of(answer).map(Way::By),
    }
}

/// What kind of route an answer is about (`RTN_LOCAL` and others).
fn route_type(answer: &[u8]) -> Result<u8, Errno> {
    match u16_at(answer, 4).ok_or(Errno::PROTO)? {
        NLMSG_ERROR => {
            let error = u32_at(answer, HEADER).ok_or(Errno::PROTO)? as i32;
            Err(Errno::from_raw_os_error(error.saturating_neg()))
        }
        RTM_NEWROUTE => answer.get(HEADER + 7).copied().ok_or(Errno::PROTO),
        _ => Err(Errno::PROTO),
    }
}

/// The interface that a route names.
fn interface_of(answer: &[u8]) -> Result<u32, Errno> {
    let mut at = HEADERS;
    while let (Some(length), Some(kind)) = (u16_at(answer, at), u16_at(answer, at + 2)) {
        if kind == RTA_OIF {
            return u32_at(answer, at + 4).ok_or(Errno::PROTO);
        }
        at += usize::from(length.max(4)).next_multiple_of(4);
    }
    Err(Errno::PROTO)
}

fn u16_at(answer: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(answer: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_here() {
        assert_eq!(to("127.0.0.1:80".parse().unwrap(), None, 0), Ok(Way::Here));
    }

    #[test]
    fn an_address_is_its_interfaces() {
        for own in ["127.0.0.1", "127.8.9.10", "::1"] {
            // The loopback interface is the first of every network namespace.
            assert_eq!(has(1, own.parse().unwrap()), Ok(true), "{own}");
            assert!(!has(2, own.parse().unwrap()).unwrap_or(false), "{own}");
        }
        // For documentation only (RFC 5737): at most there is a way to it.
        assert_eq!(has(1, "192.0.2.1".parse().unwrap()), Ok(false));
    }

    #[test]
    fn what_is_cut_off_is_no_answer() {
        let mut answer = vec![0; HEADERS + 8];
        answer[4..6].copy_from_slice(&RTM_NEWROUTE.to_ne_bytes());
        answer[HEADERS..HEADERS + 2].copy_from_slice(&8u16.to_ne_bytes());
        answer[HEADERS + 2..HEADERS + 4].copy_from_slice(&RTA_OIF.to_ne_bytes());
        answer[HEADERS + 4..].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(read(&answer), Ok(Way::By(7)));
        for to_many in [RTN_BROADCAST, RTN_MULTICAST] {
            let mut answer = answer.clone();
            answer[HEADER + 7] = to_many;
            assert_eq!(read(&answer), Err(Errno::NETUNREACH));
        }
        for length in 0..answer.len() {
            assert_eq!(read(&answer[..length]), Err(Errno::PROTO), "{length}");
        }
    }
}
