//! What a process is given that attaches: memory, doorbells, a place.

use std::os::fd::OwnedFd;

use queue_pair::{EngineSide, Layout, Sizes, region};
use rustix::io::Errno;

use super::{Desk, doorbells};
use crate::config::shares::{self, SCARCE};
use crate::exchange::{Ask, ClientKey, Inherited, WorkerId};
use crate::fast::session::{EndReason, Process, Session};
use crate::slow::control::Pending;
use crate::slow::kernel::processes::{Unwatched, descriptor_of};
use crate::stats::Drop;

/// Why a process cannot attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoSession {
    /// Its user has as many as one may have.
    #[error(
        "most places are taken, and its user has as many sessions as limits.sessions_per_user allows"
    )]
    OfUser,
    /// All places are taken.
    #[error("there are as many sessions as limits.sessions allows")]
    Full,
    /// The kernel gives no memory, or no descriptors.
    #[error("the kernel gives no memory for a session: {0}")]
    Kernel(Errno),
}

/// The worker that a process goes to, and what it brings from the fork that it came out of.
#[derive(Debug)]
pub(super) struct Heritage {
    /// The worker.
    pub(super) home: WorkerId,
    /// The fork, if its parent is there, too.
    pub(super) fork_token: Option<u64>,
    /// If not, the listeners that it has inherited.
    pub(super) inherits: Vec<Inherited>,
    /// Who holds them for it until it is there, by the name of its fork.
    pub(super) held_at: Option<(WorkerId, u64)>,
}

impl Heritage {
    /// Nothing but what the worker knows by itself.
    pub(super) fn none(fork_token: Option<u64>, home: WorkerId) -> Self {
        Self {
            home,
            fork_token,
            inherits: Vec::new(),
            held_at: None,
        }
    }
}

impl NoSession {
    /// The errno to answer with.
    pub(super) fn errno(self) -> Errno {
        match self {
            Self::OfUser | Self::Full => Errno::AGAIN,
            Self::Kernel(errno) => errno,
        }
    }
}

fn of_kernel(error: std::io::Error) -> NoSession {
    NoSession::Kernel(Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))
}

impl Desk {
    /// Makes all of a session, to be taken in: one that speaks `version`, and is to be told of that or
    /// not.
    pub(super) fn make_session(
        &mut self,
        client: ClientKey,
        process: Process,
        (version, tell): (u32, bool),
        heritage: Heritage,
    ) -> Result<(Ask, Pending), NoSession> {
        self.has_place(process.uid)?;
        let (region, engine_side) = self.make_region(version)?;
        let (doorbell, bell) = doorbells::heard().map_err(of_kernel)?;
        let (waker, hears) = doorbells::rung().map_err(of_kernel)?;
        self.numbers = self.numbers.wrapping_add(1);
        *self.sessions.entry(process.uid).or_default() += 1;
        let pending = Pending::Attach {
            process: process.clone(),
            version: tell.then_some(version),
            region,
            doorbell: doorbell.into(),
            waker: hears.into(),
            held_at: heritage.held_at,
        };
        let session = Session::new(self.numbers, client, process, engine_side, bell, waker);
        let ask = Ask::Attach {
            session: Box::new(session),
            fork_token: heritage.fork_token,
            inherits: heritage.inherits,
        };
        Ok((ask, pending))
    }

    /// Whether there is a place for one more session of a user; the last are for root alone. Those that have ended count while they
    /// hold memory: else a user could have any number.
    fn has_place(&mut self, uid: u32) -> Result<(), NoSession> {
        let limits = &self.facts.limits;
        let taken: usize = self.sessions.values().sum();
        // A share binds only when others may need what is left: of the last quarter.
        let left = (limits.sessions as usize).saturating_sub(taken);
        let scarce = left <= limits.sessions as usize / SCARCE;
        let of = |uid| self.sessions.get(&uid).copied().unwrap_or(0);
        let of_user = of(uid);
        let kept = limits.sessions as usize / shares::ROOTS_SHARE;
        let left = match uid {
            shares::ROOT => left,
            _ => left.saturating_sub(kept.saturating_sub(of(shares::ROOT))),
        };
        if scarce && of_user >= limits.sessions_per_user as usize {
            self.counters.drop(Drop::SessionsOfUser);
            return Err(NoSession::OfUser);
        }
        if left == 0 {
            self.counters.drop(Drop::SessionsFull);
            return Err(NoSession::Full);
        }
        Ok(())
    }

