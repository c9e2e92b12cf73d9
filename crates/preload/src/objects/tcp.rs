//! A TCP socket of the program, from `socket()` on.
//!
//! It begins as an ordinary kernel socket whose number is remembered. What the program sets before
//! it connects or listens is set in the kernel, which checks it and keeps it. `connect` and
//! `listen` then decide, once, whether it becomes the engine's.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::OnceLock;

use rustix::io::Errno;

use super::inherited::{Chosen, knows_congestion};
use super::listening::Listening;
use super::set::Watch;
use super::stream::Stream;
use crate::kernel::lock::Small;
use crate::objects::special::Specials;

/// See the [module](self).
pub struct Tcp {
    /// `AF_INET` or `AF_INET6`.
    pub family: c_int,
    /// O_NONBLOCK as the program knows it. The kernel's own flag may differ: a listener of ours is
    /// always non-blocking there.
    nonblocking: AtomicBool,
    /// The program has set options: whoever takes the socket over has to ask for them.
    options: AtomicBool,
    /// It has chosen the size of the send buffer.
    send_buffer: AtomicBool,
    /// It has chosen the size of the receive buffer.
    receive_buffer: AtomicBool,
    /// It has chosen the congestion control.
    congestion: AtomicBool,
    /// Options that the engine has not got.
    pub specials: Specials,
    /// With what the connection has ended that it was before, until somebody asks; 0 for nothing.
    error: AtomicI32,
    stage: OnceLock<Stage>,
    /// A connect was left to the kernel.
    left: AtomicBool,
    /// Another program has made it, and may have it still.
    is_found: AtomicBool,
    /// It becomes the engine's just now, and is not yet in every set as it was.
    moving: AtomicBool,
    /// The epoll sets that were told of it while it was still the kernel's.
    pub watches: Small<Vec<Watch>>,
}

/// What became of it.
enum Stage {
    Stream(Stream),
    Listener(Listening),
}

impl Tcp {
    /// A socket of the kernel's, as the program has just made it.
    pub fn new(family: c_int, nonblocking: bool) -> Self {
        Self {
            family,
            nonblocking: AtomicBool::new(nonblocking),
            options: AtomicBool::new(false),
            send_buffer: AtomicBool::new(false),
            receive_buffer: AtomicBool::new(false),
            congestion: AtomicBool::new(false),
            specials: Specials::default(),
            error: AtomicI32::new(0),
            stage: OnceLock::new(),
            left: AtomicBool::new(false),
            is_found: AtomicBool::new(false),
            moving: AtomicBool::new(false),
            watches: Small::new(Vec::new()),
        }
    }

    /// One that another program has made, on which options may be set.
    pub fn found(family: c_int, nonblocking: bool) -> Self {
        let tcp = Self::new(family, nonblocking);
        tcp.options.store(true, Ordering::Relaxed);
        tcp.is_found.store(true, Ordering::Relaxed);
        tcp
    }

    /// A connection of the engine's from its beginning: one that was accepted.
    pub fn accepted(family: c_int, nonblocking: bool, stream: Stream) -> Self {
        let tcp = Self::new(family, nonblocking);
        tcp.become_stream(stream);
        tcp
    }

    /// What it is after a connection that did not come to be: as before, with what was set on it.
    pub fn afresh(&self) -> Self {
        let copy = |flag: &AtomicBool| AtomicBool::new(flag.load(Ordering::Relaxed));
        Self {
            family: self.family,
            nonblocking: copy(&self.nonblocking),
            options: copy(&self.options),
            send_buffer: copy(&self.send_buffer),
            receive_buffer: copy(&self.receive_buffer),
            congestion: copy(&self.congestion),
            specials: self.specials.clone(),
            error: AtomicI32::new(0),
            stage: OnceLock::new(),
            left: AtomicBool::new(false),
            is_found: copy(&self.is_found),
            moving: AtomicBool::new(false),
            watches: Small::new(Vec::new()),
        }
    }

    /// The connection that it was has ended by this.
    pub fn has_ended_by(&self, error: Errno) {
        self.error.store(error.raw_os_error(), Ordering::Relaxed);
    }

