//! The path's MTU, by ICMP and without; and what other ICMP errors do.

mod common;

use common::*;
use tcp::{Config, ConnOptions, DropReason, Failure, State};
use wire::icmp::Reason;

fn too_big(mtu: u32) -> Reason {
    Reason::TooBig { mtu }
}

/// A connection over Ethernet to a peer that takes full segments.
fn ethernet() -> Bench {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.offer = b.offer.mss(1460);
    b.handshake();
    b
}

fn ethernet6() -> Bench {
    let mut b = offered_by_ipv6(plain());
    b.handshake();
    b
}

fn ethernet6_with_timestamps() -> Bench {
    let config = Config {
        timestamps: true,
        ..plain()
    };
    let mut b = offered_by_ipv6(config);
    b.offer = b.offer.ts(1, 0);
    b.handshake();
    b
}

fn offered_by_ipv6(config: Config) -> Bench {
    let mut b = Bench::listening(config, ConnOptions::default());
    b.local = "[2001:db8::1]:80".parse().unwrap();
    b.peer = "2001:db8::7".parse().unwrap();
    b.offer = b.offer.mss(1440);
    b
}

//~ RFC 1191 §3, §6.4
//~ RFC 9293 MUST-54
#[test]
fn a_router_makes_segments_smaller_and_they_are_sent_again_at_once() {
    let mut b = ethernet();
    b.send(3000);
    assert_eq!(b.all().len(), 3);
    let window = b.info().cwnd;
    assert_eq!(b.icmp(too_big(1000), 1), Ok(()));
    let sent = b.all();
    assert_eq!(sent[..2], [". 1:961 ack 1", ". 961:1921 ack 1"]);
    assert_eq!((b.info().path_mtu, b.info().send_mss), (1000, 960));
    // It was not congestion.
    assert!(b.info().cwnd >= window / 960 * 960);
    assert_eq!(b.stack.counters().path_mtu_reductions, 1);
    // The other segments were too large as well, and the router says so: nothing new.
    assert_eq!(b.icmp(too_big(1000), 1461), Err(DropReason::IcmpIgnored));
    b.inject(seg(1, 0).ack(3001));
    b.send(1000);
    b.expect(". 3001:3961 ack 1");
}

//~ RFC 1191 §3, §5
#[test]
fn what_routers_say_is_taken_within_reason() {
    let mut b = ethernet();
    b.send(1000);
    b.discard();
    // Not larger, and not below what any link has.
    for mtu in [1500, 9000, 70_000, 67, 1] {
        assert_eq!(b.icmp(too_big(mtu), 1), Err(DropReason::IcmpIgnored));
    }
    assert_eq!(b.info().path_mtu, 1500);
    // Old routers do not say how large.
    assert_eq!(b.icmp(too_big(0), 1), Ok(()));
    assert_eq!(b.info().path_mtu, 1492);
    // Tiny links are taken for small ones.
    assert_eq!(b.icmp(too_big(100), 1), Ok(()));
    assert_eq!(b.info().path_mtu, 552);
}

//~ RFC 8201 §4
#[test]
fn a_packet_that_fits_was_not_refused_for_its_size() {
    let mut b = ethernet();
    b.send(500);
    b.expect("P. 1:501 ack 1");
    for mtu in [540, 541, 1000] {
        let said = b.icmp_about(too_big(mtu), 1, 540);
        assert_eq!(said, Err(DropReason::IcmpIgnored));
    }
    b.quiet();
    assert_eq!(b.info().path_mtu, 1500);
    assert_eq!(b.stack.counters().dropped(DropReason::IcmpIgnored), 3);
    // Smaller than the packet, if but by a byte, it is believed.
    assert_eq!(b.icmp_about(too_big(539), 1, 540), Ok(()));
    assert_eq!(b.info().path_mtu, 552);
}

//~ RFC 8201 §4, §5.4
#[test]
fn over_ipv6_nothing_is_smaller_than_1280() {
    let mut b = ethernet6();
    b.send(1000);
    b.discard();
    assert_eq!(b.icmp(too_big(1279), 1), Err(DropReason::IcmpIgnored));
    assert_eq!(b.icmp(too_big(0), 1), Err(DropReason::IcmpIgnored));
    assert_eq!(b.icmp(too_big(1280), 1), Ok(()));
    assert_eq!((b.info().path_mtu, b.info().send_mss), (1280, 1220));
}

