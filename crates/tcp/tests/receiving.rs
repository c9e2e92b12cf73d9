//! Receiving: order, holes, windows, acknowledgements.

mod common;

use common::*;
use tcp::{Config, ConnOption, ConnOptions, DropReason, Request, RequestError};

fn bench() -> Bench {
    Bench::established(plain(), ConnOptions::default())
}

/// Past the first segments, which are acknowledged early.
fn seasoned() -> Bench {
    let config = Config {
        quick_acks: 0,
        ..plain()
    };
    Bench::established(config, ConnOptions::default())
}

//~ RFC 5681 §4.2
#[test]
fn every_second_full_segment_is_acknowledged() {
    let mut b = seasoned();
    b.inject(seg(1, 1000).ack(1));
    b.quiet();
    b.inject(seg(1001, 1000).ack(1));
    b.expect(". 1:1 ack 2001");
    b.inject(seg(2001, 1000).ack(1));
    b.quiet();
    b.advance(ms(39));
    b.quiet();
    b.advance(ms(2));
    b.expect(". 1:1 ack 3001");
    b.quiet();
    assert_eq!(b.stack.counters().delayed_acks, 1);
}

#[test]
fn a_young_connection_acknowledges_every_full_segment() {
    let mut b = bench();
    for i in 0..16 {
        b.inject(seg(1 + i * 1000, 1000).ack(1));
        b.expect(&format!(". 1:1 ack {}", 1001 + i * 1000));
    }
    b.inject(seg(16_001, 1000).ack(1));
    b.quiet();
}

#[test]
fn a_young_connection_does_not_keep_a_peer_waiting() {
    let mut b = bench();
    b.inject(seg(1, 10).ack(1));
    b.quiet();
    b.advance(ms(3));
    b.expect(". 1:1 ack 11");
}

//~ RFC 9293 MUST-58, MUST-59
#[test]
fn a_batch_ends_in_one_acknowledgement() {
    let mut b = bench();
    for i in 0..32 {
        b.arrive(seg(1 + i * 1000, 1000).ack(1)).unwrap();
    }
    b.turn();
    b.expect(". 1:1 ack 32001");
    b.quiet();
}

#[test]
fn an_acknowledgement_rides_on_data() {
    let mut b = bench();
    b.arrive(seg(1, 100).ack(1)).unwrap();
    b.turn();
    b.quiet();
    b.send(50);
    b.expect("P. 1:51 ack 101");
    b.advance(ms(100));
    b.quiet();
}

#[test]
fn holes_are_acknowledged_at_once_and_filled() {
    let mut b = seasoned();
    b.inject(seg(1001, 1000).ack(1));
    b.expect(". 1:1 ack 1");
    b.inject(seg(3001, 1000).ack(1));
    b.expect(". 1:1 ack 1");
    assert_eq!(b.info().out_of_order, 2000);
    assert_eq!(b.update.received, 0);
    b.inject(seg(1, 1000).ack(1));
    b.expect(". 1:1 ack 2001");
    b.inject(seg(2001, 1000).ack(1));
    b.expect(". 1:1 ack 4001");
    b.quiet();
    assert_eq!(b.update.received, 4000);
    assert_eq!(b.info().out_of_order, 0);
}

#[test]
fn a_peer_that_counts_duplicates_gets_them_all() {
    let mut b = seasoned();
    for i in 1..6 {
        b.arrive(seg(1 + i * 1000, 1000).ack(1)).unwrap();
    }
    b.turn();
    assert_eq!(b.all(), [". 1:1 ack 1"; 5]);
    b.inject(seg(1, 1000).ack(1));
    b.expect(". 1:1 ack 6001");
    b.quiet();
    // Data on the way out does not take their place.
    b.arrive(seg(7001, 1000).ack(1)).unwrap();
    b.arrive(seg(8001, 1000).ack(1)).unwrap();
    b.send(10);
    assert_eq!(
        b.all(),
        ["P. 1:11 ack 6001", ". 11:11 ack 6001", ". 11:11 ack 6001"]
    );
}

