//! Epoll sets with members of both kinds.
//!
//! The program's epoll descriptor stays a real one. What the kernel knows is registered there as
//! always; connections of the engine are in a ready set of `host` beside it. `epoll_wait` reports
//! from both ([`wait()`]).
//!
//! A listener is in both: the kernel's socket for the clients that the kernel serves, and the ready
//! set for those of the engine. A TCP socket that has not yet connected or listened is the
//! kernel's, and noted, so that it can move.
//!
//! After a fork several processes have a set: see [`family`].

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use host::{Readiness, ReadySet};
use libc::epoll_event;
use rustix::io::Errno;

use crate::description::Content;
use crate::forks::generation;
use crate::lock::lock;
use crate::raw::{result, sys};
use crate::table::{self, Held};
use crate::tcp::Tcp;
use crate::{numbers, pool};

pub mod family;
mod inherited;
mod leaving;
mod sleep;
mod unaware;
mod wait;

use family::InKernel;
pub use inherited::{look, look_blindly};
pub use leaving::{note, show, unshow};
use sleep::Sleep;
use unaware::Unaware;
pub use wait::wait;

/// An epoll set of the program.
#[derive(Default)]
pub struct Set {
    ours: OnceLock<Ours>,
    /// Threads that wait in the kernel alone, because there was no part of ours.
    unaware: Unaware,
    /// It is inside another set: what it has to report must be seen there.
    nested: AtomicBool,
    /// It comes from another program, and what is in it is not known.
    unknown: AtomicBool,
    /// Its number in the family of processes that have it since a fork; 0 if it is this one's alone.
    family: AtomicU32,
    /// Threads that sleep where they do not hear what others of the family do.
    in_kernel: InKernel,
}

/// What a set has once a socket of the engine's is, or was, in it.
struct Ours {
    ready: ReadySet,
    sleep: Sleep,
    /// Counts waits, to look at the kernel's part every few turns.
    turn: AtomicU32,
    /// How many forks lay behind the process that last waited in it.
    generation: AtomicU32,
}

impl Ours {
    /// A thread is about to wait. The first that does in a child makes it want what its parent's set
    /// watches.
    fn entered(&self) {
        let generation = generation();
        if self.generation.load(Ordering::Relaxed) == generation {
            return;
        }
        self.generation.store(generation, Ordering::Relaxed);
        if let Some(session) = crate::session::current() {
            session.waits_in(&self.ready);
        }
    }
}

/// A note that a socket which is still the kernel's is in a set.
pub struct Watch {
    set: Weak<Set>,
    /// The set's number.
    number: c_int,
    /// The number under which the socket was added.
    fd: c_int,
    events: u32,
    data: u64,
}

impl Set {
    /// A set of the program's.
    fn new() -> Arc<Self> {
        let set = Arc::default();
        family::know(&set);
        set
    }

    /// Whether other processes may have it, too.
    pub fn is_familys(&self) -> bool {
        self.family_number() != 0
    }

    /// See [`Set::family`].
    fn family_number(&self) -> u32 {
        // With the count of those who sleep in the kernel: see `InKernel`.
        self.family.load(Ordering::SeqCst)
    }

    fn join_family(&self, number: u32) {
        self.family.store(number, Ordering::SeqCst);
    }

    /// The part of ours, made now if need be; `number` is the set's.
    fn ours(&self, number: c_int) -> Result<&Ours, Errno> {
        if let Some(ours) = self.ours.get() {
            return Ok(ours);
        }
        let session = crate::session::current().ok_or(Errno::NOMEM)?;
        let ours = Ours {
            ready: session.ready_set(),
            sleep: Sleep::new()?,
            turn: AtomicU32::new(0),
            generation: AtomicU32::new(generation()),
        };
        // Another thread may have been faster: then its part stands.
        let _ = self.ours.set(ours);
        let ours = self.ours.get().ok_or(Errno::NOMEM)?;
        if self.nested.load(Ordering::Relaxed) {
            ours.sleep.stay_armed(self, number)?;
        }
        self.call_unaware(ours, number)?;
        Ok(ours)
    }

    /// Wakes threads that wait in the kernel alone, if there are any, so that they come to wait for
    /// our part too.
    fn call_unaware(&self, ours: &Ours, number: c_int) -> Result<(), Errno> {
        if self.unaware.any() {
            ours.sleep.call(self, number)?;
        }
        Ok(())
    }

    /// It is inside another set, or polled, by this number of its own: from now on that is readable whenever it has
    /// something to report. The engine may ring its bell alone.
    pub fn nest(&self, number: c_int) -> Result<(), Errno> {
        self.show_by_number();
        match self.ours.get() {
            Some(ours) => ours.sleep.stay_armed(self, number),
            None => Ok(()),
        }
    }

    /// As [`nest`](Self::nest), of one that has nothing of ours yet.
    pub fn show_by_number(&self) {
        self.nested.store(true, Ordering::Relaxed);
    }

