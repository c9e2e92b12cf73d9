//! What happens to a session when the process forks.
//!
//! The region is not inherited: two processes cannot both be the one producer of a ring. Before the
//! fork the engine takes a reference, under a token, on everything that the session has, and gives a
//! *lifeline*: a descriptor of which the child keeps a copy, so that the engine notices if the child
//! ends, or becomes another program, without ever having shown the token. The child attaches with it
//! when it first touches a listener or socket; what it closes before that it says on the lifeline.
//! Then a listener serves both processes, and both read and write the connections that they have
//! together.
//!
//! None of this needs a descriptor that a process which has all it may have could not make: see [`reserve`].
//!
//! The steps are made for `pthread_atfork`: none needs to know the other process, none waits for it,
//! and each is harmless if there is no engine. A vfork needs none of this, since its child touches
//! nothing.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use queue_pair::control::KNOCK;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::ahead::Ahead;
use crate::attachment::{self, Control};
use crate::inheritance::{Given, Inheritance};
use crate::quiet::{Quiet, await_calm, quiet};
use crate::reserve;
use crate::session::{Bereft, CALL, Session, SessionCore};
use crate::socket::Attachment;

/// What the child of a fork needs to become its parent's heir. The parent drops it after the fork.
pub struct ForkToken {
    inheritance: Option<Inheritance>,
    /// Why the child has no connections, if it was to have some.
    bereft: Option<Bereft>,
    /// Every lock, so that none stays locked in the child by a thread that is not there.
    quiet: Quiet,
    /// Dropped last, when everything is unlocked.
    afterwards: Afterwards,
}

/// What the parent does after a fork.
#[derive(Default)]
struct Afterwards {
    /// The session, if a child inherits something of it, or was to.
    session: Option<Arc<SessionCore>>,
    /// Whose threads may have to see to it that the child has what it was promised.
    promises: Option<Arc<Attachment>>,
    /// The child was to have connections, and has none for want of descriptors.
    is_bereft: bool,
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        // What was given up for the child.
        reserve::refill();
        if let Some(attachment) = &self.promises {
            session.nudges.nudge_all();
            attachment.wake_all_parked();
        }
        if self.is_bereft {
            session.remark(CALL, Bereft::OfDescriptors.parents());
        }
    }
}

/// What this process has promised to children of which an engine that does not run has not heard.
pub struct Promised(Arc<Attachment>);

/// How often one looks whether the engine has heard of them.
const LOOKS: Duration = Duration::from_millis(10);

impl Promised {
    /// Passes on what the engine answers, when it runs again, or has ended. Until then this waits.
    pub fn see_to_it(self) {
        while !self.are_kept() {
            std::thread::sleep(LOOKS);
        }
    }

    /// Passes it on if the engine has answered by now. Whether nothing is promised any more.
    pub fn are_kept(&self) -> bool {
        self.0.looks_after_promises()
    }
}

impl Given {
    /// A connection to the engine, for a child whom the path of the control socket leads there no more: it
    /// brings one of its own.
    pub(crate) fn knock(&self) -> Result<Control, Errno> {
        let (ours, theirs) = attachment::pair()?;
        let theirs = [theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut along = SendAncillaryBuffer::new(&mut space);
        along.push(SendAncillaryMessage::ScmRights(&theirs));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let message = [IoSlice::new(&KNOCK)];
        rustix::net::sendmsg(&self.lifeline, &message, &mut along, flags)?;
        Ok(ours)
    }
}

impl Session {
    /// Before a fork, and before the caller takes locks of its own for that: waits until nobody waits for the engine
    /// who has locked something. Nobody begins to, for long, until what comes back is dropped, which is to be when the
    /// [token](Self::before_fork) is there. The calling thread must not be in a call of this crate already.
    pub fn await_calm(&self) -> Ahead {
        let core = self.core();
        let ahead = core.forks.one_more();
        core.inherits_before_fork(true);
        await_calm(core);
        ahead
    }

    /// Before a fork, in the parent: the engine takes its references. Until the token is dropped, or
    /// handed to the child's side, no other thread gets far in this crate. The calling thread must not be in a call
    /// of this crate already. Who is, and waits for the engine, is waited for.
    pub fn before_fork(&self) -> ForkToken {
        self.forks(true)
    }

    /// The same for a thread that forks in a signal handler, which may have interrupted a call of this crate: the child
    /// may meet what that one has locked, and must not go on with it.
    pub fn before_fork_in_call(&self) -> ForkToken {
        self.forks(false)
    }

    fn forks(&self, holds_none: bool) -> ForkToken {
        let core = self.core();
        let _ahead = core.forks.one_more();
        let is_without = !core.inherits_before_fork(holds_none);
        // First: what another thread accepted or opened while the engine is asked would be the child's
        // in its own eyes, and not in the engine's.
        let mut quiet = quiet(core, holds_none);
        let attachment = quiet.attachment_with_something();
        let answer = attachment.as_ref().map(|attachment| {
            attachment.forking();
            attachment.ask_to_fork(quiet.has_connections())
        });
        quiet.complete(holds_none);
        let want = matches!(answer, Some(Err(Errno::MFILE | Errno::NFILE)));
        let inheritance = answer.and_then(Result::ok);
        let promised = matches!(inheritance, Some(Inheritance::Promised(_)));
        let afterwards = Afterwards {
            session: attachment.as_ref().map(|_| Arc::clone(core)),
            promises: attachment.filter(|_| promised),
            is_bereft: want && quiet.has_connections(),
        };
        let bereft = match afterwards.is_bereft {
            true => Some(Bereft::OfDescriptors),
            false => is_without.then_some(Bereft::OfEngine),
        };
        ForkToken {
            inheritance,
            bereft,
            quiet,
            afterwards,
        }
    }

    /// After a fork, in the parent: what it has promised to children, if it has. They wait for that, which the parent's
    /// threads pass on when they come by; where none may, one has to [see to it](Promised::see_to_it).
    pub fn promised(&self) -> Option<Promised> {
        let attachment = self.core().present();
        attachment.filter(|it| it.keeps_still()).map(Promised)
    }

    /// After a fork, in the child: leaves the region to the parent. The other threads of the parent
    /// are not here, and hold nothing locked.
    pub fn after_fork_child(&self, token: ForkToken) {
        let ForkToken {
            inheritance,
            bereft,
            quiet,
            mut afterwards,
        } = token;
        // It is for the parent.
        afterwards.session = None;
        drop(quiet);
        self.core().become_child(inheritance, bereft);
    }
}
