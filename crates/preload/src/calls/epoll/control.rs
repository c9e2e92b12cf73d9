//! What is in a set: epoll_create and epoll_ctl, and what becomes of members that change sides.

use core::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard};

use host::Readiness;
use host::one_shot::Wanted;
use libc::epoll_event;
use rustix::io::Errno;

use super::family;
use crate::engine::{report, session};
use crate::kernel::epoll::kernel_control;
use crate::kernel::lock::lock;
use crate::numbers;
use crate::numbers::description::Content;
use crate::numbers::table::{self, Held, number_of_set};
use crate::objects::listening::Listening;
use crate::objects::set::{Ours, Set, Watch};
use crate::objects::tcp::Tcp;

/// epoll_ctl on a descriptor of ours.
///
/// # Safety
/// `event` is null or points to the program's event.
pub unsafe fn control(
    number: c_int,
    operation: c_int,
    fd: c_int,
    held: &Held,
    event: *mut epoll_event,
) -> Result<(), Errno> {
    let Some(tcp) = held.tcp() else {
        if let Some(inner) = held.epoll() {
            // SAFETY: as the caller promises; the structure is copied.
            return unsafe { put_inside(number, operation, fd, inner, event) };
        }
        return kernel_control(number, operation, fd, event);
    };
    // SAFETY: as the caller promises. The structure is packed on x86-64, so it is copied.
    let wanted = unsafe { event.as_ref() }.map(|event| (event.events, event.u64));
    if operation != libc::EPOLL_CTL_DEL && wanted.is_none() {
        return Err(Errno::FAULT);
    }
    let (events, data) = wanted.unwrap_or_default();
    let set = of(number, fd)?;
    let set = set.epoll().ok_or(Errno::INVAL)?;
    if tcp.is_undecided() {
        // Held meanwhile: what it becomes now finds the kernel's interest and the note of it, or neither.
        let mut watches = tcp.watches.lock();
        if tcp.is_undecided() {
            kernel_control(number, operation, fd, event)?;
            watches.retain(|watch| !(watch.fd == fd && watch.number == number));
            if operation != libc::EPOLL_CTL_DEL {
                watches.push(Watch {
                    set: Arc::downgrade(set),
                    number,
                    fd,
                    events,
                    data,
                });
            }
            return Ok(());
        }
    }
    await_move(tcp);
    if tcp.listener().is_some() {
        // It is shown to the engine.
        session::inherit();
    }
    let change_to = Change {
        number,
        operation,
        wanted: Wanted { fd, events, data },
        is_in_kernel: false,
    };
    change(set, tcp, change_to)
}

/// epoll_ctl on an epoll set: the sleeper in the inner one makes it readable, if armed.
///
/// # Safety
/// `event` is null or points to the program's event.
unsafe fn put_inside(
    number: c_int,
    operation: c_int,
    fd: c_int,
    inner: &Arc<Set>,
    event: *mut epoll_event,
) -> Result<(), Errno> {
    // SAFETY: as the caller promises. The structure is packed on x86-64, so it is copied.
    let events = unsafe { event.as_ref() }.map(|event| event.events);
    let is_put = operation != libc::EPOLL_CTL_DEL;
    let level = is_put && events.is_some_and(is_level);
    if is_put {
        inner.nest(fd, level)?;
    }
    kernel_control(number, operation, fd, event)?;
    if is_put {
        inner.show();
    }
    let outer = table::get(number);
    let Some(outer) = outer.as_ref().and_then(|outer| outer.epoll()) else {
        return Ok(());
    };
    match is_put {
        true => outer.inside.add(fd, inner, level),
        false => outer.inside.remove(fd),
    }
    // The kernel has taken it, so that is no error any more.
    if is_put && outer.call_for(number, inner).is_err() {
        report::remark(NOT_LOOKED_INTO);
    }
    Ok(())
}

/// Whether a set is watched level-triggered by these events.
pub fn is_level(events: u32) -> bool {
    events & libc::EPOLLET as u32 == 0
}

/// A call of epoll_ctl on a socket of the engine's.
#[derive(Clone, Copy)]
struct Change {
    /// The set's number.
    number: c_int,
    operation: c_int,
    wanted: Wanted,
    /// The kernel has the interest already.
    is_in_kernel: bool,
}

