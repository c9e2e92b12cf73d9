//! What happens to the link under all connections.

use super::Stack;

use crate::{ConnId, Failure, Instant};

impl Stack {
    /// The link carries packets of up to `mtu` bytes from now on. Peers are offered the new size by new
    /// connections alone; those that are there [are told](Self::learn_mtu) one by one.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.common.config.mtu = mtu;
    }

    /// Tells a connection the link's MTU. If it sends larger packets, it sends smaller ones from its next
    /// segment on. Whether larger ones get through it finds out itself, by path MTU probes.
    pub fn learn_mtu(&mut self, now: Instant, id: ConnId) {
        let mtu = self.common.config.mtu;
        self.with_connection(now, id, |c, _| c.learn_path_mtu(mtu, now));
    }

    /// The route of a connection says that it carries packets of up to `mtu` bytes, or of
    /// [`min_path_mtu`](crate::Config::min_path_mtu) if that is more.
    pub fn limit_path_mtu(&mut self, now: Instant, id: ConnId, mtu: u16) {
        let mtu = mtu.max(self.common.config.min_path_mtu);
        self.with_connection(now, id, |c, _| c.learn_path_mtu(mtu, now));
    }

    /// Changes settings for what comes from now on: how many orphans are kept
    /// ([`max_orphans`](crate::Config::max_orphans)), how many segments leave at once
    /// ([`pacing_burst`](crate::Config::pacing_burst)), and whether a flood of SYNs is answered by cookies
    /// ([`syn_cookies`](crate::Config::syn_cookies)).
    pub fn retune(&mut self, max_orphans: u32, pacing_burst: u16, syn_cookies: bool) {
        let config = &mut self.common.config;
        config.max_orphans = max_orphans;
        config.pacing_burst = pacing_burst;
        config.syn_cookies = syn_cookies;
    }

    /// The connection's own address no longer belongs to this machine: the connection fails, and sends no
    /// RST, since another machine may be serving the peer from that address by now.
    pub fn on_address_gone(&mut self, now: Instant, id: ConnId) {
        self.with_connection(now, id, |c, cx| {
            c.fail(Failure::NetworkUnreachable, &mut cx.common.counters);
        });
    }
}
