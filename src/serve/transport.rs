//! How the bytes of a connection travel: through the kernel's TCP or through the engine's.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::os::fd::OwnedFd;

/// One connection to a client.
pub enum Transport {
    /// A socket of the kernel's: a client on this machine, or no engine.
    Kernel(OwnedFd),
}

impl Transport {
    /// Receives what is there, at most `buffer`; 0 at the end of the stream, `EAGAIN` if there is
    /// nothing now.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Kernel(socket) => {
                let (filled, _) = rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT)?;
                Ok(filled)
            }
        }
    }

    /// Sends what fits of `bytes`. `more` says that more follows at once.
    pub fn send(&self, bytes: &[u8], more: bool) -> Result<usize, Errno> {
        match self {
            Self::Kernel(socket) => {
                let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                flags.set(SendFlags::MORE, more);
                rustix::net::send(socket, bytes, flags)
            }
        }
    }

    /// Sends what fits of `length` bytes of `file` from `offset` on.
    pub fn send_file(&self, file: &OwnedFd, offset: u64, length: u64) -> Result<usize, Errno> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        match self {
            Self::Kernel(socket) => {
                let mut offset = offset;
                rustix::fs::sendfile(socket, file, Some(&mut offset), length)
            }
        }
    }

    /// Ends our direction of the stream.
    pub fn finish(&self) -> Result<(), Errno> {
        match self {
            Self::Kernel(socket) => rustix::net::shutdown(socket, Shutdown::Write),
        }
    }
}
