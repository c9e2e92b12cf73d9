//! An access log as requests to be made again: which, when, and the files that they need.

use super::access_log::Log;
use super::files::File;
use std::collections::HashMap;
use std::time::Duration;

/// The largest object that is made, in bytes.
const LARGEST: u64 = 64 << 20;
/// What all objects of a log may have.
const MOST: u64 = 1 << 30;
/// Different requests, at most: what a number of 16 bits counts.
const REQUESTS: usize = 60_000;

/// A request, and the status that it was answered with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// For an object, by its number (200).
    Object(usize),
    /// For one that the client has already (304).
    Unchanged(usize),
    /// For one that is not there (404).
    Missing,
}

/// A log that can be replayed.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// The objects, made to the largest size that the log has for each. Their names are numbers: what
    /// the log calls them is nothing for a file system.
    pub files: Vec<File>,
    /// The different requests.
    pub requests: Vec<Request>,
    /// Which of them was made, in the order of the log.
    pub order: Vec<u16>,
    /// When, in parts of the log's length: from 0 to less than 1.
    pub at: Vec<f64>,
    /// The log's length in seconds, of which it has whole ones.
    pub seconds: u64,
    /// Lines that are not replayed: no GET, other statuses, and what is too large or too much.
    pub left_out: usize,
    /// Lines that are not replayed because they ask for something new, and there are as many different
    /// requests as can be told apart.
    pub too_many: usize,
}

impl Replay {
    /// Of a log. Its times are whole seconds: the requests of a second are spread over it evenly.
    pub fn of(log: &Log) -> Self {
        Self::of_at_most(log, REQUESTS)
    }

    /// With so many different requests at most.
    fn of_at_most(log: &Log, most: usize) -> Self {
        let mut replay = Self {
            left_out: log.left_out,
            ..Self::default()
        };
        let mut objects: HashMap<&str, usize> = HashMap::new();
        let mut known: HashMap<Request, u16> = HashMap::new();
        let mut seconds = Vec::new();
        let mut bytes = 0;
        for logged in &log.requests {
            let object = objects.get(logged.path.as_str()).copied();
            let grown = match (logged.status, object) {
                (404, _) => 0,
                (_, Some(object)) => logged.bytes.saturating_sub(replay.files[object].size),
                (_, None) => logged.bytes,
            };
            let fits = logged.bytes <= LARGEST && bytes + grown <= MOST;
            if !matches!(logged.status, 200 | 304 | 404) || !fits {
                replay.left_out += 1;
                continue;
            }
            // A new object is the next.
            let number = object.unwrap_or(replay.files.len());
            let request = match logged.status {
                404 => Request::Missing,
                304 => Request::Unchanged(number),
                _ => Request::Object(number),
            };
            // What is known already can always be asked for again.
            if !known.contains_key(&request) && known.len() >= most {
                replay.too_many += 1;
                continue;
            }
            if request != Request::Missing {
                if object.is_none() {
                    objects.insert(&logged.path, number);
                    let name = number.to_string();
                    replay.files.push(File { name, size: 0 });
                }
                bytes += grown;
                replay.files[number].size += grown;
            }
            let next = known.len() as u16;
            let index = *known.entry(request.clone()).or_insert_with(|| {
                replay.requests.push(request);
                next
            });
            replay.order.push(index);
            seconds.push(logged.at.as_secs());
        }
        replay.seconds = seconds.last().map_or(0, |last| last + 1);
        replay.at = spread(&seconds, replay.seconds);
        replay
    }

    /// Requests a second that the log has itself, on average over its length; 0, if it has none.
    pub fn rate(&self) -> f64 {
        self.order.len() as f64 / self.seconds.max(1) as f64
    }

    /// Numbers of requests, and when they are due, at so many a second on average, for so long: from the
    /// `first` of the log on (that begins again behind the last), and from the beginning again when it ends.
    pub fn due(&self, rate: f64, length: Duration, first: usize) -> (Vec<u16>, Vec<Duration>) {
        let count = self.order.len();
        let (mut order, mut due) = (Vec::new(), Vec::new());
        if count == 0 || rate <= 0.0 {
            return (order, due);
        }
        // One pass through the log.
        let pass = count as f64 / rate;
        for number in first % count.. {
            let (index, passes) = (number % count, (number / count) as f64);
            let at = (self.at[index] + passes - self.at[first % count]) * pass;
            if at >= length.as_secs_f64() {
                break;
            }
            order.push(self.order[index]);
            due.push(Duration::from_secs_f64(at.max(0.0)));
        }
        (order, due)
    }
}

