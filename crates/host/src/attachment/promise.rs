//! Forks of which an engine that does not run has not heard yet.
//!
//! A fork waits for the engine only for a moment. If there is no answer, the child gets a promise: one end of
//! a socket pair, on which the parent passes the answer on when it comes. Until then the parent keeps
//! everything as it was at the fork: it submits nothing, and accepts nothing that the engine has offered.
//! So the engine, which hears of the fork first, gives the child what its parent had then. What the child
//! closes meanwhile it says on the promise, and the parent says it on: whichever of its threads comes by, and one that
//! [sees to it](crate::Promised), since all may sleep in the kernel, and wait for that child.
//!
//! If the parent ends before the engine runs again, its child has none of its connections.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use queue_pair::control::{ChannelError, Farewell, Fds, Reply, Request};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown,
    SocketFlags, SocketType,
};

use super::Attachment;
use super::connection::Connection;
use super::control::{Control, RUNS_WITHIN, ask, has_hung_up};
use crate::inheritance::{Given, Inheritance, Promise};
use crate::lock::lock;
use crate::locks::Locks;
use crate::private_fds::{Private, lift};
use crate::reserve;

/// What was promised to children, in the order of the forks.
#[derive(Default)]
pub(super) struct Promises {
    /// Whether there are any.
    pub(super) keeps: AtomicBool,
    /// `None` for a fork whose child has been promised nothing.
    pub(super) to: Mutex<VecDeque<Option<Private<OwnedFd>>>>,
}

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// Asks for references for a child, which has none of what its parent has if there is an error.
    ///
    /// What answers that come late have changed is left for [`catch_up`](Self::catch_up), since locks are held.
    ///
    /// # Errors
    /// `EMFILE`: there are no descriptors left. Otherwise the engine's, or it is not there.
    pub(crate) fn ask_to_fork(&self, has_connections: bool) -> Result<Inheritance, Errno> {
        // Which comes with the answer.
        reserve::give_up(1);
        loop {
            match self.ask_once_to_fork(has_connections) {
                // Another thread was faster. What the engine holds for this child ends with its lifeline.
                Err(Errno::MFILE) if reserve::give_up(1) > 0 => {}
                answer => return answer,
            }
        }
    }

    fn ask_once_to_fork(&self, has_connections: bool) -> Result<Inheritance, Errno> {
        let answer = self.with_control(|control| {
            let owed = control.get_mut().owes_still();
            if owed.is_ok_and(|owed| !owed) {
                return ask(control, &Request::Fork, Fds::new(), RUNS_WITHIN);
            }
            // It was waited for before, and has not run since.
            if !has_connections {
                return Err(Errno::AGAIN);
            }
            let told = control.get_mut().request_blindly(&Request::Fork);
            Err(match told {
                Ok(()) => Errno::TIMEDOUT,
                Err(ChannelError::Closed) => Errno::CONNRESET,
                // So many wait already that there is no room for one more.
                Err(_) => Errno::NOBUFS,
            })
        });
        match answer.unwrap_or(Err(Errno::CONNRESET)) {
            Ok((Reply::Forked { token }, mut fds)) => {
                let lifeline = fds.pop().ok_or(Errno::MFILE)?;
                Ok(Inheritance::Given(Given {
                    token,
                    lifeline: Private::new(lift(lifeline)),
                }))
            }
            Err(Errno::TIMEDOUT) => {
                self.unanswered.store(true, Ordering::Relaxed);
                // A child without references has the kernel's part of a listener all the same.
                let ends = has_connections.then(|| reserve::spare(2, pair));
                let (ends, none) = match ends {
                    Some(Ok(ends)) => (Some(ends), Errno::TIMEDOUT),
                    Some(Err(error)) => (None, error),
                    None => (None, Errno::TIMEDOUT),
                };
                let (ours, theirs) = ends.unzip();
                if ours.is_some() {
                    self.promises.keeps.store(true, Ordering::Relaxed);
                }
                // The engine answers in any case.
                lock(&self.promises.to).push_back(ours);
                let theirs = theirs.ok_or(none)?;
                Ok(Inheritance::Promised(Promise::new(theirs)))
            }
            Err(error) => {
                if matches!(error, Errno::PROTO | Errno::CONNRESET) {
                    self.condemn();
                }
                Err(error)
            }
            Ok(_) => Err(Errno::PROTO),
        }
    }

    /// Takes the lock, for a fork.
    pub(super) fn lock_promises<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.promises.to);
    }

    /// Whether everything is to stay as it was at a fork of which the engine has not heard.
    pub(crate) fn keeps_still(&self) -> bool {
        self.promises.keeps.load(Ordering::Relaxed)
    }

    /// Looks whether the engine has answered those who were promised something, or has ended. Whether nobody waits for
    /// that any more.
    pub(crate) fn looks_after_promises(self: &Arc<Self>) -> bool {
        if !self.keeps_still() || !self.is_live() {
            return true;
        }
        self.catch_up();
        let has_ended = self.with_control(|control| has_hung_up(control));
        if self.keeps_still() && has_ended == Some(true) {
            self.condemn();
            self.pump();
        }
        !self.keeps_still()
    }

    /// With the engine's answers come descriptors for those who were promised something.
    pub(super) fn make_room_for_promised(&self) {
        let promised = lock(&self.promises.to).iter().flatten().count();
        reserve::give_up(promised);
    }

    /// The engine has heard of the first of these forks.
    pub(super) fn keep_promise(&self, token: u64, lifeline: Option<OwnedFd>) {
        let promise = lock(&self.promises.to).pop_front().flatten();
        if let (Some(promise), Some(lifeline)) = (promise, lifeline) {
            // Whom it concerns may have ended.
            let _ = pass_on(&promise, token, &lifeline);
        }
        // What was kept for this answer.
        reserve::refill();
    }

    /// Nothing of what was promised can be kept: the engine has ended, or this is the child of a fork, and
    /// what was promised to others is its parent's to keep.
    pub(super) fn forget_promises(&self) {
        self.promises.keeps.store(false, Ordering::Relaxed);
        lock(&self.promises.to).clear();
    }

    pub(super) fn with_control<T>(&self, act: impl FnOnce(&mut Control) -> T) -> Option<T> {
        lock(&self.control).as_mut().map(act)
    }
}

/// Both ends of a promise: the parent's and the child's.
fn pair() -> Result<(Private<OwnedFd>, OwnedFd), Errno> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (ours, theirs) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
    Ok((Private::new(lift(ours)), theirs))
}

/// Tells a child of its references, and the engine what the child has said meanwhile.
fn pass_on(promise: &Private<OwnedFd>, token: u64, lifeline: &OwnedFd) -> Result<(), Errno> {
    // What it says from now on it is told that it has to say elsewhere.
    rustix::net::shutdown(promise, Shutdown::Read)?;
    let mut said = [0; Farewell::LEN];
    let now = RecvFlags::DONTWAIT;
    while let Ok((Farewell::LEN, _)) = rustix::net::recv(promise, &mut said, now) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::send(lifeline, &said, flags)?;
    }
    let along = [lifeline.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&along));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let token = token.to_ne_bytes();
    rustix::net::sendmsg(promise, &[IoSlice::new(&token)], &mut control, flags)?;
    Ok(())
}