//~ RFC 8201 §4
#[test]
fn an_error_about_what_is_not_in_flight_is_not_believed() {
    let mut b = ethernet();
    // Nothing is in flight.
    assert_eq!(b.icmp(too_big(1000), 1), Err(DropReason::IcmpOutOfWindow));
    b.send(3000);
    b.discard();
    b.inject(seg(1, 0).ack(1461));
    for seq in [0, 1, 1460, 3001, -100_000, 100_000] {
        let result = b.icmp(too_big(1000), seq);
        assert_eq!(result, Err(DropReason::IcmpOutOfWindow), "{seq}");
    }
    assert_eq!(b.icmp(too_big(1000), 1461), Ok(()));
    // Nor one about a connection that is not there.
    b.offer.src_port += 1;
    assert_eq!(
        b.icmp(too_big(1000), 1461),
        Err(DropReason::IcmpNoConnection)
    );
}

//~ RFC 1191 §6.3
//~ RFC 8201 §5.2, §5.3
#[test]
fn the_next_connection_knows_the_path_for_ten_minutes() {
    let mut b = ethernet();
    b.send(1000);
    b.discard();
    b.icmp(too_big(1300), 1).unwrap();
    b.inject(seg(1, 0).ack(1001));
    b.discard();
    b.offer = b.offer.port(2);
    b.handshake();
    assert_eq!(b.info().path_mtu, 1300);
    // What is announced to the peer is about our own link.
    b.iss = None;
    b.inject(b.offer.port(3));
    assert_eq!(b.expect("S. 0:0 ack 1").options.mss, Some(1460));
    b.advance(secs(601));
    b.discard();
    b.offer = b.offer.port(4);
    b.handshake();
    assert_eq!(b.info().path_mtu, 1500);
}

#[test]
fn the_memory_of_paths_is_bounded() {
    let config = tcp::Config {
        max_path_mtus: 1,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    let learn = |b: &mut Bench, last: u8| {
        b.peer = [198, 51, 100, last].into();
        b.offer.src_port += 1;
        b.handshake();
        b.send(1000);
        b.discard();
        let before = b.info().path_mtu;
        b.icmp(too_big(1300), 1).unwrap_or_default();
        b.discard();
        before
    };
    assert_eq!(learn(&mut b, 1), 1500);
    assert_eq!(learn(&mut b, 1), 1300);
    assert_eq!(learn(&mut b, 2), 1500);
    assert_eq!(learn(&mut b, 1), 1500, "the other took its place");
}

//~ RFC 9293 MUST-47, MUST-55, MUST-56
#[test]
fn soft_errors_end_nothing_but_are_named_in_the_end() {
    let mut b = ethernet();
    b.send(1000);
    b.discard();
    assert_eq!(
        b.icmp(Reason::SourceQuench, 1),
        Err(DropReason::IcmpIgnored)
    );
    assert_eq!(b.info().soft_error, None);
    // Even what is hard elsewhere is soft once there is a connection.
    for reason in [
        Reason::PortUnreachable,
        Reason::ProtocolUnreachable,
        Reason::Prohibited,
        Reason::HostUnreachable,
        Reason::TimeExceeded,
        Reason::ParameterProblem,
        Reason::NetUnreachable,
    ] {
        b.icmp(reason, 1).unwrap();
        assert_eq!(b.info().state, State::Established);
    }
    assert_eq!(b.info().soft_error, Some(Failure::NetworkUnreachable));
    assert_eq!(b.update.failed, None);
    b.advance(secs(3600));
    assert_eq!(b.update.failed, Some(Failure::NetworkUnreachable));
}

#[test]
fn a_soft_error_is_forgotten_when_what_was_in_flight_has_arrived() {
    let mut b = ethernet();
    b.send(1000);
    b.discard();
    b.icmp(Reason::HostUnreachable, 1).unwrap();
    b.inject(seg(1, 0).ack(1001));
    assert_eq!(b.info().soft_error, None);
    b.send(1000);
    b.advance(secs(3600));
    assert_eq!(b.update.failed, Some(Failure::TimedOut));
}

//~ RFC 9293 MUST-54
#[test]
fn hard_errors_end_an_attempt_to_connect() {
    for (reason, failure) in [
        (Reason::PortUnreachable, Failure::Refused),
        (Reason::ProtocolUnreachable, Failure::HostUnreachable),
        (Reason::Prohibited, Failure::HostUnreachable),
    ] {
        let mut b = Bench::new(plain());
        b.connect(ConnOptions::default());
        b.turn();
        b.expect("S 0:0");
        assert_eq!(b.icmp(reason, 1), Err(DropReason::IcmpOutOfWindow));
        assert_eq!(b.icmp(Reason::HostUnreachable, 0), Ok(()));
        assert_eq!(b.update.failed, None, "a route may come back");
        assert_eq!(b.icmp(reason, 0), Ok(()));
        assert_eq!(b.update.failed, Some(failure));
    }
}

#[test]
fn a_handshake_with_nobody_is_forgotten() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.inject(b.offer);
    b.expect("S. 0:0 ack 1");
    assert_eq!(
        b.icmp(Reason::HostUnreachable, 1),
        Err(DropReason::IcmpOutOfWindow)
    );
    assert_eq!(b.icmp(too_big(1000), 0), Err(DropReason::IcmpIgnored));
    assert_eq!(b.stack.half_open_count(), 1);
    assert_eq!(b.icmp(Reason::HostUnreachable, 0), Ok(()));
    assert_eq!(b.stack.half_open_count(), 0);
}

