//! The SYN queue: handshakes that a peer has begun and not completed, each a fraction of the size
//! of a connection, and their number bounded per listener and in total.

use wire::segment::Link;
use wire::seq::SeqNumber;
use wire::tcp::{FastOpenCookie, Flags, Options, Repr, Timestamps};

use crate::aging::Aging;
use crate::config::Config;
use crate::connection::Handshake;
use crate::recovery::rtt::INITIAL_RTO;
use crate::{Instant, ListenerId};

//= RFC 9293 MUST-11
//= RFC 4987 §3.5
pub(crate) struct HalfOpen {
    pub(crate) handshake: Handshake,
    /// The cookie that the peer has asked for (RFC 7413).
    pub(crate) fast_open: Option<FastOpenCookie>,
    pub(crate) listener: ListenerId,
    /// What the SYN came by, and the SYN-ACK goes by.
    pub(crate) link: Link,
    /// What we announce.
    pub(crate) mss: u16,
    pub(crate) window: u16,
    pub(crate) scale: u8,
    /// When a segment that does not belong to the handshake was last answered.
    pub(crate) answered_at: Option<Instant>,
    /// A SYN-ACK waits in the control queue.
    pub(crate) queued: bool,
    /// When the peer has acknowledged the SYN-ACK, if the listener waits for more.
    pub(crate) acknowledged_at: Option<Instant>,
}

impl HalfOpen {
    /// What the connection begins with. The time that the peer took after it had acknowledged the SYN-ACK is
    /// no round trip.
    pub(crate) fn completed(&self, now: Instant) -> Handshake {
        let mut handshake = self.handshake;
        if let (Some(at), Some(sent_at)) = (self.acknowledged_at, handshake.sent_at) {
            handshake.sent_at = Some(now.before(at.since(sent_at)));
        }
        handshake
    }

    /// The next sequence number expected of the peer.
    pub(crate) fn expected(&self) -> SeqNumber {
        self.handshake.irs + 1
    }

    pub(crate) fn syn_ack(&self, now: Instant) -> Repr {
        let h = &self.handshake;
        Repr {
            src_port: h.key.local_port,
            dst_port: h.key.remote_port,
            seq: h.iss,
            ack: Some(self.expected()),
            flags: (Flags::SYN | Flags::ACK).with(Flags::ECE, h.ecn),
            window: self.window,
            options: Options {
                mss: Some(self.mss),
                window_scale: h.scale.map(|_| self.scale),
                sack_permitted: h.selective,
                timestamps: h.timestamp.map(|echo| Timestamps {
                    value: (now.as_millis() as u32).wrapping_add(h.ts_offset),
                    echo,
                }),
                fast_open: self.fast_open,
                ..Options::NONE
            },
        }
    }

    /// The acknowledgement that an unacceptable segment is answered by. Its window is scaled as that of any
    /// segment but a SYN: unscaled it would offer what nobody keeps room for.
    //= RFC 7323 §2.3
    pub(crate) fn acknowledgement(&self, now: Instant) -> Repr {
        let mut tcp = self.syn_ack(now);
        tcp.seq += 1;
        tcp.flags = Flags::ACK;
        tcp.window >>= tcp.options.window_scale.unwrap_or(0);
        tcp.options = Options {
            timestamps: tcp.options.timestamps,
            ..Options::NONE
        };
        tcp
    }
}

/// Half-open connections by the number of SYN-ACKs sent: each list waits twice as long as the one
/// before.
pub(crate) type HalfOpens = Aging<HalfOpen>;

pub(crate) fn half_opens(config: &Config) -> HalfOpens {
    let wait = |retries: u8| INITIAL_RTO.times(1 << retries.min(6)).into();
    Aging::new((0..=config.syn_ack_retries).map(wait))
}
