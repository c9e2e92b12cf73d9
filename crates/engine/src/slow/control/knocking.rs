//! Children of forks that cannot reach the control socket, because they have another root directory or other
//! rights than their parent had: they bring a connection of their own, over the lifeline of their fork.
//!
//! Who is at the other end of a connection is the process that has made it, and any process may have been handed
//! one that another made. So it is taken only from the very process that has made it.

use std::os::fd::OwnedFd;

use netdev::syscalls::{PeerCredentials, Received, peer_credentials};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};

use super::{Accepted, Control, user_of};

impl Control {
    /// Takes on the connection that a child has brought, if it is its own.
    pub(super) fn let_in(&mut self, knock: Received) -> Result<Accepted, Errno> {
        let Received {
            mut fds, sender, ..
        } = knock;
        let connection = match fds.len() {
            1 => fds.pop().filter(|_| sender.is_some()),
            _ => None,
        };
        match connection {
            Some(connection) if is_own(&connection, sender) => self.take_on(connection),
            other => {
                fds.extend(other);
                self.turn_away(user_of(sender), fds);
                Err(Errno::PERM)
            }
        }
    }

    /// Leaves what came along to who has time to close it.
    pub(super) fn turn_away(&mut self, uid: u32, fds: Vec<OwnedFd>) {
        self.turned_away.extend(fds.into_iter().map(|fd| (uid, fd)));
    }
}

/// Whether this is a connection as the control socket's are, and made by its sender.
fn is_own(connection: &OwnedFd, sender: Option<PeerCredentials>) -> bool {
    socket_domain(connection) == Ok(AddressFamily::UNIX)
        && socket_type(connection) == Ok(SocketType::SEQPACKET)
        && sender.is_some_and(|sender| sender.pid != 0)
        && peer_credentials(connection).ok() == sender
}

#[cfg(test)]
mod tests {
    use rustix::net::{SocketFlags, socketpair};

    use super::*;

    #[test]
    fn a_connection_is_taken_from_its_maker_alone() {
        let pair = |kind| {
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("descriptors")
        };
        let (one, _other) = pair(SocketType::SEQPACKET);
        let maker = peer_credentials(&one).expect("of this process");
        assert!(is_own(&one, Some(maker)));
        assert!(!is_own(&one, None));
        for (pid, uid) in [(1, maker.uid), (0, maker.uid), (maker.pid, maker.uid + 1)] {
            let sender = PeerCredentials { pid, uid };
            assert!(!is_own(&one, Some(sender)), "{sender:?}");
        }
        let (stream, _other) = pair(SocketType::STREAM);
        assert!(!is_own(&stream, Some(maker)));
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        assert!(!is_own(&udp.into(), Some(maker)));
    }
}
