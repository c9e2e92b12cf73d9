//! The application's end of a connection: what it plans to do, what it has done, and the second
//! half of the oracle: what is read must be what the other end sent.

use core::net::SocketAddr;
use core::time::Duration;

use tcp::{ConnId, ConnUpdate};

use crate::ids::{HostId, SocketId};

/// What an application means to do with a connection. All of it goes on by itself while the world
/// runs.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many bytes to send in all.
    pub send: u64,
    /// The largest piece to hand to the stack at once.
    pub chunk: u32,
    /// How many bytes may be handed over and not acknowledged; 0 for as many as the stack says.
    pub send_buffer: u64,
    /// Whether to say of all pieces but the last that more will follow.
    pub more: bool,
    /// What to do when everything is handed over.
    pub then: Then,
    /// How to read.
    pub reading: Reading,
    /// Whether to close when the peer has closed and everything is handed over and read.
    pub close_after_peer: bool,
}

/// What to do when everything is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Stay,
    /// Close the sending side.
    ShutdownWrite,
    /// Close.
    Close,
}

/// How an application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Everything at once.
    Eager,
    /// Not at all.
    Never,
    /// At most so many bytes each time that so much time has passed.
    Slow(u64, Duration),
}

impl Plan {
    /// Sends nothing, reads all, stays until the peer closes.
    pub const LISTEN: Plan = Plan {
        send: 0,
        chunk: 16 << 10,
        send_buffer: 256 << 10,
        more: false,
        then: Then::Stay,
        reading: Reading::Eager,
        close_after_peer: true,
    };

    /// Does nothing but what a test asks for, except reading.
    pub const BY_HAND: Plan = Plan {
        close_after_peer: false,
        ..Plan::LISTEN
    };

    /// Sends so many bytes, then closes its sending side, and closes when the peer has.
    pub const fn transfer(bytes: u64) -> Plan {
        Plan {
            send: bytes,
            then: Then::ShutdownWrite,
            ..Plan::LISTEN
        }
    }
}

/// An application's end of a connection.
#[derive(Clone, Debug)]
pub struct Socket {
    /// Whose it is.
    pub host: HostId,
    /// What the stack calls it.
    pub conn: ConnId,
    /// Its address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// What the stack last said of it.
    pub update: ConnUpdate,
    /// Bytes handed to the stack.
    pub submitted: u64,
    /// Bytes read and found right.
    pub consumed: u64,
    /// The sending side has been closed, or all of it.
    pub shut_down: bool,
    /// The application has closed it.
    pub closed: bool,
    /// Either side ended it by force.
    pub aborted: bool,
    /// The stack has forgotten it.
    pub released: bool,
    /// What the application means to do.
    pub plan: Plan,
    /// The other end, once it is known.
    pub(crate) peer: Option<SocketId>,
    /// Where what it sends begins in the address space of patterns.
    pub(crate) base: u64,
    /// When a slow reader reads again is scheduled.
    pub(crate) wake_scheduled: bool,
    /// A slow reader may read now.
    pub(crate) may_read: bool,
}

impl Socket {
    pub(crate) fn new(
        id: SocketId,
        host: HostId,
        conn: ConnId,
        local: SocketAddr,
        remote: SocketAddr,
        plan: Plan,
    ) -> Socket {
        Socket {
            host,
            conn,
            local,
            remote,
            update: ConnUpdate::default(),
            submitted: 0,
            consumed: 0,
            shut_down: false,
            closed: false,
            aborted: false,
            released: false,
            plan,
            peer: None,
            base: (id.0 as u64 + 1) << 40,
            wake_scheduled: false,
            may_read: true,
        }
    }

    /// Where what it sends next lies in the address space of patterns.
    pub fn next_address(&self) -> u64 {
        self.base + self.submitted
    }

    /// Takes up what the stack says, which may only get more.
    pub(crate) fn take_update(&mut self, update: ConnUpdate) {
        let old = self.update;
        let grows = update.received >= old.received
            && update.acked >= old.acked
            && update.connected >= old.connected
            && update.peer_closed >= old.peer_closed
            && update.failed.is_some() >= old.failed.is_some();
        assert!(
            grows,
            "an update took something back: {old:?}, then {update:?}"
        );
        assert!(
            !old.peer_closed || update.received == old.received,
            "data after the end of the stream: {old:?}, then {update:?}"
        );
        assert!(
            update.acked <= self.submitted,
            "{} bytes acknowledged of {} handed over",
            update.acked,
            self.submitted
        );
        self.update = update;
    }

    /// The stack has forgotten it. The next stack may give its name to another.
    pub(crate) fn release(&mut self) {
        self.released = true;
        self.conn = ConnId {
            index: u32::MAX,
            generation: u32::MAX,
        };
    }

    /// How many bytes the application would hand over now.
    pub(crate) fn sendable(&self) -> u64 {
        if self.shut_down || self.closed || self.update.failed.is_some() {
            return 0;
        }
        let pending = self.submitted - self.update.acked;
        let buffer = match self.plan.send_buffer {
            0 => self.update.send_buffer.into(),
            fixed => fixed,
        };
        let room = buffer.saturating_sub(pending);
        (self.plan.send - self.submitted)
            .min(room)
            .min(self.plan.chunk.into())
    }

    /// How many bytes the application would read now.
    pub(crate) fn readable(&self) -> u64 {
        if self.closed {
            return 0;
        }
        let waiting = self.update.received - self.consumed;
        match self.plan.reading {
            Reading::Eager => waiting,
            Reading::Never => 0,
            Reading::Slow(..) if !self.may_read => 0,
            Reading::Slow(bytes, _) => waiting.min(bytes),
        }
    }

    /// Whether everything that the application means to send is handed over.
    pub(crate) fn all_submitted(&self) -> bool {
        self.submitted == self.plan.send
    }
}
