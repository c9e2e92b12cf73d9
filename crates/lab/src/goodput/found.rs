//! What came of one measurement.

use super::fetch;
use crate::experiment::bench::Client;
use crate::experiment::used::{CLIENT, Used};
use crate::faults;
use crate::sampler::account::Spent;
use std::time::Duration;

/// What came of one measurement.
#[derive(Debug)]
pub(crate) struct Found {
    /// What each fetch got.
    pub(super) got: Vec<fetch::Got>,
    pub(super) wire: faults::Report,
    /// What that took.
    pub(super) spent: Spent,
}

/// What an account calls the wire, which is a thread of this process.
const WIRE: &str = "wire";

/// A wire whose frames are later than this on average was not the one that was asked for.
const LATE: Duration = Duration::from_millis(2);

impl Found {
    /// Megabits a second that the clients got, all of them together.
    pub fn goodput(&self) -> f64 {
        self.got.iter().map(|got| got.all).sum()
    }

    /// The same of the second half of the time, when slow start is over.
    pub fn settled(&self) -> f64 {
        self.got.iter().map(|got| got.settled).sum()
    }

    /// Megabits a second that one of the clients got in the second half.
    pub fn settled_of(&self, index: usize) -> f64 {
        self.got.get(index).map_or(0.0, |got| got.settled)
    }

    /// What programs used, and what the engine says of itself: of this process, the clients apart from the wire.
    pub fn used(&self) -> Used {
        let clients: Duration = self.got.iter().map(|got| got.used).sum();
        let mut used = Used::of(&self.spent);
        let wire = self.spent.own.saturating_sub(clients);
        let both = [(CLIENT, clients), (WIRE, wire)];
        let both = both.map(|(name, time)| (name.to_owned(), time.as_secs_f64()));
        used.processes.extend(both);
        used
    }

    /// Whether a client could have got more: each is a thread, which has no more than a core.
    pub fn client(&self) -> Client {
        let most = self.got.iter().map(|got| got.used).max();
        let passed = self.spent.passed.as_secs_f64().max(f64::MIN_POSITIVE);
        Client {
            busy: most.map(|most| most.as_secs_f64() / passed),
            ..Client::default()
        }
    }

    /// Of all frames towards the clients, the share that was lost on purpose or for want of room.
    pub fn lost(&self) -> f64 {
        let passed = &self.wire.there;
        (passed.lost + passed.overflowed) as f64 / passed.received.max(1) as f64
    }

    /// What there is to say of a wire that was not the one that was asked for.
    pub fn late(&self) -> Vec<String> {
        let is_late = |passed: &&faults::Passed| {
            let late = passed.lateness.as_secs_f64() / passed.sent.max(1) as f64;
            passed.overrun > 0 || late > LATE.as_secs_f64()
        };
        let both = [&self.wire.there, &self.wire.back];
        both.into_iter()
            .filter(is_late)
            .map(ToString::to_string)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, fetch};
    use crate::faults;
    use crate::sampler::account::Spent;
    use crate::sampler::cores::Cores;
    use crate::sampler::listeners::Refused;
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[test]
    fn clients_and_wire_are_told_apart() {
        let got = |milliseconds| fetch::Got {
            all: 1.0,
            settled: 1.0,
            used: Duration::from_millis(milliseconds),
        };
        let found = |own| Found {
            got: vec![got(100), got(1_900)],
            wire: faults::Report::default(),
            spent: Spent {
                passed: Duration::from_secs(2),
                cores: Cores::default(),
                processes: BTreeMap::from([("server", Duration::from_secs(1))]),
                own: Duration::from_millis(own),
                refused: Refused::default(),
                engine: None,
            },
        };
        let used = found(2_500).used().processes;
        assert_eq!(
            ["client", "wire", "server"].map(|name| used[name]),
            [2.0, 0.5, 1.0]
        );
        // By the tick the whole may be less than one of its parts.
        assert_eq!(found(1_990).used().processes["wire"], 0.0);
        let client = found(2_500).client();
        assert_eq!(client.busy, Some(0.95));
        assert!(client.is_the_limit());
    }
}
