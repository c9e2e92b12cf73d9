//! A queue lets what is staged in it leave.

use queue_pair::Sending;
use slotmap::{Key, KeyData};

use crate::connection::Connection;
use crate::event::Handle;
use crate::queue::{Object, Queue};
use crate::sends::Back;
use crate::stream::Stream;

impl Queue {
    /// Whether a send of so many bytes may be staged. What comes back when it has left is not: it would be late.
    pub(crate) fn stages(&mut self, bytes: usize, back: Back) -> bool {
        if !self.together.takes(bytes) || matches!(back, Back::Left(_)) {
            return false;
        }
        if self.together.is_due() {
            self.send_staged();
        }
        self.together.takes(bytes)
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
        let mut taken = Vec::with_capacity(queue_pair::SendRing::MOST);
        for handle in self.together.take() {
            if let Some(Object::Connection(connection)) = self.objects.get_mut(handle)
                && let Stream::Kernel(stream) = &mut connection.stream
                && let Some((bytes, more)) = stream.take_staged()
            {
                taken.push((handle, bytes, more));
            }
        }
        let sends = taken.into_iter().filter_map(|(handle, bytes, more)| {
            let Some(Object::Connection(connection)) = self.objects.get(handle) else {
                return None;
            };
            let Stream::Kernel(stream) = &connection.stream else {
                return None;
            };
            Some(Sending {
                fd: stream.fd(),
                name: handle.data().as_ffi(),
                bytes,
                more,
                done: None,
            })
        });
        let mut sends: Vec<_> = sends.collect();
        self.together.send(&mut sends);
        let done = sends.into_iter().map(|it| (it.name, it.bytes, it.done));
        for (name, bytes, done) in done.collect::<Vec<_>>() {
            let handle = Handle::from(KeyData::from_ffi(name));
            if let Some(Object::Connection(connection)) = self.objects.get_mut(handle)
                && let Stream::Kernel(stream) = &mut connection.stream
            {
                stream.settle(bytes, done);
                connection.note_what_sends_met();
            }
        }
    }
}

impl Connection {
    /// What is staged leaves before something else is done, or told, of it.
    pub(crate) fn leave_first(&mut self) {
        if let Stream::Kernel(stream) = &mut self.stream
            && stream.is_staged
        {
            stream.leave_first();
            self.note_what_sends_met();
        }
    }
}
