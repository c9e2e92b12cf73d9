//! Ports that programs have bound themselves, for connections from there; and those that they have named without
//! that, which are held for them by a socket of the engine's own.
//!
//! The kernel keeps such a port for the program's own socket, of which the engine holds a duplicate
//! until nothing of its own uses the port any more. It is steered as that of a listener that is gone:
//! new connections, and those that the kernel has there, stay the kernel's.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netdev::Device;
use rustix::io::Errno;
use rustix::net::sockopt;
use tcp::Instant;

use super::Worker;
use crate::config::shares;
use crate::exchange::Tale;
use crate::fast::connections::SessionId;
use crate::network::{Network, Steered};
use crate::stats::Drop;

/// How long a port that was lent is kept for a connection that does not come. A host asks for that as soon as it has
/// its answer. If it has waited for that too long, it has let the kernel connect the socket, and never asks; until the
/// engine closes its duplicate, the program cannot end that connection.
const UNUSED: Duration = Duration::from_secs(5);
/// What counts of that between two looks, at most. They come each second: who has not looked for longer stood still,
/// and has not read meanwhile what it was asked for.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// The ports that were lent.
#[derive(Debug, Default)]
pub(super) struct Lent(Vec<Loan>);

#[derive(Debug)]
struct Loan {
    /// Who lent it; none once it is used.
    session: Option<SessionId>,
    /// It was named and not lent: the socket is the engine's own.
    is_named: bool,
    /// When it was last looked at.
    looked: Instant,
    /// For how long it has been here and was not used.
    unused: Duration,
    /// Whose it counts as.
    uid: u32,
    local: SocketAddr,
    /// Held open for the kernel's sake alone.
    socket: OwnedFd,
}

impl Loan {
    /// Whether it was not used for too long by `now`.
    fn is_overdue(&mut self, now: Instant) -> bool {
        self.unused += now
            .saturating_duration_since(self.looked)
            .min(BETWEEN_LOOKS);
        self.looked = now;
        self.unused >= UNUSED
    }

    /// Its program can hold up whoever closes the socket.
    fn returned(self) -> Tale {
        Tale::Returned(self.uid, vec![self.socket])
    }
}

impl Lent {
    /// Whether there are any: they are looked at now and then.
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// A session opens a connection from `local`: the place of the loan, if it has lent that port. Once for each,
    /// and the last first: who connects has lent it just now.
    pub fn take(&mut self, session: SessionId, local: SocketAddr) -> Option<usize> {
        let of_it = |loan: &Loan| loan.session == Some(session) && loan.local == local;
        let at = self.0.iter().rposition(of_it)?;
        self.0[at].session = None;
        Some(at)
    }

    /// The place of the loan of the same socket, if it was not used. Another may be bound to the same port.
    fn again(&self, session: SessionId, local: SocketAddr, shown: BorrowedFd<'_>) -> Option<usize> {
        let is_same = |loan: &Loan| {
            loan.session == Some(session)
                && loan.local == local
                && sockopt::socket_cookie(&loan.socket) == sockopt::socket_cookie(shown)
        };
        self.0.iter().position(is_same)
    }

    /// The user for whom a port is held that was named.
    fn named_by(&self, port: u16) -> Option<u32> {
        let loan = self
            .0
            .iter()
            .find(|loan| loan.is_named && loan.local.port() == port);
        loan.map(|loan| loan.uid)
    }

    /// A session has ended: what it lent and did not use goes back.
    pub fn forget(&mut self, session: SessionId) -> impl Iterator<Item = Tale> {
        let of_it = move |loan: &mut Loan| loan.session == Some(session);
        self.0.extract_if(.., of_it).map(Loan::returned)
    }

    /// The worker ends: all goes back.
    pub fn end(&mut self) -> impl Iterator<Item = Tale> {
        self.0.drain(..).map(Loan::returned)
    }

    /// What is used no more goes back, and what was not for too long.
    pub fn recheck(
        &mut self,
        now: Instant,
        is_used: impl Fn(u16) -> bool,
    ) -> impl Iterator<Item = Tale> {
        let unused = move |loan: &mut Loan| match loan.session {
            Some(_) => loan.is_overdue(now),
            None => !is_used(loan.local.port()),
        };
        self.0.extract_if(.., unused).map(Loan::returned)
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// A process of this user has shown a socket that is bound to `local`, to open a connection from there.
    pub(super) fn lend_port(
        &mut self,
        session: Option<SessionId>,
        local: SocketAddr,
        socket: OwnedFd,
        uid: u32,
    ) -> Result<(), Errno> {
        // Shown again, because its program has stood still, it is for the same connection.
        let again = session.and_then(|session| self.lent.again(session, local, socket.as_fd()));
        self.give_back_lent(again);
        let kept = self.may_lend(session, local, uid);
        if let Ok(Some(session)) = kept {
            self.lent.0.push(Loan {
                session: Some(session),
                is_named: false,
                looked: self.now,
                unused: Duration::ZERO,
                uid,
                local,
                socket,
            });
        } else {
            self.slow.tell(Tale::Returned(uid, vec![socket]));
        }
        kept.map(drop)
    }

    /// For which session a socket is kept that is bound to `local`, if there is anything to keep.
    fn may_lend(
        &mut self,
        session: Option<SessionId>,
        local: SocketAddr,
        uid: u32,
    ) -> Result<Option<SessionId>, Errno> {
        let session = session.ok_or(Errno::NOTCONN)?;
        let own = self.network.addresses().contains(&local.ip());
        if !(local.ip().is_unspecified() || own || self.is_here(local.ip())) {
            return Err(Errno::OPNOTSUPP);
        }
        if local.port() == 0 {
            return Ok(None);
        }
        self.has_room_to_hold(uid)?;
        Ok(Some(session))
    }

    fn has_room_to_hold(&mut self, uid: u32) -> Result<(), Errno> {
        let limit = self.config.limits.leased_ports as usize;
        if !shares::has_room(limit, uid, self.lent.0.iter().map(|loan| loan.uid)) {
            self.counters.drop(Drop::PortsFull);
            return Err(Errno::NOBUFS);
        }
        Ok(())
    }

    /// Holds a port for a user who has named it, until nothing uses it. Others do not get it meanwhile.
    pub(super) fn hold_port(&mut self, uid: u32, port: u16) -> Result<(), Errno> {
        match self.lent.named_by(port) {
            Some(holder) if holder == uid => return Ok(()),
            Some(_) => return Err(Errno::ADDRINUSE),
            None => {}
        }
        self.has_room_to_hold(uid)?;
        let socket = self.network.hold_port(port)?;
        self.lent.0.push(Loan {
            session: None,
            is_named: true,
            looked: self.now,
            unused: Duration::ZERO,
            uid,
            local: SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
            socket,
        });
        Ok(())
    }

    /// What was [taken](Lent::take) is not used after all.
    pub(super) fn give_back_lent(&mut self, lent: Option<usize>) {
        if let Some(at) = lent {
            let loan = self.lent.0.swap_remove(at);
            self.slow.tell(loan.returned());
        }
    }

    /// Steers a port that was lent for `source`.
    pub(super) fn steer_lent(&mut self, port: u16, source: IpAddr) -> Result<(), Errno> {
        let listens = |listener: &crate::fast::listeners::Listener| {
            listener.local.port() == port && listener.steered.contains(&source)
        };
        // Nothing comes to loopback by the wire.
        let steered = source.is_loopback() || self.listeners.iter().any(listens);
        if !steered && self.closing.add(source, port) {
            self.network
                .steer(source, port, Steered::Closing)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOBUFS))?;
        }
        Ok(())
    }
}
