//! Listening sockets, which the engine and the kernel serve together.
//!
//! Every offloaded listener is first of all a listening socket of the kernel's. The kernel thereby
//! checks the right to the port and keeps it from others, serves clients on this machine, and serves
//! everyone while the engine is away. The engine is shown that socket and takes what comes over its
//! interface. [`accept`](Listener::accept) takes from both.
//!
//! The engine accepts eagerly but hands a connection to a process only on *credit*: a count of
//! connections that the process is willing to have, which it gives as soon as it waits for some. What
//! was handed and not accepted when the process closes the listener, or dies, goes to another.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{OptionKind, Submission};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::attachment::Attachment;
use crate::lock::lock;
use crate::private_fds::{Private, lift};
use crate::readiness::{Readiness, Source};
use crate::ready_set::{SourceHandle, Watchable};
use crate::session::SessionCore;
use crate::socket::{Options, Socket, SocketCore};

/// How many connections may lie here handed over and not accepted. Enough that the engine need not
/// be asked for each, and few enough that several processes on one port share the work.
const WINDOW: u32 = 32;

/// After so many accepts in a row from the engine the kernel's queue has its turn.
const KERNEL_TURN: u32 = 32;

/// A listening socket on engine and kernel. Dropping it stops the listening in this process.
pub struct Listener {
    core: Arc<ListenerCore>,
}

/// A connection that was accepted.
pub enum Accepted {
    /// By the engine.
    Offloaded(Socket),
    /// By the kernel: a client on this machine, or one that came while the engine was away. The
    /// descriptor is non-blocking and closed on exec.
    Kernel(OwnedFd),
}

/// What the session's tables hold of a listener.
pub(crate) struct ListenerCore {
    session: Arc<SessionCore>,
    kernel: Private<OwnedFd>,
    local: SocketAddr,
    v6only: bool,
    source: SourceHandle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The engine's number for it, and in which attachment. `None` while there is no engine.
    link: Option<(Arc<Attachment>, u32)>,
    queue: VecDeque<Arc<SocketCore>>,
    backlog: u32,
    /// The process waits for connections: credit is given.
    willing: bool,
    /// The credit given in this attachment, and how much of it was used up by accepts.
    credit: u32,
    taken: u32,
    /// Accepts from the engine since the kernel had its turn.
    turns: u32,
    closed: bool,
    /// Set on the listener, inherited by what it accepts.
    options: Options,
}

impl State {
    fn give_credit(&mut self) {
        let window = WINDOW.min(self.backlog.max(1));
        let Some((attachment, listener)) = &self.link else {
            return;
        };
        // Only when half is used up, so that not every accept costs a descriptor.
        if self.willing && self.credit.wrapping_sub(self.taken) <= window / 2 {
            self.credit = self.taken.wrapping_add(window);
            let total = self.credit;
            attachment.post_surely(Submission::Credit {
                listener: *listener,
                total,
            });
        }
    }
}

