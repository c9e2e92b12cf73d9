//! Opening connections: passive, active, simultaneous; options; the SYN and accept queues.

mod common;

use common::*;
use tcp::{Config, ConnOptions, ConnectError, DropReason, Failure, Request, State};
use wire::tcp::Flags;

//~ RFC 9293 §3.10.7.2
#[test]
fn passive_open_and_first_data() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.inject(b.offer);
    let syn_ack = b.expect("S. 0:0 ack 1");
    assert_eq!(syn_ack.options.mss, Some(1460));
    assert_eq!(syn_ack.window, 65_535);
    b.quiet();
    // The ACK of the handshake may bring data.
    b.inject(seg(1, 5).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    assert_eq!((b.update.connected, b.update.received), (true, 5));
    b.send(3);
    b.expect("P. 1:4 ack 6");
    b.quiet();
    b.inject(seg(6, 0).ack(4));
    b.quiet();
    assert_eq!(b.update.acked, 3);
}

//~ RFC 9293 MUST-43, MUST-65, §3.10.1, §3.10.7.3
#[test]
fn active_open() {
    let mut b = Bench::new(Config::default());
    b.connect(ConnOptions::default());
    b.turn();
    let syn = b.expect("S 0:0");
    assert_eq!(syn.options.mss, Some(1460));
    assert_eq!(syn.options.window_scale, Some(7));
    assert!(syn.options.sack_permitted && syn.options.timestamps.is_some());
    let ts = syn.options.timestamps.unwrap().value;
    b.inject(
        seg(0, 0)
            .flags(SYN)
            .ack(1)
            .mss(1200)
            .wscale(3)
            .sack_permitted()
            .ts(77, ts)
            .window(500),
    );
    let ack = b.expect(". 1:1 ack 1");
    assert_eq!(ack.options.timestamps.unwrap().echo, 77);
    b.quiet();
    assert!(b.update.connected);
    let info = b.info();
    assert_eq!(info.state, State::Established);
    // The window of a SYN is not scaled; 12 bytes of each segment are timestamps.
    assert_eq!((info.send_window, info.send_mss), (500, 1188));
    assert_eq!(info.window_scales, Some((3, 7)));
    assert_eq!(info.cwnd, 10 * 1188);
    b.inject(seg(1, 0).ack(1).window(500).ts(78, ts));
    assert_eq!(b.info().send_window, 4000);
}

