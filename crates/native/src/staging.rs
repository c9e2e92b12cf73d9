//! A queue lets what is staged in it leave.

use std::sync::Arc;

use queue_pair::Sending;
use rustix::fd::AsFd;
use slotmap::{Key, KeyData};

use crate::connection::Connection;
use crate::event::Handle;
use crate::queue::{Object, Queue};
use crate::sends::Back;
use crate::stage::{Entry, Stage};
use crate::stream::Stream;

impl Queue {
    /// Where a send of so many bytes may be staged, if it may be. What comes back when it has left may not: it would be
    /// late.
    pub(crate) fn stages(&mut self, bytes: usize, back: Back) -> Option<Arc<Stage>> {
        if !self.together.takes(bytes) || matches!(back, Back::Left(_)) {
            return None;
        }
        if self.together.is_due() {
            self.send_staged();
        }
        match self.together.takes(bytes) {
            true => self.together.stage(),
            false => None,
        }
    }

    /// Something was sent on this connection. Once that is so of all that the program was told of, what is staged
    /// leaves: there may be nothing more to wait for.
    pub(crate) fn has_sent(&mut self, handle: Handle) {
        if self.together.is_to_answer()
            && let Some(Object::Connection(connection)) = self.objects.get_mut(handle)
            && let Stream::Kernel(stream) = &mut connection.stream
            && stream.has_answered(self.together.turn())
            && self.together.has_answered()
        {
            self.send_staged();
        }
    }

    /// What is staged leaves, and what is sent from now on does at once, unless the program is told of several
    /// connections again.
    pub(crate) fn stop_staging(&mut self) {
        self.send_staged();
        self.together.stop();
    }

    /// What is staged leaves. What finds no room leaves later; what has met an error the next send is told of.
    pub(crate) fn send_staged(&mut self) {
        if self.together.is_empty() {
            return;
        }
        let handles = self.together.take();
        let Some(stage) = self.together.stage() else {
            return;
        };
        // Until all of it is with the kernel, or with its connection.
        let mut entries = stage.lock();
        let mut taken: Vec<(Handle, Entry)> = Vec::with_capacity(handles.len());
        for handle in handles {
            if let Some(Object::Connection(connection)) = self.objects.get_mut(handle)
                && let Stream::Kernel(stream) = &mut connection.stream
                && let Some(staged) = stream.staged.take()
                && let Some(entry) = entries.take(&staged)
            {
                taken.push((handle, entry));
            }
        }
        let sends = taken.iter_mut().map(|(handle, entry)| Sending {
            fd: entry.fd.as_fd(),
            name: handle.data().as_ffi(),
            bytes: std::mem::take(&mut entry.bytes),
            more: entry.more,
            done: None,
        });
        let mut sends: Vec<_> = sends.collect();
        self.together.send(&mut sends);
        for sending in sends {
            if matches!(sending.done, Some(Ok(sent)) if sent >= sending.bytes.len()) {
                continue;
            }
            let handle = Handle::from(KeyData::from_ffi(sending.name));
            if let Some(Object::Connection(connection)) = self.objects.get_mut(handle)
                && let Stream::Kernel(stream) = &mut connection.stream
            {
                stream.settle(sending.bytes, sending.more, sending.done);
                connection.note_what_sends_met();
            }
        }
    }
}

impl Connection {
    /// What is staged leaves before something else is done, or told, of it.
    pub(crate) fn leave_first(&mut self) {
        if let Stream::Kernel(stream) = &mut self.stream
            && stream.staged.is_some()
        {
            stream.leave_first();
            self.note_what_sends_met();
        }
    }
}
