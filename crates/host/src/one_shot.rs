//! One-shot interests in listeners, which stand in both parts of a set: the kernel's clients come to one, and the
//! engine's to the other. Whichever reports first takes the *shot*, and what the other one reports is not told.
//!
//! Both parts carry a *tag* in place of the program's data, which stands here. So a report says of which interest it
//! is, whatever else the program gives the same data to. Each time that the interest is set the tag is another one: what
//! another thread has still in hand of the time before takes nothing.
//!
//! Another process would not know the tags. So there are none in a set that any other may have: before it is forked,
//! sent or left to another program, what the program said is put back, for good. Of what was told of there is nothing
//! to put back, but the kernel tells of errors and hang-ups whatever is asked of it. A child of a fork knows the tags up
//! to then, and so the interest keeps its tag, by which nobody is told again. Another program would not know it, and
//! gets the program's data; but not after a fork, since another process may have set the interest anew by then.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rustix::io::Errno;

use crate::Readiness;
use crate::lock::lock;

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
struct State {
    shots: Vec<Shot>,
    /// How many tags there were.
    tags: u64,
}

/// Who is to have a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heir {
    /// The child of a fork.
    Child,
    /// Another program.
    Stranger,
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
    /// What for, by the values of the kernel's `EPOLL*` constants.
    pub events: u32,
    /// The program's data.
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

    /// The interest in a listener is set, or set again. `kernel` does so in the kernel's part, and then `ours` in that of
    /// ours, with the data that they are given: both before anybody else sets it, or the parts would have different tags,
    /// and what one of them reports would not be told.
    ///
    /// # Errors
    /// What `kernel` returns; then nothing is changed.
    pub fn set(
        &self,
        listener: &Arc<()>,
        wanted: Wanted,
        kernel: impl FnOnce(u64) -> Result<(), Errno>,
        ours: impl FnOnce(u64),
    ) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let is_once = wanted.events & Readiness::ONESHOT.0 != 0;
        let has_tag = is_once && self.may_tag.load(Ordering::Relaxed);
        let tag = has_tag.then(|| state.unused_tag());
        let data = tag.unwrap_or(wanted.data);
        // Who is told of a tag by then asks here what it is, and waits.
        kernel(data)?;
        state.forget(listener, wanted.fd);
        state.shots.extend(tag.map(|tag| Shot {
            tag,
            wanted,
            listener: Arc::downgrade(listener),
            is_left: true,
        }));
        ours(data);
        Ok(())
    }

    /// It is taken out: `kernel` does so in the kernel's part, and `ours` in that of ours.
    ///
    /// # Errors
    /// What `kernel` returns; then nothing is changed.
    pub fn remove(
        &self,
        listener: &Arc<()>,
        fd: c_int,
        kernel: impl FnOnce() -> Result<(), Errno>,
        ours: impl FnOnce(),
    ) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        kernel()?;
        state.forget(listener, fd);
        ours();
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

    /// Another process is to have the set. `put_back` sets an interest in a listener in the kernel's part as the program
    /// has said it, with no events if it was told of. What our part still has to report is known by its tag.
    pub fn end(&self, heir: Heir, put_back: impl Fn(&Arc<()>, Wanted)) {
        if !self.may_tag.load(Ordering::Relaxed) {
            return;
        }
        let state = lock(&self.state);
        self.may_tag.store(false, Ordering::Relaxed);
        for shot in &state.shots {
            let Some(listener) = shot.listener.upgrade() else {
                continue;
            };
            let (events, data) = match (shot.is_left, heir) {
                (true, _) => (shot.wanted.events, shot.wanted.data),
                (false, Heir::Child) => (Readiness::ONESHOT.0, shot.tag),
                (false, Heir::Stranger) => (Readiness::ONESHOT.0, shot.wanted.data),
            };
            let wanted = Wanted {
                events,
                data,
                ..shot.wanted
            };
            put_back(&listener, wanted);
        }
    }

    /// See [`Guard`].
    pub fn guard(&self) -> Guard<'_> {
        Guard(lock(&self.state))
    }
}

impl State {
    /// A tag that nobody has: there are so many that they come again.
    fn unused_tag(&mut self) -> u64 {
        loop {
            let tag = BEGIN | (self.tags & COUNT);
            self.tags += 1;
            if !self.shots.iter().any(|shot| shot.tag == tag) {
                return tag;
            }
        }
    }

