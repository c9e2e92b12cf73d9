//! The path of what fits one segment is a short cut, never another way: whatever happens, the same leaves as
//! by the way that all else takes. Each case is played to two stacks, one of which has no such path.

mod common;

use common::play::{Step, play, seen, step};
use common::*;
use proptest::prelude::*;
use tcp::{Algorithm, Config, ConnOptions, EcnPolicy, Extent, Request, State};
use wire::tcp::Flags;

/// What the two stacks have in common.
#[derive(Clone, Copy, Debug)]
struct Setting {
    algorithm: Algorithm,
    with_options: bool,
    ecn: bool,
    /// Segments are paced.
    pacing: bool,
    /// We open the connection, and send before it is open.
    active: bool,
}

fn setting() -> impl Strategy<Value = Setting> {
    let algorithm = prop_oneof![
        6 => Just(Algorithm::Cubic),
        2 => Just(Algorithm::Reno),
        1 => Just(Algorithm::Bbr),
    ];
    let seldom = || proptest::bool::weighted(0.1);
    (algorithm, any::<bool>(), seldom(), any::<bool>(), seldom()).prop_map(
        |(algorithm, with_options, ecn, pacing, active)| Setting {
            algorithm,
            with_options,
            ecn,
            pacing,
            active,
        },
    )
}

fn bench(of: Setting, one_segment_path: bool) -> Bench {
    let usual = if of.with_options {
        Config::default()
    } else {
        plain()
    };
    let config = Config {
        one_segment_path,
        ecn: EcnPolicy::Accept,
        pacing_burst: if of.pacing { 2 } else { 0 },
        ..usual
    };
    let options = ConnOptions {
        congestion: of.algorithm,
        ..ConnOptions::default()
    };
    let mut b = Bench::listening(config, options);
    b.with_options = of.with_options;
    if of.active {
        b.connect(options);
        b.send(300);
        b.expect("S 0:0");
        let answer = seg(0, 0).flags(SYN).ack(1).mss(1000).window(1200);
        b.inject(answer);
        return b;
    }
    if !of.ecn {
        b.handshake();
        return b;
    }
    b.inject(b.offer.flags(Flags::ECE | Flags::CWR));
    b.expect("S.E 0:0 ack 1");
    b.inject(seg(1, 0).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    b
}

/// Plays the same to a stack with the path and to one without.
fn compare(setting: Setting, steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut short, mut long) = (bench(setting, true), bench(setting, false));
    prop_assert_eq!(seen(&mut short), seen(&mut long), "at the beginning");
    for &step in steps {
        play(&mut short, step, |_, s| s);
        play(&mut long, step, |_, s| s);
        prop_assert_eq!(seen(&mut short), seen(&mut long), "after {:?}", step);
        if matches!(short.info().state, State::TimeWait | State::Closed) {
            break;
        }
    }
    let export = |b: &mut Bench| b.stack.export(b.now, b.conn.unwrap());
    prop_assert_eq!(export(&mut short), export(&mut long));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn the_short_path_changes_nothing(
        setting in setting(),
        steps in proptest::collection::vec(step(), 1..100),
    ) {
        compare(setting, &steps)?;
    }
}

/// A pause in congestion avoidance, where CUBIC's window grows by time.
#[test]
fn a_pause_between_two_flights_counts_the_same() {
    let setting = Setting {
        algorithm: Algorithm::Cubic,
        with_options: true,
        ecn: false,
        pacing: false,
        active: false,
    };
    let send = |len| Step::Send {
        len,
        pieces: 1,
        more: false,
        later: false,
    };
    let acknowledged = Step::Arrive {
        ahead: 0,
        len: 0,
        eighths: 8,
        window: 60_000,
        age: 0,
        flags: Flags::NONE,
        dsack: false,
    };
    let flight = |len| [send(len), Step::Pass(20), acknowledged];
    let mut steps = vec![send(30_000), Step::Pass(1_000), acknowledged];
    for _ in 0..20 {
        steps.extend(flight(30_000));
    }
    steps.push(Step::Pass(5_000));
    steps.extend(flight(100));
    for _ in 0..20 {
        steps.extend(flight(60_000));
    }
    compare(setting, &steps).unwrap();
}

/// What one turn may send is no more than its budget.
#[test]
fn a_single_segment_counts_against_the_budget() {
    let mut b = Bench::established(plain(), ConnOptions::default());
    let first = b.conn.unwrap();
    b.offer = b.offer.port(40_001);
    b.handshake();
    let extent = Extent { addr: 0, len: 100 };
    let more = false;
    for conn in [first, b.conn.unwrap()] {
        let send = Request::Send { extent, more };
        b.stack.on_request(b.now, conn, send).unwrap();
    }
    for _ in 0..2 {
        b.stack.poll_transmit(b.now, &mut b.sink, 1);
        assert_eq!(b.all_sent().len(), 1);
    }
}

/// The override of SWS avoidance ends with the next new data, even if the window has opened meanwhile.
#[test]
fn an_unused_override_of_sws_avoidance_does_not_last() {
    let mut b = Bench::established(plain(), ConnOptions::default());
    b.inject(seg(1, 0).ack(1).window(100));
    b.send(500);
    b.quiet();
    // The time has come, but nothing can leave; and then the window is open.
    b.sink.room = 0;
    b.advance(ms(400));
    b.sink.room = usize::MAX;
    b.inject(seg(1, 0).ack(1).window(60_000));
    b.expect("P. 1:501 ack 1");
    b.inject(seg(1, 0).ack(501).window(100));
    b.send(500);
    b.quiet();
}
