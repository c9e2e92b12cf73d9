//! Header prediction is a short cut, never another way: whatever arrives, it leads to the same as
//! going through all checks. Each case is played to two stacks, of which one cannot predict anything,
//! because every segment that it gets has something about it that changes nothing else.

mod common;

use common::*;
use proptest::prelude::*;
use tcp::{Algorithm, Config, ConnOption, ConnOptions, Extent, KeepAlive, Request, State};
use wire::tcp::{Flags, SackBlock};

/// What keeps a stack from predicting.
#[derive(Clone, Copy, Debug)]
enum Spoiler {
    /// Urgent data is ordinary data (RFC 9293 §3.8.5), but such a segment is never predicted.
    Urgent,
    /// A report of what was never sent is ignored; but what has reports goes through all of recovery.
    Report,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A segment from the peer: how far ahead of the next in order, its length, what it acknowledges of
    /// what is in flight (in eighths), its window, and how much older its timestamp is than the clock.
    Arrive {
        ahead: i64,
        len: usize,
        eighths: i64,
        window: u16,
        age: u32,
        flags: Flags,
        /// It reports that the last byte before what it acknowledges was received twice.
        dsack: bool,
    },
    Send(u32),
    Consume,
    NoDelay(bool),
    Shutdown,
    Pass(u64),
}

fn arrive() -> impl Strategy<Value = Step> {
    let ahead = prop_oneof![12 => Just(0), 1 => -1000..1000_i64];
    let len = prop_oneof![Just(0), Just(1000), 1..1448_usize];
    let eighths = prop_oneof![2 => Just(0), 6 => Just(8), 1 => 1..8_i64, 1 => Just(9)];
    let window = prop_oneof![6 => Just(60_000), 1 => Just(0), 2 => any::<u16>()];
    let age = prop_oneof![12 => Just(0), 1 => 0..2000_u32];
    let flags = prop_oneof![6 => Just(Flags::NONE), 4 => Just(Flags::PSH), 1 => Just(Flags::FIN)];
    let dsack = proptest::bool::weighted(0.05);
    (ahead, len, eighths, window, age, flags, dsack).prop_map(
        |(ahead, len, eighths, window, age, flags, dsack)| Step::Arrive {
            ahead,
            len,
            eighths,
            window,
            age,
            flags,
            dsack,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => arrive(),
        4 => (1..4000_u32).prop_map(Step::Send),
        3 => Just(Step::Consume),
        1 => any::<bool>().prop_map(Step::NoDelay),
        1 => Just(Step::Shutdown),
        3 => prop_oneof![4 => 0..5_u64, 4 => 0..300_u64, 1 => 0..3000_u64].prop_map(Step::Pass),
    ]
}

/// Where the peer is in its stream, and in ours.
fn numbers(b: &Bench) -> (i64, i64, i64) {
    let info = b.info();
    let una = 1 + info.bytes_acked as i64;
    let peer_closed = i64::from(b.update.peer_closed);
    (
        1 + info.bytes_received as i64 + peer_closed,
        una,
        una + i64::from(info.in_flight),
    )
}

fn play(b: &mut Bench, step: Step, spoiler: Option<Spoiler>) {
    match step {
        Step::Arrive {
            ahead,
            len,
            eighths,
            window,
            age,
            flags,
            dsack,
        } => {
            let (next, una, nxt) = numbers(b);
            let ack = una + (nxt - una) * eighths / 8;
            let mut s = seg((next + ahead).max(1), len)
                .ack(ack)
                .window(window)
                .flags(flags);
            if b.with_options {
                let value = b.now.as_millis() as u32;
                s = s.ts(value.wrapping_sub(age), b.sink.stamp);
            }
            if dsack && ack > 1 {
                s.options.sack = blocks(&[(ack - 1, ack)], b.iss.unwrap_or_default());
            }
            match spoiler {
                Some(Spoiler::Urgent) => s = s.flags(Flags::URG),
                Some(Spoiler::Report) if nxt > una && eighths == 8 => {
                    let beyond = b.iss.unwrap_or_default() + (nxt + 5000) as u32;
                    s.options.sack.push(SackBlock {
                        left: beyond,
                        right: beyond + 1000,
                    });
                }
                _ => {}
            }
            let _ = b.arrive(s);
            b.turn();
        }
        Step::Send(len) => {
            let extent = Extent { addr: 0, len };
            let more = false;
            let _ = b
                .stack
                .on_request(b.now, b.conn.unwrap(), Request::Send { extent, more });
            b.turn();
        }
        Step::Shutdown => b.request(Request::ShutdownWrite),
        Step::Consume => b.request(Request::Consumed(b.update.received)),
        Step::NoDelay(on) => b.request(Request::SetOption(ConnOption::NoDelay(on))),
        Step::Pass(millis) => b.advance(ms(millis)),
    }
}

/// All that anybody can see of a stack.
fn seen(b: &mut Bench) -> String {
    let sent: Vec<_> = b.all_sent().iter().map(|s| (s.raw, s.len, s.at)).collect();
    let (info, update) = (b.info(), b.update);
    let timeout = b.stack.next_timeout();
    let mut counters = b.stack.counters().clone();
    counters.urgent_segments = 0;
    format!("{sent:?}\n{update:?}\n{info:?}\n{timeout:?}\n{counters:?}")
}

fn compare(
    with_options: bool,
    algorithm: Algorithm,
    spoiler: Spoiler,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let bench = || {
        let config = if with_options {
            Config::default()
        } else {
            plain()
        };
        let options = ConnOptions {
            congestion: algorithm,
            keep_alive: KeepAlive {
                enabled: true,
                idle: 1,
                interval: 1,
                count: 9,
            },
            ..ConnOptions::default()
        };
        let mut b = Bench::listening(config, options);
        b.with_options = with_options;
        b.handshake();
        b
    };
    let (mut plain, mut spoilt) = (bench(), bench());
    for &step in steps {
        play(&mut plain, step, None);
        play(&mut spoilt, step, Some(spoiler));
        prop_assert_eq!(seen(&mut plain), seen(&mut spoilt), "after {:?}", step);
        if matches!(plain.info().state, State::TimeWait | State::Closed) {
            break;
        }
    }
    prop_assert!(plain.store.placed == spoilt.store.placed);
    let export = |b: &mut Bench| b.stack.export(b.now, b.conn.unwrap());
    prop_assert_eq!(export(&mut plain), export(&mut spoilt));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn prediction_changes_nothing(
        with_options: bool,
        bbr in proptest::bool::weighted(0.1),
        report: bool,
        steps in proptest::collection::vec(step(), 1..100),
    ) {
        let algorithm = if bbr { Algorithm::Bbr } else { Algorithm::Cubic };
        let spoiler = if report { Spoiler::Report } else { Spoiler::Urgent };
        compare(with_options, algorithm, spoiler, &steps)?;
    }
}
