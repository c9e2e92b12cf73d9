//! One question about interfaces: RTM_GETLINK, and what is read of its answers.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const IFLA_IFNAME: u16 = 3;
const NETLINK_HEADER: usize = 16;
const INTERFACE_HEADER: usize = 16;
/// Attribute types carry two flag bits on top.
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;
/// One interface's description is a few kilobytes; with many virtual functions it is longer, and cut, which is
/// well because what is read of it comes before those.
const BUFFER: usize = 32 << 10;

/// What the kernel says of an interface.
pub(super) struct Description(Vec<u8>);

impl Description {
    /// Its name.
    pub(super) fn name(&self) -> Option<String> {
        let name = self.attribute(IFLA_IFNAME)?;
        let name = CStr::from_bytes_until_nul(name).ok()?;
        Some(name.to_str().ok()?.to_owned())
    }

    /// One of its attributes.
    pub(super) fn attribute(&self, wanted: u16) -> Option<&[u8]> {
        let attributes = self.0.get(NETLINK_HEADER + INTERFACE_HEADER..)?;
        attribute(attributes, wanted)
    }

    /// One that is a number.
    pub(super) fn number(&self, wanted: u16) -> Option<u32> {
        u32_at(self.attribute(wanted)?, 0)
    }
}

/// Describes one interface.
pub(super) fn describe(index: u32) -> io::Result<Description> {
    let socket = ask(index, 0)?;
    let mut answer = vec![0u8; BUFFER];
    let (length, _) = recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    answer.truncate(length);
    refused(&answer)?;
    Ok(Description(answer))
}

/// The names of all interfaces of which `wanted` is so.
pub(super) fn find_all(wanted: impl Fn(&Description) -> bool) -> io::Result<Vec<String>> {
    let socket = ask(0, NLM_F_DUMP)?;
    let mut found = Vec::new();
    let mut answer = vec![0u8; BUFFER];
    loop {
        let (length, _) = recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
        let mut messages = &answer[..length];
        if messages.is_empty() {
            return Ok(found);
        }
        while let Some(length) = u32_at(messages, 0) {
            let length = (length as usize).clamp(NETLINK_HEADER, messages.len());
            let (message, rest) = messages.split_at(length);
            refused(message)?;
            if u16_at(message, 4) == Some(NLMSG_DONE) {
                return Ok(found);
            }
            let description = Description(message.to_vec());
            if wanted(&description) {
                found.extend(description.name());
            }
            messages = rest;
        }
    }
}

/// Asks about the interface with an index, or about all.
fn ask(index: u32, flags: u16) -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE, which is protocol 0.
        None,
    )?;
    let mut request = [0u8; NETLINK_HEADER + INTERFACE_HEADER];
    request[0..4].copy_from_slice(&((NETLINK_HEADER + INTERFACE_HEADER) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
    request[20..24].copy_from_slice(&index.to_ne_bytes());
    send(&socket, &request, SendFlags::empty())?;
    Ok(socket)
}

/// What an answer says if it is an error.
fn refused(message: &[u8]) -> io::Result<()> {
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let kind = u16_at(message, 4).ok_or_else(short)?;
    if kind == NLMSG_ERROR {
        let errno = u32_at(message, NETLINK_HEADER).ok_or_else(short)?;
        return Err(io::Error::from_raw_os_error((errno as i32).wrapping_neg()));
    }
    Ok(())
}

/// The payload of the first attribute of a type.
pub(super) fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
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

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_attributes_end_the_walk() {
        for attributes in [&[][..], &[3, 0, 43, 0], &[0; 8], &[200, 0, 43, 0, 1, 2]] {
            assert_eq!(attribute(attributes, 43), None, "{attributes:?}");
        }
        assert!(refused(&[0; 3]).is_err());
        assert_eq!(Description(vec![0; 3]).number(43), None);
    }
}
