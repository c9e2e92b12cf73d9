//! The relation of a program to an engine, or to the kernel alone.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use host::{ConnectError, ConnectOptions, Engine, Errno, Listener, Session, Way};
use queue_pair::SendRing;

/// Why nothing is the engine's with [`Mode::Kernel`].
pub(crate) const CHOSEN: &str = "the program has chosen the kernel";

/// Where connections may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// On the engine where it can be, otherwise on the kernel. An engine that is away is found when
    /// it comes.
    #[default]
    Any,
    /// On the engine alone: without one, attaching fails; what the kernel would have to open is refused,
    /// and what comes to a listener by the kernel is reset.
    Engine,
    /// On the kernel, whatever engine there is.
    Kernel,
}

/// How sockets of the kernel's are served. All are waited for by epoll.
///
/// With io_uring small sends (4 KiB at most) on several connections leave by one call: from when a wait has told of
/// what has come on two or more of the kernel's, what the program sends is kept until it looks for events next, arms,
/// frees the queue, has answered on all connections that it was told of, or does something else with that connection
/// that is to come behind it, such as shutting or closing it. With a further send also what is older than 50 µs leaves.
/// A program that is told of one connection at a time, or takes long between its sends, sends at once, as by epoll.
/// What such a send meets, room or an error, the next send on that connection is told. When the program ends by exit(3)
/// or a return from main, what is kept leaves, too, from a handler of atexit(3); a connection that has no room for it
/// then is reset. By _exit(2), exec or a signal that ends the program it is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelSockets {
    /// By io_uring where it is there and pays, otherwise by epoll.
    #[default]
    Auto,
    /// By epoll alone: no send waits for another.
    Epoll,
    /// By io_uring from the first send on; without it there is no queue.
    IoUring,
}

impl KernelSockets {
    /// The variable by which a program is told how to serve them, if it does not choose itself.
    const VARIABLE: &str = "OUTBOARD_KERNEL_SOCKETS";

    /// What this process was told by its environment: `epoll` or `io_uring`.
    fn of_environment() -> Self {
        match std::env::var(Self::VARIABLE).as_deref() {
            Ok("epoll") => Self::Epoll,
            Ok("io_uring") => Self::IoUring,
            _ => Self::Auto,
        }
    }
}

/// The relation of a program to an engine. Clones are the same.
#[derive(Clone)]
pub struct Context {
    pub(crate) session: Session,
    pub(crate) mode: Mode,
    pub(crate) by: KernelSockets,
    /// Why no engine took it when it was made.
    refused: Option<Errno>,
}

impl Context {
    /// Attaches to the engine called `engine`, or to the one that the environment variable
    /// `OUTBOARD_SOCKET` names. `program` is shown to people.
    ///
    /// # Errors
    /// Only with [`Mode::Engine`]. `ENOENT`, `ECONNREFUSED`: there is no engine. `EACCES`: it is not
    /// for this user. `EPROTONOSUPPORT`: the two speak no version in common.
    pub fn attach(engine: &str, program: &str, mode: Mode) -> Result<Self, Errno> {
        Self::attach_at(&queue_pair::control::socket_path(engine), program, mode)
    }

    /// As [`attach`](Self::attach), by the path of the engine's socket.
    ///
    /// # Errors
    /// As for `attach`.
    pub fn attach_at(path: &Path, program: &str, mode: Mode) -> Result<Self, Errno> {
        let mut refused = None;
        let session = match mode {
            Mode::Engine => Session::attach_at(path, program)?,
            Mode::Any => Session::attach_at(path, program).unwrap_or_else(|errno| {
                refused = Some(errno);
                Session::unattached(path, program)
            }),
            // No engine listens at no path.
            Mode::Kernel => Session::unattached(Path::new(""), program),
        };
        Ok(Self {
            session,
            mode,
            by: KernelSockets::of_environment(),
            refused,
        })
    }

    /// This, with sockets of the kernel's served as the program chooses; otherwise they are as the environment variable
    /// `OUTBOARD_KERNEL_SOCKETS` says (`epoll` or `io_uring`), or [`Auto`](KernelSockets::Auto).
    ///
    /// # Errors
    /// Only with [`KernelSockets::IoUring`]: `ENOSYS`, `EINVAL`: this kernel has no io_uring, or an older one than Linux
    /// 5.18 has. `EPERM`: it is not for this process. `EMFILE`, `ENFILE`, `ENOMEM`: as of io_uring_setup(2).
    pub fn with_kernel_sockets(mut self, by: KernelSockets) -> Result<Self, Errno> {
        if by == KernelSockets::IoUring {
            SendRing::new()?;
        }
        self.by = by;
        Ok(self)
    }

    /// Why no engine took the program when this was made, with [`Mode::Any`]: the errors of
    /// [`attach`](Self::attach). One that comes later is found nevertheless.
    pub fn refused(&self) -> Option<Errno> {
        self.refused
    }

    /// Why no engine is there now; `None` if one is. `EOPNOTSUPP`: the program has chosen the kernel.
    /// `ENOTCONN`: it has gone. Otherwise why it did not take the program when this was made.
    pub fn why_not_attached(&self) -> Option<Errno> {
        if self.mode == Mode::Kernel {
            return Some(Errno::OPNOTSUPP);
        }
        let gone = self.refused.unwrap_or(Errno::NOTCONN);
        (!self.is_attached()).then_some(gone)
    }

    /// Why the engine does not listen there, in words.
    pub(crate) fn why_not_listening(&self, listener: &Listener) -> Option<&'static str> {
        match listener.is_offloaded() {
            true => None,
            false if self.mode == Mode::Kernel => Some(CHOSEN),
            false if !self.is_attached() => Some("there is no engine"),
            false => listener
                .why_refused()
                .or(Some("the engine does not listen there")),
        }
    }

    /// Whether an engine is there now.
    pub fn is_attached(&self) -> bool {
        self.session.is_attached()
    }

    /// What is known of the engine; `None` if there is none. It asks, which takes some microseconds.
    ///
    /// # Errors
    /// The engine's.
    pub fn engine(&self) -> Result<Option<Engine>, Errno> {
        match self.mode {
            Mode::Kernel => Ok(None),
            Mode::Any | Mode::Engine => self.session.engine(),
        }
    }

    /// The way to `remote`, as the engine knows it. A program that has a reason to doubt it, such as
    /// requests that nobody answers, has the kernel look at it again.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no engine. `EOPNOTSUPP`: it is not the engine's way, or the engine speaks an
    /// earlier version. `EAGAIN`: too much is doubted. Otherwise there is no way, such as `ENETUNREACH`.
    pub fn way(&self, remote: IpAddr, doubted: bool) -> Result<Way, Errno> {
        match self.mode {
            Mode::Kernel => Err(Errno::NOTCONN),
            Mode::Any | Mode::Engine => self.session.way(remote, doubted),
        }
    }

    /// Whether a connection to `remote` would be the engine's; otherwise why not, in words.
    ///
    /// # Errors
    /// There is no way to `remote` at all, such as `ENETUNREACH`.
    pub fn can_offload(&self, remote: SocketAddr) -> Result<Result<(), &'static str>, Errno> {
        if self.mode == Mode::Kernel {
            return Ok(Err(CHOSEN));
        }
        match self.session.can_offload(remote, &ConnectOptions::default()) {
            Ok(()) => Ok(Ok(())),
            Err(ConnectError::KernelsJob(why)) => Ok(Err(why)),
            Err(ConnectError::Failed(errno)) => Err(errno),
        }
    }
}
