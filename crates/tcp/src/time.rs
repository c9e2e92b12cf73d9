//! Time as this TCP knows it: nanoseconds since some beginning that its owner chose.
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
}

/// A span in whole milliseconds, up to 49 days: a quarter of the room of a [`Duration`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Millis(u32);

impl Millis {
    pub(crate) fn get(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

/// Rounds up, so that a span that is set is never none; the largest if it is too long.
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
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
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
