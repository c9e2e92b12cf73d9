//! One-shot interests in listeners, which stand in both parts of a set: the kernel's clients come to one, and the
//! engine's to the other. Whichever reports first takes the *shot*, and what the other one reports is not told.
//!
//! Both parts carry a *tag* in place of the program's data, which stands here. So a report says of which interest it
//! is, whatever else the program gives the same data to. Each time that the interest is set the tag is another one: what
//! another thread has still in hand of the time before takes nothing.
//!
//! Another process would not know the tags. So there are none in a set that any other may have: before it is forked,
//! sent or left to another program, what the program said is put back, for good.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rustix::io::Errno;

use crate::kernel::lock::lock;

/// What tags begin with: five bytes that are no address, and nothing that a program would choose.
const BEGIN: u64 = u64::from_be_bytes(*b"shots\0\0\0");

/// The rest of a tag.
const COUNT: u64 = 0xff_ffff;

/// See the [module](self).
#[derive(Default)]
pub struct Once {
    /// It is this process's alone, and may have tags.
    may_tag: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    shots: Vec<Shot>,
    /// How many tags there were.
    tags: u64,
}

/// One interest.
struct Shot {
    tag: u64,
    wanted: Wanted,
    /// Ends with the listener.
    listener: Weak<()>,
    is_left: bool,
}

/// What the program has said of an interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The number under which the listener is in the set.
    pub fd: c_int,
    pub events: u32,
    pub data: u64,
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It has no tag.
    Ordinary,
    /// It is told, with this data.
    Told(u64),
    /// The other part has told of it, or the interest was changed since.
    NotAgain,
}

/// Keeps other threads from the tags.
pub struct Guard<'a>(#[expect(dead_code, reason = "held, not used")] MutexGuard<'a, State>);

impl Once {
    /// The set was made just now, so that no other process has it.
    pub fn is_ours_alone(&self) {
        self.may_tag.store(true, Ordering::Relaxed);
    }

    /// The interest in a listener is set, or set again. `kernel` does so in the kernel's part, with the data that it is
    /// given. Returns the data for the part of ours.
    pub fn set(
        &self,
        listener: &Arc<()>,
        wanted: Wanted,
        kernel: impl FnOnce(u64) -> Result<(), Errno>,
    ) -> Result<u64, Errno> {
        let mut state = lock(&self.state);
        let is_once = wanted.events & libc::EPOLLONESHOT as u32 != 0;
        if !is_once || !self.may_tag.load(Ordering::Relaxed) {
            kernel(wanted.data)?;
            state.forget(listener, wanted.fd);
            return Ok(wanted.data);
        }
        let tag = BEGIN | (state.tags & COUNT);
        // By another's lock: who is told of it asks here what it is.
        kernel(tag)?;
        state.tags += 1;
        state.forget(listener, wanted.fd);
        state.shots.push(Shot {
            tag,
            wanted,
            listener: Arc::downgrade(listener),
            is_left: true,
        });
        Ok(tag)
    }

    /// It is taken out: `kernel` does so in the kernel's part.
    pub fn remove(
        &self,
        listener: &Arc<()>,
        fd: c_int,
        kernel: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        kernel()?;
        state.forget(listener, fd);
        Ok(())
    }

    /// One of the parts has reported this data.
    pub fn report(&self, data: u64) -> Report {
        if data & !COUNT != BEGIN {
            return Report::Ordinary;
        }
        let mut state = lock(&self.state);
        let mut shots = state.shots.iter_mut();
        let shot = shots.find(|shot| shot.tag == data && shot.is_left);
        shot.map_or(Report::NotAgain, |shot| {
            shot.is_left = false;
            Report::Told(shot.wanted.data)
        })
    }

    /// Another process is to have the set. `put_back` sets an interest in the kernel's part as the program has said
    /// it, with no events if it was told of. What our part still has to report is known by its tag.
    pub fn end(&self, put_back: impl Fn(Wanted)) {
        if !self.may_tag.load(Ordering::Relaxed) {
            return;
        }
        let state = lock(&self.state);
        self.may_tag.store(false, Ordering::Relaxed);
        let living = |shot: &&Shot| shot.listener.strong_count() > 0;
        for shot in state.shots.iter().filter(living) {
            let events = match shot.is_left {
                true => shot.wanted.events,
                false => libc::EPOLLONESHOT as u32,
            };
            put_back(Wanted {
                events,
                ..shot.wanted
            });
        }
    }

    /// See [`Guard`].
    pub fn guard(&self) -> Guard<'_> {
        Guard(lock(&self.state))
    }
}

impl State {
    /// What is over: the interest of before, and those in listeners that are closed.
    fn forget(&mut self, listener: &Arc<()>, fd: c_int) {
        let same = |shot: &Shot| {
            shot.wanted.fd == fd && core::ptr::eq(shot.listener.as_ptr(), Arc::as_ptr(listener))
        };
        self.shots
            .retain(|shot| !same(shot) && shot.listener.strong_count() > 0);
    }
}
