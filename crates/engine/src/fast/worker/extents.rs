//! What a session may make the engine hold for its unacknowledged data: an entry of the TCP's send
//! queue for each piece that does not lie right behind the one before. A byte of the send area is
//! in one piece at a time where hosts are honest; one that is not could name the same byte over and
//! over, on connections to a peer that acknowledges nothing.

use netdev::Device;
use tcp::{ConnId, Request};

use super::Worker;
use crate::fast::connections::SessionId;
use crate::fast::session::Session;
use crate::network::Network;

/// Bytes of send area for each piece that a session may have under way: the entries take a quarter
/// of what the area does, at most.
const BYTES_A_PIECE: u64 = 64;

impl<D: Device, N: Network> Worker<D, N> {
    /// Charges for what `session` has just sent, and ends the connection if that is too much.
    pub(super) fn charge_or_end(&mut self, session: SessionId, id: ConnId) {
        if !self.charge(id) {
            self.too_many_pieces(session, id);
        }
    }

    /// What was sent has no room: a hole in the stream would be worse than its end.
    pub(super) fn too_many_pieces(&mut self, session: SessionId, id: ConnId) {
        self.refused(session);
        let _ = self.stack.on_request(self.now, id, Request::Abort);
    }

    /// Charges for what the connection holds now; false if its session holds more than it may.
    pub(super) fn charge(&mut self, id: ConnId) -> bool {
        let held = u16::try_from(self.stack.send_extents(id)).unwrap_or(u16::MAX);
        let Some(conn) = self.connections.get_mut(id) else {
            return true;
        };
        let before = std::mem::replace(&mut conn.extents, held);
        // One payer from the first piece to the last, whoever owns the connection meanwhile.
        let payer = conn.payer.or(conn.owner);
        conn.payer = if held > 0 { payer } else { None };
        let Some(session) = payer.and_then(|payer| self.sessions.get_mut(payer)) else {
            return true;
        };
        session.extents = (session.extents + u64::from(held)).saturating_sub(u64::from(before));
        session.extents <= most(session)
    }
}

/// Pieces that a session may have under way.
fn most(session: &Session) -> u64 {
    session.region.send.len() / BYTES_A_PIECE
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_hosts_may_send_as_many_pieces_as_they_are_told() {
        let room = tcp::Config::default().max_send_extents as usize;
        assert!(2 * queue_pair::MOST_PIECES <= room);
    }
}
