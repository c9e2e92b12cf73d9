//! Storms are summed up: of each event so many are logged in a time, and of the rest how many there were.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// How often the counts begin anew.
const PERIOD: Duration = Duration::from_secs(10);
/// Events of one kind that are logged in that time.
const MOST: u64 = 20;

/// What came of each kind of event since the counts began, by the place in the program that tells of it.
static SEEN: LazyLock<Mutex<HashMap<&'static str, Seen>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default, PartialEq)]
struct Seen {
    count: u64,
    /// What it says.
    message: String,
}

/// Lets the first of each kind pass.
pub struct Calm;

impl<S: Subscriber> Filter<S> for Calm {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.entry(event.metadata().name()).or_default();
        seen.count += 1;
        if seen.count > MOST && seen.message.is_empty() {
            event.record(&mut Message(&mut seen.message));
        }
        seen.count <= MOST
    }
}

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// Begins to say, now and then, how many events were not logged.
pub fn sum_up() {
    let summing = std::thread::Builder::new().name("log".into()).spawn(|| {
        loop {
            std::thread::sleep(PERIOD);
            let seen = {
                let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *seen)
            };
            for (more, of) in beyond(seen) {
                tracing::warn!(more, of, "so many further events were not logged");
            }
        }
    });
    if let Err(error) = summing {
        crate::closed_pipe::remark(format_args!("outboard: storms are not summed up: {error}"));
    }
}

/// How many of which were not logged.
fn beyond(seen: HashMap<&'static str, Seen>) -> Vec<(u64, String)> {
    let mut beyond: Vec<_> = seen
        .into_values()
        .filter(|seen| seen.count > MOST)
        .map(|seen| (seen.count - MOST, seen.message))
        .collect();
    beyond.sort();
    beyond
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn of_a_storm_the_beginning_is_logged_and_the_rest_is_counted() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(Calm));
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..100 {
                tracing::warn!(number, "again");
            }
            tracing::warn!("once");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("again").count() as u64, MOST, "{text}");
        assert_eq!(text.matches("once").count(), 1, "{text}");
        let seen = std::mem::take(&mut *SEEN.lock().unwrap());
        assert_eq!(beyond(seen), [(80, "again".to_owned())]);
    }
}
