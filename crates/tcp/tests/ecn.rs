//! Explicit congestion notification (RFC 3168).

mod common;

use common::*;
use tcp::{Algorithm, Config, ConnOptions, EcnPolicy};
use wire::ip::Ecn;
use wire::tcp::Flags;

const ECE: Flags = Flags::ECE;
const CWR: Flags = Flags::CWR;

fn config(ecn: EcnPolicy) -> Config {
    Config { ecn, ..plain() }
}

fn options() -> ConnOptions {
    ConnOptions {
        congestion: Algorithm::Reno,
        no_delay: true,
        ..ConnOptions::default()
    }
}

/// The SYN-ACK for a SYN with these flags.
fn answer(policy: EcnPolicy, flags: Flags) -> String {
    let mut b = Bench::listening(config(policy), options());
    b.inject(b.offer.flags(flags));
    b.next().unwrap().brief()
}

/// A connection that has agreed on ECN, accepted from a peer.
fn agreed() -> Bench {
    let mut b = Bench::listening(config(EcnPolicy::Accept), options());
    b.inject(b.offer.flags(ECE | CWR));
    b.expect("S.E 0:0 ack 1");
    b.inject(seg(1, 0).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    b.quiet();
    b
}

//~ RFC 3168 §6.1.1
#[test]
fn a_listener_agrees_if_both_want_it() {
    assert_eq!(answer(EcnPolicy::Accept, ECE | CWR), "S.E 0:0 ack 1");
    assert_eq!(answer(EcnPolicy::On, ECE | CWR), "S.E 0:0 ack 1");
    assert_eq!(answer(EcnPolicy::Off, ECE | CWR), "S. 0:0 ack 1");
    assert_eq!(answer(EcnPolicy::Accept, ECE), "S. 0:0 ack 1");
    assert_eq!(answer(EcnPolicy::Accept, Flags::NONE), "S. 0:0 ack 1");
}

//~ RFC 3168 §6.1.1
#[test]
fn a_connection_offers_it_once() {
    let codepoint = |flags: Flags, wait: u64| {
        let mut b = Bench::new(config(EcnPolicy::On));
        b.connect(options());
        b.turn();
        b.expect("SEW 0:0");
        b.advance(ms(wait));
        if wait > 0 {
            // Perhaps somebody on the way does not like such SYNs.
            b.expect("S 0:0");
        }
        b.inject(seg(0, 0).ack(1).flags(SYN | flags).mss(1000));
        b.expect(". 1:1 ack 1");
        b.send(10);
        b.next().unwrap().ecn
    };
    assert_eq!(codepoint(ECE, 0), Ecn::Capable0);
    assert_eq!(codepoint(Flags::NONE, 0), Ecn::NotCapable);
    // A peer that reflects whatever it gets.
    assert_eq!(codepoint(ECE | CWR, 0), Ecn::NotCapable);
    assert_eq!(codepoint(ECE, 1100), Ecn::NotCapable);
    // Not offered, and accepted all the same.
    let mut b = Bench::new(config(EcnPolicy::Accept));
    b.connect(options());
    b.turn();
    b.expect("S 0:0");
    b.inject(seg(0, 0).ack(1).flags(SYN | ECE).mss(1000));
    b.discard();
    b.send(10);
    assert_eq!(b.next().unwrap().ecn, Ecn::NotCapable);
}

//~ RFC 3168 §6.1.4, §6.1.5, §6.1.6
#[test]
fn only_new_data_is_marked_as_capable() {
    let mut b = agreed();
    b.send(2000);
    assert!(std::iter::from_fn(|| b.next()).all(|s| s.ecn == Ecn::Capable0));
    b.inject(seg(1, 1000).ack(1));
    assert_eq!(b.next().unwrap().ecn, Ecn::NotCapable);
    b.advance(ms(300));
    let again = b.next().unwrap();
    assert_eq!(
        (again.seq, again.len, again.ecn),
        (1, 1000, Ecn::NotCapable)
    );
    // A zero-window probe.
    let mut b = agreed();
    b.inject(seg(1, 0).ack(1).window(0));
    b.send(100);
    b.advance(secs(1));
    let probe = b.next().unwrap();
    assert_eq!((probe.len, probe.ecn), (0, Ecn::NotCapable));
}

//~ RFC 3168 §6.1.3
#[test]
fn a_mark_is_echoed_until_the_sender_has_reduced() {
    let mut b = agreed();
    b.inject(seg(1, 1000).ack(1));
    b.expect(". 1:1 ack 1001");
    b.inject(seg(1001, 1000).ack(1).ecn(Ecn::CongestionExperienced));
    b.expect(".E 1:1 ack 2001");
    b.inject(seg(2001, 1000).ack(1));
    b.expect(".E 1:1 ack 3001");
    // Data carries it as well.
    b.send(10);
    b.expect("P.E 1:11 ack 3001");
    b.inject(seg(3001, 1000).ack(11).flags(CWR));
    b.expect(". 11:11 ack 4001");
    // A mark together with CWR is another one.
    let both = seg(4001, 1000).ack(11).flags(CWR);
    b.inject(both.ecn(Ecn::CongestionExperienced));
    b.expect(".E 11:11 ack 5001");
    assert_eq!(b.stack.counters().congestion_marks, 2);
    // Whoever has not agreed says nothing.
    let mut b = Bench::established(plain(), options());
    b.inject(seg(1, 1000).ack(1).ecn(Ecn::CongestionExperienced));
    b.expect(". 1:1 ack 1001");
}

//~ RFC 3168 §6.1.2
//~ RFC 9438 §4.6
#[test]
fn an_echo_reduces_the_window_once_for_a_window_of_data() {
    for (algorithm, reduced) in [(Algorithm::Reno, 5000), (Algorithm::Cubic, 7000)] {
        let mut b = Bench::listening(
            config(EcnPolicy::Accept),
            ConnOptions {
                congestion: algorithm,
                ..options()
            },
        );
        b.inject(b.offer.flags(ECE | CWR));
        b.discard();
        b.inject(seg(1, 0).ack(1));
        b.conn = b.stack.accept(b.listener.unwrap());
        b.sink.burst = 8;
        b.send(60_000);
        b.discard();
        b.inject(seg(1, 0).ack(1001).flags(ECE));
        let info = b.info();
        assert_eq!(info.cwnd, reduced);
        assert_eq!(info.ssthresh, Some(reduced));
        b.quiet();
        // The same window, the same congestion.
        b.inject(seg(1, 0).ack(2001).flags(ECE));
        assert_eq!(b.stack.counters().congestion_echoes, 1);
        b.inject(seg(1, 0).ack(10_001).flags(ECE));
        // The first new data says so, by itself.
        let told = b.next().unwrap();
        assert_eq!(told.brief(), ".W 10001:11001 ack 1");
        assert!(std::iter::from_fn(|| b.next()).all(|s| !s.has(CWR)));
        assert_eq!(b.stack.counters().congestion_echoes, 1);
        b.inject(seg(1, 0).ack(12_001).flags(ECE));
        assert_eq!(b.stack.counters().congestion_echoes, 2);
        assert_eq!(b.stack.counters().retransmitted_segments, 0);
    }
}

//~ RFC 3168 §6.1.2
#[test]
fn a_loss_after_an_ecn_reduction_reduces_cwnd_no_further() {
    let mut b = agreed();
    b.send(30_000);
    b.discard();
    b.inject(seg(1, 0).ack(1001).flags(ECE));
    for _ in 0..3 {
        b.inject(seg(1, 0).ack(1001).flags(ECE));
    }
    assert_eq!(b.stack.counters().fast_recoveries, 1);
    assert_eq!(b.info().ssthresh, Some(5000));
    // And the other way round.
    let mut b = agreed();
    b.send(30_000);
    b.discard();
    for _ in 0..3 {
        b.inject(seg(1, 0).ack(1));
    }
    let ssthresh = b.info().ssthresh;
    b.inject(seg(1, 0).ack(2001).flags(ECE));
    assert_eq!(b.info().ssthresh, ssthresh);
}
