//! One end of a control connection.
//!
//! The engine's end never waits: what the other side is too slow to read waits in a bounded queue,
//! and one that lets it grow beyond the bound has broken the protocol. The host's end waits for an
//! answer with a limit in time.

use super::messages::{Reply, Request};
use crate::Violation;
use arrayvec::ArrayVec;
use core::mem::MaybeUninit;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::time::Instant;

/// The longest message in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;
/// The most file descriptors that a message can carry.
pub const MAX_FDS: usize = 4;
/// The most that the kernel carries in one message (SCM_MAX_FD).
const KERNELS_MAX_FDS: usize = 253;
/// The most messages that wait for the other side to read.
pub const MAX_UNSENT: usize = 64;

/// The most answers of which nobody wants to know that are under way.
const MAX_IN_PASSING: usize = 16;

/// The file descriptors of a message.
pub type Fds = ArrayVec<OwnedFd, MAX_FDS>;

/// Why a control connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side broke the protocol.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The other side has closed its end.
    #[error("the other side has closed the control connection")]
    Closed,
    /// No answer in time.
    #[error("no answer on the control connection within {0:?}")]
    TimedOut(Duration),
    /// What was to be sent is longer than a message can be.
    #[error("a control message of {0} bytes is longer than the limit of {MAX_MESSAGE}")]
    OwnMessageTooLong(usize),
    /// The kernel refused.
    #[error("the control connection failed: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for ChannelError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Self::Closed,
            errno => Self::Io(errno.into()),
        }
    }
}

/// A message as it is sent, to be sent later.
#[derive(Debug)]
pub struct Encoded(Vec<u8>);

impl Encoded {
    /// # Errors
    /// `OwnMessageTooLong`.
    pub fn new<M: Serialize>(message: &M) -> Result<Self, ChannelError> {
        let bytes = serde_json::to_vec(message).map_err(io::Error::from)?;
        match bytes.len() {
            ..=MAX_MESSAGE => Ok(Self(bytes)),
            length => Err(ChannelError::OwnMessageTooLong(length)),
        }
    }
}

/// An answer that nobody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    /// It is kept for who [takes it](Channel::take_late).
    Late,
    /// Nothing follows from it.
    InPassing,
}

/// One end of a control connection.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    /// Where messages are received: [`MAX_MESSAGE`] bytes from the first receive on.
    inbox: Vec<u8>,
    unsent: VecDeque<(Vec<u8>, Fds)>,
    /// Answers that nobody waits for any longer, or ever did. They come in the order of the questions.
    owed: VecDeque<Owed>,
    /// Since when the engine has not answered, or not read, if somebody has waited for that in vain.
    since: Option<Instant>,
    /// Those of them that have come.
    late: VecDeque<(Reply, Fds)>,
}