    /// Whether there is or was a member of the engine's.
    pub fn has_ours(&self) -> bool {
        self.ours.get().is_some()
    }

    /// Whether a member of the engine's has something to report.
    pub fn any_ready(&self) -> bool {
        self.ours.get().is_some_and(|ours| ours.ready.any_ready())
    }
}

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
        // An epoll set inside another: the sleeper in the inner one makes it readable, if armed.
        if let Some(inner) = held.epoll()
            && operation == libc::EPOLL_CTL_ADD
        {
            inner.nest(fd)?;
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
    if tcp.stream().is_none() {
        kernel_control(number, operation, fd, event)?;
    }
    let mut watches = lock(&tcp.watches);
    if tcp.is_undecided() {
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
    drop(watches);
    change(set, number, operation, fd, tcp, events, data)
}

/// epoll_ctl on a socket of the engine's, of which others that have the set learn.
fn change(
    set: &Set,
    number: c_int,
    operation: c_int,
    fd: c_int,
    tcp: &Tcp,
    events: u32,
    data: u64,
) -> Result<(), Errno> {
    let others_have_it = set.is_familys();
    if others_have_it {
        family::catch_up();
    }
    change_here(set, number, operation, fd, tcp, events, data)?;
    if others_have_it {
        let wanted = (operation != libc::EPOLL_CTL_DEL).then_some(Readiness(events));
        family::changed(set, (fd, tcp), wanted, data);
    }
    Ok(())
}

/// epoll_ctl on a socket of the engine's, in this process.
fn change_here(
    set: &Set,
    number: c_int,
    operation: c_int,
    fd: c_int,
    tcp: &Tcp,
    events: u32,
    data: u64,
) -> Result<(), Errno> {
    let ours = set.ours(number)?;
    let (key, wanted) = (fd as u64, Readiness(events));
    match (operation, tcp.stream(), tcp.listener()) {
        (libc::EPOLL_CTL_ADD, Some(stream), _) => ours.ready.add(&stream.socket, key, wanted, data),
        (libc::EPOLL_CTL_MOD, Some(stream), _) => {
            ours.ready.modify(&stream.socket, key, wanted, data)
        }
        (libc::EPOLL_CTL_DEL, Some(stream), _) => ours.ready.remove(&stream.socket, key),
        // The kernel has accepted the same change for its part, so the answer is given.
        (libc::EPOLL_CTL_ADD, _, Some(listening)) => {
            let _ = ours.ready.add(&listening.listener, key, wanted, data);
            listening.tell(fd);
            Ok(())
        }
        (libc::EPOLL_CTL_MOD, _, Some(listening)) => {
            let _ = ours.ready.modify(&listening.listener, key, wanted, data);
            Ok(())
        }
        (libc::EPOLL_CTL_DEL, _, Some(listening)) => {
            let _ = ours.ready.remove(&listening.listener, key);
            Ok(())
        }
        _ => Err(Errno::INVAL),
    }
}

/// `tcp` has just become the engine's: moves it, in every set that it was put in before. A listener
/// stays in the kernel's part too.
pub fn move_watches(tcp: &Tcp) {
    for watch in core::mem::take(&mut *lock(&tcp.watches)) {
        let Some(set) = watch.set.upgrade() else {
            continue;
        };
        let Some(number) = number_of(&set, watch.number) else {
            continue;
        };
        if tcp.stream().is_some() {
            let _ = kernel_control(number, libc::EPOLL_CTL_DEL, watch.fd, core::ptr::null_mut());
        }
        let _ = change(
            &set,
            number,
            libc::EPOLL_CTL_ADD,
            watch.fd,
            tcp,
            watch.events,
            watch.data,
        );
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
            if !table::get(fd).is_some_and(|other| other.is(held))
                || kernel_control(number, libc::EPOLL_CTL_ADD, fd, &raw mut event).is_err()
            {
                continue;
            }
            lock(&fresh.watches).push(Watch {
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
    table::install(number, pool::make(Content::Epoll(Set::new())));
}

/// A number of the set: `before`, if it still is one.
fn number_of(set: &Arc<Set>, before: c_int) -> Option<c_int> {
    let means_it = |number: &c_int| {
        table::get(*number)
            .is_some_and(|held| held.epoll().is_some_and(|other| Arc::ptr_eq(other, set)))
    };
    core::iter::once(before)
        .chain(table::used(0, u32::MAX))
        .find(means_it)
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
    let held = pool::make(Content::Epoll(Set::new()));
    table::install(number, held.clone());
    Ok(held)
}

fn kernel_control(
    number: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> Result<(), Errno> {
    // SAFETY: the event is the program's own, or null where the kernel does not look at it.
    result(unsafe { sys!(libc::SYS_epoll_ctl, number, operation, fd, event) }).map(|_| ())
}
