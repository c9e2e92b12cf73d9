//! What happens to a session when the process forks.
//!
//! The region is not inherited: two processes cannot both be the one producer of a ring. Before the
//! fork the engine takes a reference, under a token, on everything that the session has. The child
//! shows the token on a connection of its own, whereby the engine knows whom to watch, and goes on;
//! it attaches only when it first touches a listener or socket. Then a listener serves both
//! processes, and a socket moves to the one that touched it last.
//!
//! The three steps are made for `pthread_atfork`: none needs to know the other process, none waits
//! for it, and each is harmless if there is no engine. A vfork needs none of this, since its child
//! touches nothing.

use queue_pair::control::{Fds, Reply, Request};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::attachment::{ask, connect};
use crate::session::{Inheritance, Session};

/// What the child of a fork needs to become its parent's heir.
#[derive(Clone, Copy, Debug)]
pub struct ForkToken(Option<u64>);

impl Session {
    /// Before a fork, in the parent: the engine takes its references.
    pub fn before_fork(&self) -> ForkToken {
        let attachment = self.core().present();
        let token = attachment.and_then(|attachment| {
            match attachment.request(&Request::Fork, Fds::new()) {
                Ok((Reply::ForkToken { token }, _)) => Some(token),
                _ => None,
            }
        });
        ForkToken(token)
    }

    /// After a fork, in the child: leaves the region to the parent and claims the references. The
    /// other threads of the parent are not here; what they held locked stays locked, so a program
    /// with threads must not fork while another one attaches.
    pub fn after_fork_child(&self, token: ForkToken) {
        let inheritance = token.0.map(|token| Inheritance {
            token,
            control: self.claim(token),
        });
        self.core().become_child(inheritance);
    }

    /// Shows the token to the engine, which from then on watches this process.
    fn claim(&self, token: u64) -> Option<crate::attachment::Control> {
        let mut control = connect(self.core().path()).ok()?;
        let mut fds = Fds::new();
        fds.push(pidfd_open(getpid(), PidfdFlags::empty()).ok()?);
        ask(&mut control, &Request::ForkChild { token }, fds).ok()?;
        Some(control)
    }
}
