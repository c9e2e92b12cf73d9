//! epoll, poll and select.

use crate::errors::{last, value};
use differ::outcome::Outcome;
use differ::program::{Change, Event, Slot, Wait};
use std::ffi::c_int;
use std::mem::zeroed;
use std::ptr::null_mut;

/// Events with the bits of poll, which are those of epoll where both have them.
const EVENTS: [(Event, u32); 10] = [
    (Event::In, libc::POLLIN as u32),
    (Event::Pri, libc::POLLPRI as u32),
    (Event::Out, libc::POLLOUT as u32),
    (Event::Err, libc::POLLERR as u32),
    (Event::Hup, libc::POLLHUP as u32),
    (Event::Nval, libc::POLLNVAL as u32),
    (Event::RdHup, libc::POLLRDHUP as u32),
    (Event::Exclusive, libc::EPOLLEXCLUSIVE as u32),
    (Event::OneShot, libc::EPOLLONESHOT as u32),
    (Event::Edge, libc::EPOLLET as u32),
];

fn bits(events: &[Event]) -> u32 {
    EVENTS
        .iter()
        .filter(|(event, _)| events.contains(event))
        .fold(0, |bits, (_, bit)| bits | bit)
}

fn events(bits: u32) -> Vec<Event> {
    let mut events: Vec<Event> = EVENTS
        .iter()
        .filter(|(_, bit)| bits & bit != 0)
        .map(|(event, _)| *event)
        .collect();
    events.sort();
    events
}

fn milliseconds(wait: Wait) -> c_int {
    match wait {
        Wait::No => 0,
        Wait::Forever => -1,
        Wait::Milliseconds(time) => c_int::from(time),
    }
}

fn ready(mut found: Vec<(Slot, Vec<Event>)>) -> Outcome {
    found.sort();
    Outcome::Ready(found)
}

pub fn control(set: c_int, change: Change, slot: Slot, fd: c_int, wanted: &[Event]) -> Outcome {
    let operation = match change {
        Change::Add => libc::EPOLL_CTL_ADD,
        Change::Modify => libc::EPOLL_CTL_MOD,
        Change::Delete => libc::EPOLL_CTL_DEL,
    };
    let mut event = libc::epoll_event {
        events: bits(wanted),
        u64: slot.into(),
    };
    // SAFETY: one event.
    value(unsafe { libc::epoll_ctl(set, operation, fd, &raw mut event) })
}

pub fn epoll_wait(set: c_int, most: u8, wait: Wait) -> Outcome {
    let mut found = vec![libc::epoll_event { events: 0, u64: 0 }; most.into()];
    // SAFETY: the room and its length.
    let count =
        unsafe { libc::epoll_wait(set, found.as_mut_ptr(), most.into(), milliseconds(wait)) };
    if count < 0 {
        return last();
    }
    let of = |entry: &libc::epoll_event| (entry.u64 as Slot, events(entry.events));
    ready(found[..count as usize].iter().map(of).collect())
}

pub fn poll(entries: &[(Slot, c_int, &[Event])], wait: Wait) -> Outcome {
    let mut asked: Vec<libc::pollfd> = entries
        .iter()
        .map(|(_, fd, wanted)| libc::pollfd {
            fd: *fd,
            events: bits(wanted) as i16,
            revents: 0,
        })
        .collect();
    // SAFETY: the entries and their number.
    let count = unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as u64, milliseconds(wait)) };
    if count < 0 {
        return last();
    }
    let found = entries
        .iter()
        .zip(&asked)
        .filter(|(_, entry)| entry.revents != 0)
        .map(|((slot, ..), entry)| (*slot, events(entry.revents as u16 as u32)));
    ready(found.collect())
}

pub fn select(read: &[(Slot, c_int)], write: &[(Slot, c_int)], wait: Wait) -> Outcome {
    // SAFETY: sets of bits.
    let mut sets: [libc::fd_set; 2] = unsafe { zeroed() };
    let mut beyond = 0;
    for (set, members) in sets.iter_mut().zip([read, write]) {
        for &(_, fd) in members {
            if fd >= libc::FD_SETSIZE as c_int {
                return Outcome::NoSlot;
            }
            // SAFETY: the number is within the set.
            unsafe { libc::FD_SET(fd, set) };
            beyond = beyond.max(fd + 1);
        }
    }
    let limit = milliseconds(wait);
    let mut time = libc::timeval {
        tv_sec: i64::from(limit) / 1000,
        tv_usec: i64::from(limit) % 1000 * 1000,
    };
    let time = if limit < 0 { null_mut() } else { &raw mut time };
    let [reads, writes] = &mut sets;
    // SAFETY: the sets are whole, and the time outlives the call.
    let count = unsafe { libc::select(beyond, reads, writes, null_mut(), time) };
    if count < 0 {
        return last();
    }
    let mut found: Vec<(Slot, Vec<Event>)> = Vec::new();
    for (set, members, event) in [(&sets[0], read, Event::In), (&sets[1], write, Event::Out)] {
        for &(slot, fd) in members {
            // SAFETY: the number was within the set above.
            if unsafe { libc::FD_ISSET(fd, set) } {
                found.push((slot, vec![event]));
            }
        }
    }
    ready(found)
}
