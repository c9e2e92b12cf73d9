//! Numbers for connections of the engine's: the kernel has a socket there that is connected to nothing.
//!
//! Accepted ones are duplicates of one such socket, which is cheap to make and says "socket" to whoever asks
//! what it is.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;

use crate::kernel::raw::{result, sys};
use crate::numbers;
use crate::numbers::table::{self, Held};

/// A number that is closed again unless it is kept.
pub struct Number(c_int);

impl Number {
    /// One that nobody else knows.
    pub fn of(number: c_int) -> Self {
        Self(number)
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

/// A new number, the lowest that is free, for a socket that is connected to nothing.
pub fn placeholder(family: c_int, close_on_exec: bool) -> Result<Number, Errno> {
    static TEMPLATES: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];
    let template = &TEMPLATES[usize::from(family == libc::AF_INET6)];
    let command = if close_on_exec {
        libc::F_DUPFD_CLOEXEC
    } else {
        libc::F_DUPFD
    };
    let duplicate = |of: c_int| {
        // SAFETY: makes a new number.
        result(unsafe { sys!(libc::SYS_fcntl, of, command, 0usize) }).map(|new| new as c_int)
    };
    let new = match template.load(Ordering::Relaxed) {
        -1 => Err(Errno::BADF),
        of => duplicate(of),
    };
    let new = match new {
        // None yet, or the program has closed what it does not know.
        Err(Errno::BADF) => {
            let fresh = private_socket(family)?;
            template.store(fresh, Ordering::Relaxed);
            duplicate(fresh)?
        }
        other => other?,
    };
    table::handed_out(new);
    Ok(Number(new))
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
    // SAFETY: makes a duplicate out of the program's way.
    let high = result(unsafe {
        sys!(
            libc::SYS_fcntl,
            low,
            libc::F_DUPFD_CLOEXEC,
            numbers::hidden_floor()
        )
    });
    match high {
        Ok(high) => {
            drop(Number(low));
            Ok(high as c_int)
        }
        Err(_) => Ok(low),
    }
}
