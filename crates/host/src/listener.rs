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

mod admission;
mod refusal;
mod shared;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use queue_pair::OptionKind;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::attachment::is_away;
use crate::interest::Source;
use crate::lock::lock;
use crate::private_fds::{Private, lift};
use crate::readiness::Readiness;
use crate::ready_set::{SourceHandle, Watchable};
use crate::session::{Session, SessionCore};
use crate::sleep::Awaited;
use crate::socket::Socket;

use shared::State;

pub use refusal::why_refused;
pub(crate) use shared::ListenerCore;

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

impl Session {
    /// Makes a listening socket on `addr`, the kernel's and the engine's. `SO_REUSEADDR` is set, as
    /// servers do.
    ///
    /// # Errors
    /// The kernel's for bind and listen, and the engine's.
    pub fn listen(&self, addr: SocketAddr, backlog: u32) -> Result<Listener, Errno> {
        self.listen_on(listening_socket(addr, backlog)?, backlog)
    }

    /// As [`listen`](Self::listen), for a program that serves nothing that comes by the kernel: the engine takes
    /// what is new, whatever is configured of placement. One that speaks an earlier version places it as is
    /// configured.
    ///
    /// # Errors
    /// As for `listen`.
    pub fn listen_pinned(&self, addr: SocketAddr, backlog: u32) -> Result<Listener, Errno> {
        let kernel = listening_socket(addr, backlog)?;
        let (listener, refused) = Listener::new(self.core(), kernel, backlog, true)?;
        refused.map_or(Ok(listener), Err)
    }

    /// As [`listen`](Self::listen), but what the engine refuses, an address that is not one of its interface
    /// or another reason, the kernel serves alone: [`Listener::why_refused`].
    ///
    /// # Errors
    /// The kernel's for bind and listen.
    pub fn listen_in_any_case(&self, addr: SocketAddr, backlog: u32) -> Result<Listener, Errno> {
        let kernel = listening_socket(addr, backlog)?;
        Listener::new(self.core(), kernel, backlog, false).map(|(listener, _)| listener)
    }

    /// Offloads a listening socket that the kernel has: `kernel` is a duplicate of it, which the
    /// listener keeps to itself. Without an engine it is offloaded when there is one.
    ///
    /// # Errors
    /// `EINVAL`: it does not listen. `EAFNOSUPPORT`: it is not TCP. Otherwise the engine's.
    pub fn listen_on(&self, kernel: OwnedFd, backlog: u32) -> Result<Listener, Errno> {
        let (listener, refused) = Listener::new(self.core(), kernel, backlog, false)?;
        refused.map_or(Ok(listener), Err)
    }
}

/// A listening socket of the kernel's, with `SO_REUSEADDR`.
fn listening_socket(addr: SocketAddr, backlog: u32) -> Result<OwnedFd, Errno> {
    let family = if addr.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kernel = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&kernel, true)?;
    rustix::net::bind(&kernel, &addr)?;
    rustix::net::listen(&kernel, i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(kernel)
}

impl Listener {
    /// Announces `kernel`, a listening TCP socket, to the session's engine. With what it has refused it, if it has:
    /// the kernel serves it then.
    fn new(
        session: &Arc<SessionCore>,
        kernel: OwnedFd,
        backlog: u32,
        pinned: bool,
    ) -> Result<(Self, Option<Errno>), Errno> {
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
            pinned,
            source: SourceHandle(Arc::new(Source::default())),
            line: Arc::default(),
            state: Mutex::new(State::new(backlog)),
        });
        // Before it is known, so that it is shown once.
        session.attachment();
        session.listeners.know(&(Arc::clone(&core) as _));
        let listener = Self { core };
        let mut refused = None;
        if let Some(attachment) = session.attachment() {
            // One that was attached just now has been shown it already.
            if lock(&listener.core.state).link.is_none() {
                // Where none answers, the kernel serves until one takes it.
                let announced = listener.core.announce(&attachment);
                refused = announced.err().filter(|error| !is_away(*error));
            }
        }
        Ok((listener, refused))
    }

    /// Why the engine does not take it, if that was said. Another engine may.
    pub fn why_refused(&self) -> Option<&'static str> {
        self.core.refused().map(why_refused)
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
    /// implies it, adding the listener to a ready set too. The first time it asks the engine, which
    /// takes some microseconds: what had come before is here then.
    pub fn want(&self) {
        self.core.want();
    }

    /// Waits until there is something to accept. `None` waits without end. Of several threads that wait one
    /// is woken for each connection.
    ///
    /// # Errors
    /// `EINTR`: a signal was handled. `ETIMEDOUT`: the time is over.
    pub fn wait(&self, limit: Option<Duration>) -> Result<(), Errno> {
        self.core.want_in_accept();
        crate::sleep::wait(
            &self.core.session,
            Awaited::ToAccept(self.kernel_socket(), &self.core.line),
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

    /// The program knows it by the number `fd`: the engine is told, and each that comes later, for `outboard
    /// explain`. If this process has not attached, it does.
    pub fn explain_as(&self, fd: i32) {
        lock(&self.core.state).number = Some(fd);
        if let Some(attachment) = self.core.session.attachment() {
            self.core.explain(&attachment);
        }
    }

    /// `listen` was called again on the [kernel's socket](Self::kernel_socket): the engine reads the backlog there. One
    /// that does not run, or is older, learns it when it is shown the socket again. It is told also if this process has
    /// said the same before: another that has the socket may have said something else since.
    pub fn set_backlog(&self, backlog: u32) {
        {
            let mut state = lock(&self.core.state);
            if std::mem::replace(&mut state.backlog, backlog) != backlog {
                state.bound_changed();
            }
        }
        self.core.show_options();
    }

    /// Stops listening in this process, as dropping does: `shutdown` on a listening socket.
    pub fn stop(&self) {
        self.core.close();
    }

    /// The program has set an option on the [kernel's socket](Self::kernel_socket) that matters from the SYN
    /// on (TCP_MAXSEG, TCP_FASTOPEN, TCP_DEFER_ACCEPT): the engine reads it there. One that does not run, or is
    /// older, learns it when it is shown the socket again.
    pub fn options_changed(&self) {
        self.core.show_options();
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

    fn unwatched(&self) {
        self.core.want_no_more();
    }

    fn is_waited_for(&self) {
        self.core.is_waited_for();
    }
}