#[test]
fn every_byte_is_placed_once() {
    let mut b = seasoned();
    b.inject(seg(101, 100).ack(1));
    b.inject(seg(301, 100).ack(1));
    // Covers both islands and the holes around them.
    b.inject(seg(1, 500).ack(1));
    assert_eq!(
        b.store.placed,
        [(100, 100), (300, 100), (0, 100), (200, 100), (400, 100)]
    );
    assert_eq!(b.update.received, 500);
    b.discard();
    b.inject_dropped(seg(1, 500).ack(1), DropReason::OldDuplicate);
    b.expect(". 1:1 ack 501");
    // Half old, half new.
    b.inject(seg(401, 200).ack(1));
    assert_eq!(b.update.received, 600);
    assert_eq!(b.store.placed.last(), Some(&(500, 100)));
}

/// A connection on which both ends acknowledge selectively.
fn with_selective_acks() -> Bench {
    let config = Config {
        selective_acks: true,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    b.offer = b.offer.sack_permitted();
    b.handshake();
    b
}

//~ RFC 2018 §4
#[test]
fn the_latest_range_is_in_the_first_sack_block() {
    let mut b = with_selective_acks();
    let sack_blocks = |b: &mut Bench| {
        let sent = b.next().unwrap();
        let base = sent.raw.ack.unwrap();
        sent.options
            .sack
            .as_slice()
            .iter()
            .map(|s| (s.left.distance_from(base), s.right.distance_from(base)))
            .collect::<Vec<_>>()
    };
    b.inject(seg(101, 100).ack(1));
    assert_eq!(sack_blocks(&mut b), [(100, 200)]);
    b.inject(seg(501, 100).ack(1));
    assert_eq!(sack_blocks(&mut b), [(500, 600), (100, 200)]);
    b.inject(seg(301, 100).ack(1));
    assert_eq!(sack_blocks(&mut b), [(300, 400), (500, 600), (100, 200)]);
    b.inject(seg(1, 100).ack(1));
    assert_eq!(sack_blocks(&mut b), [(100, 200), (300, 400)]);
}

//~ RFC 2883 §4
#[test]
fn an_answer_with_payload_carries_a_dsack_too() {
    let mut b = with_selective_acks();
    b.inject(seg(1, 100).ack(1).window(0));
    b.send(10);
    b.discard();
    // Half of it came before, and it opens the window for the answer.
    b.inject(seg(51, 100).ack(1).window(1000));
    let sent = b.expect("P. 1:11 ack 151");
    let base = sent.raw.ack.unwrap();
    let twice = sent.options.sack.as_slice().to_vec();
    assert_eq!(twice.len(), 1);
    assert_eq!(twice[0].left.distance_from(base), -100);
    assert_eq!(twice[0].right.distance_from(base), -50);
}

#[test]
fn ranges_out_of_order_are_bounded() {
    let config = Config {
        max_out_of_order_ranges: 2,
        ..plain()
    };
    let mut b = Bench::established(config, ConnOptions::default());
    b.inject(seg(101, 10).ack(1));
    b.inject(seg(201, 10).ack(1));
    b.inject_dropped(seg(301, 10).ack(1), DropReason::OutOfOrderFull);
    b.inject(seg(211, 10).ack(1));
    assert_eq!(b.info().out_of_order, 30);
    // The hole at the front can always be filled.
    b.inject(seg(1, 100).ack(1));
    assert_eq!(b.update.received, 110);
}

#[test]
fn shedding_lets_go_of_what_is_out_of_order() {
    let mut b = bench();
    b.inject(seg(101, 100).ack(1));
    assert_eq!(b.stack.shed_out_of_order(b.conn.unwrap()), 100);
    b.inject(seg(1, 100).ack(1));
    assert_eq!(b.update.received, 100);
    b.inject(seg(101, 100).ack(1));
    assert_eq!(b.update.received, 200);
}

#[test]
fn without_memory_nothing_is_acknowledged() {
    let mut b = seasoned();
    b.store.room = Some(30);
    b.inject_dropped(seg(1, 100).ack(1), DropReason::NoMemory);
    b.expect(". 1:1 ack 31");
    assert_eq!(b.update.received, 30);
    b.inject_dropped(seg(31, 70).ack(1), DropReason::NoMemory);
    b.expect(". 1:1 ack 31");
    b.store.room = None;
    b.inject(seg(31, 70).ack(1));
    assert_eq!(b.update.received, 100);
}

//~ RFC 9293 MUST-39
#[test]
fn sws_avoidance_opens_the_window_in_large_steps() {
    let options = ConnOptions {
        receive_buffer: 4000,
        ..ConnOptions::default()
    };
    let mut b = Bench::established(plain(), options);
    for i in 0..4 {
        b.inject(seg(1 + i * 1000, 1000).ack(1));
    }
    let last = std::iter::from_fn(|| b.next()).last().unwrap();
    assert_eq!((last.brief().as_str(), last.window), (". 1:1 ack 4001", 0));
    // What comes beyond the window is not taken.
    b.inject_dropped(seg(4001, 1000).ack(1), DropReason::BeyondWindow);
    assert_eq!(b.expect(". 1:1 ack 4001").window, 0);
    // A little room is not worth telling.
    b.request(Request::Consumed(500));
    b.quiet();
    b.request(Request::Consumed(1000));
    assert_eq!(b.expect(". 1:1 ack 4001").window, 1000);
    // What arrives then is told with the rest.
    b.inject(seg(4001, 1000).ack(1));
    assert_eq!(b.expect(". 1:1 ack 5001").window, 0);
    b.request(Request::Consumed(5000));
    assert_eq!(b.expect(". 1:1 ack 5001").window, 4000);
    b.quiet();
}

#[test]
fn a_reader_that_keeps_up_causes_no_window_updates() {
    let mut b = seasoned();
    for i in 0..100u64 {
        b.inject(seg(1 + i as i64 * 1000, 1000).ack(1));
        b.request(Request::Consumed((i + 1) * 1000));
    }
    assert_eq!(b.all().len(), 50);
}

//~ RFC 7323 §2.4
#[test]
fn the_right_edge_never_moves_back() {
    let mut b = seasoned();
    b.stack.set_receive_buffer(b.now, b.conn.unwrap(), 1000);
    b.inject(seg(1, 1000).ack(1));
    b.inject(seg(1001, 1000).ack(1));
    // 65,535 were offered in the handshake.
    assert_eq!(b.expect(". 1:1 ack 2001").window, 63_535);
    for i in 2..65 {
        b.inject(seg(1 + i * 1000, 1000).ack(1));
    }
    b.inject(seg(65_001, 1000).ack(1));
    assert_eq!(b.update.received, 65_535);
    b.inject_dropped(seg(65_536, 1000).ack(1), DropReason::BeyondWindow);
}

//~ RFC 7323 §2.4
#[test]
fn what_a_syn_has_offered_is_kept() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.turn();
    assert_eq!(b.expect("S 0:0").window, 65_535);
    b.stack.set_receive_buffer(b.now, b.conn.unwrap(), 1000);
    b.advance(ms(1001));
    assert_eq!(b.expect("S 0:0").window, 65_535);
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    assert_eq!(b.expect(". 1:1 ack 1").window, 65_535);
    for i in 0..65 {
        b.inject(seg(1 + i * 1000, 1000).ack(1));
    }
    assert_eq!(b.update.received, 65_000);
}

