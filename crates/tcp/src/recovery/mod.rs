//! What was lost, and what to send again.
//!
//! | file | what |
//! | --- | --- |
//! | `arrival` | what an acknowledgement says, and what it means to congestion control |
//! | `outstanding` | the scoreboard: what has been sent and not acknowledged, and what is SACKed or lost of it |
//! | `rack` | loss told by time: RACK (RFC 8985 §6) |
//! | `tlp` | tail loss probes: TLP and its PTO (RFC 8985 §7); where the rest of it is stands below |
//! | `prr` | how much may be sent during a recovery (RFC 6937) |
//! | `undo` | spurious loss: Eifel (RFC 3522), F-RTO (RFC 5682), DSACK (RFC 3708) |
//! | `delivery` | how fast the peer acknowledges |
//! | `flight` | all of these together, which exist only while something is in flight |
//! | `clock` | when something is due, and at which pace it leaves |
//! | `rtt` | round trips and the retransmission timeout (RFC 6298) |
//! | `moving` | all of it as a value, and out of one |
//!
//! With SACK (RFC 2018) RACK is the one rule of loss: it takes the place of the counting of RFC 6675
//! §4, of which the pipe remains, and of DupThresh, which lives on in the reordering window. Without
//! SACK, it is NewReno: three duplicate acknowledgements tell of a loss (fast retransmit, RFC 5681
//! §3.2), and during fast recovery each partial acknowledgement of the next (RFC 6582). A timeout (RTO)
//! gives up what is old (RFC 8985 §6.3), or everything without SACK.
//!
//! TLP (RFC 8985 §7), from the timer to the answer: `clock` sets the PTO (`restart_pto`; `tlp::pto` says how
//! long) and says that a tail loss probe is due (`Due::Tlp`); `on_flight_timeout` in `connection/timeout.rs`
//! asks for it; `connection/tlp.rs` sends it; `clock` notes that it is out (`on_tlp_sent`); and `tlp` says
//! what an acknowledgement tells of it, which `flight` acts on.
//!
//! A connection with nothing in flight holds a few bytes of this and no more. What it needs while
//! something is in flight is borrowed from a pool of the stack and goes back there.

mod arrival;
mod clock;
pub(crate) mod delivery;
mod flight;
mod moving;
mod outstanding;
mod prr;
mod rack;
pub mod rtt;
mod tlp;
mod undo;

pub(crate) use arrival::{Arrival, Loss, Outcome, Phase};
pub(crate) use clock::Due;
pub(crate) use flight::Pool;

use wire::seq::SeqNumber;

use crate::Instant;
use crate::congestion::Controller;
use crate::time::Nanos;
use arrival::DUP_THRESH;
use flight::Flight;
use rack::Reordering;

/// A flight that is acknowledged as a whole.
pub(crate) struct WholeFlight {
    /// When the last of it was sent.
    pub(crate) sent_at: Instant,
    /// A round trip begins with this.
    pub(crate) round: bool,
    /// The congestion window was what kept more from being in flight.
    pub(crate) cwnd_limited: bool,
}

pub(crate) struct Recovery {
    flight: Option<Box<Flight>>,
    /// To take the response to the last loss back. It outlives the flight: the DSACK that tells what the
    /// peer has received twice may come only then.
    undo: Option<Box<undo::Undo>>,
    /// Recovery ends when this is acknowledged.
    recover: SeqNumber,
    /// Without SACK: duplicate acknowledgements, segments that have left the network.
    duplicates: u16,
    phase: Phase,
    /// The next segment to send again goes out whatever the pipe says.
    must_send: bool,
    /// The peer sends SACK blocks.
    selective: bool,
    /// Tail loss probes (TLP, RFC 8985 §7) are sent.
    tlps: bool,
    reordering: Reordering,
}

