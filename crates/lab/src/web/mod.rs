//! `outboard lab web`: nginx on the kernel's TCP and on the engine in turn.
//!
//! Two worlds stand side by side, one without an engine, one with it, so that neither disturbs the
//! other's network; what runs in them takes turns, case by case and round by round. Server and
//! engine share the first core, the client has the second. All CPU counts: that of the server's
//! process, and that of the whole machine, engine, client and interrupts included.

mod case;
mod echo;
mod report;
mod subject;

pub use case::{CASES, Case};
pub use report::{Goal, Report, Series};

use crate::load::{Load, Outcome};
use crate::nginx::Nginx;
use crate::world::{Side, World};
use crate::{sampler, tool};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;
use subject::Subject;

/// How to run the benchmark.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary that runs engine and programs.
    pub binary: PathBuf,
    /// Rounds; each measures every case on both stacks.
    pub rounds: usize,
    /// Length of each measurement.
    pub window: Duration,
    /// Only cases whose names contain one of these words; all, if there is none.
    pub only: Vec<String>,
    /// Connections that clients keep open at once.
    pub connections: usize,
}

/// The core of the server and the engine.
const SERVER_CORE: usize = 0;
/// The core of the client.
const CLIENT_CORE: usize = 1;

/// Runs the benchmark. `say` is told what is being done.
pub fn run(plan: &Plan, mut say: impl FnMut(&str)) -> Result<Report> {
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("this benchmark needs two cores: one for the server, one for the client");
    }
    for needed in ["nginx", "wrk", "taskset"] {
        if tool::find(needed).is_none() {
            bail!("{needed} is not installed: run make install-deps");
        }
    }
    let cases: Vec<&Case> = CASES.iter().filter(|case| plan.wants(case.name)).collect();
    let mut report = Report::new(plan);
    say("starting nginx on the kernel and on the engine");
    let kernel = Subject::new(&plan.binary, false)?;
    let engine = Subject::new(&plan.binary, true)?;
    for round in 0..plan.rounds {
        // Whoever is measured first finds the machine differently: take turns.
        let mut order = [&kernel, &engine];
        if round % 2 == 1 {
            order.reverse();
        }
        for case in &cases {
            for subject in order {
                say(&format!(
                    "round {} of {}: {}, {}",
                    round + 1,
                    plan.rounds,
                    case.name,
                    subject.name()
                ));
                throughput(plan, case, subject, &mut report)?;
                fixed_rate(plan, case, subject, &mut report)?;
            }
        }
        if plan.wants(echo::NAME) {
            for subject in order {
                say(&format!(
                    "round {} of {}: {}, {}",
                    round + 1,
                    plan.rounds,
                    echo::NAME,
                    subject.name()
                ));
                echo::measure(plan, subject, &mut report)?;
            }
        }
    }
    Ok(report)
}

impl Plan {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word.as_str()))
    }
}

/// As many requests as wrk can make and the server can answer.
fn throughput(plan: &Plan, case: &Case, subject: &Subject, report: &mut Report) -> Result<()> {
    let mut wrk = subject
        .world()
        .program(Side::Client, "wrk")
        .on_core(CLIENT_CORE)
        .args(["-t1", &format!("-c{}", plan.connections)])
        .arg(format!("-d{}", plan.window.as_secs().max(1)));
    if case.close {
        wrk = wrk.args(["-H", "Connection: close"]);
    }
    let printed = wrk
        .arg(format!("http://{}{}", Nginx::address(), case.path))
        .output()?;
    let rate = read_wrk(&printed)
        .with_context(|| format!("wrk on {}, {}: {printed}", case.name, subject.name()))?;
    report.add(
        case.name,
        &report::THROUGHPUT,
        case.goal(&report::THROUGHPUT),
        subject,
        rate,
    );
    Ok(())
}

/// Requests a second, from what wrk prints; an error if any request failed.
fn read_wrk(printed: &str) -> Result<f64> {
    if let Some(errors) = printed
        .lines()
        .find(|line| line.contains("Socket errors") || line.contains("Non-2xx"))
    {
        bail!("{}", errors.trim());
    }
    printed
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"))
        .and_then(|rest| rest.trim().parse().ok())
        .filter(|rate| *rate > 0.0)
        .context("no rate")
}

/// A rate that both stacks can bear: what does a request cost, and how long does it take?
fn fixed_rate(plan: &Plan, case: &Case, subject: &Subject, report: &mut Report) -> Result<()> {
    let load = Load {
        server: Nginx::address(),
        path: case.path.into(),
        close: case.close,
        connections: plan.connections,
        rate: case.rate,
        duration: plan.window,
        grace: Load::GRACE,
    };
    let cpu_before = sampler::run_time(subject.worker())?;
    let engine_before = subject.engine_time()?;
    let machine_before = sampler::Machine::now()?;
    let outcome = on_client(subject.world(), || load.run())?;
    let machine = sampler::Machine::now()?.busy_since(&machine_before);
    let cpu = sampler::run_time(subject.worker())?.saturating_sub(cpu_before);
    let engine_cpu = subject.engine_time()?.saturating_sub(engine_before);
    if outcome.answered == 0 {
        bail!("{}, {}: no request was answered", case.name, subject.name());
    }
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6 / outcome.answered as f64;
    let mut add =
        |measure, value| report.add(case.name, measure, case.goal(measure), subject, value);
    add(&report::SERVER_CPU, microseconds(cpu));
    add(&report::MACHINE_CPU, microseconds(machine));
    for (measure, quantile) in [
        (&report::P50, 0.5),
        (&report::P99, 0.99),
        (&report::P999, 0.999),
    ] {
        add(
            measure,
            outcome.latency.value_at_quantile(quantile) as f64 / 1e3,
        );
    }
    if subject.is_engine() {
        add(&report::ENGINE_CPU, microseconds(engine_cpu));
    }
    flag(&outcome, case, subject, report);
    Ok(())
}

/// Notes what makes a measurement doubtful.
fn flag(outcome: &Outcome, case: &Case, subject: &Subject, report: &mut Report) {
    let lost = outcome.failed + outcome.unanswered();
    if lost > 0 {
        report.note(format!(
            "{}, {}: {lost} of {} requests were not answered",
            case.name,
            subject.name(),
            outcome.due
        ));
    }
}

/// Runs `work` on the client's side and core.
fn on_client<T: Send>(world: &World, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    world.on(Side::Client, || {
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(CLIENT_CORE);
        rustix::thread::sched_setaffinity(None, &cores)?;
        work()
    })
}

/// Writes the files that are fetched.
fn make_site(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    for case in CASES {
        if let Some(size) = case.file {
            let name = case.path.trim_start_matches('/');
            // Anything that is not all zeros.
            let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            std::fs::write(directory.join(name), bytes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::read_wrk;

    #[test]
    fn the_rate_of_wrk_is_read_unless_requests_failed() {
        let good = "Running 2s test\n  Latency  4ms\nRequests/sec:  14019.97\nTransfer/sec: 3MB\n";
        assert_eq!(read_wrk(good).unwrap(), 14019.97);
        let bad = format!("  Socket errors: connect 0, read 7, write 0, timeout 0\n{good}");
        assert!(read_wrk(&bad).unwrap_err().to_string().contains("read 7"));
        assert!(read_wrk("unable to connect").is_err());
    }
}