//~ RFC 4821 §7.7
#[test]
fn a_black_hole_is_found_by_timeouts_of_full_segments() {
    let mut b = ethernet();
    b.send(10_000);
    b.discard();
    let mut sizes = Vec::new();
    for _ in 0..6 {
        while b.sink.sent.is_empty() {
            b.advance(ms(100));
        }
        sizes.push(b.next().unwrap().len);
        b.discard();
    }
    assert_eq!(sizes, [1460, 1460, 1240, 1240, 512, 512]);
    assert_eq!(b.stack.counters().path_mtu_black_holes, 2);
}

/// A path that carries 1,280 bytes and no more: 1,284 are too many, options included.
//~ RFC 4821 §7.7
#[test]
fn a_black_hole_may_be_a_few_bytes_deep() {
    let mut b = ethernet6_with_timestamps();
    b.send(10_000);
    b.discard();
    assert_eq!(b.icmp(too_big(1284), 1), Ok(()));
    let mut sizes = Vec::new();
    for _ in 0..5 {
        while b.sink.sent.is_empty() {
            b.advance(ms(100));
        }
        sizes.push(b.next().unwrap().len);
        b.discard();
    }
    assert_eq!(sizes, [1212, 1212, 1212, 1208, 1208]);
}

/// The peer's window has closed, and that it is open again was lost. It would answer what arrives.
//~ RFC 4821 §7.7
#[test]
fn a_black_hole_is_found_though_the_window_is_closed() {
    let mut b = ethernet();
    b.send(3000);
    b.discard();
    b.inject(seg(1, 0).ack(1461).window(0));
    b.discard();
    b.advance(secs(60));
    assert_eq!(b.stack.counters().path_mtu_black_holes, 2);
    assert_eq!(b.info().path_mtu, 552);
}

#[test]
fn a_lost_tail_is_no_black_hole() {
    let mut b = ethernet();
    b.send(100);
    b.advance(secs(30));
    assert_eq!(b.stack.counters().path_mtu_black_holes, 0);
    assert_eq!(b.info().path_mtu, 1500);
}

/// A connection in a black hole, found out: its segments are smaller than its peer would take.
fn in_black_hole() -> Bench {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.offer = b.offer.mss(1460);
    b.handshake();
    b.send(1460);
    for _ in 0..100 {
        if b.info().path_mtu < 1500 {
            break;
        }
        b.advance(ms(100));
    }
    b.discard();
    assert_eq!(b.info().path_mtu, 1280);
    b.inject(seg(1, 0).ack(1461));
    b.discard();
    b
}

//~ RFC 8201 §5.2
#[test]
fn the_next_connection_avoids_a_black_hole() {
    let mut b = in_black_hole();
    b.offer = b.offer.port(2);
    b.handshake();
    assert_eq!(b.info().path_mtu, 1280);
    b.advance(secs(601));
    b.discard();
    b.offer = b.offer.port(3);
    b.handshake();
    assert_eq!(b.info().path_mtu, 1500);
    // A peer that has died is no black hole.
    let mut b = ethernet();
    b.send(1460);
    b.advance(secs(3));
    assert_eq!(b.info().path_mtu, 1280);
    b.discard();
    b.offer = b.offer.port(2);
    b.handshake();
    assert_eq!(b.info().path_mtu, 1500);
}