/// The first acknowledgement and the data after it were lost: the next acknowledgement comes from the edge
/// of the window that the SYN-ACK has offered.
#[test]
fn an_acknowledgement_from_the_edge_of_the_window_completes_the_handshake() {
    let options = ConnOptions {
        receive_buffer: 4096,
        ..ConnOptions::default()
    };
    let mut b = Bench::listening(plain(), options);
    b.inject(b.offer);
    assert_eq!(b.expect("S. 0:0 ack 1").window, 4096);
    b.inject_dropped(seg(4098, 0).ack(1), DropReason::BeyondWindow);
    b.expect(". 1:1 ack 1");
    b.inject(seg(4097, 0).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    assert_eq!(b.info().state, State::Established);
    b.inject(seg(1, 4096).ack(1));
    b.events();
    assert_eq!(b.update.received, 4096);
}

/// A listener that is to be told of clients that have said something.
fn deferring(times: u8) -> Bench {
    let options = ConnOptions {
        defer_accept: times,
        ..ConnOptions::default()
    };
    let mut b = Bench::listening(plain(), options);
    b.inject(b.offer);
    b.expect("S. 0:0 ack 1");
    b.inject(seg(1, 0).ack(1));
    b.quiet();
    assert_eq!(b.stack.accept(b.listener.unwrap()), None);
    b
}

#[test]
fn a_deferred_connection_is_there_with_its_data() {
    let mut b = deferring(2);
    // It has acknowledged: there is nothing to send again.
    b.advance(secs(2));
    b.quiet();
    b.inject(seg(1, 5).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    assert_eq!((b.update.connected, b.update.received), (true, 5));
    b.send(3);
    b.expect("P. 1:4 ack 6");
    // The time that the client took to say something is no round trip.
    assert!(b.info().srtt.is_some_and(|srtt| srtt < secs(1)));
}

/// For a program of several stacks.
#[test]
fn of_a_deferred_connection_that_moves_the_wait_is_no_round_trip_either() {
    let mut b = deferring(3);
    b.advance(secs(2));
    let moves = b.stack.export_half_open(b.now);
    b.stack.import_half_open(b.now, &moves.unwrap()).unwrap();
    b.inject(seg(1, 5).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    assert!(b.info().srtt.is_none_or(|srtt| srtt < secs(1)));
}

#[test]
fn a_deferred_connection_is_there_with_its_end() {
    let mut b = deferring(2);
    b.inject(seg(1, 0).flags(FIN).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    assert_eq!(b.info().state, State::CloseWait);
}

#[test]
fn a_deferred_connection_that_brings_nothing_is_there_in_the_end() {
    let mut b = deferring(2);
    b.advance(secs(1));
    b.quiet();
    b.advance(secs(2));
    b.expect("S. 0:0 ack 1");
    b.inject(seg(1, 0).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    assert_eq!(b.info().state, State::Established);
}

#[test]
fn a_deferred_connection_whose_acknowledgement_is_lost_is_asked_again() {
    let options = ConnOptions {
        defer_accept: 3,
        ..ConnOptions::default()
    };
    let mut b = Bench::listening(plain(), options);
    b.inject(b.offer);
    b.expect("S. 0:0 ack 1");
    b.advance(secs(1));
    b.expect("S. 0:0 ack 1");
}

#[test]
fn a_connection_is_deferred_no_longer_than_a_handshake_lasts() {
    let mut b = deferring(u8::MAX);
    let retries = plain().syn_ack_retries;
    b.advance(secs((1 << (retries - 1)) - 1));
    b.quiet();
    b.advance(secs(1 << (retries - 1)));
    b.expect("S. 0:0 ack 1");
    b.inject(seg(1, 0).ack(1));
    assert!(b.stack.accept(b.listener.unwrap()).is_some());
}

#[test]
fn data_queued_before_the_handshake_follows_it() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.send(10);
    b.expect("S 0:0");
    b.quiet();
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    b.expect("P. 1:11 ack 1");
    b.quiet();
}

//~ RFC 9293 MUST-10
#[test]
fn simultaneous_open() {
    // RFC 9293 3.5, figure 8.
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.turn();
    b.expect("S 0:0");
    b.inject(seg(0, 0).flags(SYN).mss(1000));
    b.expect("S. 0:0 ack 1");
    assert_eq!(b.info().state, State::SynReceived);
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    // The peer's SYN-ACK repeats its SYN; its ACK is what counts.
    assert_eq!(b.info().state, State::Established);
    assert!(b.update.connected);
    b.discard();
    b.send(4);
    b.expect("P. 1:5 ack 1");
}

/// What a SYN-ACK carries comes after its SYN, as in any segment.
#[test]
fn the_syn_ack_of_a_simultaneous_open_may_carry_data() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.turn();
    b.expect("S 0:0");
    b.inject(seg(0, 0).flags(SYN).mss(1000));
    b.expect("S. 0:0 ack 1");
    b.inject(seg(0, 10).flags(SYN).ack(1).mss(1000));
    b.events();
    assert_eq!(b.update.received, 10);
    b.advance(secs(1));
    b.expect(". 1:1 ack 11");
}

//~ RFC 9293 MUST-11, MUST-12
#[test]
fn connection_refused() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.turn();
    b.expect("S 0:0");
    // A reset that acknowledges nothing, or something else, is not for us.
    b.inject_dropped(seg(0, 0).flags(RST), DropReason::UnacceptableReset);
    b.inject_dropped(seg(0, 0).flags(RST).ack(7), DropReason::BadHandshakeAck);
    assert_eq!(b.update.failed, None);
    b.inject(seg(0, 0).flags(RST).ack(1));
    assert_eq!(b.update.failed, Some(Failure::Refused));
    b.quiet();
    b.request(Request::Close);
    assert_eq!(b.released.len(), 1);
    assert_eq!(b.stack.flow_count(), 0);
}

//~ RFC 9293 MUST-22
#[test]
fn syn_is_retransmitted_and_given_up() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.turn();
    let mut times = vec![b.expect("S 0:0").at];
    b.advance(secs(200));
    while let Some(sent) = b.next() {
        assert_eq!(sent.brief(), "S 0:0");
        times.push(sent.at);
    }
    let gaps: Vec<u64> = times
        .windows(2)
        .map(|w| w[1].saturating_duration_since(w[0]).as_secs())
        .collect();
    assert_eq!(gaps, [1, 2, 4, 8, 16, 32]);
    assert_eq!(b.update.failed, Some(Failure::TimedOut));
}

#[test]
fn an_unreachable_host_ends_an_attempt_to_connect() {
    let mut b = Bench::new(plain());
    let id = b.connect(ConnOptions::default());
    b.turn();
    b.stack.on_unreachable(b.now, id, Failure::HostUnreachable);
    b.turn();
    assert_eq!(b.update.failed, Some(Failure::HostUnreachable));
}

#[test]
fn a_wrong_ack_in_syn_sent_is_answered_by_reset() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.turn();
    b.expect("S 0:0");
    b.inject_dropped(seg(0, 0).flags(SYN).ack(100), DropReason::BadHandshakeAck);
    b.expect("R 100:100");
    assert_eq!(b.info().state, State::SynSent);
}

