//! Long connections and long paths: more bytes than sequence numbers, windows up to a gigabyte.

mod common;

use common::*;
use tcp::{Config, ConnId, ConnOptions, PayloadStore, Request};
use wire::ip::Ecn;
use wire::segment::{Link, Segment};

/// More than all sequence numbers.
const BYTES: u64 = 5 << 30;

fn config() -> Config {
    Config {
        window_scaling: true,
        pacing_burst: 0,
        max_receive_buffer: 1 << 30,
        ..plain()
    }
}

fn options() -> ConnOptions {
    ConnOptions {
        receive_buffer: 1 << 30,
        ..ConnOptions::default()
    }
}

/// A connection over a path of 20 ms, windows scaled as far as possible.
fn long() -> Bench {
    let mut b = Bench::listening(config(), options());
    b.offer = b.offer.mss(8960).wscale(14);
    b.handshake();
    assert_eq!(b.info().window_scales, Some((14, 14)));
    b
}

#[test]
fn more_bytes_than_sequence_numbers_are_sent() {
    let mut b = long();
    b.sink.burst = 7;
    let (mut acked, mut timeouts) = (0, 0);
    while acked < BYTES {
        if b.info().send_queue < 1 << 30 {
            b.send(64 << 20);
        }
        while b.stack.wants_transmit() {
            b.turn();
        }
        b.discard();
        let flight = u64::from(b.info().in_flight);
        assert!(flight > 0);
        // Around each half of the numbers everything is lost once.
        let next = acked + flight;
        if acked >> 31 != next >> 31 {
            b.advance(secs(2));
            assert_eq!(b.next().unwrap().seq, i64::from((acked + 1) as u32 as i32));
            b.discard();
            timeouts += 1;
        }
        b.advance(ms(20));
        let all = acked + u64::from(b.info().in_flight);
        b.inject(seg(1, 0).ack(all as i64 + 1));
        acked = all;
        assert_eq!(b.update.acked, acked);
        b.discard();
    }
    assert_eq!(b.info().bytes_acked, acked);
    assert!(timeouts >= 2 && b.stack.counters().timeouts >= timeouts);
}

/// Takes everything and keeps nothing.
struct Anything;

impl PayloadStore for Anything {
    fn place(&mut self, _conn: ConnId, _offset: u64, bytes: &[u8]) -> usize {
        bytes.len()
    }
}

impl Bench {
    /// So many bytes of the peer's stream arrive, from `offset` on, whatever they are.
    fn arrive_at(&mut self, offset: u64, payload: &[u8]) {
        let segment = Segment {
            link: Link::default(),
            src: self.peer,
            dst: self.local.ip(),
            hop_limit: 64,
            ecn: Ecn::NotCapable,
            tcp: self.raw(seg(1 + offset as i64, 0).ack(1)),
            payload,
        };
        let taken = self.stack.on_segment(self.now, &segment, &mut Anything);
        assert_eq!(taken, Ok(()), "at {offset}");
    }
}

#[test]
fn more_bytes_than_sequence_numbers_are_received() {
    let mut b = long();
    let payload = vec![0; 60_000];
    let mut received = 0;
    while received < BYTES {
        b.arrive_at(received, &payload);
        received += payload.len() as u64;
        if received % 50 == 0 {
            b.request(Request::Consumed(received));
            b.discard();
        }
    }
    b.turn();
    assert_eq!(b.info().bytes_received, received);
    assert_eq!(b.update.received, received);
    let last = b.all_sent().pop();
    assert!(last.is_none_or(|last| last.ack == Some(i64::from((received + 1) as u32 as i32))));
}

//~ RFC 7323 §2.3
#[test]
fn a_window_of_a_gigabyte_is_offered_and_used() {
    let mut b = long();
    b.arrive_at(0, &[0; 1000]);
    b.turn();
    b.discard();
    let window = b.info().receive_window;
    assert!(window > (1 << 30) - (1 << 17), "{window}");
    // What is almost a window ahead is kept, and goes in order when the rest has come.
    let payload = vec![0; 1 << 20];
    let ahead = u64::from(window) - (2 << 20);
    b.arrive_at(1000 + ahead, &payload);
    b.turn();
    assert_eq!(b.info().out_of_order, 1 << 20);
    let mut at = 1000;
    while at < 1000 + ahead {
        let len = payload.len().min((1000 + ahead - at) as usize);
        b.arrive_at(at, &payload[..len]);
        at += len as u64;
    }
    b.turn();
    assert_eq!(b.info().bytes_received, 1000 + ahead + (1 << 20));
    assert_eq!(b.info().out_of_order, 0);
}

//~ RFC 7323 §2.3
#[test]
fn a_window_of_a_gigabyte_is_filled() {
    let mut b = long();
    b.sink.burst = 64;
    let window = u64::from(u16::MAX) << 14;
    let (mut acked, mut most) = (0, 0);
    // Slow start doubles what is in flight with each round trip, until the window is the limit.
    for _ in 0..24 {
        while b.info().send_queue < 1 << 30 {
            b.send(64 << 20);
        }
        while b.stack.wants_transmit() {
            b.turn();
        }
        b.discard();
        most = u64::from(b.info().in_flight);
        b.advance(ms(20));
        acked += most;
        b.inject(seg(1, 0).ack(acked as i64 + 1));
        b.discard();
    }
    assert!(most > window - 8960 && most <= window, "{most} of {window}");
    assert!(b.info().send_window >= window as u32);
    assert_eq!(b.update.acked, acked);
}