/// epoll_ctl on a socket of the engine's, of which others that have the set learn.
fn change(set: &Set, tcp: &Tcp, change: Change) -> Result<(), Errno> {
    let others_have_it = set.is_familys();
    if others_have_it {
        family::catch_up();
    }
    change_here(set, tcp, change)?;
    if others_have_it {
        let Wanted { fd, events, data } = change.wanted;
        let wanted = (change.operation != libc::EPOLL_CTL_DEL).then_some(Readiness(events));
        family::changed(set, (fd, tcp), wanted, data);
    }
    Ok(())
}

/// epoll_ctl on a socket of the engine's, in this process.
fn change_here(set: &Set, tcp: &Tcp, change: Change) -> Result<(), Errno> {
    let ours = set.ours(change.number)?;
    let Wanted { fd, events, data } = change.wanted;
    let (key, wanted) = (fd as u64, Readiness(events));
    match (change.operation, tcp.stream(), tcp.listener()) {
        (libc::EPOLL_CTL_ADD, Some(stream), _) => ours.ready.add(&stream.socket, key, wanted, data),
        (libc::EPOLL_CTL_MOD, Some(stream), _) => {
            ours.ready.modify(&stream.socket, key, wanted, data)
        }
        (libc::EPOLL_CTL_DEL, Some(stream), _) => ours.ready.remove(&stream.socket, key),
        (_, None, Some(listening)) => change_listener(set, ours, listening, change),
        _ => Err(Errno::INVAL),
    }
}

/// epoll_ctl on a listener, which is in both parts: what the kernel says of its own is the answer.
fn change_listener(
    set: &Set,
    ours: &Ours,
    listening: &Listening,
    change: Change,
) -> Result<(), Errno> {
    let Wanted { fd, events, data } = change.wanted;
    let (key, listener) = (fd as u64, &listening.listener);
    let in_kernel = |data| {
        let operation = match change.operation {
            // Only what is given to it as data may be another.
            libc::EPOLL_CTL_ADD if change.is_in_kernel => libc::EPOLL_CTL_MOD,
            operation => operation,
        };
        let mut event = epoll_event { events, u64: data };
        kernel_control(change.number, operation, fd, &raw mut event)
    };
    if change.operation == libc::EPOLL_CTL_DEL {
        let taken_out = || in_kernel(data);
        let ours = || {
            let _ = ours.ready.remove(listener, key);
        };
        return set.once.remove(&listening.identity, fd, taken_out, ours);
    }
    let once = events & libc::EPOLLONESHOT as u32 != 0;
    let put = |data| match change.is_in_kernel && !once {
        true => Ok(()),
        false => in_kernel(data),
    };
    let adds = change.operation == libc::EPOLL_CTL_ADD;
    let in_ours = |data| {
        let _ = match adds {
            true => ours.ready.add(listener, key, Readiness(events), data),
            false => ours.ready.modify(listener, key, Readiness(events), data),
        };
    };
    let done = set
        .once
        .set(&listening.identity, change.wanted, put, in_ours);
    if done.is_err() && change.is_in_kernel {
        // Its number was closed before it became a listener, and the kernel's part cannot be given a tag: each part tells
        // of its clients, with the program's data.
        in_ours(data);
    } else {
        done?;
    }
    if adds {
        listening.tell(fd);
    }
    Ok(())
}

/// Why a socket stays with the kernel.
pub const NO_ROOM: &str =
    "there are no descriptors or watches left with which to wait for it in its epoll set";

/// Said where a socket has become the engine's all the same.
const NOT_MOVED: &str = "there were no descriptors or watches left for an epoll set: a socket that was put into it is not told of there";

/// Said where who sleeps in a set may not know for how long.
const NOT_LOOKED_INTO: &str = "there were no descriptors or watches left for an epoll set: what comes in a set inside it may be told of late";

/// Has ready what [`move_watches`] needs, if `tcp` `is_engines`. What cannot be made must be known before that: the
/// kernel, which has its interests, serves it then.
pub fn make_room(tcp: &Tcp, is_engines: impl FnOnce() -> bool) -> Result<(), Errno> {
    let watches = tcp.watches.lock();
    let sets = watches
        .iter()
        .filter_map(|watch| Some((watch.set.upgrade()?, watch.number)));
    let mut sets: Vec<_> = sets.collect();
    // Before a set is closed here: that takes other locks.
    drop(watches);
    sets.retain(|(set, _)| !set.is_ready());
    if sets.is_empty() || !is_engines() {
        return Ok(());
    }
    for (set, number) in sets {
        if let Some(number) = number_of_set(&set, number) {
            set.ours(number)?;
        }
    }
    Ok(())
}

