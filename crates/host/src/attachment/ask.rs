//! Questions on the control socket.
//!
//! An engine that does not run (stopped by a signal, or for want of a core) answers when it runs again. Until
//! then a program does what it can without: its connections wait, and the kernel does the rest. So whoever
//! asks waits for a limited time, and what an answer has changed at the engine that nobody waited for any
//! longer is undone when it comes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use queue_pair::Submission;
use queue_pair::control::{ChannelError, Fds, Reply, Request};
use queue_pair::doorbell::Bell;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::connection::Connection;
use super::control::{ANSWER_WITHIN, Control, RUNS_WITHIN, ask_or, has_answered};
use super::{Attachment, Waker};
use crate::clock::monotonic_ns;
use crate::lock::{lock, try_lock};
use crate::private_fds::{Private, lift};

/// The first version of the protocol in which an engine takes back what nobody has waited for.
const TAKES_CLAIMS_BACK: u32 = 16;

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// Asks on the control socket, and waits for an answer for at most `limit`.
    ///
    /// # Errors
    /// `ETIMEDOUT`: the engine does not run just now; the attachment is as good as before. `ECONNRESET`,
    /// `EPROTO`: it is over.
    pub(crate) fn request(
        &self,
        request: &Request,
        fds: Fds,
        limit: Duration,
    ) -> Result<(Reply, Fds), Errno> {
        let answer = self.request_alone(request, fds, limit);
        if self.is_unanswered() {
            let late = self.with_control(|control| self.take_late(control));
            let late = late.unwrap_or_default();
            self.undo(late);
        }
        answer
    }

    /// As [`request`](Self::request), for one who holds locks: what answers that come late have changed is
    /// left for [`catch_up`](Self::catch_up).
    pub(crate) fn request_alone(
        &self,
        request: &Request,
        fds: Fds,
        limit: Duration,
    ) -> Result<(Reply, Fds), Errno> {
        self.request_or(request, fds, limit, None)
    }

    /// Shows a ticket, as [`request_alone`](Self::request_alone). If there is no answer in time, the claim is given
    /// up: what the engine makes of it later it takes back by itself, whether or not this process ever looks again.
    pub(crate) fn show_ticket(&self, ticket: OwnedFd) -> Result<Reply, Errno> {
        let shown = [ticket].into_iter().collect();
        let give_up = self.takes_claims_back().then_some(&Request::Disclaim);
        self.request_or(&Request::Claim, shown, ANSWER_WITHIN, give_up)
            .map(|(reply, _)| reply)
    }

    fn takes_claims_back(&self) -> bool {
        self.speaks(TAKES_CLAIMS_BACK)
    }

    fn request_or(
        &self,
        request: &Request,
        fds: Fds,
        limit: Duration,
        otherwise: Option<&Request>,
    ) -> Result<(Reply, Fds), Errno> {
        if !self.is_live() {
            return Err(Errno::CONNRESET);
        }
        let answer = self
            .with_control(|control| ask_or(control, request, fds, limit, otherwise))
            .unwrap_or(Err(Errno::CONNRESET));
        match answer {
            Err(Errno::PROTO | Errno::CONNRESET) => self.condemn(),
            Err(Errno::TIMEDOUT) => self.unanswered.store(true, Ordering::Relaxed),
            _ => {}
        }
        answer
    }

    /// Whether the engine listens at `remote`, which is of this machine, and connects to it. One that does
    /// not answer does not run just now: the kernel's listener is there, too.
    pub(crate) fn listens_here(&self, remote: SocketAddr) -> bool {
        let asked = || self.request(&Request::Local { remote }, Fds::new(), RUNS_WITHIN);
        self.local && matches!(asked(), Ok((Reply::Done, _)))
    }

    /// Asks for something of which nobody needs to hear that it is done: this waits only where the engine has left
    /// much of that undone.
    pub(crate) fn request_in_passing(&self, request: &Request) {
        if !self.is_live() {
            return;
        }
        match self.with_control(|control| control.get_mut().request_in_passing(request)) {
            Some(Ok(false)) => {
                // If there is no answer, it is gone, or sees to it later.
                let _ = self.request(request, Fds::new(), RUNS_WITHIN);
            }
            Some(Err(_)) => self.condemn(),
            Some(Ok(true)) | None => {}
        }
    }

    /// Waits until the engine has taken what this process has submitted, and has told every process what
    /// follows from it.
    pub(crate) fn settle(&self) {
        // Of an engine that does not answer nothing is to be expected.
        let _ = self.request(&Request::Settle, Fds::new(), RUNS_WITHIN);
    }

    /// Says something on the control socket that wants no answer. What an engine is too busy to read
    /// is lost.
    pub(crate) fn tell(&self, request: &Request) {
        debug_assert!(!request.wants_reply());
        if !self.is_live() {
            return;
        }
        let told = self.with_control(|control| control.get_mut().send(request, Fds::new()));
        if matches!(told, Some(Err(ChannelError::Closed))) {
            self.condemn();
        }
    }

    /// In the child of a fork: its copy of the parent's control socket is closed. Or the engine would not
    /// notice that the parent has become another program, and what that closes would stay open. Nor does it need
    /// copies of the doorbells.
    pub(crate) fn hang_up(&self) {
        *lock(&self.control) = None;
        lock(&self.spare_wakers).clear();
        // One that another thread of the parent's was about to ring stays open here.
        if let Ok(mut doorbell) = self.doorbell.try_write() {
            *doorbell = None;
        }
        self.forget_promises();
    }

    /// Whether the engine has not answered in time, and [`catch_up`](Self::catch_up) has something to do
    /// when it has.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// If an engine that did not run does so again: tells it of the listeners what it was told in vain.
    pub(crate) fn catch_up(self: &Arc<Self>) {
        if !self.is_unanswered() || !self.is_live() {
            return;
        }
        // Who has the lock sees to it.
        let Some(mut control) = try_lock(&self.control) else {
            return;
        };
        let Some(asked) = control.as_mut() else {
            return;
        };
        let late = self.take_late(asked);
        let owed = asked.get_mut().is_owed();
        drop(control);
        self.undo(late);
        if owed {
            return;
        }
        self.unanswered.store(false, Ordering::Relaxed);
        self.keep_still_no_longer();
        for listener in self.listeners.living() {
            listener.announce_again(self);
        }
    }

    /// The answers that have come late. That the connection has ended, whoever asks next is told.
    fn take_late(&self, control: &mut Control) -> Vec<(Reply, Fds)> {
        if self.keeps_still() && has_answered(control) {
            self.make_room_for_promised();
        }
        std::iter::from_fn(|| control.get_mut().take_late().ok().flatten()).collect()
    }

    /// The engine has answered everything that it was asked.
    fn keep_still_no_longer(&self) {
        // Those of whom it has said nothing it has refused.
        lock(&self.promises.to).clear();
        if !self.promises.keeps.swap(false, Ordering::Relaxed) {
            return;
        }
        self.post_deferred();
        for listener in self.listeners.living() {
            listener.may_accept_again();
        }
    }

    /// Nobody waited for these answers any longer: what the engine has made is ended.
    fn undo(&self, late: Vec<(Reply, Fds)>) {
        for (reply, mut fds) in late {
            match reply {
                Reply::Listening { listener } => {
                    let request = Request::Unlisten { listener };
                    let told = self.with_control(|it| it.get_mut().request_blindly(&request));
                    if told.is_some_and(|told| told.is_err()) {
                        self.condemn();
                    }
                }
                Reply::Waker { waker } if waker < u64::BITS => {
                    if let Some(bell) = fds.pop() {
                        self.return_waker(Waker {
                            index: waker,
                            bell: Private::new(Bell::from(lift(bell))),
                        });
                    }
                }
                Reply::File { file, .. } => self.post_surely(Submission::ForgetFile { file }),
                // What this process had besides it keeps.
                Reply::Claimed { conn, .. } if !self.takes_claims_back() && !self.has(conn) => {
                    self.post_surely(Submission::Close {
                        conn,
                        abort: false,
                        at: monotonic_ns(),
                    });
                }
                Reply::Forked { token } => self.keep_promise(token, fds.pop()),
                // A ticket ends with its descriptor.
                _ => {}
            }
        }
    }
}
