//! What programs used in a measurement, and what the engine says of itself, as a run keeps it.

use crate::sampler::account::{Engine, Spent};
use crate::sampler::listeners::Refused;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an account calls the processes that serve.
pub const SERVER: &str = "server";
/// What it calls the engine.
pub const ENGINE: &str = "engine";
/// What it calls whoever asks.
pub const CLIENT: &str = "client";

/// What was used in the time of an account. That may be less than the measurement: what starts and ends is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Seconds that passed.
    pub passed: f64,
    /// Seconds of CPU, by what the processes are called.
    pub processes: BTreeMap<String, f64>,
    /// What the server's listeners had no room for.
    #[serde(default, skip_serializing_if = "Refused::is_none")]
    pub refused: Refused,
    /// What the engine says of itself, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
}

impl Used {
    /// What an account has.
    pub fn of(spent: &Spent) -> Self {
        let each = spent.processes.iter();
        Self {
            passed: spent.passed.as_secs_f64(),
            processes: each
                .map(|(name, time)| ((*name).to_owned(), time.as_secs_f64()))
                .collect(),
            refused: spent.refused,
            engine: spent.engine,
        }
    }

    /// What an account has where this process, and the children of it that have ended, are the client.
    pub fn with_client(spent: &Spent) -> Self {
        let mut used = Self::of(spent);
        used.processes
            .insert(CLIENT.into(), spent.own.as_secs_f64());
        used
    }

    /// Adds what was used another time.
    pub fn add(&mut self, more: &Self) {
        self.passed += more.passed;
        for (name, seconds) in &more.processes {
            *self.processes.entry(name.clone()).or_default() += seconds;
        }
        self.refused = self.refused.and(more.refused);
        if let Some(engine) = &more.engine {
            self.engine.get_or_insert_default().add(engine);
        }
    }

    /// All of it: what, in which unit, and how much.
    pub fn figures(&self) -> Vec<(String, &'static str, f64)> {
        let mut all = vec![("accounted".to_owned(), "s", self.passed)];
        let processes = self.processes.iter();
        all.extend(processes.map(|(name, seconds)| (format!("CPU of {name}"), "s", *seconds)));
        if !self.refused.is_none() {
            let Refused {
                overflowed,
                dropped,
            } = self.refused;
            let both = [
                ("accept queue overflowed", overflowed),
                ("dropped by listeners", dropped),
            ];
            all.extend(both.map(|(what, count)| (what.to_owned(), "", count as f64)));
        }
        if let Some(engine) = &self.engine {
            let figures = [
                ("engine busy", "s", engine.busy),
                ("engine looking", "s", engine.looking),
                ("engine asleep", "s", engine.asleep),
                ("engine turns", "", engine.turns),
                ("engine empty turns", "", engine.empty_turns),
                ("engine batches", "", engine.batches),
                ("engine frames", "", engine.frames),
                ("engine connections", "", engine.accepted),
            ];
            all.extend(figures.map(|(what, unit, figure)| (what.to_owned(), unit, figure)));
            let clock = engine.clock;
            all.extend(clock.map(|clock| ("engine clock".to_owned(), "1/s", clock)));
            let tsc = clock.filter(|_| engine.of_tsc);
            all.extend(tsc.map(|clock| ("time stamp counter".to_owned(), "1/s", clock)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{Engine, Refused, SERVER, Spent, Used};
    use crate::sampler::cores::Cores;
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[test]
    fn what_was_used_twice_is_added() {
        let used = |server: f64, engine: Option<f64>| Used {
            passed: 2.0,
            processes: BTreeMap::from([("server".to_owned(), server)]),
            engine: engine.map(|busy| Engine {
                busy,
                clock: Some(1e9),
                of_tsc: true,
                ..Engine::default()
            }),
            ..Used::default()
        };
        let mut both = used(0.5, None);
        both.add(&used(1.0, Some(0.25)));
        both.add(&used(0.0, Some(0.5)));
        assert_eq!((both.passed, both.processes["server"]), (6.0, 1.5));
        let engine = both.engine.unwrap();
        assert_eq!((engine.busy, engine.clock), (0.75, Some(1e9)));
        assert!(engine.of_tsc);
        both.add(&Used {
            engine: Some(Engine::default()),
            ..Used::default()
        });
        let engine = both.engine.unwrap();
        assert!(engine.of_tsc, "{engine:?}");
    }

    #[test]
    fn this_process_is_the_client_where_that_is_said() {
        let spent = Spent {
            passed: Duration::from_secs(2),
            cores: Cores::default(),
            processes: BTreeMap::from([(SERVER, Duration::from_secs(1))]),
            own: Duration::from_millis(500),
            refused: Refused {
                overflowed: 2,
                dropped: 3,
            },
            engine: None,
        };
        let used = Used::of(&spent);
        assert_eq!(used.processes, BTreeMap::from([("server".to_owned(), 1.0)]));
        let mut used = Used::with_client(&spent);
        assert_eq!((used.processes["client"], used.passed), (0.5, 2.0));
        used.add(&Used::of(&spent));
        assert_eq!((used.refused.overflowed, used.refused.dropped), (4, 6));
        let figures = used.figures();
        let of = |name: &str| figures.iter().find(|(what, ..)| what == name).unwrap().2;
        assert_eq!(
            (of("accept queue overflowed"), of("dropped by listeners")),
            (4.0, 6.0)
        );
    }

    #[test]
    fn an_account_without_an_engine_has_no_figures_of_one() {
        let mut used = Used::default();
        let names = |used: &Used| -> Vec<String> {
            let figures = used.figures().into_iter();
            figures.map(|(what, ..)| what).collect()
        };
        assert_eq!(names(&used), ["accounted"]);
        used.processes.insert("server".into(), 1.0);
        used.engine = Some(Engine::default());
        let found = names(&used);
        assert_eq!(found[..3], ["accounted", "CPU of server", "engine busy"]);
        assert!(!found.contains(&"engine clock".to_owned()), "{found:?}");
    }
}
