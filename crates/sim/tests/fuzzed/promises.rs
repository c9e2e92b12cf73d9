//! What a stack has told the peers of its connections, held against all that it tells them later: what was
//! acknowledged stays so, and the farthest edge of a window stays where it is.
//!
//! [`sim::offers`] sees only segments, and so knows the scale of a window only if the peer keeps the rules of a
//! handshake. This asks the stack for the scale, and is for peers that keep no rule.

use std::collections::HashMap;

use tcp::{ConnId, Instant, Stack};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Repr};

/// The promises of a stack, by connection.
#[derive(Default)]
pub struct Promises {
    /// Segments that have left and were not looked at yet.
    sent: Vec<(ConnId, Repr)>,
    /// The last acknowledgement, and the farthest edge.
    told: HashMap<ConnId, (SeqNumber, SeqNumber)>,
}

impl Promises {
    /// A segment leaves.
    pub fn on_sent(&mut self, conn: Option<ConnId>, tcp: Repr) {
        self.sent.extend(conn.map(|conn| (conn, tcp)));
    }

    /// Holds what has left since the last time against what was told before; `each` is told of every
    /// acknowledgement.
    ///
    /// # Panics
    /// If something was taken back.
    pub fn hold(&mut self, stack: &Stack, now: Instant, mut each: impl FnMut(ConnId, SeqNumber)) {
        for (conn, tcp) in self.sent.drain(..) {
            let (Some(ack), Some(info)) = (tcp.ack, stack.info(now, conn)) else {
                continue;
            };
            if tcp.flags.intersects(Flags::RST | Flags::SYN) {
                continue;
            }
            let scale = info.window_scales.map_or(0, |(_, ours)| ours);
            let edge = ack + (u32::from(tcp.window) << scale);
            let (last, farthest) = *self.told.entry(conn).or_insert((ack, edge));
            assert!(
                last.at_or_before(ack),
                "{conn:?} has taken an acknowledgement back"
            );
            // What a scale cannot express may be missing (RFC 7323 §2.4), but that does not add up.
            let back = farthest.distance_from(edge);
            assert!(
                back < 1 << scale,
                "{conn:?} has taken {back} bytes of window back"
            );
            self.told.insert(conn, (ack, farthest.max(edge)));
            each(conn, ack);
        }
    }

    /// A connection is over.
    pub fn forget(&mut self, conn: ConnId) {
        self.told.remove(&conn);
    }
}
