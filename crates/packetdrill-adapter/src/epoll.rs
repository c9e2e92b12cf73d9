//! epoll over the sockets: who is interested in what, and what to tell.

use std::os::fd::RawFd;

use sim::sockets::{Fd, Sockets};

/// What is told whether it was asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
const IN: u32 = libc::EPOLLIN as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONE_SHOT: u32 = libc::EPOLLONESHOT as u32;

/// One epoll instance. Who was told goes to the end, so that nobody waits for ever behind others.
#[derive(Debug, Default)]
pub(crate) struct Epoll {
    interests: Vec<Interest>,
}

/// What the program wants to hear of one socket.
#[derive(Debug)]
struct Interest {
    number: RawFd,
    socket: Fd,
    /// Zero for one of EPOLLONESHOT that has been told.
    asked: u32,
    data: u64,
    seen: Seen,
    /// Something has happened since it was told, which is what EPOLLET waits for.
    fresh: bool,
}

/// A socket as it was last looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    events: u32,
    arrived: u64,
}

impl Seen {
    fn of(sockets: &mut Sockets, socket: Fd) -> Seen {
        Seen {
            // A socket that has gone is ready for nothing.
            events: sockets.events(socket).unwrap_or(0) as u32,
            arrived: sockets.arrived(socket).unwrap_or(0),
        }
    }
}

impl Epoll {
    /// Asks for `events` of a descriptor from now on, whether or not it asked before.
    pub(crate) fn ask(&mut self, number: RawFd, socket: Fd, asked: u32, data: u64) {
        self.forget(number);
        self.interests.push(Interest {
            number,
            socket,
            asked,
            data,
            seen: Seen::default(),
            // What is there already counts.
            fresh: true,
        });
    }

    /// Whether a descriptor is among those asked about.
    pub(crate) fn knows(&self, number: RawFd) -> bool {
        self.interests.iter().any(|one| one.number == number)
    }

    /// Asks no longer about a descriptor.
    pub(crate) fn forget(&mut self, number: RawFd) {
        self.interests.retain(|one| one.number != number);
    }

    /// Looks at all sockets. To be done after each thing that happens: an edge is the difference
    /// between two looks.
    pub(crate) fn look(&mut self, sockets: &mut Sockets) {
        for one in &mut self.interests {
            let now = Seen::of(sockets, one.socket);
            // Data that arrives is an edge even when there was some, and so is a connection to
            // accept; room to write is one when there was none.
            let arrived = now.arrived > one.seen.arrived && one.asked & IN != 0;
            let began = now.events & !one.seen.events & (one.asked | ALWAYS) != 0;
            one.fresh |= arrived || began;
            one.seen = now;
        }
    }

    /// What `epoll_wait` tells: events and data, of at most `limit` sockets.
    pub(crate) fn take(&mut self, limit: usize) -> Vec<(u32, u64)> {
        let mut told = Vec::new();
        let mut again = Vec::new();
        let mut kept = Vec::new();
        for mut one in self.interests.drain(..) {
            let ready = match one.asked {
                0 => 0,
                asked => one.seen.events & (asked | ALWAYS),
            };
            // An edge that led to nothing is over.
            one.fresh &= ready != 0;
            let due = ready != 0 && (one.fresh || one.asked & EDGE == 0);
            if !due || told.len() == limit {
                kept.push(one);
                continue;
            }
            told.push((ready, one.data));
            one.fresh = false;
            if one.asked & ONE_SHOT != 0 {
                one.asked = 0;
            }
            again.push(one);
        }
        kept.append(&mut again);
        self.interests = kept;
        told
    }
}
