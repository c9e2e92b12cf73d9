//! Sends on several sockets of the kernel's by one system call.
//!
//! An io_uring, used so that nothing is under way when a call returns: the sends do not wait (MSG_DONTWAIT), so the
//! kernel does each of them, or says why not, while it takes it. It has no memory of the program's afterwards, and
//! nobody is told of anything later.
//!
//! A ring that is not needed any more stays for who needs one next. When the kernel takes one apart it interrupts, some
//! time later, the threads that have used it, and a wait of theirs in epoll_wait(2) ends with `EINTR` though there was no
//! signal.

use std::sync::Mutex;

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::process::Pid;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};

/// Rings of this process that nobody has just now. Where a fork has left it locked there is none.
static SPARE: Mutex<Vec<(IoUring, Pid)>> = Mutex::new(Vec::new());

/// No more are kept.
const SPARES: usize = 8;

/// One send.
pub struct Sending<'fd> {
    /// On which socket.
    pub fd: BorrowedFd<'fd>,
    /// By what the caller knows it.
    pub name: u64,
    /// What.
    pub bytes: Vec<u8>,
    /// More follows at once (MSG_MORE).
    pub more: bool,
    /// How many of the bytes the socket has taken, or why none. `None`: it was not tried.
    pub done: Option<Result<usize, Errno>>,
}

/// What sends them. It is this process's: the child of a fork makes one of its own.
pub struct SendRing {
    /// `None` from when it was refused something on: what the kernel has not taken from it by then it never will.
    ring: Option<IoUring>,
    process: Pid,
}

impl SendRing {
    /// So many sends leave by one call at most.
    pub const MOST: usize = 32;