#[test]
fn what_a_syn_offers_of_a_simultaneous_open_is_kept() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.turn();
    b.expect("S 0:0");
    let resize = |b: &mut Bench, bytes| {
        b.stack.set_receive_buffer(b.now, b.conn.unwrap(), bytes);
    };
    resize(&mut b, 1000);
    b.inject(seg(0, 0).flags(SYN).mss(1000));
    assert_eq!(b.expect("S. 0:0 ack 1").window, 65_535);
    // Less at first, and then more.
    let mut b = Bench::new(plain());
    b.connect(ConnOptions {
        receive_buffer: 1000,
        ..ConnOptions::default()
    });
    b.turn();
    assert_eq!(b.expect("S 0:0").window, 1000);
    resize(&mut b, 30_000);
    b.inject(seg(0, 0).flags(SYN).mss(1000));
    assert_eq!(b.expect("S. 0:0 ack 1").window, 30_000);
    resize(&mut b, 1000);
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    assert_eq!(b.expect(". 1:1 ack 1").window, 30_000);
}

#[test]
fn what_a_listener_has_offered_is_kept() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.inject(b.offer);
    assert_eq!(b.expect("S. 0:0 ack 1").window, 65_535);
    let less = ConnOptions {
        receive_buffer: 1000,
        ..ConnOptions::default()
    };
    b.stack.set_listener_options(b.listener.unwrap(), less);
    b.inject(seg(1, 1000).ack(1));
    assert_eq!(b.expect(". 1:1 ack 1001").window, 64_535);
    // The next one is offered what there is now.
    b.iss = None;
    b.inject(b.offer.port(2));
    assert_eq!(b.expect("S. 0:0 ack 1").window, 1000);
}

