//! Sets that other processes come to have: by a fork, through exec, or in a message.

use std::sync::Arc;

use libc::epoll_event;

use crate::kernel::epoll::kernel_control;
use crate::numbers;
use crate::numbers::table::{self, number_of_set};
use crate::objects::set::Set;
use crate::objects::set::once::Wanted;

/// Another process is about to have the set, or may be: what is in the kernel's part is what the program has put there.
pub fn opens(set: &Arc<Set>) {
    set.once.end(|wanted| {
        let Wanted { fd, events, data } = wanted;
        let mut event = epoll_event { events, u64: data };
        if let Some(number) = number_of_set(set, -1) {
            // A number that is closed cannot be addressed by anybody: its tag stays, and is known to a child as well.
            let _ = kernel_control(number, libc::EPOLL_CTL_MOD, fd, &raw mut event);
        }
    });
}

/// As [`opens`], of all that stay open in the program that is executed.
pub fn all_open() {
    for number in numbers::staying_open(|held| held.epoll().is_some()) {
        if let Some(held) = table::get(number)
            && let Some(set) = held.epoll()
        {
            opens(set);
        }
    }
}
