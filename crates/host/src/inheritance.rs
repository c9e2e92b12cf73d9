//! What the child of a fork has of its parent's until it attaches: references that the engine holds for it,
//! or, if the engine did not run at the fork, its parent's promise of them (see `attachment::promise`).

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::time::Duration;

use queue_pair::control::Farewell;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

use crate::private_fds::{Private, lift};

/// What the child of a fork has of its parent's until it attaches.
#[derive(Debug)]
pub(crate) enum Inheritance {
    Given(Given),
    Promised(Promise),
}

/// The references that the engine holds for a child that has not attached.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) token: u64,
    /// Closed when they are claimed, or nobody will.
    pub(crate) lifeline: Private<OwnedFd>,
}

impl Inheritance {
    /// Says that something was closed. False: there is no room to say so.
    pub(crate) fn say(&mut self, farewell: Farewell) -> bool {
        loop {
            let promise = match self {
                Self::Given(given) => return given.say(farewell),
                Self::Promised(promise) => promise,
            };
            match promise.say(farewell) {
                Ok(()) => return true,
                Err(Errno::AGAIN | Errno::NOBUFS) => return false,
                Err(_) => {}
            }
            // Its parent is about to say so.
            match promise.wait(SOON) {
                Kept::Yes(given) => *self = Self::Given(given),
                Kept::NotYet => {}
                // What it closes it does not have.
                Kept::Never => return true,
            }
        }
    }
}

impl Given {
    fn say(&self, farewell: Farewell) -> bool {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let said = rustix::net::send(&self.lifeline, &farewell.encode(), flags);
        // If the engine is gone, so is what was closed.
        !matches!(said, Err(Errno::AGAIN | Errno::NOBUFS))
    }
}

/// A child's end of a promise.
#[derive(Debug)]
pub(crate) struct Promise(Private<OwnedFd>);

/// How long one waits for a parent that is about to say something.
const SOON: Duration = Duration::from_millis(100);

/// What has become of a promise.
pub(crate) enum Kept {
    Yes(Given),
    /// The engine has not answered yet.
    NotYet,
    /// The engine has refused, or it or the parent has ended.
    Never,
}

impl Promise {
    pub(crate) fn new(end: OwnedFd) -> Self {
        Self(Private::new(lift(end)))
    }

    /// Says that something was closed.
    ///
    /// # Errors
    /// `EPIPE`: it is kept, or never will be. `EAGAIN`: there is no room to say so.
    fn say(&self, farewell: Farewell) -> Result<(), Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::send(&self.0, &farewell.encode(), flags).map(drop)
    }

    /// Whether it is kept by now.
    fn look(&self) -> Kept {
        let mut token = [0; 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = {
            let mut parts = [IoSliceMut::new(&mut token)];
            rustix::net::recvmsg(&self.0, &mut parts, &mut control, flags)
        };
        match received {
            Err(Errno::AGAIN | Errno::INTR) => return Kept::NotYet,
            Ok(received) if received.bytes == token.len() => {}
            _ => return Kept::Never,
        }
        let rights = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        rights.map_or(Kept::Never, |lifeline| {
            Kept::Yes(Given {
                token: u64::from_ne_bytes(token),
                lifeline: Private::new(lift(lifeline)),
            })
        })
    }

    /// The same after a wait for that, for at most `limit`. A signal may end it, too.
    pub(crate) fn wait(&self, limit: Duration) -> Kept {
        match self.look() {
            Kept::NotYet => {}
            known => return known,
        }
        let mut polls = [PollFd::new(&self.0, PollFlags::IN)];
        let limit = Timespec::try_from(limit).unwrap_or_default();
        let _ = rustix::event::poll(&mut polls, Some(&limit));
        self.look()
    }
}
