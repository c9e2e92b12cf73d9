//! How much of what a program has sent has left, for those that mind (TCP_NOTSENT_LOWAT): they write more
//! when little waits to leave, whatever is on its way.

use netdev::Device;

use super::Worker;
use crate::network::Network;

impl<D: Device, N: Network> Worker<D, N> {
    /// Takes note of what has left of connections whose programs mind.
    pub(super) fn note_departures(&mut self) {
        while let Some(id) = self.leaving.pop() {
            let Some(info) = self.stack.info(self.now, id) else {
                continue;
            };
            let Some(conn) = self.connections.get_mut(id) else {
                continue;
            };
            // Of what several processes send nobody can say whose has left.
            if conn.family.is_some() {
                continue;
            }
            let departed = info.bytes_acked + u64::from(info.in_flight);
            // A FIN on its way counts as a byte.
            let departed = departed
                .saturating_sub(conn.acked_for_others)
                .min(conn.sent);
            let Some(departures) = &mut conn.departures else {
                continue;
            };
            departures.departed = departures.departed.max(departed);
            Self::queue(&mut self.sessions, conn);
        }
    }
}
