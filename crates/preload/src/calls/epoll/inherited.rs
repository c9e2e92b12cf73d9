//! Sets that were open when this program was executed.
//!
//! The kernel's part of such a set is as it was, and says what is in it (`/proc/self/fdinfo`). What of that is
//! the engine's, or may come to be, gets into our part: connections, of which the program before has left
//! [notes]; listeners; and sockets that have not decided yet. An edge that was told of there is told of once
//! more. A set that another process has as well is this one's from now on: what either puts in the other does
//! not see.
//!
//! The notes go with the tickets. So they are read before tickets are claimed, and followed after.

use core::ffi::c_int;
use core::sync::atomic::Ordering;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use host::notes::{self, Member};
use host::{Readiness, Taken};
use libc::epoll_event;
use rustix::io::Errno;

use super::control::is_level;
use super::family;
use crate::engine::{report, session};
use crate::kernel::epoll::kernel_control;
use crate::numbers::description::Content;
use crate::numbers::table::{self, Held};
use crate::objects::set::sleep::MARK;
use crate::objects::set::{Set, Watch};

/// Why a set is of no use.
const UNKNOWN: &str = "an epoll set that was open through exec tells nothing: without /proc nobody knows what is in it";

/// Why one may miss something in a set.
const NOT_SERVED: &str = "there were no descriptors or watches left for an epoll set that was open through exec: not all that is in it is told of";

/// What an epoll set is called where the kernel names its files.
const NAME: &str = "anon_inode:[eventpoll]";

/// Sets as they were found.
pub struct Inherited {
    sets: Vec<Found>,
    /// What was open, with the inode behind it.
    open: Vec<(c_int, u64)>,
}

struct Found {
    number: c_int,
    members: Vec<Member>,
}

/// The sets among the numbers that are open.
pub fn look(open: &[c_int]) -> Inherited {
    let sets: Vec<Found> = open.iter().filter_map(|fd| found(*fd)).collect();
    let asked = if sets.is_empty() { &[] } else { open };
    let open = asked.iter().filter_map(|fd| {
        // SAFETY: asked about, and nothing else; a number that is not open is an error.
        let file = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(*fd) }).ok()?;
        Some((*fd, file.st_ino))
    });
    Inherited {
        open: open.collect(),
        sets,
    }
}

/// As [`look`], where there is no `/proc`: a set in which one of these tickets is cannot be made whole, and
/// who waits in it is refused.
pub fn look_blindly(open: impl Iterator<Item = c_int>, tickets: &[c_int]) {
    for number in open {
        let forget = |fd| kernel_control(number, libc::EPOLL_CTL_DEL, fd, core::ptr::null_mut());
        if tickets.iter().any(|fd| forget(*fd).is_ok()) {
            let set = family::new_set();
            set.unknown.store(true, Ordering::Relaxed);
            table::install(number, Held::new(Content::Epoll(set)));
            report::remark(UNKNOWN);
        }
    }
}

fn found(number: c_int) -> Option<Found> {
    let name = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    if name.as_os_str() != NAME {
        return None;
    }
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    Some(Found {
        number,
        members: notes::members(&text).collect(),
    })
}

impl Inherited {
    /// Whatever can be claimed is claimed.
    pub fn restore(self) {
        let mut distinct: Vec<&Found> = Vec::new();
        for found in &self.sets {
            let same = distinct.iter().find(|other| other.is(found));
            let held = same.and_then(|other| table::get(other.number));
            if held.is_none() {
                distinct.push(found);
            }
            let held = held.unwrap_or_else(|| Held::new(Content::Epoll(family::new_set())));
            table::install(found.number, held);
        }
        for Found { number, members } in distinct {
            let Some(held) = table::get(*number) else {
                continue;
            };
            let Some(set) = held.epoll() else { continue };
            if members.iter().any(|member| member.data == MARK) {
                // Another process sleeps there, and may go on doing so.
                session::begin();
                if set.ours(*number).is_err() {
                    report::remark(NOT_SERVED);
                }
            }
            for member in members {
                if self.put(set, *number, member).is_none() {
                    wake(*number, member);
                }
            }
        }
    }

    /// Puts into our part what belongs there. `None`: it cannot be had.
    fn put(&self, set: &Arc<Set>, number: c_int, member: &Member) -> Option<()> {
        let noted = notes::noted(member.events);
        let is_it = |(fd, inode): &&(c_int, u64)| *fd == member.fd && *inode == member.inode;
        let now = self.open.iter().find(is_it).or_else(|| {
            let by_inode = |(_, inode): &&(c_int, u64)| *inode == member.inode;
            self.open
                .iter()
                .find(|open| noted.is_some() && by_inode(open))
        });
        let Some((now, _)) = now else { return Some(()) };
        let Some(held) = table::get(*now) else {
            // What is the kernel's alone is in its part.
            return noted.is_none().then_some(());
        };
        if let Some(inner) = held.epoll() {
            let level = is_level(member.events);
            let _ = inner.nest(*now, level);
            set.inside.add(*now, inner, level);
        }
        let Some(tcp) = held.tcp() else {
            return Some(());
        };
        let taken = Taken {
            key: member.fd as u64,
            wanted: noted.unwrap_or(Readiness(member.events)),
            data: member.data,
        };
        match (tcp.stream(), tcp.listener(), noted) {
            (Some(stream), _, Some(_)) => {
                let ours = set.ours(number).ok()?;
                ours.ready.put_back(&stream.socket, taken).ok()
            }
            (_, Some(listening), None) => {
                let Ok(ours) = set.ours(number) else {
                    // Its clients at the kernel are told of.
                    report::remark(NOT_SERVED);
                    return Some(());
                };
                let _ = ours.ready.put_back(&listening.listener, taken);
                listening.tell(*now);
                Some(())
            }
            (None, None, None) => {
                tcp.watches.lock().push(Watch {
                    set: Arc::downgrade(set),
                    number,
                    fd: member.fd,
                    events: member.events,
                    data: member.data,
                });
                Some(())
            }
            _ => Some(()),
        }
    }
}

impl Found {
    /// Whether both are numbers of one set. Only a set itself is refused as its own member, before the
    /// kernel looks whether it is one.
    fn is(&self, other: &Self) -> bool {
        let nested = self.members.iter().any(|member| member.fd == other.number);
        !nested
            && kernel_control(
                self.number,
                libc::EPOLL_CTL_DEL,
                other.number,
                core::ptr::null_mut(),
            ) == Err(Errno::INVAL)
    }
}

/// The connection of this note could not be claimed: who waits for it is told once, and finds that its
/// calls fail.
fn wake(number: c_int, member: &Member) {
    let mut event = epoll_event {
        events: (Readiness::IN | Readiness::ONESHOT).0,
        u64: member.data,
    };
    let _ = kernel_control(number, libc::EPOLL_CTL_MOD, member.fd, &raw mut event);
}
