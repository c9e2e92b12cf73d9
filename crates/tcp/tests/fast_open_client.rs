//! TCP Fast Open (RFC 7413), as the client sees it.

mod common;

use common::fast_open::*;
use common::*;
use tcp::{ConnOption, ConnOptions, Extent, Request, Stack};
use wire::tcp::FastOpenCookie;

#[test]
fn a_syn_waits_for_data_where_there_is_a_cookie() {
    let (mut b, cookie) = held();
    // The server's MSS, less all that options could take.
    assert_eq!(syn_room(&mut b), 960);
    b.send(960);
    assert_eq!(syn_room(&mut b), 0);
    let syn = b.expect("S 0:960");
    assert_eq!(syn.options.fast_open, Some(cookie));
    b.inject(seg(0, 0).flags(SYN).ack(961).mss(1000));
    assert_eq!((b.update.connected, b.update.acked), (true, 960));
    // Who has no cookie, or may not use it, does not wait.
    for config in [config(), plain()] {
        let mut b = Bench::new(config);
        b.connect(ConnOptions {
            hold_syn: true,
            ..options(1)
        });
        assert_eq!(syn_room(&mut b), 0);
        b.turn();
        b.expect("S 0:0");
    }
}

#[test]
fn a_syn_that_waits_leaves_when_no_data_will_come_first() {
    for request in [Request::Open, Request::ShutdownWrite] {
        let (mut b, cookie) = held();
        b.request(request);
        b.turn();
        assert_eq!(b.expect("S 0:0").options.fast_open, Some(cookie));
        b.stack.audit().unwrap();
        b.advance(ms(1100));
        b.expect("S 0:0");
    }
    // Another stack does not wait.
    let (mut b, _) = held();
    let value = b.stack.export(b.now, b.conn.unwrap()).unwrap();
    b.stack = Stack::new(config(), [1; 32]);
    b.conn = Some(b.stack.import(b.now, &value).unwrap());
    b.turn();
    b.expect("S 0:0");
    // Who closes instead has never been there.
    let (mut b, _) = held();
    b.request(Request::Close);
    b.advance(secs(10));
    b.quiet();
    assert_eq!(b.stack.connection_count(), 0);
}

/// A SYN that is not to wait leaves without data, and asks for a cookie or brings the one that is known.
//~ RFC 7413 §4.2.1
#[test]
fn a_syn_with_nothing_to_send_has_the_option_all_the_same() {
    let mut b = Bench::new(config());
    b.connect(options(1));
    b.turn();
    let asked = b.expect("S 0:0").options.fast_open;
    assert_eq!(asked, Some(FastOpenCookie::REQUEST));
    let (mut b, cookie) = client(0);
    assert_eq!(syn_room(&mut b), 0);
    b.turn();
    assert_eq!(b.expect("S 0:0").options.fast_open, Some(cookie));
    // What is handed over meanwhile follows the handshake.
    b.send(100);
    b.quiet();
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    b.expect("P. 1:101 ack 1");
    assert_eq!((b.update.connected, b.info().fast_open), (true, false));
    assert_eq!(b.stack.counters().fast_opens_out, 0, "it had no data");
}

//~ RFC 7413 §4.2.1, §4.2.2
#[test]
fn a_cookie_lets_data_go_with_the_syn() {
    let (mut b, cookie) = client(2_000);
    // MSS, and the cookie with its two bytes: twelve of options.
    let syn = b.expect("S 0:988");
    assert_eq!(syn.options.fast_open, Some(cookie));
    b.quiet();
    b.inject(seg(0, 0).flags(SYN).ack(989).mss(1000));
    b.expect(". 989:1989 ack 1");
    b.expect("P. 1989:2001 ack 1");
    assert_eq!((b.update.connected, b.update.acked), (true, 988));
    assert!(b.info().fast_open);
    assert_eq!(b.info().retransmits, 0);
    b.inject(seg(1, 0).ack(2001));
    assert_eq!(b.update.acked, 2_000);
    assert_eq!(b.stack.counters().fast_opens_out, 1);
}

#[test]
fn what_the_server_does_not_take_follows_the_handshake() {
    let (mut b, _) = client(500);
    b.expect("S 0:500");
    // More than was sent cannot be acknowledged.
    b.inject(seg(0, 0).flags(SYN).ack(502).mss(1000));
    b.expect("R 502:502");
    b.inject(seg(0, 0).flags(SYN).ack(101).mss(1000));
    b.expect("P. 101:501 ack 1");
    b.inject(seg(1, 0).ack(501));
    assert_eq!(b.update.acked, 500);
    let (mut b, _) = client(500);
    b.expect("S 0:500");
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    b.expect("P. 1:501 ack 1");
    assert!(!b.info().fast_open);
}

