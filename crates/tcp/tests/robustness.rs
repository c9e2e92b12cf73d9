//! Attacks and accidents: RFC 5961, PAWS, keepalive, confused peers.

mod common;

use common::*;
use tcp::{Config, ConnOption, ConnOptions, DropReason, Failure, Request, State};
use wire::tcp::Flags;

fn bench() -> Bench {
    Bench::established(plain(), ConnOptions::default())
}

//~ RFC 5961 §3.2
#[test]
fn only_an_exact_reset_resets() {
    // RFC 5961 3.2.
    let mut b = bench();
    b.inject_dropped(seg(2, 0).flags(RST), DropReason::UnacceptableReset);
    b.expect(". 1:1 ack 1");
    b.inject_dropped(seg(0, 0).flags(RST), DropReason::UnacceptableReset);
    b.inject_dropped(seg(70_000, 0).flags(RST), DropReason::UnacceptableReset);
    b.quiet();
    b.inject(seg(1, 0).flags(RST));
    assert_eq!(b.update.failed, Some(Failure::Reset));
}

//~ RFC 5961 §4.2
#[test]
fn a_syn_on_a_connection_is_challenged() {
    // RFC 5961 4.2: a peer that has restarted answers the challenge by RST.
    let mut b = bench();
    b.inject_dropped(seg(5, 0).flags(SYN), DropReason::UnexpectedSyn);
    b.expect(". 1:1 ack 1");
    assert_eq!(b.info().state, State::Established);
    assert_eq!(b.stack.counters().challenge_acks, 1);
    // Even if it knows nothing of timestamps any more.
    let mut b = timestamped();
    b.inject_dropped(seg(5, 0).flags(SYN), DropReason::UnexpectedSyn);
    b.expect(". 1:1 ack 1");
}

//~ RFC 5961 §5.2
#[test]
fn acknowledgements_must_make_sense() {
    // RFC 5961 5.2 and RFC 9293 3.10.7.4.
    let mut b = bench();
    b.send(100);
    b.discard();
    b.inject_dropped(seg(1, 10).ack(500), DropReason::AckOfUnsent);
    b.expect(". 101:101 ack 1");
    b.advance(ms(500));
    b.discard();
    b.inject_dropped(seg(1, 10).ack(-70_000), DropReason::AckTooOld);
    b.expect(". 101:101 ack 1");
    b.inject_dropped(seg(1, 10), DropReason::NoAck);
    assert_eq!(b.update.received, 0);
    // One that is merely old is fine.
    b.inject(seg(1, 10).ack(-100));
    assert_eq!(b.update.received, 10);
}

//~ RFC 9293 MUST-66
#[test]
fn a_closed_window_lets_urgent_acknowledgements_and_resets_in() {
    let options = ConnOptions {
        receive_buffer: 2000,
        ..ConnOptions::default()
    };
    let mut b = Bench::established(plain(), options);
    b.send(100);
    b.discard();
    b.inject(seg(1, 2000).ack(1));
    b.expect(". 101:101 ack 2001");
    assert_eq!(b.info().receive_window, 0);
    b.inject(seg(2001, 0).ack(101).flags(Flags::URG));
    assert_eq!(b.update.acked, 100);
    assert_eq!(b.stack.counters().urgent_segments, 1);
    b.inject(seg(2001, 0).flags(RST));
    assert_eq!(b.update.failed, Some(Failure::Reset));
}

/// So many connections, from as many ports.
fn crowd(config: Config, count: u16) -> Bench {
    let mut b = Bench::new(config);
    b.listen(ConnOptions::default(), 16);
    for port in 1..=count {
        b.offer = b.offer.port(port);
        b.handshake();
    }
    b
}

//~ RFC 5961 §7
#[test]
fn challenges_are_limited_in_rate() {
    let config = Config {
        challenge_acks_per_second: 3,
        ..plain()
    };
    let mut b = crowd(config, 10);
    for port in 1..=10 {
        let reset = seg(2, 0).flags(RST).port(port);
        b.inject_dropped(reset, DropReason::UnacceptableReset);
    }
    // Up to a third of the three is withheld: how many, nobody knows.
    let answers = b.all().len();
    assert!((2..=3).contains(&answers), "{answers}");
    assert_eq!(b.stack.counters().rate_limited, 10 - answers as u64);
    b.advance(secs(1));
    b.inject_dropped(seg(2, 0).flags(RST).port(1), DropReason::UnacceptableReset);
    assert_eq!(b.all().len(), 1);
}