    /// What SO_ERROR says of the connection that it was, once; 0 for nothing.
    pub fn take_error(&self) -> c_int {
        self.error.swap(0, Ordering::Relaxed)
    }

    /// The connection, if it is the engine's.
    #[inline(always)]
    pub fn stream(&self) -> Option<&Stream> {
        match self.stage.get() {
            Some(Stage::Stream(stream)) => Some(stream),
            _ => None,
        }
    }

    /// The listener, if the engine has been told of it.
    pub fn listener(&self) -> Option<&Listening> {
        match self.stage.get() {
            Some(Stage::Listener(listening)) => Some(listening),
            _ => None,
        }
    }

    /// It becomes the engine's, and moves, or has moved.
    pub fn moves(&self, moves: bool) {
        self.moving.store(moves, Ordering::Release);
    }

    /// Whether it does just now. To be asked after it was found to be the engine's.
    pub fn is_moving(&self) -> bool {
        self.moving.load(Ordering::Acquire)
    }

    /// Whether another program has made it.
    pub fn is_found(&self) -> bool {
        self.is_found.load(Ordering::Relaxed)
    }

    /// A connect is left to the kernel, or what became of that is forgotten.
    pub fn leave(&self, left: bool) {
        self.left.store(left, Ordering::Relaxed);
    }

    /// Whether this process has left a connect to the kernel, which has the connection, or says what became of it. What
    /// kept it from the engine may be over by now, and the engine would open another.
    pub fn was_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether connect and listen have yet to decide.
    pub fn is_undecided(&self) -> bool {
        self.stage.get().is_none()
    }

    /// It is the engine's connection now. The first decision stands.
    pub fn become_stream(&self, stream: Stream) {
        let _ = self.stage.set(Stage::Stream(stream));
    }

    /// It is a listener that the engine knows. The first decision stands.
    pub fn become_listener(&self, listening: Listening) {
        let _ = self.stage.set(Stage::Listener(listening));
    }

    /// Whether calls return at once rather than wait.
    pub fn is_nonblocking(&self) -> bool {
        let own = || self.nonblocking.load(Ordering::Relaxed);
        let said = self.stream().and_then(|it| it.socket.is_nonblocking());
        said.unwrap_or_else(own)
    }

    /// Whether its calls are the engine's, or the engine's too.
    pub fn is_offloaded(&self) -> bool {
        self.stage.get().is_some()
    }

    /// Status flags that the kernel's file has whatever the program sets.
    pub fn kernel_flags(&self) -> c_int {
        if self.listener().is_some() {
            libc::O_NONBLOCK
        } else {
            0
        }
    }

    /// The program has set an option on it.
    pub fn option_set(&self, level: c_int, name: c_int) {
        self.options.store(true, Ordering::Relaxed);
        let chosen = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => &self.send_buffer,
            (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => &self.receive_buffer,
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => &self.congestion,
            _ => return,
        };
        chosen.store(true, Ordering::Relaxed);
    }

    /// Why the socket `fd` is the kernel's whatever its address: for what the program has set.
    pub fn only_kernel(&self, fd: c_int) -> Option<&'static str> {
        let unknown = self.congestion.load(Ordering::Relaxed) && !knows_congestion(fd);
        self.specials.reason().or(unknown
            .then_some("its program has chosen a congestion control that the engine has not got"))
    }

    /// What the program has chosen that is otherwise the kernel's choice.
    pub fn chosen(&self) -> Chosen {
        Chosen {
            send_buffer: self.send_buffer.load(Ordering::Relaxed),
            receive_buffer: self.receive_buffer.load(Ordering::Relaxed),
            congestion: self.congestion.load(Ordering::Relaxed),
        }
    }

    /// Whether the program has set any option.
    pub fn has_options(&self) -> bool {
        self.options.load(Ordering::Relaxed)
    }

    /// Whether no epoll set has been told of it.
    pub fn is_unwatched(&self) -> bool {
        self.watches.lock().is_empty()
    }

    /// The program has set or cleared O_NONBLOCK.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        if let Some(stream) = self.stream() {
            stream.socket.tell_nonblocking(nonblocking);
        }
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }
}
