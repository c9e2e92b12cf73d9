//! Connections that stay open in a program that is about to be executed, or started.

use core::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};

use host::reserve::{refill, spare};

use crate::calls::epoll;
use crate::calls::travel::ticket_for;
use crate::kernel::raw::{result, sys};
use crate::numbers::duplicate;
use crate::numbers::table::{self, Held};

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
    /// Puts a ticket in the place of this number of its. Beside it that takes one descriptor, and one more for a
    /// moment, however many numbers there are.
    fn goes(&mut self, fd: c_int) {
        // SAFETY: asks for a flag.
        let closes = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFD) })
            .is_ok_and(|flags| flags & libc::FD_CLOEXEC as usize != 0);
        let flags = if closes { libc::O_CLOEXEC } else { 0 };
        let become_copy = |of: c_int| {
            // SAFETY: what the number was is kept.
            result(unsafe { sys!(libc::SYS_dup3, of, fd, flags) }).is_ok()
        };
        let first = self.tickets().next();
        let is_ticket = match first {
            Some(first) => become_copy(first),
            None if self.numbers.is_empty() => {
                let ticket = ticket_for(fd, &self.held);
                self.before = ticket
                    .as_ref()
                    .and_then(|_| spare(1, || duplicate(fd)).ok());
                let ticket = ticket.filter(|_| self.before.is_some());
                ticket.is_some_and(|ticket| become_copy(ticket.as_raw_fd()))
            }
            None => false,
        };
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
        for Departed {
            held,
            numbers,
            before,
        } in &self.connections
        {
            for Departure { fd, flags, .. } in numbers.iter().filter(|it| it.is_ticket) {
                // Another thread may have closed it meanwhile.
                if let Some(before) = before
                    && table::get(*fd).is_some_and(|now| now.is(held))
                {
                    // SAFETY: the number is the connection's, and is what it was again.
                    unsafe { sys!(libc::SYS_dup3, before.as_raw_fd(), *fd, *flags) };
                }
            }
        }
        drop(self);
        refill();
    }
}
