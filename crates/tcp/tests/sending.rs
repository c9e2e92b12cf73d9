//! Sending: segments, windows, Nagle's algorithm, cork, zero-window probes, bursts.

mod common;

use common::*;
use tcp::{Config, ConnOption, ConnOptions, Extent, Failure, Request, RequestError};

fn bench() -> Bench {
    Bench::established(plain(), ConnOptions::default())
}

fn no_delay() -> Bench {
    let options = ConnOptions {
        no_delay: true,
        ..ConnOptions::default()
    };
    Bench::established(plain(), options)
}

//~ RFC 9293 MUST-61, §3.10.2
#[test]
fn a_stream_is_cut_into_segments() {
    let mut b = bench();
    b.send(2500);
    assert_eq!(
        b.all(),
        [". 1:1001 ack 1", ". 1001:2001 ack 1", "P. 2001:2501 ack 1"]
    );
    b.inject(seg(1, 0).ack(2001));
    assert_eq!(b.update.acked, 2000);
    b.inject(seg(1, 0).ack(2501));
    assert_eq!(b.update.acked, 2500);
    b.advance(secs(10));
    b.quiet();
}

#[test]
fn payload_is_named_by_extents() {
    let mut b = bench();
    for (addr, len) in [(5000, 600), (5600, 100), (9000, 700)] {
        let extent = Extent { addr, len };
        b.stack
            .on_request(
                b.now,
                b.conn.unwrap(),
                Request::Send {
                    extent,
                    more: false,
                },
            )
            .unwrap();
    }
    b.turn();
    let e = |addr, len| Extent { addr, len };
    assert_eq!(b.next().unwrap().payload, [e(5000, 700), e(9000, 300)]);
    assert_eq!(b.next().unwrap().payload, [e(9300, 400)]);
}

#[test]
fn the_initial_window_is_ten_segments() {
    let mut b = bench();
    b.send(20_000);
    assert_eq!(b.all().len(), 10);
    b.inject(seg(1, 0).ack(2001));
    // Two acknowledged, two more by slow start.
    assert_eq!(b.all().len(), 4);
    assert_eq!(b.info().cwnd, 12_000);
}

#[test]
fn a_burst_is_offered_whole() {
    let mut b = bench();
    b.sink.burst = 64;
    b.send(9500);
    let sent = b.expect("P. 1:9501 ack 1");
    assert_eq!(sent.gso_size, 1000);
    b.quiet();
    assert_eq!(b.stack.counters().segments_out, 1 + 10);
    // A burst that the window cuts ends with a full segment.
    b.inject(seg(1, 0).ack(9501));
    b.send(50_000);
    let sent = b.next().unwrap();
    assert_eq!(sent.len % 1000, 0);
    assert!(!sent.has(PSH));
}

#[test]
fn a_full_sink_is_offered_the_same_again() {
    let mut b = bench();
    b.sink.room = 1;
    b.send(2500);
    assert_eq!(b.all(), [". 1:1001 ack 1"]);
    b.turn();
    b.quiet();
    assert!(b.stack.wants_transmit());
    b.sink.room = 100;
    b.turn();
    assert_eq!(b.all(), [". 1001:2001 ack 1", "P. 2001:2501 ack 1"]);
    assert!(!b.stack.wants_transmit());
}

#[test]
fn a_budget_is_kept() {
    let mut b = bench();
    let extent = Extent { addr: 0, len: 5000 };
    let request = Request::Send {
        extent,
        more: false,
    };
    b.stack.on_request(b.now, b.conn.unwrap(), request).unwrap();
    assert_eq!(b.stack.poll_transmit(b.now, &mut b.sink, 3), 3);
    assert_eq!(b.stack.poll_transmit(b.now, &mut b.sink, 3), 2);
    assert_eq!(b.all().len(), 5);
}

//~ RFC 9293 MUST-60
#[test]
fn nagle_holds_a_second_small_segment() {
    let mut b = bench();
    b.send(10);
    b.expect("P. 1:11 ack 1");
    b.send(10);
    b.quiet();
    // A full segment goes, what remains waits.
    b.send(1000);
    b.expect(". 11:1011 ack 1");
    b.quiet();
    b.inject(seg(1, 0).ack(11));
    b.expect("P. 1011:1021 ack 1");
}

#[test]
fn nagle_lets_the_tail_of_a_large_send_go() {
    // Minshall: only a small segment in flight holds back the next.
    let mut b = bench();
    b.send(1500);
    assert_eq!(b.all(), [". 1:1001 ack 1", "P. 1001:1501 ack 1"]);
    b.send(100);
    b.quiet();
    b.inject(seg(1, 0).ack(1501));
    b.expect("P. 1501:1601 ack 1");
}

//~ RFC 9293 MUST-17
#[test]
fn no_delay_sends_at_once() {
    let mut b = no_delay();
    b.send(10);
    b.send(10);
    assert_eq!(b.all(), ["P. 1:11 ack 1", "P. 11:21 ack 1"]);
    // Setting it flushes.
    let mut b = bench();
    b.send(10);
    b.send(10);
    assert_eq!(b.all().len(), 1);
    b.request(Request::SetOption(ConnOption::NoDelay(true)));
    b.expect("P. 11:21 ack 1");
}

