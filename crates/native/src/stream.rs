//! A connection, on either side.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU8;

use host::{ConnInfo, Errno, Shutdown, Socket};
use rustix::fd::BorrowedFd;

use crate::kernel;
use crate::options::Setting;

/// Who has a connection.
pub(crate) enum Stream {
    Engine(Socket),
    Kernel(Box<kernel::Stream>),
}

/// What is known of a connection or a listener.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The engine has it, or listens there.
    pub is_offloaded: bool,
    /// What serves it: `engine`, `kernel, epoll`, or `kernel, io_uring` where its queue [sends
    /// together](crate::KernelSockets).
    pub served_by: &'static str,
    /// Why the kernel has it; `None` if the engine has.
    pub why_not: Option<&'static str>,
    /// Bytes that were sent and are not known to be acknowledged.
    pub unacknowledged: u64,
    /// Bytes that wait to be received.
    pub unread: u64,
    /// The TCP's own facts, of a connection of the engine's.
    pub tcp: Option<ConnInfo>,
}

/// Why the kernel has a connection of a listener that is the engine's, too: it comes from this machine...
const LOCAL: &str = "it comes from this machine, past the engine";
/// ... or by the wire: by where new connections are placed, or because the engine was away.
const LEFT: &str = "the engine left it to the kernel: outboard explain says why";

impl Stream {
    /// Why the kernel has it, if it came to a listener that is the engine's, too. Asks the kernel, so it is for
    /// whoever wants to know.
    pub(crate) fn why_left(&self) -> &'static str {
        match self.peer() {
            Ok(peer) if kernel::can_bind(peer).is_ok() => LOCAL,
            _ => LEFT,
        }
    }

    pub(crate) fn set(&mut self, setting: Setting) -> Result<(), Errno> {
        match self {
            Stream::Engine(socket) => setting.on_engine(&*socket),
            Stream::Kernel(stream) => stream.set(setting),
        }
    }

    /// Whether it has ended, in whatever way: nothing more is acknowledged.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Stream::Engine(socket) => socket.is_over(),
            Stream::Kernel(stream) => stream.is_over(),
        }
    }

    /// Whether the program has ended its direction.
    pub(crate) fn has_shut_writing(&self) -> bool {
        match self {
            Stream::Engine(socket) => socket.has_shut_writing(),
            Stream::Kernel(stream) => stream.has_shut_writing(),
        }
    }

    pub(crate) fn shutdown(&mut self, how: Shutdown) -> Result<(), Errno> {
        match self {
            Stream::Engine(socket) => socket.shutdown(how),
            Stream::Kernel(stream) => stream.shutdown(how),
        }
    }

    /// The program is done with it, and the kernel has not taken all that was committed: that is given up when the
    /// peer takes nothing for a while, as the engine does with what nobody has any more.
    pub(crate) fn bound_what_is_left(&self) {
        if let Stream::Kernel(stream) = self {
            stream.bound_what_is_left();
        }
    }

    pub(crate) fn local(&self) -> Result<SocketAddr, Errno> {
        match self {
            Stream::Engine(socket) => Ok(socket.local()),
            Stream::Kernel(stream) => address(rustix::net::getsockname(stream.fd())?),
        }
    }

    pub(crate) fn peer(&self) -> Result<SocketAddr, Errno> {
        match self {
            Stream::Engine(socket) => Ok(socket.peer()),
            Stream::Kernel(stream) => {
                rustix::net::getpeername(stream.fd())?.map_or(Err(Errno::NOTCONN), address)
            }
        }
    }

    pub(crate) fn send(&mut self, parts: &[IoSlice<'_>], more: bool) -> Result<usize, Errno> {
        match self {
            Stream::Engine(socket) => socket.sendv(parts, more, host::PendingError::Take),
            Stream::Kernel(stream) => stream.send(parts, more),
        }
    }

    pub(crate) fn send_from(&mut self, parts: &[&[AtomicU8]], more: bool) -> Result<usize, Errno> {
        match self {
            Stream::Engine(socket) => {
                let lens = parts.iter().map(|part| part.len());
                let total = lens.fold(0, usize::saturating_add);
                let fill = host::gather(parts.iter().copied(), queue_pair::copy_across);
                socket.send_with(total, more, fill)
            }
            Stream::Kernel(stream) => stream.send_from(parts, more),
        }
    }

    pub(crate) fn send_file(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        more: bool,
    ) -> Result<usize, Errno> {
        match self {
            Stream::Engine(socket) => socket.send_file(file, offset, len, more),
            Stream::Kernel(stream) => stream.send_file(file, offset, len, more),
        }
    }

    pub(crate) fn receive(&mut self, out: &[AtomicU8], peek: bool) -> Result<usize, Errno> {
        match self {
            Stream::Engine(socket) => socket.recv_into(out, peek),
            Stream::Kernel(stream) => stream.receive(out, peek),
        }
    }

    pub(crate) fn available(&self) -> u64 {
        match self {
            Stream::Engine(socket) => socket.available(),
            Stream::Kernel(stream) => stream.available(),
        }
    }

    pub(crate) fn take_error(&self) -> Option<Errno> {
        match self {
            Stream::Engine(socket) => socket.take_error(),
            Stream::Kernel(stream) => stream.take_error(),
        }
    }

    /// Bytes sent since the connection began.
    pub(crate) fn written(&self) -> u64 {
        match self {
            Stream::Engine(socket) => socket.written(),
            Stream::Kernel(stream) => stream.written(),
        }
    }

    /// How many of them the peer has acknowledged.
    pub(crate) fn acknowledged(&mut self) -> u64 {
        match self {
            Stream::Engine(socket) => socket.acknowledged(),
            Stream::Kernel(stream) => stream.acknowledged(),
        }
    }

    /// How many of them have left, as far as is known.
    pub(crate) fn left(&mut self) -> u64 {
        match self {
            Stream::Engine(socket) => socket.departed(),
            Stream::Kernel(stream) => stream.left(),
        }
    }
}

fn address(address: rustix::net::SocketAddrAny) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(address).map_err(|_| Errno::AFNOSUPPORT)
}
