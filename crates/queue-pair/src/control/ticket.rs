//! Tickets: descriptors that stand for a connection while it is on its way to another program.
//!
//! A connection of the engine's is known by what stands in a process's memory, and memory does not
//! travel with a descriptor. So what travels is a *ticket*: a listening UNIX socket that the engine
//! makes, with a connection of its own waiting in it. The kernel counts its copies as those of any
//! descriptor, in processes and in messages, and closes the engine's end with the last. Nobody else can
//! make one: the engine knows its own by the socket's cookie, not by the name, which only spares asking
//! it about every descriptor that a program is handed. Who reads from it or writes to it is refused at
//! once (ENOTCONN), and so does not wait for what will never come.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, getsockname, listen,
    socket_with, sockopt,
};
use serde::{Deserialize, Serialize};

/// What the abstract name of every ticket begins with.
const NAME: &[u8] = b"outboard-ticket-";

/// What belongs to the open file rather than to the connection, and travels with it: whoever claims the
/// ticket goes on with what the program that passed it had set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// The socket was made as one of IPv6.
    pub ipv6: bool,
    /// O_NONBLOCK.
    pub nonblocking: bool,
    /// Its direction towards the program was shut down.
    pub read_shut: bool,
    /// SO_RCVTIMEO in nanoseconds, 0 for none.
    pub receive_timeout: u64,
    /// SO_SNDTIMEO in nanoseconds, 0 for none.
    pub send_timeout: u64,
    /// SO_RCVLOWAT in bytes.
    pub receive_low: u64,
    /// The send buffer in bytes, if the program has chosen it.
    pub send_buffer: Option<u64>,
    /// Options that the engine acts on, by [`OptionKind`](crate::OptionKind), and their values.
    pub options: Vec<(u8, u32)>,
    /// Options that are only read back: level, name, value.
    pub kept: Vec<(i32, i32, i32)>,
}

impl Carried {
    /// The most options of either kind.
    pub const MOST: usize = 64;

    /// Whether there is no more of it than there can be.
    pub fn is_bounded(&self) -> bool {
        self.options.len() <= Self::MOST && self.kept.len() <= Self::MOST
    }
}

/// A ticket, to be given away, and the engine's end, which hangs up when the last copy is closed.
///
/// # Errors
/// The kernel's, when it has no descriptors to give, or no name.
pub fn make(token: u64) -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (ticket, end) = (socket()?, socket()?);
    let name = [NAME, format!("{token:016x}").as_bytes()].concat();
    let name = SocketAddrUnix::new_abstract_name(&name)?;
    bind(&ticket, &name)?;
    listen(&ticket, 1)?;
    connect(&end, &name)?;
    Ok((ticket, end))
}

/// Whether this may be a ticket: it is called like one. Costs one system call, two for a UNIX socket.
pub fn is_one(fd: impl AsFd) -> bool {
    let name = getsockname(fd).ok();
    let name = name.and_then(|name| SocketAddrUnix::try_from(name).ok());
    name.is_some_and(|name| {
        name.abstract_name()
            .is_some_and(|name| name.starts_with(NAME))
    })
}

/// What no two sockets have in common, and copies of one have: its cookie.
///
/// # Errors
/// It is no socket.
pub fn identity(fd: impl AsFd) -> Result<u64, Errno> {
    sockopt::socket_cookie(fd)
}

// miri has no UNIX sockets.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::net::RecvFlags;

    fn hangs_up(end: &OwnedFd) -> bool {
        let mut fds = [PollFd::new(end, PollFlags::IN)];
        poll(&mut fds, Some(&rustix::time::Timespec::default())) == Ok(1)
    }

    #[test]
    fn it_lives_as_long_as_its_copies() {
        let (ticket, end) = make(0x1_0000_0001).expect("descriptors");
        let copy = ticket.try_clone().expect("descriptors");
        assert!(is_one(&copy) && !is_one(&end));
        assert_eq!(identity(&copy), identity(&ticket));
        assert_ne!(identity(&ticket), identity(&end));
        drop(ticket);
        assert!(!hangs_up(&end), "a copy is left");
        drop(copy);
        assert!(hangs_up(&end));
    }

    #[test]
    fn who_takes_it_for_a_connection_is_refused_at_once() {
        let (ticket, _end) = make(0x1_0000_0002).expect("descriptors");
        rustix::io::ioctl_fionbio(&ticket, false).expect("a socket");
        let read = rustix::net::recv(&ticket, &mut [0u8; 8][..], RecvFlags::empty());
        assert_eq!(read.err(), Some(Errno::NOTCONN));
        assert_eq!(rustix::io::write(&ticket, b"x"), Err(Errno::NOTCONN));
    }
}
