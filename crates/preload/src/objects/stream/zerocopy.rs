//! MSG_ZEROCOPY and its notifications (Documentation/networking/msg_zerocopy.rst of Linux).
//!
//! What is sent goes into the send area at once, so the program may touch its memory when the call
//! returns. The notification that says so waits in the socket's error queue, as in the kernel, and tells
//! that the bytes were copied: a program that goes by that stops asking.

use std::sync::Mutex;

use rustix::io::Errno;

use super::Stream;
use crate::kernel::lock::lock;

/// What is known of the sends of one socket.
#[derive(Default)]
pub struct Zerocopy(Mutex<State>);

#[derive(Default)]
struct State {
    /// SO_ZEROCOPY.
    on: bool,
    /// Sends so far, wrapping.
    sends: u32,
    /// The first and the last of those that the program has not been told of.
    untold: Option<(u32, u32)>,
}

impl Stream {
    /// SO_ZEROCOPY, 0 or 1.
    pub fn zerocopy(&self) -> bool {
        lock(&self.zerocopy.0).on
    }

    /// Sets SO_ZEROCOPY.
    pub fn set_zerocopy(&self, on: bool) {
        lock(&self.zerocopy.0).on = on;
    }

    /// A send with MSG_ZEROCOPY has taken bytes: it is over at once.
    pub fn zerocopy_sent(&self) {
        let mut state = lock(&self.zerocopy.0);
        if !state.on {
            return;
        }
        let this = state.sends;
        state.sends = this.wrapping_add(1);
        let first = state.untold.map_or(this, |(first, _)| first);
        state.untold = Some((first, this));
        self.socket.set_notices(true);
    }

    /// What the error queue holds next.
    pub fn next_notice(&self) -> Result<(u32, u32), Errno> {
        let mut state = lock(&self.zerocopy.0);
        let next = state.untold.take().ok_or(Errno::AGAIN)?;
        self.socket.set_notices(false);
        Ok(next)
    }

    /// Takes what the error queue holds next without looking at it, as recv does.
    ///
    /// # Errors
    /// `EAGAIN`: it holds nothing.
    pub fn drop_notice(&self) -> Result<usize, Errno> {
        self.next_notice().map(|_| 0)
    }
}
