//! Moving connections from one stack to another while everything else goes on.

use std::collections::BTreeMap;

use tcp::{ConnId, ExportError, ImportError, Stack};

use super::{HostId, SocketId, World};
use crate::socket::{Plan, Socket};

impl World {
    /// Takes a socket's connection out of its stack and puts it back in: whatever it is in the middle
    /// of, it goes on. What is taken out of the new connection is what was put in.
    ///
    /// # Errors
    /// It is over, or was released already.
    ///
    /// # Panics
    /// If it cannot be put back, or is not what it was.
    pub fn move_connection(&mut self, id: SocketId) -> Result<(), ExportError> {
        let (now, host, flow) = (self.now, self.sockets[id.0].host, self.flow(id));
        let old = self.sockets[id.0].conn;
        let host = &mut self.hosts[host.0];
        let snapshot = host.stack.export(now, old)?;
        let first = host.stack.import(now, &snapshot).expect("to put it back");
        // Once more, to see that nothing was lost. What the stack knows of the path is learnt.
        let again = host.stack.export(now, first).expect("it is there");
        let mut expected = snapshot;
        if again.path.mtu < expected.path.mtu {
            expected.path = again.path;
        }
        assert_eq!(again, expected, "what came out is not what went in");
        let new = host
            .stack
            .import(now, &again)
            .expect("to put it back again");
        host.memory.rename(old, new);
        host.offers.rename(&flow, new);
        host.sockets.remove(&old);
        host.sockets.insert(new, id);
        self.sockets[id.0].conn = new;
        Ok(())
    }

    /// A host's stack makes way for another, with secrets of its own: connections, handshakes that peers
    /// have begun and pairs in TIME-WAIT move over, and listeners are opened again. What nobody has
    /// accepted is accepted. Only cookies that are on their way are lost. False, and nothing has
    /// happened: the old one has something to send that nobody else would (RST) and no room for it.
    ///
    /// # Errors
    /// Something could not be moved.
    ///
    /// # Panics
    /// If a listener would have another name.
    pub fn replace_stack(&mut self, host: HostId, mut stack: Stack) -> Result<bool, ImportError> {
        self.settle();
        if self.hosts[host.0].stack.wants_transmit() {
            return Ok(false);
        }
        self.accept_everything(host);
        let now = self.now;
        let listeners: Vec<_> = self.hosts[host.0]
            .listeners
            .iter()
            .map(|(&id, listener)| (id, listener.spec))
            .collect();
        for (id, spec) in listeners {
            assert_eq!(stack.listen(spec), Ok(id), "another name");
        }
        let sockets = core::mem::take(&mut self.hosts[host.0].sockets);
        let mut moved = BTreeMap::new();
        for (old, id) in sockets {
            let Ok(snapshot) = self.hosts[host.0].stack.export(now, old) else {
                self.finish(id);
                continue;
            };
            let new = stack.import(now, &snapshot)?;
            // Under a name that neither stack uses, until all have theirs.
            let flow = self.flow(id);
            self.hosts[host.0].memory.rename(old, interim(new));
            self.hosts[host.0].offers.rename(&flow, new);
            moved.insert(new, id);
            self.sockets[id.0].conn = new;
        }
        let host = &mut self.hosts[host.0];
        for &new in moved.keys() {
            host.memory.rename(interim(new), new);
        }
        host.sockets = moved;
        while let Some(half) = host.stack.export_half_open(now) {
            stack.import_half_open(now, &half)?;
        }
        while let Some(pair) = host.stack.export_time_wait(now) {
            stack.import_time_wait(now, &pair)?;
        }
        let left = (host.stack.flow_count(), host.stack.audit());
        assert_eq!(left, (0, Ok(())), "left behind at the {}", host.config.name);
        host.stack = stack;
        Ok(true)
    }

    /// Takes what waits in a host's listeners, for whoever accepts later.
    fn accept_everything(&mut self, host: HostId) {
        let listeners: Vec<_> = self.hosts[host.0].listeners.keys().copied().collect();
        for id in listeners {
            while let Some(socket) = self.accept_from_stack(host, id, Plan::BY_HAND) {
                let listener = self.hosts[host.0].listeners.get_mut(&id);
                listener.expect("it was just there").accepted.push(socket);
            }
        }
    }

    /// The connection is over, and its stack goes: all that is left is what was not read.
    fn finish(&mut self, id: SocketId) {
        let Socket { host, conn, .. } = self.sockets[id.0];
        if !self.sockets[id.0].closed {
            self.read_to_the_end(id);
        }
        self.hosts[host.0].memory.release(conn);
        self.sockets[id.0].closed = true;
        self.sockets[id.0].release();
    }
}

/// A name of a connection that no stack uses.
fn interim(conn: ConnId) -> ConnId {
    ConnId {
        index: !conn.index,
        ..conn
    }
}
