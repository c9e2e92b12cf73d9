//! SYN cookies (RFC 4987 §3.6): what a half-open connection would remember, in the numbers of our
//! SYN-ACK, which a real peer sends back. So a SYN costs no memory.
//!
//! Our initial sequence number is, from the highest bit on:
//!
//! | bits | what |
//! | --- | --- |
//! | 1 | whether the secret's period is odd |
//! | 3 | the class of the peer's MSS, rounded down |
//! | 28 | a SipHash tag on the flow, the peer's initial sequence number and all that is encoded |
//!
//! The first four are masked by a tag of their own, so that the number shows nothing of the clock.
//! The secret lives for [`PERIOD`] and is accepted for one more. A blind guess is right once in
//! 2^28 tries.
//!
//! Window scale, selective acknowledgements and ECN ride in the six low bits of our timestamp, and
//! are tagged like the rest; a peer without timestamps goes without them, too.

use core::time::Duration;

use wire::flow::{FlowKey, FlowMac};
use wire::seq::SeqNumber;
use wire::tcp::MAX_WINDOW_SCALE;

use crate::Instant;
use crate::connection::Handshake;

/// How long a secret makes new cookies, and then how long they are still good.
pub(crate) const PERIOD: Duration = Duration::from_secs(64);

/// The MSS that a cookie can hold, in bytes. Common ones are exact: Ethernet over IPv4 (1460) and
/// IPv6 (1440), with PPPoE or tunnels (1400, 1360), the least IPv6 (1220), RFC 9293's default (536),
/// jumbo frames (8940). A smaller one than the first is taken for the first.
const MSS_CLASSES: [u16; 8] = [64, 536, 1220, 1360, 1400, 1440, 1460, 8940];

/// What the low bits of the timestamp say.
const OPTION_BITS: u32 = 0x3f;
const SCALE_BITS: u8 = 0x0f;
/// The peer does not scale.
const NO_SCALE: u8 = 0x0f;
const SELECTIVE: u8 = 0x10;
const ECN: u8 = 0x20;
/// Tagged instead of option bits when there are no timestamps.
const NO_TIMESTAMPS: u8 = 0x40;

const TAG_BITS: u32 = 28;
const TAG: u32 = (1 << TAG_BITS) - 1;

/// Makes cookies and knows its own.
pub(crate) struct Cookies {
    master: FlowMac,
    /// The period of the secrets below.
    period: u64,
    current: FlowMac,
    previous: FlowMac,
}

impl Cookies {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        let master = FlowMac::new(key);
        Self {
            master,
            period: 0,
            current: master.derive(0),
            previous: master.derive(u64::MAX),
        }
    }

    fn rotate(&mut self, now: Instant) {
        let period = now.as_nanos() / PERIOD.as_nanos() as u64;
        if period != self.period {
            self.current = self.master.derive(period);
            self.previous = self.master.derive(period.wrapping_sub(1));
            self.period = period;
        }
    }

    /// Puts a handshake into numbers: its ISS is replaced by the cookie, and what a cookie cannot
    /// hold is no longer offered. Returns the value of our timestamp, if there are timestamps.
    pub(crate) fn encode(&mut self, now: Instant, h: &mut Handshake) -> Option<u32> {
        self.rotate(now);
        if h.timestamp.is_none() {
            h.scale = None;
            h.selective = false;
            h.ecn = false;
        }
        let class = MSS_CLASSES
            .iter()
            .rposition(|&mss| mss <= h.peer_mss)
            .unwrap_or(0);
        let options = option_bits(h);
        let odd = (self.period & 1) as u32;
        let front = odd << 3 | class as u32;
        let tag = tag(&self.current, &h.key, h.irs, class, options);
        h.iss = SeqNumber((front ^ self.mask(&h.key, h.irs)) << TAG_BITS | tag);
        h.timestamp.map(|_| {
            let clock = (now.as_millis() as u32).wrapping_add(h.ts_offset);
            let marked = clock & !OPTION_BITS | u32::from(options);
            // Never ahead of the clock, which goes on from here (RFC 7323 §5.4).
            if marked.wrapping_sub(clock) as i32 > 0 {
                marked.wrapping_sub(OPTION_BITS + 1)
            } else {
                marked
            }
        })
    }

    /// The handshake that an acknowledgement completes, if it acknowledges a cookie of ours:
    /// `iss` and `irs` follow from its numbers, `timestamps` are the peer's value and its echo of
    /// ours.
    pub(crate) fn decode(
        &mut self,
        now: Instant,
        key: FlowKey,
        iss: SeqNumber,
        irs: SeqNumber,
        timestamps: Option<(u32, u32)>,
        ts_offset: u32,
    ) -> Option<Handshake> {
        self.rotate(now);
        let front = (iss.0 >> TAG_BITS) ^ self.mask(&key, irs);
        let class = (front & 7) as usize;
        let secret = if u64::from(front >> 3) == self.period & 1 {
            &self.current
        } else {
            &self.previous
        };
        let options = timestamps.map_or(NO_TIMESTAMPS, |(_, echo)| (echo & OPTION_BITS) as u8);
        if tag(secret, &key, irs, class, options) != iss.0 & TAG {
            return None;
        }
        let with_timestamps = timestamps.is_some();
        let scale = options & SCALE_BITS;
        Some(Handshake {
            key,
            iss,
            irs,
            peer_mss: MSS_CLASSES[class],
            scale: (with_timestamps && scale != NO_SCALE).then_some(scale.min(MAX_WINDOW_SCALE)),
            timestamp: timestamps.map(|(value, _)| value),
            selective: with_timestamps && options & SELECTIVE != 0,
            ecn: with_timestamps && options & ECN != 0,
            ts_offset,
            sent_at: None,
            syn_acks: 1,
        })
    }

    fn mask(&self, key: &FlowKey, irs: SeqNumber) -> u32 {
        (self.master.tag(key, irs.0.into()) & 0xf) as u32
    }
}

