//! The account of a demo: who answered, what it cost on the kernel and on the engine, and why a line is worse where one
//! is.

use super::burden::{CONNECTIONS, RATE};
use super::site::Site;
use super::stage::Kind;
use super::trial::Trial;
use ::lab::table::Table;
use std::fmt::Write;
use std::time::Duration;

/// What a server did, on the engine and on the kernel.
pub struct Row {
    pub kind: Kind,
    pub engine: Trial,
    pub kernel: Trial,
}

/// What is not known.
const UNKNOWN: &str = "–";
/// Within this both are alike: a look on a shared machine tells no more.
const ALIKE: f64 = 1.05;

/// Who answered, and whether it was right.
pub fn of_servers(rows: &[Row]) -> String {
    let mut table = Table::new([
        "Served on the engine by",
        "placement",
        "connections of the engine",
        "pages right",
        "100 MB file",
        "speed",
        "on the kernel",
    ]);
    for Row {
        kind,
        engine,
        kernel,
    } in rows
    {
        let connections = engine.engine_connections;
        let large = if engine.fetched.large_equal {
            "equal hash"
        } else {
            "DIFFERS"
        };
        table.row([
            kind.name().to_string(),
            connections.map_or(UNKNOWN, placement).to_string(),
            connections.map_or(UNKNOWN.to_string(), |(its, all)| format!("{its} of {all}")),
            format!("{} of {}", engine.fetched.pages, Site::pages().count()),
            large.to_string(),
            speed(engine.fetched.speed),
            speed(kernel.fetched.speed),
        ]);
    }
    table.to_string()
}

/// Who served, where so many of all connections were the engine's.
fn placement((accepted, all): (u64, u64)) -> &'static str {
    match accepted {
        _ if all == 0 => UNKNOWN,
        0 => "kernel",
        some if some < all => "both",
        _ => "engine",
    }
}

fn speed(bytes_a_second: f64) -> String {
    format!("{:.0} MB/s", bytes_a_second / 1e6)
}

/// What is compared.
struct Line {
    what: &'static str,
    figure: fn(&Trial) -> Duration,
    /// Why the engine's may be more.
    why: &'static str,
}

const LINES: [Line; 5] = [
    Line {
        what: "server process, a request of 1 KB",
        figure: |trial| trial.burden.server,
        why: "the engine is to take this work from the server: something else disturbed it; run the demo again",
    },
    Line {
        what: "whole machine, a request of 1 KB",
        figure: |trial| trial.burden.machine,
        why: "engine and server wake for a request, where the server alone did; at more requests a second they wake \
            for several at once",
    },
    Line {
        what: "a request of 1 KB, half take no longer than",
        figure: |trial| trial.burden.median,
        why: "a request wakes the engine and then the server, and where they come often the engine sleeps for up to \
            150 us, so that a wake-up serves several (moderation_microseconds); with profile = \"latency\" it does not, \
            and looks for work where a core is to spare",
    },
    Line {
        what: "a request of 1 KB, 99 of 100 take no longer than",
        figure: |trial| trial.burden.high,
        why: "client, server and engine take turns on the same cores, and the slowest requests are those that wait \
            for two of them",
    },
    Line {
        what: "server process, the 100 MB file",
        figure: |trial| trial.fetched.large_cpu,
        why: "the engine is to read and send files without the server: see `outboard explain` for what it did not",
    },
];

/// What the same requests cost and took on either.
pub fn of_costs(rows: &[Row]) -> String {
    let heading = format!("{RATE:.0} requests a second, {CONNECTIONS} connections");
    let mut table = Table::new([heading.as_str(), "on the kernel", "on the engine", "ratio"]);
    for Row {
        kind,
        engine,
        kernel,
    } in rows
    {
        for line in &LINES {
            let (kernel, engine) = ((line.figure)(kernel), (line.figure)(engine));
            table.row([
                format!("{}: {}", kind.name(), line.what),
                time(kernel),
                time(engine),
                format!("{:.2}", ratio(engine, kernel)),
            ]);
        }
    }
    table.to_string()
}