impl Channel {
    /// The end that is `socket`, a connected SOCK_SEQPACKET socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            inbox: Vec::new(),
            unsent: VecDeque::new(),
            owed: VecDeque::new(),
            since: None,
            late: VecDeque::new(),
        }
    }

    /// Connects to the engine that listens at `path`.
    ///
    /// # Errors
    /// The kernel's: there is no such socket, or nobody behind it.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self::new(socket))
    }

    /// Two ends of one connection.
    ///
    /// # Errors
    /// The kernel's, when it has no descriptors to give.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self::new(a), Self::new(b)))
    }

    /// The next message and its descriptors, or `None` if there is none yet. Never waits. Descriptors are missing if
    /// this process can have no more.
    ///
    /// # Errors
    /// The connection has ended, or must.
    pub fn try_receive<M: DeserializeOwned>(&mut self) -> Result<Option<(M, Fds)>, ChannelError> {
        let mut fds = Vec::new();
        let message = self.try_receive_with(&mut fds)?;
        // There are no more than a message can carry.
        Ok(message.map(|message| (message, fds.into_iter().collect())))
    }

    /// The same, for who must not close descriptors of the other side's himself, which may take as long as that
    /// likes. Whatever comes of the message, all that came with it are in `fds`.
    ///
    /// # Errors
    /// As of [`try_receive`](Self::try_receive).
    pub fn try_receive_with<M: DeserializeOwned>(
        &mut self,
        fds: &mut Vec<OwnedFd>,
    ) -> Result<Option<M>, ChannelError> {
        self.inbox.resize(MAX_MESSAGE, 0);
        // What there is no room for the kernel would close here.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(KERNELS_MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            let iov = &mut [IoSliceMut::new(&mut self.inbox)];
            match rustix::net::recvmsg(&self.socket, iov, &mut ancillary, flags) {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        };
        let before = fds.len();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        // Fewer may be there than were sent: this process can have no more. That is no fault of the other side's, and
        // who needs them finds that they are missing.
        if fds.len() - before > MAX_FDS {
            return Err(Violation::TooManyDescriptors { limit: MAX_FDS }.into());
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(Violation::MessageTooLong { limit: MAX_MESSAGE }.into());
        }
        if received.bytes == 0 {
            return Err(ChannelError::Closed);
        }
        let bytes = &self.inbox[..received.bytes];
        let message = serde_json::from_slice(bytes).map_err(|error| Violation::Unintelligible {
            len: bytes.len(),
            line: error.line(),
            column: error.column(),
        })?;
        Ok(Some(message))
    }

    /// The socket, with all that was sent on it and not received.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Sends a message, or lets it wait for [`flush`](Self::flush). Never waits.
    ///
    /// # Errors
    /// The connection has ended, or must.
    pub fn send<M: Serialize>(&mut self, message: &M, fds: Fds) -> Result<(), ChannelError> {
        self.send_encoded(Encoded::new(message)?, fds)
    }

    /// As [`send`](Self::send).
    ///
    /// # Errors
    /// The connection has ended, or must.
    pub fn send_encoded(&mut self, message: Encoded, fds: Fds) -> Result<(), ChannelError> {
        if self.unsent.len() == MAX_UNSENT {
            return Err(Violation::TooManyUnread { limit: MAX_UNSENT }.into());
        }
        self.unsent.push_back((message.0, fds));
        self.flush()
    }

    /// Sends what waits, as far as the other side has read. Never waits. To be called when the
    /// socket is writable and [`has_unsent`](Self::has_unsent).
    ///
    /// # Errors
    /// The connection has ended.
    pub fn flush(&mut self) -> Result<(), ChannelError> {
        while let Some((bytes, fds)) = self.unsent.front() {
            match send_now(self.socket.as_fd(), bytes, fds) {
                Ok(()) => drop(self.unsent.pop_front()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Whether messages wait for the other side to read.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Asks the engine and waits for the answer, at most `limit` for both. An answer that does not come in
    /// time is [late](Self::take_late), and this end as good as before. While one is late the engine is not
    /// asked again, and the time counts from the question that it was for, but for a twentieth: the engine
    /// may have just begun to run again.
    ///
    /// # Errors
    /// `TimedOut`: the engine does not run. Others: the connection has ended.
    pub fn request(
        &mut self,
        request: &Request,
        fds: Fds,
        limit: Duration,
    ) -> Result<(Reply, Fds), ChannelError> {
        self.request_or(request, fds, limit, None)
    }

    /// As [`request`](Self::request). If the engine was asked, and has not answered in time, it is told `otherwise`
    /// as well, right behind: nobody waits for the answer to that.
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn request_or(
        &mut self,
        request: &Request,
        fds: Fds,
        limit: Duration,
        otherwise: Option<&Request>,
    ) -> Result<(Reply, Fds), ChannelError> {
        self.await_late(limit)?;
        let start = Instant::now();
        self.send(request, fds)?;
        let answer = self.answer(start, limit);
        if matches!(answer, Err(ChannelError::TimedOut(_))) {
            self.owe(start);
            if let Some(otherwise) = otherwise {
                self.request_blindly(otherwise)?;
            }
        }
        answer
    }

    /// Asks for something of which nobody waits to hear that it is done.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn request_blindly(&mut self, request: &Request) -> Result<(), ChannelError> {
        self.send(request, Fds::new())?;
        self.owe(Instant::now());
        Ok(())
    }

    /// Asks for something without being held up by whether it is done, now or when something else is asked: the
    /// answer is nobody's. False if too much of that is under way, or has not been read: it is to be
    /// [asked](Self::request).
    ///
    /// # Errors
    /// The connection has ended.
    pub fn request_in_passing(&mut self, request: &Request) -> Result<bool, ChannelError> {
        self.flush()?;
        self.collect_late()?;
        if self.owed.len() >= MAX_IN_PASSING || self.has_unsent() {
            return Ok(false);
        }
        self.send(request, Fds::new())?;
        self.owed.push_back(Owed::InPassing);
        Ok(true)
    }

    /// Whether the engine owes an answer that nobody waits for any longer, or has not read all.
    pub fn is_owed(&self) -> bool {
        self.owed.contains(&Owed::Late) || self.has_unsent()
    }

    /// An answer that nobody waited for any longer. Never waits.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn take_late(&mut self) -> Result<Option<(Reply, Fds)>, ChannelError> {
        self.flush()?;
        self.collect_late()?;
        Ok(self.late.pop_front())
    }

    /// As [`is_owed`](Self::is_owed), after a look whether the answers have come. They stay to be
    /// [taken](Self::take_late).
    ///
    /// # Errors
    /// The connection has ended.
    pub fn owes_still(&mut self) -> Result<bool, ChannelError> {
        self.flush()?;
        self.collect_late()?;
        Ok(self.is_owed())
    }

    fn owe(&mut self, since: Instant) {
        self.owed.push_back(Owed::Late);
        self.since.get_or_insert(since);
    }

    fn collect_late(&mut self) -> Result<(), ChannelError> {
        while !self.owed.is_empty()
            && let Some(answer) = self.try_receive()?
        {
            if self.owed.pop_front() == Some(Owed::Late) {
                self.late.push_back(answer);
            }
        }
        if !self.is_owed() {
            self.since = None;
        }
        Ok(())
    }

    /// Waits until the engine has read all and answered all, for at most `limit` since it was asked what it
    /// has not answered.
    fn await_late(&mut self, limit: Duration) -> Result<(), ChannelError> {
        let asked = Instant::now();
        loop {
            self.flush()?;
            self.collect_late()?;
            let what = match (self.owed.contains(&Owed::Late), self.has_unsent()) {
                (false, false) => return Ok(()),
                (false, true) => PollFlags::OUT,
                (true, _) => PollFlags::IN,
            };
            let since = *self.since.get_or_insert(asked);
            self.wait(what, counted_from(since, asked, limit), limit)?;
        }
    }

    /// Waits for the answer to what was sent last. Nothing is late: what comes before it was asked in passing.
    fn answer(&mut self, start: Instant, limit: Duration) -> Result<(Reply, Fds), ChannelError> {
        while self.has_unsent() {
            self.wait(PollFlags::OUT, start, limit)?;
            self.flush()?;
        }
        loop {
            match self.try_receive()? {
                Some(answer) if self.owed.pop_front().is_none() => return Ok(answer),
                Some(_) => {}
                None => self.wait(PollFlags::IN, start, limit)?,
            }
        }
    }

    /// Waits until `what` is possible, or `limit` has passed since `start`.
    fn wait(&self, what: PollFlags, start: Instant, limit: Duration) -> Result<(), ChannelError> {
        let left = limit
            .checked_sub(start.elapsed())
            .ok_or(ChannelError::TimedOut(limit))?;
        let left = left.try_into().map_err(|_| ChannelError::TimedOut(limit))?;
        match rustix::event::poll(&mut [PollFd::new(&self.socket, what)], Some(&left)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// From when on the time counts of one who asks now, while an answer has been owed `since`: a twentieth of
/// it is left in any case.
fn counted_from(since: Instant, asked: Instant, limit: Duration) -> Instant {
    let latest = asked.checked_sub(limit - limit / 20);
    latest.map_or(since, |latest| since.max(latest))
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn send_now(socket: BorrowedFd<'_>, bytes: &[u8], fds: &Fds) -> Result<(), Errno> {
    let borrowed: ArrayVec<BorrowedFd<'_>, MAX_FDS> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
        debug_assert!(fits, "space for MAX_FDS descriptors");
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_may_run_again_has_a_moment_to_say_so() {
        let limit = Duration::from_secs(10);
        let since = Instant::now();
        let left = |later: Duration| {
            let asked = since + later;
            (counted_from(since, asked, limit) + limit).saturating_duration_since(asked)
        };
        assert_eq!(left(Duration::ZERO), limit);
        assert_eq!(left(Duration::from_secs(3)), Duration::from_secs(7));
        // Stopped for longer than anybody waits: it is asked all the same.
        let moment = Duration::from_millis(500);
        assert_eq!(left(Duration::from_millis(9_900)), moment);
        assert_eq!(left(Duration::from_secs(600)), moment);
    }
}
