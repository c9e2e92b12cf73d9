//! What a program links with to use the engine: attach, sockets, readiness.
//!
//! ```no_run
//! use host::{Accepted, Poller, Readiness, Session};
//!
//! # fn main() -> Result<(), rustix::io::Errno> {
//! let session = Session::attach("default", "example")?;
//! let listener = session.listen("0.0.0.0:7000".parse().unwrap(), 128)?;
//! loop {
//!     listener.wait(None)?;
//!     if let Accepted::Offloaded(socket) = listener.accept()? {
//!         socket.send(b"hello\n", false)?;
//!     }
//! }
//! # }
//! ```
//!
//! A [`Session`] is the process's relation to an engine. A [`Listener`] shares its port with a
//! listening socket of the kernel's; what it accepts is a [`Socket`]. Nothing but `wait` functions
//! waits. A [`Poller`] waits for many at once; a [`ReadySet`] and a [`Sleeper`] are its parts, for
//! whoever has to make the waiting call himself.
//!
//! # Threads, signals, forks
//!
//! Everything may be used from any thread. A call on one socket may wait for another thread's call
//! on the same socket, never for one that sleeps. A signal handler may use [`private_fds`], and
//! nothing else here: a handler that interrupts a call on a socket and calls into the same socket
//! would wait for itself (whoever cannot choose keeps handlers away: [`sleep_by`]). What to do about forks stands at [`Session::before_fork`].
//!
//! # Without copies
//!
//! [`Socket::room`] lends a stretch of the send area to be filled in place, a [`Registered`] piece of
//! it is the program's own and sent from as often as it likes, and a [`View`] is what has arrived,
//! where the engine has put it. What a [`RegisteredFile`] has, the engine reads itself. [`Socket::post`] has the engine put it into registered memory.

#![forbid(unsafe_code)]

mod ahead;
mod around;
mod attachment;
mod bell_name;
mod change_log;
mod clock;
mod connect;
mod connections;
mod fork;
mod gather;
mod inheritance;
mod interest;
mod line;
mod listener;
mod lock;
mod locks;
pub mod notes;
mod nudge;
pub mod one_shot;
mod poller;
mod post_queue;
pub mod private_fds;
mod quiet;
mod readiness;
mod ready_set;
mod receive_queue;
pub mod reserve;
mod route;
pub mod send_pool;
mod send_queue;
mod session;
mod sleep;
mod socket;
mod stand;

pub use ahead::Ahead;
pub use around::{Sleeps, sleep_by};
pub use attachment::{Engine, RegisteredFile};
pub use change_log::{Change, ChangeLog, LogReader};
pub use clock::pause;
pub use connect::{ConnectError, ConnectOptions};
pub use fork::{ForkToken, Promised};
pub use gather::gather;
pub use listener::{Accepted, Listener, why_refused};
pub use poller::{Poller, Source};
pub use post_queue::Placed;
pub use queue_pair::control::{AdmissionCounts, AdmissionLimit, AdmissionPolicy};
pub use queue_pair::control::{BbrInfo, Carried, ConnInfo, Explanation, ticket};
pub use queue_pair::control::{EngineFacts, Neighbour, Way};
pub use queue_pair::{FastOpen, OptionKind, PROFILE_VARIABLE};
pub use readiness::Readiness;
pub use ready_set::{Event, ReadySet, SourceHandle, Taken, Watchable};
pub use rustix::io::Errno;
pub use session::{LastWords, REMARKS, Session};
pub use sleep::{Company, Sleeper, Waiting};
pub use socket::{DEFAULT_SEND_BUFFER, Handed, PendingError, Shutdown, Socket, View};
pub use socket::{Piece, Registered, RegisteredWatch, Room};
pub use stand::interrupted;