/// Held while a socket becomes the engine's and moves.
static MOVES: Mutex<()> = Mutex::new(());

/// Nothing moves while this is there.
pub struct Quiet(#[expect(dead_code, reason = "held, not used")] MutexGuard<'static, ()>);

/// See [`Quiet`]: for the time of a fork.
pub fn quiet() -> Quiet {
    Quiet(lock(&MOVES))
}

/// Waits until another thread has moved it, if one does: what it is moved with is older than what is said now.
fn await_move(tcp: &Tcp) {
    if tcp.is_moving() {
        drop(lock(&MOVES));
    }
}

/// `tcp` becomes the engine's by `become_it`, and moves, in every set that it was put in before. Who changes its interests
/// meanwhile [waits](await_move).
pub fn become_engines(tcp: &Tcp, become_it: impl FnOnce()) {
    let moves = lock(&MOVES);
    tcp.moves(true);
    become_it();
    move_watches(tcp);
    tcp.moves(false);
    drop(moves);
}

/// A listener stays in the kernel's part too.
fn move_watches(tcp: &Tcp) {
    // Not locked any more while the sets are changed.
    let watches = core::mem::take(&mut *tcp.watches.lock());
    for watch in watches {
        let Some(set) = watch.set.upgrade() else {
            continue;
        };
        let Some(number) = number_of_set(&set, watch.number) else {
            continue;
        };
        if tcp.stream().is_some() {
            let _ = kernel_control(number, libc::EPOLL_CTL_DEL, watch.fd, core::ptr::null_mut());
        }
        let Watch {
            fd, events, data, ..
        } = watch;
        let change_to = Change {
            number,
            operation: libc::EPOLL_CTL_ADD,
            wanted: Wanted { fd, events, data },
            is_in_kernel: true,
        };
        // Another thread may have put it into one more set since there was room for all.
        if change(&set, tcp, change_to).is_err() {
            report::remark(NOT_MOVED);
        }
    }
}

/// A connection that did not come to be is the kernel's again, as `fresh`, under the same numbers: moves
/// it back, in every set.
pub fn move_back(held: &Held, fresh: &Tcp) {
    let Some(stream) = held.stream() else { return };
    for number in table::used(0, u32::MAX) {
        let Some(set) = table::get(number) else {
            continue;
        };
        let Some(set) = set.epoll() else { continue };
        let Some(ours) = set.ours.get() else { continue };
        for taken in ours.ready.take_all(&stream.socket) {
            let fd = taken.key as c_int;
            let (events, data) = (taken.wanted.0, taken.data);
            let mut event = epoll_event { events, u64: data };
            // What is behind another number by now has left the sets.
            if !table::get(fd).is_some_and(|other| other.is(held)) {
                continue;
            }
            match kernel_control(number, libc::EPOLL_CTL_ADD, fd, &raw mut event) {
                // The kernel would have nothing to tell until it connects anew, and then it moves, by its note.
                Ok(()) => {}
                Err(Errno::NOSPC | Errno::NOMEM) => report::remark(NOT_MOVED),
                Err(_) => continue,
            }
            fresh.watches.lock().push(Watch {
                set: Arc::downgrade(set),
                number,
                fd,
                events,
                data,
            });
        }
    }
}

/// The program has a new set `number`: remembered from the beginning, because programs duplicate
/// its number before anything is in it, and wait through one number for what they add by another.
pub fn made(number: c_int) {
    numbers::handed_out(number);
    let set = family::new_set();
    set.once.is_ours_alone();
    table::install(number, Held::new(Content::Epoll(set)));
}

/// The set of that number, remembered from now on if it came from another program; `fd` is another
/// descriptor of the program's.
fn of(number: c_int, fd: c_int) -> Result<Held, Errno> {
    if let Some(held) = table::get(number) {
        return Ok(held);
    }
    // Is it a set at all? Taking out what is not in it says so.
    match kernel_control(number, libc::EPOLL_CTL_DEL, fd, core::ptr::null_mut()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    let held = Held::new(Content::Epoll(family::new_set()));
    table::install(number, held.clone());
    Ok(held)
}