/// Ascending seconds, as parts of the whole.
fn spread(seconds: &[u64], whole: u64) -> Vec<f64> {
    let whole = whole as f64;
    let mut at = Vec::new();
    for same in seconds.chunk_by(|one, other| one == other) {
        for (number, second) in same.iter().enumerate() {
            let within = number as f64 / same.len() as f64;
            at.push((*second as f64 + within) / whole);
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{Replay, Request};
    use crate::workload::access_log::Log;
    use std::time::Duration;

    const TEXT: &str = "\
        h - - [22/Nov/2026:10:00:00 +0000] \"GET /../a HTTP/1.0\" 200 100\n\
        h - - [22/Nov/2026:10:00:00 +0000] \"GET /b HTTP/1.0\" 200 7\n\
        h - - [22/Nov/2026:10:00:01 +0000] \"GET /../a HTTP/1.0\" 304 -\n\
        h - - [22/Nov/2026:10:00:02 +0000] \"GET /b HTTP/1.0\" 200 9\n\
        h - - [22/Nov/2026:10:00:02 +0000] \"GET /c HTTP/1.0\" 404 5\n\
        h - - [22/Nov/2026:10:00:02 +0000] \"GET /d HTTP/1.0\" 500 5\n\
        h - - [22/Nov/2026:10:00:02 +0000] \"GET /huge HTTP/1.0\" 200 99999999999\n\
        h - - [22/Nov/2026:10:00:03 +0000] \"GET /b HTTP/1.0\" 200 8\n";

    #[test]
    fn objects_are_made_to_size_and_called_by_numbers() {
        let replay = Replay::of(&Log::read(TEXT, 1.0));
        let sizes: Vec<(&str, u64)> = replay
            .files
            .iter()
            .map(|file| (file.name.as_str(), file.size))
            .collect();
        assert_eq!(sizes, [("0", 100), ("1", 9)]);
        assert_eq!(
            replay.requests,
            [
                Request::Object(0),
                Request::Object(1),
                Request::Unchanged(0),
                Request::Missing
            ]
        );
        assert_eq!(replay.order, [0, 1, 2, 1, 3, 1]);
        assert_eq!(replay.left_out, 2);
    }

    #[test]
    fn where_no_new_request_fits_the_known_ones_go_on() {
        let replay = Replay::of_at_most(&Log::read(TEXT, 1.0), 2);
        // /a and /b of 200; the 304 of /a and the 404 would be others.
        assert_eq!(replay.requests, [Request::Object(0), Request::Object(1)]);
        assert_eq!(replay.order, [0, 1, 1, 1]);
        assert_eq!((replay.left_out, replay.too_many), (2, 2));
        assert_eq!(Replay::of(&Log::read(TEXT, 1.0)).too_many, 0);
    }

    #[test]
    fn times_are_scaled_to_a_rate_and_the_log_begins_again() {
        let replay = Replay::of(&Log::read(TEXT, 1.0));
        // Six requests in four seconds of the log: at six a second, four times as fast.
        let (order, due) = replay.due(6.0, Duration::from_secs(1), 0);
        let milliseconds: Vec<u128> = due.iter().map(Duration::as_millis).collect();
        assert_eq!(order, [0, 1, 2, 1, 3, 1]);
        assert_eq!(milliseconds, [0, 125, 250, 500, 625, 750]);
        let (order, due) = replay.due(6.0, Duration::from_millis(1_100), 4);
        let milliseconds: Vec<u128> = due.iter().map(Duration::as_millis).collect();
        assert_eq!(order, [3, 1, 0, 1, 2, 1, 3]);
        assert_eq!(milliseconds, [0, 125, 375, 500, 625, 875, 1_000]);
        assert!(
            Replay::default()
                .due(6.0, Duration::from_secs(1), 3)
                .0
                .is_empty()
        );
        assert!(replay.due(0.0, Duration::from_secs(1), 0).0.is_empty());
    }

    /// At its own rate a log takes as long as it did, and at twice that half of it.
    #[test]
    fn a_log_has_a_rate_of_its_own() {
        let replay = Replay::of(&Log::read(TEXT, 1.0));
        assert_eq!((replay.seconds, replay.rate()), (4, 1.5));
        let last = |speed: f64| {
            let (_, due) = replay.due(speed * replay.rate(), Duration::from_secs(4), 0);
            due[5].as_millis()
        };
        assert_eq!((last(1.0), last(2.0)), (3_000, 1_500));
        assert_eq!(Replay::default().rate(), 0.0);
    }
}
