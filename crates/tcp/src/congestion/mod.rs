//! Congestion control: how much may be in flight.
//!
//! The recovery machinery finds out what arrived and what was lost; what is here turns that into a
//! window. [`CongestionControl`] is the line between the two. It speaks of bytes acknowledged and
//! of congestion signals, not of duplicate acknowledgements or SACK blocks, so that how loss is
//! detected (RFC 6582, 6675, 8985) and how recovery paces itself (RFC 6937) stay on the other side.
//!
//! Whether the sender is *application-limited* is asked three times, since there are three questions,
//! each over its own time:
//!
//! - May cwnd grow? Only if it was filled within the last round trip: `CwndUse` in `usage` (RFC 9438
//!   §5.8 and RFC 7661 §4.3 for CUBIC and Reno, C.is_cwnd_limited of draft-ietf-ccwg-bbr).
//! - What is a cwnd worth that has not been used? Over seconds, pipeACK says what a loss is answered by;
//!   after five minutes cwnd is halved: `Validation` in `validation` (RFC 7661 §4.2 to §4.4, for CUBIC
//!   and Reno).
//! - Does a delivery rate sample measure the path? Not if what it is of left after the data had run out,
//!   and before what was then in flight was delivered: C.app_limited, in `bbr::rate`
//!   (draft-ietf-ccwg-bbr, "Delivery Rate Samples").

mod algorithm;
mod bbr;
mod cubic;
mod hystart;
mod moving;
mod reno;
mod usage;
mod validation;
mod window;

pub use algorithm::{Acked, Algorithm, CongestionControl};
pub use bbr::Bbr;
pub(crate) use bbr::Delivery;
pub use cubic::Cubic;
pub use reno::Reno;
pub(crate) use usage::CwndUse;
pub(crate) use validation::Validation;
pub use window::{MAX_WINDOW, Window};

use crate::info::BbrInfo;
use crate::time::{Instant, Nanos};
use crate::timer_wheel::TICK;

/// Round trips below this, 0.52 ms, are not worth spreading a window over: the timer wheel ticks four times
/// meanwhile, and what two ticks carry leaves at once.
pub(crate) const LEAST_PACED_RTT: Nanos = TICK.times(4);

/// Any of the algorithms, in the place that a connection has for it.
#[derive(Clone, Debug)]
pub enum Controller {
    /// RFC 9438.
    Cubic(Cubic),
    /// RFC 5681.
    Reno(Reno),
    /// draft-ietf-ccwg-bbr. It remembers much more than the others.
    Bbr(Box<Bbr>),
}

/// What a controller was before it responded to congestion.
#[derive(Clone, Copy, Debug)]
pub enum Before {
    /// RFC 9438.
    Cubic(Cubic),
    /// RFC 5681.
    Reno(Reno),
    /// BBR keeps this itself.
    Bbr,
}

impl Controller {
    /// A connection's controller at its beginning; `mss` is the payload of a full segment.
    pub fn new(algorithm: Algorithm, mss: u16) -> Controller {
        match algorithm {
            Algorithm::Cubic => Controller::Cubic(Cubic::new(mss)),
            Algorithm::Reno => Controller::Reno(Reno::new(mss)),
            Algorithm::Bbr => Controller::Bbr(Box::new(Bbr::new(mss))),
        }
    }

