//! The model beside measured delays: `--compare`.
//!
//! A run of the lab has loads of several classes, each measured by itself: such a row is held against that class of the
//! server alone, and on shared cores where the run had them.

use super::closed;
use super::input::Server;
use super::measured::{By, Figure, Measured, Source, classes, read};
use super::study::{answer, at};
use super::written::duration;
use anyhow::{Context, Result, bail};
use lab::experiment::fitted::{DELAY_WITHIN, UTILISATION_WITHIN};
use lab::table::Table;
use queueing::fit::agreement::{Pair, relative_error};
use queueing::fit::regression::Interval;
use queueing::simulate::{Run, simulate_placed};
use serde::Serialize;
use std::collections::BTreeSet;

const CONFIDENCE: f64 = 0.95;
/// What is held against the model besides the mean.
const BUSY: &str = "Busy share of the server's core";
const HIGH: &str = "What 99 % of the requests took at most, simulated";
/// The seed of the bootstrap: the same files give the same answer.
const SEED: u64 = 1;

/// Another figure beside the model's.
#[derive(Debug, Serialize)]
struct Other {
    measured: f64,
    interval: Option<(f64, f64)>,
    /// `None` where the model's system cannot carry the load.
    model: Option<f64>,
    holds: bool,
}

impl Other {
    /// A figure that the model may be off by no more than this part of, or that is within its interval.
    fn of(figure: Figure, model: Option<f64>, within: f64) -> Self {
        Self {
            measured: figure.value,
            interval: figure.interval,
            model,
            holds: model.is_some_and(|model| figure.holds(model, within)),
        }
    }
}

/// One of them beside the model.
#[derive(Debug, Serialize)]
struct Row {
    /// As the run calls it, or `kernel` and `engine`.
    system: String,
    /// The class of the server that it is of, where that was measured by itself.
    class: Option<String>,
    rate: f64,
    measured: f64,
    interval: Option<(f64, f64)>,
    /// `None` where the model's system cannot carry the load.
    model: Option<f64>,
    /// In a closed loop: requests a second that the model says.
    model_rate: Option<f64>,
    holds: bool,
    /// The busy share of the server's core, where it was measured.
    busy: Option<Other>,
    /// What 99 % of the requests took at most, where it was measured and is simulated.
    high: Option<Other>,
}

/// All of them.
#[derive(Debug, Serialize)]
pub struct Comparison {
    clients: Option<u32>,
    rows: Vec<Row>,
    /// Mean relative error over the rows that the model answers.
    error: Option<Interval>,
    /// What would have to be added to the model's delays to come closest, seconds, and the mean
    /// relative error that would be left.
    constant: Option<(f64, f64)>,
    notes: Vec<String>,
}

/// Compares. With `clients`, what was measured is a closed loop of so many, who think for `think`
/// seconds. With `simulated`, what 99 % of the requests took at most is held against such a simulation.
pub fn compare(
    server: &Server,
    sources: &[Source],
    clients: Option<u32>,
    think: f64,
    simulated: Option<Run>,
) -> Result<Comparison> {
    let mut held = Held::default();
    for source in sources {
        let shown = || format!("--compare {}", source.shown());
        held.add(server, source, clients.is_some())
            .with_context(shown)?;
    }
    let networks = match clients {
        Some(clients) => Some(closed::networks(server, think, clients)?),
        None => None,
    };
    let mut rows = Vec::new();
    for (server, class, one) in &held.loads {
        let in_loop = networks
            .as_ref()
            .zip(clients)
            .and_then(|(networks, clients)| networks[usize::from(one.engine)].with(clients));
        let (model, busy) = match in_loop {
            Some(found) => (Some(found.response), None),
            None => match answer(server, &at(server, one.rate), one.engine)? {
                Some(found) => (Some(found.delay), Some(found.host_utilisation)),
                None => (None, None),
            },
        };
        let high = match (&simulated, one.high) {
            (Some(run), Some(figure)) => {
                let model = match model {
                    Some(_) => slowest(server, one, run)?,
                    None => None,
                };
                Some(Other::of(figure, model, DELAY_WITHIN))
            }
            _ => None,
        };
        rows.push(Row {
            system: one.system().to_owned(),
            class: class.clone(),
            rate: one.rate,
            measured: one.delay.value,
            interval: one.delay.interval,
            model,
            model_rate: in_loop.map(|found| found.throughput),
            holds: model.is_some_and(|model| one.delay.holds(model, DELAY_WITHIN)),
            busy: one
                .busy
                .map(|figure| Other::of(figure, busy, UTILISATION_WITHIN)),
            high,
        });
    }
    let pairs = pairs(&rows, 0.0);
    let error = match pairs.is_empty() {
        true => None,
        false => Some(relative_error(&pairs, CONFIDENCE, SEED)?),
    };
    Ok(Comparison {
        clients,
        constant: constant(&rows)?,
        notes: held.notes(server, clients),
        error,
        rows,
    })
}

