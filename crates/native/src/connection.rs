//! One connection of a queue, and what its readiness means to the program.

use std::net::IpAddr;

use host::{Errno, Readiness};

use crate::event::{Event, Handle, Kind};
use crate::memory::Memory;
use crate::post::Post;
use crate::seldom::Seldom;
use crate::sends::{Back, Send, Sends};
use crate::stream::Stream;

/// A connection. There may be a million.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) cookie: u64,
    pub(crate) life: Life,
    /// What ended it, once that is known.
    failed: Option<Errno>,
    /// A send found no room.
    pub(crate) wants_room: bool,
    /// Asynchronous sends that have not come back.
    sends: Sends,
    /// It stands in the queue's list of those that are looked at for sends that have come back.
    pub(crate) is_awaited: bool,
    /// Some have come back since it was last looked at.
    came_back: bool,
    /// The engine is to tell of the next that comes back, though room is wanted.
    is_told: bool,
    /// Views that are not released.
    pub(crate) views: u32,
    /// Posted buffers that the library fills; the engine's are the socket's.
    pub(crate) posts: Seldom<Post>,
    /// So many bytes are told of at once in a posted buffer; 0: what has come between two looks.
    pub(crate) unit: u32,
    /// What it counts by, where there is a policy.
    pub(crate) admitted: Option<Box<Ticket>>,
}

/// By which listener's policy a connection counts.
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    pub(crate) listener: Handle,
    /// The number of the policy.
    pub(crate) number: u64,
    pub(crate) from: IpAddr,
    /// The engine has admitted it, and counts it.
    pub(crate) by_engine: bool,
}

/// Where it is in its life, as the program has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Opening,
    Open,
    /// [`Kind::End`] was told.
    Over,
    /// The program has closed it, and the kernel has yet to take what was committed.
    Closing,
}

impl Connection {
    pub(crate) fn new(stream: Stream, life: Life, cookie: u64) -> Self {
        let mut connection = Self {
            stream,
            cookie,
            life,
            failed: None,
            wants_room: false,
            sends: Sends::default(),
            is_awaited: false,
            came_back: false,
            is_told: false,
            views: 0,
            posts: Seldom::new(),
            unit: 0,
            admitted: None,
        };
        connection.want_room(false);
        connection
    }

    /// Takes note of an error that a call met, and passes it on. One that has ended the connection is told
    /// once, and this was it: what else is to be told of the end knows it from here.
    pub(crate) fn note(&mut self, errno: Errno) -> Errno {
        let of_the_call = match errno {
            Errno::AGAIN | Errno::BUSY | Errno::INTR | Errno::NOTCONN => true,
            Errno::INVAL | Errno::STALE | Errno::FAULT | Errno::NOBUFS | Errno::NOMEM => true,
            // Without that it is what a reset is to who could still write after the peer's end.
            Errno::PIPE => self.stream.has_shut_writing(),
            _ => false,
        };
        if !of_the_call && self.stream.is_over() {
            self.failed.get_or_insert(errno);
        }
        errno
    }

    /// A send found no room, which is told when there is some, or met an error.
    pub(crate) fn refuse(&mut self, errno: Errno) -> Errno {
        if errno == Errno::AGAIN {
            self.want_room(true);
        }
        self.note(errno)
    }

    /// Takes note of an error that a send has met after some of it was taken.
    pub(crate) fn note_what_sends_met(&mut self) {
        if let Stream::Kernel(stream) = &self.stream
            && let Some(errno) = stream.met
        {
            self.note(errno);
        }
    }

    /// Whether something of it is staged.
    pub(crate) fn is_staged(&self) -> bool {
        matches!(&self.stream, Stream::Kernel(stream) if stream.staged.is_some())
    }