impl ListenerCore {
    /// Locks the state, of this process: a listener that came through a fork is taken over first.
    fn own(self: &Arc<Self>) -> MutexGuard<'_, State> {
        let state = lock(&self.state);
        if !state
            .link
            .as_ref()
            .is_some_and(|(attachment, _)| attachment.is_parents())
        {
            return state;
        }
        drop(state);
        // Attaching announces every listener of the session, this one too.
        self.session.attachment();
        lock(&self.state)
    }

    /// Announces the listener to an engine: anew, or as one that came through a fork.
    pub(crate) fn announce(self: &Arc<Self>, attachment: &Arc<Attachment>) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        if state.closed {
            return Ok(());
        }
        let inherited = state.link.take().filter(|(former, _)| former.is_parents());
        state.queue.clear();
        self.source.0.set(Readiness::NONE);
        let adopted = inherited.and_then(|(_, listener)| {
            match attachment.request(&Request::AdoptListener { listener }, Fds::new()) {
                Ok((Reply::Listening { listener }, _)) => Some(listener),
                _ => None,
            }
        });
        let listener = match adopted {
            Some(listener) => listener,
            None => self.ask_to_listen(attachment, state.backlog)?,
        };
        // No connection comes before there is credit, so it is known early enough; and the pump,
        // whose lock this takes, does not know this listener yet, so it cannot be waiting for it.
        attachment.know_listener(listener, Arc::clone(self));
        state.link = Some((Arc::clone(attachment), listener));
        (state.credit, state.taken) = (0, 0);
        state.give_credit();
        Ok(())
    }

    fn ask_to_listen(&self, attachment: &Attachment, backlog: u32) -> Result<u32, Errno> {
        let mut fds = Fds::new();
        fds.push(rustix::io::fcntl_dupfd_cloexec(&self.kernel, 0)?);
        let request = Request::Listen {
            addr: self.local,
            v6only: self.v6only,
            backlog,
        };
        match attachment.request(&request, fds)? {
            (Reply::Listening { listener }, _) => Ok(listener),
            _ => Err(Errno::PROTO),
        }
    }

    /// The engine hands over a connection. Called by the pumping thread.
    pub(crate) fn handed(&self, socket: Arc<SocketCore>) {
        let mut state = lock(&self.state);
        if state.closed {
            socket.give_back();
            return;
        }
        state.queue.push_back(socket);
        self.source.0.set(Readiness::IN | Readiness::RDNORM);
        drop(state);
        self.source.0.happened(Readiness::IN | Readiness::RDNORM);
    }

    /// The engine is gone, and what it had handed over with it.
    pub(crate) fn lost_engine(&self) {
        let mut state = lock(&self.state);
        state.link = None;
        state.queue.clear();
        self.source.0.set(Readiness::NONE);
    }

    fn want(self: &Arc<Self>) {
        let mut state = self.own();
        if !state.willing {
            state.willing = true;
            state.give_credit();
        }
    }

    fn accept(self: &Arc<Self>) -> Result<Socket, Errno> {
        let mut state = self.own();
        if state.queue.is_empty()
            && let Some((attachment, _)) = &state.link
        {
            let attachment = Arc::clone(attachment);
            drop(state);
            attachment.pump(&self.session);
            state = lock(&self.state);
        }
        state.willing = true;
        let accepted = state.queue.pop_front();
        if accepted.is_some() {
            state.taken = state.taken.wrapping_add(1);
            state.turns += 1;
        }
        if state.queue.is_empty() {
            self.source.0.set(Readiness::NONE);
        }
        state.give_credit();
        let options = accepted.is_some().then(|| state.options.clone());
        drop(state);
        let socket = accepted.ok_or(Errno::AGAIN)?;
        if let Some(options) = options {
            socket.inherit(options);
        }
        Ok(Socket::new(socket))
    }

    fn close(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        state.closed = true;
        let link = state.link.take();
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        self.source.0.forget_watches();
        self.session.forget_listener(self);
        let Some((attachment, listener)) = link else {
            return;
        };
        if attachment.is_parents() {
            return;
        }
        for socket in queue {
            socket.give_back();
        }
        attachment.forget_listener(listener);
        // If the engine does not answer, it is gone, and the listener with it.
        let _ = attachment.request(&Request::Unlisten { listener }, Fds::new());
    }
}

impl Listener {
    /// Announces `kernel`, a listening TCP socket, to the session's engine.
    pub(crate) fn new(
        session: &Arc<SessionCore>,
        kernel: OwnedFd,
        backlog: u32,
    ) -> Result<Self, Errno> {
        let local = rustix::net::getsockname(&kernel)?;
        let local = SocketAddr::try_from(local).map_err(|_| Errno::AFNOSUPPORT)?;
        if !rustix::net::sockopt::socket_acceptconn(&kernel)? {
            return Err(Errno::INVAL);
        }
        let v6only = local.is_ipv6() && rustix::net::sockopt::ipv6_v6only(&kernel)?;
        let core = Arc::new(ListenerCore {
            session: Arc::clone(session),
            kernel: Private::new(lift(kernel)),
            local,
            v6only,
            source: SourceHandle(Arc::new(Source::default())),
            state: Mutex::new(State {
                backlog,
                ..State::default()
            }),
        });
        session.know_listener(&core);
        let listener = Self { core };
        if let Some(attachment) = session.attachment() {
            // Attaching just now has announced it already.
            if lock(&listener.core.state).link.is_none() {
                listener.core.announce(&attachment)?;
            }
        }
        Ok(listener)
    }