/// What 99 % of the requests take at most at a load, seconds, as it is simulated.
fn slowest(server: &Server, one: &Measured, run: &Run) -> Result<Option<f64>> {
    let classes = at(server, one.rate);
    let offloaded = vec![one.engine; classes.len()];
    let seen = simulate_placed(&classes, &server.system, &offloaded, run);
    let seen = seen.context("the simulation")?;
    Ok(seen.percentiles.map(|spread| spread.p99))
}

/// What was measured, each with the server that it is held against, and what class of that.
#[derive(Default)]
struct Held {
    loads: Vec<(Server, Option<String>, Measured)>,
    /// Classes of runs that are not described.
    unknown: BTreeSet<String>,
}

impl Held {
    fn add(&mut self, server: &Server, source: &Source, in_loop: bool) -> Result<()> {
        let measured = read(source)?;
        let named = classes(&measured);
        if in_loop && !named.is_empty() {
            bail!("a run of the lab is no closed loop: leave --clients out");
        }
        // Whoever describes one class, and has a run of one or chooses one, means that.
        let sole = server.classes.len() == 1 && named.len() == 1;
        let before = self.loads.len();
        for one in &measured {
            let By::Lab {
                class,
                shared_cores,
                ..
            } = &one.by
            else {
                self.loads.push((server.clone(), None, one.clone()));
                continue;
            };
            let mut known = server.classes.iter();
            let place = known.position(|known| class.contains(&known.name));
            let Some(place) = place.or(sole.then_some(0)) else {
                self.unknown.insert(class[0].clone());
                continue;
            };
            let mut alone = server.clone();
            alone.system.shared = *shared_cores;
            let mut only = alone.classes.swap_remove(place);
            only.arrival_rate = 1.0;
            alone.classes = vec![only];
            let name = Some(class[0].clone()).filter(|name| !name.is_empty());
            self.loads.push((alone, name, one.clone()));
        }
        if self.loads.len() == before {
            let described: Vec<&str> = server.classes.iter().map(|c| c.name.as_str()).collect();
            bail!(
                "it has {}, each measured by itself, and what is described has {}: give classes the names of the \
                 run, or describe one class and say which of the run it is, as in {}#0",
                named.join(", "),
                described.join(", "),
                source.place().0.display()
            );
        }
        Ok(())
    }

    fn notes(&self, server: &Server, clients: Option<u32>) -> Vec<String> {
        let mut notes = vec![
            "What was measured has the network and the client in it; the model has the server's cores \
             alone."
                .to_owned(),
        ];
        let is_load = |one: &Measured| one.by == By::Load;
        if clients.is_none() && self.loads.iter().any(|(.., one)| is_load(one)) {
            notes.push(
                "The model's arrivals are Poisson; `outboard load -R` asks at equal distances, after \
                 which requests wait less."
                    .into(),
            );
        }
        if self.loads.iter().any(|(.., one)| !is_load(one)) {
            notes.push("Arrivals of the lab's run are Poisson, as the model's.".into());
        }
        let others = self
            .loads
            .iter()
            .filter(|(held, _, one)| one.engine && held.system.shared != server.system.shared);
        let systems: BTreeSet<&str> = others.map(|(.., one)| one.system()).collect();
        for system in systems {
            notes.push(match server.system.shared {
                false => format!(
                    "Server and engine shared a core in the lab's run ({system}): what is held against it is the model \
                     with --shared-cores, and not the answers above."
                ),
                true => format!(
                    "The engine had a core that was not its server's in the lab's run ({system}): what is held against \
                     it is the model without --shared-cores, and not the answers above."
                ),
            });
        }
        if !self.unknown.is_empty() {
            let names: Vec<&str> = self.unknown.iter().map(String::as_str).collect();
            notes.push(format!(
                "Not described here, and left out: {}.",
                names.join(", ")
            ));
        }
        let errors: u64 = self.loads.iter().map(|(.., one)| one.errors).sum();
        if errors > 0 {
            notes.push(format!(
                "{errors} requests failed, and have no delay: what is left looks better than it was."
            ));
        }
        notes
    }
}

fn pairs(rows: &[Row], added: f64) -> Vec<Pair> {
    rows.iter()
        .filter_map(|row| {
            Some(Pair {
                model: (row.model? + added).max(0.0),
                measured: row.measured,
            })
        })
        .collect()
}

fn constant(rows: &[Row]) -> Result<Option<(f64, f64)>> {
    let pairs_now = pairs(rows, 0.0);
    if pairs_now.len() < 2 {
        return Ok(None);
    }
    // Relative errors count, so each difference has the weight of its delay.
    let weight = |pair: &Pair| pair.measured.powi(-2);
    let all: f64 = pairs_now.iter().map(weight).sum();
    let missing = pairs_now
        .iter()
        .map(|pair| weight(pair) * (pair.measured - pair.model));
    let added = missing.sum::<f64>() / all;
    let left = relative_error(&pairs(rows, added), CONFIDENCE, SEED)?;
    Ok(Some((added, left.value)))
}