    /// Nothing is left to be received: by agreement, or because of an error, which whoever told of it
    /// has taken from the socket.
    ///
    /// # Errors
    /// What ended the connection.
    pub(crate) fn ended(&self) -> Result<(), Errno> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Takes note of `bytes` that were just sent and come back as `back` says.
    pub(crate) fn remember(&mut self, back: Back, bytes: usize, memory: Vec<Memory>) {
        let (cookie, is_to_leave) = match back {
            Back::Never => return,
            Back::Acknowledged(cookie) => (cookie, false),
            Back::Left(cookie) => (cookie, true),
        };
        let end = self.stream.written();
        let send = Send {
            end,
            cookie,
            bytes: bytes as u64,
            _memory: memory,
        };
        let is_first = self.sends.push(send, is_to_leave);
        if let (Stream::Engine(socket), true) = (&self.stream, is_first) {
            match is_to_leave {
                true => socket.tell_when_departed(Some(end)),
                false => self.mark_acknowledged(),
            }
        }
    }

    /// Says whether the program is to be told of room to send into.
    pub(crate) fn want_room(&mut self, wanted: bool) {
        if std::mem::replace(&mut self.wants_room, wanted) != wanted {
            self.is_told = false;
        }
        if let Stream::Engine(socket) = &self.stream {
            socket.waits_for_room(wanted);
        }
        if !self.sends.is_empty() {
            self.mark_acknowledged();
        }
    }

    /// Has the engine wake the program when the first send that waits for that is acknowledged. A program that was
    /// refused room hears of its sends when there is some, and now and then until then: on a slow link it would be
    /// woken for each of them otherwise, only to be refused again. Unless none has come back [from one look to the
    /// next](Self::ask).
    fn mark_acknowledged(&self) {
        if let Stream::Engine(socket) = &self.stream {
            let first = self.sends.first_to_acknowledge();
            socket.tell_when_acknowledged(first.filter(|_| !self.wants_room || self.is_told));
        }
    }

    /// Whether a send is to be refused without a try: one was, and since then there has not been room that is worth
    /// writing into. To write into whatever has become free would make small pieces, each with a wake-up of its own.
    pub(crate) fn is_refused(&self) -> bool {
        match &self.stream {
            Stream::Engine(socket) => self.wants_room && socket.has_no_room(),
            Stream::Kernel(_) => false,
        }
    }

    /// Bytes that were sent and are not known to be acknowledged.
    pub(crate) fn unacknowledged(&mut self) -> u64 {
        match &self.stream {
            Stream::Engine(socket) => socket.unsent(),
            Stream::Kernel(stream) => stream.written() - stream.acknowledged(),
        }
    }

    /// Tells what its readiness means. `handle` is its own.
    pub(crate) fn tell(&mut self, handle: Handle, ready: Readiness, mut tell: impl FnMut(Event)) {
        let cookie = self.cookie;
        let event = |kind, error: Option<Errno>, bytes| Event {
            kind,
            error: error.map_or(0, Errno::raw_os_error),
            handle,
            cookie,
            bytes,
        };
        if let Stream::Kernel(stream) = &mut self.stream {
            stream.told(ready);
        }
        if self.life == Life::Opening {
            if !ready.intersects(Readiness::OUT | Readiness::ERR | Readiness::HUP) {
                return;
            }
            if self.failed.is_none() {
                // Unless a call has met it.
                self.failed = self.opened().err();
            }
            self.life = if self.failed.is_some() {
                Life::Over
            } else {
                Life::Open
            };
            tell(event(Kind::Open, self.failed, 0));
        }
        if ready.intersects(Readiness::ERR)
            && let Some(errno) = self.stream.take_error()
        {
            self.failed.get_or_insert(errno);
        }
        if ready.intersects(Readiness::OUT)
            && let Stream::Kernel(stream) = &mut self.stream
            && let Err(errno) = stream.flush()
            && errno != Errno::AGAIN
        {
            self.failed.get_or_insert(errno);
        }
        if ready.intersects(Readiness::ERR)
            && self.sends.is_empty()
            && let Stream::Kernel(stream) = &self.stream
        {
            // Once it is asked for, it is told of each send, also of those that do not come back: where none does,
            // nobody looks for it.
            stream.forget_notifications();
        }
        self.tell_sends(handle, &mut tell);
        if matches!(self.life, Life::Over | Life::Closing) {
            return;
        }
        let arrives = ready.intersects(Readiness::IN | Readiness::RDHUP);
        if arrives || self.failed.is_some() || ready.intersects(Readiness::HUP) {
            self.tell_placed(handle, &mut tell);
        }
        if arrives && !self.is_posted() {
            tell(event(Kind::Receive, None, self.stream.available()));
        }
        if self.failed.is_some() || ready.intersects(Readiness::HUP) {
            self.life = Life::Over;
            tell(event(Kind::End, self.failed, 0));
        } else if self.wants_room && ready.intersects(Readiness::OUT) {
            self.want_room(false);
            tell(event(Kind::Room, None, 0));
        }
    }