//~ RFC 2018 §2
//~ RFC 7323 §2.2, §3.2
#[test]
fn options_are_agreed_on_by_both_sides() {
    // What the peer does not offer is not used.
    let b = Bench::established(Config::default(), ConnOptions::default());
    let info = b.info();
    assert!(!info.timestamps && !info.selective_acks);
    assert_eq!(info.window_scales, None);
    // Everything that it offers is.
    let mut b = Bench::listening(Config::default(), ConnOptions::default());
    b.offer = b.offer.wscale(9).sack_permitted().ts(1000, 0);
    b.inject(b.offer);
    let syn_ack = b.expect("S. 0:0 ack 1");
    assert_eq!(syn_ack.options.window_scale, Some(7));
    assert!(syn_ack.options.sack_permitted);
    assert_eq!(syn_ack.options.timestamps.unwrap().echo, 1000);
}

//~ RFC 9293 MUST-15
#[test]
fn a_peer_without_mss_gets_small_segments() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.offer.options.mss = None;
    b.handshake();
    assert_eq!(b.info().send_mss, 536);
}

#[test]
fn a_tiny_mss_does_not_eat_the_processor() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.offer = b.offer.mss(1);
    b.handshake();
    assert_eq!(b.info().send_mss, 36);
}

//~ RFC 9293 MUST-14, MUST-16, MUST-67
#[test]
fn mtu_and_max_segment_bound_both_directions() {
    let options = ConnOptions {
        mtu: Some(1000),
        ..ConnOptions::default()
    };
    let mut b = Bench::listening(plain(), options);
    b.offer = b.offer.mss(1460);
    b.inject(b.offer);
    assert_eq!(b.expect("S. 0:0 ack 1").options.mss, Some(960));
    let options = ConnOptions {
        max_segment: Some(500),
        ..ConnOptions::default()
    };
    let mut b = Bench::listening(plain(), options);
    b.inject(b.offer);
    assert_eq!(b.expect("S. 0:0 ack 1").options.mss, Some(500));
}

#[test]
fn syn_ack_is_retransmitted_and_given_up() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.inject(b.offer);
    let first = b.expect("S. 0:0 ack 1").at;
    b.advance(secs(120));
    let times: Vec<u64> = std::iter::from_fn(|| b.next())
        .map(|s| s.at.saturating_duration_since(first).as_secs())
        .collect();
    assert_eq!(times, [1, 3, 7, 15, 31]);
    assert_eq!(b.stack.half_open_count(), 0);
    assert_eq!(b.stack.flow_count(), 0);
    assert_eq!(b.stack.counters().half_open_timeouts, 1);
}

#[test]
fn a_repeated_syn_gets_the_same_syn_ack() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.inject(b.offer);
    let first = b.expect("S. 0:0 ack 1");
    b.inject_dropped(b.offer, DropReason::UnexpectedSyn);
    assert_eq!(b.expect("S. 0:0 ack 1").raw.seq, first.raw.seq);
    assert_eq!(b.stack.half_open_count(), 1);
}

