//! Sets that other processes come to have: by a fork, through exec, or in a message.

use core::ffi::c_int;
use std::sync::Arc;

use host::one_shot::{Heir, Wanted};
use libc::epoll_event;

use crate::kernel::epoll::kernel_control;
use crate::numbers;
use crate::numbers::table::{self, number_of_set};
use crate::objects::set::Set;

/// Another process is about to have the set, or may be: what is in the kernel's part is what the program has put there.
pub fn opens(set: &Arc<Set>, heir: Heir) {
    set.once.end(heir, |listener, wanted| {
        let Wanted { fd, events, data } = wanted;
        let mut event = epoll_event { events, u64: data };
        // A number that is closed, or another's by now, cannot be addressed by anybody: its tag stays, and is known to a
        // child as well, but not to another program.
        let is_there = table::get(fd).is_some_and(|held| {
            let listening = held.tcp().and_then(|tcp| tcp.listener());
            listening.is_some_and(|listening| Arc::ptr_eq(&listening.identity, listener))
        });
        if let Some(number) = number_of_set(set, -1).filter(|_| is_there) {
            let _ = kernel_control(number, libc::EPOLL_CTL_MOD, fd, &raw mut event);
        }
    });
}

/// As [`opens`], of the set with this number, if it is one.
pub fn opens_number(number: c_int) {
    if let Some(held) = table::get(number)
        && let Some(set) = held.epoll()
    {
        opens(set, Heir::Stranger);
    }
}

/// As [`opens`], of all that stay open in the program that is executed.
pub fn all_open() {
    numbers::staying_open(|held| held.epoll().is_some()).for_each(opens_number);
}
