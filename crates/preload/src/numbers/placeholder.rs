//! Numbers for connections of the engine's: the kernel has a socket there that is connected to nothing.
//!
//! Accepted ones are duplicates of one such socket, which is cheap to make and says "socket" to whoever asks
//! what it is.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use host::private_fds;
use rustix::io::Errno;

use crate::kernel::filter;
use crate::kernel::raw::{result, sys};
use crate::numbers::table::{self, Held};

/// A number that is closed again unless it is kept.
pub struct Number(c_int);

impl Number {
    /// One that nobody else knows.
    pub fn of(number: c_int) -> Self {
        Self(number)
    }

    /// What it is, as long as this lives.
    pub fn number(&self) -> c_int {
        self.0
    }

    /// It stays open.
    pub fn keep(self) -> c_int {
        let number = self.0;
        core::mem::forget(self);
        number
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: a number that nobody else knows.
        unsafe { sys!(libc::SYS_close, self.0) };
    }
}

/// The socket of which all placeholders of a family are duplicates. It is hidden from the program, but not from calls
/// of which nobody is told: its number may be a file of the program's by now, of which nobody is to have a duplicate. So
/// there is its inode beside the number, in one word, which is 0 before there is one. Where system calls are filtered
/// nothing is asked of it any more.
struct Template(AtomicU64);

/// No socket's inode.
const UNKNOWN: u64 = 0;

impl Template {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn word_of(number: c_int, inode: u64) -> u64 {
        ((number as u64 + 1) << 32) | (inode & u64::from(u32::MAX))
    }

    /// A duplicate of it.
    fn duplicate(&self, family: c_int, command: c_int) -> Result<Number, Errno> {
        loop {
            let word = self.0.load(Ordering::Acquire);
            let Some(number) = (word >> 32).checked_sub(1).map(|number| number as c_int) else {
                self.make(family)?;
                continue;
            };
            if Self::is_still(number, word & u64::from(u32::MAX)) {
                // SAFETY: makes a new number.
                let new = result(unsafe { sys!(libc::SYS_fcntl, number, command, 0usize) })?;
                return Ok(Number(new as c_int));
            }
            // The program has closed what it does not know.
            let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            if self.0.compare_exchange(word, 0, order, failed).is_ok() {
                private_fds::leave_to_program(number);
            }
        }
    }

    fn make(&self, family: c_int) -> Result<(), Errno> {
        let fresh = private_socket(family)?;
        let inode = Self::inode(fresh).unwrap_or(UNKNOWN);
        // SAFETY: a number that nobody else knows.
        let fresh = unsafe { OwnedFd::from_raw_fd(fresh) };
        let word = Self::word_of(fresh.as_raw_fd(), inode);
        let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        // Another thread may have been faster.
        if self.0.compare_exchange(0, word, order, failed).is_ok() {
            private_fds::keep(fresh);
        }
        Ok(())
    }

    /// Whether the number is what it was. One of which the kernel does not tell is taken for that.
    fn is_still(number: c_int, inode: u64) -> bool {
        if inode == UNKNOWN || filter::is_there() {
            return true;
        }
        match Self::inode(number) {
            Ok(now) => now == inode,
            Err(errno) => errno != Errno::BADF,
        }
    }

    /// The inode of a socket, of which no two have the same; [`UNKNOWN`] for anything else.
    fn inode(fd: c_int) -> Result<u64, Errno> {
        if filter::is_there() {
            return Ok(UNKNOWN);
        }
        // SAFETY: asks of a number.
        let facts = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(fd) })?;
        let is_socket = rustix::fs::FileType::from_raw_mode(facts.st_mode).is_socket();
        Ok(match is_socket {
            true => facts.st_ino & u64::from(u32::MAX),
            false => UNKNOWN,
        })
    }
}

/// Which socket a number was at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Socket {
    /// One with this inode.
    Inode(u64),
    /// It was something else.
    Other,
    /// The number was not open.
    None,
    /// It was open. Where system calls are filtered the kernel is not asked what it was.
    Unasked,
}

/// Which socket this number is now.
pub fn socket_behind(fd: c_int) -> Socket {
    if filter::is_there() {
        // SAFETY: asks for a flag.
        let is_open = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFD) }).is_ok();
        return if is_open {
            Socket::Unasked
        } else {
            Socket::None
        };
    }
    match Template::inode(fd) {
        Ok(UNKNOWN) => Socket::Other,
        Ok(inode) => Socket::Inode(inode),
        Err(_) => Socket::None,
    }
}

