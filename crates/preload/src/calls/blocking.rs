//! Whether a listening socket blocks, kept where it travels with the socket.
//!
//! A listener of the engine's is always non-blocking in the kernel, whatever its program wants: `accept`
//! asks both sides and waits by itself. Another program that is handed the socket, through exec or in a
//! message, finds that flag and cannot know whose wish it was. So the wish is noted at the socket, in an
//! option that is without effect on TCP and on what is accepted: SO_NO_CHECK, which is about the
//! checksums of datagrams.

use core::ffi::c_int;

use rustix::io::Errno;

use crate::engine::forks;
use crate::kernel::option::kernel_value;
use crate::kernel::raw::{result, sys};
use crate::objects::tcp::Tcp;

/// Notes that the program wants the listening socket `fd` to block, or not to.
pub fn note(fd: c_int, blocks: bool) {
    let value = c_int::from(blocks);
    // SAFETY: an integer of ours. Refused only where there is no such socket, and then nothing travels.
    let _ = result(unsafe {
        sys!(
            libc::SYS_setsockopt,
            fd,
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            &raw const value,
            size_of::<c_int>()
        )
    });
}

/// Takes the wish from where it travels: another process that has the listener may have another one since a
/// fork, and theirs is one flag.
pub fn look(fd: c_int, tcp: &Tcp) {
    if forks::happened()
        && let Ok(blocks) = kernel_value::<c_int>(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK)
    {
        tcp.set_nonblocking(blocks == 0);
    }
}

/// Whether the program from which the listening socket `fd` comes wanted it to block.
pub fn is_noted(fd: c_int) -> bool {
    kernel_value::<c_int>(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK) == Ok(1)
}

/// Sets or clears O_NONBLOCK in the kernel.
pub fn set_kernel_blocking(fd: c_int, blocks: bool) -> Result<(), Errno> {
    // SAFETY: reads and sets flags.
    unsafe {
        let flags = result(sys!(libc::SYS_fcntl, fd, libc::F_GETFL))? as c_int;
        let wanted = match blocks {
            true => flags & !libc::O_NONBLOCK,
            false => flags | libc::O_NONBLOCK,
        };
        if flags != wanted {
            result(sys!(libc::SYS_fcntl, fd, libc::F_SETFL, wanted))?;
        }
    }
    Ok(())
}
