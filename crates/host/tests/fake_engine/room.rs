//! What a test tells of room to send into.

use std::sync::atomic::Ordering;

use queue_pair::parked::News;
use queue_pair::{Completion, ConnRef, room};

use super::{Attached, concerns};

impl Attached {
    /// The peer acknowledges `acked` bytes in all: what is said of that.
    fn acknowledgement(&mut self, conn: ConnRef, acked: u64) -> Completion {
        self.connections.get_mut(&conn).unwrap().acked = acked;
        Completion::Update {
            conn,
            addr: 0,
            len: 0,
            acked,
            peer_closed: false,
        }
    }

    /// Whether a thread of the host sleeps by the word of this connection, which says for how much room somebody waits.
    pub fn is_parked_for_so_much(&self, conn: ConnRef) -> bool {
        let word = self.side.positions.sleeper(conn.index).unwrap();
        self.is_parked(conn) && !room::concerns(word.load(Ordering::Relaxed), None)
    }

    /// The peer acknowledges `acked` bytes in all. What was published is taken in before the engine looks for whom it
    /// has to wake.
    pub fn acknowledge_slowly(
        &mut self,
        conn: ConnRef,
        acked: u64,
        before_it_looks: impl FnOnce(),
    ) {
        let update = self.acknowledgement(conn, acked);
        self.post_quietly(update);
        before_it_looks();
        self.wake(concerns(&update), Some(acked));
    }

    /// The peer acknowledges `acked` bytes in all, which the engine takes for much room.
    pub fn acknowledge_much(&mut self, conn: ConnRef, acked: u64) {
        let update = self.acknowledgement(conn, acked);
        self.post_as(update, Some((conn, News::MuchRoom)));
    }

    /// So many bytes are worth writing before they are acknowledged.
    pub fn advise(&mut self, conn: ConnRef, bytes: u32) {
        let completion = Completion::SendBuffer { conn, bytes };
        self.post_as(completion, Some((conn, News::Room)));
    }

    /// So many bytes have left in all; whether the host writes no more until more have.
    pub fn depart(&mut self, conn: ConnRef, total: u64, is_held_back: bool) {
        let news = match is_held_back {
            true => News::Room,
            false => News::Urgent,
        };
        self.post_as(Completion::Departed { conn, total }, Some((conn, news)));
    }
}
