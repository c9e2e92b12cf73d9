//! Threads that are cancelled (pthread_cancel(3)).
//!
//! libc cancels a thread by unwinding its stack, which must not happen where locks are held or things
//! are to be tidied up. So it happens at the edge of this library, in the exported functions, where
//! nothing is left to do: before a call, and after one that has ended because the thread is cancelled.
//! A thread that sleeps in here is woken for that by whoever cancels it. Within a call a thread that may
//! be cancelled anywhere (PTHREAD_CANCEL_ASYNCHRONOUS) may not.

use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

use libc::pthread_t;

use crate::epoll::family;
use crate::lock::lock;
use crate::next::{has_threads, next_unwinding};
use crate::{inside, session};

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
const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;

thread_local! {
    /// The thread may be cancelled anywhere but in a call of ours.
    static ANYWHERE: Cell<bool> = const { Cell::new(false) };
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

/// Whether the calling thread, which is inside and about to sleep, is cancelled.
pub fn is_due() -> bool {
    if !USED.load(Ordering::Relaxed) {
        return false;
    }
    if INTERRUPTED.get() {
        return true;
    }
    let this = this_thread();
    let due = lock(&DUE)
        .iter()
        .any(|(thread, before)| *thread == this && inside::born() < *before);
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

fn forget_this_thread() {
    let this = this_thread();
    // Or a handler that makes a call would wait for the lock.
    inside::enter();
    lock(&DUE).retain(|(thread, _)| *thread != this);
    inside::leave();
}

/// A call begins. The thread may end here.
#[inline(always)]
pub fn call_begins() {
    if USED.load(Ordering::Relaxed) {
        begin();
    }
}

/// A call has ended, and holds nothing. The thread may end here.
#[inline(always)]
pub fn call_ends() {
    if USED.load(Ordering::Relaxed) {
        end();
    }
}

#[cold]
#[inline(never)]
fn begin() {
    if !inside::is_outside() {
        // The library itself makes the call.
        return;
    }
    if ANYWHERE.get() {
        set_type(DEFERRED);
    }
    forget_this_thread();
    test();
}

#[cold]
#[inline(never)]
fn end() {
    if !inside::is_outside() {
        return;
    }
    if INTERRUPTED.replace(false) {
        forget_this_thread();
        test();
    }
    if ANYWHERE.get() {
        set_type(ASYNCHRONOUS);
    }
}

fn test() {
    next_unwinding!(pthread_testcancel() -> (), ());
}

fn set_type(kind: c_int) {
    let mut before = 0;
    let before = &raw mut before;
    next_unwinding!(pthread_setcanceltype(kind => c_int, before => *mut c_int) -> c_int, 0);
}

/// pthread_setcanceltype is about to be called.
pub fn type_changes(kind: c_int) {
    if kind == ASYNCHRONOUS {
        USED.store(true, Ordering::Relaxed);
    }
    ANYWHERE.set(kind == ASYNCHRONOUS);
}

/// pthread_cancel is about to be called.
pub fn announce(thread: pthread_t) {
    USED.store(true, Ordering::SeqCst);
    inside::enter();
    {
        let mut due = lock(&DUE);
        if due.len() == MOST {
            due.remove(0);
        }
        due.push((thread, BORN.load(Ordering::SeqCst)));
    }
    inside::leave();
}

/// pthread_cancel has been called: whoever sleeps in here looks whether it is he.
pub fn wake() {
    inside::enter();
    if let Some(session) = session::current() {
        session.wake_all();
    }
    // In a set several sleep by one bell.
    family::call_all();
    inside::leave();
}
