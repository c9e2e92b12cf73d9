//! What a test tells of room to send into.

use queue_pair::parked::News;
use queue_pair::{Completion, ConnRef};

use super::{Attached, concerns};

impl Attached {
    /// The peer acknowledges `acked` bytes in all. What was published is taken in before the engine looks for whom it
    /// has to wake.
    pub fn acknowledge_slowly(
        &mut self,
        conn: ConnRef,
        acked: u64,
        before_it_looks: impl FnOnce(),
    ) {
        self.connections.get_mut(&conn).unwrap().acked = acked;
        let update = Completion::Update {
            conn,
            addr: 0,
            len: 0,
            acked,
            peer_closed: false,
        };
        self.post_quietly(update);
        before_it_looks();
        self.wake(concerns(&update), Some(acked));
    }

    /// So many bytes are worth writing before they are acknowledged.
    pub fn advise(&mut self, conn: ConnRef, bytes: u32) {
        let completion = Completion::SendBuffer { conn, bytes };
        self.post_as(completion, Some((conn, News::Room)));
    }
}