//~ RFC 7323 §2.3
#[test]
fn a_scaled_window_is_rounded_down() {
    let config = Config {
        window_scaling: true,
        ..plain()
    };
    let options = ConnOptions {
        receive_buffer: 1 << 20,
        ..ConnOptions::default()
    };
    let mut b = Bench::listening(config, options);
    b.offer = b.offer.wscale(0);
    b.handshake();
    b.inject(seg(1, 1000).ack(1));
    let ack = b.expect(". 1:1 ack 1001");
    assert_eq!(u32::from(ack.window), ((1 << 20) - 1000) >> 7);
    assert_eq!(b.info().receive_window, ((1 << 20) - 1000) >> 7 << 7);
}

//~ RFC 9293 §3.10.3
#[test]
fn consumed_is_checked() {
    let mut b = bench();
    b.inject(seg(1, 100).ack(1));
    let mut ask = |total| {
        b.stack
            .on_request(b.now, b.conn.unwrap(), Request::Consumed(total))
    };
    assert_eq!(ask(60), Ok(()));
    assert_eq!(ask(59), Err(RequestError::BadConsumed));
    assert_eq!(ask(101), Err(RequestError::BadConsumed));
    assert_eq!(ask(100), Ok(()));
}

#[test]
fn a_zero_window_probe_is_answered() {
    let options = ConnOptions {
        receive_buffer: 2000,
        ..ConnOptions::default()
    };
    let mut b = Bench::established(plain(), options);
    b.inject(seg(1, 1000).ack(1));
    b.inject(seg(1001, 1000).ack(1));
    b.discard();
    // Linux probes one below the window, BSD with a byte beyond it.
    b.inject_dropped(seg(2000, 0).ack(1), DropReason::OldDuplicate);
    assert_eq!(b.expect(". 1:1 ack 2001").window, 0);
    b.inject_dropped(seg(2001, 1).ack(1), DropReason::BeyondWindow);
    assert_eq!(b.expect(". 1:1 ack 2001").window, 0);
    // And its ACK counts all the same.
    b.send(10);
    b.discard();
    b.inject_dropped(seg(2001, 1).ack(11), DropReason::BeyondWindow);
    assert_eq!(b.update.acked, 10);
}

#[test]
fn an_overtaken_acknowledgement_counts() {
    let mut b = seasoned();
    b.send(10);
    b.expect("P. 1:11 ack 1");
    b.inject(seg(1, 500).ack(1));
    // Sent before the data, arrived after it.
    b.inject(seg(1, 0).ack(11));
    b.quiet();
    assert_eq!(b.update.acked, 10);
}

