//! The time as HTTP writes it (RFC 9110, section 5.6.7), written once a second.

use super::condition::whole_seconds;
use std::cell::RefCell;
use std::time::{Duration, SystemTime};

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

/// The first second of the year 10000, which four digits do not tell.
const LAST_YEAR: Duration = Duration::from_secs(253_402_300_800);

/// The date of a file; none, if HTTP cannot write it. Anybody who may write a file may give it any.
pub fn of_file(changed: SystemTime) -> Option<String> {
    let since = changed.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    (since < LAST_YEAR).then(|| httpdate::fmt_http_date(changed))
}

#[cfg(test)]
mod tests {
    use super::{of_file, with};
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_file_of_a_year_that_http_cannot_write_has_no_date() {
        let at = |seconds| of_file(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0).unwrap(), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(
            at(253_402_300_799).unwrap(),
            "Fri, 31 Dec 9999 23:59:59 GMT"
        );
        assert_eq!(at(253_402_300_800), None);
        assert_eq!(at(1 << 40), None);
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(of_file(before), None);
    }

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
