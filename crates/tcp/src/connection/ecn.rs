//! Explicit congestion notification (RFC 3168): routers mark what they would else drop, the receiver
//! echoes the mark until it hears that the sender has reduced its window.
//!
//! What carries ECT(0) is new data alone: no SYN, no acknowledgement without data, no retransmission
//! and no zero-window probe (RFC 3168 §6.1.4 to §6.1.6), since of these a mark could be forged or lost
//! without anybody noticing.
//!
//! The reduction is that for a loss: RFC 9438 §4.6 has one factor for both, and the gentler one of
//! RFC 8511 is an experiment. Nor is it below two segments, so that the rule of RFC 3168 §6.1.2 for a
//! window of one segment has nothing to rule.

use wire::ip::Ecn;
use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Repr};

use super::{Connection, Context};
use crate::config::{Config, EcnPolicy};
use crate::congestion::CongestionControl;
use crate::recovery::Phase;

/// Both flags: what a SYN offers ECN by.
const OFFER: Flags = Flags::from_bits(Flags::ECE.bits() | Flags::CWR.bits());

/// What a connection knows of ECN.
#[derive(Clone, Copy, Default)]
pub(crate) struct EcnVars {
    /// Both sides agreed.
    pub(crate) enabled: bool,
    /// Congestion was experienced, and the peer has not said that it has heard of it: to be echoed.
    pub(super) echo: bool,
    /// The window has been reduced, and the peer has not been told.
    pub(super) reduced: bool,
    /// A reduction for a mark covers what was sent up to here.
    pub(super) until: SeqNumber,
}

impl EcnVars {
    pub(super) fn new(enabled: bool, iss: SeqNumber) -> EcnVars {
        EcnVars {
            enabled,
            until: iss,
            ..EcnVars::default()
        }
    }

    /// What every segment with ACK says.
    #[inline]
    pub(super) fn flags(&self) -> Flags {
        Flags::NONE.with(Flags::ECE, self.enabled && self.echo)
    }

    /// How new data is marked.
    #[inline]
    pub(super) fn codepoint(&self) -> Ecn {
        if self.enabled {
            Ecn::Capable0
        } else {
            Ecn::NotCapable
        }
    }
}

/// Whether the peer's SYN or SYN-ACK agrees to ECN: a SYN offers by both flags, a SYN-ACK accepts by
/// ECE alone (a broken peer reflects both).
//= RFC 3168 §6.1.1
pub(super) fn agrees(tcp: &Repr, config: &Config) -> bool {
    let flags = tcp.flags.intersects(OFFER);
    let wanted = if tcp.ack.is_none() {
        tcp.flags.contains(OFFER)
    } else {
        flags && !tcp.flags.contains(Flags::CWR)
    };
    config.ecn != EcnPolicy::Off && wanted
}

impl Connection {
    /// Whether our SYN offers ECN: the first one only, for some boxes on the way drop such SYNs
    /// (RFC 3168 §6.1.1.1).
    //= RFC 3168 §6.1.1
    pub(super) fn offers_ecn(&self, config: &Config) -> bool {
        config.ecn == EcnPolicy::On && self.retransmits == 0
    }

    /// The flags of our SYN or SYN-ACK.
    pub(super) fn ecn_syn_flags(&self, answering: bool, config: &Config) -> Flags {
        if answering {
            Flags::NONE.with(Flags::ECE, self.ecn.enabled)
        } else {
            Flags::NONE.with(OFFER, self.offers_ecn(config))
        }
    }

    /// What an acceptable segment says to us as receiver.
    //= RFC 3168 §6.1.3
    #[inline]
    pub(super) fn take_mark(&mut self, segment: &Segment<'_>, cx: &mut Context<'_>) {
        if !self.ecn.enabled {
            return;
        }
        if segment.tcp.flags.contains(Flags::CWR) {
            self.ecn.echo = false;
        }
        if segment.ecn == Ecn::CongestionExperienced && !segment.payload.is_empty() {
            cx.common.counters.congestion_marks += 1;
            // The first is told at once.
            self.ack_now |= !self.ecn.echo;
            self.ecn.echo = true;
        }
    }

    /// Whether `ack` echoes a mark that calls for a reduction: one for a window of data, and none
    /// while a loss is repaired that has called for one already.
    //= RFC 3168 §6.1.2
    pub(super) fn take_echo(&mut self, flags: Flags, ack: SeqNumber) -> bool {
        if !self.ecn.enabled {
            return false;
        }
        if !flags.contains(Flags::ECE) {
            if ack.after(self.ecn.until) {
                // So that the mark never lies half the sequence space behind.
                self.ecn.until = ack - 1;
            }
            return false;
        }
        ack.after(self.ecn.until) && self.recovery.phase() == Phase::Open
    }

    /// Reduces the window for a mark. `flight` is what was in flight.
    pub(super) fn respond_to_mark(&mut self, flight: u32, cx: &mut Context<'_>) {
        self.note_mark(cx);
        self.congestion.on_congestion(cx.now, flight);
    }

    /// A mark is responded to, which the peer is told.
    pub(super) fn note_mark(&mut self, cx: &mut Context<'_>) {
        cx.common.counters.congestion_echoes += 1;
        self.ecn.until = self.snd.nxt;
        self.ecn.reduced = true;
    }

    /// Whether the data that is acknowledged next was covered by a reduction for a mark: then a loss
    /// in it calls for no other.
    pub(super) fn is_reduced_for_mark(&self) -> bool {
        self.ecn.enabled && self.snd.una.before(self.ecn.until)
    }
}
