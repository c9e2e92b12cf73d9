//! On which side of what stands between client and responder something was lost: both ends'
//! counters, step by step. And what was rewritten there.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::outcome::Outcome;
use super::rewritten::{Rewritten, compare, direction};

/// Most that is read of the responder's counters: of a file, its end.
const MAX_BYTES: u64 = 1 << 20;

/// How long a file that does not grow is waited for: its writer may be kept from running.
const SETTLING: Duration = Duration::from_secs(10);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(30);

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

/// All that both ends know together.
#[derive(Debug, Clone, PartialEq)]
pub struct Between {
    steps: Vec<Step>,
    /// What arrived at the responder, and was dropped there.
    dropped: u64,
    /// What was rewritten, if the responder shows what arrived.
    rewritten: Option<Rewritten>,
}

/// Reads the responder's counters: the last whole line of a file, or what a socket says, as JSON.
pub fn read(path: &Path) -> Result<Value> {
    let name = || format!("the responder's counters in {}", path.display());
    let kind = std::fs::metadata(path).with_context(name)?.file_type();
    let mut text = String::new();
    if kind.is_socket() {
        let stream = UnixStream::connect(path).with_context(name)?;
        stream.take(MAX_BYTES).read_to_string(&mut text)
    } else {
        let mut file = std::fs::File::open(path).with_context(name)?;
        // Of one that has grown long, the end; where that begins, a line may be cut.
        let length = file.metadata().with_context(name)?.len();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_BYTES)))
            .and_then(|_| file.take(MAX_BYTES).read_to_end(&mut bytes))
            .inspect(|_| text = String::from_utf8_lossy(&bytes).into_owned())
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

/// As [`read`], before the run; nothing of a file that is empty still.
pub fn read_before(path: &Path) -> Result<Option<Value>> {
    let file = std::fs::metadata(path)
        .with_context(|| format!("the responder's counters in {}", path.display()))?;
    if file.is_file() && file.len() == 0 {
        return Ok(None);
    }
    let value = read(path)?;
    if counter(&value, "syns").is_none() {
        bail!(
            "{} does not count what a responder does: name the file that `outboard respond --json` writes",
            path.display()
        );
    }
    Ok(Some(value))
}

/// As [`read`], once a file that grows by a line a second has had two more: the first may have been
/// begun before the run was over.
pub fn read_settled(path: &Path) -> Result<Value> {
    let length = || std::fs::metadata(path).map_or(0, |file| file.len());
    let (mut before, mut grown) = (length(), 0);
    let deadline = Instant::now() + SETTLING;
    while grown < 2 && Instant::now() < deadline {
        std::thread::sleep(LOOK);
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

/// Both ends together; `before` is what the responder said before the run.
pub fn join(outcome: &Outcome, before: Option<&Value>, after: &Value) -> Between {
    let dropped = |value: &Value| {
        let counters = value["counters"].as_object();
        counters.map_or(0, |counters| {
            let drops = counters
                .iter()
                .filter(|(name, _)| name.starts_with("dropped_"));
            drops.filter_map(|(_, count)| count.as_u64()).sum::<u64>()
        })
    };
    Between {
        steps: steps(outcome, before, after),
        dropped: dropped(after).saturating_sub(before.map_or(0, dropped)),
        rewritten: compare(outcome, before, after),
    }
}

/// The steps, as far as the responder counts them.
fn steps(outcome: &Outcome, before: Option<&Value>, after: &Value) -> Vec<Step> {
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

impl Between {
    /// What was lost on the way to the responder (or back), in all steps.
    fn lost(&self, towards_responder: bool) -> u64 {
        let steps = self.steps.iter();
        steps
            .filter(|step| step.towards_responder == towards_responder)
            .map(|step| step.lost().max(0).cast_unsigned())
            .sum()
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let steps: Vec<_> = self
            .steps
            .iter()
            .map(|step| {
                json!({
                    "step": step.name,
                    "direction": direction(step.towards_responder),
                    "sent": step.sent,
                    "received": step.received,
                    "lost": step.lost(),
                })
            })
            .collect();
        json!({
            "steps": steps,
            "lost_to_responder": self.lost(true),
            "lost_to_client": self.lost(false),
            "dropped_by_responder": self.dropped,
            "rewritten": self.rewritten.as_ref().map(Rewritten::json),
        })
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = String::from("Between the two ends\n");
        for step in &self.steps {
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
        text += &match (self.lost(true), self.lost(false)) {
            (0, 0) => "  Nothing was lost between them\n".to_owned(),
            (there, back) => {
                format!("  Lost on the way to the responder: {there}; on the way back: {back}\n")
            }
        };
        if self.dropped > 0 {
            text += &format!(
                "  {} segments arrived at the responder and were not answered (its counters \
                 dropped_… say why)\n",
                self.dropped
            );
        }
        if let Some(rewritten) = &self.rewritten {
            text += &rewritten.text();
        }
        text
    }
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
        // A long file: what counts is at its end, and what is read begins in the middle of a line.
        let line = "{\"counters\": {\"syns\": 6}, \"µ\": \"µµµµµµµµµ\"}\n";
        let mut long = line.repeat(2 * MAX_BYTES as usize / line.len());
        long += "{\"counters\": {\"syns\": 8}}\n";
        std::fs::write(&file, long).unwrap();
        assert_eq!(counter(&read(&file).unwrap(), "syns"), Some(8));
        assert!(read_before(&file).unwrap().is_some());
        std::fs::write(&file, "{\"counters\": {\"frames\": 8}}\n").unwrap();
        let error = read_before(&file).unwrap_err().to_string();
        assert!(error.contains("outboard respond --json"), "{error}");
        std::fs::write(&file, "").unwrap();
        assert_eq!(read_before(&file).unwrap(), None);
        std::fs::write(&file, "nothing").unwrap();
        assert!(read(&file).is_err() && read_before(&file).is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
