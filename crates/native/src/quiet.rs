//! sendfile(2) without a signal: it has no flag for that, as send(2) has.

use host::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::fd::BorrowedFd;

/// As sendfile(2), but that a connection which is over is told of by `EPIPE` alone.
pub(crate) fn send_file(
    to: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    mut offset: u64,
    len: usize,
) -> Result<usize, Errno> {
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    let before = pipe.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let sent = rustix::fs::sendfile(to, file, Some(&mut offset), len);
    // Where the program itself has it blocked it is the program's to take.
    if before.is_ok_and(|before| !before.contains(Signal::SIGPIPE)) {
        let is_raised = match sent {
            Err(errno) => errno == Errno::PIPE,
            // Behind the first part.
            Ok(sent) => sent < len && rustix::net::getpeername(to).err() == Some(Errno::NOTCONN),
        };
        if is_raised {
            let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
            let _ = SignalFd::with_flags(&pipe, flags).and_then(|taken| taken.read_signal());
        }
        let _ = pipe.thread_unblock();
    }
    sent
}
