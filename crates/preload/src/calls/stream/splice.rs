//! splice between a connection of the engine's and a pipe.
//!
//! The kernel moves pages; here bytes are copied, through memory of this process on their way into a
//! pipe, and straight into the send area on their way out of one. What a pipe has not got room for is
//! not read from the connection, and what a connection has no room for stays in the pipe, so that no
//! call loses a byte however it ends. Only where another process may read the connection, too, bytes are read
//! first, and go into the pipe whatever comes: they are lost if nobody reads that any more.

use core::ffi::c_int;
use core::sync::atomic::AtomicU8;

use host::{Handed, Readiness};
use libc::{off_t, pollfd};
use rustix::io::Errno;

use super::transfer::{Earlier, Lazy, partial, signal_broken_pipe};
use super::{StreamRef, of};
use crate::engine::session;
use crate::engine::wait::Sleep;
use crate::kernel::buffers::MOST;
use crate::kernel::deadline::Patience;
use crate::kernel::raw::{result, sys};
use crate::thread::inside::sleeping;
use crate::thread::signals;

/// Every flag that there is.
const FLAGS: u32 =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// A pipe that has room at all takes so many bytes at once (pipe(7)).
const PIECE: usize = libc::PIPE_BUF;

/// The largest copy on the way into a pipe.
const LARGEST: usize = 256 * 1024;

/// splice, where an end of it is a connection of ours.
///
/// # Errors
/// The kernel's for a socket: `EINVAL` if the other end is no pipe, or a position in a socket is given;
/// `ESPIPE` for one in a pipe; `EBADF`; `EAGAIN`; `EPIPE` if nobody reads what is written.
pub fn splice(
    (from, from_offset): (c_int, *mut off_t),
    (to, to_offset): (c_int, *mut off_t),
    length: usize,
    flags: u32,
) -> Result<usize, Errno> {
    if length == 0 {
        return Ok(0);
    }
    if flags & !FLAGS != 0 {
        return Err(Errno::INVAL);
    }
    let at_once = flags & libc::SPLICE_F_NONBLOCK != 0;
    let length = length.min(MOST);
    match (of(from), of(to)) {
        (Some(stream), None) => {
            let pipe = Pipe::to_write(to)?;
            positions(to_offset, from_offset)?;
            stream.splice_into(&pipe, length, at_once)
        }
        (None, Some(stream)) => {
            let pipe = Pipe::to_read(from)?;
            positions(from_offset, to_offset)?;
            let more = flags & libc::SPLICE_F_MORE != 0;
            stream.splice_from(&pipe, length, at_once, more)
        }
        // One of the two has to be a pipe.
        _ => Err(Errno::INVAL),
    }
}

/// sendfile from a connection of ours, which is a splice if it goes into a pipe.
///
/// # Errors
/// The kernel's for a socket in the place of a file: `EINVAL` if the target is no pipe.
pub fn send_from_stream(
    to: c_int,
    stream: &StreamRef,
    offset: *mut off_t,
    length: usize,
) -> Result<usize, Errno> {
    if !offset.is_null() {
        return Err(Errno::SPIPE);
    }
    let pipe = Pipe::to_write(to)?;
    stream.splice_into(&pipe, length.min(MOST), false)
}

