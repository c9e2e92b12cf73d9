//! What requests at a fixed rate cost, and how long they take.

use super::site::KILOBYTE;
use super::stage::{Kind, Server, Stage};
use ::lab::load::Load;
use ::lab::sampler::account::Account;
use ::lab::{Side, sampler};
use anyhow::{Result, bail};
use std::time::Duration;

/// Requests a second, in step with no tick of the kernel's. It is where an engine is to cost the machine no more than
/// the kernel's TCP: below, two programs wake for each request where one did.
pub const RATE: f64 = 4_999.0;
pub const CONNECTIONS: usize = 8;
const SECONDS: u64 = 2;

/// What a request of 1 KB costs and takes.
#[derive(Clone, Copy, Debug)]
pub struct Burden {
    /// CPU of the server's process.
    pub server: Duration,
    /// CPU of the whole machine: server, engine, client and interrupts.
    pub machine: Duration,
    /// From when it was due until its answer was there: half of them took no longer.
    pub median: Duration,
    /// The same of 99 of a hundred.
    pub high: Duration,
}

impl Burden {
    /// Measures it once.
    pub fn measure(stage: &Stage, kind: Kind, server: &Server) -> Result<Self> {
        let load = Load {
            server: kind.address(),
            path: format!("/{KILOBYTE}"),
            close: false,
            connections: CONNECTIONS,
            rate: RATE,
            duration: Duration::from_secs(SECONDS),
            grace: Load::GRACE,
        };
        let cpu = sampler::run_time(server.pid())?;
        let machine = Account::of_machine()?;
        let outcome = stage.world().on(Side::Client, || load.run())?;
        let busy = Account::of_machine()?.since(&machine).machine();
        let spent = sampler::run_time(server.pid())?.saturating_sub(cpu);
        if outcome.answered < outcome.due {
            bail!(
                "{}: only {} of {} requests were answered; is the machine busy with other things?",
                kind.name(),
                outcome.answered,
                outcome.due
            );
        }
        let quantile = |part| Duration::from_nanos(outcome.latency.value_at_quantile(part));
        Ok(Self {
            server: spent.div_f64(outcome.answered as f64),
            machine: busy.div_f64(outcome.answered as f64),
            median: quantile(0.5),
            high: quantile(0.99),
        })
    }

    /// The middle of several, each figure by itself: one alone says little on a shared machine.
    pub fn middle(of: &[Self]) -> Option<Self> {
        let middle = |figure: fn(&Self) -> Duration| {
            let mut figures: Vec<Duration> = of.iter().map(figure).collect();
            figures.sort_unstable();
            figures.get(figures.len() / 2).copied()
        };
        Some(Self {
            server: middle(|burden| burden.server)?,
            machine: middle(|burden| burden.machine)?,
            median: middle(|burden| burden.median)?,
            high: middle(|burden| burden.high)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Burden;
    use std::time::Duration;

    #[test]
    fn the_middle_is_of_each_figure_by_itself() {
        let burden = |server, high| Burden {
            server: Duration::from_micros(server),
            machine: Duration::ZERO,
            median: Duration::ZERO,
            high: Duration::from_micros(high),
        };
        let middle = Burden::middle(&[burden(9, 1), burden(5, 900), burden(1, 7)]).unwrap();
        assert_eq!(middle.server, Duration::from_micros(5));
        assert_eq!(middle.high, Duration::from_micros(7));
        assert!(Burden::middle(&[]).is_none());
    }
}
