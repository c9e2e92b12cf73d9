//! How the bytes of a connection travel: through the kernel's TCP or through the engine's.

use super::uploads::Upload;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

/// So much of an upload is received at once.
const UPLOAD_CHUNK: usize = 64 * 1024;

/// One connection to a client.
pub enum Transport {
    /// A socket of the kernel's: a client on this machine, or no engine.
    Kernel(OwnedFd),
    /// A connection of the engine's.
    Engine(host::Socket),
}

impl Transport {
    /// The client's address, if it is still known.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Kernel(socket) => rustix::net::getpeername(socket)
                .ok()
                .and_then(|address| SocketAddr::try_from(address?).ok()),
            Self::Engine(socket) => Some(socket.peer()),
        }
    }

    /// What a poller waits for.
    pub fn source(&self) -> host::Source<'_> {
        match self {
            Self::Kernel(socket) => host::Source::Kernel(socket.as_fd()),
            Self::Engine(socket) => host::Source::Socket(socket),
        }
    }

    /// Receives what is there, at most `buffer`; 0 at the end of the stream, `EAGAIN` if there is
    /// nothing now.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Kernel(socket) => {
                let (filled, _) = rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT)?;
                Ok(filled)
            }
            Self::Engine(socket) => socket.recv(buffer),
        }
    }

    /// Receives what is there into an upload, at most what that still misses; 0 at the end of the stream,
    /// `EAGAIN` if there is nothing now. The upload notes what goes wrong with its file.
    pub fn receive_into(&self, upload: &mut Upload) -> Result<usize, Errno> {
        let limit =
            usize::try_from(upload.left()).map_or(UPLOAD_CHUNK, |left| left.min(UPLOAD_CHUNK));
        match self {
            Self::Kernel(socket) => {
                let mut buffer = [0; UPLOAD_CHUNK];
                let (filled, _) =
                    rustix::net::recv(socket, &mut buffer[..limit], RecvFlags::DONTWAIT)?;
                upload.write(&buffer[..filled]);
                Ok(filled)
            }
            Self::Engine(socket) => {
                // From where the engine has put it straight into the page cache.
                let Some(view) = socket.view(limit)? else {
                    return Ok(0);
                };
                let arrived = view.bytes()?;
                upload.write_shared(arrived);
                let count = arrived.len();
                socket.release(view)?;
                Ok(count)
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
            Self::Engine(socket) => socket.send(bytes, more),
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
            Self::Engine(socket) => {
                // The engine reads it where that is worth it: then it does not pass through here.
                if let Some((shown, size)) = socket.file_worth_showing(file.as_fd(), length) {
                    let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
                    match socket.send_registered_file(&shown, offset, left.min(length), false) {
                        Err(Errno::STALE | Errno::OPNOTSUPP) => {}
                        sent => return sent,
                    }
                }
                // From the page cache straight into the memory that the engine sends from.
                let mut offset = offset;
                socket.send_with(length, false, |room| {
                    let filled = queue_pair::read_in(room, file, Some(offset))?;
                    offset += filled as u64;
                    Ok(filled)
                })
            }
        }
    }

    /// Ends our direction of the stream.
    pub fn finish(&self) -> Result<(), Errno> {
        match self {
            Self::Kernel(socket) => rustix::net::shutdown(socket, Shutdown::Write),
            Self::Engine(socket) => socket.shutdown(host::Shutdown::Write),
        }
    }
}
