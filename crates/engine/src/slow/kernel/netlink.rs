//! The little of netlink that the engine speaks: requests with their answers, dumps, and
//! notifications. Messages are a 16-byte header, a fixed part that depends on the type, and
//! attributes (length, kind, value, padded to four bytes); see netlink(7).
//!
//! One codec serves the families in use (route, sock_diag, netfilter, xfrm), which is why it is
//! written here instead of taking a crate for each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto,
    socket_with,
};
use rustix::time::Timespec;

/// Length of the header that starts every message.
const HEADER_LEN: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
/// Ask for the whole table (`NLM_F_ROOT | NLM_F_MATCH`).
const NLM_F_DUMP: u16 = 0x300;
/// `NETLINK_ROUTE`, which is protocol 0: addresses, routes, neighbours, links.
pub const ROUTE: Option<Protocol> = None;
/// Facts about sockets.
pub const SOCK_DIAG: Option<Protocol> = Some(rustix::net::netlink::SOCK_DIAG);
/// nf_tables.
pub const NETFILTER: Option<Protocol> = Some(rustix::net::netlink::NETFILTER);
/// Of its messages, those of nf_tables (`NFNL_SUBSYS_NFTABLES`).
pub const NFTABLES: u16 = 10 << 8;
/// IPsec.
pub const XFRM: Option<Protocol> = Some(rustix::net::netlink::XFRM);
/// Create what does not exist.
pub const CREATE: u16 = 0x400;
/// A nested attribute's kind carries this bit.
const NLA_F_NESTED: u16 = 0x8000;
/// The kind without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const NLA_TYPE_MASK: u16 = 0x3fff;

/// How long an answer may take; the kernel answers in the system call, so this is only a guard.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Room for the largest message that the kernel packs (it uses at most 32 KiB a read).
const READ_BUFFER: usize = 32 * 1024;
/// Receive buffer of a notification socket: a burst of changes must not overrun it.
const NOTIFICATION_BUFFER: usize = 1 << 20;
/// Notifications that such a buffer can hold, at most.
const ROOM: u32 = 4096;

/// How long notifications are read in one go by who has packets to see to, and by who has not. There is one at
/// least.
pub const A_MOMENT: Duration = Duration::from_micros(10);
/// See [`A_MOMENT`].
pub const A_WHILE: Duration = Duration::from_millis(1);

/// A message under construction.
#[derive(Debug, Clone)]
pub struct RequestMessage {
    bytes: Vec<u8>,
}

impl RequestMessage {
    /// A request of `kind` whose fixed part is `fixed`.
    pub fn new(kind: u16, fixed: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(fixed);
        let mut request = Self { bytes };
        request.pad();
        request
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Adds an attribute.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = (4 + value.len()) as u16;
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Adds an attribute that holds an address.
    pub fn address(&mut self, kind: u16, address: IpAddr) -> &mut Self {
        match address {
            IpAddr::V4(a) => self.attribute(kind, &a.octets()),
            IpAddr::V6(a) => self.attribute(kind, &a.octets()),
        }
    }

    fn seal(&mut self, flags: u16, sequence: u32) -> &[u8] {
        let length = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.bytes
    }
}

/// One message of the kernel's.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The message type, for example `RTM_NEWNEIGH`.
    pub kind: u16,
    sequence: u32,
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// The fixed part and what follows it, if the message is long enough to hold `N` bytes.
    pub fn split<const N: usize>(&self) -> Option<(&'a [u8; N], Attributes<'a>)> {
        let (fixed, rest) = self.body.split_first_chunk::<N>()?;
        // The attributes start at the next multiple of four.
        let rest = rest.get(N.next_multiple_of(4) - N..).unwrap_or(&[]);
        Some((fixed, Attributes(rest)))
    }
}

/// Iterator over `(kind, value)` of attributes.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes nested in `value`.
    pub fn nested(value: &'a [u8]) -> Self {
        Self(value)
    }

    /// The value of the first attribute of `kind`.
    pub fn find(mut self, kind: u16) -> Option<&'a [u8]> {
        self.find_map(|(k, value)| (k == kind).then_some(value))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & NLA_TYPE_MASK & !NLA_F_NESTED;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    }
}

/// The 16-bit integer at `at`, in the machine's byte order.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The 32-bit integer at `at`, in the machine's byte order.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The address that an attribute holds: four bytes or sixteen.
pub fn address_of(value: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(value)
        .ok()
        .map(|v6| Ipv6Addr::from(v6).into())
}

/// The address family number of `address`, as netlink wants it.
pub fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 2,
        IpAddr::V6(_) => 10,
    }
}

/// A netlink socket.
#[derive(Debug)]
pub struct Netlink {
    fd: OwnedFd,
    sequence: u32,
    buffer: Box<[u8]>,
    /// Some were lost, and so many that wait may be from before; and more were lost since.
    old: Option<u32>,
    lost_again: bool,
}

/// What reading notifications came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notified {
    /// Nothing was lost.
    Read,
    /// The kernel had more to say than the socket could hold: what is cached may be stale and
    /// must be asked for again. All that it had said before has been read.
    Overrun,
}

