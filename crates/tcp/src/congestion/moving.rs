//! Congestion control as a value, and out of one.

use super::{Bbr, CongestionControl, Controller, Cubic, Reno, Window};
use crate::Instant;
use crate::congestion::Algorithm;
use crate::snapshot::Congestion;
use crate::time::Nanos;

impl Controller {
    /// What another controller needs to go on from here.
    pub(crate) fn export(&self) -> Congestion {
        let ssthresh = self.ssthresh();
        let (w_max, path) = match self {
            Controller::Cubic(cubic) => (cubic.w_max(), None),
            Controller::Reno(_) => (0, None),
            Controller::Bbr(bbr) => (0, bbr.path()),
        };
        let (max_bw, bbr_min_rtt) = path.unwrap_or_default();
        Congestion {
            algorithm: self.algorithm(),
            cwnd: self.state().cwnd(),
            ssthresh: (ssthresh != u32::MAX).then_some(ssthresh),
            w_max,
            max_bw,
            bbr_min_rtt: bbr_min_rtt.get(),
        }
    }

    /// A controller that goes on from there; `mss` is the payload of a full segment.
    pub(crate) fn import(now: Instant, from: &Congestion, mss: u16) -> Controller {
        let window = Window::resume(mss, from.cwnd, from.ssthresh);
        match from.algorithm {
            Algorithm::Cubic => Controller::Cubic(Cubic::resume(window, from.w_max)),
            Algorithm::Reno => Controller::Reno(Reno::resume(window)),
            Algorithm::Bbr => {
                let min_rtt = Nanos::new(from.bbr_min_rtt);
                let bbr = Bbr::resume(now, window, from.max_bw, min_rtt);
                Controller::Bbr(Box::new(bbr))
            }
        }
    }
}
