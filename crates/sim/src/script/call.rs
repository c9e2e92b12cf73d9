//! System calls as scripts make them, with Linux's numbers for what has a name.

use core::time::Duration;

use super::errno::Errno;

/// A system call. Descriptors are those of the script until the runner replaces them by real ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// `socket(…, SOCK_STREAM, IPPROTO_TCP)`, of the script's family.
    Socket {
        /// With SOCK_NONBLOCK.
        non_blocking: bool,
    },
    /// `bind(fd, …, …)`
    Bind {
        /// The socket.
        fd: i32,
        /// `None` (`...`) for the usual address.
        address: Option<Address>,
    },
    /// `listen(fd, backlog)`
    Listen {
        /// The socket.
        fd: i32,
        /// Its backlog.
        backlog: i32,
    },
    /// `accept(fd, …, …)`
    Accept {
        /// The listener.
        fd: i32,
    },
    /// `connect(fd, …, …)`
    Connect {
        /// The socket.
        fd: i32,
        /// `None` (`...`) for the usual peer.
        address: Option<Address>,
    },
    /// `read(fd, …, count)` and `recv(fd, …, count, flags)`
    Receive {
        /// The socket.
        fd: i32,
        /// How many bytes at most.
        count: usize,
        /// MSG_ flags; 0 for `read`.
        flags: i32,
    },
    /// `write(fd, …, count)` and `send(fd, …, count, flags)`
    Send {
        /// The socket.
        fd: i32,
        /// How many bytes.
        count: usize,
        /// MSG_ flags; 0 for `write`.
        flags: i32,
    },
    /// `close(fd)`
    Close {
        /// The descriptor.
        fd: i32,
    },
    /// `shutdown(fd, how)`
    Shutdown {
        /// The socket.
        fd: i32,
        /// SHUT_RD, SHUT_WR or SHUT_RDWR.
        how: i32,
    },
    /// `setsockopt(fd, level, name, [value], …)`
    SetOption {
        /// The socket.
        fd: i32,
        /// SOL_SOCKET, …
        level: i32,
        /// SO_…, TCP_…
        name: i32,
        /// Its new value.
        value: OptionValue,
    },
    /// `getsockopt(fd, level, name, [expected], …)`
    GetOption {
        /// The socket.
        fd: i32,
        /// SOL_SOCKET, …
        level: i32,
        /// SO_…, TCP_…
        name: i32,
    },
    /// `poll([{fd=…, events=…, revents=…}], count, timeout)`
    Poll {
        /// Descriptors, and the events asked for.
        fds: Vec<(i32, i16)>,
        /// How long to wait; `None` for ever.
        timeout: Option<Duration>,
    },
    /// `fcntl(fd, F_SETFL, O_NONBLOCK)` and so on.
    Control {
        /// The descriptor.
        fd: i32,
        /// F_GETFL or F_SETFL.
        command: i32,
        /// The flags to set.
        argument: i32,
    },
}

impl Call {
    /// The descriptors that it names.
    pub fn fds_mut(&mut self) -> Vec<&mut i32> {
        match self {
            Call::Socket { .. } => Vec::new(),
            Call::Poll { fds, .. } => fds.iter_mut().map(|(fd, _)| fd).collect(),
            Call::Bind { fd, .. }
            | Call::Listen { fd, .. }
            | Call::Accept { fd }
            | Call::Connect { fd, .. }
            | Call::Receive { fd, .. }
            | Call::Send { fd, .. }
            | Call::Close { fd }
            | Call::Shutdown { fd, .. }
            | Call::SetOption { fd, .. }
            | Call::GetOption { fd, .. }
            | Call::Control { fd, .. } => vec![fd],
        }
    }
}

/// An address and port. Only the port can be chosen: the addresses are those of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The port.
    pub port: u16,
}

/// The value of a socket option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// One or more integers of 32 bits, in a row.
    Integers(Vec<i32>),
    /// A name, such as that of a congestion control.
    Name(String),
}

/// What a call is expected to come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// What it returns, or the error; `None` (`= ?`) if that does not matter.
    pub result: Option<Result<i64, Errno>>,
    /// What it gives back besides.
    pub also: Also,
}

/// What a call gives back besides its result.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Also {
    /// Nothing, or nothing that matters.
    #[default]
    Nothing,
    /// Events found by `poll`, one for each descriptor asked about.
    Events(Vec<i16>),
    /// The value of an option.
    Option(OptionValue),
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What it returned.
    pub result: Result<i64, Errno>,
    /// What it gave back besides.
    pub also: Also,
    /// The bytes that it read.
    pub bytes: Vec<u8>,
}