/// A new number, the lowest that is free, for a socket that is connected to nothing.
pub fn placeholder(family: c_int, close_on_exec: bool) -> Result<Number, Errno> {
    static TEMPLATES: [Template; 2] = [const { Template::new() }; 2];
    let template = &TEMPLATES[usize::from(family == libc::AF_INET6)];
    let command = if close_on_exec {
        libc::F_DUPFD_CLOEXEC
    } else {
        libc::F_DUPFD
    };
    let new = template.duplicate(family, command)?;
    table::handed_out(new.0);
    Ok(new)
}

/// Makes `fd`, which is open, a number for a socket that is connected to nothing.
pub fn replace_by_placeholder(fd: c_int, family: c_int) -> Result<(), Errno> {
    replace(&placeholder(family, true)?, fd)
}

/// Gives the numbers of `held`, of which `fd` is one, a socket of the kernel's that is theirs alone.
pub fn replace_by_own_socket(fd: c_int, held: &Held, family: c_int) -> Result<(), Errno> {
    let fresh = Number(private_socket(family)?);
    for number in table::numbers_of(held).chain([fd]) {
        replace(&fresh, number)?;
    }
    Ok(())
}

/// Makes the number what `fresh` is, but for whether it stays open on exec.
fn replace(fresh: &Number, fd: c_int) -> Result<(), Errno> {
    // SAFETY: asks for a flag.
    let flags = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFD) })?;
    let close_on_exec = flags & libc::FD_CLOEXEC as usize != 0;
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: the number was the program's, and stays open.
    result(unsafe { sys!(libc::SYS_dup3, fresh.0, fd, flags) }).map(drop)
}

fn private_socket(family: c_int) -> Result<c_int, Errno> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: makes a socket.
    let low = result(unsafe { sys!(libc::SYS_socket, family, kind, 0usize) })? as c_int;
    Ok(out_of_the_way(Number(low)))
}

/// Numbers that are left for what the program must not see, at the end of those that it may have.
const HIDDEN: u64 = 128;

/// Where numbers begin that are out of the program's way.
pub fn hidden_floor() -> c_int {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // Where there is no limit to speak of, still within the table.
    let limit = limit.unwrap_or(u64::MAX).min(1 << 16);
    limit.saturating_sub(HIDDEN).max(limit / 2) as c_int
}

/// The number moved out of the program's way, if there is room there. The kernel closes it at exec.
pub fn out_of_the_way(low: Number) -> c_int {
    // SAFETY: makes a duplicate of a number that nobody else knows.
    let high = result(unsafe {
        sys!(
            libc::SYS_fcntl,
            low.number(),
            libc::F_DUPFD_CLOEXEC,
            hidden_floor()
        )
    });
    high.map_or_else(|_| low.keep(), |high| high as c_int)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

    /// By a system call of which nobody is told.
    fn becomes(number: c_int, file: &OwnedFd) {
        // SAFETY: the number is this test's to use from here on.
        result(unsafe { sys!(libc::SYS_dup3, file.as_raw_fd(), number, libc::O_CLOEXEC) }).unwrap();
    }

    #[test]
    fn a_file_of_the_programs_is_not_duplicated() {
        let template = Template::new();
        let new = || template.duplicate(libc::AF_INET, libc::F_DUPFD_CLOEXEC);
        let first = new().unwrap();
        let number = ((template.0.load(Ordering::Relaxed) >> 32) - 1) as c_int;
        assert!(private_fds::contains(number));
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        becomes(number, &writer);
        let second = new().unwrap();
        assert_ne!(Template::inode(second.0), Ok(UNKNOWN), "a socket");
        assert_ne!(Template::inode(second.0), Template::inode(first.0));
        assert!(!private_fds::contains(number), "it is the program's");
        // SAFETY: a number of this test's.
        unsafe { sys!(libc::SYS_close, number) };
        drop(writer);
        let mut byte = [0];
        assert_eq!(
            rustix::io::read(&reader, &mut byte),
            Ok(0),
            "nobody has the file"
        );
    }

    /// As where a filter answers for the kernel.
    #[test]
    fn one_of_which_nothing_is_known_is_kept() {
        let (reader, _writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let number = reader.as_raw_fd();
        assert!(Template::is_still(number, UNKNOWN));
        assert!(!Template::is_still(number, 5), "it is a pipe");
        let socket = private_socket(libc::AF_INET).unwrap();
        let inode = Template::inode(socket).unwrap();
        assert!(Template::is_still(socket, inode));
        drop(Number(socket));
        assert!(!Template::is_still(c_int::MAX, inode), "there is none");
    }
}
