//! The program in the driver is the function in Rust: both get the same frames, and every byte and
//! every counter is compared. The program runs in the kernel's test run, without a device.

mod client;

use std::io::Write;
use std::net::IpAddr;

use client::Client;
use netdev::steering::Verdict;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use stateless::responder::Responder;
use stateless::responder::counters::{Counter, Counts};
use stateless::responder::program::Program;
use stateless::responder::settings::{CloseStyle, Settings};
use wire::ethernet::{EtherType, Tag, Vlan};
use wire::tcp::Flags;

/// The loopback's index in every namespace.
const LOOPBACK: u32 = 1;

/// Both.
struct Pair {
    responder: Responder,
    program: Program,
}

impl Pair {
    fn new(settings: Settings) -> Option<Self> {
        if !lab::is_root() {
            let said = "SKIPPED: loading a BPF program needs root";
            // Past the harness, which swallows what a test that passes prints.
            let _ = writeln!(std::io::stderr(), "{said}");
            return None;
        }
        let program = Program::load(&settings, &client::tables());
        Some(Self {
            responder: Responder::new(settings, client::tables()),
            program: program.expect("the program loads"),
        })
    }

    fn counts(&self) -> Counts {
        self.program.counts().expect("counts")
    }

    /// What both answer to a frame, which must be the same.
    fn compare(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let before = (*self.responder.counts(), self.counts());
        let answers = client::answers(&mut self.responder, frame);
        let run = self
            .program
            .test_run(frame, LOOPBACK, 1)
            .expect("a test run");
        let counted = self.responder.counts().since(&before.0);
        let program_counted = self.counts().since(&before.1);
        for counter in Counter::ALL {
            assert_eq!(
                program_counted.get(*counter),
                counted.get(*counter),
                "{} (program, responder) for {frame:02x?}",
                counter.name(),
            );
        }
        match &answers[..] {
            [] => {
                assert_eq!(run.verdict, Verdict::Drop, "{frame:02x?}");
                None
            }
            [answer] => {
                assert_eq!(run.verdict, Verdict::Transmit, "{frame:02x?}");
                assert_eq!(
                    String::from_utf8_lossy(&run.frame),
                    String::from_utf8_lossy(answer),
                );
                assert_eq!(&run.frame, answer, "for {frame:02x?}");
                Some(run.frame)
            }
            _ => panic!("one frame for one"),
        }
    }
}

/// A connection with some requests, each also broken in a way that is drawn.
#[derive(Debug, Clone)]
struct Case {
    ipv6: bool,
    tags: usize,
    clock: bool,
    linux: bool,
    mss: Option<u16>,
    window: u16,
    ports: (u16, u16),
    seq: u32,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Step {
    payload: Vec<u8>,
    flags: u8,
    /// Added to the sequence and acknowledgement numbers.
    shift: (u32, u32),
    /// Bytes to overwrite, at a part of the frame's length in 65536ths.
    damage: Vec<(u16, u8)>,
    /// A byte to overwrite, and what to add to the sequence number, when the program knows the
    /// request, and whether a local peer sent it.
    again: (u16, u8, u32, bool),
    /// Bytes to cut off, or to pad.
    cut: usize,
    padding: usize,
}

fn target() -> impl Strategy<Value = String> {
    let argument = prop_oneof![
        6 => ("[srcCKkbeRpt]", prop_oneof![
            4 => (0..3000u32).prop_map(|n| n.to_string()),
            2 => (0..3u32).prop_map(|n| n.to_string()),
            1 => (190..610u32).prop_map(|n| n.to_string()),
            1 => "[0-9kmg]{0,12}",
        ]).prop_map(|(key, value)| format!("{key}={value}")),
        1 => "[a-zA-Z0-9=_%/?]{0,6}",
    ];
    let query = proptest::collection::vec(argument, 0..5).prop_map(|list| list.join("&"));
    let path = prop_oneof![
        4 => Just("/".to_owned()),
        2 => (0..2000u32).prop_map(|n| format!("/{n}")),
        2 => prop::sample::select(vec!["/health", "/old", "/favicon.ico"]).prop_map(String::from),
        1 => "/[a-z0-9.kmg]{0,80}",
        1 => Just("http://host:8080/".to_owned()),
        1 => "[a-z*:/]{0,12}",
        1 => "/x{240,260}",
    ];
    (
        path,
        prop_oneof![3 => query.prop_map(|q| format!("?{q}")), 1 => Just(String::new())],
    )
        .prop_map(|(path, query)| path + &query)
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        Just("Host: a".to_owned()),
        Just("connection:close".to_owned()),
        Just("Connection:  Keep-Alive, foo".to_owned()),
        Just("CONNECTION: TE".to_owned()),
        "[A-Za-z-]{1,12}: [ -~]{0,60}",
    ];
    let end = prop_oneof![9 => Just("\r\n"), 1 => Just("\n")];
    (
        prop_oneof![
            8 => Just("GET".to_owned()), 2 => Just("HEAD".to_owned()),
            1 => "[A-Z]{1,20}", 1 => "[A-Za-z ]{0,5}",
        ],
        target(),
        prop_oneof![8 => Just("HTTP/1.1"), 3 => Just("HTTP/1.0"), 1 => Just("HTTP/2"), 1 => Just("")],
        proptest::collection::vec(field, 0..4),
        end,
    )
        .prop_map(|(method, target, version, fields, end)| {
            let mut text = format!("{method} {target} {version}{end}");
            for field in fields {
                text += &field;
                text += end;
            }
            (text + end).into_bytes()
        })
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => request(),
        2 => proptest::collection::vec(request(), 2..12).prop_map(|list| list.concat()),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(b'\r')], 0..600)
            .prop_map(|mut bytes| { bytes.insert(0, b'G'); bytes }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let acknowledgement = Flags::ACK.bits();
    (
        prop_oneof![5 => payload(), 1 => Just(Vec::new())],
        prop_oneof![
            8 => Just(acknowledgement), 2 => Just(acknowledgement | Flags::FIN.bits()), 1 => any::<u8>(),
        ],
        prop_oneof![
            8 => Just((0, 0)), 2 => (0..8u32, 0..8u32), 1 => (any::<u32>(), any::<u32>()),
            1 => (0..1u32 << 23, 0..1u32 << 23),
        ],
        prop_oneof![9 => Just(vec![]), 1 => proptest::collection::vec(any::<(u16, u8)>(), 1..4)],
        (any::<u16>(), any::<u8>(), prop_oneof![2 => Just(0), 1 => 0..8u32], any::<bool>()),
        prop_oneof![9 => Just(0), 1 => 0..60usize],
        prop_oneof![5 => Just(0), 1 => 0..30usize],
    )
        .prop_map(|(payload, flags, shift, damage, again, cut, padding)| Step {
            payload, flags, shift, damage, again, cut, padding,
        })
}

