//! Fast Open (RFC 7413) on a bench: either side, up to the point at which tests begin.

use tcp::{Config, ConnOptions, Request};
use wire::tcp::FastOpenCookie;

use super::*;

pub fn config() -> Config {
    Config {
        fast_open_client: true,
        fast_open_server: true,
        pacing_burst: 0,
        ..plain()
    }
}

pub fn options(fast_open: u32) -> ConnOptions {
    ConnOptions {
        fast_open,
        ..ConnOptions::default()
    }
}

/// A listener, and the cookie that it gives the peer.
pub fn server(limit: u32) -> (Bench, FastOpenCookie) {
    server_with(config(), limit)
}

pub fn server_with(config: Config, limit: u32) -> (Bench, FastOpenCookie) {
    let mut b = Bench::listening(config, options(limit));
    let cookie = ask(&mut b);
    (b, cookie)
}

/// Asks a listener for a cookie, by a handshake that comes to nothing.
pub fn ask(b: &mut Bench) -> FastOpenCookie {
    b.inject(b.offer.fast_open(FastOpenCookie::REQUEST).port(39_999));
    let cookie = b.expect("S. 0:0 ack 1").options.fast_open.unwrap();
    assert_eq!(cookie.as_slice().len(), 8);
    b.inject(seg(1, 0).flags(RST).port(39_999));
    cookie
}

/// A SYN with 500 bytes and the cookie.
pub fn syn(b: &Bench, cookie: FastOpenCookie) -> Seg {
    let mut syn = b.offer.fast_open(cookie);
    syn.len = 500;
    syn
}

pub fn accept(b: &mut Bench) {
    b.conn = b.stack.accept(b.listener.unwrap());
    assert!(b.conn.is_some(), "nothing to accept");
    b.events();
}

/// A connection that a SYN has opened, accepted, with its SYN-ACK on the way.
pub fn pending() -> (Bench, FastOpenCookie) {
    let (mut b, cookie) = server(4);
    b.inject(syn(&b, cookie));
    let syn_ack = b.expect("S. 0:0 ack 501");
    assert_eq!(syn_ack.options.fast_open, None);
    accept(&mut b);
    (b, cookie)
}

/// A client that has a cookie and so many bytes to send. Its SYN is to be expected.
pub fn client(bytes: u32) -> (Bench, FastOpenCookie) {
    let mut b = Bench::new(config());
    let cookie = FastOpenCookie::new(&[1, 2, 3, 4, 5, 6]).unwrap();
    b.connect(options(1));
    b.send(10);
    let syn = b.expect("S 0:0");
    assert_eq!(syn.options.fast_open, Some(FastOpenCookie::REQUEST));
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000).fast_open(cookie));
    b.expect("P. 1:11 ack 1");
    b.inject(seg(1, 0).ack(11).flags(RST));
    b.request(Request::Close);
    b.iss = None;
    b.connect(options(1));
    if bytes > 0 {
        b.send(bytes);
    }
    (b, cookie)
}

/// A client that has a cookie, and whose next SYN waits for data.
pub fn held() -> (Bench, FastOpenCookie) {
    let (mut b, cookie) = client(10);
    b.expect("S 0:10");
    b.inject(seg(0, 0).ack(11).flags(RST));
    b.request(Request::Close);
    b.iss = None;
    b.connect(ConnOptions {
        hold_syn: true,
        ..options(1)
    });
    b.advance(secs(3600));
    b.quiet();
    b.stack.audit().unwrap();
    (b, cookie)
}

pub fn syn_room(b: &mut Bench) -> u16 {
    b.stack.syn_room(b.now, b.conn.unwrap())
}
