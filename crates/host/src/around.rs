//! How somebody wants the calls made in which a thread sleeps.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use rustix::event::PollFd;
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

/// See [`sleep_by`].
#[derive(Clone, Copy, Debug)]
pub struct Sleeps {
    /// poll(2), with no lock held. `EINTR`: a signal was handled, also if that was before the thread
    /// slept, or it must not sleep.
    pub poll: fn(&mut [PollFd<'_>], Option<&Timespec>) -> Result<usize, Errno>,
    /// FUTEX_WAIT, not for this process alone: with the word, and what it says while one is to sleep. With no
    /// lock held, and as `poll` otherwise.
    pub wait: fn(&AtomicU32, u32, Option<&Timespec>) -> Result<(), Errno>,
}

/// The kernel's: a signal that is handled between the last look and the call does not end it.
const PLAIN: Sleeps = Sleeps {
    poll: |fds, limit| rustix::event::poll(fds, limit),
    wait: |word, asleep, limit| futex::wait(word, futex::Flags::empty(), asleep, limit),
};

static SLEEPS: OnceLock<Sleeps> = OnceLock::new();

/// From now on every sleep in this crate is one of these calls. The first who asks is heard.
pub fn sleep_by(sleeps: Sleeps) {
    let _ = SLEEPS.set(sleeps);
}

/// How to sleep.
pub(crate) fn sleeps() -> &'static Sleeps {
    SLEEPS.get().unwrap_or(&PLAIN)
}
