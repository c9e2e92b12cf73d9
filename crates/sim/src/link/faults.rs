//! Faults that have a state or a shape of their own: losses in bursts, and congestion that is
//! marked instead of punished.

use tcp::Instant;
use wire::checksum::Sum;
use wire::ip::Ecn;

use super::LinkConfig;
use crate::rng::{Chance, Rng};

/// In which state a link is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bursts {
    /// When the bad state ends at the latest, while it lasts.
    bad_until: Option<Instant>,
}

impl Bursts {
    /// How likely the next frame is to be lost.
    pub(super) fn loss(&mut self, now: Instant, link: &LinkConfig, rng: &mut Rng) -> Chance {
        let Some(burst) = link.bursts else {
            return link.loss;
        };
        self.bad_until = self.bad_until.filter(|&end| now < end);
        let bad = self.bad_until.is_some();
        if rng.happens(if bad { burst.end } else { burst.begin }) {
            self.bad_until = (!bad).then(|| now + burst.longest);
        }
        if bad { burst.loss } else { link.loss }
    }
}

/// Marks a frame as having met congestion, if its transport understands that (RFC 3168 5); returns
/// whether it does. IP begins at `ip_offset`.
pub(super) fn mark_congestion(frame: &mut [u8], ip_offset: usize) -> bool {
    let ip = &mut frame[ip_offset..];
    // The traffic class stands half a byte further on in IPv6.
    let v6 = ip[0] >> 4 == 6;
    let shift = if v6 { 4 } else { 0 };
    if Ecn::from_bits(ip[1] >> shift) == Ecn::NotCapable {
        return false;
    }
    ip[1] |= Ecn::CongestionExperienced.bits() << shift;
    if !v6 {
        let header = usize::from(ip[0] & 0xf) * 4;
        ip[10..12].fill(0);
        let sum = Sum::of(&ip[..header]).finish();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    true
}
