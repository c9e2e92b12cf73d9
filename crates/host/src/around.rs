//! What somebody wants done around the calls in which a thread sleeps.

use std::sync::OnceLock;

use rustix::io::Errno;

/// See [`around_sleeps`].
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Called before a thread sleeps, with no lock held. `None`: it must not, and what it does ends with
    /// `EINTR`. Otherwise what [`after`](Self::after) is given.
    pub before: fn() -> Option<u32>,
    /// Called after it has slept.
    pub after: fn(u32),
}

static AROUND: OnceLock<Around> = OnceLock::new();

/// From now on every sleep in this crate stands between these two calls. The first who asks is heard.
pub fn around_sleeps(around: Around) {
    let _ = AROUND.set(around);
}

/// Makes a call that sleeps.
pub(crate) fn sleeping<R>(sleep: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let Some(around) = AROUND.get() else {
        return sleep();
    };
    let token = (around.before)().ok_or(Errno::INTR)?;
    let slept = sleep();
    (around.after)(token);
    slept
}