    /// One without anything to do.
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM`, `EINVAL`: this kernel, or what this process may do, has none of this kind (Linux 5.18).
    /// `EMFILE`, `ENFILE`, `ENOMEM`: there is no descriptor or memory for one.
    pub fn new() -> Result<Self, Errno> {
        let process = rustix::process::getpid();
        let spare = SPARE.try_lock().ok().and_then(|mut spare| {
            // A parent's are not used, and closing what the child has of them ends none.
            spare.retain(|(_, of)| *of == process);
            spare.pop()
        });
        let ring = match spare {
            Some((ring, _)) => ring,
            None => IoUring::builder()
                .setup_submit_all()
                .build(Self::MOST as u32)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOSYS))?,
        };
        Ok(Self {
            ring: Some(ring),
            process,
        })
    }

    /// Sends the first [`MOST`](Self::MOST) of these as send(2) does, without waiting and without a signal. What came
    /// of each it then says itself.
    ///
    /// # Errors
    /// `ESTALE`: this process is the child of a fork. Otherwise the kernel does not want this any more, and then no
    /// later call does anything either. Some may have been sent: see each.
    pub fn send(&mut self, sends: &mut [Sending<'_>]) -> Result<(), Errno> {
        if self.process != rustix::process::getpid() {
            return Err(Errno::STALE);
        }
        let mut ring = self.ring.take().ok_or(Errno::NOSYS)?;
        let count = sends.len().min(Self::MOST);
        let sends = &mut sends[..count];
        let mut pushed = 0;
        for (at, sending) in sends.iter().enumerate() {
            let mut flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            if sending.more {
                flags |= libc::MSG_MORE;
            }
            let (from, len) = (sending.bytes.as_ptr(), sending.bytes.len());
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            let entry = opcode::Send::new(Fd(sending.fd.as_raw_fd()), from, len).flags(flags);
            // SAFETY: the kernel reads the descriptor and the memory only in the calls of `submit` below, which this
            // function makes: `sends` holds both until it returns, and nobody writes the bytes. An entry that the
            // kernel has not taken by then goes with the ring, which is not kept; and if the kernel had one under
            // way, its bytes would never be freed.
            if unsafe { ring.submission().push(&entry.build().user_data(at as u64)) }.is_err() {
                break;
            }
            pushed += 1;
        }
        let given = submit(&mut ring);
        let taken = pushed - ring.submission().len().min(pushed);
        let mut left = taken;
        for done in ring.completion() {
            if let Some(sending) = sends.get_mut(done.user_data() as usize) {
                let sent = usize::try_from(done.result());
                sending.done = Some(sent.map_err(|_| Errno::from_raw_os_error(-done.result())));
                left = left.saturating_sub(1);
            }
        }
        if left > 0 {
            // Against all that the kernel promises it does one of them later.
            for sending in &mut sends[..taken] {
                if sending.done.is_none() {
                    sending.done = Some(Ok(sending.bytes.len()));
                    std::mem::forget(std::mem::take(&mut sending.bytes));
                }
            }
            return Err(Errno::IO);
        }
        given?;
        self.ring = Some(ring);
        Ok(())
    }
}

impl Drop for SendRing {
    fn drop(&mut self) {
        if let Some(ring) = self.ring.take()
            && self.process == rustix::process::getpid()
            && let Ok(mut spare) = SPARE.try_lock()
            && spare.len() < SPARES
        {
            spare.push((ring, self.process));
        }
    }
}

/// Has the kernel take all that is in the ring.
fn submit(ring: &mut IoUring) -> Result<(), Errno> {
    while !ring.submission().is_empty() {
        match ring.submit() {
            // It takes a part where it has no memory for the rest.
            Ok(1..) => {}
            Ok(0) => return Err(Errno::NOMEM),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                errno => return Err(errno.unwrap_or(Errno::IO)),
            },
        }
    }
    Ok(())
}

// The interpreter has no io_uring.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::Write;

    use super::*;
    use rustix::fd::{AsFd, OwnedFd};
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

    /// One, if this machine lets this process have it.
    fn ring() -> Option<SendRing> {
        let ring = SendRing::new();
        if let Err(errno) = &ring {
            let _ = writeln!(std::io::stderr(), "SKIPPED: io_uring is refused: {errno}");
        }
        ring.ok()
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    }

    fn sending<'fd>(fd: &'fd OwnedFd, name: u64, bytes: &[u8]) -> Sending<'fd> {
        Sending {
            fd: fd.as_fd(),
            name,
            bytes: bytes.to_vec(),
            more: false,
            done: None,
        }
    }

    fn received(fd: &OwnedFd) -> Vec<u8> {
        let mut bytes = [0; 64];
        let (read, _) = rustix::net::recv(fd, &mut bytes, RecvFlags::DONTWAIT).unwrap();
        bytes[..read].to_vec()
    }

    #[test]
    fn each_is_told_what_came_of_it() {
        let Some(mut ring) = ring() else { return };
        let pairs = [pair(), pair(), pair()];
        let mut sends: Vec<_> = (10..)
            .zip(&pairs)
            .map(|(name, (fd, _))| sending(fd, name, format!("send {name}").as_bytes()))
            .collect();
        // It takes nothing, and the third has no other end.
        let big = vec![0; 1 << 20];
        while rustix::net::send(&pairs[1].0, &big, rustix::net::SendFlags::DONTWAIT).is_ok() {}
        let [(_, first), _, (_, third)] = &pairs;
        rustix::net::shutdown(third, rustix::net::Shutdown::Both).unwrap();
        assert_eq!(ring.send(&mut sends), Ok(()));
        let done: Vec<_> = sends.iter().map(|it| (it.name, it.done.unwrap())).collect();
        let expected = [(10, Ok(7)), (11, Err(Errno::AGAIN)), (12, Err(Errno::PIPE))];
        assert_eq!(done, expected);
        assert_eq!(received(first), b"send 10");
    }

    #[test]
    fn as_many_are_sent_as_there_are_places() {
        let Some(mut ring) = ring() else { return };
        let (fd, other) = pair();
        let mut sends: Vec<_> = (0..SendRing::MOST as u64 + 1)
            .map(|name| sending(&fd, name, b"x"))
            .collect();
        for _ in 0..3 {
            assert_eq!(ring.send(&mut sends), Ok(()));
            assert_eq!(
                sends.iter().filter(|it| it.done == Some(Ok(1))).count(),
                SendRing::MOST
            );
            assert_eq!(sends[SendRing::MOST].done, None);
            assert_eq!(received(&other).len(), SendRing::MOST);
        }
    }

    /// The test's runner has threads, so the child does nothing but this.
    #[test]
    fn the_child_of_a_fork_does_not_have_its_parents() {
        let Some(mut ring) = ring() else { return };
        let (fd, other) = pair();
        let mut sends = [sending(&fd, 1, b"child")];
        // SAFETY: the child makes system calls alone, allocates nothing, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = ring.send(&mut sends) == Err(Errno::STALE);
            // SAFETY: it ends the child, and runs nothing of its parent's.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = -1;
        // SAFETY: `status` is room for one.
        let ended = unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!((ended, status), (child, 0));
        sends[0].bytes = b"parent".to_vec();
        assert_eq!(
            (ring.send(&mut sends), sends[0].done),
            (Ok(()), Some(Ok(6)))
        );
        assert_eq!(received(&other), b"parent");
    }
}
