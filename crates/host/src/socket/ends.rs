//! The addresses of a connection. Of the old Internet Protocol they are twelve bytes together, with room for the
//! new one's they would be 64, and there may be a million sockets.

use std::net::{SocketAddr, SocketAddrV4};

/// This end's address and the other's.
#[derive(Debug)]
pub(super) enum Ends {
    V4(SocketAddrV4, SocketAddrV4),
    Other(Box<(SocketAddr, SocketAddr)>),
}

impl Ends {
    pub fn new(local: SocketAddr, peer: SocketAddr) -> Self {
        match (local, peer) {
            (SocketAddr::V4(local), SocketAddr::V4(peer)) => Self::V4(local, peer),
            _ => Self::Other(Box::new((local, peer))),
        }
    }

    pub fn set_local(&mut self, local: SocketAddr) {
        *self = Self::new(local, self.peer());
    }

    pub fn local(&self) -> SocketAddr {
        match self {
            Self::V4(local, _) => (*local).into(),
            Self::Other(both) => both.0,
        }
    }

    pub fn peer(&self) -> SocketAddr {
        match self {
            Self::V4(_, peer) => (*peer).into(),
            Self::Other(both) => both.1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_what_they_were() {
        for (local, peer) in [
            ("10.0.0.1:80", "10.0.0.2:4000"),
            ("[fe80::1%3]:80", "[fe80::2%3]:4000"),
            // As an IPv6 socket is named before it is known to be bound.
            ("[::]:0", "10.0.0.2:4000"),
        ] {
            let [local, peer] = [local, peer].map(|it| it.parse().expect("an address"));
            let ends = Ends::new(local, peer);
            assert_eq!((ends.local(), ends.peer()), (local, peer));
        }
    }
}
