//! Requests of an access log in Common or Combined Log Format, to be made again at their times.
//!
//! A log is somebody's, and may hold anything: a line that is not a request is counted and left out.

use std::time::Duration;

/// A request of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Logged {
    /// Since the first request of the log.
    pub at: Duration,
    /// The path, with its query.
    pub path: String,
    /// The status that was answered.
    pub status: u16,
    /// Bytes of the body that was answered; none, if the log has "-".
    pub bytes: u64,
}

/// A log that has been read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// GET requests, in the order of their times.
    pub requests: Vec<Logged>,
    /// Lines that are not: other methods, and what cannot be read.
    pub left_out: usize,
}

/// Paths longer than this are left out.
const LONGEST_PATH: usize = 4_096;

impl Log {
    /// Reads it. `scale` multiplies the times: 0.1 is ten times as fast.
    pub fn read(text: &str, scale: f64) -> Self {
        let mut log = Self::default();
        let mut read: Vec<(i64, Logged)> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match entry(line) {
                Some(found) => read.push(found),
                None => log.left_out += 1,
            }
        }
        read.sort_by_key(|(second, _)| *second);
        let first = read.first().map_or(0, |(second, _)| *second);
        log.requests = read
            .into_iter()
            .map(|(second, request)| {
                let since = (second - first) as f64 * scale.max(0.0);
                Logged {
                    at: Duration::try_from_secs_f64(since).unwrap_or(Duration::MAX),
                    ..request
                }
            })
            .collect();
        log
    }
}

/// A line: host, identity, user, [time], "request", status, bytes; and more, which is not read.
fn entry(line: &str) -> Option<(i64, Logged)> {
    let (_, rest) = line.split_once('[')?;
    let (time, rest) = rest.split_once(']')?;
    let (_, rest) = rest.split_once('"')?;
    let (request, rest) = rest.split_once('"')?;
    let mut words = request.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let is_path = path.starts_with('/') && path.len() <= LONGEST_PATH;
    if method != "GET" || !is_path || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let mut numbers = rest.split_whitespace();
    let status = numbers.next()?.parse().ok()?;
    let bytes = match numbers.next()? {
        "-" => 0,
        number => number.parse().ok()?,
    };
    let request = Logged {
        at: Duration::ZERO,
        path: path.to_owned(),
        status,
        bytes,
    };
    Some((seconds(time)?, request))
}

/// Seconds since 1970 of `22/Nov/2026:18:45:00 +0100`.
fn seconds(time: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (stamp, zone) = time.split_once(' ')?;
    let mut parts = stamp.split(['/', ':']);
    let day: i64 = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as i64 + 1;
    let mut number = || parts.next()?.parse::<u32>().ok().map(i64::from);
    let (year, hour, minute, second) = (number()?, number()?, number()?, number()?);
    if !(1..=31).contains(&day) || !(1970..=9999).contains(&year) || hour > 23 || minute > 59 {
        return None;
    }
    // Days from 1970-01-01, with years that begin in March, so that the day of a leap year is their
    // last (Fliegel and Van Flandern 1968).
    let from_march = (month + 9) % 12;
    let years = year - i64::from(month < 3);
    let days =
        365 * years + years / 4 - years / 100 + years / 400 + (from_march * 306 + 5) / 10 + day
            - 1
            - 719_468;
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits: i64 = zone.get(1..5)?.parse::<u32>().ok()?.into();
    let offset = sign * (digits / 100 * 3_600 + digits % 100 * 60);
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second - offset)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(seconds("01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(seconds("29/Feb/2000:12:00:00 +0000"), Some(951_825_600));
        assert_eq!(seconds("01/Mar/2026:00:00:00 +0100"), Some(1_772_319_600));
        for wrong in [
            "",
            "32/Jan/2000:00:00:00 +0000",
            "01/Foo/2000:00:00:00 +0000",
            "1",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
