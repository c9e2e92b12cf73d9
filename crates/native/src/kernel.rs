//! A connection of the kernel's, with what the engine's have besides.
//!
//! How many bytes the peer has acknowledged the kernel tells when it is asked (SIOCOUTQ), and when to
//! ask by timestamps on the socket's error queue (SO_TIMESTAMPING with SOF_TIMESTAMPING_TX_ACK). They
//! are switched on with the first asynchronous send, so that who does not need them does not pay. The
//! kernel drops them while the receive buffer is full, so they are not the only occasion to ask.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU8;

use host::Errno;
use nix::sys::socket::{TimestampingFlag, sockopt};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// SOF_TIMESTAMPING_TX_ACK: a timestamp when all of a send is acknowledged.
const TX_ACK: u32 = 1 << 9;

/// So many notifications are taken at a look.
const NOTIFICATIONS: usize = 256;

/// A connection of the kernel's, non-blocking.
pub(crate) struct Stream {
    fd: OwnedFd,
    /// Bytes that the program has sent since the connection began.
    written: u64,
    asks_for_acks: bool,
    /// What was committed and the kernel has not taken yet.
    rest: Vec<u8>,
    /// `rest` is given from here on.
    rest_from: usize,
    /// Why the kernel has it, if it was to be the engine's.
    pub(crate) why_not: Option<&'static str>,
}

impl Stream {
    /// Over a connected socket.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            written: 0,
            asks_for_acks: false,
            rest: Vec::new(),
            rest_from: 0,
            why_not: None,
        }
    }

    /// Begins to open a connection.
    pub(crate) fn connect(
        local: Option<SocketAddr>,
        remote: SocketAddr,
        set: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<Self, Errno> {
        let family = match remote {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        set(fd.as_fd())?;
        if let Some(local) = local {
            rustix::net::sockopt::set_socket_reuseaddr(&fd, true)?;
            rustix::net::bind(&fd, &local)?;
        }
        match rustix::net::connect(&fd, &remote) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self::new(fd)),
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends what was committed before, as far as the kernel takes it.
    ///
    /// # Errors
    /// `EAGAIN`: some of it is left. Otherwise the kernel's.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        while self.rest_from < self.rest.len() {
            let rest = &self.rest[self.rest_from..];
            self.rest_from += rustix::net::send(&self.fd, rest, SendFlags::NOSIGNAL)?;
        }
        self.rest.clear();
        self.rest_from = 0;
        Ok(())
    }

    pub(crate) fn send(&mut self, bytes: &[u8], more: bool) -> Result<usize, Errno> {
        self.flush()?;
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, more);
        let sent = rustix::net::send(&self.fd, bytes, flags)?;
        self.written += sent as u64;
        Ok(sent)
    }

    pub(crate) fn send_from(&mut self, bytes: &[AtomicU8], more: bool) -> Result<usize, Errno> {
        self.flush()?;
        let sent = queue_pair::send_out(bytes, &self.fd, more)?;
        self.written += sent as u64;
        Ok(sent)
    }

    pub(crate) fn send_file(
        &mut self,
        file: BorrowedFd<'_>,
        mut offset: u64,
        len: usize,
    ) -> Result<usize, Errno> {
        self.flush()?;
        let sent = rustix::fs::sendfile(&self.fd, file, Some(&mut offset), len)?;
        self.written += sent as u64;
        Ok(sent)
    }

    /// Sends all of `bytes`, now or when there is room.
    pub(crate) fn commit(&mut self, bytes: &[u8], more: bool) -> Result<(), Errno> {
        let sent = match self.send(bytes, more) {
            Err(Errno::AGAIN) => 0,
            other => other?,
        };
        self.written += (bytes.len() - sent) as u64;
        self.rest.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    pub(crate) fn receive(&self, out: &mut [u8], peek: bool) -> Result<usize, Errno> {
        let mut flags = RecvFlags::empty();
        flags.set(RecvFlags::PEEK, peek);
        let (read, _) = rustix::net::recv(&self.fd, out, flags)?;
        Ok(read)
    }

    /// Bytes that wait to be received.
    pub(crate) fn available(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.fd).unwrap_or(0)
    }

    /// The error that waits, which is thereby taken.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        rustix::net::sockopt::socket_error(&self.fd).ok()?.err()
    }

    /// Bytes sent since the connection began.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Has the kernel tell of acknowledgements from now on. Called before the bytes are sent.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn ask_for_acks(&mut self) -> Result<(), Errno> {
        if std::mem::replace(&mut self.asks_for_acks, true) {
            return Ok(());
        }
        let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY
            | TimestampingFlag::from_bits_retain(TX_ACK);
        let set = nix::sys::socket::setsockopt(&self.fd, sockopt::Timestamping, &flags);
        set.map_err(|errno| Errno::from_raw_os_error(errno as i32))
    }

    /// How many bytes the peer has acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        // What told of them is not needed any more: it would be an error to whoever looks.
        for _ in 0..NOTIFICATIONS {
            let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
            if rustix::net::recv(&self.fd, &mut [0_u8; 0], flags).is_err() {
                break;
            }
        }
        let taken = self.written - (self.rest.len() - self.rest_from) as u64;
        let waiting = queue_pair::unacknowledged(&self.fd).unwrap_or(taken);
        taken.saturating_sub(waiting)
    }
}
