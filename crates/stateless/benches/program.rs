//! What the responder costs in the driver: nanoseconds of a run by kind of frame, by the kernel's
//! run-time statistics, in its BPF test run. Nothing else is measured, so it repeats. Needs root.
//!
//! Kinds are measured in turn, and of each the least of many means is shown, with what remains of it
//! without the cost of counting (that of a frame which the first program passes at once).

#![allow(clippy::print_stdout, reason = "that is what it is for")]

#[path = "../tests/client/mod.rs"]
mod client;

use std::fs;

use client::{Client, PORT, leave_to_device};
use netdev::steering::{Endpoint, Steering, Verdict};
use stateless::responder::program::Program;
use wire::tcp::Flags;

/// The file that has the kernel count the run time of BPF programs.
const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";
const LOOPBACK: u32 = 1;
const ROUNDS: usize = 40;
const RUNS: usize = 1000;
/// Connections whose frames are taken in turn.
const CONNECTIONS: u16 = 128;
/// What wrk asks.
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: 10.77.0.1:8000\r\n";

/// Frames of one kind, and the least that a run over them has cost.
struct Kind {
    name: &'static str,
    frames: Vec<Vec<u8>>,
    verdict: Verdict,
    least: f64,
}

fn kind(name: &'static str, verdict: Verdict, frames: Vec<Vec<u8>>) -> Kind {
    Kind {
        name,
        frames,
        verdict,
        least: f64::INFINITY,
    }
}

/// The frames of as many connections, each taken so far as `frame` does it.
fn each(
    mut frame: impl FnMut(&mut Client, &mut stateless::responder::Responder) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let mut responder = client::responder();
    let connect = |number| {
        let mut client = Client::v4();
        client.local.1 += number;
        frame(&mut client, &mut responder)
    };
    (0..CONNECTIONS).map(connect).collect()
}

fn request(close: bool, partial: bool) -> Vec<Vec<u8>> {
    let connection = if close {
        "Connection: close\r\n\r\n"
    } else {
        "\r\n"
    };
    let request = format!("{REQUEST}{connection}");
    each(|client, responder| {
        client.connect(responder);
        let mut frame = client.frame(Flags::ACK | Flags::PSH, request.as_bytes());
        if partial {
            leave_to_device(&mut frame);
        }
        frame
    })
}

fn kinds() -> Vec<Kind> {
    let fin = |client: &mut Client, responder: &mut _| {
        client.connect(responder);
        client.ask(responder, &format!("{REQUEST}Connection: close\r\n\r\n"));
        client.frame(Flags::FIN | Flags::ACK, b"")
    };
    let ack = |client: &mut Client, responder: &mut _| {
        client.connect(responder);
        client.frame(Flags::ACK, b"")
    };
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    vec![
        kind("none (ARP)", Verdict::Kernel, vec![arp]),
        kind(
            "request, keep-alive",
            Verdict::Transmit,
            request(false, false),
        ),
        kind(
            "the same, from a local peer",
            Verdict::Transmit,
            request(false, true),
        ),
        kind(
            "request, close, from a local peer",
            Verdict::Transmit,
            request(true, true),
        ),
        kind(
            "SYN",
            Verdict::Transmit,
            each(|client, _| client.frame(Flags::SYN, b"")),
        ),
        kind("acknowledgement", Verdict::Drop, each(ack)),
        kind("FIN", Verdict::Transmit, each(fin)),
    ]
}

/// Nanoseconds and runs of the programs of this process.
fn counted() -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for entry in fs::read_dir("/proc/self/fdinfo").expect("proc") {
        let text = entry.map(|entry| fs::read_to_string(entry.path()).unwrap_or_default());
        let text = text.unwrap_or_default();
        let value = |name: &str| -> Option<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        if let (Some(time), Some(runs)) = (value("run_time_ns:"), value("run_cnt:")) {
            sums.0 += time;
            sums.1 += runs;
        }
    }
    sums
}

/// The mean cost of a run.
fn measure(kind: &Kind, steering: &Steering) -> f64 {
    let before = counted();
    for frame in kind.frames.iter().cycle().take(RUNS) {
        let verdict = steering.test_run(frame, LOOPBACK, 0).expect("a test run");
        assert_eq!(verdict, kind.verdict, "{}", kind.name);
    }
    let after = counted();
    (after.0 - before.0) / (after.1 - before.1)
}

fn main() {
    let mut settings = client::settings();
    settings.partial_checksums = true;
    let program = Program::load(&settings, &client::tables());
    let program = program.expect("root, and a kernel that takes the program");
    let mut steering = Steering::load().expect("it loads");
    steering
        .call_responder(program.fd().expect("a descriptor"))
        .expect("it is called");
    let endpoint = Endpoint::new(Client::v4().remote.0, PORT);
    steering.add_responder_port(endpoint).expect("an endpoint");
    let switched = fs::read_to_string(SWITCH).expect("a switch");
    fs::write(SWITCH, "1").expect("root");
    let mut kinds = kinds();
    for _ in 0..ROUNDS {
        for kind in &mut kinds {
            kind.least = kind.least.min(measure(kind, &steering));
        }
    }
    // If it cannot be switched back, counting goes on; that costs some nanoseconds a run.
    let _ = fs::write(SWITCH, switched.trim());
    let nothing = kinds[0].least;
    println!("{:36} {:>8} {:>8}", "ns a run", "counted", "net");
    for kind in &kinds {
        println!(
            "{:36} {:>8.0} {:>8.0}",
            kind.name,
            kind.least,
            kind.least - nothing
        );
    }
}