impl Recovery {
    pub(crate) fn new(start: SeqNumber) -> Self {
        Self {
            flight: None,
            undo: None,
            recover: start,
            duplicates: 0,
            phase: Phase::Open,
            must_send: false,
            selective: false,
            tlps: false,
            reordering: Reordering::new(),
        }
    }

    /// `selective`: the peer sends SACK blocks; `tlps`: tail loss probes may be sent.
    pub(crate) fn agree(&mut self, selective: bool, tlps: bool) {
        self.selective = selective;
        self.tlps = selective && tlps;
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// How many segments later one may come without being taken for lost, by what was seen so far.
    pub(crate) fn reordering(&self) -> u32 {
        self.reordering.segments()
    }

    /// Bytes that are lost and not yet sent again.
    pub(crate) fn lost(&self) -> u32 {
        self.flight.as_ref().map_or(0, |f| f.outstanding.lost())
    }

    /// Bytes that the peer has SACKed, beyond its cumulative acknowledgement.
    pub(crate) fn sacked(&self) -> u32 {
        self.flight.as_ref().map_or(0, |f| f.outstanding.sacked())
    }

    /// Bytes that were found lost since this was last asked.
    pub(crate) fn take_newly_lost(&mut self) -> u32 {
        let flight = self.flight.as_mut();
        flight.map_or(0, |flight| flight.outstanding.take_newly_lost())
    }

    /// Bytes that were sent again and are not acknowledged.
    pub(crate) fn retransmitted(&self) -> u32 {
        self.flight
            .as_ref()
            .map_or(0, |f| f.outstanding.retransmitted())
    }

    /// Bytes that the network is thought to hold.
    #[inline]
    pub(crate) fn pipe(&self, mss: u16) -> u32 {
        let Some(flight) = &self.flight else { return 0 };
        // Without SACK, each duplicate tells of one segment that has left.
        let left = u32::from(self.duplicates) * u32::from(mss);
        flight.outstanding.pipe().saturating_sub(left)
    }

    /// Whether the next retransmission disregards the congestion window.
    pub(crate) fn must_send(&self) -> bool {
        self.must_send
    }

    /// The first range to send again: where it begins, and its length. What was SACKed is not in it
    /// (RFC 2018 §5).
    //= RFC 2018 §5
    #[inline]
    pub(crate) fn next_lost(&self) -> Option<(SeqNumber, u32)> {
        self.flight.as_ref()?.outstanding.next_lost()
    }

    /// Whether new data should leave, if there is any, rather than what is lost: it is to tell
    /// whether that is lost indeed (RFC 5682 §2.1).
    //= RFC 5682 §2.1
    pub(crate) fn prefers_new(&self) -> bool {
        self.undo.as_ref().is_some_and(|undo| undo.is_frto())
    }

    /// Everything up to `end` has been sent for the first time, beginning at `start`. `timeout` is
    /// the retransmission timeout.
    #[inline]
    pub(crate) fn on_sent(
        &mut self,
        (start, end): (SeqNumber, SeqNumber),
        now: Instant,
        srtt: Option<Nanos>,
        timeout: Nanos,
        pool: &mut Pool,
    ) {
        let flight = self
            .flight
            .get_or_insert_with(|| pool.take(start, now + timeout));
        let grain = Nanos::new(srtt.unwrap_or_default().get() / 512);
        flight.outstanding.push(end, now, grain);
        if self.phase == Phase::Fast {
            flight.prr.on_sent(end.distance_from(start) as u32);
        }
    }

    /// `start .. end` has been sent again.
    pub(crate) fn on_retransmitted(&mut self, start: SeqNumber, end: SeqNumber, now: Instant) {
        self.must_send = false;
        let Some(flight) = &mut self.flight else {
            return;
        };
        let bytes = end.distance_from(start) as u32;
        flight.outstanding.retransmit(start, end, now);
        if self.phase == Phase::Fast {
            flight.prr.on_sent(bytes);
        }
        if self.phase != Phase::Open
            && let Some(undo) = &mut self.undo
        {
            undo.on_retransmitted(bytes, now);
        }
    }

    /// An acknowledgement has arrived that is not older than SND.UNA. `congestion` is the congestion
    /// control as it is now.
    pub(crate) fn on_ack(&mut self, arrival: &Arrival<'_>, congestion: &Controller) -> Outcome {
        let Some(mut flight) = self.flight.take() else {
            return self.on_ack_at_rest(arrival);
        };
        let mut outcome = self.take_news(&mut flight, arrival);
        let found = self.detect(&mut flight, arrival, outcome.delivered, congestion);
        outcome.loss = found.or(outcome.loss);
        outcome.safe = arrival.ack.after(flight.una_before) && outcome.loss.is_none();
        if self.phase != Phase::Open || flight.outstanding.sacked() > 0 {
            flight.pto_at = Instant::MAX;
        }
        self.flight = Some(flight);
        outcome
    }

    /// Nothing is in flight: all that an acknowledgement may tell is what the peer has received twice.
    //= RFC 3708 §3
    #[cold]
    fn on_ack_at_rest(&mut self, arrival: &Arrival<'_>) -> Outcome {
        let selective = self.selective;
        let block = flight::dsack_block(arrival.blocks, arrival.ack).filter(|_| selective);
        if block.is_some() {
            self.reordering.widen();
        }
        let told = block.zip(self.undo.as_mut());
        let spurious =
            told.and_then(|(block, undo)| undo.on_dsack(block).then_some(undo.congestion));
        if spurious.is_some() {
            self.undo = None;
        }
        Outcome {
            dsack: block.is_some(),
            spurious,
            ..Outcome::default()
        }
    }

    /// What there is to know of a flight that `ack`, which is SND.NXT, acknowledges as a whole. `None`
    /// unless all of it was sent only once and is thought to be on its way.
    #[inline]
    pub(crate) fn whole_flight(
        &mut self,
        ack: SeqNumber,
        congestion: &Controller,
    ) -> Option<WholeFlight> {
        let flight = self.flight.as_mut()?;
        let is_plain = self.phase == Phase::Open
            && self.duplicates == 0
            && flight.tlp.is_none()
            && self.undo.is_none();
        if !is_plain {
            return None;
        }
        let sent_at = flight.outstanding.sent_plainly()?;
        if ack.after(self.recover) {
            // So that it never lies half the sequence space behind.
            self.recover = ack - 1;
        }
        Some(WholeFlight {
            sent_at,
            round: ack.after(flight.round_end),
            cwnd_limited: flight.cwnd_use.is_limited(congestion),
        })
    }

    /// The retransmission timer has expired (RFC 6298 §5.4). Returns whether this begins a new
    /// episode of loss.
    //= RFC 8985 §6.3
    pub(crate) fn on_rto(
        &mut self,
        now: Instant,
        srtt: Nanos,
        min_rtt: Nanos,
        congestion: &Controller,
    ) -> bool {
        let first = self.phase != Phase::Loss;
        let Some(flight) = &mut self.flight else {
            return first;
        };
        let (una, max) = (flight.outstanding.una(), flight.outstanding.max());
        if first {
            // What a fast recovery had taken from the window stays taken if that is undone.
            let undo = undo::Undo::new(congestion.before(), una, max);
            self.undo = Some(Box::new(undo));
        } else {
            // Not even the retransmission came through; the SACKs may be void (RFC 2018 §8).
            flight.outstanding.on_reneging();
            if let Some(undo) = &mut self.undo {
                undo.stop_frto();
            }
        }
        if self.selective {
            let reo_wnd = rack::Rack::reo_wnd(&self.reordering, true, min_rtt, srtt);
            // If nothing of this flight has arrived yet, the smoothed round trip stands for its own.
            let rtt = flight.rack.latest().map_or(srtt, |_| flight.rack.rtt());
            let patience = rtt + reo_wnd;
            flight.outstanding.lose_old(now, patience);
        } else {
            flight.outstanding.lose_below(max);
        }
        flight.reorder_at = Instant::MAX;
        flight.pto_at = Instant::MAX;
        self.phase = Phase::Loss;
        self.recover = max;
        self.duplicates = 0;
        self.must_send = true;
        first
    }

    /// Time has passed in which what is late might have come (RFC 8985 §6.2, step 5).
    pub(crate) fn on_reordering_timeout(
        &mut self,
        now: Instant,
        srtt: Nanos,
        min_rtt: Nanos,
        mss: u16,
        congestion: &Controller,
    ) -> Option<Loss> {
        let mut flight = self.flight.take()?;
        let arrival = Arrival {
            now,
            ack: flight.outstanding.una(),
            blocks: &[],
            echo: None,
            duplicate: false,
            min_rtt,
            srtt,
            mss,
        };
        let loss = self.detect(&mut flight, &arrival, 0, congestion);
        self.flight = Some(flight);
        loss
    }

    /// cwnd for this moment of a fast recovery, in bytes: what is in flight, and what may be
    /// sent now that so much was `delivered` (RFC 6937).
    pub(crate) fn prr_cwnd(&mut self, delivered: u32, ssthresh: u32, mss: u16, safe: bool) -> u32 {
        let pipe = self.pipe(mss);
        let quota = self.flight.as_mut().map_or(0, |flight| {
            flight.prr.on_ack(delivered, pipe, ssthresh, mss, safe)
        });
        pipe.saturating_add(quota)
    }

    /// What may leave now has left, and has `filled` the congestion window or not.
    #[inline]
    pub(crate) fn note_cwnd_use(&mut self, range: (SeqNumber, SeqNumber), filled: bool) {
        if let Some(flight) = &mut self.flight {
            flight.cwnd_use.note(range, filled);
        }
    }

    /// Whether the congestion window is what holds the sender back: only then may it grow.
    #[inline]
    pub(crate) fn is_cwnd_limited(&self, congestion: &Controller) -> bool {
        let flight = self.flight.as_ref();
        flight.is_some_and(|flight| flight.cwnd_use.is_limited(congestion))
    }

    /// All that is in flight is to be sent again, though no congestion has lost it: the path does not
    /// carry segments of that size (RFC 1191 §6.4).
    pub(crate) fn lose_all(&mut self) {
        if let Some(flight) = &mut self.flight {
            let max = flight.outstanding.max();
            flight.outstanding.lose_below(max);
            flight.pto_at = Instant::MAX;
            self.phase = Phase::Loss;
            self.recover = max;
            self.must_send = true;
        }
    }

    /// What was just found lost was not lost to congestion: it is sent again, and that is all.
    /// Without SACK only its first segment was found, and the rest, up to `end`, would not be.
    pub(crate) fn forgive(&mut self, end: SeqNumber) {
        self.phase = Phase::Open;
        self.undo = None;
        if let Some(flight) = &mut self.flight
            && !self.selective
        {
            flight.outstanding.lose_below(end);
        }
    }

    /// What always holds while `una .. nxt` is in flight.
    pub(crate) fn audit(&self, una: SeqNumber, nxt: SeqNumber) -> Result<(), &'static str> {
        match &self.flight {
            Some(flight) => flight.outstanding.audit(una, nxt),
            None if una != nxt => Err("data in flight that recovery does not know"),
            None => Ok(()),
        }
    }

    /// What is being measured of the delivery rate, while something is in flight.
    #[inline]
    pub(crate) fn delivery(&mut self) -> Option<&mut delivery::Measurement> {
        self.flight.as_mut().map(|flight| &mut flight.delivery)
    }

    /// The connection is over.
    pub(crate) fn abandon(&mut self) {
        self.flight = None;
        self.undo = None;
    }

    /// Nothing is in flight any more.
    #[inline]
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if let Some(flight) = self.flight.take() {
            pool.put(flight);
        }
    }
}
