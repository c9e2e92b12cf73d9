//! wrk, as a closed loop of connections on the client's core.

use super::bed::{Bed, CLIENT_CORE};
use crate::world::Side;
use anyhow::{Context, Result, bail};
use std::time::Duration;

/// Requests a second that it reaches, with its only thread on the client's core.
pub fn run(bed: &Bed, url: &str, connections: usize, close: bool, window: Duration) -> Result<f64> {
    let further = ["-H", "Connection: close"].map(String::from);
    let further = if close { &further[..] } else { &[] };
    run_told(bed, url, connections, further, window)
}

/// As [`run`], with further arguments.
pub fn run_told(
    bed: &Bed,
    url: &str,
    connections: usize,
    further: &[String],
    window: Duration,
) -> Result<f64> {
    let wrk = bed
        .world()
        .program(Side::Client, "wrk")
        .on_core(CLIENT_CORE)
        .args(["-t1", &format!("-c{connections}")])
        .arg(format!("-d{}", window.as_secs().max(1)));
    let printed = wrk.args(further).arg(url).output()?;
    read(&printed).with_context(|| format!("wrk said: {printed}"))
}

/// Connections that it has made, at least, to reach so many requests a second.
pub fn connections(rate: f64, at_once: usize, close: bool, window: Duration) -> f64 {
    match close {
        true => rate * window.as_secs().max(1) as f64,
        false => at_once as f64,
    }
}

/// Requests a second, from what wrk prints; an error if any request failed.
pub fn read(printed: &str) -> Result<f64> {
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

/// Bytes a second, heads included, from the same: `Transfer/sec: 3.25MB`, in units of 1,024.
pub fn bytes_a_second(printed: &str) -> Option<f64> {
    let mut lines = printed.lines();
    let figure = lines
        .find_map(|line| line.strip_prefix("Transfer/sec:"))?
        .trim();
    let digits = figure.trim_end_matches(char::is_alphabetic);
    let unit = match &figure[digits.len()..] {
        "B" => 1.0,
        "KB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        "GB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|number| number * unit)
}

#[cfg(test)]
mod tests {
    use super::{bytes_a_second, read};

    #[test]
    fn the_rate_is_read_unless_requests_failed() {
        let good = "Running 2s test\n  Latency  4ms\nRequests/sec:  14019.97\nTransfer/sec: 3MB\n";
        assert_eq!(read(good).unwrap(), 14019.97);
        assert_eq!(bytes_a_second(good), Some(3.0 * 1_048_576.0));
        assert_eq!(bytes_a_second("Transfer/sec: 2.5KB"), Some(2_560.0));
        assert_eq!(bytes_a_second("Transfer/sec: 2.5 pounds"), None);
        let bad = format!("  Socket errors: connect 0, read 7, write 0, timeout 0\n{good}");
        assert!(read(&bad).unwrap_err().to_string().contains("read 7"));
        assert!(read("unable to connect").is_err());
    }
}
