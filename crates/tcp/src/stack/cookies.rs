//! Handshakes without memory (RFC 4987 §3.6): when the SYN queue is full, a SYN is answered by a
//! cookie and forgotten, and the ACK that brings the cookie back makes the connection.
//!
//! What is lost against the SYN queue: a SYN-ACK is not sent again, an MSS is rounded down, and a
//! peer without timestamps gets neither window scaling nor selective acknowledgements. So cookies
//! begin only where there would be no answer at all.

use wire::segment::Segment;
use wire::tcp::Timestamps;

use super::{Flow, Stack};
use crate::connection::{self, Handshake};
use crate::counters::DropReason;
use crate::flow_table::FlowHash;
use crate::listener::cookie;
use crate::listener::half_open::HalfOpen;
use crate::{ConnOptions, Instant, ListenerId, PayloadStore};

impl Stack {
    /// Withholds cookies until it is called with `None`: a SYN that one would answer is dropped,
    /// but for `again` of those that come for the second time within a second or two. For an owner
    /// that more SYNs reach than it can answer: what it does not answer costs little, and so it
    /// keeps up with everything else that arrives.
    pub fn withhold_cookies(&mut self, again: Option<u32>) {
        self.withholding = again;
    }

    /// When the last cookie that this stack has sent, or [expects](Self::expect_cookies), is refused at the
    /// latest; at or before the present if it knows of none.
    #[must_use]
    pub fn cookies_until(&self) -> Instant {
        self.cookies_until
    }

    /// Another stack of the same seed and clock sends cookies until then: what brings one back may come
    /// to any listener of this one.
    pub fn expect_cookies(&mut self, until: Instant) {
        self.cookies_until = self.cookies_until.max(until);
        self.cookies_elsewhere_until = self.cookies_elsewhere_until.max(until);
    }

    /// Whether a SYN may be answered by a cookie now.
    pub(super) fn may_answer(&mut self, now: Instant, segment: &Segment<'_>) -> bool {
        let Some(left) = &mut self.withholding else {
            return true;
        };
        let again = self.withheld.remember(now, &segment.flow());
        let answers = again && *left > 0;
        *left -= u32::from(answers);
        answers
    }

    /// Answers a SYN without remembering it.
    //= RFC 4987 §3.6
    pub(super) fn answer_by_cookie(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        id: ListenerId,
        options: &ConnOptions,
    ) {
        let key = segment.flow();
        let tcp = &segment.tcp;
        let ts_offset = self.isn.ts_offset(&key);
        let mut handshake =
            Handshake::new(key, tcp.seq, tcp.seq, ts_offset, tcp, &self.common.config);
        let timestamp = self.cookies.encode(now, &mut handshake);
        let half = HalfOpen {
            handshake,
            fast_open: None,
            listener: id,
            link: segment.link,
            mss: connection::announced_mss(key.remote, &self.common.config, options),
            window: connection::initial_window(options),
            scale: connection::window_scale(&self.common.config),
            answered_at: None,
            queued: false,
            acknowledged_at: None,
        };
        let mut syn_ack = half.syn_ack(now);
        if let (Some(value), Some(ts)) = (timestamp, &mut syn_ack.options.timestamps) {
            *ts = Timestamps { value, ..*ts };
        }
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.cookies_until = now + cookie::PERIOD * 2;
            // Those of another stack may be good for longer.
            self.cookies_until = self.cookies_until.max(listener.cookies_until);
        }
        self.common.counters.cookies_sent += 1;
        self.push_answer(segment, syn_ack);
    }

    /// A segment for no connection acknowledges something at a listener: perhaps a cookie. `None`:
    /// neither the listener nor another stack has sent one recently, or this is not one of them.
    pub(super) fn take_cookie<S: PayloadStore>(
        &mut self,
        now: Instant,
        hash: FlowHash,
        segment: &Segment<'_>,
        id: ListenerId,
        store: &mut S,
    ) -> Option<Result<(), DropReason>> {
        let ack = segment.tcp.ack?;
        let until = self.listeners.get(id)?.cookies_until;
        if until.max(self.cookies_elsewhere_until) <= now {
            return None;
        }
        let key = segment.flow();
        let ts_offset = self.isn.ts_offset(&key);
        let timestamps = segment.tcp.options.timestamps.map(|t| (t.value, t.echo));
        let (iss, irs) = (ack - 1, segment.tcp.seq - 1);
        let Some(handshake) = self
            .cookies
            .decode(now, key, iss, irs, timestamps, ts_offset)
        else {
            self.common.counters.cookies_refused += 1;
            return None;
        };
        // When there is no room the peer, which believes itself connected, sends its data again, and
        // each time brings the cookie: the same as a final ACK that the accept queue refuses.
        Some(self.room_at(id, segment.src).and_then(|options| {
            self.common.counters.cookies_accepted += 1;
            if let Some(Flow::HalfOpen(index)) = self.flows.get_hashed(&key, hash).map(Flow::unpack)
            {
                self.forget_half_open(index);
            }
            let conn = self.admit(now, hash, id, &handshake, &options);
            store.expect(conn, id);
            self.pass_to_connection(now, conn.index, segment, store)
        }))
    }
}
