//! The path's MTU: what routers say of it by ICMP (RFC 1191, RFC 8201), and what is found out
//! without them (PLPMTUD, RFC 4821; RFC 8899 has it for datagrams).
//!
//! An estimate only falls by a router's word, or when nothing full-sized gets through (a black
//! hole: the router's word is lost). It rises by path MTU probes alone: one segment larger than the
//! others, whose loss costs nothing but its retransmission.

use wire::icmp::{Reason, TcpError};
use wire::seq::SeqNumber;

use super::{Connection, Context, seconds};
use crate::config::Config;
use crate::counters::DropReason;
use crate::event::Failure;
use crate::info::State;
use crate::path_mtus::LIFETIME_SECONDS;

/// The least MTU that IPv6 links have (RFC 8200 §5).
const MIN_V6: u16 = 1280;
/// The least that a router may name over IPv4 (RFC 1191 §3).
const MIN_V4: u16 = 68;
/// What is tried first in a black hole: most paths carry it.
const BASE: u16 = 1280;

/// Seconds from the discovery of a black hole, or of one path MTU probe's fate, to the next.
const MTU_PROBE_INTERVAL_SECONDS: u32 = 5;
/// A search ends when it could gain fewer bytes than this.
const PRECISION: u16 = 16;
/// Consecutive timeouts after which a black hole is suspected: of what is larger than [`BASE`], and
/// of what almost every path carries.
const BLACK_HOLE_TIMEOUTS: [u8; 2] = [2, 4];

/// Sizes that links have, for a router that names none (RFC 1191 §7.1), in bytes.
const PLATEAUS: [u16; 9] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, 296];

/// What is known of a path, in bytes of IP packets.
pub(crate) struct PathMtu {
    /// The largest that is sent.
    pub(super) mtu: u16,
    /// The least that is known not to get through.
    pub(super) too_big: u16,
    /// The size of the path MTU probe in flight, or zero.
    pub(super) mtu_probe_size: u16,
    /// The sequence number with which it begins.
    pub(super) mtu_probe_at: SeqNumber,
    /// When a larger size is tried, in seconds of the stack's clock.
    pub(super) look_at: u32,
    /// The estimate is that of a black hole, and nothing has arrived since.
    pub(super) guessed: bool,
    /// Consecutive timeouts since the peer last answered, though perhaps it acknowledged nothing new.
    pub(super) silent_timeouts: u8,
}

impl PathMtu {
    /// A path of which nothing is known but our own link.
    //= RFC 4821 §7.2
    pub(crate) fn new(ceiling: u16) -> Self {
        Self {
            mtu: ceiling,
            too_big: u16::MAX,
            mtu_probe_size: 0,
            mtu_probe_at: SeqNumber(0),
            look_at: 0,
            guessed: false,
            silent_timeouts: 0,
        }
    }

    /// Takes a smaller estimate that is exact.
    fn fall(&mut self, mtu: u16, now_seconds: u32) {
        self.mtu = mtu;
        self.too_big = u16::MAX;
        self.mtu_probe_size = 0;
        self.guessed = false;
        self.look_at = now_seconds.wrapping_add(LIFETIME_SECONDS);
    }

    /// The size to try now, if it is time to try one. The largest possible first: most often the
    /// path has changed for good; then halfway to what is known to be too large.
    //= RFC 4821 §7.3
    pub(super) fn size_to_try(&mut self, ceiling: u16, now_seconds: u32) -> Option<u16> {
        if self.mtu >= ceiling || self.mtu_probe_size > 0 {
            return None;
        }
        if (now_seconds.wrapping_sub(self.look_at) as i32) < 0 {
            return None;
        }
        if self.too_big > ceiling {
            return Some(ceiling);
        }
        if self.too_big - self.mtu < PRECISION {
            // As good as it gets, until the path changes.
            self.too_big = u16::MAX;
            self.look_at = now_seconds.wrapping_add(LIFETIME_SECONDS);
            return None;
        }
        Some(self.mtu + (self.too_big - self.mtu) / 2)
    }

