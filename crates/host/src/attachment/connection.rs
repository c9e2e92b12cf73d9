//! What an attachment asks of the connections in its tables.

use std::net::SocketAddr;
use std::sync::Arc;

use queue_pair::control::Carried;
use queue_pair::{ConnRef, Violation};
use rustix::io::Errno;

use crate::nudge::Nudges;

/// A connection as an attachment `A` knows it: whom it tells what the engine says of it. Called by the
/// pumping thread, where nothing else is said.
///
/// It is no object but a parameter, so that what comes with every segment is an ordinary call.
pub(crate) trait Connection<A>: Sized + Send + Sync + 'static {
    /// One that the engine offers to this process, under a grant.
    fn accepted(
        nudges: &Arc<Nudges>,
        attachment: &Arc<A>,
        offer: (ConnRef, u16),
        ends: [SocketAddr; 2],
    ) -> Arc<Self>;

    /// One that came by a ticket.
    fn claimed(
        nudges: &Arc<Nudges>,
        attachment: &Arc<A>,
        conn: ConnRef,
        ends: [SocketAddr; 2],
        carried: &Carried,
    ) -> Arc<Self>;

    /// One more stands for it. False: it is closed here.
    fn share_handle(&self) -> bool;

    /// Its state as the engine has it now.
    ///
    /// # Errors
    /// It cannot be so, as in all that follows.
    fn updated(
        self: &Arc<Self>,
        attachment: &A,
        data: (u64, u32),
        acked: u64,
        peer_closed: bool,
    ) -> Result<(), Violation>;

    /// The same, with what the engine has placed where it was wanted.
    fn placed(
        self: &Arc<Self>,
        attachment: &A,
        data: (u64, u32),
        acked: u64,
        peer_closed: bool,
    ) -> Result<(), Violation>;

    /// It has failed, or never came to be.
    fn ended(&self, attachment: &A, errno: Option<Errno>);

    /// The engine's last word on it. True if nobody had accepted it.
    fn released(&self, attachment: &A) -> bool;

    /// This process reads it from now on.
    fn granted(&self, attachment: &A, grant: u16, consumed: u64, alone_since: Option<u32>);

    /// The engine cannot make this process the reader now.
    fn not_granted(&self, errno: Errno);

    /// Its state, where another process reads it.
    fn read_elsewhere(
        &self,
        attachment: &A,
        data: (u64, u64),
        acked: u64,
        peer_closed: bool,
    ) -> Result<(), Violation>;

    /// Another process has ended this side's direction.
    fn shut_elsewhere(&self);

    /// Another process has ended reading.
    fn read_shut_elsewhere(&self);

    /// Another process has set or cleared O_NONBLOCK.
    fn set_nonblocking(&self, on: bool);

    /// Whether this process reports its error.
    fn error_taken(&self, yours: bool);

    /// So many bytes are worth writing before they are acknowledged.
    fn advised(&self, bytes: u32);

    /// So much of what this process has written has left.
    fn departed(&self, total: u64) -> Result<(), Violation>;

    /// Whether it is still being opened.
    fn is_opening(&self) -> bool;

    /// From where it is being opened.
    fn opens_from(&self, local: SocketAddr);

    /// It is there.
    fn opened(&self, attachment: &Arc<A>, conn: ConnRef, grant: Option<u16>, local: SocketAddr);

    /// Its SYN is under way, and waits for nothing.
    fn syn_leaves(&self);

    /// Its SYN waits for data, and has room for so many bytes.
    fn syn_waits(&self, attachment: &Arc<A>, conn: ConnRef, room: u16);

    /// The child of a fork has attached: it is one of `attachment`, if that is true.
    fn inherit(&self, attachment: &Arc<A>, conn: Option<ConnRef>) -> bool;

    /// The child of a fork cannot attach.
    fn disinherited(&self);

    /// Tells the engine how far it was read, if that was not told. Called before a thread sleeps.
    fn announce_consumption(&self);

    /// There may be send memory, and room in the ring, again.
    fn fed(&self);

    /// It was refused to read it, a while ago.
    fn may_ask_again(&self);
}