    /// What is over: the interest of before, and those in listeners that are closed.
    fn forget(&mut self, listener: &Arc<()>, fd: c_int) {
        let same = |shot: &Shot| {
            shot.wanted.fd == fd && core::ptr::eq(shot.listener.as_ptr(), Arc::as_ptr(listener))
        };
        self.shots
            .retain(|shot| !same(shot) && shot.listener.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONCE: u32 = Readiness::IN.0 | Readiness::ONESHOT.0;

    fn wanted(fd: c_int) -> Wanted {
        Wanted {
            fd,
            events: ONCE,
            data: fd as u64,
        }
    }

    fn ours_alone() -> Once {
        let once = Once::default();
        once.is_ours_alone();
        once
    }

    /// Sets it, and returns the data of the kernel's part, and of ours.
    fn set(once: &Once, listener: &Arc<()>, fd: c_int) -> (u64, u64) {
        let (mut kernel, mut ours) = (0, 0);
        let in_kernel = |data| {
            kernel = data;
            Ok(())
        };
        let done = once.set(listener, wanted(fd), in_kernel, |data| ours = data);
        done.expect("the kernel does it");
        (kernel, ours)
    }

    #[test]
    fn whichever_part_is_first_is_told() {
        let (once, listener) = (ours_alone(), Arc::new(()));
        let (kernel, ours) = set(&once, &listener, 3);
        assert_eq!(once.report(ours), Report::Told(3));
        assert_eq!(once.report(kernel), Report::NotAgain);
        let (again, _) = set(&once, &listener, 3);
        assert_eq!(once.report(kernel), Report::NotAgain, "of the time before");
        assert_eq!(once.report(again), Report::Told(3));
    }

    #[test]
    fn nobody_else_sets_it_between_the_two_parts() {
        let (once, listener) = (ours_alone(), Arc::new(()));
        let is_held = || once.state.try_lock().is_err();
        let done = once.set(
            &listener,
            wanted(3),
            |_| is_held().then_some(()).ok_or(Errno::PERM),
            |_| assert!(is_held()),
        );
        done.expect("the kernel does it");
        let removed = once.remove(&listener, 3, || Ok(()), || assert!(is_held()));
        removed.expect("the kernel does it");
    }

    #[test]
    fn a_tag_that_is_in_use_is_not_given_again() {
        let (once, busy, idle) = (ours_alone(), Arc::new(()), Arc::new(()));
        let (of_idle, _) = set(&once, &idle, 3);
        lock(&once.state).tags = COUNT;
        let tags = [set(&once, &busy, 4).0, set(&once, &busy, 4).0];
        assert!(!tags.contains(&of_idle), "{tags:x?}");
        assert_eq!(once.report(tags[1]), Report::Told(4));
        assert_eq!(once.report(of_idle), Report::Told(3));
    }

    #[test]
    fn what_is_left_is_put_back_for_whoever_lives() {
        let (once, told, left, gone) = (ours_alone(), Arc::new(()), Arc::new(()), Arc::new(()));
        let (of_told, _) = set(&once, &told, 3);
        set(&once, &left, 4);
        set(&once, &gone, 5);
        drop(gone);
        once.report(of_told);
        let put_back = Mutex::new(Vec::new());
        once.end(Heir::Stranger, |listener, wanted| {
            lock(&put_back).push((Arc::ptr_eq(listener, &told), wanted));
        });
        let nothing = Wanted {
            events: Readiness::ONESHOT.0,
            ..wanted(3)
        };
        assert_eq!(*lock(&put_back), [(true, nothing), (false, wanted(4))]);
        assert_eq!(set(&once, &left, 4), (4, 4), "it has no tags any more");
    }

    /// The kernel reports hang-ups whatever is asked of it.
    #[test]
    fn what_was_told_of_before_a_fork_is_not_told_again_by_either() {
        let (once, told, left) = (ours_alone(), Arc::new(()), Arc::new(()));
        let (of_told, _) = set(&once, &told, 3);
        set(&once, &left, 4);
        once.report(of_told);
        let put_back = Mutex::new(Vec::new());
        once.end(Heir::Child, |_, wanted| lock(&put_back).push(wanted));
        let [of_told, of_left] = lock(&put_back)[..] else {
            panic!("two are put back");
        };
        assert_eq!((of_told.fd, of_told.events), (3, Readiness::ONESHOT.0));
        assert_eq!(once.report(of_told.data), Report::NotAgain);
        assert_eq!(of_left, wanted(4));
        assert_eq!(once.report(of_left.data), Report::Ordinary);
    }
}