fn case() -> impl Strategy<Value = Case> {
    (
        any::<bool>(),
        0..4usize,
        prop_oneof![3 => Just(true), 1 => Just(false)],
        prop_oneof![3 => Just(true), 1 => Just(false)],
        prop_oneof![3 => Just(Some(1460)), 1 => Just(None), 3 => any::<u16>().prop_map(Some),
            3 => (200..1500u16).prop_map(Some)],
        prop_oneof![4 => Just(64_240), 1 => any::<u16>(), 3 => 0..1500u16],
        (
            prop_oneof![9 => 1024..u16::MAX, 1 => 70..90u16],
            prop_oneof![9 => Just(80), 1 => any::<u16>()],
        ),
        any::<u32>(),
        proptest::collection::vec(step(), 1..6),
    )
        .prop_map(
            |(ipv6, tags, clock, linux, mss, window, ports, seq, steps)| Case {
                ipv6,
                tags,
                clock,
                linux,
                mss,
                window,
                ports,
                seq,
                steps,
            },
        )
}

/// Sends the payload of a step again, with another mistake.
fn compare_again(pair: &mut Pair, client: &Client, flags: Flags, step: &Step) {
    let (at, byte, shift, local) = step.again;
    let mut sent = client.clone();
    sent.seq = sent.seq.wrapping_add(shift);
    let mut frame = sent.frame(flags, &step.payload);
    if local && client.vlan == Vlan::None && client.local.0.is_ipv4() {
        client::leave_to_device(&mut frame);
        pair.compare(&frame);
    }
    let at = usize::from(at) * frame.len() / 65_536;
    frame[at] = byte;
    pair.compare(&frame);
}

#[test]
fn what_nobody_can_have_sent_is_told_alike() {
    let mut settings = client::settings();
    settings.broadcasts = vec![[192, 0, 2, 255].into(), [192, 0, 2, 127].into()];
    for loopback in [false, true] {
        settings.loopback = loopback;
        let Some(mut pair) = Pair::new(settings.clone()) else {
            return;
        };
        let v4 = [
            [192, 0, 2, 255],
            [192, 0, 2, 127],
            [192, 0, 2, 3],
            [0, 1, 2, 3],
            [127, 0, 0, 1],
            [239, 255, 0, 1],
            [240, 0, 0, 1],
        ];
        let v4 = v4.map(IpAddr::from).into_iter();
        let v6 = ["::1", "::2", "2001:db8::3"].map(|text| text.parse::<IpAddr>().unwrap());
        // With the options of Linux and without: quickly, and by the general way.
        for (source, linux) in v4
            .chain(v6)
            .flat_map(|source| [(source, false), (source, true)])
        {
            for ports in [(40_000, 80), (0, 80), (40_000, 0)] {
                let mut client = if source.is_ipv4() {
                    Client::v4()
                } else {
                    Client::v6()
                };
                client.local = (source, ports.0);
                client.remote.1 = ports.1;
                client.linux = linux;
                pair.compare(&client.frame(Flags::SYN, b""));
                pair.compare(&client.frame(Flags::ACK, b"GET / HTTP/1.1\r\n\r\n"));
            }
        }
        let martians = pair.responder.counts().get(Counter::Martian);
        assert!(martians > 40, "{martians}");
    }
}

