//! What happens to the link under all connections.

use super::Stack;

use crate::{ConnId, Failure, Instant};

impl Stack {
    /// The link carries packets of up to `mtu` bytes from now on. Connections that send larger ones
    /// begin to send smaller ones with their next segment; they find out by themselves when more gets
    /// through, and peers are offered the new size by new connections alone.
    pub fn set_mtu(&mut self, now: Instant, mtu: u16) {
        self.common.config.mtu = mtu;
        let all: Vec<ConnId> = self.connections().collect();
        for id in all {
            self.with_connection(now, id, |c, _| c.learn_path_mtu(mtu, now));
        }
    }

    /// The connection's own address is this machine's no longer: it ends without a word to the peer,
    /// whom another machine may be serving from that address by now.
    pub fn on_address_gone(&mut self, now: Instant, id: ConnId) {
        self.with_connection(now, id, |c, cx| {
            c.fail(Failure::NetworkUnreachable, &mut cx.common.counters);
        });
    }
}