    /// The path MTU probe has been acknowledged.
    //= RFC 4821 §7.6
    pub(super) fn on_mtu_probe_arrived(&mut self, now_seconds: u32) {
        self.mtu = core::mem::take(&mut self.mtu_probe_size);
        self.look_at = now_seconds;
    }

    /// The path MTU probe has to be sent again, in pieces.
    //= RFC 4821 §7.6
    pub(super) fn on_mtu_probe_lost(&mut self, now_seconds: u32) {
        let size = core::mem::take(&mut self.mtu_probe_size);
        self.too_big = self.too_big.min(size);
        self.look_at = now_seconds.wrapping_add(MTU_PROBE_INTERVAL_SECONDS);
    }

    /// It seems that nothing larger than `mtu` gets through.
    fn fall_into_black_hole(&mut self, mtu: u16, now_seconds: u32) {
        self.too_big = self.mtu;
        self.guessed = true;
        self.mtu = mtu;
        self.mtu_probe_size = 0;
        self.look_at = now_seconds.wrapping_add(MTU_PROBE_INTERVAL_SECONDS);
    }
}

impl Connection {
    /// The bytes of IP and TCP headers without options.
    pub(super) fn fixed_headers(&self) -> u16 {
        if self.key.remote.is_ipv4() { 40 } else { 60 }
    }

    /// The bytes of the options that every segment carries: timestamps.
    pub(super) fn every_options(&self) -> u16 {
        if self.ts.enabled { 12 } else { 0 }
    }

    /// The MSS that the path allows, options of every segment included.
    pub(super) fn path_mss(&self) -> u16 {
        self.path.mtu.saturating_sub(self.fixed_headers())
    }

    /// The least that an estimate falls to.
    fn least_mtu(&self, config: &Config) -> u16 {
        if self.key.remote.is_ipv4() {
            config.min_path_mtu.max(MIN_V4)
        } else {
            MIN_V6
        }
    }

    /// What another connection has learned of this path.
    //= RFC 8201 §5.2
    pub(crate) fn learn_path_mtu(&mut self, mtu: u16, now: crate::Instant) {
        if mtu < self.path.mtu {
            self.path.fall(mtu, seconds(now));
            self.update_mss();
        }
    }

    /// An ICMP error about a segment of this connection.
    ///
    /// # Errors
    /// It was not believed, or says nothing.
    pub(crate) fn on_icmp(
        &mut self,
        error: &TcpError,
        cx: &mut Context<'_>,
    ) -> Result<(), DropReason> {
        // Whoever saw the segment knows its number; whoever did not has to guess (RFC 5927 §4).
        let in_flight = self.snd.una.at_or_before(error.seq) && error.seq.before(self.snd.nxt);
        if !in_flight || self.state == State::Closed {
            return Err(DropReason::IcmpOutOfWindow);
        }
        let (failure, hard) = match error.reason {
            //= RFC 8201 §4
            // What would have passed was not refused for its size: a broken router, or one that is
            // made up (RFC 5927 §7).
            Reason::TooBig { mtu } if mtu >= error.packet_len => {
                return Err(DropReason::IcmpIgnored);
            }
            Reason::TooBig { mtu } => return self.on_too_big(mtu, error.seq, cx),
            Reason::PortUnreachable => (Failure::Refused, true),
            Reason::ProtocolUnreachable | Reason::Prohibited => (Failure::HostUnreachable, true),
            Reason::NetUnreachable => (Failure::NetworkUnreachable, false),
            Reason::HostUnreachable | Reason::TimeExceeded | Reason::ParameterProblem => {
                (Failure::HostUnreachable, false)
            }
            //= RFC 9293 MUST-55
            Reason::SourceQuench => return Err(DropReason::IcmpIgnored),
        };
        if hard && self.state == State::SynSent {
            // There is no connection yet that it could harm (RFC 5461 §4, RFC 5927 §5.2).
            self.fail(failure, &mut cx.common.counters);
        } else {
            // Anything else may pass, or be made up: it is named if patience runs out.
            //= RFC 9293 MUST-47, MUST-56
            self.soft_error = Some(failure);
        }
        Ok(())
    }

