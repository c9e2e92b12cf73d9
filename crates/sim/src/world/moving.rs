//! Moving connections from one stack to another while everything else goes on.

use tcp::{ExportError, ImportError, Stack};

use super::{HostId, SocketId, World};

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
        let (now, host) = (self.now, self.sockets[id.0].host);
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
        host.sockets.remove(&old);
        host.sockets.insert(new, id);
        self.sockets[id.0].conn = new;
        Ok(())
    }

    /// A host's stack makes way for another, with secrets of its own: what is open moves over, what only
    /// the old one knew (listeners, half-open connections, TIME-WAIT) is gone.
    ///
    /// # Errors
    /// A connection could not be moved.
    pub fn replace_stack(&mut self, host: HostId, mut stack: Stack) -> Result<(), ImportError> {
        let now = self.now;
        let host = &mut self.hosts[host.0];
        for (old, id) in core::mem::take(&mut host.sockets) {
            let Ok(snapshot) = host.stack.export(now, old) else {
                // It is over: all that its application will hear of it.
                self.sockets[id.0].released = true;
                host.memory.release(old);
                continue;
            };
            let new = stack.import(now, &snapshot)?;
            // Under a name that neither stack uses, until all have theirs.
            host.memory.rename(
                old,
                tcp::ConnId {
                    index: !new.index,
                    ..new
                },
            );
            host.sockets.insert(new, id);
            self.sockets[id.0].conn = new;
        }
        for &new in host.sockets.keys() {
            host.memory.rename(
                tcp::ConnId {
                    index: !new.index,
                    ..new
                },
                new,
            );
        }
        host.stack = stack;
        Ok(())
    }
}
