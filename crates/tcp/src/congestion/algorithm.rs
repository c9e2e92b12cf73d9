//! What an algorithm of congestion control is: what it is told, and by which name it is known.

use core::time::Duration;

use super::Window;
use crate::time::Instant;

/// An acknowledgement of new data.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When it arrived.
    pub now: Instant,
    /// How many bytes it newly acknowledged.
    pub bytes: u32,
    /// The smoothed round-trip time; zero if nothing was measured yet.
    pub srtt: Duration,
    /// The round-trip time that this acknowledgement itself measured, if it did.
    pub latest_rtt: Option<Duration>,
    /// Whether the congestion window was what kept the sender from sending more. A window that was
    /// not used up has not been tested, and does not grow (RFC 9438 section 5.8, RFC 7661).
    pub cwnd_limited: bool,
    /// Whether with it a round trip begins: what was in flight when the last one began has been
    /// acknowledged.
    pub round: bool,
}

/// How much may be in flight. Amounts are in bytes.
pub trait CongestionControl {
    /// cwnd and ssthresh.
    fn state(&self) -> &Window;

    /// The same, for recovery to change: while it repairs a loss, cwnd is what proportional rate reduction
    /// lets go (RFC 6937); it is never inflated by duplicate acknowledgements as in RFC 6582 section 3.2.
    fn state_mut(&mut self) -> &mut Window;

    /// New data was acknowledged, and no loss is being repaired.
    fn on_ack(&mut self, acked: &Acked);

    /// Something is about to be sent after a pause in which nothing was in flight: the pause does
    /// not count where growth is by time.
    fn on_restart(&mut self, _now: Instant) {}

    /// A congestion signal that counts once a window of data: the first loss that fast recovery is
    /// about to repair, or an ECN echo. `in_flight` is how much was outstanding.
    fn on_congestion(&mut self, now: Instant, in_flight: u32);

    /// The retransmission timer expired. Only the `first` expiration for the same data changes
    /// ssthresh (RFC 5681 section 3.1).
    fn on_rto(&mut self, now: Instant, in_flight: u32, first: bool);
}

/// Which algorithm a connection uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Algorithm {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 5681.
    Reno,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr,
}

impl Algorithm {
    /// The name that TCP_CONGESTION knows it by.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Cubic => "cubic",
            Algorithm::Reno => "reno",
            Algorithm::Bbr => "bbr",
        }
    }

    /// The algorithm that TCP_CONGESTION knows by that name.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        [Algorithm::Cubic, Algorithm::Reno, Algorithm::Bbr]
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }
}
