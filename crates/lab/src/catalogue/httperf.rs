//! httperf: connections at a rate, whether the server keeps up or not, a few requests on each.

use super::bed::{Bed, CLIENT_CORE};
use crate::experiment::bench::Client;
use crate::world::{Side, World};
use anyhow::{Context, Result};

/// What is asked of it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What for.
    pub path: &'a str,
    /// Connections a second.
    pub rate: f64,
    /// Connections in all.
    pub connections: u32,
    /// Requests on each, one after another.
    pub requests: u32,
    /// Seconds after which a request has failed.
    pub patience: f64,
}

/// What it found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Connections a second.
    pub connections: f64,
    /// Requests a second.
    pub requests: f64,
    /// Replies in all.
    pub replies: f64,
    /// Seconds that it took.
    pub took: f64,
    /// Milliseconds from a request to its reply, on average.
    pub reply_ms: f64,
    /// Milliseconds until a connection stood, on average.
    pub connect_ms: f64,
    /// Kilobytes (1,024 bytes) a second.
    pub kilobytes: f64,
    /// Connections that failed.
    pub errors: f64,
    /// Those that the client had no descriptors or ports for, or the machine no room for open files.
    pub unavailable: f64,
    /// Connections that it opened at once, at most. It looks for what is due without ever sleeping, so
    /// its CPU time says nothing; but when it is late, all that has become due meanwhile is one burst.
    pub burst: f64,
}

/// Seconds beyond those that it may need by itself.
const MARGIN: f64 = 10.0;

/// Runs it on the client's core.
///
/// # Errors
/// It cannot be run, fails, or does not end when it should.
pub fn run(bed: &Bed, server: &str, port: u16, asked: Asked<'_>) -> Result<Found> {
    let world: &World = bed.world();
    let limit = asked.seconds_at_most();
    // Ports are the kernel's: its own (`--hog`) are those of one bit of 64, and with a thousand connections open at once
    // it looks for another one for ever.
    let printed = world
        .program(Side::Client, "httperf")
        .on_core(CLIENT_CORE)
        .args(["--server", server, "--port", &port.to_string()])
        .args(["--uri", asked.path, "--rate", &asked.rate.to_string()])
        .args(["--num-conns", &asked.connections.to_string()])
        .args(["--num-calls", &asked.requests.to_string()])
        .args(["--timeout", &asked.patience.to_string()])
        .output_within(limit)
        .with_context(|| format!("httperf, which is ended after {limit} s"))?;
    read(&printed).with_context(|| format!("httperf said: {printed}"))
}

impl Asked<'_> {
    /// Seconds after which it has ended, if it ever does: the last connection may fail at its last request.
    fn seconds_at_most(&self) -> u64 {
        let opening = f64::from(self.connections) / self.rate;
        let patient = f64::from(self.requests + 1) * self.patience;
        (opening + patient + MARGIN).ceil() as u64
    }
}

impl Found {
    /// Whether it offered what it should, when it should: connections at this rate, to a server whose core was used so
    /// far, from 0 to 1, if that is known. Connections pile up at one that is full, until the client has no room for more:
    /// then it is not the client that was the limit.
    pub fn client(&self, rate: f64, server_busy: Option<f64>) -> Client {
        // Two at once are within the steps of its clock.
        let late = (self.burst - 2.0).max(0.0) / rate;
        let whole = self.took.max(1e-9);
        let missing = self.unavailable / (rate * whole);
        Client {
            busy: None,
            server_busy,
            offered: Some((1.0 - late / whole - missing).max(0.0)),
        }
    }
}

