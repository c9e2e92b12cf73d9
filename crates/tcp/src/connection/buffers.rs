//! How much is worth buffering.
//!
//! A buffer that is smaller than the path holds back the sender; one that is larger is memory that
//! somebody else could use. So both directions follow what happens.
//!
//! *Receive buffer* (dynamic right-sizing): in each round trip the owner consumes some amount, and the
//! sender can only have sent as much as the window allowed. If more than half of the buffer is consumed
//! in a round trip, the buffer grows, and the more the closer it is to being the limit: a sender in slow
//! start doubles what it sends each round trip, and the window must have room for that when it comes. An
//! owner that does not consume, or a sender that sends little, leaves the buffer as it is.
//!
//! The round trip is the sender's. A receiver that sends nothing itself sees it in timestamps: what a
//! segment echoes had left before it, so the least difference is a round trip (RFC 7323 §4.1 warns of
//! the others, in which the sender had waited). It may get longer by an eighth a round, so that a
//! path that has become longer is learnt.
//!
//! *Send buffer*: twice the congestion window, one that is in flight and one to go on with when that is
//! acknowledged.

use wire::segment::Segment;

use super::Connection;
use crate::Instant;
use crate::config::Config;

/// What the growth of a receive buffer goes by.
#[derive(Clone, Copy)]
pub(crate) struct ReceiveTuning {
    /// When this round began, in microseconds of the clock.
    pub(super) since: u32,
    /// What had been consumed by then, the low bits.
    pub(super) from: u32,
    /// The sender's round trip in milliseconds, rounded up; 0 while that is not known.
    pub(super) rtt_ms: u16,
    /// The buffer grows at all.
    pub(super) on: bool,
    /// A round has ended, and the round trip may be taken for a little longer.
    may_lengthen: bool,
}

impl ReceiveTuning {
    pub(super) fn new(on: bool) -> Self {
        Self {
            since: 0,
            from: 0,
            rtt_ms: 0,
            on,
            may_lengthen: false,
        }
    }

    /// The owner has said how large the buffer is.
    pub(super) fn stop(&mut self) {
        self.on = false;
    }

    /// A segment full of data came so many milliseconds after what it echoes had left.
    #[inline]
    fn note_echo(&mut self, millis: u32) {
        let millis = u16::try_from(millis).unwrap_or(u16::MAX).max(1);
        if millis <= self.rtt_ms || self.rtt_ms == 0 {
            self.rtt_ms = millis;
        } else if self.may_lengthen {
            self.rtt_ms = millis.min(self.rtt_ms.saturating_add(self.rtt_ms / 8 + 1));
            self.may_lengthen = false;
        }
    }
}

impl Connection {
    /// A segment with data has arrived.
    #[inline]
    pub(super) fn note_echo_of_data(&mut self, segment: &Segment<'_>, now: Instant) {
        if self.tuning.on
            && self.ts.enabled
            && segment.payload.len() >= usize::from(self.rcv.mss)
            && let Some(timestamps) = segment.tcp.options.timestamps
        {
            let millis = self.timestamp(now).wrapping_sub(timestamps.echo);
            self.tuning.note_echo(millis);
        }
    }

    /// The owner has consumed something: once a round trip, the buffer follows how much that was.
    pub(super) fn tune_receive_buffer(&mut self, now: Instant, config: &Config) {
        let tuning = &mut self.tuning;
        if !tuning.on {
            return;
        }
        let now = now.as_micros() as u32;
        let round_trip = match tuning.rtt_ms {
            0 => self.rtt.srtt().map_or(1000, |srtt| srtt.as_micros() as u32),
            millis => u32::from(millis) * 1000,
        };
        let elapsed = now.wrapping_sub(tuning.since);
        if elapsed < round_trip {
            return;
        }
        let consumed = self.rcv.consumed as u32;
        let copied = consumed.wrapping_sub(tuning.from);
        tuning.since = now;
        tuning.from = consumed;
        tuning.may_lengthen = true;
        let buffer = u64::from(self.rcv.buffer);
        // More than the buffer in a round trip, which the peer may say to be long, asks for no more than that does
        // four times.
        let copied = u64::from(copied).min(buffer.max(1 << 16));
        if copied <= buffer / 2 {
            return;
        }
        // At half of the buffer nothing is to be gained, and if all of it went within a round trip,
        // four times as much: twice what went, and as much again for a sender that doubles.
        let wanted = 4 * copied * copied / buffer + 16 * u64::from(self.rcv.mss);
        let wanted = wanted.min((4 * buffer).max(1 << 16));
        let wanted = wanted.min(config.max_receive_buffer.into());
        // At most the limit, which is a u32.
        self.rcv.buffer = self.rcv.buffer.max(wanted as u32);
    }

    /// Something is held behind a hole. Nothing of it can be consumed until that is filled, a round trip
    /// later or more, and meanwhile the sender goes on: what is held counts as consumed.
    pub(super) fn tune_for_held(&mut self, config: &Config) {
        let buffer = u64::from(self.rcv.buffer);
        let end = self.reassembly.end();
        let span = end.map_or(0, |end| end - self.rcv.received);
        if !self.tuning.on || span <= buffer / 2 {
            return;
        }
        // Only what has been sent in fact, however far behind the hole.
        let held = self.reassembly.bytes();
        let wanted = 2 * held + 16 * u64::from(self.rcv.mss);
        let wanted = wanted.min(config.max_receive_buffer.into());
        // At most the limit, which is a u32.
        self.rcv.buffer = self.rcv.buffer.max(wanted as u32);
    }

    /// How much is worth being handed over before it is acknowledged.
    pub(super) fn send_buffer(&self, config: &Config) -> u32 {
        let ssthresh = self.congestion.ssthresh();
        let mut cwnd = self.congestion.cwnd();
        if ssthresh != u32::MAX {
            // A recovery moves cwnd from one acknowledgement to the next; this is where it leads.
            cwnd = cwnd.max(ssthresh);
        }
        let most = config.max_send_buffer.max(config.send_buffer);
        cwnd.saturating_mul(2).clamp(config.send_buffer, most)
    }
}