/// Why the engine's is more, for each line where it is; nothing if none is.
pub fn of_what_is_worse(rows: &[Row]) -> String {
    let mut text = String::new();
    for line in &LINES {
        let worse =
            |row: &&Row| ratio((line.figure)(&row.engine), (line.figure)(&row.kernel)) > ALIKE;
        let names: Vec<&str> = rows
            .iter()
            .filter(worse)
            .map(|row| row.kind.name())
            .collect();
        if !names.is_empty() {
            let _ = writeln!(
                text,
                "- {}, {}: {}.",
                names.join(" and "),
                line.what,
                line.why
            );
        }
    }
    if !text.is_empty() {
        text.insert_str(0, "Where the engine's is more, and why:\n");
    }
    text
}

fn ratio(engine: Duration, kernel: Duration) -> f64 {
    engine.as_secs_f64() / kernel.as_secs_f64().max(1e-9)
}

fn time(time: Duration) -> String {
    if time < Duration::from_millis(1) {
        format!("{:.1} us", time.as_secs_f64() * 1e6)
    } else {
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::burden::Burden;
    use super::super::stage::{Fetched, Kind};
    use super::super::trial::Trial;
    use super::{Row, of_costs, of_servers, of_what_is_worse};
    use std::time::Duration;

    fn trial(machine: u64) -> Trial {
        let of = Duration::from_micros;
        Trial {
            fetched: Fetched {
                pages: 1,
                large_equal: true,
                speed: 1e9,
                large_cpu: of(5),
                connections: 1,
            },
            engine_connections: None,
            burden: Burden {
                server: of(10),
                machine: of(machine),
                median: of(100),
                high: of(2_000),
            },
        }
    }

    fn row(kind: Kind, machine: u64) -> Row {
        Row {
            kind,
            engine: trial(machine),
            kernel: trial(100),
        }
    }

    #[test]
    fn the_account_says_which_placement_served() {
        for (known, placement, count) in [
            (Some((0, 10)), "kernel", "0 of 10"),
            (Some((9, 10)), "both", "9 of 10"),
            (Some((10, 10)), "engine", "10 of 10"),
            (Some((0, 0)), "–", "0 of 0"),
            (None, "–", "–"),
        ] {
            let mut row = row(Kind::Nginx, 50);
            row.engine.engine_connections = known;
            let text = of_servers(&[row]);
            // Below the head.
            let line = text.lines().nth(1).unwrap_or_default();
            let cells = line.split("  ").map(str::trim);
            let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
            assert_eq!(cells[1..3], [placement, count], "{text}");
        }
    }

    #[test]
    fn every_line_says_what_it_is_of() {
        let text = of_costs(&[row(Kind::Nginx, 50)]);
        assert!(
            text.contains("4999 requests a second, 8 connections"),
            "{text}"
        );
        assert!(
            text.contains("nginx: whole machine, a request of 1 KB"),
            "{text}"
        );
        assert!(
            text.contains("100.0 us") && text.contains("50.0 us") && text.contains("0.50"),
            "{text}"
        );
        assert!(text.contains("2.0 ms"), "{text}");
    }

    #[test]
    fn what_is_worse_is_named_with_its_reason_and_nothing_else() {
        assert_eq!(of_what_is_worse(&[row(Kind::Nginx, 105)]), "");
        let text = of_what_is_worse(&[row(Kind::BuiltIn, 90), row(Kind::Nginx, 120)]);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(
            text.contains("- nginx, whole machine") && text.contains("wake"),
            "{text}"
        );
        let both = of_what_is_worse(&[row(Kind::BuiltIn, 110), row(Kind::Nginx, 120)]);
        assert!(
            both.contains("outboard serve and nginx, whole machine"),
            "{both}"
        );
    }
}
