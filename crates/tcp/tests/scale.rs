//! Many connections: what they hold, and that they cost nothing while they are idle.

mod common;

use std::sync::{Mutex, MutexGuard, PoisonError};

use common::many::{many, resident};
use common::*;
use tcp::{Config, ConnOptions, Request};

/// Memory is the whole process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn idle_connections_take_no_part_in_anything() {
    let _alone = alone();
    let mut b = many(20_000);
    b.turn();
    assert_eq!(b.stack.next_timeout(), None);
    assert!(!b.stack.wants_transmit());
    assert_eq!(b.stack.poll_event(), None);
    // One of them wakes up: one segment, one event, and quiet again.
    b.inject(seg(1, 10).ack(1).port(b.offer.src_port));
    b.send(10);
    b.expect("P. 1:11 ack 11");
    b.quiet();
    assert_eq!(b.stack.poll_event(), None);
}

#[test]
fn a_hundred_thousand_opened_and_closed_leave_nothing() {
    let _alone = alone();
    let config = Config {
        max_time_wait: 1000,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    let mut after_a_tenth = 0;
    for i in 0..100_000u32 {
        if i == 10_000 {
            after_a_tenth = resident();
        }
        let port = (i % 50_000) as u16 + 1;
        b.peer = [198, 51, 100, (i / 50_000) as u8].into();
        b.offer = b.offer.port(port);
        b.handshake();
        b.request(Request::Close);
        b.inject(seg(1, 0).ack(2).flags(FIN).port(port));
        b.discard();
        b.released.clear();
    }
    assert_eq!(b.stack.connection_count(), 0);
    assert_eq!(b.stack.time_wait_count(), 1000);
    assert_eq!(b.stack.flow_count(), 1000);
    let grown = resident().saturating_sub(after_a_tenth);
    assert!(grown < 8 << 20, "{grown} bytes");
    b.advance(secs(61));
    assert_eq!(b.stack.flow_count(), 0);
}

#[test]
fn a_million_idle_connections_cost_a_packet_nothing() {
    let _alone = alone();
    // Visits to connections, segments and timers looked at: the same in every run, unlike time.
    let cost = |b: &mut Bench| {
        // The first one is looked for; whoever got the last one is asked first.
        b.inject(seg(1, 10).ack(1).port(b.offer.src_port));
        b.advance(ms(1));
        let before = b.stack.connection_visits();
        for i in 1..100 {
            b.inject(seg(1 + 10 * i, 10).ack(1).port(b.offer.src_port));
            b.advance(ms(1));
        }
        assert!(b.stack.uses_local_port(80));
        assert!(!b.stack.uses_local_port(81));
        b.stack.connection_visits() - before
    };
    let alone = cost(&mut many(1));
    let mut b = many(1_000_000);
    assert_eq!(cost(&mut b), alone);
    assert_eq!(b.stack.flow_count(), 1_000_000);
}

#[test]
fn the_flow_table_grows_and_shrinks_step_by_step() {
    let _alone = alone();
    let config = Config {
        max_time_wait: 1,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    let mut most = 0;
    let mut moved = |b: &Bench, before: u64| {
        let moved = b.stack.flows_moved() - before;
        most = most.max(moved);
    };
    const MANY: u32 = 200_000;
    let who = |b: &mut Bench, i: u32| {
        b.peer = [198, 51, 100, (i / 50_000) as u8].into();
        b.offer = b.offer.port((i % 50_000) as u16 + 1);
    };
    let mut names = Vec::new();
    for i in 0..MANY {
        let before = b.stack.flows_moved();
        who(&mut b, i);
        b.handshake();
        names.push(b.conn);
        moved(&b, before);
    }
    assert_eq!(b.stack.flow_count(), MANY as usize);
    for i in 0..MANY {
        let before = b.stack.flows_moved();
        who(&mut b, i);
        b.conn = names[i as usize];
        b.request(Request::Abort);
        b.discard();
        b.released.clear();
        moved(&b, before);
    }
    assert_eq!(b.stack.flow_count(), 0);
    // Two at most for a connection: it is filed when its SYN comes, and when it is complete.
    assert!(most <= 2 * 1_024, "{most} flows were moved for one");
}