#[test]
fn cork_holds_until_pulled_or_for_its_time() {
    let mut b = no_delay();
    b.request(Request::SetOption(ConnOption::Cork(true)));
    b.send(300);
    b.send(300);
    b.quiet();
    b.send(500);
    b.expect(". 1:1001 ack 1");
    b.quiet();
    b.request(Request::SetOption(ConnOption::Cork(false)));
    b.expect("P. 1001:1101 ack 1");
    b.inject(seg(1, 0).ack(1101));
    // Forgotten, it lets go after 200 ms.
    b.request(Request::SetOption(ConnOption::Cork(true)));
    b.send(10);
    b.advance(ms(199));
    b.quiet();
    b.advance(ms(2));
    b.expect("P. 1101:1111 ack 1");
    // And holds again.
    b.inject(seg(1, 0).ack(1111));
    b.send(10);
    b.quiet();
}

#[test]
fn more_is_a_cork_for_one_send() {
    let mut b = no_delay();
    b.send_more(300, true);
    b.quiet();
    b.send_more(200, false);
    b.expect("P. 1:501 ack 1");
    b.inject(seg(1, 0).ack(501));
    b.send_more(100, true);
    b.quiet();
    b.advance(ms(201));
    b.expect("P. 501:601 ack 1");
}

#[test]
fn fin_takes_the_corked_tail_along() {
    let mut b = bench();
    b.request(Request::SetOption(ConnOption::Cork(true)));
    b.send(10);
    b.quiet();
    b.request(Request::ShutdownWrite);
    b.expect("FP. 1:11 ack 1");
}

#[test]
fn fin_takes_the_only_segment_along() {
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).window(0));
    b.send(10);
    b.request(Request::ShutdownWrite);
    b.quiet();
    b.inject(seg(1, 0).ack(1).window(1000));
    b.expect("FP. 1:11 ack 1");
    b.quiet();
}

//~ RFC 9293 MUST-1
#[test]
fn the_peers_window_is_respected() {
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).window(2500));
    b.send(4000);
    // The last 500 would be silly.
    assert_eq!(b.all(), [". 1:1001 ack 1", ". 1001:2001 ack 1"]);
    b.inject(seg(1, 0).ack(2001).window(2000));
    assert_eq!(b.all(), [". 2001:3001 ack 1", "P. 3001:4001 ack 1"]);
}

//~ RFC 9293 MUST-38
#[test]
fn a_small_window_is_used_when_it_is_all_there_ever_was() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.offer = b.offer.window(600);
    b.handshake();
    b.send(1000);
    b.expect(". 1:601 ack 1");
    b.inject(seg(1, 0).ack(601).window(600));
    b.expect("P. 601:1001 ack 1");
}

//~ RFC 9293 MUST-35, MUST-36, MUST-37
#[test]
fn a_closed_window_is_probed_for_ever_while_answered() {
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).window(0));
    b.send(100);
    b.quiet();
    let mut gaps = Vec::new();
    let mut last = b.now;
    for _ in 0..40 {
        b.advance(secs(121));
        for sent in std::iter::from_fn(|| b.next()).collect::<Vec<_>>() {
            assert_eq!(sent.brief(), ". 0:0 ack 1");
            gaps.push(sent.at.saturating_duration_since(last).as_millis());
            last = sent.at;
        }
        b.inject(seg(1, 0).ack(1).window(0));
    }
    assert_eq!(gaps[..4], [200, 400, 800, 1600]);
    assert_eq!(*gaps.last().unwrap(), 120_000);
    assert_eq!(b.update.failed, None);
    b.inject(seg(1, 0).ack(1).window(1000));
    b.expect("P. 1:101 ack 1");
}

#[test]
fn window_probes_without_an_answer_give_up() {
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).window(0));
    b.send(100);
    b.advance(secs(3600));
    assert_eq!(b.all().len(), 15);
    assert_eq!(b.update.failed, Some(Failure::TimedOut));
}

#[test]
fn the_persist_timer_overrides_sws_avoidance() {
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).window(100));
    b.send(400);
    b.quiet();
    b.advance(ms(201));
    b.expect(". 1:101 ack 1");
}

//~ RFC 9293 MUST-34
#[test]
fn a_window_that_closes_on_data_in_flight_is_no_reason_to_give_up() {
    let mut b = bench();
    b.send(1000);
    b.expect("P. 1:1001 ack 1");
    for _ in 0..60 {
        b.advance(secs(30));
        b.inject(seg(1, 0).ack(1).window(0));
    }
    assert_eq!(b.update.failed, None);
    b.discard();
    b.inject(seg(1, 0).ack(1001).window(1000));
    assert_eq!(b.update.acked, 1000);
}

