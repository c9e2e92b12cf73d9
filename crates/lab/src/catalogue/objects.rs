//! 004: requests and connections a second by object size, of the stateless responder in each of its
//! places and of nginx on the kernel's TCP.

use super::bed::{Bed, CLIENT_CORE, SERVER_CORE, STACKS, write_file};
use super::each::Each;
use super::{Entry, Extent, Setup, wrk};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::Nginx;
use crate::process::Process;
use crate::world::{Side, World};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "objects",
    source: "004",
    about: "the stateless responder and nginx: requests a second by object size",
    needs: &["nginx", "wrk", "taskset", "iptables-legacy"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const SIZE: &str = "size";
const MODE: &str = "connections";
const MODES: [&str; 2] = ["keep-alive", "close"];
const RATE: &str = "requests";
/// nginx on the kernel's TCP, and the responder by its modes.
const SUBJECTS: [(&str, &str); 4] = [
    ("nginx", ""),
    ("in the driver", "xdp"),
    ("AF_XDP", "afxdp"),
    ("NFQUEUE", "nfqueue"),
];
/// Up to what fits one segment with its head, as it has to in the driver, and then some that are of several segments.
const SIZES: [f64; 13] = [
    0.0,
    16.0,
    64.0,
    128.0,
    256.0,
    512.0,
    768.0,
    ONE_SEGMENT,
    IN_PLACE,
    WITH_HEAD,
    2_048.0,
    4_096.0,
    16_384.0,
];
pub(super) const ONE_SEGMENT: f64 = 1_024.0;
/// The largest that is promised in the driver: the largest segment that it makes, 1,440 bytes, less room for any head.
pub(super) const IN_PLACE: f64 = 1_140.0;
/// In a segment with its head by AF_XDP and NFQUEUE, which have the room that this head leaves: 1,428 bytes less one of at
/// most 60, and 72 of padding. In the source, too, all were of one segment.
const WITH_HEAD: f64 = 1_280.0;
const CONNECTIONS: usize = 128;
/// The responder's port.
const PORT: u16 = 8_000;
/// How long it may take to be ready, on however busy a machine.
const STARTING: Duration = Duration::from_secs(60);

fn declare(extent: Extent) -> Experiment {
    let sizes = match extent {
        Extent::Full => &SIZES[..],
        Extent::Quick => &[64.0],
    };
    let goal = |mode: &str, least: f64| Claim {
        says: format!("In the driver at least {least} times as many as nginx, {mode}"),
        citation: Citation::goal(),
        measure: RATE.into(),
        subject: SUBJECTS[1].0.into(),
        to: SUBJECTS[0].0.into(),
        at: vec![(MODE.into(), mode.into()), (SIZE.into(), "64".into())],
        ratio: Bound::AtLeast(least),
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "Requests a second by object size, without state".into(),
        question:
            "How many requests does a server without sessions answer, by where it stands and by \
            the size of its objects? In 004 it filled a gigabit from 64 bytes on."
                .into(),
        workload: format!(
            "wrk, one thread, {CONNECTIONS} connections; with close, each request has one. Objects of up to \
             {IN_PLACE} bytes are sent in one segment, and the responder's of {WITH_HEAD}; larger ones in several. Answers \
             that are made in place of their requests, in the driver, have {IN_PLACE} bytes at most. In 004 all were of \
             one segment"
        ),
        roles: format!(
            "server and responder on core {SERVER_CORE}, wrk on core {CLIENT_CORE}; a veth does the \
             driver's receive work where the sender is, so in the driver the responder is on the \
             client's core, and the client is always the limit there"
        ),
        axes: vec![
            Axis::of_numbers(SIZE, "B", sizes).without(SUBJECTS[1].0, |size| size > IN_PLACE),
            Axis::of_words(MODE, &MODES),
        ],
        subjects: SUBJECTS.map(|(name, _)| name.into()).to_vec(),
        measures: vec![
            Measure::new(RATE, "1/s"),
            Measure::new("CPU of the machine", "µs"),
        ],
        pictures: MODES
            .iter()
            .map(|mode| {
                let title = format!("Requests a second by object size, {mode} (004)");
                Picture::new(title, SIZE, RATE).at(MODE, mode).log_y()
            })
            .collect(),
        findings: findings(),
        left_out: Vec::new(),
        model: None,
        claims: vec![goal(MODES[0], 1.8), goal(MODES[1], 4.0)],
    }
}

/// What the source tells of. Where it closes connections it names no size, and objects that fit a segment make little
/// difference: those figures stand at the size that fills a wire in keep-alive mode.
fn findings() -> Vec<Finding> {
    let found = |name: &str, mode: usize, points: &[(f64, f64)], part: &str| Finding {
        name: name.into(),
        axis: SIZE.into(),
        measure: RATE.into(),
        points: points.to_vec(),
        at: vec![(MODE.into(), MODES[mode].into())],
        citation: Citation {
            document: "004".into(),
            place: format!("Stateless HTTP server{part}"),
        },
    };
    let driver = " as an Ndiv application";
    let (queue, first) = (" : NFQueue implementation", " : first implementation");
    let closed = |name: &str, rate: f64, part: &str| {
        let name = format!("{name}, size not told");
        found(&name, 1, &[(64.0, rate)], part)
    };
    vec![
        found(
            "in the driver there, one core at 1.33 GHz",
            0,
            &[(0.0, 663_000.0), (64.0, 564_000.0)],
            driver,
        ),
        closed("in the driver there", 340_000.0, driver),
        closed("NFQUEUE there, Core2 at 3 GHz", 105_000.0, queue),
        closed("interface module there, Core2 at 3 GHz", 73_000.0, queue),
        closed(
            "interface module there, one core at 1.33 GHz",
            42_000.0,
            first,
        ),
    ]
}

struct Subject {
    responder: Option<Process>,
    // Last: it must outlive what runs in it.
    bed: Bed,
}

struct Objects(Each<Subject>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let subjects = Each::of(setup, |name| {
        let known = SUBJECTS.iter().find(|(known, _)| *known == name);
        match known.with_context(|| format!("there is no {name}"))?.1 {
            "" => nginx(setup),
            mode => responder(setup, mode),
        }
    });
    Ok(Box::new(Objects(subjects?)))
}

fn nginx(setup: &Setup) -> Result<Subject> {
    let bed = Bed::with_nginx(setup, STACKS[0], |site| {
        for size in SIZES {
            write_file(&site.join(size.to_string()), size as usize)?;
        }
        Ok(())
    })?;
    Ok(Subject {
        responder: None,
        bed,
    })
}

fn responder(setup: &Setup, mode: &str) -> Result<Subject> {
    let bed = Bed::bare(setup, STACKS[0])?;
    let peer = format!(
        "{}/{}",
        bed.world().name(Side::Client),
        Side::Client.interface()
    );
    let responder = Some(respond(setup, bed.world(), mode, &peer)?);
    Ok(Subject { responder, bed })
}

/// Starts the responder in a mode, with the interface that its own is joined to, and waits until a client reaches it.
pub(super) fn respond(setup: &Setup, world: &World, mode: &str, peer: &str) -> Result<Process> {
    // From the responder's own port no connection is answered.
    let reserved = "net.ipv4.ip_local_reserved_ports";
    world.sysctl(Side::Client, reserved, &PORT.to_string())?;
    if mode == "nfqueue" {
        for rules in ["iptables-legacy", "ip6tables-legacy"] {
            let rule =
                format!("-t raw -A PREROUTING -p tcp --dport {PORT} -j NFQUEUE --queue-num 80");
            let program = world.program(Side::Server, rules);
            program.args(rule.split(' ')).output()?;
        }
    }
    let mut responder = world
        .program(Side::Server, &setup.binary)
        .on_core(SERVER_CORE)
        .args(["respond", "-q", "-i", Side::Server.interface()])
        .args(["-L", &format!(":{PORT}"), "--peer", peer, "--mode", mode])
        .log(world.scratch().join("respond.log"))
        .start()?;
    let address = responder_address();
    responder.wait_until(STARTING, || world.is_reached(address))?;
    Ok(responder)
}

/// Where a responder answers.
pub(super) fn responder_address() -> SocketAddr {
    (Side::Server.ipv4(), PORT).into()
}

impl Bench for Objects {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let subject = self.0.get(at.subject)?;
        let size = at.number(SIZE)?;
        let url = match &subject.responder {
            None => format!("http://{}/{size}", Nginx::address()),
            Some(_) => format!("http://{}/?s={size}", responder_address()),
        };
        let servers: Vec<u32> = subject.responder.iter().map(Process::id).collect();
        let close = at.word(MODE)? == MODES[1];
        let bed = &subject.bed;
        let run = || wrk::run(bed, &url, CONNECTIONS, close, at.window);
        let (rate, cost) = bed.account_with(&servers, run)?;
        let requests = rate * at.window.as_secs_f64();
        Ok(cost.sample(at.window).with(RATE, rate).with(
            "CPU of the machine",
            cost.machine().as_secs_f64() * 1e6 / requests,
        ))
    }
}