/// Neither has a position.
fn positions(of_pipe: *mut off_t, of_socket: *mut off_t) -> Result<(), Errno> {
    if !of_pipe.is_null() {
        return Err(Errno::SPIPE);
    }
    if !of_socket.is_null() {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// An end of a pipe of the program's.
struct Pipe {
    fd: c_int,
    /// Calls on it return at once.
    nonblocking: bool,
    /// Bytes that it holds at most.
    size: usize,
}

impl Pipe {
    /// The end into which `fd` writes.
    fn to_write(fd: c_int) -> Result<Self, Errno> {
        Self::of(fd, libc::O_RDONLY)
    }

    /// The end from which `fd` reads.
    fn to_read(fd: c_int) -> Result<Self, Errno> {
        Self::of(fd, libc::O_WRONLY)
    }

    fn of(fd: c_int, wrong: c_int) -> Result<Self, Errno> {
        // SAFETY: asks for the flags.
        let mode = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFL) })? as c_int;
        if mode & libc::O_ACCMODE == wrong {
            return Err(Errno::BADF);
        }
        // SAFETY: asks for the size, which only a pipe has.
        let size = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETPIPE_SZ) });
        Ok(Self {
            fd,
            nonblocking: mode & libc::O_NONBLOCK != 0,
            size: size.map_err(|_| Errno::INVAL)?,
        })
    }

    /// Bytes that wait in it.
    fn holds(&self) -> usize {
        let mut count: c_int = 0;
        // SAFETY: room for an integer.
        let asked =
            result(unsafe { sys!(libc::SYS_ioctl, self.fd, libc::FIONREAD, &raw mut count) });
        asked.map_or(0, |_| usize::try_from(count).unwrap_or(0))
    }

    /// What poll says of it, at once or after a wait.
    fn poll(&self, events: i16, waits: bool) -> Result<i16, Errno> {
        let entry = pollfd {
            fd: self.fd,
            events,
            revents: 0,
        };
        if waits {
            return wait_for(entry);
        }
        let mut entry = entry;
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let (call, limit) = (libc::SYS_ppoll, &raw const at_once);
        // SAFETY: one entry, and a time.
        let polled = unsafe { result(sys!(call, &raw mut entry, 1usize, limit, 0usize, 8usize)) };
        polled.map(|_| entry.revents)
    }

    /// How many bytes a write takes without waiting; 0 for none. It may wait for some.
    ///
    /// # Errors
    /// `EPIPE`: nobody reads. `EINTR`.
    fn room(&self, waits: bool) -> Result<usize, Errno> {
        let found = self.poll(libc::POLLOUT, waits)?;
        if found & libc::POLLERR != 0 {
            return Err(Errno::PIPE);
        }
        if found & libc::POLLOUT == 0 {
            return Ok(0);
        }
        // It counts pages, of which some may hold little. Only of an empty one is known how many bytes
        // go in.
        Ok(if self.holds() == 0 {
            self.size.clamp(PIECE, LARGEST)
        } else {
            PIECE
        })
    }

    /// Writes what there is room for, without waiting.
    ///
    /// # Errors
    /// `EAGAIN`: there is none, since another writer was faster. `EOPNOTSUPP`: before Linux 6.4 it might wait. `EPIPE`.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let flags = libc::RWF_NOWAIT;
        let (call, part) = (libc::SYS_pwritev2, &raw const part);
        // SAFETY: the slice is whole.
        match result(unsafe { sys!(call, self.fd, part, 1usize, -1isize, 0usize, flags) }) {
            Err(Errno::INTR) => Err(Errno::AGAIN),
            written => written,
        }
    }

    /// Writes all of `bytes`, which are nowhere else: no signal ends it.
    fn write_all(&self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            // SAFETY: the slice is whole.
            match result(unsafe { sys!(libc::SYS_write, self.fd, bytes.as_ptr(), bytes.len()) }) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(Errno::AGAIN) => {
                    let mut room = pollfd {
                        fd: self.fd,
                        events: libc::POLLOUT,
                        revents: 0,
                    };
                    let (call, limit) = (libc::SYS_ppoll, core::ptr::null::<libc::timespec>());
                    // SAFETY: one entry. The thread is inside: a signal is put back, and comes later.
                    let _ = unsafe { sys!(call, &raw mut room, 1usize, limit, 0usize, 8usize) };
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what waits into `room`, without waiting; 0 if that is nothing.
    fn read(&self, room: &[AtomicU8]) -> Result<usize, Errno> {
        let part = libc::iovec {
            iov_base: room.as_ptr().cast_mut().cast(),
            iov_len: room.len(),
        };
        let read = |flags: c_int| {
            // SAFETY: the kernel writes within the room, which may be written to through a shared
            // reference because it is made of atomics.
            result(unsafe {
                sys!(
                    libc::SYS_preadv2,
                    self.fd,
                    &raw const part,
                    1usize,
                    -1isize,
                    0usize,
                    flags
                )
            })
        };
        let read = match read(libc::RWF_NOWAIT) {
            // Before Linux 6.4. What was there a moment ago is there, unless another thread reads too.
            Err(Errno::OPNOTSUPP) => read(0),
            other => other,
        };
        match read {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            other => other,
        }
    }
}

/// Waits for what is asked of a pipe. A sleeper of the session's is beside it: by that one the thread is woken if it
/// is cancelled.
fn wait_for(entry: pollfd) -> Result<i16, Errno> {
    let mut sleep = None;
    loop {
        let armed = Sleep::begin_again(&mut sleep)?;
        let bell = |fd| pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut asked: Vec<pollfd> = core::iter::once(entry)
            .chain(armed.fds().map(bell))
            .collect();
        let left = armed.bound(Patience::FOREVER.begin()).left();
        let left = left.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        let (fds, count) = (asked.as_mut_ptr(), asked.len());
        // SAFETY: the array is whole; the time is a copy, or none.
        let slept = unsafe { sleeping!(libc::SYS_ppoll, fds, count, left, 0usize, 8usize) };
        let rung = asked[1..].iter().any(|bell| bell.revents != 0);
        armed.rest(rung || slept.is_err());
        session::pump();
        match slept {
            Err(Errno::INTR) if signals::goes_on() => {}
            Err(error) => return Err(error),
            Ok(_) if asked[0].revents != 0 => return Ok(asked[0].revents),
            Ok(_) => {}
        }
    }
}

impl StreamRef {
    /// splice from the connection into a pipe. Whether it waits for bytes is the connection's affair,
    /// whether it waits for room that of the pipe and of the call, as in the kernel.
    fn splice_into(&self, pipe: &Pipe, length: usize, at_once: bool) -> Result<usize, Errno> {
        let mut waits = !(at_once || pipe.nonblocking);
        let mut memory = Vec::new();
        let mut moved = 0;
        while moved < length {
            let room = match pipe.room(waits) {
                Ok(0) if moved == 0 => return Err(Errno::AGAIN),
                Ok(0) => break,
                Ok(room) => room.min(length - moved),
                Err(error) => return signal_broken_pipe(partial(moved, error), 0),
            };
            // Only the first bytes are waited for.
            let (flags, earlier) = match moved {
                0 => (0, Earlier::Nothing),
                _ => (libc::MSG_DONTWAIT, Earlier::Something),
            };
            memory.resize(room, 0);
            let mut refused = None;
            let read = self.receive_through(&mut memory, flags, earlier, |bytes, how| {
                let written = match how {
                    Handed::AtMost => pipe.write(bytes),
                    Handed::Read => pipe.write_all(bytes).map(|()| bytes.len()),
                };
                match written {
                    Err(Errno::OPNOTSUPP) => return None,
                    Err(error) => refused = Some(error),
                    Ok(_) => {}
                }
                Some(written.unwrap_or(0))
            });
            let read = match (read, refused) {
                // Another writer was faster.
                (Ok(_), Some(Errno::AGAIN)) if waits => continue,
                (Ok(_), Some(error)) => return partial(moved, error),
                (Ok(0), None) => break,
                (Ok(read), None) => read,
                (Err(error), _) => return partial(moved, error),
            };
            moved += read;
            waits = false;
        }
        Ok(moved)
    }

    /// splice from a pipe into the connection.
    fn splice_from(
        &self,
        pipe: &Pipe,
        length: usize,
        at_once: bool,
        more: bool,
    ) -> Result<usize, Errno> {
        session::pump();
        let waits = !(at_once || pipe.nonblocking);
        let mut deadline = Lazy::new(&self.send_timeout);
        let mut moved = 0;
        while moved < length {
            // What has gone before is enough.
            let found = pipe.poll(libc::POLLIN, waits && moved == 0)?;
            if found & libc::POLLIN == 0 {
                let ended = found & libc::POLLHUP != 0;
                if moved > 0 || ended {
                    break;
                }
                return Err(Errno::AGAIN);
            }
            let wanted = pipe.holds().min(length - moved);
            let sent = self.socket.send_with(wanted, more, |room| pipe.read(room));
            match sent {
                Ok(sent) => moved += sent,
                Err(Errno::AGAIN) if self.returns_at_once(0) => {
                    return partial(moved, Errno::AGAIN);
                }
                Err(Errno::AGAIN) => {
                    if let Err(error) = self.wait(Readiness::OUT, deadline.get()) {
                        return partial(moved, error);
                    }
                }
                Err(error) => return signal_broken_pipe(partial(moved, error), 0),
            }
        }
        Ok(moved)
    }
}
