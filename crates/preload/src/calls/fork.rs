//! What happens at a fork.
//!
//! The handlers run in the thread that forks: before it, the engine takes references for the child;
//! after it, the child gives up what is the parent's alone. Locks of ours that another thread could
//! hold at that moment are taken before and given back after, so that the child finds them free.

use core::cell::{Cell, RefCell};

use host::{ForkToken, Session};

use crate::calls::epoll::{self, family};
use crate::calls::spawn;
use crate::calls::vfork::{self, Parent, Pipe};
use crate::engine::{early, forks, promises, session, wait};
use crate::kernel::{lock, next};
use crate::numbers::{closing, gate, pool, table};
use crate::thread::mask::Mask;
use crate::thread::{due, inside};

/// What is carried from before a fork to after it.
struct Crossing {
    token: Option<ForkToken>,
    /// Other threads may have made calls that are not made in the child.
    others: bool,
    /// If the parent waits for the child.
    pipe: Option<Pipe>,
    _programs: spawn::Quiet,
    _numbers: gate::Still,
    _moves: epoll::Quiet,
    _early: early::Early,
    _begins: session::Quiet,
    _pool: pool::Quiet,
    _sleepers: wait::Quiet,
    _due: due::Quiet,
    /// The innermost.
    _small: lock::Quiet,
    /// Let go of last: a set that was closed meanwhile goes with it, for which others of these locks are taken.
    sets: family::Quiet,
}

thread_local! {
    static CROSSING: RefCell<Option<Crossing>> = const { RefCell::new(None) };
    /// The thread is to wait for the child of the fork that it makes next.
    static WAITS: Cell<bool> = const { Cell::new(false) };
    /// By this, once that is made.
    static PARENT: RefCell<Option<Parent>> = const { RefCell::new(None) };
    /// The signal mask that the thread and its child have when that is done. No handler comes between: one that forks,
    /// too, would take what is not for it.
    static MASK: Cell<Option<Mask>> = const { Cell::new(None) };
}

/// Registers the handlers.
pub fn register() {
    // SAFETY: the handlers are fit to be called at any fork.
    unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
}

extern "C" fn before() {
    // A handler would wait for what is locked here.
    inside::enter();
    // A handler does, where a signal could not be put back.
    let in_call = !inside::is_inside_once();
    forks::happens();
    let current = session::current().filter(|_| !in_call);
    let _calm = current.map(Session::await_calm);
    // First: a program that is being started takes connections along.
    let programs = spawn::quiet();
    let numbers = gate::still();
    // Who moves a socket learns what the others have done with the sets.
    let moves = epoll::quiet();
    // Before what follows, as where one that has a set with others learns what they have done.
    let sets = family::before_fork();
    // Before the session's locks, as where something is said.
    let early = early::lines();
    let begins = session::quiet();
    let token = session::current().map(|session| match in_call {
        false => session.before_fork(),
        true => session.before_fork_in_call(),
    });
    let crossing = Crossing {
        token,
        others: next::has_threads(),
        pipe: WAITS.take().then(Pipe::new).flatten(),
        _programs: programs,
        _numbers: numbers,
        _moves: moves,
        _early: early,
        _begins: begins,
        _pool: pool::quiet(),
        _sleepers: wait::quiet(),
        _due: due::quiet(),
        _small: lock::quiet(),
        sets,
    };
    CROSSING.with_borrow_mut(|slot| *slot = Some(crossing));
}

extern "C" fn after_in_parent() {
    let mut crossing = CROSSING.take();
    // The child has its end by now, and nobody else's child is to have it.
    let pipe = crossing.as_mut().and_then(|it| it.pipe.take());
    let parent = pipe.map(Pipe::in_parent);
    drop(crossing);
    // Another handler of the program's at a fork may fork as well, and wait for nobody.
    if parent.is_some() {
        PARENT.set(parent);
    }
    family::after_in_parent();
    promises::see_to_them();
    inside::leave();
}

/// Makes a new process by `fork`, which is one of the ways that call no handlers.
pub fn through(fork: impl FnOnce() -> isize) -> isize {
    before();
    let child = fork();
    if child == 0 {
        after_in_child();
    } else {
        after_in_parent();
    }
    child
}

/// As [`through`]. `waits`: the parent goes on when the child has executed a program, or ended.
pub fn through_and_wait(waits: bool, fork: impl FnOnce() -> isize) -> isize {
    match waits {
        true => awaited(|| through(fork)),
        false => through(fork),
    }
}

/// A fork by libc, which calls the handlers. The parent goes on when the child has executed a program, or ended.
pub fn and_wait() -> isize {
    // SAFETY: whoever calls this may fork.
    awaited(|| unsafe { libc::fork() } as isize)
}

/// Waits for the child that `fork` makes.
fn awaited(fork: impl FnOnce() -> isize) -> isize {
    MASK.set(Some(Mask::hold_back()));
    WAITS.set(true);
    let made = fork();
    // Where the handlers are not registered yet nobody has taken it.
    WAITS.set(false);
    let parent = PARENT.take();
    take_signals();
    if let Some(parent) = parent.filter(|_| made > 0) {
        parent.waits();
    }
    made
}

/// Those that are held back while a fork is made which is waited for.
fn take_signals() {
    if let Some(mask) = MASK.take() {
        mask.put_back();
    }
}

/// In a child that was made [through](through) here and does not return from that.
pub fn child_begins() {
    after_in_child();
    take_signals();
}

extern "C" fn after_in_child() {
    let (token, others, pipe, sets) = match CROSSING.take() {
        Some(Crossing {
            token,
            others,
            pipe,
            sets,
            ..
        }) => (token, others, pipe, Some(sets)),
        None => (None, false, None, None),
    };
    if let (Some(session), Some(token)) = (session::current(), token) {
        session.after_fork_child(token);
    }
    // The session's locks are free by now.
    drop(sets);
    wait::forget_all();
    forks::next_generation();
    promises::are_parents();
    vfork::forget();
    if let Some(pipe) = pipe {
        pipe.in_child();
    }
    family::after_in_child();
    closing::are_parents();
    // One that forks in a handler goes on with the call that this has interrupted.
    if others && inside::holds_nothing() {
        table::forget_other_calls();
    }
    inside::leave();
}