impl Outcome {
    /// A result with nothing besides.
    pub fn of(result: Result<i64, Errno>) -> Outcome {
        Outcome {
            result,
            also: Also::Nothing,
            bytes: Vec::new(),
        }
    }
}

/// Names that stand for numbers, with Linux's numbers on x86-64.
pub mod constant {
    #![allow(non_upper_case_globals, reason = "Linux spells some of them so")]

    macro_rules! constants {
        ($($name:ident = $number:expr,)+) => {
            $(#[doc = stringify!($name)] pub const $name: i32 = $number;)+

            /// The number that a name stands for.
            pub fn by_name(name: &str) -> Option<i32> {
                match name { $(stringify!($name) => Some($name),)+ _ => None }
            }
        };
    }

    constants! {
        AF_INET = 2,
        AF_INET6 = 10,
        SOCK_STREAM = 1,
        SOCK_NONBLOCK = 0o4000,
        SOCK_CLOEXEC = 0o2_000_000,
        IPPROTO_IP = 0,
        IPPROTO_TCP = 6,
        IPPROTO_IPV6 = 41,
        SOL_SOCKET = 1,
        SOL_IP = 0,
        SOL_TCP = 6,
        SOL_IPV6 = 41,
        SO_REUSEADDR = 2,
        SO_TYPE = 3,
        SO_ERROR = 4,
        SO_SNDBUF = 7,
        SO_RCVBUF = 8,
        SO_KEEPALIVE = 9,
        SO_LINGER = 13,
        SO_REUSEPORT = 15,
        SO_RCVLOWAT = 18,
        SO_ACCEPTCONN = 30,
        SO_PROTOCOL = 38,
        SO_DOMAIN = 39,
        TCP_NODELAY = 1,
        TCP_MAXSEG = 2,
        TCP_CORK = 3,
        TCP_KEEPIDLE = 4,
        TCP_KEEPINTVL = 5,
        TCP_KEEPCNT = 6,
        TCP_SYNCNT = 7,
        TCP_LINGER2 = 8,
        TCP_DEFER_ACCEPT = 9,
        TCP_WINDOW_CLAMP = 10,
        TCP_INFO = 11,
        TCP_QUICKACK = 12,
        TCP_CONGESTION = 13,
        TCP_USER_TIMEOUT = 18,
        TCP_FASTOPEN = 23,
        IP_TOS = 1,
        IP_MTU_DISCOVER = 10,
        IP_MTU = 14,
        IPV6_MTU = 24,
        IPV6_V6ONLY = 26,
        IPV6_TCLASS = 67,
        MSG_OOB = 1,
        MSG_PEEK = 2,
        MSG_TRUNC = 0x20,
        MSG_DONTWAIT = 0x40,
        MSG_WAITALL = 0x100,
        MSG_NOSIGNAL = 0x4000,
        MSG_MORE = 0x8000,
        SHUT_RD = 0,
        SHUT_WR = 1,
        SHUT_RDWR = 2,
        POLLIN = 1,
        POLLPRI = 2,
        POLLOUT = 4,
        POLLERR = 8,
        POLLHUP = 0x10,
        POLLNVAL = 0x20,
        POLLRDHUP = 0x2000,
        F_GETFL = 3,
        F_SETFL = 4,
        O_RDWR = 2,
        O_NONBLOCK = 0o4000,
        TCP_ESTABLISHED = 1,
        TCP_SYN_SENT = 2,
        TCP_SYN_RECV = 3,
        TCP_FIN_WAIT1 = 4,
        TCP_FIN_WAIT2 = 5,
        TCP_TIME_WAIT = 6,
        TCP_CLOSE = 7,
        TCP_CLOSE_WAIT = 8,
        TCP_LAST_ACK = 9,
        TCP_LISTEN = 10,
        TCP_CLOSING = 11,
        TCP_CA_Open = 0,
        TCP_CA_Disorder = 1,
        TCP_CA_CWR = 2,
        TCP_CA_Recovery = 3,
        TCP_CA_Loss = 4,
        TCPI_OPT_TIMESTAMPS = 1,
        TCPI_OPT_SACK = 2,
        TCPI_OPT_WSCALE = 4,
        TCPI_OPT_ECN = 8,
        TCPI_OPT_ECN_SEEN = 16,
        TCPI_OPT_SYN_DATA = 32,
    }
}
