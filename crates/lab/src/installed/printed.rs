//! What the clients print.

/// Requests, the time they took, and two quantiles of the latency in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Printed {
    /// Requests a second.
    pub rate: f64,
    /// The median, in microseconds.
    pub median: f64,
    /// The 99th percentile, in microseconds.
    pub high: f64,
}

/// What wrk with `--latency` prints; `None` if any request failed.
pub(super) fn wrk(text: &str) -> Option<Printed> {
    if text.contains("Socket errors") || text.contains("Non-2xx") {
        return None;
    }
    let after = |start: &str| {
        let line = text.lines().find(|line| line.trim().starts_with(start))?;
        Some(line.trim().strip_prefix(start)?.trim())
    };
    Some(Printed {
        rate: after("Requests/sec:")?.parse().ok()?,
        median: microseconds(after("50%")?)?,
        high: microseconds(after("99%")?)?,
    })
}

/// A time as wrk writes it.
fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    units.into_iter().find_map(|(unit, factor)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(number * factor)
    })
}

/// What redis-benchmark with `--csv` prints.
pub(super) fn redis(text: &str) -> Option<Printed> {
    let fields = |line: &str| -> Vec<String> {
        line.split(',')
            .map(|field| field.trim_matches('"').to_owned())
            .collect()
    };
    let mut lines = text.lines().skip_while(|line| !line.contains("\"rps\""));
    let (names, values) = (fields(lines.next()?), fields(lines.next()?));
    let value = |name: &str| -> Option<f64> {
        let index = names.iter().position(|known| known == name)?;
        values.get(index)?.parse().ok()
    };
    Some(Printed {
        rate: value("rps")?,
        median: value("p50_latency_ms")? * 1e3,
        high: value("p99_latency_ms")? * 1e3,
    })
}

/// What sockperf's ping-pong prints; its times are half of a round trip, these are whole.
pub(super) fn sockperf(text: &str) -> Option<Printed> {
    let quantile = |name: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.contains(name))?;
        let half: f64 = line.rsplit('=').next()?.trim().parse().ok()?;
        Some(2.0 * half)
    };
    let valid = text
        .lines()
        .find(|line| line.contains("[Valid Duration]"))?;
    let field = |name: &str| -> Option<f64> {
        let rest = valid.split_once(name)?.1;
        let number = rest.split([' ', ';']).next()?;
        number.parse().ok()
    };
    Some(Printed {
        rate: field("ReceivedMessages=")? / field("RunTime=")?,
        median: quantile("percentile 50.000")?,
        high: quantile("percentile 99.000")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_prints_is_read_unless_requests_failed() {
        let text = "  Latency Distribution\n     50%  133.00us\n     75%    1.20ms\n     90%  2ms\n     \
                    99%    1.07s\n  10 requests in 2.00s\nRequests/sec:   7019.97\n";
        let read = wrk(text).unwrap();
        assert_eq!(
            (read.rate, read.median, read.high),
            (7019.97, 133.0, 1.07e6)
        );
        assert_eq!(
            wrk(&format!("  Socket errors: connect 0, read 7\n{text}")),
            None
        );
        assert_eq!(wrk("unable to connect"), None);
    }

    #[test]
    fn what_redis_benchmark_prints_is_read() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                    \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                    \"GET\",\"64102.56\",\"0.5\",\"0.1\",\"0.423\",\"0.6\",\"1.2\",\"2.0\"\n";
        let read = redis(text).unwrap();
        assert_eq!(
            (read.rate, read.median, read.high),
            (64102.56, 423.0, 1200.0)
        );
        assert_eq!(redis("Could not connect"), None);
    }

    #[test]
    fn what_sockperf_prints_is_read() {
        let text = "sockperf: [Valid Duration] RunTime=2.000 sec; SentMessages=8000; \
                    ReceivedMessages=7999\nsockperf: ---> percentile 99.900 =   90.0\n\
                    sockperf: ---> percentile 99.000 =   40.5\n\
                    sockperf: ---> percentile 50.000 =   20.25\n";
        let read = sockperf(text).unwrap();
        assert_eq!((read.rate, read.median, read.high), (3999.5, 40.5, 81.0));
    }
}
