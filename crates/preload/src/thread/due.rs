//! Threads that are to be cancelled, and have not noticed.
//!
//! What becomes of them is in [`cancel`](crate::calls::cancel).

use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use libc::pthread_t;

use crate::kernel::lock::lock;
use crate::kernel::next::{has_threads, next_unwinding};

/// Whether any thread was cancelled, or may be anywhere: nothing below costs anything before.
static USED: AtomicBool = AtomicBool::new(false);

/// Threads that were cancelled, until they have noticed, and how many threads had been in here by then:
/// one that came later has got the name of one that is gone.
static DUE: Mutex<Vec<(pthread_t, u64)>> = Mutex::new(Vec::new());

/// Names in that list. Those of threads that have ended without noticing are the oldest.
const MOST: usize = 4096;

/// Threads that have been in here.
static BORN: AtomicU64 = AtomicU64::new(1);

/// A number for the calling thread, which is in here for the first time.
#[cold]
pub fn birth() -> u64 {
    BORN.fetch_add(1, Ordering::SeqCst)
}

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;

thread_local! {
    /// libc is kept from cancelling the thread for a moment, which may be cancelled.
    static WITHHELD: Cell<bool> = const { Cell::new(false) };
    /// A call has ended because the thread is cancelled.
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" {
    fn pthread_self() -> pthread_t;
}

fn this_thread() -> pthread_t {
    // SAFETY: asks for a number.
    unsafe { pthread_self() }
}

/// Whether any thread was cancelled, or may be anywhere.
#[inline(always)]
pub fn may_be_any() -> bool {
    USED.load(Ordering::Relaxed)
}

/// From now on threads may be cancelled.
pub fn may_come() {
    USED.store(true, Ordering::SeqCst);
}

/// Keeps other threads from the list, for the time of a fork.
pub struct Quiet(
    #[expect(dead_code, reason = "held, not used")] MutexGuard<'static, Vec<(pthread_t, u64)>>,
);

/// See [`Quiet`].
pub fn quiet() -> Quiet {
    Quiet(lock(&DUE))
}

/// Whether the calling thread, which is inside and about to sleep, is cancelled. `born` is its number.
pub fn is_due(born: u64) -> bool {
    if !may_be_any() {
        return false;
    }
    if INTERRUPTED.get() {
        return true;
    }
    let this = this_thread();
    let due = lock(&DUE)
        .iter()
        .any(|(thread, before)| *thread == this && born < *before);
    let due = due && is_enabled();
    if due {
        INTERRUPTED.set(true);
    }
    due
}

fn is_enabled() -> bool {
    if WITHHELD.get() {
        return true;
    }
    let mut before = ENABLE;
    set_state(DISABLE, &mut before);
    if before == ENABLE {
        // Within a call it is not cancelled by this: it is deferred there.
        set_state(ENABLE, &mut 0);
    }
    before == ENABLE
}

fn set_state(state: c_int, before: &mut c_int) {
    let before = core::ptr::from_mut(before);
    next_unwinding!(pthread_setcancelstate(state => c_int, before => *mut c_int) -> c_int, 0);
}

/// libc does not cancel the calling thread while this is there. Calls in here that are cancelled end as ever.
pub struct Withheld(bool);

impl Withheld {
    pub fn new() -> Self {
        let mut before = DISABLE;
        if has_threads() {
            set_state(DISABLE, &mut before);
        }
        let was_enabled = before == ENABLE;
        WITHHELD.set(was_enabled || WITHHELD.get());
        Self(was_enabled)
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        if self.0 {
            WITHHELD.set(false);
            set_state(ENABLE, &mut 0);
        }
    }
}

/// The thread is cancelled. The caller is inside.
pub fn put(thread: pthread_t) {
    let mut due = lock(&DUE);
    if due.len() == MOST {
        due.remove(0);
    }
    due.push((thread, BORN.load(Ordering::SeqCst)));
}

/// The calling thread has noticed, or has got the name of one that has not. It is inside.
pub fn forget_this_thread() {
    let this = this_thread();
    lock(&DUE).retain(|(thread, _)| *thread != this);
}

/// Whether a call has ended because the calling thread is cancelled, which is told once.
pub fn was_interrupted() -> bool {
    INTERRUPTED.replace(false)
}
