//! Descriptors that a call has made, and the names that they get.

use crate::errors::last;
use crate::slots;
use differ::outcome::Outcome;
use differ::program::Slot;
use std::ffi::c_int;

/// Names the descriptor that a call returned.
pub fn named(new: Slot, number: c_int) -> Outcome {
    if number < 0 {
        return last();
    }
    slots::set(new, number);
    Outcome::Descriptors(vec![number])
}
