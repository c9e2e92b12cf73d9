//! Delivery rates: one sample for each acknowledgement (draft-ietf-ccwg-bbr, "Delivery Rate Samples";
//! before that draft-cheng-iccrg-delivery-rate-estimation).
//!
//! What leaves remembers how much had been delivered by then. When it has arrived, the difference is
//! what the path has delivered meanwhile, over the time that this took: the longer of the time in which
//! it was sent and the time in which it was acknowledged, so that neither a burst nor acknowledgements
//! that come together make the path look faster than it is. A sample says less than the path can do
//! where the sender had nothing to send, and is marked so.
//!
//! This is one of three notions of "application-limited"; [`congestion`](crate::congestion) compares them.

use std::collections::VecDeque;

use wire::seq::SeqNumber;

use super::Delivery;
use super::losses::Losses;
use crate::Instant;
use crate::time::Nanos;

/// Records of what was sent. What leaves in one moment shares one, so a window has rarely more.
const MAX_RECORDS: usize = 8192;

/// What left at one time, and the state of the connection then (per-packet state of the draft).
#[derive(Clone, Copy, Debug)]
struct Record {
    end: SeqNumber,
    /// In flight with it, in bytes (P.tx_in_flight).
    in_flight: u32,
    at: Instant,
    /// C.delivered, C.delivered_time, C.first_send_time, C.lost.
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost: u64,
    places: u32,
    app_limited: bool,
}

/// What an acknowledgement says of the path (RS).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// There is a record of what it acknowledges; without, only the amounts are known.
    pub(super) is_valid: bool,
    /// Bytes a second; 0 where the time is too short to tell.
    pub(super) rate: u64,
    /// Bytes that were delivered since that was sent, and by when it was sent.
    pub(super) delivered: u64,
    pub(super) prior_delivered: u64,
    /// Bytes in flight when it was sent.
    pub(super) in_flight: u32,
    /// Bytes lost since, and in how many places.
    pub(super) lost: u64,
    pub(super) places: u32,
    /// The sender had nothing more to send.
    pub(super) app_limited: bool,
}

impl Sample {
    /// What was lost of what was in flight.
    pub(super) fn losses(&self) -> Losses {
        Losses {
            sent: self.in_flight.into(),
            lost: self.lost,
            places: self.places,
        }
    }
}

/// The sender's side of the samples.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    records: VecDeque<Record>,
    /// C.delivered: bytes delivered, and when the last were.
    pub(super) delivered: u64,
    delivered_at: Instant,
    /// When what is measured now began to leave (C.first_send_time).
    first_sent_at: Instant,
    /// C.lost: bytes lost, and how many acknowledgements have told so.
    pub(super) lost: u64,
    pub(super) places: u32,
    /// C.app_limited: what is sent until so much is delivered says little; 0 if it does not.
    app_limited: u64,
}

impl Sampler {
    pub(super) const fn new() -> Self {
        Self {
            records: VecDeque::new(),
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent_at: Instant::ZERO,
            lost: 0,
            places: 0,
            app_limited: 0,
        }
    }

    /// Everything up to `end` has left for the first time, on top of `in_flight` bytes.
    pub(super) fn on_sent(&mut self, end: SeqNumber, bytes: u32, in_flight: u32, now: Instant) {
        if in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        let full = self.records.len() >= MAX_RECORDS;
        if let Some(last) = self.records.back_mut()
            && (full || (last.at == now && last.delivered == self.delivered))
        {
            last.end = end;
            last.in_flight = in_flight + bytes;
            return;
        }
        self.records.push_back(Record {
            end,
            in_flight: in_flight + bytes,
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost: self.lost,
            places: self.places,
            app_limited: self.app_limited != 0,
        });
    }

    /// Application-limited from now on: there is nothing to send, and `in_flight` bytes are on their way.
    pub(super) fn on_app_limited(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// The losses so far: bytes delivered or lost, bytes lost, and in how many places.
    pub(super) fn losses(&self) -> Losses {
        Losses {
            sent: self.delivered + self.lost,
            lost: self.lost,
            places: self.places,
        }
    }

    /// Application-limited: it was the application, and not the network, that limited what is being measured.
    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// The rate sample (RS) of an acknowledgement. An interval below the least round trip gives no rate.
    pub(super) fn on_ack(&mut self, ack: &Delivery, min_rtt: Nanos) -> Sample {
        self.delivered += u64::from(ack.bytes);
        self.lost += u64::from(ack.lost);
        self.places = self.places.wrapping_add(u32::from(ack.lost > 0));
        if ack.bytes > 0 {
            self.delivered_at = ack.now;
        }
        let newest = ack.newest.and_then(|right| {
            let first = self
                .records
                .partition_point(|record| record.end.before(right));
            self.records.get(first).copied()
        });
        while let Some(first) = self.records.front()
            && first.end.at_or_before(ack.una)
        {
            self.records.pop_front();
        }
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let Some(record) = newest else {
            return Sample::default();
        };
        let sending = record.at.since(record.first_sent_at);
        let acknowledging = ack.now.since(record.delivered_at);
        self.first_sent_at = self.first_sent_at.max(record.at);
        let interval = sending.max(acknowledging).get();
        let delivered = self.delivered - record.delivered;
        let tells = interval > 0 && interval >= min_rtt.get();
        Sample {
            is_valid: true,
            // Windows are below 2^30 bytes.
            rate: if tells {
                delivered.min(1 << 33) * 1_000_000_000 / interval
            } else {
                0
            },
            delivered,
            prior_delivered: record.delivered,
            in_flight: record.in_flight,
            lost: self.lost - record.lost,
            places: self.places.wrapping_sub(record.places),
            app_limited: record.app_limited,
        }
    }
}