    /// The next connection, from the engine's queue or, if that is empty or has been served often
    /// enough, from the kernel's. Never waits.
    ///
    /// # Errors
    /// `EAGAIN`: there is none. Otherwise the kernel's for accept.
    pub fn accept(&self) -> Result<Accepted, Errno> {
        let kernel_first = {
            let mut state = lock(&self.core.state);
            state.turns >= KERNEL_TURN && {
                state.turns = 0;
                true
            }
        };
        if kernel_first && let Ok(fd) = self.accept_kernel() {
            return Ok(Accepted::Kernel(fd));
        }
        match self.core.accept() {
            Err(Errno::AGAIN) => self.accept_kernel().map(Accepted::Kernel),
            other => other.map(Accepted::Offloaded),
        }
    }

    /// The next connection that the engine has handed over. Never waits.
    ///
    /// # Errors
    /// `EAGAIN`: there is none.
    pub fn accept_offloaded(&self) -> Result<Socket, Errno> {
        self.core.accept()
    }

    /// The next connection that the kernel has accepted, non-blocking. Never waits (unless another
    /// process takes the connection that was there, and the listening socket is a blocking one).
    ///
    /// # Errors
    /// `EAGAIN`: there is none. Otherwise the kernel's for accept.
    pub fn accept_kernel(&self) -> Result<OwnedFd, Errno> {
        let mut poll = [PollFd::new(&self.core.kernel, PollFlags::IN)];
        if rustix::event::poll(&mut poll, Some(&Timespec::default()))? == 0 {
            return Err(Errno::AGAIN);
        }
        rustix::net::accept_with(
            &self.core.kernel,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        )
    }

    /// This process is about to wait for connections: the engine may hand some over. Accepting
    /// implies it, adding the listener to a ready set too.
    pub fn want(&self) {
        self.core.want();
    }

    /// Waits until there is something to accept. `None` waits without end.
    ///
    /// # Errors
    /// `EINTR`: a signal was handled. `ETIMEDOUT`: the time is over.
    pub fn wait(&self, limit: Option<Duration>) -> Result<(), Errno> {
        self.want();
        crate::sleep::wait(
            &self.core.session,
            Some(self.kernel_socket()),
            limit,
            |kernel| (kernel || self.readiness().intersects(Readiness::IN)).then_some(()),
        )
    }

    /// What the engine's side is ready for. The kernel's side is asked of its descriptor.
    pub fn readiness(&self) -> Readiness {
        self.core.source.0.readiness()
    }

    /// The kernel's listening socket.
    pub fn kernel_socket(&self) -> BorrowedFd<'_> {
        self.core.kernel.as_fd()
    }

    /// The address on which it listens.
    pub fn local(&self) -> SocketAddr {
        self.core.local
    }

    /// Whether an engine serves it now.
    pub fn is_offloaded(&self) -> bool {
        lock(&self.core.state)
            .link
            .as_ref()
            .is_some_and(|(attachment, _)| attachment.is_live())
    }

    /// `listen` was called again with another backlog. The engine learns it when it is next asked.
    pub fn set_backlog(&self, backlog: u32) {
        let mut state = lock(&self.core.state);
        state.backlog = backlog;
    }

    /// Stops listening in this process, as dropping does: `shutdown` on a listening socket.
    pub fn stop(&self) {
        self.core.close();
    }

    /// Sets an option that what is accepted inherits.
    ///
    /// # Errors
    /// `EINVAL`: the option cannot have that value.
    pub fn set_option(&self, option: OptionKind, value: u32) -> Result<(), Errno> {
        lock(&self.core.state).options.set(option, value).map(drop)
    }

    /// The send buffer that what is accepted inherits.
    pub fn set_send_buffer(&self, bytes: u64) {
        lock(&self.core.state).options.set_send_buffer(bytes);
    }

    /// Sets the low-water mark of what is accepted from now on, as on a socket.
    pub fn set_receive_low(&self, bytes: u64) {
        lock(&self.core.state).options.set_receive_low(bytes);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.core.close();
    }
}

impl Watchable for Listener {
    fn readiness_source(&self) -> &SourceHandle {
        &self.core.source
    }

    fn watched(&self) {
        self.want();
    }
}