    fn make_region(&self, version: u32) -> Result<(OwnedFd, EngineSide), NoSession> {
        let limits = &self.facts.limits;
        let page = u64::from(queue_pair::RECEIVE_CHUNK);
        let layout = Layout::new(Sizes {
            submission_entries: limits.ring_entries,
            completion_entries: limits.ring_entries,
            positions: limits.connections,
            send_len: u64::from(limits.send_area).next_multiple_of(page),
            receive_len: u64::from(limits.receive_area).next_multiple_of(page),
        })
        .map_err(|_| NoSession::Kernel(Errno::INVAL))?
        .of_version(version);
        region::create(&layout).map_err(of_kernel)
    }

    /// A descriptor of the process at the other end: from the socket itself, or, on kernels that
    /// cannot say, by its number.
    pub(super) fn process_descriptor(&mut self, slot: u32, pid: u32) -> Result<OwnedFd, Unwatched> {
        let came = self.control.client(slot).map(|client| client.came);
        let fd = self.control.client_fd(slot);
        let (Some(came), Some(fd)) = (came, fd) else {
            return Err(Unwatched::Gone);
        };
        netdev::syscalls::peer_pidfd(fd).or_else(|_| descriptor_of(pid, came))
    }

    /// The session of a connection ends with this process, however many have the connection: with one that has ended
    /// already, at once.
    pub(super) fn watch(&mut self, slot: u32, process: Result<OwnedFd, Unwatched>) {
        let watched = process.and_then(|process| Ok(self.control.watch_process(slot, process)?));
        match watched {
            Ok(()) => {}
            Err(Unwatched::Gone) => self.end_client(slot, EndReason::Gone),
            Err(Unwatched::Unknown(error)) => {
                tracing::warn!(%error, "a session's process cannot be polled");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::exchange::{self, Order, SessionKey};
    use crate::fast::connections::SessionId;
    use crate::slow::control::Control;
    use crate::slow::desk::Facts;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// A child of it may have its connection, which nobody would ever close.
    #[test]
    fn a_session_whose_process_has_ended_already_ends() {
        let config = Config::default();
        let control = Control::without_socket(&config.limits).expect("descriptors");
        let (to_fast, mut to_slow) = exchange::pair(&config.limits).expect("descriptors");
        let mut desk = Desk::new(Facts::new(&config, [1], 0), control, to_fast).expect("polled");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (_ours, theirs) = pair.expect("descriptors");
        let slot = desk.control.add_client(theirs).expect("room");
        let session = SessionKey {
            id: SessionId(7),
            number: 9,
        };
        desk.control.client(slot).expect("just added").session = Some(session);
        for reason in [Unwatched::Unknown(Errno::MFILE), Unwatched::Gone] {
            assert!(to_slow.order().is_none());
            assert!(desk.control.client(slot).is_some());
            desk.watch(slot, Err(reason));
        }
        assert!(desk.control.client(slot).is_none());
        let told = to_slow.order();
        let ends = matches!(told, Some(Order::End(ended, EndReason::Gone)) if ended == session);
        assert!(ends, "{told:?}");
    }

    #[test]
    fn the_last_sessions_are_roots() {
        let mut config = Config::default();
        (config.limits.sessions, config.limits.sessions_per_user) = (16, 16);
        let control = Control::without_socket(&config.limits).expect("descriptors");
        let (to_fast, _to_slow) = exchange::pair(&config.limits).expect("descriptors");
        let mut desk = Desk::new(Facts::new(&config, [1], 0), control, to_fast).expect("polled");
        desk.sessions.insert(1000, 13);
        assert_eq!(desk.has_place(1001), Ok(()));
        desk.sessions.insert(1000, 14);
        assert_eq!(desk.has_place(1001), Err(NoSession::Full));
        assert_eq!(desk.has_place(shares::ROOT), Ok(()));
        // What root has already is not kept once more.
        desk.sessions.extend([(1000, 13), (shares::ROOT, 2)]);
        assert_eq!(desk.has_place(1001), Ok(()));
        desk.sessions.insert(1000, 14);
        assert_eq!(desk.has_place(shares::ROOT), Err(NoSession::Full));
        assert_eq!(desk.counters.dropped(Drop::SessionsFull), 2);
    }
}
