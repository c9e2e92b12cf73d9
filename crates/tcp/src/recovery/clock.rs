//! When something is due: the one timer of data in flight (RTO, PTO of TLP, reordering timer), and the pace at
//! which it leaves.

use super::tlp::{Tlp, pto};
use super::{Phase, Recovery};
use crate::Instant;
use crate::time::Nanos;

/// What the one timer of data in flight has been waiting for (RFC 8985 §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// What is late is lost.
    Reordering,
    /// The PTO: a tail loss probe (TLP).
    Tlp,
    /// The retransmission timeout.
    Timeout,
    /// More may leave without a burst.
    Pace,
}

impl Recovery {
    /// When the timer of data in flight expires; `None` if nothing is in flight.
    //= RFC 8985 §8
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let flight = self.flight.as_ref()?;
        let lost = flight.rto_at.min(flight.pto_at).min(flight.reorder_at);
        Some(lost.min(flight.pace_at))
    }

    /// What is due.
    pub(crate) fn due(&self, now: Instant) -> Option<Due> {
        let flight = self.flight.as_ref()?;
        if flight.reorder_at <= now {
            Some(Due::Reordering)
        } else if flight.pto_at <= now {
            Some(Due::Tlp)
        } else if flight.rto_at <= now {
            Some(Due::Timeout)
        } else if flight.pace_at <= now {
            Some(Due::Pace)
        } else {
            None
        }
    }

    /// Restarts the retransmission timer (RFC 6298 §5.3).
    #[inline]
    pub(crate) fn restart_timer(&mut self, now: Instant, timeout: Nanos) {
        if let Some(flight) = &mut self.flight {
            flight.rto_at = now + timeout;
        }
    }

    /// Restarts the PTO, if a TLP makes sense (RFC 8985 §7.2): in no recovery, with
    /// nothing SACKed, and no TLP out.
    #[inline]
    pub(crate) fn restart_pto(&mut self, now: Instant, srtt: Option<Nanos>, mss: u16) {
        let Some(flight) = &mut self.flight else {
            return;
        };
        flight.pto_at = Instant::MAX;
        let Some(srtt) = srtt else { return };
        let sensible = self.tlps
            && self.phase == Phase::Open
            && flight.tlp.is_none()
            && flight.outstanding.sacked() == 0;
        if sensible {
            let (una, max) = (flight.outstanding.una(), flight.outstanding.max());
            let at = now + pto(srtt, max.distance_from(una) as u32, mss);
            flight.pto_at = at.min(flight.rto_at);
        }
    }

    /// A TLP has left, up to SND.NXT, or there was none to send: `again` if it carried what had
    /// been sent before (RFC 8985 §7.3).
    pub(crate) fn on_tlp_sent(&mut self, again: Option<bool>, now: Instant, timeout: Nanos) {
        if let Some(flight) = &mut self.flight {
            flight.tlp = again.map(|again| Tlp {
                end: flight.outstanding.max(),
                again,
            });
            flight.pto_at = Instant::MAX;
            flight.rto_at = now + timeout;
        }
    }

    /// When what has been sent will have left at its pace; `None` if nothing is in flight. That is in the
    /// past, by `most` or less, where something was held back until then and nobody came.
    #[inline]
    pub(crate) fn paced_until(&self, now: Instant, most: Nanos) -> Option<Instant> {
        let flight = self.flight.as_ref()?;
        let from = if flight.held_by_pace {
            now.before(most)
        } else {
            now
        };
        Some(flight.paced_until.max(from))
    }

    /// Something is held back: more may leave at `at`.
    pub(crate) fn wait_for_pace(&mut self, at: Instant) {
        if let Some(flight) = &mut self.flight {
            flight.pace_at = at;
            flight.held_by_pace = true;
        }
    }

    /// The timer of the pace has expired.
    pub(crate) fn on_pace(&mut self) {
        if let Some(flight) = &mut self.flight {
            flight.pace_at = Instant::MAX;
        }
    }

    /// Nothing is held back by its pace.
    #[inline]
    pub(crate) fn keeps_pace(&mut self) {
        if let Some(flight) = &mut self.flight {
            flight.held_by_pace = false;
        }
    }

    /// What has been sent will have left at its pace at `until`.
    #[inline]
    pub(crate) fn pace(&mut self, until: Instant) {
        if let Some(flight) = &mut self.flight {
            flight.paced_until = until;
        }
    }
}