fn option_bits(h: &Handshake) -> u8 {
    if h.timestamp.is_none() {
        return NO_TIMESTAMPS;
    }
    let selective = if h.selective { SELECTIVE } else { 0 };
    let ecn = if h.ecn { ECN } else { 0 };
    h.scale.unwrap_or(NO_SCALE) | selective | ecn
}

fn tag(secret: &FlowMac, key: &FlowKey, irs: SeqNumber, class: usize, options: u8) -> u32 {
    let bits = u64::from(irs.0) << 32 | (class as u64) << 8 | u64::from(options);
    secret.tag(key, bits) as u32 & TAG
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshake() -> Handshake {
        Handshake {
            key: FlowKey {
                local: [192, 0, 2, 1].into(),
                remote: [198, 51, 100, 7].into(),
                local_port: 80,
                remote_port: 40_000,
            },
            iss: SeqNumber(0),
            irs: SeqNumber(0xfedc_ba98),
            peer_mss: 1460,
            scale: Some(9),
            timestamp: Some(77),
            selective: true,
            ecn: true,
            ts_offset: 12_345,
            sent_at: None,
            syn_acks: 1,
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    fn decode(c: &mut Cookies, now: Instant, h: &Handshake, ts: Option<u32>) -> Option<Handshake> {
        c.decode(now, h.key, h.iss, h.irs, ts.map(|t| (78, t)), h.ts_offset)
    }

    #[test]
    fn what_goes_in_comes_out() {
        let mut c = Cookies::new([3; 16]);
        for (scale, selective) in [(Some(0), false), (Some(14), true), (None, true)] {
            let mut h = handshake();
            (h.scale, h.selective) = (scale, selective);
            let ts = c.encode(at(1000), &mut h);
            let out = decode(&mut c, at(1001), &h, ts).expect("a cookie of ours");
            assert_eq!((out.peer_mss, out.scale), (1460, scale));
            assert_eq!((out.selective, out.timestamp), (selective, Some(78)));
            assert_eq!((out.iss, out.irs), (h.iss, h.irs));
        }
    }

    #[test]
    fn without_timestamps_only_the_mss_is_kept() {
        let mut c = Cookies::new([3; 16]);
        let mut h = handshake();
        (h.timestamp, h.peer_mss) = (None, 1459);
        assert_eq!(c.encode(at(5), &mut h), None);
        assert_eq!((h.scale, h.selective), (None, false));
        let out = decode(&mut c, at(5), &h, None).expect("a cookie of ours");
        assert_eq!((out.peer_mss, out.scale), (1440, None));
        assert!(!out.selective && out.timestamp.is_none());
    }

    #[test]
    fn a_cookie_is_good_for_one_to_two_periods() {
        let mut c = Cookies::new([3; 16]);
        let mut h = handshake();
        let ts = c.encode(at(640), &mut h);
        assert!(decode(&mut c, at(703), &h, ts).is_some());
        assert!(decode(&mut c, at(767), &h, ts).is_some());
        assert!(decode(&mut c, at(768), &h, ts).is_none());
    }

    #[test]
    fn nothing_about_it_can_be_changed() {
        let mut c = Cookies::new([3; 16]);
        let mut h = handshake();
        let ts = c.encode(at(640), &mut h);
        for bit in 0..32 {
            let mut other = h;
            other.iss.0 ^= 1 << bit;
            assert!(decode(&mut c, at(640), &other, ts).is_none(), "iss {bit}");
            let mut other = h;
            other.irs.0 ^= 1 << bit;
            assert!(decode(&mut c, at(640), &other, ts).is_none(), "irs {bit}");
        }
        for bit in 0..6 {
            let forged = ts.map(|t| t ^ 1 << bit);
            assert!(decode(&mut c, at(640), &h, forged).is_none(), "ts {bit}");
        }
        let mut other = h;
        other.key.remote_port += 1;
        assert!(decode(&mut c, at(640), &other, ts).is_none());
        assert!(decode(&mut c, at(640), &h, None).is_none());
        assert!(decode(&mut Cookies::new([4; 16]), at(640), &h, ts).is_none());
    }

    #[test]
    fn the_timestamp_is_never_ahead_of_the_clock() {
        let mut c = Cookies::new([3; 16]);
        for millis in 0..200 {
            let mut h = handshake();
            let now = Instant::from_millis(1_000_000 + millis);
            let clock = (now.as_millis() as u32).wrapping_add(h.ts_offset);
            let ts = c.encode(now, &mut h).unwrap();
            assert!((0..64).contains(&clock.wrapping_sub(ts)), "{millis}");
        }
    }
}
