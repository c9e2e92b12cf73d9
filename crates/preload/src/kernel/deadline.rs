//! How long a call may wait.

use core::ffi::c_int;
use core::time::Duration;

use libc::timespec;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

/// What the program asked for; `None` is for ever.
#[derive(Clone, Copy)]
pub struct Patience(Option<Duration>);

impl Patience {
    /// For ever.
    pub const FOREVER: Self = Self(None);

    /// As poll and epoll_wait have it: negative is for ever.
    #[inline(always)]
    pub fn milliseconds(milliseconds: c_int) -> Self {
        Self(u64::try_from(milliseconds).ok().map(Duration::from_millis))
    }

    /// As ppoll and pselect have it: null is for ever.
    pub fn timespec(timeout: Option<&timespec>) -> Result<Self, Errno> {
        let Some(timeout) = timeout else {
            return Ok(Self::FOREVER);
        };
        let (Ok(seconds), Ok(nanoseconds @ 0..=999_999_999)) = (
            u64::try_from(timeout.tv_sec),
            u32::try_from(timeout.tv_nsec),
        ) else {
            return Err(Errno::INVAL);
        };
        Ok(Self(Some(Duration::new(seconds, nanoseconds))))
    }

    /// As SO_RCVTIMEO has it, in nanoseconds: 0 is for ever.
    pub fn socket_timeout(nanoseconds: u64) -> Self {
        Self((nanoseconds != 0).then(|| Duration::from_nanos(nanoseconds)))
    }

    /// So many seconds.
    pub fn for_seconds(seconds: u32) -> Self {
        Self(Some(Duration::from_secs(seconds.into())))
    }

    /// Not to wait at all.
    pub fn is_zero(self) -> bool {
        self.0 == Some(Duration::ZERO)
    }

    /// As epoll_wait takes it, if it can be said in whole milliseconds.
    pub fn in_milliseconds(self) -> Option<c_int> {
        match self.0 {
            None => Some(-1),
            Some(span) if span.subsec_nanos() % 1_000_000 == 0 => Some(to_milliseconds(span)),
            Some(_) => None,
        }
    }

    /// The time itself, for a call that starts now.
    pub fn as_timespec(self) -> Option<timespec> {
        self.0.map(to_timespec)
    }

    /// Starts the clock.
    pub fn begin(self) -> Deadline {
        Deadline(self.0.map(|patience| now().saturating_add(patience)))
    }
}

/// When to give up; `None` is never.
#[derive(Clone, Copy)]
pub struct Deadline(Option<Duration>);

impl Deadline {
    /// One that has come.
    pub const NOW: Self = Self(Some(Duration::ZERO));

    /// Whether it is [`NOW`](Self::NOW): nothing is waited for.
    pub fn is_now(self) -> bool {
        self.0 == Some(Duration::ZERO)
    }

    /// This one, or `span` from now, if that comes first.
    pub fn or_after(self, span: Option<Duration>) -> Self {
        match (self.0, span) {
            (_, None) => self,
            (None, Some(span)) => Self(Some(now().saturating_add(span))),
            (Some(end), Some(span)) => Self(Some(end.min(now().saturating_add(span)))),
        }
    }

    /// What is left, as epoll_wait takes it, rounded up.
    pub fn milliseconds(self) -> c_int {
        match self.0 {
            None => -1,
            // Asking for the time is not needed for what is over.
            Some(Duration::ZERO) => 0,
            Some(end) => to_milliseconds(end.saturating_sub(now())),
        }
    }

    /// What is left, as ppoll takes it; `None` is for ever.
    pub fn left(self) -> Option<timespec> {
        self.0.map(|end| to_timespec(end.saturating_sub(now())))
    }

    /// What is left; `None` is for ever.
    pub fn time_left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_sub(now()))
    }

    /// Whether it ever comes.
    pub fn is_bounded(self) -> bool {
        self.0.is_some()
    }

    /// Whether it has come.
    pub fn passed(self) -> bool {
        self.0.is_some_and(|end| now() >= end)
    }
}

/// The monotonic clock.
pub fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    // The monotonic clock is never negative.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn to_milliseconds(span: Duration) -> c_int {
    let rounded = span.as_nanos().div_ceil(1_000_000);
    c_int::try_from(rounded).unwrap_or(c_int::MAX)
}

fn to_timespec(span: Duration) -> timespec {
    timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}
