//! The time as HTTP writes it (RFC 9110, section 5.6.7), written once a second.

use super::condition::whole_seconds;
use std::cell::RefCell;
use std::time::SystemTime;

thread_local! {
    /// The second that was last written, and how.
    static LAST: RefCell<(SystemTime, String)> = const { RefCell::new((SystemTime::UNIX_EPOCH, String::new())) };
}

/// Gives `now` as a date to `take`.
pub fn with<R>(now: SystemTime, take: impl FnOnce(&str) -> R) -> R {
    let second = whole_seconds(now);
    LAST.with_borrow_mut(|(last, date)| {
        if *last != second || date.is_empty() {
            (*last, *date) = (second, httpdate::fmt_http_date(second));
        }
        take(date)
    })
}

#[cfg(test)]
mod tests {
    use super::with;
    use std::time::{Duration, SystemTime};

    #[test]
    fn each_second_is_another_date() {
        let at = |millis| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            with(now, str::to_owned)
        };
        assert_eq!(at(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(at(784_111_777_999), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(784_111_778_000), "Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(at(784_111_777_000), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
