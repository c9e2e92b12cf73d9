//! Closed loops: so many clients, each of which asks again when it has its answer (and has thought).
//!
//! Mean value analysis of a closed network (Reiser and Lavenberg, "Mean-value analysis of closed
//! multichain queuing networks", J. ACM 27(2), 1980): exact for stages of one core whose times are
//! exponential and which take whoever comes first; with other times it is an approximation.

use super::input::Server;
use super::written::duration;
use ::lab::table::Table;
use anyhow::{Result, bail};
use queueing::Distribution;

/// A closed loop's throughput (requests a second) and response time (seconds) with `clients`, whose
/// requests need `demands` seconds at each stage and who think for `think` seconds.
fn solve(demands: &[f64], think: f64, clients: u32) -> (f64, f64) {
    let mut waiting = vec![0.0; demands.len()];
    let mut answer = (0.0, 0.0);
    for present in 1..=clients {
        // Who arrives meets what one client fewer would leave there.
        let times = demands.iter().zip(&waiting);
        let times: Vec<f64> = times
            .map(|(demand, queue)| demand * (1.0 + queue))
            .collect();
        let response: f64 = times.iter().sum();
        let rate = f64::from(present) / (think + response);
        for (queue, time) in waiting.iter_mut().zip(&times) {
            *queue = rate * time;
        }
        answer = (rate, response);
    }
    answer
}

/// The answers for one client, two, four and so on, in words.
pub fn words(server: &Server, think: f64, clients: u32) -> Result<String> {
    let (host, engine) = (&server.system.host, &server.system.engine);
    if host.cores != 1 || engine.cores != 1 || server.bounded() {
        bail!(
            "--clients is answered for one core at each stage and without bounds of room; the \
             loads of --rates are answered for more"
        );
    }
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
    let [alone, with_host, with_engine] = demands;
    if alone <= 0.0 || with_host + with_engine <= 0.0 {
        bail!("--clients needs service times above 0");
    }
    let mut table = Table::new(["Clients", "Requests/s", "Time", "on the engine", "Time"]);
    let mut counts: Vec<u32> = (0..32).map(|power| 1 << power).collect();
    counts.retain(|count| *count < clients);
    counts.push(clients);
    for count in counts {
        let (rate, time) = solve(&[alone], think, count);
        let (rate_offloaded, time_offloaded) = solve(&[with_host, with_engine], think, count);
        table.row([
            count.to_string(),
            format!("{rate:.0}"),
            duration(time),
            format!("{rate_offloaded:.0}"),
            duration(time_offloaded),
        ]);
    }
    let first = alone + think;
    let enough = (first / alone).ceil();
    Ok(format!(
        "A closed loop, each client asking {} after its answer; everything offloaded, times \
         exponential:\n{table}Without an engine {enough:.0} clients can keep the host busy.\n",
        if think > 0.0 {
            duration(think)
        } else {
            "at once".into()
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_loop_is_what_theory_says() {
        // One stage without thought is always busy, and each waits for all.
        let (rate, time) = solve(&[0.01], 0.0, 5);
        assert!((rate - 100.0).abs() < 1e-9 && (time - 0.05).abs() < 1e-12);
        // n clients in k balanced stages: X = n / (D (n + k - 1)).
        let (rate, _) = solve(&[0.01, 0.01], 0.0, 3);
        assert!((rate - 75.0).abs() < 1e-9, "{rate}");
        // One client waits for nobody.
        let (rate, time) = solve(&[0.01, 0.03], 0.06, 1);
        assert!((rate - 10.0).abs() < 1e-9 && (time - 0.04).abs() < 1e-12);
        // The machine repairman of two machines: P(idle) = 1 / (1 + 2r + 2r^2), r = D / Z.
        let (rate, _) = solve(&[0.02], 0.04, 2);
        let idle = 1.0 / (1.0 + 2.0 * 0.5 + 2.0 * 0.25);
        assert!((rate - (1.0 - idle) / 0.02).abs() < 1e-9, "{rate}");
    }
}
