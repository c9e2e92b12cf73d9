//! Threads that are cancelled (pthread_cancel(3)).
//!
//! libc cancels a thread by unwinding its stack, which must not happen where locks are held or things
//! are to be tidied up. So it happens at the edge of this library, in the exported functions, where
//! nothing is left to do: before a call, and after one that has ended because the thread is cancelled
//! ([`due`]). A thread that sleeps in here is woken for that by whoever cancels it. Within a call a thread
//! that may be cancelled anywhere (PTHREAD_CANCEL_ASYNCHRONOUS) may not.

use core::cell::Cell;
use core::ffi::c_int;

use libc::pthread_t;

use crate::calls::epoll::family;
use crate::engine::session;
use crate::kernel::next::next_unwinding;
use crate::thread::{due, inside};

const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;

thread_local! {
    /// The thread may be cancelled anywhere but in a call of ours.
    static ANYWHERE: Cell<bool> = const { Cell::new(false) };
}

fn forget_this_thread() {
    // Or a handler that makes a call would wait for the lock.
    inside::enter();
    due::forget_this_thread();
    inside::leave();
}

/// A call begins. The thread may end here.
#[inline(always)]
pub fn call_begins() {
    if due::may_be_any() {
        begin();
    }
}

/// A call has ended, and holds nothing. The thread may end here.
#[inline(always)]
pub fn call_ends() {
    if due::may_be_any() {
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
    if due::was_interrupted() {
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
        due::may_come();
    }
    ANYWHERE.set(kind == ASYNCHRONOUS);
}

/// pthread_cancel is about to be called.
pub fn announce(thread: pthread_t) {
    due::may_come();
    inside::enter();
    due::put(thread);
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