#[test]
fn an_acknowledgement_stays_within_a_window_that_has_shrunk() {
    let mut b = bench();
    b.send(2000);
    assert_eq!(b.all(), [". 1:1001 ack 1", "P. 1001:2001 ack 1"]);
    // Out of order, so that it is acknowledged at once.
    for (window, seq) in [(3000, 2001), (2000, 2001), (1999, 2000), (500, 501), (0, 1)] {
        b.inject(seg(101, 100).ack(1).window(window));
        b.expect(&format!(". {seq}:{seq} ack 1"));
    }
}

/// A window that is scaled is rounded down, and then it looks as if it had shrunk.
//~ RFC 7323 §2.4
#[test]
fn an_acknowledgement_leaves_out_nothing_for_what_the_scale_cannot_express() {
    let config = Config {
        window_scaling: true,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    b.offer = b.offer.wscale(7);
    b.handshake();
    b.send(2000);
    b.discard();
    // Units of 128 bytes: nothing is missing, then 80 bytes, then 208.
    for (ack, window, seq) in [(1, 16, 2001), (1, 15, 2001), (1, 14, 1793)] {
        b.inject(seg(101, 100).ack(ack).window(window));
        b.expect(&format!(". {seq}:{seq} ack 1"));
    }
}

#[test]
fn requests_are_checked() {
    let mut b = bench();
    let mut send = |addr, len| {
        let extent = Extent { addr, len };
        b.stack.on_request(
            b.now,
            b.conn.unwrap(),
            Request::Send {
                extent,
                more: false,
            },
        )
    };
    assert_eq!(send(0, 0), Err(RequestError::BadExtent));
    assert_eq!(send(u64::MAX - 3, 9), Err(RequestError::BadExtent));
    b.request(Request::ShutdownWrite);
    let extent = Extent { addr: 0, len: 1 };
    assert_eq!(
        b.stack.on_request(
            b.now,
            b.conn.unwrap(),
            Request::Send {
                extent,
                more: false
            }
        ),
        Err(RequestError::SendAfterShutdown)
    );
}

#[test]
fn pieces_of_send_memory_are_bounded() {
    let config = Config {
        max_send_extents: 3,
        ..plain()
    };
    let mut b = Bench::established(config, ConnOptions::default());
    b.inject(seg(1, 0).ack(1).window(0));
    let mut send = |addr| {
        let extent = Extent { addr, len: 1 };
        b.stack.on_request(
            b.now,
            b.conn.unwrap(),
            Request::Send {
                extent,
                more: false,
            },
        )
    };
    for addr in [10, 20, 30] {
        assert_eq!(send(addr), Ok(()));
    }
    assert_eq!(send(40), Err(RequestError::TooManyExtents));
}

#[test]
fn many_small_pieces_leave_in_several_emissions() {
    let mut b = no_delay();
    b.sink.burst = 64;
    for i in 0..200u64 {
        let extent = Extent {
            addr: i * 100,
            len: 20,
        };
        let request = Request::Send {
            extent,
            more: false,
        };
        b.stack.on_request(b.now, b.conn.unwrap(), request).unwrap();
    }
    b.turn();
    let sent: Vec<_> = std::iter::from_fn(|| b.next()).collect();
    assert_eq!(sent.iter().map(|s| s.len).sum::<usize>(), 4000);
    assert!(sent.iter().all(|s| s.payload.len() <= 64));
    // 64 pieces are 1,280 bytes: one full segment, and the rest is left for the next.
    assert!(sent[..3].iter().all(|s| s.len == 1000));
}

/// As in Linux: TCP_NODELAY pushes what a cork holds, and the cork stays in for what follows.
#[test]
fn no_delay_pushes_what_a_cork_holds() {
    let mut b = bench();
    b.request(Request::SetOption(ConnOption::Cork(true)));
    b.send(100);
    b.quiet();
    b.request(Request::SetOption(ConnOption::NoDelay(true)));
    b.expect("P. 1:101 ack 1");
    b.send(50);
    b.quiet();
    b.inject(seg(1, 0).ack(101));
    b.quiet();
    b.advance(ms(202));
    b.expect("P. 101:151 ack 1");
}

/// A push is for what has been handed over, not for what comes later.
#[test]
fn a_push_with_nothing_to_push_changes_nothing() {
    let mut b = bench();
    b.request(Request::SetOption(ConnOption::NoDelay(true)));
    b.send_more(100, true);
    b.quiet();
    b.advance(ms(202));
    b.expect("P. 1:101 ack 1");
}

/// TCP_NODELAY switches Nagle's algorithm off, and not the avoidance of silly windows.
//~ RFC 9293 MUST-38
#[test]
fn no_delay_leaves_sws_avoidance_on() {
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).window(0));
    b.request(Request::SetOption(ConnOption::NoDelay(true)));
    b.send(5000);
    b.inject(seg(1, 0).ack(1).window(300));
    b.quiet();
    // Until the persist timer runs out, and then once.
    b.advance(secs(3));
    b.expect(". 1:301 ack 1");
    b.discard();
    b.inject(seg(1, 0).ack(301).window(300));
    b.quiet();
    b.inject(seg(1, 0).ack(301).window(3000));
    assert_eq!(b.all()[0], ". 301:1301 ack 1");
}
