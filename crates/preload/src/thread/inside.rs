//! Signal handlers and the locks of this library.
//!
//! A handler that interrupts a call on a socket of ours, and makes such a call itself, would wait for
//! a lock that its own thread holds. So a thread that is *inside*, between taking and leaving a
//! description ([`table::Held`](crate::numbers::table::Held)), takes no signal: one that comes is put back to
//! the kernel, which delivers it as soon as the thread leaves or sleeps, and which keeps all that it
//! knows of the signal meanwhile. That costs nothing where no signal comes but two counts a call.
//!
//! For that, handlers are called by [`arrived`], which is what the kernel knows ([`crate::calls::actions`]).
//! It also counts them, so that a call that waits knows whether it was interrupted, and by a handler
//! that lets it go on or not.

use core::cell::Cell;
use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::{Ordering, compiler_fence};

use libc::{siginfo_t, ucontext_t};
use rustix::io::Errno;

use crate::kernel::nap::{look_once_more, nap};
use crate::kernel::raw::{result, sys};
use crate::thread::{counted, due, handlers};

/// What a thread keeps of itself.
struct State {
    /// Which of the threads it is that have been in here; 0 for none yet.
    born: Cell<u64>,
    /// Descriptions that are held.
    depth: Cell<u32>,
    /// Those that calls hold which sleep, and were interrupted by the handlers that run now.
    asleep: Cell<u32>,
    /// A signal was put back: all are blocked until the thread leaves.
    postponed: Cell<bool>,
    /// The signal mask that it then has.
    mask: Cell<u64>,
    /// Handlers called so far, and those of them that end calls (without SA_RESTART).
    handled: Cell<Handled>,
    /// What that was when the thread came in.
    at_entry: Cell<Handled>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Handled {
    all: u32,
    ending: u32,
}

const NONE: Handled = Handled { all: 0, ending: 0 };

thread_local! {
    static STATE: State = const {
        State {
            born: Cell::new(0),
            depth: Cell::new(0),
            asleep: Cell::new(0),
            postponed: Cell::new(false),
            mask: Cell::new(0),
            handled: Cell::new(NONE),
            at_entry: Cell::new(NONE),
        }
    };
}

/// The thread is inside from now on, once more than before.
#[inline(always)]
pub fn enter() {
    STATE.with(|state| {
        let depth = state.depth.get();
        if depth == 0 {
            if state.born.get() == 0 {
                state.born.set(due::birth());
            }
            state.at_entry.set(state.handled.get());
        }
        state.depth.set(depth + 1);
    });
    // A handler of this thread sees it before whatever comes next.
    compiler_fence(Ordering::SeqCst);
}

/// The inverse of [`enter`].
#[inline(always)]
pub fn leave() {
    compiler_fence(Ordering::SeqCst);
    STATE.with(|state| {
        let depth = state.depth.get().saturating_sub(1);
        state.depth.set(depth);
        compiler_fence(Ordering::SeqCst);
        if depth == 0 && state.postponed.get() {
            deliver(state);
        }
    });
}

/// The thread is about to sleep, and holds no lock: what was put back is delivered now. `None`: the
/// call was interrupted, and is not to sleep. Otherwise what [`wakes`] is given.
pub fn sleeps() -> Option<u32> {
    // While still inside: a lock is taken for that.
    if due::is_due(born()) {
        return None;
    }
    STATE.with(|state| {
        let depth = state.depth.get();
        state.asleep.set(state.asleep.get() + depth);
        state.depth.set(0);
        compiler_fence(Ordering::SeqCst);
        if state.postponed.get() {
            deliver(state);
        }
        if state.handled.get().ending != state.at_entry.get().ending {
            wakes(depth);
            return None;
        }
        Some(depth)
    })
}

/// The thread has slept.
pub fn wakes(depth: u32) {
    STATE.with(|state| {
        state.depth.set(depth);
        state.asleep.set(state.asleep.get().saturating_sub(depth));
    });
    compiler_fence(Ordering::SeqCst);
}

/// Whether the thread is inside once only, and no call of its own holds anything.
pub fn holds_nothing() -> bool {
    STATE.with(|state| state.depth.get() == 1 && state.asleep.get() == 0)
}

/// Whether the thread is inside once only: it holds no lock but by the call that asks.
pub fn is_inside_once() -> bool {
    STATE.with(|state| state.depth.get() == 1)
}

/// Whether the thread is not inside: a call that it makes now is the program's.
pub fn is_outside() -> bool {
    STATE.with(|state| state.depth.get() == 0)
}

/// Makes a system call in which the thread may sleep, with no lock held. A handler that ends calls does so
/// also if it runs just before.
///
/// # Safety
/// As the call itself.
pub unsafe fn sleep(number: c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    let depth = sleeps().ok_or(Errno::INTR)?;
    let slept = STATE.with(|state| {
        // SAFETY: the thread's own count; the caller vouches for the call.
        unsafe {
            let ending = &raw const (*state.handled.as_ptr()).ending;
            nap(number, &arguments, ending, state.at_entry.get().ending)
        }
    });
    wakes(depth);
    result(slept)
}

/// `sleeping!(number, arguments…)`: see [`sleep`].
macro_rules! sleeping {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        $crate::thread::inside::sleep(
            $number,
            $crate::kernel::raw::padded([$($crate::kernel::raw::Argument::register($argument)),*]),
        )
    };
}
pub(crate) use sleeping;

