//! Which XDP program an interface has: one RTM_GETLINK, of which only `IFLA_XDP` is read.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
const NETLINK_HEADER: usize = 16;
const INTERFACE_HEADER: usize = 16;
/// Attribute types carry two flag bits on top.
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;

/// Where an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the kernel's receive path, after the driver made an skb: every driver can, slower.
    Generic,
}

/// A program that is attached to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachedProgram {
    /// The id that `bpftool prog show id N` takes; 0 if the kernel did not say.
    pub id: u32,
    /// Where it runs; `None` for several at once, or on the NIC itself.
    pub mode: Option<XdpMode>,
}

pub(super) fn attached_program(index: u32) -> io::Result<Option<AttachedProgram>> {
    let socket = route_socket()?;
    let mut request = [0u8; NETLINK_HEADER + INTERFACE_HEADER];
    request[0..4].copy_from_slice(&((NETLINK_HEADER + INTERFACE_HEADER) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    request[20..24].copy_from_slice(&index.to_ne_bytes());
    send(&socket, &request, SendFlags::empty())?;
    // One interface's description is a few kilobytes; with many virtual functions it is longer,
    // and cut, which is well because IFLA_XDP comes before those.
    let mut answer = vec![0u8; 32 << 10];
    let (length, _) = recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    parse_answer(&answer[..length])
}

fn route_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE, which is protocol 0.
        None,
    )?)
}

fn parse_answer(message: &[u8]) -> io::Result<Option<AttachedProgram>> {
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let kind = u16_at(message, 4).ok_or_else(short)?;
    if kind == NLMSG_ERROR {
        let errno = u32_at(message, NETLINK_HEADER).ok_or_else(short)?;
        return Err(io::Error::from_raw_os_error((errno as i32).wrapping_neg()));
    }
    let attributes = message
        .get(NETLINK_HEADER + INTERFACE_HEADER..)
        .ok_or_else(short)?;
    let Some(xdp) = attribute(attributes, IFLA_XDP) else {
        return Ok(None);
    };
    let attached = attribute(xdp, IFLA_XDP_ATTACHED).and_then(|value| value.first().copied());
    let mode = match attached {
        None | Some(0) => return Ok(None),
        Some(1) => Some(XdpMode::Native),
        Some(2) => Some(XdpMode::Generic),
        Some(_) => None,
    };
    let id = attribute(xdp, IFLA_XDP_PROG_ID)
        .and_then(|value| u32_at(value, 0))
        .unwrap_or(0);
    Ok(Some(AttachedProgram { id, mode }))
}

/// The payload of the first attribute of a type.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let kind = u16_at(attributes, 2)? & ATTRIBUTE_TYPE_MASK;
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_attributes_end_the_walk() {
        for attributes in [&[][..], &[3, 0, 43, 0], &[0; 8], &[200, 0, 43, 0, 1, 2]] {
            assert_eq!(attribute(attributes, IFLA_XDP), None, "{attributes:?}");
        }
        assert!(parse_answer(&[0; 3]).is_err());
    }
}