    /// A router says that a segment was larger than the next link carries.
    //= RFC 1191 §3, §6.4
    //= RFC 8201 §4, §5.4
    fn on_too_big(
        &mut self,
        mtu: u32,
        seq: SeqNumber,
        cx: &mut Context<'_>,
    ) -> Result<(), DropReason> {
        let v4 = self.key.remote.is_ipv4();
        let least = self.least_mtu(&cx.common.config);
        let named = u16::try_from(mtu).unwrap_or(u16::MAX);
        let mtu = match named {
            //= RFC 1191 §5
            0 if v4 => PLATEAUS
                .into_iter()
                .find(|&size| size < self.path.mtu)
                .unwrap_or(least)
                .max(least),
            // Smaller than any link may be: it says nothing.
            _ if named < if v4 { MIN_V4 } else { MIN_V6 } => return Err(DropReason::IcmpIgnored),
            _ => named.max(least),
        };
        if self.path.mtu_probe_size > 0 && seq == self.path.mtu_probe_at && mtu >= self.path.mtu {
            // The path MTU probe's fate, told early, and how large the next should be.
            self.path.too_big = self.path.too_big.min(mtu.saturating_add(1));
            self.path.look_at = seconds(cx.now);
            return Err(DropReason::IcmpIgnored);
        }
        if mtu >= self.path.mtu {
            return Err(DropReason::IcmpIgnored);
        }
        self.path.fall(mtu, seconds(cx.now));
        cx.common.counters.path_mtu_reductions += 1;
        cx.common.path_mtus.learn(cx.now, self.key.remote, mtu);
        self.resend_smaller();
        Ok(())
    }

    /// What is in flight is too large to arrive: it is sent again, and congestion control is not
    /// told, since it was not lost to congestion.
    fn resend_smaller(&mut self) {
        self.update_mss();
        if self.state.is_synchronized() && self.in_flight() > 0 {
            self.recovery.lose_all();
            self.watch_flight();
            self.wants_transmit = true;
        }
    }

    /// The peer has acknowledged something. If nothing did before it was cut smaller, the black hole
    /// was one, and other connections need not fall into it.
    //= RFC 8201 §5.2
    #[inline]
    pub(super) fn confirm_black_hole(&mut self, cx: &mut Context<'_>) {
        if core::mem::take(&mut self.path.guessed) {
            let common = &mut cx.common;
            common
                .path_mtus
                .learn(cx.now, self.key.remote, self.path.mtu);
        }
    }

    /// The retransmission timer has expired, and not for the first time: perhaps nothing of this
    /// size gets through, and nobody says so.
    //= RFC 4821 §7.7
    pub(super) fn suspect_black_hole(&mut self, cx: &mut Context<'_>) {
        let [some, many] = BLACK_HOLE_TIMEOUTS;
        // What is answered has arrived: then it is the peer that has no room. One without a window answers,
        // too (RFC 9293 3.8.6.1), so its silence tells as much.
        let before = self.path.silent_timeouts.min(self.backoff);
        self.path.silent_timeouts = before.saturating_add(1);
        if before < some || !self.state.is_synchronized() {
            return;
        }
        // What was sent last, which need not be full to be too large.
        let payload = self.in_flight().min(self.snd.mss.into());
        let size = payload + u32::from(self.fixed_headers() + self.every_options());
        let least = self.least_mtu(&cx.common.config);
        let next = if size > BASE.into() {
            BASE.max(least)
        } else {
            least
        };
        let enough = size > BASE.into() || before >= many;
        if enough && size > next.into() && next < self.path.mtu {
            self.path.fall_into_black_hole(next, seconds(cx.now));
            cx.common.counters.path_mtu_black_holes += 1;
            self.update_mss();
        }
    }
}
