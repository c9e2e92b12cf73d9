//! What a measurement cost: what cores, programs and the engine used in it, and whether the client could have done
//! more.

use crate::experiment::Sample;
use crate::experiment::bench::Client;
use crate::experiment::used::{CLIENT, Used};
pub use crate::experiment::used::{ENGINE, SERVER};
use crate::load::Outcome;
use crate::sampler::account::Spent;
use anyhow::{Result, bail};
use std::time::Duration;

/// The core of the server and the engine.
pub const SERVER_CORE: usize = 0;
/// The core of the client.
pub const CLIENT_CORE: usize = 1;
/// Of the connections of a sample so many must be on the engine for it to be one of the engine.
const ON_ENGINE: f64 = 0.99;

/// What a measurement cost.
#[derive(Debug)]
pub struct Cost {
    /// Cores, processes and the engine's own account.
    pub spent: Spent,
    /// CPU time of the client: of this process, and of its children that have ended.
    pub client: Duration,
    /// Whether an engine is on the core of the client.
    pub engine_is_with_client: bool,
}

impl Cost {
    /// The same where the program that is measured was a child of ours and has ended: the other end alone used this,
    /// and the program the rest.
    pub fn of_child(self, client: Duration) -> Self {
        self.beside(SERVER, client)
    }

    /// The same where the client alone used this of what this process did, and the rest something else, by its name.
    pub fn beside(mut self, other: &'static str, client: Duration) -> Self {
        let rest = self.client.saturating_sub(client);
        *self.spent.processes.entry(other).or_default() += rest;
        self.client = client;
        self
    }

    /// As [`sample`](Self::sample), of an open loop that came to this.
    pub fn sample_of(&self, outcome: &Outcome) -> Sample {
        self.sample_by(self.limits_of(outcome))
    }

    /// As [`limits`](Self::limits), with what the client offered of what it should.
    pub fn limits_of(&self, outcome: &Outcome) -> Client {
        Client {
            offered: Some(outcome.offered()),
            ..self.limits(outcome.window)
        }
    }

    /// What programs used, and what the engine says of itself.
    pub fn used(&self) -> Used {
        let mut used = Used::of(&self.spent);
        let client = self.client.as_secs_f64();
        used.processes.insert(CLIENT.into(), client);
        used
    }

    /// A sample without values, with all that is known of the cost: `measured` as for [`limits`](Self::limits).
    pub fn sample(&self, measured: Duration) -> Sample {
        self.sample_by(self.limits(measured))
    }

    fn sample_by(&self, client: Client) -> Sample {
        Sample::default().by(client).using(&self.used())
    }

    /// CPU time of the server.
    pub fn server(&self) -> Duration {
        self.spent.of(SERVER)
    }

    /// CPU time of the engine.
    pub fn engine(&self) -> Duration {
        self.spent.of(ENGINE)
    }

    /// What a reader should know if not all of so many connections were on the engine: what is called the
    /// engine's was the kernel's then.
    pub fn beside_engine(&self, made: f64) -> Option<String> {
        let engine = self.spent.engine.as_ref()?;
        (engine.accepted < ON_ENGINE * made).then(|| {
            format!(
                "the engine was not the engine: of {made:.0} connections {:.0} came to it, and the others \
                 were on the kernel",
                engine.accepted
            )
        })
    }

    /// Whether what was on an engine's bed came to its engine: else it was the kernel's.
    ///
    /// # Errors
    /// It did not.
    pub fn came_to_engine(&self) -> Result<()> {
        match &self.spent.engine {
            Some(engine) if engine.frames == 0.0 => bail!("the connection was not on the engine"),
            _ => Ok(()),
        }
    }

    /// CPU time of the machine, everything that runs on it included.
    pub fn machine(&self) -> Duration {
        self.spent.machine()
    }

    /// The part of a core on which an engine had something to do, from 0 to 1, if there is one. Its looking for work is
    /// not in it, which gives way to any. By its clock it is busy, too, while somebody else has the core: by its run time
    /// it is not.
    pub fn engine_work(&self) -> Option<f64> {
        let engine = self.spent.engine.as_ref()?;
        let had = self.engine().as_secs_f64() / self.spent.passed.as_secs_f64().max(1e-9);
        Some(had * engine.useful())
    }

    /// Whether the client could have done more in the time of the measurement: on a core of its own, or with what an
    /// engine there has left it, which had something to do.
    pub fn limits(&self, measured: Duration) -> Client {
        let work = self.engine_work().filter(|_| self.engine_is_with_client);
        let taken = work.unwrap_or(0.0);
        let used = self.client.as_secs_f64() / measured.as_secs_f64().max(1e-9);
        Client {
            busy: Some((used / (1.0 - taken).max(1e-9)).min(1.0)),
            server_busy: self.spent.share_of_core(SERVER_CORE),
            offered: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cost;
    use crate::sampler::account::{Engine, Spent};
    use crate::sampler::cores::Cores;
    use crate::sampler::listeners::Refused;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn cost(accepted: Option<f64>) -> Cost {
        let engine = accepted.map(|accepted| Engine {
            accepted,
            ..Engine::default()
        });
        Cost {
            spent: Spent {
                passed: Duration::from_secs(1),
                cores: Cores::default(),
                processes: BTreeMap::default(),
                own: Duration::ZERO,
                refused: Refused::default(),
                engine,
            },
            client: Duration::ZERO,
            engine_is_with_client: false,
        }
    }

    #[test]
    fn a_client_that_shares_its_core_has_what_the_engine_leaves() {
        let second = Duration::from_secs(1);
        let mut cost = cost(Some(1.0));
        cost.client = Duration::from_millis(480);
        let engine = cost.spent.engine.as_mut().unwrap();
        (engine.busy, engine.looking) = (0.75, 0.75);
        cost.spent.processes.insert(super::ENGINE, second);
        assert_eq!(cost.limits(second).busy, Some(0.48));
        assert_eq!(cost.engine_work(), Some(0.5));
        cost.engine_is_with_client = true;
        assert_eq!(cost.limits(second).busy, Some(0.96));
        // Of the time that it was measured, which may be less than that of the account.
        assert_eq!(cost.limits(second / 2).busy, Some(1.0));
    }

    /// What a child has used that has ended is in the time of its parent.
    #[test]
    fn a_program_that_has_ended_is_told_apart_from_the_other_end() {
        let mut cost = cost(None);
        cost.client = Duration::from_millis(700);
        let cost = cost.of_child(Duration::from_millis(300));
        assert_eq!(cost.server(), Duration::from_millis(400));
        let used = cost.used().processes;
        assert_eq!((used["client"], used["server"]), (0.3, 0.4));
        let sample = cost.sample(Duration::from_secs(1));
        assert_eq!(sample.client.busy, Some(0.3));
        assert_eq!(sample.used, Some(cost.used()));
    }

    #[test]
    fn an_engine_that_connections_went_around_is_noted() {
        assert_eq!(cost(Some(1_000.0)).beside_engine(1_000.0), None);
        assert_eq!(cost(Some(990.0)).beside_engine(1_000.0), None);
        let note = cost(Some(989.0)).beside_engine(1_000.0).unwrap();
        assert!(note.contains("of 1000 connections 989"), "{note}");
        assert!(cost(Some(0.0)).beside_engine(32.0).is_some());
        // On the kernel's bed there is none to go by.
        assert_eq!(cost(None).engine_work(), None);
        assert_eq!(cost(None).beside_engine(1_000.0), None);
    }
}