#[test]
fn quick_ack_can_be_asked_for() {
    let mut b = seasoned();
    b.inject(seg(1, 10).ack(1));
    b.quiet();
    b.request(Request::SetOption(ConnOption::QuickAck(true)));
    b.expect(". 1:1 ack 11");
    b.request(Request::SetOption(ConnOption::QuickAck(false)));
    b.inject(seg(11, 1000).ack(1));
    b.quiet();
}

#[test]
fn urgent_data_is_ordinary_data() {
    let mut b = bench();
    b.inject(seg(1, 10).ack(1).flags(wire::tcp::Flags::URG));
    assert_eq!(b.update.received, 10);
    assert_eq!(b.stack.counters().urgent_segments, 1);
}

#[test]
fn sequence_numbers_wrap() {
    // The peer's begin close to the end.
    let mut b = seasoned();
    let mut sent = 0;
    while sent < 100_000u64 {
        b.inject(seg(1 + sent as i64, 1000).ack(1));
        sent += 1000;
        b.request(Request::Consumed(sent));
    }
    assert_eq!(b.update.received, 100_000);
}

#[test]
fn ranges_out_of_order_are_bounded_for_all_connections_together() {
    let config = Config {
        max_out_of_order_ranges_in_total: 2,
        ..plain()
    };
    let mut b = Bench::established(config, ConnOptions::default());
    b.inject(seg(100, 10).ack(1));
    b.inject(seg(200, 10).ack(1));
    let first = (b.conn, b.iss);
    b.discard();
    b.offer = b.offer.port(2);
    b.handshake();
    b.inject_dropped(seg(100, 10).ack(1).port(2), tcp::DropReason::OutOfOrderFull);
    // In order is always taken; and what the first one gives up, the second may hold.
    b.inject(seg(1, 10).ack(1).port(2));
    assert_eq!(b.update.received, 10);
    assert_eq!(b.stack.shed_out_of_order(first.0.unwrap()), 20);
    b.inject(seg(100, 10).ack(1).port(2));
    b.inject(seg(200, 10).ack(1).port(2));
    b.inject_dropped(seg(300, 10).ack(1).port(2), tcp::DropReason::OutOfOrderFull);
    // A connection that ends gives up its own.
    b.request(Request::Abort);
    b.discard();
    (b.conn, b.iss) = first;
    b.inject(seg(100, 10).ack(1));
    b.inject(seg(200, 10).ack(1));
    assert_eq!(b.info().out_of_order, 20);
}

#[test]
fn scarce_memory_shrinks_the_window_before_anything_is_dropped() {
    let mut b = Bench::established(plain(), ConnOptions::default());
    b.inject(seg(1, 1000).ack(1));
    b.inject(seg(1001, 1000).ack(1));
    b.discard();
    b.sink.window_limit = 10_000;
    b.inject(seg(2001, 1000).ack(1));
    b.inject(seg(3001, 1000).ack(1));
    // What was offered stays offered: the edge does not move back, and no further out.
    let edge = b
        .all_sent()
        .last()
        .map(|s| s.ack.unwrap() + i64::from(s.window));
    assert_eq!(edge, Some(2001 + 65_535));
    b.inject(seg(4001, 60_000).ack(1));
    let sent = b.all_sent().pop().unwrap();
    assert_eq!((sent.ack, sent.window), (Some(64_001), 10_000));
    assert!(b.stack.counters().windows_limited > 0);
    // Never so small that the peer has to send a zero-window probe.
    b.sink.window_limit = 0;
    b.inject(seg(64_001, 10_000).ack(1));
    let sent = b.all_sent().pop().unwrap();
    assert_eq!(u32::from(sent.window), 2 * u32::from(b.info().receive_mss));
    // When there is memory again the window grows again.
    b.sink.window_limit = u32::MAX;
    b.request(Request::Consumed(74_000));
    b.inject(seg(74_001, 10).ack(1));
    b.advance(ms(50));
    assert_eq!(b.all_sent().pop().unwrap().window, 65_535);
}

