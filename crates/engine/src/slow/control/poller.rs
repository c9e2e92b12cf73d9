//! One epoll set over everything that is rare: the control socket and its connections, doorbells,
//! processes, the kernel's notifications, signals.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;

use crate::fast::connections::SessionId;

/// What became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Somebody connects to the control socket.
    Listener,
    /// A control connection, by slot.
    Client(u32),
    /// A session's doorbell was rung.
    Bell(SessionId),
    /// A session's process has ended.
    Process(SessionId),
    /// All copies of a fork's lifeline are closed; by slot.
    Lifeline(u32),
    /// The kernel has something to say about the network.
    Network,
    /// The engine is asked to stop.
    Stop,
}

impl Source {
    fn to_word(self) -> u64 {
        let (kind, value) = match self {
            Self::Listener => (0, 0),
            Self::Client(slot) => (1, slot),
            Self::Bell(id) => (2, id.0.into()),
            Self::Process(id) => (3, id.0.into()),
            Self::Lifeline(slot) => (4, slot),
            Self::Network => (5, 0),
            Self::Stop => (6, 0),
        };
        kind << 32 | u64::from(value)
    }

    fn from_word(word: u64) -> Option<Self> {
        let value = word as u32;
        Some(match word >> 32 {
            0 => Self::Listener,
            1 => Self::Client(value),
            2 => Self::Bell(SessionId(value as u16)),
            3 => Self::Process(SessionId(value as u16)),
            4 => Self::Lifeline(value),
            5 => Self::Network,
            6 => Self::Stop,
            _ => return None,
        })
    }
}

/// The set.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// Sources looked at in one go.
const BATCH: usize = 64;

impl Poller {
    /// An empty set.
    pub fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(BATCH),
        })
    }

    /// Adds a descriptor; it leaves the set when it is closed.
    pub fn add(&self, fd: BorrowedFd<'_>, source: Source) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(source.to_word());
        epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)
    }

    /// Sets whether a descriptor in the set is also waited for to become writable.
    pub fn watch_writable(
        &self,
        fd: BorrowedFd<'_>,
        source: Source,
        writable: bool,
    ) -> rustix::io::Result<()> {
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, writable);
        let data = epoll::EventData::new_u64(source.to_word());
        epoll::modify(&self.epoll, fd, data, flags)
    }

    /// Sets whether a descriptor in the set is waited for at all.
    pub fn watch_readable(
        &self,
        fd: BorrowedFd<'_>,
        source: Source,
        readable: bool,
    ) -> rustix::io::Result<()> {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, readable);
        let data = epoll::EventData::new_u64(source.to_word());
        epoll::modify(&self.epoll, fd, data, flags)
    }

    /// What is ready now; never waits.
    pub fn ready(&mut self) -> Vec<Source> {
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        let now = rustix::time::Timespec::default();
        // Interrupted or not, what is ready stays ready.
        let _ = epoll::wait(&self.epoll, spare, Some(&now));
        self.events
            .iter()
            .filter_map(|event| Source::from_word(event.data.u64()))
            .collect()
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_source_is_reported_while_it_is_ready_and_gone_when_closed() {
        let mut poller = Poller::new().expect("a set");
        let (reader, mut writer) = UnixStream::pair().expect("a pair");
        let source = Source::Bell(SessionId(513));
        poller.add(reader.as_fd(), source).expect("added");
        assert_eq!(poller.ready(), []);
        writer.write_all(&[1]).expect("written");
        assert_eq!(poller.ready(), [source]);
        assert_eq!(poller.ready(), [source], "until it is read");
        drop(reader);
        assert_eq!(poller.ready(), []);
    }
}
