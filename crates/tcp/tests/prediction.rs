//! Header prediction is a short cut, never another way: whatever arrives, it leads to the same as
//! going through all checks. Each case is played to two stacks, of which one cannot predict anything,
//! because every segment that it gets has something about it that changes nothing else.

mod common;

use common::play::{Step, play, seen, step};
use common::*;
use proptest::prelude::*;
use tcp::{Algorithm, Config, ConnOptions, KeepAlive, State};
use wire::tcp::{Flags, SackBlock};

/// What keeps a stack from predicting.
#[derive(Clone, Copy, Debug)]
enum Spoiler {
    /// Urgent data is ordinary data (RFC 9293 §3.8.5), but such a segment is never predicted.
    Urgent,
    /// A SACK of what was never sent is ignored; but a segment with SACK blocks goes through all of recovery.
    Sack,
}

/// A segment that acknowledges everything in flight, or not, with something about it that changes nothing.
fn spoil(b: &Bench, mut s: Seg, spoiler: Spoiler) -> Seg {
    let nxt = play::numbers(b).2;
    match spoiler {
        Spoiler::Urgent => s = s.flags(Flags::URG),
        Spoiler::Sack if b.info().in_flight > 0 && s.ack == Some(nxt) => {
            let beyond = b.iss.unwrap_or_default() + (nxt + 5000) as u32;
            s.options.sack.push(SackBlock {
                left: beyond,
                right: beyond + 1000,
            });
        }
        Spoiler::Sack => {}
    }
    s
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
        play(&mut plain, step, |_, s| s);
        play(&mut spoilt, step, |b, s| spoil(b, s, spoiler));
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
        sack: bool,
        steps in proptest::collection::vec(step(), 1..100),
    ) {
        let algorithm = if bbr { Algorithm::Bbr } else { Algorithm::Cubic };
        let spoiler = if sack { Spoiler::Sack } else { Spoiler::Urgent };
        compare(with_options, algorithm, spoiler, &steps)?;
    }
}
