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
    /// There is room again after a send that found none. On the engine a third of the send buffer is free then, and
    /// sends are refused until that is so.
    Room = 4,
    /// An asynchronous send of `bytes`, named by its `cookie`, was acknowledged by the peer; or,
    /// with `error`, the connection ended before. While a program waits for room, sends that were acknowledged may be
    /// told of with that, or 50 ms later.
    Sent = 5,
    /// The connection is over in both directions; `error` says why if it was not by agreement. What
    /// arrived before can still be received. It is to be closed.
    End = 6,
    /// A descriptor of the program's own is ready; `bytes` are epoll's bits.
    Ready = 7,
    /// A [`Waker`](crate::Waker) was used.
    Wake = 8,
    /// A [posted](crate::Queue::post) buffer, named by its `cookie`, holds `bytes` by now. What follows is
    /// not the program's yet.
    Placed = 9,
    /// A posted buffer, named by its `cookie`, is the program's again, with `bytes` in it: it is full, the
    /// stream has ended, or, with `error`, nothing more comes for that reason.
    Filled = 10,
    /// Nothing names the registered memory any more for which the program has
    /// [asked](crate::Queue::tell_when_free), under this `cookie`. It has no handle.
    Free = 11,
}

/// One thing that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: Kind,
    /// An error number of the kernel's; 0 if there is none.
    pub error: i32,
    /// To whom; the null handle for [`Kind::Free`].
    pub handle: Handle,
    /// The program's own 64 bits: of the send for [`Kind::Sent`], of the buffer for [`Kind::Placed`] and
    /// [`Kind::Filled`], what was asked with for [`Kind::Free`], otherwise of the handle.
    pub cookie: u64,
    /// How many bytes, as the kind says.
    pub bytes: u64,
}