/// Sends and acknowledges `count` times ten segments; the lengths seen that were not the usual.
fn exchange(b: &mut Bench, at: &mut i64, count: usize, lose_over: usize) -> Vec<usize> {
    let mut unusual = Vec::new();
    for _ in 0..count {
        let usual = usize::from(b.info().send_mss);
        b.send(20_000);
        let end = *at + 20_000;
        let (mut acked, mut turns) = (*at, 0);
        let mut held: Vec<(i64, i64)> = Vec::new();
        while acked < end {
            turns += 1;
            assert!(turns < 1000, "no progress");
            let mut arrived = Vec::new();
            for sent in b.all_sent() {
                if sent.len != usual && sent.seq + (sent.len as i64) < end {
                    unusual.push(sent.len);
                }
                assert_eq!(sent.gso_size, 0);
                if sent.len <= lose_over {
                    arrived.push((sent.seq, sent.seq + sent.len as i64));
                }
            }
            if arrived.is_empty() {
                b.advance(ms(50));
            }
            for (from, to) in arrived {
                // What is behind a hole is kept, but not SACKed.
                held.push((from, to));
                held.sort_unstable();
                for &(from, to) in &held {
                    acked = if from <= acked { acked.max(to) } else { acked };
                }
                b.inject(seg(1, 0).ack(acked));
            }
        }
        *at = end;
    }
    unusual
}

//~ RFC 4821 §7.2, §7.3, §7.4, §7.5, §7.6, §10.1
#[test]
fn a_larger_segment_is_tried_and_kept_when_it_arrives() {
    let mut b = in_black_hole();
    let mut at = 1461;
    // Not at once, and not without enough to send behind it.
    assert_eq!(exchange(&mut b, &mut at, 1, 9000), [0; 0]);
    b.advance(secs(6));
    b.send(1000);
    b.discard();
    b.inject(seg(1, 0).ack(at + 1000));
    at += 1000;
    assert_eq!(b.stack.counters().path_mtu_probes, 0);
    let window = b.info().cwnd;
    let mut unusual = exchange(&mut b, &mut at, 4, 9000);
    unusual.dedup();
    // Halfway to 1500 each time, less the headers: 1390, 1445, 1472, 1486.
    assert_eq!(unusual[..3], [1350, 1405, 1432], "{unusual:?}");
    assert!(b.info().path_mtu > 1480, "{}", b.info().path_mtu);
    assert!(b.info().cwnd >= window);
    // In ten minutes the whole size gets its chance.
    b.advance(secs(601));
    b.discard();
    exchange(&mut b, &mut at, 1, 9000);
    assert_eq!(b.info().path_mtu, 1500);
    assert_eq!(b.stack.counters().path_mtu_probes_lost, 0);
}

//~ RFC 4821 §7.6
#[test]
fn an_mtu_probe_that_is_lost_costs_only_its_retransmission() {
    let mut b = in_black_hole();
    b.advance(secs(6));
    let mut at = 1461;
    // Room for the window to be known.
    exchange(&mut b, &mut at, 2, 1360);
    let window = b.info().cwnd;
    b.advance(secs(6));
    b.discard();
    let unusual = exchange(&mut b, &mut at, 1, 1360);
    assert!(unusual.iter().any(|&len| len > 1360), "{unusual:?}");
    assert!(b.stack.counters().path_mtu_probes_lost >= 1);
    assert!(b.info().cwnd >= window * 9 / 10);
    assert!(b.info().ssthresh.is_some());
    assert!(b.info().path_mtu <= 1400);
    assert_eq!(b.stack.counters().path_mtu_black_holes, 1);
}

/// Without timestamps what was sent again gives no sample of the round trip, by which the time out would fall.
#[test]
fn full_segments_that_arrive_between_timeouts_are_no_black_hole() {
    let mut b = ethernet();
    b.send(20_000);
    b.discard();
    for arrived in 1..=4 {
        while b.sink.sent.is_empty() {
            b.advance(ms(100));
        }
        assert_eq!(b.next().unwrap().len, 1460);
        b.discard();
        b.inject(seg(1, 0).ack(1 + 1460 * arrived));
        b.discard();
    }
    assert_eq!(b.stack.counters().path_mtu_black_holes, 0);
    assert_eq!(b.info().path_mtu, 1500);
}

/// A peer that has no room answers every retransmission. So they arrive, whatever their size.
//~ RFC 4821 §7.7
#[test]
fn a_peer_that_answers_is_no_black_hole() {
    for window in [0, 300] {
        let mut b = ethernet();
        b.send(10_000);
        b.discard();
        for _ in 0..8 {
            while b.sink.sent.is_empty() {
                b.advance(ms(100));
            }
            assert_eq!(b.next().unwrap().len, 1460);
            b.discard();
            b.inject(seg(1, 0).ack(1).window(window));
            b.discard();
        }
        assert_eq!(b.stack.counters().path_mtu_black_holes, 0);
        assert_eq!(b.info().path_mtu, 1500);
        // Nobody else has heard of a black hole.
        b.offer = b.offer.port(2);
        b.handshake();
        assert_eq!(b.info().path_mtu, 1500);
    }
}
