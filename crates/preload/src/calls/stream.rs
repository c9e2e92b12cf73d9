//! Calls on a connection of the engine's behind a descriptor.
//!
//! `host` never waits. Here are the blocking calls, with their time limits and signals, the flags of
//! the message calls, and SIGPIPE.
//!
//! - `transfer`: reading and writing
//! - `splice`: the same from and into pipes
//! - `options`: getsockopt and setsockopt
//! - `tcp_info`: TCP_INFO
//! - `names`: getsockname and getpeername
//! - `notices`: notifications of MSG_ZEROCOPY

use core::ffi::c_int;
use core::ops::Deref;

use host::Readiness;
use rustix::io::Errno;

use crate::kernel::deadline::Deadline;
use crate::numbers::table::{self, Held};
use crate::objects::stream::Stream;
use crate::thread::signals;

mod names;
mod notices;
mod options;
mod splice;
mod tcp_info;
mod transfer;

pub use splice::{send_from_stream, splice};
pub use transfer::Earlier;

/// A stream, held for the time of one call.
pub struct StreamRef(Held);

/// The stream behind `fd`, if it is one of ours.
#[inline(always)]
pub fn of(fd: c_int) -> Option<StreamRef> {
    let held = table::get(fd)?;
    held.stream()?;
    Some(StreamRef(held))
}

impl Deref for StreamRef {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        match self.0.stream() {
            Some(stream) => stream,
            // What a socket has become it remains.
            None => unreachable!("a stream has become something else"),
        }
    }
}

impl StreamRef {
    /// What its number stands for.
    pub fn held(&self) -> &Held {
        &self.0
    }

    /// `AF_INET` or `AF_INET6`, as the program made the socket.
    fn family(&self) -> c_int {
        self.0.tcp().map_or(libc::AF_INET, |tcp| tcp.family)
    }

    /// Whether a call with these flags returns at once.
    pub fn returns_at_once(&self, flags: c_int) -> bool {
        flags & libc::MSG_DONTWAIT != 0 || self.0.tcp().is_some_and(|tcp| tcp.is_nonblocking())
    }

    /// Waits for `wanted`; EAGAIN when the time is over.
    fn wait(&self, wanted: Readiness, deadline: Deadline) -> Result<(), Errno> {
        loop {
            return match self.socket.wait(wanted, deadline.time_left()) {
                Ok(_) => Ok(()),
                Err(Errno::TIMEDOUT) => Err(Errno::AGAIN),
                // A call without a time limit goes on after a signal, if its handler says so.
                Err(Errno::INTR) if !deadline.is_bounded() && signals::goes_on() => continue,
                Err(error) => Err(error),
            };
        }
    }
}