#[test]
fn half_open_connections_check_what_completes_them() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.inject(b.offer);
    b.expect("S. 0:0 ack 1");
    b.inject_dropped(seg(1, 0).ack(2), DropReason::BadHandshakeAck);
    b.expect("R 2:2");
    b.inject_dropped(seg(1, 0), DropReason::NoAck);
    b.inject_dropped(seg(70_000, 0).ack(1), DropReason::BeyondWindow);
    b.expect(". 1:1 ack 1");
    b.advance(ms(500));
    b.inject_dropped(seg(2, 0).flags(RST), DropReason::UnacceptableReset);
    b.expect(". 1:1 ack 1");
    b.inject_dropped(seg(0, 0).flags(RST), DropReason::UnacceptableReset);
    assert_eq!(b.stack.half_open_count(), 1);
    b.inject(seg(1, 0).flags(RST));
    assert_eq!(b.stack.half_open_count(), 0);
    b.quiet();
}

//~ RFC 7323 §2.3
#[test]
fn a_half_open_connection_answers_with_a_scaled_window() {
    let config = Config {
        window_scaling: true,
        ..plain()
    };
    let answer = |offer: Seg| {
        let mut b = Bench::listening(config.clone(), ConnOptions::default());
        b.inject(offer);
        let syn_ack = b.expect("S. 0:0 ack 1");
        b.inject_dropped(seg(2, 0).flags(RST), DropReason::UnacceptableReset);
        (syn_ack.window, b.expect(". 1:1 ack 1").window)
    };
    let offer = seg(0, 0).flags(SYN).mss(1000);
    // No more than the SYN-ACK has offered, which is never scaled.
    assert_eq!(answer(offer.wscale(3)), (65_535, 65_535 >> 7));
    assert_eq!(answer(offer), (65_535, 65_535));
}

//~ RFC 4987 §3.5
#[test]
fn the_number_of_half_open_connections_is_bounded() {
    let config = Config {
        max_half_open: 2,
        syn_cookies: false,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    for port in [1, 2] {
        b.inject(b.offer.port(port));
    }
    b.inject_dropped(b.offer.port(3), DropReason::HalfOpenFull);
    assert_eq!(b.stack.half_open_count(), 2);
    // One that completes or dies makes room.
    b.discard();
    b.inject(seg(1, 0).flags(RST).port(1));
    b.inject(b.offer.port(3));
    assert_eq!(b.stack.half_open_count(), 2);
}

//~ RFC 9293 MUST-41
#[test]
fn the_accept_queue_holds_one_more_than_the_backlog() {
    let mut b = Bench::new(plain());
    b.listen(ConnOptions::default(), 1);
    let open = |b: &mut Bench, port: u16| {
        b.iss = None;
        b.inject(b.offer.port(port));
        b.expect("S. 0:0 ack 1");
        b.arrive(seg(1, 0).ack(1).port(port))
    };
    assert_eq!(open(&mut b, 1), Ok(()));
    // A third one begins while there is room ...
    b.iss = None;
    b.inject(b.offer.port(3));
    b.expect("S. 0:0 ack 1");
    let iss3 = b.iss;
    assert_eq!(open(&mut b, 2), Ok(()));
    assert_eq!(b.stack.waiting(b.listener.unwrap()), 2);
    // ... and completes when there is none: it stays half open.
    b.iss = iss3;
    b.inject_dropped(seg(1, 0).ack(1).port(3), DropReason::AcceptQueueFull);
    b.inject_dropped(b.offer.port(4), DropReason::AcceptQueueFull);
    assert_eq!(b.stack.half_open_count(), 1);
    // Both are counted where they happened, and what waits is known.
    let listener = b.listener.unwrap();
    let counts = b.stack.listener_counts(listener).unwrap();
    assert_eq!(
        (counts.accepts, counts.waiting, counts.half_open),
        (2, 2, 1)
    );
    let drops: Vec<_> = counts.drops().filter(|(_, count)| *count > 0).collect();
    assert_eq!(drops, [(DropReason::AcceptQueueFull, 2)]);
    assert_eq!(b.stack.waiting_since(listener), Some(b.now));
    // Its SYN-ACK comes again, and by then there is room.
    b.stack.accept(b.listener.unwrap()).unwrap();
    b.advance(secs(1));
    b.discard();
    b.iss = iss3;
    b.inject(seg(1, 0).ack(1).port(3));
    assert_eq!(b.stack.waiting(b.listener.unwrap()), 2);
}

#[test]
fn what_is_given_back_is_accepted_next() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    let listener = b.listener.unwrap();
    for port in [1, 2] {
        b.iss = None;
        b.inject(b.offer.port(port));
        b.expect("S. 0:0 ack 1");
        b.inject(seg(1, 0).ack(1).port(port));
    }
    let first = b.stack.accept(listener).unwrap();
    assert!(b.stack.give_back(b.now, listener, first));
    assert_eq!(b.stack.accept(listener), Some(first));
    b.stack.unlisten(b.now, listener);
    assert!(!b.stack.give_back(b.now, listener, first));
    b.turn();
    // Both end by reset: the one in the queue and the one that came back.
    assert_eq!(b.released.len(), 2);
    assert_eq!(b.stack.counters().resets_out, 2);
    assert_eq!(b.stack.flow_count(), 0);
}

