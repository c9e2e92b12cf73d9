//! What the clients print.

use serde_json::Value;

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

/// Round trips that sockperf's ping-pong prints, those of its warm-up included, and how long they took, without those;
/// its times are half of a round trip, these are whole.
pub(super) fn sockperf(text: &str) -> Option<(f64, Printed)> {
    let quantile = |name: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.contains(name))?;
        let half: f64 = line.rsplit('=').next()?.trim().parse().ok()?;
        Some(2.0 * half)
    };
    let field = |which: &str, name: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.contains(which))?;
        let rest = line.split_once(name)?.1;
        let number = rest.split([' ', ';']).next()?;
        number.parse().ok()
    };
    let valid = |name: &str| field("[Valid Duration]", name);
    let read = Printed {
        rate: valid("ReceivedMessages=")? / valid("RunTime=")?,
        median: quantile("percentile 50.000")?,
        high: quantile("percentile 99.000")?,
    };
    Some((field("[Total Run]", "ReceivedMessages=")?, read))
}

/// Seconds that sockperf's throughput has sent, as it prints them.
pub(super) fn sockperf_sent(text: &str) -> Option<f64> {
    let rest = text.split_once(" messages sent in ")?.1;
    rest.split_whitespace().next()?.parse().ok()
}

/// Messages that a server of sockperf's has received, which it prints when it is interrupted.
pub(super) fn sockperf_received(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.contains(" messages received"))?;
    let rest = line.split_once("Total ")?.1;
    rest.split_whitespace().next()?.parse().ok()
}

/// Transactions that pgbench prints, and how long those took that are in its logs: a line each, of which the third word
/// is the time in microseconds.
pub(super) fn pgbench(text: &str, transactions: &str) -> Option<(f64, Printed)> {
    let after = |start: &str| -> Option<f64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(start))?;
        // Of a number of transactions that was asked for it says both.
        rest.split([' ', '/']).next()?.parse().ok()
    };
    let took = transactions.lines().map(|line| {
        let time = line.split_whitespace().nth(2)?;
        time.parse::<f64>().ok()
    });
    let mut took = took.collect::<Option<Vec<f64>>>()?;
    took.sort_unstable_by(f64::total_cmp);
    let quantile = |hundredths: usize| took.get(took.len() * hundredths / 100).copied();
    let read = Printed {
        rate: after("tps = ")?,
        median: quantile(50)?,
        high: quantile(99)?,
    };
    Some((after("number of transactions actually processed: ")?, read))
}

/// Round trips that our program for ZeroMQ prints, and how long they took.
pub(super) fn zeromq(text: &str) -> Option<(f64, Printed)> {
    let said: Value = serde_json::from_str(text).ok()?;
    let number = |name: &str| said[name].as_f64();
    let read = Printed {
        rate: 1e6 / (2.0 * number("one_way_us")?),
        median: number("median_us")?,
        high: number("high_us")?,
    };
    Some((number("trips")?, read))
}

/// Bytes that were received, and bits a second, in what iperf3 prints as JSON.
pub(super) fn iperf(text: &str) -> Option<(f64, f64)> {
    let said: Value = serde_json::from_str(text).ok()?;
    let received = &said["end"]["sum_received"];
    Some((
        received["bytes"].as_f64()?,
        received["bits_per_second"].as_f64()?,
    ))
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
        let text = "sockperf: [Total Run] RunTime=2.450 sec; Warm up time=400 msec; SentMessages=9800; \
                    ReceivedMessages=9799\n\
                    sockperf: [Valid Duration] RunTime=2.000 sec; SentMessages=8000; \
                    ReceivedMessages=7999\nsockperf: ---> percentile 99.900 =   90.0\n\
                    sockperf: ---> percentile 99.000 =   40.5\n\
                    sockperf: ---> percentile 50.000 =   20.25\n";
        let (trips, read) = sockperf(text).unwrap();
        assert_eq!(trips, 9_799.0);
        assert_eq!((read.rate, read.median, read.high), (3999.5, 40.5, 81.0));
    }

    #[test]
    fn what_sockperf_prints_of_a_stream_is_read() {
        let text = "sockperf: Total of 226165 messages sent in 1.000 sec\n\n\
                    sockperf: Summary: Message Rate is 226054 [msg/sec]\n\
                    sockperf: Summary: BandWidth is 13.797 MBps (110.378 Mbps)\n";
        assert_eq!(sockperf_sent(text), Some(1.0));
        assert_eq!(sockperf_sent("sockperf: ERROR"), None);
        let text = "sockperf: Test end (interrupted by user)\n\
                    sockperf: Total 226001 messages received and handled\n";
        assert_eq!(sockperf_received(text), Some(226_001.0));
        assert_eq!(sockperf_received("sockperf: Test end"), None);
    }

    #[test]
    fn what_pgbench_prints_and_notes_is_read() {
        let text = "number of transactions actually processed: 12345\n\
                    number of failed transactions: 0 (0.000%)\nlatency average = 0.081 ms\n\
                    tps = 12345.678901 (without initial connection time)\n";
        let lines: String = (0..100)
            .map(|time| format!("0 7 {time} 0 1700000000 5\n"))
            .collect();
        let (transactions, read) = pgbench(text, &lines).unwrap();
        assert_eq!(transactions, 12_345.0);
        assert_eq!(
            (read.rate, read.median, read.high),
            (12_345.678901, 50.0, 99.0)
        );
        assert_eq!(pgbench(text, ""), None);
        assert_eq!(pgbench("pgbench: error", &lines), None);
        let both = text.replace("12345\n", "12345/12345\n");
        assert_eq!(pgbench(&both, &lines).unwrap().0, 12_345.0);
    }

    #[test]
    fn what_our_program_for_zeromq_prints_is_read() {
        let text = "{\"one_way_us\": 20.000000, \"trips\": 25000, \"median_us\": 38.5, \"high_us\": 90.25}\n";
        let (trips, read) = zeromq(text).unwrap();
        assert_eq!((trips, read.rate), (25_000.0, 25_000.0));
        assert_eq!((read.median, read.high), (38.5, 90.25));
        assert_eq!(zeromq("receive: Interrupted"), None);
    }

    #[test]
    fn what_iperf_prints_is_read() {
        let text = "{\"start\": {}, \"end\": {\"sum_sent\": {\"bytes\": 7, \"bits_per_second\": 8.5},\
                    \"sum_received\": {\"bytes\": 1250000, \"bits_per_second\": 10000000.5}}}";
        assert_eq!(iperf(text), Some((1_250_000.0, 10_000_000.5)));
        assert_eq!(iperf("{\"error\": \"unable to connect\"}"), None);
    }
}