/// A window that is scaled, of so many bytes, on a connection that is past its beginning.
fn scaled(receive_buffer: u32) -> Bench {
    let config = Config {
        window_scaling: true,
        ..plain()
    };
    let options = ConnOptions {
        receive_buffer,
        ..ConnOptions::default()
    };
    let mut b = Bench::listening(config, options);
    b.offer = b.offer.wscale(0);
    b.handshake();
    assert_eq!(b.info().window_scales, Some((0, 7)));
    b
}

/// What the scale cannot express is rounded up, so that the edge stays where it was.
//~ RFC 7323 §2.4
#[test]
fn the_edge_of_a_scaled_window_does_not_retreat() {
    let mut b = scaled(40_000);
    let (mut at, mut last) = (1, 0);
    while b.info().receive_window > 1_000 {
        b.inject(seg(at, 1_000).ack(1));
        at += 1_000;
        for sent in b.all_sent() {
            let edge = sent.ack.unwrap() + (i64::from(sent.window) << 7);
            assert!(edge >= last, "{} bytes back", last - edge);
            last = edge;
        }
    }
    // Nobody has read anything, and there is an end to it.
    assert!((39_000..=45_000).contains(&at), "{at}");
}

/// Small segments do not draw the edge along for ever.
#[test]
fn small_segments_fill_the_buffer_as_well() {
    let mut b = scaled(4_000);
    let mut at = 1;
    while at < 20_000 && b.info().receive_window > 0 {
        b.inject(seg(at, 1).ack(1));
        at += 1;
        if at % 2 == 0 {
            b.advance(ms(50));
        }
        b.discard();
    }
    assert!(b.info().receive_queue <= 4_500, "{at}");
}

/// A byte here and a byte there take as much memory as full segments: of those few are kept.
#[test]
fn sparse_bytes_are_not_collected() {
    let mut b = scaled(1 << 20);
    for step in 1..200 {
        let _ = b.arrive(seg(1 + step * 4096, 1).ack(1));
        b.turn();
    }
    assert_eq!(b.info().out_of_order, 16);
    assert_eq!(b.dropped(DropReason::OutOfOrderFull), 199 - 16);
    // Every other full segment is another matter.
    let mut b = scaled(1 << 20);
    for step in 1..200 {
        b.arrive(seg(1 + step * 2000, 1000).ack(1)).unwrap();
        b.turn();
    }
    assert_eq!(b.info().out_of_order, 199_000);
}

/// A connection that is offered 20,000 bytes, and more if it tunes its buffer.
fn tuned(tune_receive_buffer: bool) -> Bench {
    let options = ConnOptions {
        receive_buffer: 20_000,
        tune_receive_buffer,
        ..ConnOptions::default()
    };
    let config = Config {
        max_receive_buffer: 60_000,
        ..plain()
    };
    Bench::established(config, options)
}

#[test]
fn what_is_held_behind_a_hole_makes_room_for_more() {
    // The first segment is lost, and twenty follow it.
    let held = |b: &mut Bench| {
        for i in 1..20 {
            b.inject(seg(1 + i * 1000, 1000).ack(1));
            b.discard();
        }
        b.info().receive_buffer
    };
    let mut b = tuned(true);
    let grown = held(&mut b);
    assert!((38_000..=60_000).contains(&grown), "{grown}");
    assert!(b.info().receive_window >= 2 * 19_000 - 1000);
    // The sender goes on, up to the limit.
    for i in 20..40 {
        b.inject(seg(1 + i * 1000, 1000).ack(1));
        b.discard();
    }
    assert_eq!(b.info().receive_buffer, 60_000);
    // Who has set its buffer keeps it.
    assert_eq!(held(&mut tuned(false)), 20_000);
}

#[test]
fn a_byte_far_ahead_makes_no_room() {
    let mut b = tuned(true);
    for i in 0..10 {
        b.inject(seg(19_901 + 2 * i, 1).ack(1));
        b.discard();
    }
    assert_eq!(b.info().receive_buffer, 20_000);
}