#[test]
fn a_connection_reset_in_the_queue_is_still_accepted() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.inject(b.offer);
    b.expect("S. 0:0 ack 1");
    b.inject(seg(1, 0).ack(1));
    b.inject(seg(1, 0).flags(RST).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    assert_eq!(b.update.failed, Some(Failure::Reset));
}

//~ RFC 9293 §3.10.7.1
#[test]
fn what_nobody_listens_to_is_reset() {
    let mut b = Bench::new(plain());
    b.inject_dropped(seg(0, 3).flags(SYN), DropReason::NoListener);
    let reset = b.next().unwrap();
    assert_eq!((reset.ack, reset.raw.seq.0), (Some(4), 0));
    assert!(reset.has(RST));
    b.iss = None;
    b.inject_dropped(seg(5, 0).ack(9), DropReason::NoListener);
    let reset = b.next().unwrap();
    assert_eq!((reset.ack, reset.raw.seq.0), (None, 9));
    b.inject_dropped(seg(5, 0).flags(RST).ack(9), DropReason::StrayReset);
    b.quiet();
}

#[test]
fn nonsense_opens_no_connection() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.inject_dropped(b.offer.flags(FIN), DropReason::BadFlags);
    b.inject_dropped(b.offer.flags(RST), DropReason::BadFlags);
    b.inject_dropped(b.offer.port(0), DropReason::BadAddress);
    b.inject_dropped(seg(0, 0).flags(Flags::NONE), DropReason::BadFlags);
    // From ourselves to ourselves (the "land" attack).
    let (peer, local) = (b.peer, b.local);
    b.peer = local.ip();
    b.inject_dropped(b.offer.port(local.port()), DropReason::BadAddress);
    b.peer = peer;
    b.quiet();
    assert_eq!(b.stack.half_open_count(), 0);
}

//~ RFC 9293 MUST-45, MUST-46
#[test]
fn a_pair_is_opened_once() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    let remote = std::net::SocketAddr::new(b.peer, 40_000);
    let again = b
        .stack
        .connect(b.now, b.local, remote, &ConnOptions::default());
    assert_eq!(again, Err(ConnectError::AddressInUse));
    let six = "[2001:db8::1]:80".parse().unwrap();
    let mixed = b.stack.connect(b.now, six, remote, &ConnOptions::default());
    assert_eq!(mixed, Err(ConnectError::BadAddress));
}

#[test]
fn the_number_of_connections_is_bounded() {
    let config = Config {
        max_connections: 1,
        ..plain()
    };
    let mut b = Bench::established(config, ConnOptions::default());
    b.iss = None;
    b.inject(b.offer.port(2));
    b.expect("S. 0:0 ack 1");
    b.inject_dropped(seg(1, 0).ack(1).port(2), DropReason::ConnectionsFull);
    let remote = std::net::SocketAddr::new(b.peer, 9);
    let connect = b
        .stack
        .connect(b.now, b.local, remote, &ConnOptions::default());
    assert_eq!(connect, Err(ConnectError::TooManyConnections));
}