/// Who provokes challenges on one connection does not silence them for the others.
//~ RFC 5961 §7
#[test]
fn one_connection_does_not_use_up_the_challenges_of_all() {
    let config = Config {
        challenge_acks_per_second: 20,
        ..plain()
    };
    let mut b = crowd(config, 2);
    for _ in 0..100 {
        b.inject_dropped(seg(2, 0).flags(RST).port(1), DropReason::UnacceptableReset);
    }
    assert_eq!(b.all().len(), 1);
    b.inject_dropped(seg(2, 0).flags(RST).port(2), DropReason::UnacceptableReset);
    assert_eq!(b.all().len(), 1);
    b.advance(ms(500));
    b.inject_dropped(seg(5, 0).flags(SYN).port(1), DropReason::UnexpectedSyn);
    assert_eq!(b.all().len(), 1);
    // Nor on one that is half open.
    b.iss = None;
    b.inject(b.offer.port(3));
    b.discard();
    for _ in 0..100 {
        b.inject_dropped(seg(2, 0).flags(RST).port(3), DropReason::UnacceptableReset);
    }
    assert_eq!(b.all().len(), 1);
    b.inject_dropped(seg(2, 0).flags(RST).port(2), DropReason::UnacceptableReset);
    assert_eq!(b.all().len(), 1);
}

//~ RFC 5961 §7
#[test]
fn the_number_of_challenges_tells_nothing() {
    let config = Config {
        challenge_acks_per_second: 100,
        ..plain()
    };
    let mut b = crowd(config, 110);
    let mut budgets: Vec<usize> = (0..20)
        .map(|_| {
            b.advance(secs(1));
            for port in 1..=110 {
                let reset = seg(2, 0).flags(RST).port(port);
                b.inject_dropped(reset, DropReason::UnacceptableReset);
            }
            b.all().len()
        })
        .collect();
    assert!(
        budgets.iter().all(|n| (50..=100).contains(n)),
        "{budgets:?}"
    );
    budgets.sort();
    budgets.dedup();
    assert!(budgets.len() > 10, "{budgets:?}");
}

/// Data that begins where the window ends is not taken, and neither is what its header says.
//~ RFC 9293 MUST-66
#[test]
fn data_at_the_right_edge_is_beyond_the_window() {
    let options = ConnOptions {
        receive_buffer: 2000,
        ..ConnOptions::default()
    };
    let mut b = Bench::established(plain(), options);
    b.send(100);
    b.discard();
    b.inject_dropped(seg(2001, 1).ack(101), DropReason::BeyondWindow);
    assert_eq!(b.update.acked, 0);
    // An ACK without data may come from there.
    b.inject(seg(2001, 0).ack(101));
    assert_eq!(b.update.acked, 100);
}

/// An old RST is not even answered, also where an old ACK would count.
//~ RFC 5961 §3.2
#[test]
fn a_reset_that_was_overtaken_draws_no_challenge() {
    let mut b = bench();
    b.arrive(seg(1, 10).ack(1)).unwrap();
    let old = b.arrive(seg(10, 0).flags(RST));
    assert_eq!(old, Err(DropReason::UnacceptableReset));
    b.turn();
    assert_eq!(b.stack.counters().challenge_acks, 0);
    assert_eq!(b.info().state, State::Established);
}

#[test]
fn resets_are_limited_in_rate() {
    let config = Config {
        resets_per_second: 2,
        ..plain()
    };
    let mut b = Bench::new(config);
    for port in 1..10 {
        b.inject_dropped(b.offer.port(port), DropReason::NoListener);
    }
    assert_eq!(b.all().len(), 2);
}

#[test]
fn two_confused_peers_do_not_answer_each_other_for_ever() {
    let mut b = bench();
    for _ in 0..20 {
        b.inject_dropped(seg(0, 0).ack(1), DropReason::OldDuplicate);
    }
    assert_eq!(b.all().len(), 1);
    b.advance(ms(600));
    b.inject_dropped(seg(0, 0).ack(1), DropReason::OldDuplicate);
    assert_eq!(b.all().len(), 1);
}

fn timestamped() -> Bench {
    let mut b = Bench::listening(Config::default(), ConnOptions::default());
    b.offer = b.offer.ts(1000, 0);
    b.handshake();
    b
}

