//! Sets that stay open in a program that is about to be executed.
//!
//! What is asked there of connections of the engine's stands in the memory of this program. The kernel's part
//! of the set stays, and so the kernel is told of it, for the tickets that stand in the connections' places: by
//! [notes], which tell nobody anything until the new program reads them ([`inherited`](super::inherited)).
//! When the last copy of a ticket closes, its notes are gone too: if nothing is executed after all, and
//! once the new program has claimed the connection.
//!
//! A program that cannot read notes would wait for ever. It is told of each connection once instead: it
//! then finds that its calls fail. Where another process has the same set, that one would be told, too, and
//! so nobody is.

use core::ffi::c_int;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use host::reserve::spare;
use host::{Readiness, Taken, notes};
use libc::epoll_event;
use rustix::io::Errno;

use crate::engine::forks::generation;
use crate::kernel::epoll::kernel_control;
use crate::numbers::table::{self, Held};
use crate::numbers::{self, duplicate};
use crate::objects::set::Set;

/// Writes down what is asked of a connection in the sets that stay open. These numbers, at least one, are
/// copies of its ticket.
///
/// # Errors
/// `ENOSPC`, `EMFILE`, `ENFILE`, `ENOMEM`: not all could be written down, and the new program waits in vain there.
pub fn note(connection: &Held, numbers: &[c_int]) -> Result<(), Errno> {
    let mut noted = Ok(());
    each_interest(connection, |set, interest| {
        let events = notes::note(interest.wanted);
        let fd = interest.key as c_int;
        let added = if numbers.contains(&fd) {
            add(set, fd, events, interest.data)
        } else {
            // The number was closed, and is something else by now; the connection has others.
            let ticket = numbers.first().copied().ok_or(Errno::BADF);
            let copy = ticket.and_then(|ticket| spare(1, || duplicate(ticket)));
            copy.and_then(|copy| add(set, copy.as_raw_fd(), events, interest.data))
        };
        noted = noted.and(added);
    });
    noted
}

/// Has the new program, which cannot have the connection of this number, told of it wherever it waits for
/// it. [`unshow`] takes that back.
pub fn show(connection: &Held, fd: c_int) {
    if generation() > 0 {
        return;
    }
    each_interest(connection, |set, interest| {
        let Readiness(events) = interest.wanted | Readiness::ONESHOT;
        let _ = add(set, fd, events & !Readiness::EXCLUSIVE.0, interest.data);
    });
}

/// The inverse of [`show`].
pub fn unshow(connection: &Held, fd: c_int) {
    each_interest(connection, |set, _| {
        let _ = kernel_control(set, libc::EPOLL_CTL_DEL, fd, core::ptr::null_mut());
    });
}

/// What is asked of a connection in the sets that stay open, each by one number of the set's.
fn each_interest(connection: &Held, mut tell: impl FnMut(c_int, Taken)) {
    let Some(stream) = connection.stream() else {
        return;
    };
    let mut seen: Vec<Arc<Set>> = Vec::new();
    for number in numbers::staying_open(|held| held.epoll().is_some_and(|set| set.has_ours())) {
        let Some(held) = table::get(number) else {
            continue;
        };
        let Some(set) = held.epoll() else { continue };
        if seen.iter().any(|other| Arc::ptr_eq(other, set)) {
            continue;
        }
        seen.push(Arc::clone(set));
        let Some(ours) = set.ours.get() else { continue };
        for interest in ours.ready.interests(&stream.socket) {
            tell(number, interest);
        }
    }
}

fn add(set: c_int, fd: c_int, events: u32, data: u64) -> Result<(), Errno> {
    let mut event = epoll_event { events, u64: data };
    kernel_control(set, libc::EPOLL_CTL_ADD, fd, &raw mut event)
}