    /// Whether what was being opened is open.
    fn opened(&mut self) -> Result<(), Errno> {
        if let Some(errno) = self.stream.take_error() {
            return Err(errno);
        }
        match &self.stream {
            Stream::Engine(socket) if socket.is_connected() => Ok(()),
            Stream::Engine(_) => Err(Errno::CONNREFUSED),
            Stream::Kernel(_) => Ok(()),
        }
    }

    /// Tells which asynchronous sends have come back.
    pub(crate) fn tell_sends(&mut self, handle: Handle, mut tell: impl FnMut(Event)) {
        if self.sends.is_empty() {
            return;
        }
        // In this order: of one that is over nothing more is acknowledged.
        let is_over = self.stream.is_over();
        if is_over && self.failed.is_none() {
            // What was collected of it may be older than its end.
            self.failed = self.stream.take_error();
        }
        let acknowledged = self.stream.acknowledged();
        let to_leave = self.sends.first_to_leave();
        let left = to_leave.map_or(0, |_| self.stream.left());
        while let Some((send, is_back)) = self.sends.next_back(acknowledged, left, is_over) {
            (self.came_back, self.is_told) = (true, false);
            let error = match is_back {
                true => None,
                false => Some(self.failed.unwrap_or(Errno::PIPE)),
            };
            tell(Event {
                kind: Kind::Sent,
                error: error.map_or(0, Errno::raw_os_error),
                handle,
                cookie: send.cookie,
                bytes: send.bytes,
            });
        }
        if let Stream::Engine(socket) = &self.stream {
            self.mark_acknowledged();
            if to_leave.is_some() {
                socket.tell_when_departed(self.sends.first_to_leave());
            }
        }
    }

    /// Whether asynchronous sends have not come back of which nobody may tell when they do: the kernel, or an engine
    /// that was asked for room alone.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        match &self.stream {
            Stream::Kernel(_) => !self.sends.is_empty(),
            Stream::Engine(_) => {
                let awaits = self.sends.first_to_acknowledge().is_some();
                awaits && self.wants_room && !self.is_told
            }
        }
    }

    /// Looks for sends that have come back of which nobody may have told. Returns whether it is to be looked at again.
    /// Where none has come back since the last look, the engine is to tell of the next: of peers that are slow, or
    /// gone, there may be many, and to look at them would never end.
    pub(crate) fn ask(&mut self, handle: Handle, tell: impl FnMut(Event)) -> bool {
        self.tell_sends(handle, tell);
        let came_back = std::mem::take(&mut self.came_back);
        if !came_back && self.wants_room && !self.sends.is_empty() {
            self.is_told = true;
            self.mark_acknowledged();
        }
        self.is_awaited = self.is_to_be_asked();
        self.is_awaited
    }

    /// Whether the kernel has all that the program has committed, or wants no more.
    pub(crate) fn is_flushed(&mut self) -> bool {
        match &mut self.stream {
            Stream::Engine(_) => true,
            Stream::Kernel(stream) => stream.flush() != Err(Errno::AGAIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Connection;

    #[test]
    fn a_connection_is_small() {
        // With its length it takes 80 bytes of the allocator's.
        assert!(size_of::<Connection>() <= 72, "{}", size_of::<Connection>());
    }
}