//~ RFC 7323 §5.3
#[test]
fn an_older_timestamp_marks_an_old_segment() {
    // RFC 7323 5.3.
    let mut b = timestamped();
    b.inject(seg(1, 10).ack(1).ts(1005, 0));
    b.inject_dropped(seg(11, 10).ack(1).ts(1004, 0), DropReason::Paws);
    let ack = b.expect(". 1:1 ack 11");
    assert_eq!(ack.options.timestamps.unwrap().echo, 1005);
    b.inject_dropped(seg(11, 10).ack(1), DropReason::TimestampMissing);
    b.inject(seg(11, 10).ack(1).ts(1005, 0));
    assert_eq!(b.update.received, 20);
    // RST is exempt.
    b.inject(seg(21, 0).flags(RST));
    assert_eq!(b.update.failed, Some(Failure::Reset));
}

//~ RFC 7323 §5.5
#[test]
fn a_timestamp_expires_after_24_days() {
    let mut b = timestamped();
    b.advance(secs(25 * 24 * 3600));
    b.inject(seg(1, 10).ack(1).ts(5, 0));
    assert_eq!(b.update.received, 10);
}

//~ RFC 7323 §4.3
#[test]
fn the_timestamp_of_the_segment_being_acknowledged_is_echoed() {
    // RFC 7323 4.3: of several, the first; and not that of one beyond a hole.
    let mut b = timestamped();
    b.arrive(seg(1, 1000).ack(1).ts(1010, 0)).unwrap();
    b.arrive(seg(1001, 1000).ack(1).ts(1020, 0)).unwrap();
    b.turn();
    let ack = b.expect(". 1:1 ack 2001");
    assert_eq!(ack.options.timestamps.unwrap().echo, 1010);
    b.inject(seg(5001, 100).ack(1).ts(1030, 0));
    let ack = b.expect(". 1:1 ack 2001");
    assert_eq!(ack.options.timestamps.unwrap().echo, 1010);
}

//~ RFC 7323 §5.4
#[test]
fn our_timestamps_are_a_clock_of_milliseconds() {
    let mut b = timestamped();
    b.send(10);
    let first = b.next().unwrap().options.timestamps.unwrap();
    assert_eq!(first.echo, 1000);
    b.inject(seg(1, 0).ack(11).ts(1001, first.value));
    b.advance(ms(1234));
    b.send(10);
    let second = b.next().unwrap().options.timestamps.unwrap();
    assert_eq!(second.value.wrapping_sub(first.value), 1234);
}

//~ RFC 9293 MUST-26
#[test]
fn keepalive_probes_an_idle_peer() {
    let mut b = kept_alive();
    b.advance(secs(59));
    b.quiet();
    b.advance(secs(2));
    b.expect(". 0:0 ack 1");
    b.inject(seg(1, 0).ack(1));
    // The answer was 1 s ago.
    b.advance(secs(58));
    b.quiet();
    b.advance(secs(3));
    b.expect(". 0:0 ack 1");
    assert_eq!(b.update.failed, None);
}

/// What is handed over in the moment in which a keep-alive probe is due fits one segment and nothing is in
/// flight: the short way out (`connection/one_segment.rs`) is not for it, or the probe would follow the data.
#[test]
fn a_keepalive_probe_that_is_due_leaves_before_data() {
    let mut b = kept_alive();
    b.now += secs(61);
    b.stack.on_timeout(b.now, 1000);
    b.send(10);
    assert_eq!(b.all(), [". 0:0 ack 1", "P. 1:11 ack 1"]);
    b.inject(seg(1, 0).ack(11));
    b.quiet();
}

//~ RFC 9293 MUST-29
#[test]
fn keepalive_gives_up_on_a_dead_peer() {
    let mut b = kept_alive();
    b.advance(secs(85));
    assert_eq!(b.all(), [". 0:0 ack 1"; 3]);
    b.advance(secs(6));
    b.expect("R. 1:1 ack 1");
    assert_eq!(b.update.failed, Some(Failure::TimedOut));
    b.quiet();
}

#[test]
fn the_user_timeout_overrides_the_count_of_keepalive_probes() {
    let mut b = kept_alive();
    b.request(Request::SetOption(ConnOption::UserTimeout(secs(65))));
    b.advance(secs(71));
    assert_eq!(b.update.failed, Some(Failure::TimedOut));
}

