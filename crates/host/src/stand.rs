//! Where a thread stands while it sleeps, if others count on it there.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::attachment::{Spot, Watch};
use crate::line::Line;
use crate::nudge::Nudge;
use crate::socket::SocketCore;

/// A place that a thread has until it is awake.
pub(crate) enum Stand {
    /// In a line, with what wakes it.
    InLine(Arc<Line>, Arc<Nudge>),
    /// Among those who sleep by the word of a connection.
    Parked(Spot<SocketCore>),
}

thread_local! {
    /// Whether this thread has one: a handler may look at this whenever it runs.
    static STANDS: Cell<bool> = const { Cell::new(false) };
    static STAND: RefCell<Option<Stand>> = const { RefCell::new(None) };
    /// The same of the watch that it keeps for others.
    static WATCHES: Cell<bool> = const { Cell::new(false) };
    static WATCH: RefCell<Option<Watch<SocketCore>>> = const { RefCell::new(None) };
}

/// Whether this thread keeps watch for those who are parked.
pub(crate) fn watches() -> bool {
    WATCHES.get()
}

/// This thread does so from now on, until it [stops](watches_no_more) or is interrupted.
pub(crate) fn keeps_watch(watch: Watch<SocketCore>) {
    let kept = WATCH.try_with(|of_thread| drop(of_thread.replace(Some(watch))));
    // One that ends has given it up.
    WATCHES.set(kept.is_ok());
}

/// The inverse of [`keeps_watch`].
pub(crate) fn watches_no_more() {
    if WATCHES.replace(false) {
        let watch = WATCH.try_with(RefCell::take).ok().flatten();
        // Not while it is borrowed: this wakes others.
        drop(watch);
    }
}

impl Stand {
    /// This thread has it from now on, and no other. False: the thread ends, and that is not kept.
    pub(crate) fn take(self) -> bool {
        let kept = STAND.try_with(|of_thread| drop(of_thread.replace(Some(self))));
        STANDS.set(kept.is_ok());
        kept.is_ok()
    }

    /// The place of this thread, which it has no more. `None`: it had none, or was interrupted.
    pub(crate) fn given_up() -> Option<Self> {
        if !STANDS.replace(false) {
            return None;
        }
        STAND.try_with(RefCell::take).ok().flatten()
    }
}

/// A signal handler of the program's runs now in this thread, which may be asleep, as long as it likes, and
/// may never return there (siglongjmp): the thread has no place among those who sleep meanwhile, nor does it keep watch
/// for others. For a moment at which the thread is in no call of this crate but one that sleeps.
pub fn interrupted() {
    match Stand::given_up() {
        Some(Stand::InLine(line, nudge)) => line.leave(&nudge),
        Some(Stand::Parked(spot)) => spot.leave(),
        None => {}
    }
    watches_no_more();
}
