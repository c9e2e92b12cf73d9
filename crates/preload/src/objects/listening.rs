//! A listening socket that the engine knows.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use host::{Listener, Socket};

use super::inherited::Settings;
use super::stream::Stream;
use super::stream::kept::Values;
use crate::engine::report;
use crate::kernel::lock::Small;

/// After so many connections of the engine's in a row the kernel's have their turn.
const KERNEL_TURN: u32 = 32;

/// See the [module](self).
pub struct Listening {
    pub listener: Listener,
    /// By which interests are known to be in this one, as long as it is there.
    pub identity: Arc<()>,
    /// Connections of the engine's that were accepted since the kernel had its turn.
    turns: AtomicU32,
    /// The process that has last said that it accepts here: a child does that anew.
    told_by: AtomicU32,
    /// SO_RCVTIMEO in nanoseconds, 0 for none: it bounds accept, and what is accepted inherits it.
    receive_timeout: AtomicU64,
    /// SO_SNDTIMEO likewise.
    send_timeout: AtomicU64,
    /// SO_ZEROCOPY.
    zerocopy: AtomicBool,
    /// Options that are without effect on what is accepted, and are read back there.
    kept: Small<Option<Values>>,
}

impl Listening {
    /// One that this process has told of.
    pub fn new(listener: Listener) -> Self {
        Self {
            listener,
            identity: Arc::default(),
            turns: AtomicU32::new(0),
            told_by: AtomicU32::new(std::process::id()),
            receive_timeout: AtomicU64::new(0),
            send_timeout: AtomicU64::new(0),
            zerocopy: AtomicBool::new(false),
            kept: Small::default(),
        }
    }

    /// This process waits for connections under the number `fd`.
    pub fn tell(&self, fd: c_int) {
        let process = std::process::id();
        if self.told_by.swap(process, Ordering::Relaxed) != process {
            report::listens(fd, &self.listener);
        }
    }

    /// What is accepted from now on inherits this.
    pub fn take(&self, settings: Settings) {
        let listener = &self.listener;
        for (kind, value) in settings.known {
            // The kernel has accepted the value; what the engine bounds more narrowly stays default.
            let _ = listener.set_option(kind, value);
        }
        if let Some(bytes) = settings.send_buffer {
            listener.set_send_buffer(bytes);
        }
        listener.set_receive_low(settings.receive_low);
        let (receive, send) = (settings.receive_timeout, settings.send_timeout);
        self.receive_timeout.store(receive, Ordering::Relaxed);
        self.send_timeout.store(send, Ordering::Relaxed);
        self.zerocopy.store(settings.zerocopy, Ordering::Relaxed);
        *self.kept.lock() = settings.kept;
    }

    /// SO_RCVTIMEO in nanoseconds, 0 for none.
    pub fn receive_timeout(&self) -> u64 {
        self.receive_timeout.load(Ordering::Relaxed)
    }

    /// Gives the kernel's connections their turn, if it is theirs.
    pub fn gives_kernel_its_turn(&self) -> bool {
        let gives = self.turns.load(Ordering::Relaxed) >= KERNEL_TURN;
        if gives {
            self.turns.store(0, Ordering::Relaxed);
        }
        gives
    }

    /// The stream of a connection of the engine's that was accepted.
    pub fn stream_of(&self, socket: Socket) -> Stream {
        self.turns.fetch_add(1, Ordering::Relaxed);
        let stream = Stream::new(socket);
        stream.take_timeouts(
            self.receive_timeout.load(Ordering::Relaxed),
            self.send_timeout.load(Ordering::Relaxed),
        );
        stream.set_zerocopy(self.zerocopy.load(Ordering::Relaxed));
        let kept = self.kept.lock().clone();
        stream.take_kept(kept);
        stream
    }
}