#[test]
fn ipv6() {
    let mut b = Bench::new(plain());
    b.local = "[2001:db8::1]:80".parse().unwrap();
    b.peer = "2001:db8::2".parse().unwrap();
    b.listen(ConnOptions::default(), 4);
    b.offer = b.offer.mss(9000);
    b.handshake();
    assert_eq!(b.info().send_mss, 1440);
}

/// The peer agreed on timestamps in its SYN and its ACK has none: it is dropped (RFC 7323 §3.2), and
/// does not make a connection that would wait for ever.
//~ RFC 7323 §3.2
#[test]
fn a_final_ack_without_the_timestamp_completes_nothing() {
    let config = Config {
        timestamps: true,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    b.inject(b.offer.ts(100, 0));
    let syn_ack = b.expect("S. 0:0 ack 1");
    b.inject_dropped(seg(1, 0).ack(1), DropReason::TimestampMissing);
    assert_eq!(b.stack.accept(b.listener.unwrap()), None);
    assert_eq!(
        (b.stack.connection_count(), b.stack.half_open_count()),
        (0, 1)
    );
    // The handshake goes on.
    b.advance(secs(1));
    b.expect("S. 0:0 ack 1");
    let ours = syn_ack.options.timestamps.unwrap().value;
    b.inject(seg(1, 0).ack(1).ts(101, ours));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    assert!(b.update.connected);
}

/// Whoever shakes hands like that, and falls silent, leaves nothing behind.
#[test]
fn handshakes_that_end_in_silence_are_forgotten() {
    let config = Config {
        timestamps: true,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    for port in 1..=50 {
        b.iss = None;
        b.inject(b.offer.ts(100, 0).port(port));
        b.expect("S. 0:0 ack 1");
        b.inject(seg(1, 0).ack(1).port(port));
    }
    while let Some(conn) = b.stack.accept(b.listener.unwrap()) {
        b.conn = Some(conn);
        b.request(Request::Close);
    }
    b.advance(secs(130));
    b.discard();
    assert_eq!(
        (b.stack.connection_count(), b.stack.half_open_count()),
        (0, 0)
    );
}

/// RFC 9293 3.10.7.1: whatever is not a RST is answered by one. A listener has no use for such a SYN
/// and says nothing, as in Linux.
//~ RFC 9293 §3.10.7.1
#[test]
fn a_syn_with_fin_for_nobody_is_reset() {
    let mut b = Bench::new(plain());
    b.inject_dropped(seg(0, 0).flags(SYN | FIN), DropReason::NoListener);
    let reset = b.next().unwrap();
    assert_eq!((reset.ack, reset.raw.seq.0), (Some(2), 0));
    assert!(reset.has(RST));
}

//~ RFC 7323 §5.3
#[test]
fn a_final_ack_from_before_the_syn_completes_nothing() {
    let config = Config {
        timestamps: true,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    b.inject(b.offer.ts(100, 0));
    let ours = b.expect("S. 0:0 ack 1").options.timestamps.unwrap().value;
    b.inject_dropped(seg(1, 0).ack(1).ts(99, ours), DropReason::Paws);
    b.expect(". 1:1 ack 1");
    assert_eq!(b.stack.connection_count(), 0);
    b.inject(seg(1, 0).ack(1).ts(100, ours));
    assert_eq!(b.stack.connection_count(), 1);
}

//~ RFC 6298 §3
#[test]
fn round_trips_are_counted_as_they_count_for_the_timeout() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.inject(b.offer);
    b.expect("S. 0:0 ack 1");
    b.advance(ms(30));
    b.inject(seg(1, 0).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.send(100);
    b.expect("P. 1:101 ack 1");
    b.advance(ms(3));
    b.inject(seg(1, 0).ack(101));
    let trips = &b.stack.counters().round_trips;
    assert_eq!((trips.count(), trips.sum()), (2, ms(33)));
    assert_eq!(trips.longest(), ms(30));
}
