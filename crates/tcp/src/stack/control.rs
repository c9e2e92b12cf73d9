//! Segments that belong to no connection: RST, SYN-ACK, answers for half-open connections and for
//! TIME-WAIT. They wait in a bounded queue for room to leave; what does not fit is counted and
//! never sent, which TCP survives.

use std::collections::VecDeque;

use core::net::IpAddr;
use core::time::Duration;

use wire::flow::FlowMac;
use wire::segment::{Link, Segment};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr};

use super::Stack;
use crate::Instant;

/// Between two challenges of one half-open connection, or of one pair in TIME-WAIT.
const ANSWER_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Copy)]
pub(crate) enum Control {
    /// The SYN-ACK of a half-open connection, made when it leaves; nothing if that has gone.
    SynAck(u32),
    /// A segment as it is; if it answers one, with the link that that came by.
    Segment {
        link: Option<Link>,
        src: IpAddr,
        dst: IpAddr,
        tcp: Repr,
    },
}

pub(crate) struct ControlQueue {
    queue: VecDeque<Control>,
    limit: usize,
}

impl ControlQueue {
    pub(crate) fn new(limit: u16) -> Self {
        Self {
            queue: VecDeque::new(),
            limit: limit.into(),
        }
    }

    /// Returns whether there was room.
    pub(crate) fn push(&mut self, control: Control) -> bool {
        let room = self.queue.len() < self.limit;
        if room {
            self.queue.push_back(control);
        }
        room
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn front(&self) -> Option<&Control> {
        self.queue.front()
    }

    pub(crate) fn pop(&mut self) {
        self.queue.pop_front();
    }
}

/// So many a second, counted in seconds of the stack's clock.
pub(crate) struct RateLimit {
    per_second: u32,
    left: u32,
    refill_at: Instant,
    /// Draws the budgets, where it must not be known how much is left.
    hidden: Option<FlowMac>,
}

impl RateLimit {
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second,
            left: per_second,
            refill_at: Instant::ZERO,
            hidden: None,
        }
    }

    /// Each second another budget, at least half of `per_second`, that nobody without the key can
    /// tell. From a budget that is known, a peer of one connection learns by using it up what has
    /// been sent on others: whether they exist, and where their windows lie.
    pub(crate) fn hidden(per_second: u32, key: [u8; 16]) -> Self {
        Self {
            hidden: Some(FlowMac::new(key)),
            ..Self::new(per_second)
        }
    }

    pub(crate) fn take(&mut self, now: Instant) -> bool {
        if now >= self.refill_at {
            self.left = match &self.hidden {
                None => self.per_second,
                Some(key) => {
                    let spread = u64::from(self.per_second / 2) + 1;
                    let less = key.number(0, now.as_nanos()) % spread;
                    // Less than half of the budget.
                    self.per_second - less as u32
                }
            };
            self.refill_at = now + Duration::from_secs(1);
        }
        let some = self.left > 0;
        self.left -= u32::from(some);
        some
    }
}

impl Stack {
    pub(super) fn push_control(&mut self, control: Control) -> bool {
        let room = self.control.push(control);
        self.common.counters.control_overflows += u64::from(!room);
        room
    }

    /// Answers a segment from the other side's point of view.
    pub(super) fn push_answer(&mut self, segment: &Segment<'_>, tcp: Repr) {
        self.push_control(Control::Segment {
            link: Some(segment.link),
            src: segment.dst,
            dst: segment.src,
            tcp,
        });
    }

    /// Answers a segment by a RST, within the limit of resets a second, and does nothing else with it: the
    /// program around this stack does not admit its sender.
    pub fn refuse(&mut self, now: Instant, segment: &Segment<'_>) {
        self.push_reset(now, segment);
    }

    /// RST for a segment that belongs to nothing (RFC 9293 3.10.7.1), never for an RST.
    pub(super) fn push_reset(&mut self, now: Instant, segment: &Segment<'_>) {
        let tcp = &segment.tcp;
        if tcp.flags.contains(Flags::RST) {
            return;
        }
        if !self.resets.take(now) {
            self.common.counters.rate_limited += 1;
            return;
        }
        let (seq, ack, flags) = match tcp.ack {
            Some(ack) => (ack, None, Flags::RST),
            None => (
                SeqNumber(0),
                Some(tcp.seq + segment.sequence_len()),
                Flags::RST | Flags::ACK,
            ),
        };
        self.common.counters.resets_out += 1;
        self.push_answer(
            segment,
            Repr {
                src_port: tcp.dst_port,
                dst_port: tcp.src_port,
                seq,
                ack,
                flags,
                window: 0,
                options: Options::NONE,
            },
        );
    }

    /// A challenge ACK for what is not a connection, within its own rate and the shared one.
    pub(super) fn push_challenge(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        tcp: Repr,
        answered_at: Option<Instant>,
    ) -> bool {
        let just = |at: Instant| now.saturating_duration_since(at) < ANSWER_INTERVAL;
        if answered_at.is_some_and(just) || !self.common.challenges.take(now) {
            self.common.counters.rate_limited += 1;
            return false;
        }
        self.common.counters.challenge_acks += 1;
        self.push_answer(segment, tcp);
        true
    }
}
