//! An epoll set over what is rare; each half of the engine has one.

use core::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use arrayvec::ArrayVec;
use rustix::event::epoll;
use rustix::time::Timespec;

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
    /// The process of a control connection has ended, by slot.
    Process(u32),
    /// All copies of a fork's lifeline are closed; by slot.
    Lifeline(u32),
    /// The kernel has something to say about the network.
    Network,
    /// The kernel has something to say about netfilter.
    Netfilter,
    /// The engine is asked to stop.
    Stop,
    /// The slow half has orders.
    Orders,
    /// The fast half has something to tell.
    Tales,
    /// Memory was given back to the machine, or cannot be.
    Reclaimed,
    /// Another worker has handed something over.
    Handoff,
    /// Part of a file is in memory, or cannot be.
    Fetched,
    /// Descriptors of a program's are closed, or cannot be.
    Closed,
    /// The kernel has something to say about interfaces.
    Interfaces,
    /// The opener's process has ended.
    Opener,
}

impl Source {
    fn to_word(self) -> u64 {
        let (kind, value) = match self {
            Self::Listener => (0, 0),
            Self::Client(slot) => (1, slot),
            Self::Bell(id) => (2, id.0.into()),
            Self::Process(slot) => (3, slot),
            Self::Lifeline(slot) => (4, slot),
            Self::Network => (5, 0),
            Self::Stop => (6, 0),
            Self::Orders => (7, 0),
            Self::Tales => (8, 0),
            Self::Netfilter => (9, 0),
            Self::Reclaimed => (10, 0),
            Self::Handoff => (11, 0),
            Self::Fetched => (12, 0),
            Self::Closed => (13, 0),
            Self::Interfaces => (14, 0),
            Self::Opener => (15, 0),
        };
        kind << 32 | u64::from(value)
    }

    fn from_word(word: u64) -> Option<Self> {
        let value = word as u32;
        Some(match word >> 32 {
            0 => Self::Listener,
            1 => Self::Client(value),
            2 => Self::Bell(SessionId(value as u16)),
            3 => Self::Process(value),
            4 => Self::Lifeline(value),
            5 => Self::Network,
            6 => Self::Stop,
            7 => Self::Orders,
            8 => Self::Tales,
            9 => Self::Netfilter,
            10 => Self::Reclaimed,
            11 => Self::Handoff,
            12 => Self::Fetched,
            13 => Self::Closed,
            14 => Self::Interfaces,
            15 => Self::Opener,
            _ => return None,
        })
    }
}

/// The set.
pub struct Poller {
    epoll: OwnedFd,
}

/// Sources looked at in one go.
pub const BATCH: usize = 64;

impl Poller {
    /// An empty set.
    pub fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        })
    }

    /// Adds a descriptor; it leaves the set when it is closed.
    pub fn add(&self, fd: BorrowedFd<'_>, source: Source) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(source.to_word());
        epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)
    }

    /// Takes a descriptor out that is not closed yet.
    pub fn remove(&self, fd: BorrowedFd<'_>) {
        // One that is not in the set need not be taken out.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Sets whether a descriptor in the set is waited for to become readable, writable, both or
    /// neither. That its other end is closed is told in any case.
    pub fn watch(
        &self,
        fd: BorrowedFd<'_>,
        source: Source,
        readable: bool,
        writable: bool,
    ) -> rustix::io::Result<()> {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, readable);
        flags.set(epoll::EventFlags::OUT, writable);
        let data = epoll::EventData::new_u64(source.to_word());
        epoll::modify(&self.epoll, fd, data, flags)
    }

    /// What is ready now; never waits.
    pub fn ready(&self) -> ArrayVec<Source, BATCH> {
        self.wait(Some(&Timespec::default()))
    }

    /// What is ready, at last after `limit`; without a limit as long as it takes.
    pub fn wait(&self, limit: Option<&Timespec>) -> ArrayVec<Source, BATCH> {
        let mut events = [const { MaybeUninit::uninit() }; BATCH];
        // Interrupted or not, what is ready stays ready.
        let Ok((ready, _)) = epoll::wait(&self.epoll, &mut events, limit) else {
            return ArrayVec::new();
        };
        let sources = ready.iter();
        sources
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
        let poller = Poller::new().expect("a set");
        let (reader, mut writer) = UnixStream::pair().expect("a pair");
        let source = Source::Bell(SessionId(513));
        poller.add(reader.as_fd(), source).expect("added");
        assert!(poller.ready().is_empty());
        writer.write_all(&[1]).expect("written");
        assert_eq!(poller.ready().as_slice(), [source]);
        assert_eq!(poller.ready().as_slice(), [source], "until it is read");
        drop(reader);
        assert!(poller.ready().is_empty());
    }
}
