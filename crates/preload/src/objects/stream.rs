//! A connection of the engine's behind a descriptor: what the kernel keeps of one beside what `host`'s
//! socket does.
//!
//! What the program calls on it is in [`stream`](crate::calls::stream).

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;

use host::{Carried, OptionKind, Shutdown, Socket};
use rustix::io::Errno;

use crate::engine::{report, session, wait};
use crate::kernel::deadline::Patience;

pub mod kept;
pub mod zerocopy;

/// See the [module](self).
pub struct Stream {
    /// The connection itself.
    pub socket: Socket,
    /// connect has begun it without waiting, and has not been asked since what came of it.
    pub opening: AtomicBool,
    /// Its SYN was to wait for data, and nothing has been written yet.
    pub fast_open: AtomicBool,
    /// It has failed, and its numbers stand for a socket that may connect anew.
    pub left: AtomicBool,
    /// SO_RCVTIMEO in nanoseconds, 0 for none.
    pub receive_timeout: AtomicU64,
    /// SO_SNDTIMEO likewise.
    pub send_timeout: AtomicU64,
    /// Options without effect, as the program reads them back.
    pub kept: kept::Kept,
    /// What is to be told of sends with MSG_ZEROCOPY.
    zerocopy: zerocopy::Zerocopy,
    /// SO_COOKIE is the engine's: the kernel's socket behind the number stands for many.
    pub is_engines: AtomicBool,
}

impl Stream {
    /// The stream of a connection.
    pub fn new(socket: Socket) -> Self {
        Self {
            socket,
            opening: AtomicBool::new(false),
            fast_open: AtomicBool::new(false),
            left: AtomicBool::new(false),
            receive_timeout: AtomicU64::new(0),
            send_timeout: AtomicU64::new(0),
            kept: kept::Kept::default(),
            zerocopy: zerocopy::Zerocopy::default(),
            is_engines: AtomicBool::new(true),
        }
    }

    /// Writes down what the program has set, for another one.
    pub fn carry(&self, carried: &mut Carried) {
        carried.receive_timeout = self.receive_timeout.load(Ordering::Relaxed);
        carried.send_timeout = self.send_timeout();
        carried.kept = self.kept.list();
    }

    /// Takes over what another program had set.
    pub fn take_carried(&self, carried: &Carried) {
        self.take_timeouts(carried.receive_timeout, carried.send_timeout);
        for (level, name, value) in &carried.kept {
            self.kept.set(*level, *name, *value);
        }
    }

    /// Takes over the listener's options that are without effect here.
    pub fn take_kept(&self, values: Option<kept::Values>) {
        self.kept.take(values);
    }

    /// Takes over the time limits, in nanoseconds, that were set before it was connected, or on the
    /// listener that it comes from.
    pub fn take_timeouts(&self, receive: u64, send: u64) {
        self.receive_timeout.store(receive, Ordering::Relaxed);
        self.send_timeout.store(send, Ordering::Relaxed);
    }

    /// SO_SNDTIMEO in nanoseconds, 0 for none.
    pub fn send_timeout(&self) -> u64 {
        self.send_timeout.load(Ordering::Relaxed)
    }

    /// Bytes that wait to be read, as FIONREAD has it.
    pub fn available(&self) -> c_int {
        // A program may do nothing but ask.
        session::pump();
        clamp(self.socket.available())
    }

    /// Bytes written and not acknowledged, as SIOCOUTQ has it.
    pub fn unacknowledged(&self) -> c_int {
        session::pump();
        clamp(self.socket.unsent())
    }

    /// Ends a direction, or both.
    pub fn shutdown(&self, how: c_int) -> Result<(), Errno> {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Errno::INVAL),
        };
        self.socket.shutdown(how)
    }

    /// Whether the kernel's socket behind the number is this one's alone, and keeps what was set before
    /// it was opened.
    pub fn has_own_socket(&self) -> bool {
        !self.is_engines.load(Ordering::Relaxed)
    }

    /// The program asked for something that the engine has not got.
    pub fn unsupported(&self, what: &str) {
        report::unsupported(self.socket.peer(), what);
    }

    /// What a lingering close waits for: that all is acknowledged, or the time is over.
    pub fn linger(&self) {
        // 0 is off; 1 is no time, and a reset.
        let Some(seconds @ 2..) = self.socket.option(OptionKind::Linger) else {
            return;
        };
        let deadline = Patience::for_seconds(seconds - 1).begin();
        while !self.socket.is_drained() && !deadline.passed() {
            // Acknowledgements make it writable; a slice bounds the case that it is so already.
            let slice = deadline
                .time_left()
                .map_or(LINGER_LOOK, |left| left.min(LINGER_LOOK));
            if wait::pause(slice).is_err() {
                return;
            }
            session::pump();
        }
    }
}

/// How often a lingering close looks whether all is acknowledged.
const LINGER_LOOK: Duration = Duration::from_millis(2);

fn clamp(bytes: u64) -> c_int {
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}