//~ RFC 7413 §4.1.3
#[test]
fn silence_ends_it_for_a_while() {
    let (mut b, _) = client(500);
    b.expect("S 0:500");
    b.advance(ms(1100));
    // Without data, and without the option.
    assert_eq!(b.expect("S 0:0").options.fast_open, None);
    // The first one may have arrived all the same.
    b.inject(seg(0, 0).flags(SYN).ack(501).mss(1000));
    b.expect(". 501:501 ack 1");
    assert_eq!(b.update.acked, 500);
    b.inject(seg(1, 0).ack(501).flags(RST));
    b.request(Request::Close);
    b.connect(options(1));
    b.iss = None;
    b.send(500);
    assert_eq!(b.expect("S 0:0").options.fast_open, None);
    b.request(Request::Abort);
    b.advance(secs(3600));
    b.iss = None;
    b.connect(options(1));
    b.turn();
    assert_eq!(
        b.expect("S 0:0").options.fast_open,
        Some(FastOpenCookie::REQUEST)
    );
}

#[test]
fn only_who_may_use_a_cookie_waits_for_data() {
    let waits = |b: &mut Bench, fast_open| {
        b.iss = None;
        b.connect(ConnOptions {
            hold_syn: true,
            ..options(fast_open)
        });
        b.turn();
        let waits = b.all_sent().is_empty();
        b.request(Request::Abort);
        waits
    };
    let (mut b, _) = held();
    b.request(Request::Abort);
    assert!(waits(&mut b, 1));
    assert!(!waits(&mut b, 0), "it does not want Fast Open");
    // The options alone fill what this server takes.
    let mut b = Bench::new(config());
    b.connect(options(1));
    b.send(1);
    b.expect("S 0:0");
    let cookie = FastOpenCookie::new(&[1, 2, 3, 4]).unwrap();
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(36).fast_open(cookie));
    b.request(Request::Abort);
    b.discard();
    assert!(!waits(&mut b, 1), "there is no room");
}

#[test]
fn nothing_but_data_or_its_owner_lets_a_waiting_syn_go() {
    let (mut b, _) = held();
    b.request(Request::SetOption(ConnOption::NoDelay(true)));
    b.quiet();
    b.send(1);
    b.expect("S 0:1");
}

/// Both open at once, while our SYN waits: the SYN-ACK carries neither cookie nor data.
#[test]
fn a_syn_of_the_peers_ends_the_waiting() {
    let (mut b, _) = held();
    b.inject(b.offer);
    let syn_ack = b.expect("S. 0:0 ack 1");
    assert_eq!(syn_ack.options.fast_open, None);
    b.send(100);
    b.inject(seg(1, 0).ack(1));
    b.expect("P. 1:101 ack 1");
    // And one that has not left yet.
    let (mut b, _) = client(0);
    b.inject(b.offer);
    assert_eq!(b.expect("S. 0:0 ack 1").options.fast_open, None);
}

#[test]
fn a_cookie_that_nobody_asked_for_and_one_without_bytes_are_forgotten() {
    let cookie = FastOpenCookie::new(&[9; 8]).unwrap();
    for (fast_open, given) in [(0, cookie), (1, FastOpenCookie::REQUEST)] {
        let mut b = Bench::new(config());
        b.connect(options(fast_open));
        b.turn();
        b.expect("S 0:0");
        let answer = seg(0, 0).flags(SYN).ack(1).mss(1000).fast_open(given);
        b.inject(answer);
        b.expect(". 1:1 ack 1");
        b.request(Request::Abort);
        b.discard();
        b.iss = None;
        b.connect(options(1));
        b.send(100);
        let syn = b.expect("S 0:0");
        assert_eq!(syn.options.fast_open, Some(FastOpenCookie::REQUEST));
    }
}

/// A push ends with the data that it was for: what went with the SYN pushes nothing that follows.
#[test]
fn data_of_the_syn_is_no_longer_pushed() {
    let (mut b, _) = client(0);
    let extent = Extent { addr: 0, len: 1500 };
    let send = Request::Send {
        extent,
        more: false,
    };
    b.stack.on_request(b.now, b.conn.unwrap(), send).unwrap();
    for on in [true, false] {
        let set = Request::SetOption(ConnOption::NoDelay(on));
        b.stack.on_request(b.now, b.conn.unwrap(), set).unwrap();
    }
    b.turn();
    b.expect("S 0:988");
    b.inject(seg(0, 0).flags(SYN).ack(989).mss(1000));
    b.expect("P. 989:1501 ack 1");
    // Nagle.
    b.send(100);
    b.quiet();
    b.inject(seg(1, 0).ack(1501));
    b.expect("P. 1501:1601 ack 1");
}

#[test]
fn what_the_syn_carries_is_counted_and_then_it_is_over() {
    let (mut b, _) = client(500);
    let before = b.stack.counters().bytes_out;
    b.expect("S 0:500");
    assert_eq!(before, 10 + 500, "with what the first connection sent");
    assert_eq!(b.info().data_segments_out, 1);
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    b.expect("P. 1:501 ack 1");
    let value = b.stack.export(b.now, b.conn.unwrap()).unwrap();
    let expected = (tcp::snapshot::FastOpen::No, 0);
    assert_eq!((value.send.fast_open, value.send.syn_data), expected);
}