    /// Which algorithm this is.
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Controller::Cubic(_) => Algorithm::Cubic,
            Controller::Reno(_) => Algorithm::Reno,
            Controller::Bbr(_) => Algorithm::Bbr,
        }
    }

    /// Goes on with another algorithm, from the same window.
    pub fn set_algorithm(&mut self, algorithm: Algorithm) {
        if algorithm != self.algorithm() {
            let state = *self.state();
            *self = Controller::new(algorithm, state.mss());
            match self {
                // It knows no ssthresh.
                Controller::Bbr(_) => self.set_cwnd(state.cwnd()),
                _ => *self.state_mut() = state,
            }
        }
    }

    /// cwnd: how much may be in flight, in bytes.
    #[inline]
    pub fn cwnd(&self) -> u32 {
        self.state().cwnd()
    }

    /// ssthresh: below this many bytes the window grows by slow start.
    #[inline]
    pub fn ssthresh(&self) -> u32 {
        self.state().ssthresh()
    }

    /// Whether the window grows by slow start.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        !matches!(self, Controller::Bbr(_)) && self.state().in_slow_start()
    }

    /// BBR, if that is what it is.
    #[inline]
    pub(crate) fn bbr(&mut self) -> Option<&mut Bbr> {
        match self {
            Controller::Bbr(bbr) => Some(bbr),
            _ => None,
        }
    }

    /// What BBR makes of the path, if that is what it is.
    pub(crate) fn bbr_info(&self) -> Option<BbrInfo> {
        match self {
            Controller::Bbr(bbr) => Some(bbr.info()),
            Controller::Cubic(_) | Controller::Reno(_) => None,
        }
    }

    /// What it is now, to go back to.
    pub fn before(&self) -> Before {
        match self {
            Controller::Cubic(cubic) => Before::Cubic(*cubic),
            Controller::Reno(reno) => Before::Reno(*reno),
            Controller::Bbr(_) => Before::Bbr,
        }
    }

    /// Sets the window; at least one segment.
    #[inline]
    pub fn set_cwnd(&mut self, bytes: u32) {
        self.state_mut().set_cwnd(bytes);
    }

    /// The last response to congestion was for nothing: everything is as it was before, except that
    /// the window is no smaller than now (RFC 9438 §4.9, RFC 4015 §3.2).
    //= RFC 9438 §4.9
    ///
    /// If the algorithm is another by now, nothing changes.
    pub fn undo(&mut self, before: &Before) {
        let (window, mss) = (self.cwnd(), self.state().mss());
        match (&mut *self, before) {
            (Controller::Cubic(now), Before::Cubic(before)) => *now = *before,
            (Controller::Reno(now), Before::Reno(before)) => *now = *before,
            (Controller::Bbr(now), Before::Bbr) => return now.undo(),
            _ => return,
        }
        self.set_mss(mss);
        self.set_cwnd(self.cwnd().max(window));
    }

    /// The payload of a full segment has changed. The window stays.
    pub fn set_mss(&mut self, mss: u16) {
        self.state_mut().set_mss(mss);
    }
}

impl CongestionControl for Controller {
    #[inline]
    fn state(&self) -> &Window {
        match self {
            Controller::Cubic(cubic) => cubic.state(),
            Controller::Reno(reno) => reno.state(),
            Controller::Bbr(bbr) => bbr.state(),
        }
    }

    #[inline]
    fn state_mut(&mut self) -> &mut Window {
        match self {
            Controller::Cubic(cubic) => cubic.state_mut(),
            Controller::Reno(reno) => reno.state_mut(),
            Controller::Bbr(bbr) => bbr.state_mut(),
        }
    }

    #[inline]
    fn on_ack(&mut self, acked: &Acked) {
        match self {
            Controller::Cubic(cubic) => cubic.on_ack(acked),
            Controller::Reno(reno) => reno.on_ack(acked),
            Controller::Bbr(bbr) => bbr.on_ack(acked),
        }
    }

    fn on_restart(&mut self, now: Instant) {
        match self {
            Controller::Cubic(cubic) => cubic.on_restart(now),
            Controller::Reno(reno) => reno.on_restart(now),
            Controller::Bbr(bbr) => bbr.on_restart(now),
        }
    }

    fn on_congestion(&mut self, now: Instant, in_flight: u32) {
        match self {
            Controller::Cubic(cubic) => cubic.on_congestion(now, in_flight),
            Controller::Reno(reno) => reno.on_congestion(now, in_flight),
            Controller::Bbr(bbr) => bbr.on_congestion(now, in_flight),
        }
    }

    fn on_rto(&mut self, now: Instant, in_flight: u32, first: bool) {
        match self {
            Controller::Cubic(cubic) => cubic.on_rto(now, in_flight, first),
            Controller::Reno(reno) => reno.on_rto(now, in_flight, first),
            Controller::Bbr(bbr) => bbr.on_rto(now, in_flight, first),
        }
    }
}

#[cfg(test)]
mod tests;