//~ RFC 9293 MUST-24, MUST-27
//~ RFC 9293 MUST-28
#[test]
fn keepalive_can_be_switched() {
    let mut b = kept_alive();
    b.request(Request::SetOption(ConnOption::KeepAlive(false)));
    b.advance(secs(7200));
    b.quiet();
    b.request(Request::SetOption(ConnOption::KeepAliveIdle(secs(5))));
    b.request(Request::SetOption(ConnOption::KeepAlive(true)));
    b.advance(secs(6));
    b.expect(". 0:0 ack 1");
    for bad in [
        ConnOption::KeepAliveIdle(secs(0)),
        ConnOption::KeepAliveInterval(secs(32_768)),
        ConnOption::KeepAliveCount(0),
        ConnOption::KeepAliveCount(128),
        ConnOption::MaxSegment(10),
    ] {
        let result = b
            .stack
            .on_request(b.now, b.conn.unwrap(), Request::SetOption(bad));
        assert_eq!(result, Err(tcp::RequestError::BadOption));
    }
}

#[test]
fn a_keepalive_of_the_peer_is_answered() {
    let mut b = bench();
    b.inject_dropped(seg(0, 0).ack(1), DropReason::OldDuplicate);
    b.expect(". 1:1 ack 1");
    // With a byte of garbage, as old stacks send it.
    b.inject_dropped(seg(0, 1).ack(1), DropReason::OldDuplicate);
    b.expect(". 1:1 ack 1");
}

#[test]
fn idle_connections_have_no_timers() {
    let mut b = bench();
    b.send(10);
    b.inject(seg(1, 0).ack(11));
    b.inject(seg(1, 10).ack(11));
    b.send(10);
    b.inject(seg(11, 0).ack(21));
    b.advance(secs(5));
    assert_eq!(b.stack.next_timeout(), None);
    assert!(!b.stack.wants_transmit());
}

#[test]
fn a_run_is_repeated_by_its_seed() {
    let trace = |seed| {
        let mut b = Bench::new(Config::default());
        b.stack = tcp::Stack::new(Config::default(), [seed; 32]);
        b.connect(ConnOptions::default());
        b.turn();
        b.next().unwrap().raw
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1).seq, trace(2).seq);
}

#[test]
fn no_segment_whatever_makes_it_panic() {
    // Random headers around the edges of a live connection.
    let mut seed = 99u64;
    let mut next = move |n: u64| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) % n
    };
    for round in 0..300 {
        let mut b = if round % 2 == 0 {
            timestamped()
        } else {
            kept_alive()
        };
        b.send(1 + next(30_000) as u32);
        for _ in 0..60 {
            let mut s = seg(
                next(6000) as i64 - 2000,
                next(3000) as usize * next(2) as usize,
            );
            s.seq = if next(8) == 0 {
                next(1 << 32) as i64
            } else {
                s.seq.max(1)
            };
            s.flags = wire::tcp::Flags::from_bits(match next(4) {
                0 => next(256) as u8,
                1 => 0x11,
                _ => 0x10,
            });
            s.ack = s
                .flags
                .contains(wire::tcp::Flags::ACK)
                .then(|| next(40_000) as i64 - 3000);
            s.window = next(65_536) as u16;
            if next(2) == 0 {
                s = s.ts(1000 + next(30) as u32, next(1 << 20) as u32);
            }
            if next(4) == 0 {
                let from = next(30_000) as i64;
                s.options.sack = blocks(&[(from, from + next(3000) as i64)], b.iss.unwrap());
            }
            // Payload must match its place in the stream, which only small offsets do.
            if s.seq < 1 || s.seq > 100_000 {
                s.len = 0;
            }
            b.inject(s);
            match next(6) {
                0 => b.advance(ms(next(2000))),
                1 => {
                    let total = b.update.received;
                    let _ = b
                        .stack
                        .on_request(b.now, b.conn.unwrap(), Request::Consumed(total));
                }
                2 if next(10) == 0 => {
                    let _ = b
                        .stack
                        .on_request(b.now, b.conn.unwrap(), Request::ShutdownWrite);
                }
                3 if next(30) == 0 => {
                    let _ = b.stack.on_request(b.now, b.conn.unwrap(), Request::Close);
                }
                _ => {}
            }
        }
        let _ = b.stack.on_request(b.now, b.conn.unwrap(), Request::Abort);
        b.advance(secs(3600));
        assert_eq!(b.stack.connection_count(), 0);
        assert_eq!(b.stack.flow_count(), 0);
    }
}