fn read(printed: &str) -> Option<Found> {
    let line = |start: &str| printed.lines().find_map(|line| line.strip_prefix(start));
    // The number behind a word of a line, or at its beginning.
    let number = |start: &str, word: &str| -> Option<f64> {
        let line = line(start)?;
        let rest = line.split_once(word).map_or(line, |(_, rest)| rest);
        rest.split([' ', ',']).next()?.parse().ok()
    };
    Some(Found {
        connections: number("Connection rate: ", "")?,
        requests: number("Request rate: ", "")?,
        replies: number("Total: ", "replies ")?,
        took: number("Total: ", "test-duration ")?,
        reply_ms: number("Reply time [ms]: ", "response ")?
            + number("Reply time [ms]: ", "transfer ")?,
        connect_ms: number("Connection time [ms]: connect ", "")?,
        kilobytes: number("Net I/O: ", "")?,
        errors: number("Errors: total ", "")?,
        burst: number("Maximum connect burst length: ", "")?,
        unavailable: number("Errors: fd-unavail ", "")?
            + number("Errors: fd-unavail ", "addrunavail ")?
            + number("Errors: fd-unavail ", "ftab-full ")?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Asked, MARGIN, read};

    const PRINTED: &str = "httperf --timeout=1
Maximum connect burst length: 3

Total: connections 200 requests 600 replies 597 test-duration 1.993 s

Connection rate: 100.7 conn/s (9.9 ms/conn, <=2 concurrent connections)
Connection time [ms]: min 0.3 avg 0.9 max 2.0 median 0.5 stddev 0.0
Connection time [ms]: connect 0.4
Connection length [replies/conn]: 3.000

Request rate: 302.0 req/s (0.0 ms/req)
Reply time [ms]: response 0.3 transfer 0.2
CPU time [s]: user 0.12 system 0.28 (user 12.3% system 27.8% total 40.1%)
Net I/O: 81.5 KB/s (0.7*10^6 bps)

Errors: total 3 client-timo 1 socket-timo 0 connrefused 0 connreset 0
Errors: fd-unavail 2 addrunavail 0 ftab-full 0 other 0
";

    /// A second of connections, and one of 5 s to stand and for each of three requests.
    #[test]
    fn it_is_not_waited_for_longer_than_it_can_take() {
        let asked = Asked {
            path: "/",
            rate: 1_999.0,
            connections: 1_999,
            requests: 3,
            patience: 5.0,
        };
        assert_eq!(asked.seconds_at_most(), 21 + MARGIN as u64);
    }

    #[test]
    fn what_it_prints_is_read() {
        let found = read(PRINTED).unwrap();
        assert_eq!((found.connections, found.requests), (100.7, 302.0));
        assert_eq!((found.replies, found.took), (597.0, 1.993));
        assert_eq!(found.reply_ms, 0.5);
        assert_eq!((found.connect_ms, found.kilobytes), (0.4, 81.5));
        assert_eq!((found.errors, found.unavailable), (3.0, 2.0));
        // Two connections of two hundred had no descriptor, and one came 10 ms late.
        let offered = found.client(100.0, None).offered.unwrap();
        assert!((offered - 0.985).abs() < 0.001, "{offered}");
        let late = PRINTED.replace("burst length: 3", "burst length: 12");
        assert!(read(&late).unwrap().client(100.0, None).is_the_limit());
        assert!(read("httperf: connection failed").is_none());
    }

    /// Of descriptors, of ports, and of the machine's table of open files: each alone, and all together.
    #[test]
    fn whatever_the_client_has_not_is_counted() {
        let nothing = PRINTED.replace("fd-unavail 2", "fd-unavail 0");
        assert_eq!(read(&nothing).unwrap().unavailable, 0.0);
        for (name, count) in [
            ("fd-unavail", 40.0),
            ("addrunavail", 50.0),
            ("ftab-full", 60.0),
        ] {
            let some = nothing.replace(&format!("{name} 0"), &format!("{name} {count}"));
            let found = read(&some).unwrap();
            assert_eq!(found.unavailable, count, "{name}");
            assert!(found.client(100.0, None).is_the_limit(), "{name}");
        }
        let all = PRINTED.replace("addrunavail 0 ftab-full 0", "addrunavail 50 ftab-full 300");
        assert_eq!(read(&all).unwrap().unavailable, 352.0);
    }

    /// What piles up at a full server leaves the client without descriptors: it is the server that could do no more.
    #[test]
    fn a_client_of_a_full_server_is_not_the_limit() {
        let piled = PRINTED.replace("fd-unavail 2", "fd-unavail 90");
        let found = read(&piled).unwrap();
        assert!(found.client(100.0, Some(0.5)).is_the_limit());
        assert!(!found.client(100.0, Some(0.97)).is_the_limit());
    }
}
