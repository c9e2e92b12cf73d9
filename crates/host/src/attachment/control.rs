//! The connection to an engine's control socket.

use std::path::Path;
use std::time::Duration;

use queue_pair::control::{Channel, ChannelError, Fds, Reply, Request};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::private_fds::{Private, lift};

/// How long an answer on the control socket may take if a connection hangs on it. An engine that is
/// alive answers in microseconds, unless the machine stands still or has something else to do; one that is
/// stopped must not stop the program for good.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How long it may take where the kernel can do instead, or it can be done without: as long as the steering
/// waits before it leaves new clients to the kernel.
pub(crate) const RUNS_WITHIN: Duration = Duration::from_millis(500);

/// The connection to an engine's control socket.
pub(crate) type Control = Private<Channel>;

/// Connects to the engine that listens at `path`. One that does not run accepts nobody, and beyond some
/// hundred that wait for it the kernel has no room for more: this waits for `limit` at most.
///
/// # Errors
/// `ETIMEDOUT`: there was no room for so long. Otherwise the kernel's.
pub(crate) fn connect(path: &Path, limit: Duration) -> Result<Control, Errno> {
    let socket = control_socket(SocketFlags::CLOEXEC)?;
    set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::AGAIN) => return Err(Errno::TIMEDOUT),
        connected => connected?,
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(Private::new(Channel::new(socket)))
}

/// The same, if it is there to accept: never waits.
pub(crate) fn connect_now(path: &Path) -> Result<Control, Errno> {
    let socket = control_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(Private::new(Channel::new(socket)))
}

/// Whether there is an answer, or none will come. Never waits.
pub(crate) fn has_answered(control: &Control) -> bool {
    answers_within(control, Duration::ZERO)
}

/// The same after a wait for that, for at most `limit`. A signal may end it, too.
pub(crate) fn answers_within(control: &Control, limit: Duration) -> bool {
    let mut answers = [PollFd::new(control, PollFlags::IN)];
    let limit = Timespec::try_from(limit).unwrap_or_default();
    rustix::event::poll(&mut answers, Some(&limit)).is_ok_and(|some| some > 0)
}

/// Whether the engine has ended, or wants no more of this process. Never waits.
pub(super) fn has_hung_up(control: &Control) -> bool {
    let mut ends = [PollFd::new(control, PollFlags::empty())];
    let polled = rustix::event::poll(&mut ends, Some(&Timespec::default()));
    polled.is_ok() && ends[0].revents().contains(PollFlags::HUP)
}

fn control_socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socket_with(family, kind, flags, None).map(lift)
}

/// Both ends of a connection: ours, and one for the engine.
pub(crate) fn pair() -> Result<(Control, OwnedFd), Errno> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (ours, theirs) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
    Ok((Private::new(Channel::new(lift(ours))), theirs))
}

/// The kernel's number for an error, if it is one.
pub(super) fn errno_from(number: u16) -> Option<Errno> {
    (1..4096)
        .contains(&number)
        .then(|| Errno::from_raw_os_error(number.into()))
}

/// The error that an engine has answered.
pub(super) fn error_from(errno: i32) -> Errno {
    let number = u16::try_from(errno).ok();
    number.and_then(errno_from).unwrap_or(Errno::PROTO)
}

/// Asks on a control connection and waits for the answer.
pub(super) fn ask(
    control: &mut Control,
    request: &Request,
    fds: Fds,
    limit: Duration,
) -> Result<(Reply, Fds), Errno> {
    ask_or(control, request, fds, limit, None)
}

/// The same. An engine that was asked and does not answer in time is told `otherwise` as well.
pub(super) fn ask_or(
    control: &mut Control,
    request: &Request,
    fds: Fds,
    limit: Duration,
    otherwise: Option<&Request>,
) -> Result<(Reply, Fds), Errno> {
    match control.get_mut().request_or(request, fds, limit, otherwise) {
        Ok((Reply::Error { errno, .. }, _)) => Err(error_from(errno)),
        Ok(answer) => Ok(answer),
        Err(ChannelError::Closed) => Err(Errno::CONNRESET),
        Err(ChannelError::TimedOut(_)) => Err(Errno::TIMEDOUT),
        Err(ChannelError::Io(error)) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        Err(_) => Err(Errno::PROTO),
    }
}

/// As long as the engine lives: longer than anybody waits.
pub(crate) const WHILE_IT_LIVES: Duration = Duration::from_secs(365 * 24 * 3_600);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn an_engine_that_accepts_nobody_is_not_waited_for_without_end() {
        let path = std::env::temp_dir().join(format!("full-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let engine = control_socket(SocketFlags::CLOEXEC).unwrap();
        rustix::net::bind(&engine, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&engine, 1).unwrap();
        let limit = Duration::from_millis(50);
        let begin = Instant::now();
        let mut waiting = Vec::new();
        let full = loop {
            match connect(&path, limit) {
                Ok(control) => waiting.push(control),
                Err(error) => break error,
            }
        };
        assert_eq!(full, Errno::TIMEDOUT);
        assert!(begin.elapsed() >= limit);
        // When it runs again there is room.
        drop(rustix::net::accept(&engine).unwrap());
        assert!(connect(&path, limit).is_ok());
        std::fs::remove_file(&path).unwrap();
    }
}