/// After a sleep that ended with EINTR: whether every handler that was called lets calls go on. `None`:
/// none of them was called by us.
pub fn goes_on() -> Option<bool> {
    STATE.with(|state| {
        let (now, before) = (state.handled.get(), state.at_entry.get());
        if due::is_due(born()) || now.ending != before.ending {
            return Some(false);
        }
        state.at_entry.set(now);
        (now != before).then_some(true)
    })
}

/// See [`due::birth`].
fn born() -> u64 {
    STATE.with(|state| state.born.get())
}

/// Lets the kernel deliver what was put back.
#[cold]
fn deliver(state: &State) {
    state.postponed.set(false);
    let mask = state.mask.get();
    compiler_fence(Ordering::SeqCst);
    // SAFETY: sets the signal mask, from memory of the kernel's layout.
    unsafe {
        sys!(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            0usize,
            8usize
        )
    };
}

/// What the kernel calls when a signal comes for which the program has a handler.
///
/// # Safety
/// The kernel's arguments for a handler with SA_SIGINFO.
pub unsafe extern "C-unwind" fn arrived(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let inside = STATE.with(|state| state.depth.get() > 0);
    // SAFETY: as the kernel promises.
    if inside && unsafe { put_back(signal, info, context.cast()) } {
        return;
    }
    let Some(handler) = handlers::handler(signal) else {
        return;
    };
    let counted = counted::interrupted();
    let ends = !handler.restarts || counted.is_some();
    let (at_entry, ending) = STATE.with(|state| {
        let Handled { all, ending } = state.handled.get();
        let ending = ending.wrapping_add(u32::from(ends));
        state.handled.set(Handled {
            all: all.wrapping_add(1),
            ending,
        });
        (state.at_entry.get(), ending)
    });
    host::interrupted();
    // SAFETY: the program's own handler, called as the kernel would.
    unsafe { handler.call(signal, info, context) };
    if let Some(counted) = counted {
        counted.goes_on();
    }
    // It may have made calls of its own. What has ended those ends none that this has interrupted.
    STATE.with(|state| {
        state.at_entry.set(at_entry);
        let all = state.handled.get().all;
        state.handled.set(Handled { all, ending });
    });
    // SAFETY: the kernel's context of this handler.
    unsafe { look_once_more(context.cast()) };
}

/// Gives a signal back to the kernel, and blocks all in what it has interrupted. False: the kernel does
/// not take it.
///
/// # Safety
/// The kernel's arguments of a handler.
#[cold]
unsafe fn put_back(signal: c_int, info: *mut siginfo_t, context: *mut ucontext_t) -> bool {
    // SAFETY: as the caller promises. The kernel's set has 64 bits, at the beginning of libc's.
    unsafe {
        let mask = (&raw mut (*context).uc_sigmask).cast::<u64>();
        STATE.with(|state| {
            if !state.postponed.replace(true) {
                state.mask.set(mask.read());
            }
        });
        let (process, thread) = (sys!(libc::SYS_getpid), sys!(libc::SYS_gettid));
        let queued = sys!(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info);
        if result(queued).is_err() {
            return false;
        }
        mask.write(!handlers::SYNCHRONOUS_BITS);
    }
    true
}
