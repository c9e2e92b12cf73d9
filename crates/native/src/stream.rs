//! A connection, on either side.

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

/// What is known of a connection.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The engine has it.
    pub is_offloaded: bool,
    /// Why the kernel has it; `None` if the engine has, or if it came by the kernel.
    pub why_not: Option<&'static str>,
    /// Bytes that were sent and are not known to be acknowledged.
    pub unacknowledged: u64,
    /// Bytes that wait to be received.
    pub unread: u64,
    /// The TCP's own facts, of a connection of the engine's.
    pub tcp: Option<ConnInfo>,
}

impl Stream {
    pub(crate) fn set(&self, setting: Setting) -> Result<(), Errno> {
        match self {
            Stream::Engine(socket) => setting.on_engine(socket),
            Stream::Kernel(stream) => setting.on_kernel(stream.fd()),
        }
    }

    pub(crate) fn shutdown(&mut self, how: Shutdown) -> Result<(), Errno> {
        match self {
            Stream::Engine(socket) => socket.shutdown(how),
            Stream::Kernel(stream) => {
                if how != Shutdown::Read {
                    stream.flush()?;
                }
                let how = match how {
                    Shutdown::Read => rustix::net::Shutdown::Read,
                    Shutdown::Write => rustix::net::Shutdown::Write,
                    Shutdown::Both => rustix::net::Shutdown::Both,
                };
                rustix::net::shutdown(stream.fd(), how)
            }
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

    pub(crate) fn send(&mut self, bytes: &[u8], more: bool) -> Result<usize, Errno> {
        match self {
            Stream::Engine(socket) => socket.send(bytes, more),
            Stream::Kernel(stream) => stream.send(bytes, more),
        }
    }

    pub(crate) fn send_from(&mut self, bytes: &[AtomicU8], more: bool) -> Result<usize, Errno> {
        match self {
            Stream::Engine(socket) => {
                let mut left = bytes;
                socket.send_with(bytes.len(), more, |to| {
                    let (piece, rest) = left.split_at(to.len().min(left.len()));
                    queue_pair::copy_across(to, piece);
                    left = rest;
                    Ok(piece.len())
                })
            }
            Stream::Kernel(stream) => stream.send_from(bytes, more),
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
            Stream::Kernel(stream) => stream.send_file(file, offset, len),
        }
    }

    pub(crate) fn receive(&self, out: &mut [u8], peek: bool) -> Result<usize, Errno> {
        match self {
            Stream::Engine(socket) if peek => socket.peekv(
                &mut [std::io::IoSliceMut::new(out)],
                host::PendingError::Take,
            ),
            Stream::Engine(socket) => socket.recv(out),
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
}

fn address(address: rustix::net::SocketAddrAny) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(address).map_err(|_| Errno::AFNOSUPPORT)
}
