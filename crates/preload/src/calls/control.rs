//! fcntl and ioctl on descriptors of ours.

use core::ffi::{c_int, c_ulong};

use rustix::io::Errno;

use crate::calls::blocking;
use crate::kernel::raw::{result, sys};
use crate::numbers;
use crate::numbers::table::Held;
use crate::objects::tcp::Tcp;

/// Asks whether the next byte is urgent.
pub const SIOCATMARK: c_ulong = 0x8905;

/// Asks for the bytes that were written and not yet sent.
const SIOCOUTQNSD: c_ulong = 0x894b;

/// Whether an fcntl command makes a new number.
pub fn duplicates(command: c_int) -> bool {
    command == libc::F_DUPFD || command == libc::F_DUPFD_CLOEXEC
}

/// fcntl, for descriptors of ours and for commands that make a number.
pub fn fcntl(
    fd: c_int,
    held: Option<&Held>,
    command: c_int,
    argument: usize,
) -> Result<usize, Errno> {
    // SAFETY: what passes through is what the program gave.
    let kernel = || result(unsafe { sys!(libc::SYS_fcntl, fd, command, argument) });
    if duplicates(command) {
        if host::private_fds::contains(fd) {
            return Err(Errno::BADF);
        }
        let new = kernel()?;
        numbers::duplicated(fd, new as c_int);
        return Ok(new);
    }
    let Some(tcp) = held.and_then(|held| held.tcp()) else {
        return kernel();
    };
    match command {
        // The number's own flags (close-on-exec) are the kernel's in any case.
        libc::F_GETFL if tcp.is_offloaded() => {
            if tcp.listener().is_some() {
                blocking::look(fd, tcp);
            }
            Ok(status_flags(tcp))
        }
        libc::F_SETFL => {
            let flags = argument as c_int;
            if let Some(stream) = tcp.stream() {
                // The file behind an accepted number is shared: its flags are not for one alone.
                if flags & libc::O_ASYNC != 0 {
                    stream.unsupported("signal_driven_io");
                }
            } else {
                // SAFETY: sets flags on a socket of the program.
                result(unsafe { sys!(libc::SYS_fcntl, fd, command, flags | tcp.kernel_flags()) })?;
                note_blocking(fd, tcp, flags & libc::O_NONBLOCK == 0);
            }
            tcp.set_nonblocking(flags & libc::O_NONBLOCK != 0);
            Ok(0)
        }
        _ => kernel(),
    }
}

/// A listener of ours does not block in the kernel: what the program wants is noted elsewhere.
fn note_blocking(fd: c_int, tcp: &Tcp, blocks: bool) {
    if tcp.listener().is_some() {
        blocking::note(fd, blocks);
    }
}

/// The status flags of a socket whose file in the kernel does not have the program's.
fn status_flags(tcp: &Tcp) -> usize {
    let nonblocking = if tcp.is_nonblocking() {
        libc::O_NONBLOCK
    } else {
        0
    };
    (libc::O_RDWR | nonblocking) as usize
}

/// ioctl on a descriptor of ours.
///
/// # Safety
/// `argument` is what the request takes.
pub unsafe fn ioctl(
    fd: c_int,
    held: &Held,
    request: c_ulong,
    argument: usize,
) -> Result<usize, Errno> {
    // SAFETY: what passes through is what the program gave.
    let kernel = || result(unsafe { sys!(libc::SYS_ioctl, fd, request, argument) });
    let Some(tcp) = held.tcp() else {
        return kernel();
    };
    let integer = argument as *mut c_int;
    if request == libc::FIONBIO {
        // SAFETY: the request takes a pointer to an integer.
        let on = unsafe { integer.as_ref() }.ok_or(Errno::FAULT)?;
        if !tcp.is_offloaded() {
            kernel()?;
        }
        note_blocking(fd, tcp, *on == 0);
        tcp.set_nonblocking(*on != 0);
        return Ok(0);
    }
    let Some(stream) = tcp.stream() else {
        return kernel();
    };
    let answer = match request {
        libc::FIONREAD => stream.available(),
        // The same number is TIOCOUTQ.
        libc::TIOCOUTQ => stream.unacknowledged(),
        // What is not yet sent is not told apart from what is not acknowledged.
        SIOCOUTQNSD => stream.unacknowledged(),
        // Urgent data is received as ordinary data: there is no mark.
        SIOCATMARK => 0,
        libc::FIOASYNC => {
            // SAFETY: the request takes a pointer to an integer.
            if unsafe { integer.as_ref() }.is_some_and(|on| *on != 0) {
                stream.unsupported("signal_driven_io");
            }
            return Ok(0);
        }
        // Names and addresses of interfaces, close-on-exec: nothing to do with the connection.
        _ => return kernel(),
    };
    // SAFETY: the request takes a pointer to an integer.
    *unsafe { integer.as_mut() }.ok_or(Errno::FAULT)? = answer;
    Ok(0)
}
