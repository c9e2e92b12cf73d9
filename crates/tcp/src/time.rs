//! Points in time and spans: nanoseconds since a beginning that the owner chooses.
//!
//! There is no clock here. Every call that can depend on time is told what time it is; so a test
//! or a simulation runs under a time of its own.

use core::fmt;
use core::ops::{Add, AddAssign};
use core::time::Duration;

/// A point in time: nanoseconds since the owner's beginning. Lasts for 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The beginning.
    pub const ZERO: Instant = Instant(0);
    /// The end; later than anything that happens.
    pub const MAX: Instant = Instant(u64::MAX);

    /// So many nanoseconds after the beginning.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// So many microseconds after the beginning; [`Instant::MAX`] if that is too late.
    #[inline]
    pub const fn from_micros(micros: u64) -> Instant {
        Instant(micros.saturating_mul(1_000))
    }

    /// So many milliseconds after the beginning; [`Instant::MAX`] if that is too late.
    #[inline]
    pub const fn from_millis(millis: u64) -> Instant {
        Instant(millis.saturating_mul(1_000_000))
    }

    /// So many seconds after the beginning; [`Instant::MAX`] if that is too late.
    #[inline]
    pub const fn from_secs(secs: u64) -> Instant {
        Instant(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the beginning.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the beginning.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds since the beginning.
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// How long this is after `earlier`; zero if it is before.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// How long this is after `earlier`; zero if it is before.
    #[inline]
    pub(crate) const fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// So long before this; the beginning if that is too early.
    #[inline]
    pub(crate) const fn before(self, span: Nanos) -> Instant {
        Instant(self.0.saturating_sub(span.0))
    }

    /// Whole seconds since the beginning, low bits.
    #[inline]
    pub(crate) const fn seconds(self) -> u32 {
        (self.0 / 1_000_000_000) as u32
    }
}

/// A span in nanoseconds. What is calculated for every segment is calculated in these: a [`Duration`]
/// keeps seconds apart from their fraction, and divides whenever it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Nanos(u64);

impl Nanos {
    pub(crate) const ZERO: Nanos = Nanos(0);

    #[inline]
    pub(crate) const fn new(nanos: u64) -> Nanos {
        Nanos(nanos)
    }

    #[inline]
    pub(crate) const fn from_micros(micros: u32) -> Nanos {
        Nanos(micros as u64 * 1_000)
    }

    #[inline]
    pub(crate) const fn from_millis(millis: u32) -> Nanos {
        Nanos(millis as u64 * 1_000_000)
    }

    #[inline]
    pub(crate) const fn from_secs(secs: u32) -> Nanos {
        Nanos(secs as u64 * 1_000_000_000)
    }

    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    #[inline]
    pub(crate) const fn times(self, factor: u32) -> Nanos {
        Nanos(self.0.saturating_mul(factor as u64))
    }

    #[inline]
    pub(crate) const fn minus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl From<Nanos> for Duration {
    #[inline]
    fn from(span: Nanos) -> Duration {
        Duration::from_nanos(span.0)
    }
}

impl Add for Nanos {
    type Output = Nanos;

    /// Saturates.
    #[inline]
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;

    /// Saturates at [`Instant::MAX`].
    #[inline]
    fn add(self, span: Nanos) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

/// A span in whole milliseconds, up to 49 days: a quarter of the room of a [`Duration`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Millis(u32);

impl Millis {
    pub(crate) fn nanos(self) -> Nanos {
        Nanos::from_millis(self.0)
    }

    pub(crate) fn get(self) -> Duration {
        Duration::from_millis(self.0.into())
    }

    pub(crate) const fn new(millis: u32) -> Millis {
        Millis(millis)
    }

    pub(crate) const fn count(self) -> u32 {
        self.0
    }
}

/// Rounds up, so that no span but zero becomes zero; saturates.
impl From<Duration> for Millis {
    fn from(span: Duration) -> Millis {
        let millis = span.as_nanos().div_ceil(1_000_000);
        Millis(u32::try_from(millis).unwrap_or(u32::MAX))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Saturates at [`Instant::MAX`].
    #[inline]
    fn add(self, span: Duration) -> Instant {
        let nanos = span.as_secs().saturating_mul(1_000_000_000);
        let nanos = nanos.saturating_add(span.subsec_nanos().into());
        Instant(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

/// Seconds, to the microsecond.
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:06}",
            self.0 / 1_000_000_000,
            self.0 / 1_000 % 1_000_000
        )
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_agree() {
        let instant = Instant::from_millis(1_500);
        assert_eq!(instant, Instant::from_micros(1_500_000));
        assert_eq!(instant, Instant::from_nanos(1_500_000_000));
        assert_eq!(instant.as_micros(), 1_500_000);
        assert_eq!(format!("{instant} {instant:?}"), "1.500000 1.500000000s");
    }

    #[test]
    fn nothing_overflows() {
        assert_eq!(Instant::from_secs(u64::MAX), Instant::MAX);
        assert_eq!(Instant::MAX + Duration::from_secs(1), Instant::MAX);
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::MAX);
        assert_eq!(
            Instant::ZERO.saturating_duration_since(Instant::MAX),
            Duration::ZERO
        );
        let later = Instant::from_secs(3) + Duration::from_nanos(7);
        assert_eq!(
            later.saturating_duration_since(Instant::from_secs(3)),
            Duration::from_nanos(7)
        );
    }
}