impl Netlink {
    /// A socket for requests.
    pub fn open(protocol: Option<Protocol>) -> rustix::io::Result<Self> {
        let netlink = Self::with_groups(protocol, 0)?;
        set_socket_timeout(&netlink.fd, Timeout::Recv, Some(ANSWER_TIMEOUT))?;
        Ok(netlink)
    }

    /// A socket that receives the notifications of `groups` (bits of `RTMGRP_*`).
    pub fn subscribe(protocol: Option<Protocol>, groups: u32) -> rustix::io::Result<Self> {
        let netlink = Self::with_groups(protocol, groups)?;
        set_socket_recv_buffer_size(&netlink.fd, NOTIFICATION_BUFFER)?;
        Ok(netlink)
    }

    /// Begins to ask for a whole table: whoever has the socket can [take](Self::rest) the answer, also another process
    /// that might not ask. What is asked `first` has been answered then.
    pub fn begin_dump(
        protocol: Option<Protocol>,
        first: &mut RequestMessage,
        request: &mut RequestMessage,
    ) -> rustix::io::Result<OwnedFd> {
        let mut netlink = Self::open(protocol)?;
        netlink.ask(first, 0, |_| ())?;
        netlink.send(request, NLM_F_DUMP)?;
        Ok(netlink.fd)
    }

    /// A socket that another has opened, to ask for one table, or to hear notifications.
    pub fn begun(fd: OwnedFd) -> Self {
        Self {
            fd,
            // That of the second request.
            sequence: 2,
            buffer: vec![0; READ_BUFFER].into_boxed_slice(),
            old: None,
            lost_again: false,
        }
    }

    /// The answer to what was [begun](Self::begin_dump).
    pub fn rest(&mut self, each: impl FnMut(Message<'_>)) -> rustix::io::Result<()> {
        self.answers(each)
    }

    fn with_groups(protocol: Option<Protocol>, groups: u32) -> rustix::io::Result<Self> {
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self {
            sequence: 0,
            ..Self::begun(fd)
        })
    }