impl Comparison {
    /// In words.
    pub fn words(&self) -> String {
        let held = self.rows.iter().filter(|row| row.holds).count();
        let mut text = format!(
            "Model and measurement{}: within {:.0} %, or the run's own interval, at {held} of {} \
             loads.\n",
            self.clients
                .map_or(String::new(), |clients| format!(", {clients} clients")),
            DELAY_WITHIN * 100.0,
            self.rows.len()
        );
        let busy: Vec<&Other> = self.rows.iter().filter_map(|it| it.busy.as_ref()).collect();
        let high: Vec<&Other> = self.rows.iter().filter_map(|it| it.high.as_ref()).collect();
        let besides = [(BUSY, UTILISATION_WITHIN, busy), (HIGH, DELAY_WITHIN, high)];
        for (what, within, all) in besides {
            if !all.is_empty() {
                text += &format!(
                    "{what}: within {:.0} %, or the run's own interval, at {} of {} loads.\n",
                    within * 100.0,
                    all.iter().filter(|other| other.holds).count(),
                    all.len()
                );
            }
        }
        text += &self.table().to_string();
        if let Some(error) = &self.error {
            text += &format!(
                "The model's mean delay is off by {:.0} % on average ({:.0} to {:.0} %, 95 %, by \
                 bootstrap over the loads).\n",
                error.value * 100.0,
                error.low * 100.0,
                error.high * 100.0
            );
        }
        if let Some((added, left)) = self.constant
            && self.error.is_some_and(|error| left < error.value * 0.9)
        {
            let what = if added > 0.0 { "more" } else { "less" };
            text += &format!(
                "With {} {what} at every load it would be off by {:.0} %: time that is no core's, \
                 such as the way and the waking of those who sleep.\n",
                duration(added.abs()),
                left * 100.0
            );
        }
        for note in &self.notes {
            text += note;
            text.push('\n');
        }
        text
    }
    fn table(&self) -> Table {
        let has_class = self.rows.iter().any(|row| row.class.is_some());
        let has_busy = self.rows.iter().any(|row| row.busy.is_some());
        let has_high = self.rows.iter().any(|row| row.high.is_some());
        let mut names = vec!["system"];
        names.extend(has_class.then_some("class"));
        names.extend(["load/s", "measured", "model", "off by", ""]);
        let mut verdicts = vec![names.len() - 1];
        for (is_there, name, model) in
            [(has_busy, "busy", "model"), (has_high, "99 %", "simulated")]
        {
            if is_there {
                names.extend([name, model, "off by", ""]);
                verdicts.push(names.len() - 1);
            }
        }
        let mut table = Table::new(names);
        for words in verdicts
            .into_iter()
            .chain([0])
            .chain(has_class.then_some(1))
        {
            table.left(words);
        }
        for row in &self.rows {
            let mut cells = vec![row.system.clone()];
            cells.extend(has_class.then(|| row.class.clone().unwrap_or_default()));
            cells.push(match row.model_rate {
                Some(model) => format!("{:.0} (model {model:.0})", row.rate),
                None => format!("{:.0}", row.rate),
            });
            cells.extend(beside(
                row.measured,
                row.interval,
                row.model,
                row.holds,
                duration,
            ));
            let share = |share: f64| format!("{:.1} %", 100.0 * share);
            if has_busy {
                cells.extend(other(row.busy.as_ref(), share));
            }
            if has_high {
                cells.extend(other(row.high.as_ref(), duration));
            }
            table.row(cells);
        }
        table
    }
}

/// As [`beside`]; nothing, where there is none.
fn other(other: Option<&Other>, shown: impl Fn(f64) -> String) -> [String; 4] {
    match other {
        Some(it) => beside(it.measured, it.interval, it.model, it.holds, shown),
        None => [const { String::new() }; 4],
    }
}

/// A figure, the model's, how far that is off, and whether it holds.
fn beside(
    measured: f64,
    interval: Option<(f64, f64)>,
    model: Option<f64>,
    holds: bool,
    shown: impl Fn(f64) -> String,
) -> [String; 4] {
    let off = |model: f64| format!("{:+.0} %", (model / measured - 1.0) * 100.0);
    let figure = match interval {
        Some((low, high)) => format!("{} ({} to {})", shown(measured), shown(low), shown(high)),
        None => shown(measured),
    };
    [
        figure,
        model.map_or("saturated".into(), shown),
        model.map_or("—".into(), off),
        if holds { "holds" } else { "does not hold" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_that_is_missing_is_found() {
        let row = |measured: f64, model: f64| Row {
            system: "kernel".into(),
            class: None,
            rate: 1.0,
            measured,
            interval: None,
            model: Some(model),
            model_rate: None,
            holds: false,
            busy: None,
            high: None,
        };
        let rows = [row(3.0, 1.0), row(5.0, 3.0), row(12.0, 10.0)];
        let (added, left) = constant(&rows).unwrap().unwrap();
        assert!((added - 2.0).abs() < 1e-12 && left < 1e-12);
        assert_eq!(constant(&rows[..1]).unwrap(), None);
    }
}
