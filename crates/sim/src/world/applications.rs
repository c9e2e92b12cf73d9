//! What applications do by themselves, and the checks of what they read.

use tcp::{Extent, Request};

use super::{SocketId, World};
use crate::network::Happening;
use crate::pattern;
use crate::socket::{Reading, Socket, Then};

impl World {
    /// Lets a socket's application do what it can. The world does so whenever the stack says
    /// something of the socket; a test that has changed the plan does it itself.
    pub fn pump(&mut self, id: SocketId) {
        if self.sockets[id.0].released {
            return;
        }
        self.pump_reading(id);
        self.submit(id);
        self.go_on(id);
    }

    /// Hands over what there is to send and room for.
    pub(super) fn submit(&mut self, id: SocketId) {
        while self.sockets[id.0].sendable() > 0 {
            let socket = &self.sockets[id.0];
            let len = socket.sendable() as u32;
            let extent = Extent {
                addr: socket.next_address(),
                len,
            };
            let more = socket.plan.more && socket.submitted + u64::from(len) < socket.plan.send;
            self.must(id, Request::Send { extent, more });
        }
    }

    /// If a socket's SYN still waits for data, it has that now; or there is none, and it waits no longer.
    pub(super) fn let_syn_go(&mut self, id: SocketId) {
        if self.sockets[id.0].released || !self.holds_syn(id) {
            return;
        }
        self.submit(id);
        if self.holds_syn(id) {
            self.must(id, Request::Open);
        }
    }

    /// Closes what is to be closed.
    fn go_on(&mut self, id: SocketId) {
        let socket = &self.sockets[id.0];
        if socket.closed {
            return;
        }
        let failed = socket.update.failed.is_some();
        if socket.all_submitted() && !socket.shut_down && !failed {
            match socket.plan.then {
                Then::Stay => {}
                Then::ShutdownWrite => self.must(id, Request::ShutdownWrite),
                Then::Close => return self.must(id, Request::Close),
            }
        }
        let socket = &self.sockets[id.0];
        let done = socket.all_submitted()
            && socket.update.peer_closed
            && socket.consumed == socket.update.received;
        if socket.plan.close_after_peer && (done || failed) {
            self.must(id, Request::Close);
        }
    }

    fn must(&mut self, id: SocketId, request: Request) {
        let result = self.request(id, request);
        assert_eq!(result, Ok(()), "{request:?} of {:?}", self.sockets[id.0]);
    }

    fn pump_reading(&mut self, id: SocketId) {
        let readable = self.sockets[id.0].readable();
        if readable > 0 {
            let Socket {
                host,
                conn,
                consumed,
                ..
            } = self.sockets[id.0];
            let bytes = self.hosts[host.0].memory.read(conn, readable);
            assert_eq!(
                bytes.len() as u64,
                readable,
                "what was said to be received is there"
            );
            self.check(id, &bytes);
            self.sockets[id.0].consumed += readable;
            if self.sockets[id.0].update.failed.is_none() {
                self.must(id, Request::Consumed(consumed + readable));
            }
        }
        let now = self.now;
        let socket = &mut self.sockets[id.0];
        if let Reading::Slow(_, pause) = socket.plan.reading
            && readable > 0
        {
            socket.may_read = false;
            if !socket.wake_scheduled {
                socket.wake_scheduled = true;
                self.network
                    .schedule(now + pause, socket.host, Happening::Wake(id));
            }
        }
    }

    /// Reads what a connection that is over has left.
    pub(super) fn read_to_the_end(&mut self, id: SocketId) {
        let Socket {
            host,
            conn,
            consumed,
            ref update,
            ..
        } = self.sockets[id.0];
        let bytes = self.hosts[host.0]
            .memory
            .read(conn, update.received - consumed);
        if !bytes.is_empty() {
            self.check(id, &bytes);
        }
        self.sockets[id.0].consumed += bytes.len() as u64;
    }

    /// Holds what was read against what the peer sent.
    fn check(&mut self, id: SocketId, bytes: &[u8]) {
        let peer = self
            .peer(id)
            .unwrap_or_else(|| panic!("{id:?} read what nobody sent"));
        let (offset, peer) = (self.sockets[id.0].consumed, &self.sockets[peer.0]);
        assert!(
            offset + bytes.len() as u64 <= peer.submitted,
            "{id:?} read {offset}+{} bytes of {}",
            bytes.len(),
            peer.submitted
        );
        if let Some(at) = pattern::first_wrong(peer.base + offset, bytes) {
            let at = offset + at as u64;
            panic!("{id:?} read a wrong byte at {at}, from {peer:?}");
        }
    }

    /// The other end of a socket's connection: the last one opened between those addresses and
    /// ports, when it was first asked for.
    pub fn peer(&mut self, id: SocketId) -> Option<SocketId> {
        let Socket {
            peer,
            local,
            remote,
            ..
        } = self.sockets[id.0];
        if peer.is_some() {
            return peer;
        }
        let found = *self.ends.get(&(remote, local))?;
        self.sockets[id.0].peer = Some(found);
        // A late copy of what brought a cookie may have begun another connection between the same
        // ends; who has a peer keeps it.
        self.sockets[found.0].peer.get_or_insert(id);
        Some(found)
    }

    /// Checks that a connection that was ended in peace has delivered, both ways, everything that
    /// was sent.
    ///
    /// # Panics
    /// If it has not.
    pub fn check_delivered(&mut self, id: SocketId) {
        let peer = self
            .peer(id)
            .unwrap_or_else(|| panic!("{id:?} has no peer"));
        for (from, to) in [(id, peer), (peer, id)] {
            let (sender, receiver) = (&self.sockets[from.0], &self.sockets[to.0]);
            assert_eq!(sender.update.failed, None, "{from:?} has failed");
            assert!(!sender.aborted, "{from:?} was aborted");
            assert_eq!(
                receiver.consumed, sender.submitted,
                "from {from:?} to {to:?}"
            );
            assert_eq!(
                sender.submitted, sender.plan.send,
                "{from:?} did not send everything"
            );
        }
    }

    /// Checks that nothing is left on any host: no connection, no memory.
    ///
    /// # Panics
    /// If anything is.
    pub fn check_empty(&self) {
        for host in &self.hosts {
            let name = host.config.name;
            assert_eq!(
                host.stack.connection_count(),
                0,
                "connections are left at the {name}"
            );
            assert_eq!(
                host.stack.half_open_count(),
                0,
                "half-open ones are left at the {name}"
            );
            assert_eq!(host.memory.holders(), 0, "memory is held at the {name}");
            assert!(host.sockets.is_empty(), "sockets are left at the {name}");
        }
    }
}
