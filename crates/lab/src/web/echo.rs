//! The round trip of 64 bytes over TCP (sockperf ping-pong), with server and client on one core
//! and on two. Placement decides every latency figure, so both are shown.

use super::report::{ECHO_MEDIAN, Goal, Report};
use super::subject::Subject;
use super::{CLIENT_CORE, Plan, SERVER_CORE};
use crate::tool;
use crate::world::Side;
use anyhow::{Context, Result};
use std::time::Duration;

/// What `--only` knows it by.
pub(super) const NAME: &str = "echo";

const PORT: u16 = 7_007;

pub(super) fn measure(plan: &Plan, subject: &Subject, report: &mut Report) -> Result<()> {
    if tool::find("sockperf").is_none() {
        report.note("echo: sockperf is not installed (make install-deps)".into());
        return Ok(());
    }
    let port = PORT.to_string();
    let address = Side::Server.ipv4().to_string();
    for (case, core, goal) in [
        ("echo, one core", SERVER_CORE, Some(Goal::AtMost(2.0))),
        ("echo, two cores", CLIENT_CORE, None),
    ] {
        let world = subject.world();
        let server = match subject.outboard() {
            Some(outboard) => outboard.on_engine(world, "sockperf"),
            None => world.program(Side::Server, "sockperf"),
        };
        let server = server
            .args(["server", "--tcp", "-i", &address, "-p", &port])
            .on_core(SERVER_CORE)
            .log(world.scratch().join("sockperf.log"))
            .start()?;
        let printed = ping(plan, subject, core, &address, &port)
            .with_context(|| format!("{case}, {}: {}", subject.name(), server.printed()))?;
        server.kill()?;
        let half = read_median(&printed).context("no median in what sockperf printed")?;
        // sockperf prints half of each round trip.
        report.add(case, &ECHO_MEDIAN, goal, subject, 2.0 * half);
    }
    Ok(())
}

/// Runs the client; again while the server is not up yet.
fn ping(plan: &Plan, subject: &Subject, core: usize, address: &str, port: &str) -> Result<String> {
    let client = subject
        .world()
        .program(Side::Client, "sockperf")
        .args(["ping-pong", "--tcp", "-i", address, "-p", port, "-m", "64"])
        .args(["-t", &plan.window.as_secs().max(1).to_string()])
        .on_core(core);
    let mut attempts = 0;
    loop {
        match client.output() {
            Ok(printed) if read_median(&printed).is_some() => return Ok(printed),
            Ok(printed) if attempts >= 20 => return Ok(printed),
            Err(error) if attempts >= 20 => return Err(error),
            _ => {}
        }
        attempts += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The median in microseconds, from `---> percentile 50.000 =    4.123`.
fn read_median(printed: &str) -> Option<f64> {
    printed
        .lines()
        .find(|line| line.contains("percentile 50.0"))
        .and_then(|line| line.rsplit('=').next()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_is_found() {
        let printed = "sockperf: ---> percentile 90.000 =   10.1\n\
            sockperf: ---> percentile 50.000 =    4.250\n";
        assert_eq!(super::read_median(printed), Some(4.25));
    }
}
