//! Closed loops: so many clients, each of which asks again when it has its answer (and has thought).

use super::input::Server;
use super::written::duration;
use anyhow::{Context, Result, bail};
use lab::table::Table;
use queueing::Distribution;
use queueing::offload::{Discipline, Feeding, Stage};
use queueing::queue::closed::{Closed, Network, Station};
use serde::Serialize;

/// The answers for one client, two, four and so on.
#[derive(Debug, Serialize)]
pub struct Loop {
    /// Between an answer and the next request, seconds.
    think: f64,
    /// Whether both systems are what the formula holds for.
    exact: bool,
    /// Without an engine.
    host: Vec<Closed>,
    /// Everything offloaded.
    engine: Vec<Closed>,
    /// With so many clients nobody waits for anybody and the host alone is always busy.
    enough: f64,
}

/// The networks of a server, without an engine and with everything offloaded, for up to so many
/// clients.
pub fn networks(server: &Server, think: f64, clients: u32) -> Result<[Network; 2]> {
    if server.bounded() {
        bail!(
            "closed loops are answered without bounds of room: so many clients never are more; leave \
             the room out"
        );
    }
    let [alone, host, engine] = demands(server)?;
    let (first, second) = (&server.system.host, &server.system.engine);
    let without = Network::new(&[station(alone, first)], think, clients);
    let with = if server.system.shared {
        vec![station(host + engine, first)]
    } else {
        vec![station(host, first), station(engine, second)]
    };
    let with = Network::new(&with, think, clients);
    Ok([without.context("--clients")?, with.context("--clients")?])
}

fn station(demand: f64, stage: &Stage) -> Station {
    Station {
        demand,
        cores: stage.cores,
        pooled: stage.feeding == Feeding::Pooled,
    }
}

/// Mean seconds of a request, of the mix: at the host alone, at the host with an engine, there.
fn demands(server: &Server) -> Result<[f64; 3]> {
    let total: f64 = server.classes.iter().map(|class| class.arrival_rate).sum();
    let mut demands = [0.0; 3];
    for class in &server.classes {
        let share = class.arrival_rate / total;
        let both = |one: &Distribution, other: &Distribution| -> Result<f64> {
            Ok(share * (one.moment(1)? + other.moment(1)?))
        };
        demands[0] += both(&class.application, &class.protocol)?;
        demands[1] += both(&class.application, &class.overhead)?;
        demands[2] += both(&class.control, &class.engine)?;
    }
    Ok(demands)
}

/// Whether the formula holds: every stage shares its processor, or all its times are one
/// exponential distribution.
fn is_exact(server: &Server) -> bool {
    let exponential = |parts: [&Distribution; 2]| {
        let [one, other] = parts;
        (one.is_exponential() && other.is_zero()) || (one.is_zero() && other.is_exponential())
    };
    let holds = |stage: &Stage, parts: [&Distribution; 2]| {
        stage.discipline == Discipline::ProcessorSharing
            || (server.classes.len() == 1 && exponential(parts))
    };
    server.classes.iter().all(|class| {
        let (host, engine) = (&server.system.host, &server.system.engine);
        if server.system.shared && host.discipline != Discipline::ProcessorSharing {
            return false;
        }
        holds(host, [&class.application, &class.protocol])
            && holds(host, [&class.application, &class.overhead])
            && (server.system.shared || holds(engine, [&class.control, &class.engine]))
    })
}

/// Answers.
pub fn look(server: &Server, think: f64, clients: u32) -> Result<Loop> {
    let [without, with] = networks(server, think, clients)?;
    let mut counts: Vec<u32> = (0..32).map(|power| 1 << power).collect();
    counts.retain(|count| *count < clients);
    counts.push(clients);
    let all = |network: &Network| -> Vec<Closed> {
        counts
            .iter()
            .filter_map(|count| network.with(*count))
            .collect()
    };
    let [alone, ..] = demands(server)?;
    let cores = server.system.host.cores as f64;
    Ok(Loop {
        think,
        exact: is_exact(server),
        host: all(&without),
        engine: all(&with),
        enough: (cores * (alone + think) / alone).ceil(),
    })
}

impl Loop {
    /// In words.
    pub fn words(&self) -> String {
        let mut table = Table::new(["Clients", "Requests/s", "Time", "on the engine", "Time"]);
        for (host, engine) in self.host.iter().zip(&self.engine) {
            table.row([
                host.clients.to_string(),
                format!("{:.0}", host.throughput),
                duration(host.response),
                format!("{:.0}", engine.throughput),
                duration(engine.response),
            ]);
        }
        let asking = if self.think > 0.0 {
            format!("{} after its answer", duration(self.think))
        } else {
            "at once".into()
        };
        let exactness = if self.exact {
            "exact"
        } else {
            "times taken for exponential"
        };
        format!(
            "A closed loop, each client asking {asking}; everything offloaded; {exactness}:\n{table}\
             Without an engine {:.0} clients can keep the host busy.\n",
            self.enough
        )
    }
}
