//! What goes from one worker to another.

use std::net::SocketAddr;

use tcp::{Instant, snapshot};

/// A connection that waits to be accepted, on its way to a worker where somebody accepts.
#[derive(Debug)]
pub struct Waiting {
    /// What it waits for.
    pub listener: SocketAddr,
    /// All that its TCP knows.
    pub connection: Box<snapshot::Snapshot>,
    /// What it has received, from the beginning of its stream on.
    pub received: Vec<u8>,
    /// When it came into the queue.
    pub since: Instant,
    /// How often it has been passed on because nobody was there any more.
    pub hops: u8,
}

/// A handshake that a peer has begun, on the same way.
#[derive(Debug)]
pub struct Begun {
    /// Where.
    pub listener: SocketAddr,
    /// All that is known of it.
    pub half_open: snapshot::HalfOpen,
    /// How often it has been passed on because nobody was there any more.
    pub hops: u8,
}
