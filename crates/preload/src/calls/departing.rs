//! Connections that stay open in a program that is about to be executed, or started.

use core::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};

use host::reserve::{refill, spare};

use crate::calls::epoll;
use crate::calls::travel::ticket_for;
use crate::kernel::raw::{result, sys};
use crate::numbers::table::{self, Held};
use crate::numbers::{closing, duplicate, gate};

/// See the [module](self): their numbers are tickets until it turns out that nothing is executed.
pub struct Departing {
    connections: Vec<Departed>,
    /// Connections of which the new program is told that it has not got them, each by one of its numbers.
    shown: Vec<(c_int, Held)>,
    /// Numbers of connections of which the new program does not know in which sets they are.
    unnoted: Vec<c_int>,
}

/// Whose the connections are to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Successor {
    /// This process, which executes another program.
    Same,
    /// This process, executing a program that this library cannot be in.
    Apart,
    /// A new process.
    Child,
}

/// Whether the number is the connection's, and is not being closed. With the [gate](gate::still) held.
fn still_means(fd: c_int, held: &Held) -> bool {
    table::means(fd, held) && !closing::contains(fd)
}

struct Departed {
    held: Held,
    numbers: Vec<Departure>,
    /// What its numbers were, which is one file, if any of them is a ticket.
    before: Option<OwnedFd>,
}

struct Departure {
    fd: c_int,
    is_ticket: bool,
    /// O_CLOEXEC, if the number is closed on exec.
    flags: c_int,
}

impl Departed {
    /// Puts a ticket in the place of this number of its, if it still is one. Beside it that takes one descriptor, and
    /// one more for a moment, however many numbers there are.
    fn goes(&mut self, fd: c_int) {
        let first = self.tickets().next();
        let ticket = match first {
            None if self.numbers.is_empty() => ticket_for(fd, &self.held),
            _ => None,
        };
        // It takes a while until the engine has given one.
        let _still = gate::still();
        if !still_means(fd, &self.held) {
            return;
        }
        if ticket.is_some() {
            self.before = spare(1, || duplicate(fd)).ok();
        }
        let ticket = ticket.as_ref().filter(|_| self.before.is_some());
        // SAFETY: asks for a flag.
        let closes = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFD) })
            .is_ok_and(|flags| flags & libc::FD_CLOEXEC as usize != 0);
        let flags = if closes { libc::O_CLOEXEC } else { 0 };
        let is_ticket = first.or(ticket.map(AsRawFd::as_raw_fd)).is_some_and(|of| {
            // SAFETY: what the number was is kept, and it is the connection's.
            result(unsafe { sys!(libc::SYS_dup3, of, fd, flags) }).is_ok()
        });
        self.numbers.push(Departure {
            fd,
            is_ticket,
            flags,
        });
    }

    fn tickets(&self) -> impl Iterator<Item = c_int> {
        let tickets = self.numbers.iter().filter(|it| it.is_ticket);
        tickets.map(|it| it.fd)
    }
}

impl Departing {
    /// Puts tickets in the place of these numbers.
    pub fn begin(fds: impl Iterator<Item = c_int>, successor: Successor) -> Self {
        let mut connections: Vec<Departed> = Vec::new();
        for fd in fds {
            let Some(held) = table::get(fd) else { continue };
            let known = connections.iter().position(|it| it.held.is(&held));
            let at = known.unwrap_or_else(|| {
                connections.push(Departed {
                    held,
                    numbers: Vec::new(),
                    before: None,
                });
                connections.len() - 1
            });
            connections[at].goes(fd);
        }
        let (mut shown, mut unnoted) = (Vec::new(), Vec::new());
        for it in &connections {
            let tickets: Vec<c_int> = it.tickets().collect();
            if let Some(first) = tickets.first()
                && successor != Successor::Apart
            {
                if epoll::note(&it.held, &tickets).is_err() {
                    unnoted.push(*first);
                }
            } else if successor != Successor::Child
                && let Some(first) = it.numbers.first()
            {
                epoll::show(&it.held, first.fd);
                shown.push((first.fd, it.held.clone()));
            }
        }
        Self {
            connections,
            shown,
            unnoted,
        }
    }

    /// The numbers for which there is no ticket.
    pub fn without_ticket(&self) -> impl Iterator<Item = c_int> {
        let numbers = self.connections.iter().flat_map(|it| &it.numbers);
        numbers.filter(|it| !it.is_ticket).map(|it| it.fd)
    }

    /// Numbers of connections that the new program has, and does not know in which sets they are.
    pub fn unnoted(&self) -> impl Iterator<Item = c_int> {
        self.unnoted.iter().copied()
    }

    /// The program stays, and has its connections.
    pub fn stay(self) {
        for (fd, held) in &self.shown {
            epoll::unshow(held, *fd);
        }
        for it in &self.connections {
            let Some(before) = &it.before else { continue };
            for Departure { fd, flags, .. } in it.numbers.iter().filter(|it| it.is_ticket) {
                let _still = gate::still();
                // Another thread may have closed it meanwhile.
                if still_means(*fd, &it.held) {
                    // SAFETY: the number is the connection's, and is what it was again.
                    unsafe { sys!(libc::SYS_dup3, before.as_raw_fd(), *fd, *flags) };
                }
            }
        }
        drop(self);
        refill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_libc_closes_meanwhile_becomes_no_connection_again() {
        let _alone = closing::alone();
        let (fd, held) = closing::high_number();
        let before = duplicate(fd).unwrap();
        fn is_socket(fd: &OwnedFd) -> bool {
            rustix::net::sockopt::socket_type(fd).is_ok()
        }
        assert!(is_socket(&before));
        let departing = Departing {
            connections: vec![Departed {
                held,
                numbers: vec![Departure {
                    fd,
                    is_ticket: true,
                    flags: 0,
                }],
                before: Some(before),
            }],
            shown: Vec::new(),
            unnoted: Vec::new(),
        };
        let closing = closing::begins(fd, true).unwrap();
        // Another thread opens a file, and has the number.
        let file = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: closes and takes over a number that is this test's own.
        let reopened = unsafe {
            sys!(libc::SYS_dup3, file.as_raw_fd(), fd, libc::O_CLOEXEC);
            std::os::fd::FromRawFd::from_raw_fd(fd)
        };
        departing.stay();
        let reopened: OwnedFd = reopened;
        assert!(!is_socket(&reopened), "it is the connection's again");
        closing.ends();
        assert!(!table::is_ours(fd));
    }
}
