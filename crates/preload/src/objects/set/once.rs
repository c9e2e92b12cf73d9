//! One-shot interests in listeners, which stand in both parts of a set: the kernel's clients and the engine's come to
//! different ones. Whichever reports first takes the shot, and the other one reports nothing.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::kernel::lock::lock;

/// See the [module](self).
#[derive(Default)]
pub struct Once {
    any: AtomicBool,
    shots: Mutex<Vec<Shot>>,
}

#[derive(Clone, Copy)]
struct Shot {
    /// The number under which the listener was put into the set.
    fd: c_int,
    data: u64,
    is_left: bool,
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It is none of these.
    Ordinary,
    /// It is the one that is told of. The interest of the other part, under this number, is to be silent.
    Told(c_int),
    /// The other part has told of it.
    NotAgain,
}

/// Keeps other threads from the list.
pub struct Guard<'a>(#[expect(dead_code, reason = "held, not used")] MutexGuard<'a, Vec<Shot>>);

impl Once {
    /// The interest is set, or set again.
    pub fn arm(&self, fd: c_int, data: u64) {
        let mut shots = lock(&self.shots);
        shots.retain(|shot| shot.fd != fd);
        let is_left = true;
        shots.push(Shot { fd, data, is_left });
        self.any.store(true, Ordering::Relaxed);
    }

    /// It is taken out, or no longer one-shot.
    pub fn remove(&self, fd: c_int) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut shots = lock(&self.shots);
        shots.retain(|shot| shot.fd != fd);
        self.any.store(!shots.is_empty(), Ordering::Relaxed);
    }

    /// Our part reports of this number.
    pub fn of_ours(&self, fd: c_int) -> Report {
        self.take(|shot| shot.fd == fd)
    }

    /// The kernel's part reports with this data, which is all that it says.
    pub fn of_kernel(&self, data: u64) -> Report {
        self.take(|shot| shot.data == data)
    }

    fn take(&self, is_it: impl Fn(&Shot) -> bool) -> Report {
        if !self.any.load(Ordering::Relaxed) {
            return Report::Ordinary;
        }
        let mut shots = lock(&self.shots);
        let Some(shot) = shots.iter_mut().find(|shot| is_it(shot)) else {
            return Report::Ordinary;
        };
        match core::mem::take(&mut shot.is_left) {
            true => Report::Told(shot.fd),
            false => Report::NotAgain,
        }
    }

    /// See [`Guard`].
    pub fn guard(&self) -> Guard<'_> {
        Guard(lock(&self.shots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_report_takes_the_shot() {
        let once = Once::default();
        assert_eq!(once.of_ours(3), Report::Ordinary);
        once.arm(3, 30);
        once.arm(4, 40);
        assert_eq!(once.of_kernel(30), Report::Told(3));
        assert_eq!(once.of_ours(3), Report::NotAgain);
        assert_eq!(once.of_ours(4), Report::Told(4));
        assert_eq!(once.of_kernel(40), Report::NotAgain);
        assert_eq!(once.of_kernel(50), Report::Ordinary);
        once.arm(3, 31);
        assert_eq!(once.of_kernel(31), Report::Told(3));
        once.remove(3);
        assert_eq!(once.of_ours(3), Report::Ordinary);
    }
}
