//! Calls that a thread has jumped out of, and what they held.
//!
//! A call that sleeps may be interrupted by a handler that never returns to it (siglongjmp, an exception). Its frames
//! are gone then, and nobody gives back the references that they held, by which what a number stands for would outlive
//! its close. So a thread remembers which references it holds, and where on its stack a call sleeps. When it makes
//! another call from higher up on that stack, the one that slept is over.
//!
//! From further down it may be a handler's call: then nothing is known, and a later one tells. The same holds for
//! handlers that have a stack of their own, and for threads that change theirs.

use core::cell::Cell;
use core::ffi::c_void;
use core::mem::zeroed;

use crate::kernel::raw::sys;

/// References that are remembered, and calls that sleep. Of more nothing is known, which are as good as ever.
const REFERENCES: usize = 16;
const SLEEPS: usize = 8;

/// What a thread holds, and where it sleeps.
pub struct Holds {
    /// References by their addresses, in the order in which the thread has entered; 0 for other reasons to be inside.
    references: [Cell<usize>; REFERENCES],
    /// Where a call sleeps, and how often it has entered.
    places: [Cell<(usize, u32)>; SLEEPS],
    /// Calls that sleep.
    sleeps: Cell<usize>,
}

impl Holds {
    pub const fn new() -> Self {
        Self {
            references: [const { Cell::new(0) }; REFERENCES],
            places: [const { Cell::new((0, 0)) }; SLEEPS],
            sleeps: Cell::new(0),
        }
    }

    /// The thread has entered so often, and the last time for this.
    #[inline(always)]
    pub fn put(&self, times: u32, address: usize) {
        if let Some(slot) = self.slot(times) {
            slot.set(address);
        }
    }

    /// What it has entered for at that time, if it is a reference.
    pub fn at(&self, times: u32) -> Option<usize> {
        let address = self.slot(times)?.get();
        (address != 0).then_some(address)
    }

    #[inline(always)]
    fn slot(&self, times: u32) -> Option<&Cell<usize>> {
        self.references.get((times as usize).wrapping_sub(1))
    }

    /// Takes out what was put there last; what came later moves down. `asleep`: of so many times the order matters no
    /// more, since calls sleep that have entered then. `all`: of how many there are any.
    #[inline(always)]
    pub fn take_out(&self, asleep: u32, all: u32, address: usize) {
        let all = (all as usize).min(REFERENCES);
        let slots = self.references.get(..all).unwrap_or_default();
        let Some(at) = slots.iter().rposition(|slot| slot.get() == address) else {
            return;
        };
        if at < asleep as usize {
            // An exception has gone through one that slept, and has tidied up.
            slots[at].set(0);
            return;
        }
        for pair in slots[at..].windows(2) {
            pair[0].set(pair[1].get());
        }
        slots[all - 1].set(0);
    }

    /// Calls that sleep, or that were jumped out of.
    #[inline(always)]
    pub fn sleeps(&self) -> usize {
        self.sleeps.get()
    }

    /// A call that has entered so often is about to sleep.
    pub fn push(&self, times: u32) {
        let at = self.sleeps.get();
        self.sleeps.set(at + 1);
        if let Some(place) = self.places.get(at) {
            place.set((here(), times));
        }
    }

    /// It is awake.
    pub fn wakes(&self) {
        self.sleeps.set(self.sleeps.get().saturating_sub(1));
    }

    /// Whether the last one that sleeps was jumped out of.
    pub fn is_jumped_over(&self) -> bool {
        let last = self.sleeps.get().wrapping_sub(1);
        let Some((place, _)) = self.places.get(last).map(Cell::get) else {
            return false;
        };
        let here = here();
        here > place && !is_on_another_stack() && is_on_one_stack(place, here)
    }

    /// Of the last one that sleeps, which is over: goes back by one of the times that it has entered. False: there was
    /// none left, and it is forgotten.
    pub fn pop(&self) -> bool {
        let last = self.sleeps.get().wrapping_sub(1);
        let Some(place) = self.places.get(last) else {
            return false;
        };
        let (address, times) = place.get();
        match times.checked_sub(1) {
            Some(left) => place.set((address, left)),
            None => self.wakes(),
        }
        times > 0
    }
}

/// Where the stack of this thread ends now, more or less.
#[inline(never)]
fn here() -> usize {
    let mut byte = 0u8;
    core::hint::black_box(&raw mut byte) as usize
}

/// Whether the thread runs on the stack that it has for signal handlers.
fn is_on_another_stack() -> bool {
    // SAFETY: all zeros is one, and there is room for it.
    unsafe {
        let mut stack: libc::stack_t = zeroed();
        sys!(libc::SYS_sigaltstack, 0usize, &raw mut stack);
        stack.ss_flags & libc::SS_ONSTACK != 0
    }
}

/// Whether both addresses are on the stack that this thread was made with.
fn is_on_one_stack(low: usize, high: usize) -> bool {
    let (mut begin, mut size): (*mut c_void, usize) = (core::ptr::null_mut(), 0);
    // SAFETY: attributes of this function's own, which are given back.
    unsafe {
        let mut attributes: libc::pthread_attr_t = zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return false;
        }
        libc::pthread_attr_getstack(&raw const attributes, &raw mut begin, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
    }
    let stack = begin as usize..(begin as usize).saturating_add(size);
    stack.contains(&low) && stack.contains(&high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_remembered_in_whatever_order_they_go() {
        let holds = Holds::new();
        for (times, address) in [(1, 10), (2, 0), (3, 30), (4, 10)] {
            holds.put(times, address);
        }
        let all = || [1, 2, 3, 4].map(|times| holds.at(times));
        holds.take_out(0, 4, 10);
        assert_eq!(all(), [Some(10), None, Some(30), None]);
        holds.take_out(0, 3, 10);
        assert_eq!(all(), [None, Some(30), None, None]);
        holds.take_out(0, 2, 77);
        holds.put(100, 5);
        assert_eq!(all(), [None, Some(30), None, None]);
        holds.put(3, 40);
        holds.take_out(2, 3, 30);
        assert_eq!(all(), [None, None, Some(40), None], "it slept");
    }

    #[inline(never)]
    fn sleeps_below(holds: &Holds) {
        let mut room = [0u8; 4096];
        core::hint::black_box(&mut room);
        holds.push(2);
        assert!(!holds.is_jumped_over(), "it sleeps");
        core::hint::black_box(&mut room);
    }

    #[test]
    fn a_call_further_down_than_this_one_is_over() {
        let holds = Holds::new();
        sleeps_below(&holds);
        assert!(holds.is_jumped_over());
        assert!(holds.pop() && holds.pop() && !holds.pop());
        assert_eq!(holds.sleeps(), 0);
        assert!(!holds.is_jumped_over());
    }
}
