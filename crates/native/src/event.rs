//! What has happened.

slotmap::new_key_type! {
    /// Something that a queue has: a connection, a listener or a descriptor. One that is closed is
    /// never mistaken for another; every call that names it fails with `EBADF`.
    pub struct Handle;
}

/// What an [`Event`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A listener has connections: accept until `EAGAIN`.
    Accept = 1,
    /// A connection that was being opened is there, or `error` says why not.
    Open = 2,
    /// Data has arrived, `bytes` of it unread, or the peer has ended its direction: receive until
    /// `EAGAIN` or the end.
    Receive = 3,
    /// There is room again after a send that found none.
    Room = 4,
    /// An asynchronous send of `bytes`, named by its `cookie`, was acknowledged by the peer; or,
    /// with `error`, the connection ended before.
    Sent = 5,
    /// The connection is over in both directions; `error` says why if it was not by agreement. What
    /// arrived before can still be received. It is to be closed.
    End = 6,
    /// A descriptor of the program's own is ready; `bytes` are epoll's bits.
    Ready = 7,
    /// A [`Waker`](crate::Waker) was used.
    Wake = 8,
}

/// One thing that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: Kind,
    /// An error number of the kernel's; 0 if there is none.
    pub error: i32,
    /// To whom.
    pub handle: Handle,
    /// The program's own 64 bits: of the send for [`Kind::Sent`], otherwise of the handle.
    pub cookie: u64,
    /// How many bytes, as the kind says.
    pub bytes: u64,
}