    /// Sends `request` and waits until the kernel acknowledged it; `each` sees what it answered.
    pub fn ask(
        &mut self,
        request: &mut RequestMessage,
        flags: u16,
        each: impl FnMut(Message<'_>),
    ) -> rustix::io::Result<()> {
        self.exchange(request, NLM_F_ACK | flags, each)
    }

    /// Asks for a whole table; `each` sees every entry.
    pub fn dump(
        &mut self,
        request: &mut RequestMessage,
        each: impl FnMut(Message<'_>),
    ) -> rustix::io::Result<()> {
        self.exchange(request, NLM_F_DUMP, each)
    }

    fn exchange(
        &mut self,
        request: &mut RequestMessage,
        flags: u16,
        each: impl FnMut(Message<'_>),
    ) -> rustix::io::Result<()> {
        self.send(request, flags)?;
        self.answers(each)
    }

    fn send(&mut self, request: &mut RequestMessage, flags: u16) -> rustix::io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let kernel = SocketAddrNetlink::new(0, 0);
        let bytes = request.seal(flags, self.sequence);
        sendto(&self.fd, bytes, SendFlags::NOSIGNAL, &kernel).map(drop)
    }

    /// Waits for the answers to what was sent last.
    fn answers(&mut self, mut each: impl FnMut(Message<'_>)) -> rustix::io::Result<()> {
        let sequence = self.sequence;
        loop {
            let (length, _) = recv(&self.fd, &mut *self.buffer, RecvFlags::empty())?;
            for message in messages(&self.buffer[..length]) {
                if message.sequence != sequence {
                    // The end of an exchange that an error cut short.
                    continue;
                }
                match message.kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return outcome(message.body),
                    _ => each(message),
                }
            }
        }
    }

    /// Reads the notifications that are waiting, without waiting for more, for so long at most: a storm of them
    /// cannot keep anybody from what else he does. What is left keeps the descriptor ready.
    pub fn notifications(
        &mut self,
        span: Duration,
        mut each: impl FnMut(Message<'_>),
    ) -> rustix::io::Result<Notified> {
        let begin = Instant::now();
        loop {
            match recv(&self.fd, &mut *self.buffer, RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    messages(&self.buffer[..length]).for_each(&mut each);
                    self.old = self.old.map(|left| left.saturating_sub(1));
                }
                Err(Errno::AGAIN) => {
                    self.lost_again = false;
                    return Ok(match self.old.take() {
                        Some(_) => Notified::Overrun,
                        None => Notified::Read,
                    });
                }
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => {
                    self.lost_again = self.old.is_some();
                    self.old.get_or_insert(ROOM);
                    continue;
                }
                Err(error) => return Err(error),
            }
            if self.old == Some(0) {
                self.old = core::mem::take(&mut self.lost_again).then_some(ROOM);
                return Ok(Notified::Overrun);
            }
            if begin.elapsed() >= span {
                // Nothing tells of a socket that is empty: what was lost is told now, or with the next one.
                if self.old.is_some() && self.is_empty() {
                    continue;
                }
                return Ok(Notified::Read);
            }
        }
    }

    /// Whether there is nothing to read, and nothing was lost since either.
    fn is_empty(&self) -> bool {
        let mut poll = [PollFd::new(&self.fd, PollFlags::IN)];
        let not_at_all = Timespec::default();
        matches!(rustix::event::poll(&mut poll, Some(&not_at_all)), Ok(0))
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Netlink> for OwnedFd {
    fn from(netlink: Netlink) -> Self {
        netlink.fd
    }
}

fn outcome(body: &[u8]) -> rustix::io::Result<()> {
    match u32_at(body, 0).map(|code| code as i32) {
        Some(0) => Ok(()),
        Some(code) => Err(Errno::from_raw_os_error(-code)),
        None => Err(Errno::PROTO),
    }
}

fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    core::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let message = Message {
            kind: u16_at(bytes, 4)?,
            sequence: u32_at(bytes, 8)?,
            body: bytes.get(HEADER_LEN..length)?,
        };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive_a_round_trip() {
        let mut request = RequestMessage::new(30, &[1, 2, 3, 4]);
        request
            .attribute(1, &[9, 8, 7])
            .address(2, "10.0.0.1".parse().unwrap());
        let bytes = request.seal(0, 7).to_vec();
        let message = messages(&bytes).next().expect("one message");
        assert_eq!((message.kind, message.sequence), (30, 7));
        let (fixed, attributes) = message.split::<4>().expect("long enough");
        assert_eq!(fixed, &[1, 2, 3, 4]);
        assert_eq!(attributes.find(1), Some(&[9u8, 8, 7][..]));
        assert_eq!(
            attributes.find(2).and_then(address_of),
            Some("10.0.0.1".parse().unwrap())
        );
    }

    /// Anybody may send to such a socket.
    const ANYBODY: Option<Protocol> = Some(rustix::net::netlink::USERSOCK);

    #[test]
    fn what_was_lost_is_told_when_what_was_before_is_read() {
        let mut hears = match Netlink::with_groups(ANYBODY, 1) {
            Ok(hears) => hears,
            Err(Errno::PERM) => {
                let said =
                    "SKIPPED: what_was_lost_is_told_when_what_was_before_is_read needs root\n";
                let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
                return;
            }
            Err(error) => panic!("{error}"),
        };
        set_socket_recv_buffer_size(&hears.fd, 8192).expect("set");
        let says = Netlink::open(ANYBODY).expect("a socket");
        let all = SocketAddrNetlink::new(0, 1);
        for number in 0..200 {
            let mut request = RequestMessage::new(30, &[0; 1024]);
            // Who does not hear it is not the sender's business.
            let _ = sendto(&says.fd, request.seal(0, number), SendFlags::NOSIGNAL, &all);
        }
        let (mut heard, mut calls) = (0, 0);
        loop {
            let before = heard;
            let read = hears.notifications(Duration::ZERO, |_| heard += 1);
            calls += 1;
            assert_eq!(heard, before + 1);
            if read == Ok(Notified::Overrun) {
                assert!(hears.is_empty(), "with the last: nobody would come again");
                break;
            }
            assert_eq!(read, Ok(Notified::Read));
        }
        assert!(heard > 1 && heard < 200 && calls == heard, "{heard}");
        let read = hears.notifications(Duration::ZERO, |_| panic!("there are no more"));
        assert_eq!(read, Ok(Notified::Read));
    }

    #[test]
    fn a_storm_of_notifications_is_read_a_little_at_a_time() {
        let mut hears = Netlink::subscribe(ANYBODY, 0).expect("a socket");
        let name = rustix::net::getsockname(&hears.fd).expect("bound");
        let name = SocketAddrNetlink::try_from(name).expect("of netlink");
        let says = Netlink::open(ANYBODY).expect("a socket");
        for number in 0..3 {
            let mut request = RequestMessage::new(30, &[1, 2, 3, 4]);
            let bytes = request.seal(0, number);
            sendto(&says.fd, bytes, SendFlags::NOSIGNAL, &name).expect("sent");
        }
        let mut heard = Vec::new();
        for count in 1..=3 {
            let read = hears.notifications(Duration::ZERO, |message| {
                heard.push(message.sequence);
            });
            assert_eq!((read, heard.len()), (Ok(Notified::Read), count));
        }
        assert_eq!(heard, [0, 1, 2]);
        let read = hears.notifications(Duration::ZERO, |_| panic!("there are no more"));
        assert_eq!(read, Ok(Notified::Read));
    }

    #[test]
    fn cut_messages_end_the_iteration() {
        let mut request = RequestMessage::new(30, &[1, 2, 3, 4]);
        request.attribute(1, &[0; 40]);
        let bytes = request.seal(0, 1).to_vec();
        for cut in 0..bytes.len() {
            assert_eq!(messages(&bytes[..cut]).count(), 0);
            assert!(Attributes(&bytes[..cut]).count() <= cut / 4);
        }
    }
}
