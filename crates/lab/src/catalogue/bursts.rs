//! 001, figures 6.16 and 6.17: HTTP/1.1 with six requests on a connection, in bursts of three.

use super::bed::{Bed, write_file};
use super::each::Each;
use super::offered::{self, CONNECTIONS, GRACE, LOAD, SERVERS};
use super::prime::prime;
use super::static_files::in_pieces;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::Bound;
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::load::sessions::Sessions;
use crate::nginx::Nginx;
use anyhow::Result;
use std::path::Path;

pub const ENTRY: Entry = Entry {
    name: "bursts",
    source: "001",
    about: "HTTP/1.1, six requests a connection in bursts of three: throughput and CPU by load",
    needs: &["nginx", "taskset"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

pub(super) const BURSTS: usize = 2;
pub(super) const BURST: usize = 3;
const SIZE: usize = 16 << 10;
const FILES: usize = 64;

/// Requests of a connection.
pub(super) const EACH: usize = BURSTS * BURST;

/// In requests, beside a load of those that come alone: a server bears more of them. Connections are what is due, so
/// it is their rate that is in step with nothing.
fn offer(load: u32) -> f64 {
    let connections = load * BURST as u32 / EACH as u32;
    prime(connections) * EACH as f64
}

fn declare(extent: Extent) -> Experiment {
    let loads = offered::loads_of(extent, offer);
    let full =
        loads.levels[loads.levels.len() - if extent == Extent::Full { 2 } else { 1 }].clone();
    let at = [(LOAD, full.name.as_str())];
    Experiment {
        name: ENTRY.name.into(),
        title: "Connections that stay, by load".into(),
        question: "What does offloading gain where a connection carries several requests, some at once? In \
            001 a full server answered 17 % more by calls that wait for the engine, 27 % more by calls \
            that do not."
            .into(),
        workload: format!(
            "connections at a fixed rate, at most {CONNECTIONS} at once; GET by HTTP/1.1, {} on each \
             connection in {BURSTS} bursts of {BURST}: those of a burst are sent at once, the next when all \
             answers are there. The load is in requests. {FILES} files of {SIZE} bytes, in sends of 16 KB. {SERVERS}",
            EACH
        ),
        roles: offered::roles(extent),
        axes: vec![loads],
        subjects: offered::subjects(extent),
        measures: offered::measures(),
        pictures: offered::pictures("Bursts of three", ["6.16", "6.17"], &[]),
        findings: Vec::new(),
        claims: offered::as_in_the_source(extent, vec![
            offered::claim(
                "A full server answers 17 % more of the requests that come in bursts",
                "6.16",
                &at,
                Bound::AtLeast(1.17),
            ),
            offered::asynchronous(
                "By calls that do not wait a full server answers 27 % more of them",
                "6.16",
                &at,
                Bound::AtLeast(1.27),
            ),
        ]),
        left_out: Vec::new(),
        model: None,
    }
}

struct Bursts(Each<Bed>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Bursts(offered::all_beds(setup, fill, write)?)))
}

fn fill(site: &Path) -> Result<String> {
    write(site)?;
    Ok(in_pieces("/16K", site, 16))
}

fn write(site: &Path) -> Result<()> {
    let mut numbers = 0..FILES;
    numbers.try_for_each(|number| write_file(&site.join(number.to_string()), SIZE))
}

impl Bench for Bursts {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let place = if offered::is_serve(at.subject) {
            ""
        } else {
            "/16K"
        };
        let sessions = Sessions {
            server: Nginx::address(),
            paths: (0..FILES)
                .map(|number| format!("{place}/{number}"))
                .collect(),
            bursts: BURSTS,
            burst: BURST,
            rate: at.number(LOAD)? / EACH as f64,
            connections: CONNECTIONS,
            duration: at.window,
            grace: GRACE,
        };
        let bed = self.0.get(at.subject)?;
        let (outcome, cost) =
            bed.account_closing(&[], |closed| bed.on_client(|| sessions.run_closing(closed)))?;
        Ok(offered::sample(&outcome, &cost))
    }
}

#[cfg(test)]
mod tests {
    use super::super::prime::prime;
    use super::{EACH, Extent, declare};

    #[test]
    fn connections_come_at_rates_that_are_in_step_with_nothing() {
        for extent in [Extent::Full, Extent::Quick] {
            for level in &declare(extent).axes[0].levels {
                let connections = level.value.unwrap() / EACH as f64;
                assert_eq!(prime(connections.ceil() as u32), connections, "{level:?}");
            }
        }
    }
}
