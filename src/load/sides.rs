//! On which side of what stands between client and responder something was lost: both ends'
//! counters, step by step.

use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::outcome::Outcome;

/// Most that is read of the responder's counters.
const MAX_BYTES: u64 = 1 << 20;

/// How long a file that does not grow is waited for.
const SETTLING: Duration = Duration::from_secs(3);

/// One step of the exchange: what was sent at one end, and what of it arrived at the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Whether it goes from the client to the responder.
    pub towards_responder: bool,
    /// Sent, at its beginning.
    pub sent: u64,
    /// Received, at its end.
    pub received: u64,
}

impl Step {
    /// What did not arrive; negative if more arrived than was sent.
    pub fn lost(&self) -> i64 {
        self.sent.cast_signed() - self.received.cast_signed()
    }
}

/// Reads the responder's counters: the last line of a file, or what a socket says, as JSON.
pub fn read(path: &Path) -> Result<Value> {
    let name = || format!("the responder's counters in {}", path.display());
    let kind = std::fs::metadata(path).with_context(name)?.file_type();
    let mut text = String::new();
    if kind.is_socket() {
        let stream = UnixStream::connect(path).with_context(name)?;
        stream.take(MAX_BYTES).read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(path).with_context(name)?;
        file.take(MAX_BYTES).read_to_string(&mut text)
    }
    .with_context(name)?;
    // A file that is a document, or one that grows by a line a second.
    if let Ok(value) = serde_json::from_str(&text) {
        return Ok(value);
    }
    text.lines()
        .rev()
        .find_map(|line| serde_json::from_str(line).ok())
        .with_context(|| format!("{}: no JSON", name()))
}

/// As [`read`], once a file that grows by a line a second has had two more: the first may have been
/// begun before the run was over.
pub fn read_settled(path: &Path) -> Result<Value> {
    let length = || std::fs::metadata(path).map_or(0, |file| file.len());
    let (mut before, mut grown) = (length(), 0);
    let deadline = Instant::now() + SETTLING;
    while grown < 2 && Instant::now() < deadline {
        std::thread::sleep(SETTLING / 100);
        let now = length();
        grown += usize::from(now != before);
        before = now;
    }
    read(path)
}

/// A counter, at the top or among the "counters".
fn counter(value: &Value, name: &str) -> Option<u64> {
    value
        .get(name)
        .or_else(|| value.get("counters")?.get(name))
        .and_then(Value::as_u64)
}

/// The steps, as far as the responder counts them; `before` is what it counted before the run.
pub fn join(outcome: &Outcome, before: Option<&Value>, after: &Value) -> Vec<Step> {
    let Some(details) = &outcome.details else {
        return Vec::new();
    };
    let ours = &details.counters;
    let theirs = |name: &str| {
        let before = before.and_then(|before| counter(before, name)).unwrap_or(0);
        counter(after, name).map(|after| after.saturating_sub(before))
    };
    let mut steps = Vec::new();
    for (name, sent, their_name) in [
        ("SYN", ours.syns + ours.syns_again, "syns"),
        ("request", ours.requests + ours.requests_again, "requests"),
        ("FIN", ours.fins, "fins"),
    ] {
        if let Some(received) = theirs(their_name) {
            steps.push(Step {
                name,
                towards_responder: true,
                sent,
                received,
            });
        }
    }
    for (name, received, their_name) in [
        ("SYN-ACK", ours.syn_acks + ours.syn_acks_again, "syn_acks"),
        (
            "response",
            ours.responses + ours.responses_again,
            "responses",
        ),
    ] {
        if let Some(sent) = theirs(their_name) {
            steps.push(Step {
                name,
                towards_responder: false,
                sent,
                received,
            });
        }
    }
    steps
}

/// As JSON.
pub fn json(steps: &[Step]) -> Value {
    steps
        .iter()
        .map(|step| {
            json!({
                "step": step.name,
                "direction": if step.towards_responder { "to responder" } else { "to client" },
                "sent": step.sent,
                "received": step.received,
                "lost": step.lost(),
            })
        })
        .collect()
}

/// As text.
pub fn text(steps: &[Step]) -> String {
    let mut text = String::from("Between the two ends\n");
    for step in steps {
        let way = if step.towards_responder {
            "client → responder"
        } else {
            "responder → client"
        };
        text += &format!(
            "  {:9} {way}  sent {:>12}  received {:>12}  lost {:>9}\n",
            step.name,
            step.sent,
            step.received,
            step.lost()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_growing_file_counts() {
        let directory = std::env::temp_dir().join(format!("outboard-sides-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("counters.json");
        std::fs::write(
            &file,
            "{\"syns\": 1}\n{\"counters\": {\"syns\": 7}}\n{\"cut",
        )
        .unwrap();
        let value = read(&file).unwrap();
        assert_eq!(counter(&value, "syns"), Some(7));
        assert_eq!(counter(&value, "fins"), None);
        std::fs::write(&file, "nothing").unwrap();
        assert!(read(&file).is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
