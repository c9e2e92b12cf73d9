//! Telling a program when registered memory is free.
//!
//! Who names it last gives it up in some call of any thread, and the engine rings for none of that. So the queue looks
//! now and then, as long as the program waits for some.

use std::time::Instant;

use crate::event::{Event, Handle, Kind};
use crate::memory::{Memory, Wanted};
use crate::queue::Queue;

fn free(cookie: u64) -> Event {
    Event {
        kind: Kind::Free,
        error: 0,
        handle: Handle::default(),
        cookie,
        bytes: 0,
    }
}

impl Queue {
    /// Tells once by [`Kind::Free`], with `cookie`, when nothing names `memory` any more, be it in this queue or
    /// another: no send is under way from there, no buffer of it is posted. Then
    /// [`unregister`](Memory::unregister) gives it back, or the program writes there anew. It is told at once if
    /// that is so, and otherwise at most 50 ms later than it is, while this queue is polled or waited in. Memory that
    /// is used again meanwhile is waited for again, and what was given back is told of, too.
    pub fn tell_when_free(&mut self, memory: &Memory, cookie: u64) {
        let watch = memory.watch();
        if watch.is_free() {
            self.happened.push_back(free(cookie));
        } else {
            self.wanted.list(Wanted { watch, cookie }, Instant::now());
        }
    }

    /// Looks whether something of what the program waits for is free.
    pub(crate) fn look_for_free(&mut self) {
        let happened = &mut self.happened;
        self.wanted.look(Instant::now(), |wanted| {
            let is_free = wanted.watch.is_free();
            if is_free {
                happened.push_back(free(wanted.cookie));
            }
            !is_free
        });
    }
}