#[test]
fn probes_with_a_byte_are_answered_alike() {
    let Some(mut pair) = Pair::new(client::settings()) else {
        return;
    };
    for (byte, answered) in [
        (&b""[..], true),
        (b"\0", true),
        (b"\n", false),
        (b"\0\0", false),
    ] {
        let mut client = Client::v4();
        let answer = pair
            .compare(&client.frame(Flags::SYN, b""))
            .expect("an answer");
        client.seq = client.seq.wrapping_add(1);
        client.take(&answer);
        client.seq = client.seq.wrapping_sub(1);
        let answer = pair.compare(&client.frame(Flags::ACK, byte));
        assert_eq!(answer.is_some(), answered);
    }
}

fn play(pair: &mut Pair, case: &Case) {
    let mut client = if case.ipv6 {
        Client::v6()
    } else {
        Client::v4()
    };
    let tag = |id: u16| Tag {
        kind: EtherType::VLAN,
        control: 0x2000 | id,
    };
    client.vlan = match case.tags {
        1 => Vlan::Single(tag(7)),
        2 => Vlan::Double {
            outer: Tag {
                kind: EtherType::SERVICE_VLAN,
                control: 5,
            },
            inner: tag(0),
        },
        _ => Vlan::None,
    };
    client.clock = case.clock.then_some(case.seq ^ 77);
    client.mss = case.mss;
    client.linux = case.linux;
    client.window = case.window;
    client.local.1 = case.ports.0;
    client.remote.1 = case.ports.1;
    client.seq = case.seq;
    let Some(answer) = pair.compare(&client.frame(Flags::SYN, b"")) else {
        return;
    };
    client.seq = client.seq.wrapping_add(1);
    client.take(&answer);
    for step in &case.steps {
        let mut sent = client.clone();
        sent.seq = sent.seq.wrapping_add(step.shift.0);
        sent.ack = sent.ack.wrapping_add(step.shift.1);
        let flags = Flags::from_bits(step.flags);
        let mut frame = sent.frame(flags, &step.payload);
        for (at, byte) in &step.damage {
            let at = usize::from(*at) * frame.len() / 65_536;
            frame[at] = *byte;
        }
        frame.truncate((frame.len() - step.cut.min(frame.len())).max(14));
        frame.extend((0..step.padding).map(|_| b'\n'));
        let Some(answer) = pair.compare(&frame) else {
            continue;
        };
        // The program knows a request again.
        pair.compare(&frame);
        compare_again(pair, &sent, flags, step);
        // Goes on from where a client would be; what was broken is not.
        if step.shift == (0, 0) && step.damage.is_empty() && step.cut == 0 {
            let segment = wire::segment::parse(&answer, wire::segment::ChecksumPolicy::Verify);
            let segment = segment.expect("well formed");
            client.seq = segment.tcp.ack.map_or(client.seq, |ack| ack.0);
            client.ack = client.ack.wrapping_add(segment.sequence_len());
        }
    }
}

fn hold_equal(settings: Settings, cases: u32) {
    let Some(mut pair) = Pair::new(settings) else {
        return;
    };
    let config = proptest::test_runner::Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Default::default()
    };
    let mut runner = TestRunner::new(config);
    let pair = std::cell::RefCell::new(&mut pair);
    let outcome = runner.run(&case(), |case| {
        play(&mut pair.borrow_mut(), &case);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let counts = *pair.borrow().responder.counts();
    for counter in [
        Counter::Requests,
        Counter::Fins,
        Counter::Clipped,
        Counter::Misplaced,
    ] {
        assert!(counts.get(counter) > 0, "no case of {}", counter.name());
    }
}

#[test]
fn the_program_answers_as_the_function_does() {
    hold_equal(client::settings(), 3000);
}

#[test]
fn also_with_other_settings() {
    let mut settings = client::settings();
    settings.strict = false;
    settings.close = CloseStyle::Reset;
    settings.partial_checksums = true;
    settings.mtu = 1280;
    settings.default_size = 0;
    hold_equal(settings, 1000);
}
