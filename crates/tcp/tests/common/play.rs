//! A connection's life in random steps, for tests that play it to two stacks and compare.

use proptest::prelude::*;
use tcp::{ConnOption, Extent, Request};
use wire::tcp::Flags;

use super::{Bench, Seg, blocks, ms, seg};

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A segment from the peer: how far ahead of the next in order, its length, what it acknowledges of
    /// what is in flight (in eighths), its window, and how much older its timestamp is than the clock.
    Arrive {
        ahead: i64,
        len: usize,
        eighths: i64,
        window: u16,
        age: u32,
        flags: Flags,
        /// A DSACK of the last byte before what it acknowledges.
        dsack: bool,
    },
    /// So many bytes, in so many pieces at most.
    Send {
        len: u32,
        pieces: u32,
        /// More will follow.
        more: bool,
        /// Nothing leaves before the next step.
        later: bool,
    },
    Consume,
    NoDelay(bool),
    Shutdown,
    Cork(bool),
    /// Emissions that may still leave, as long as this holds.
    Room(usize),
    /// Payload is being fetched, or was.
    Away(bool),
    MaxSegment(u16),
    /// Milliseconds.
    Pass(u64),
}

fn arrive() -> impl Strategy<Value = Step> {
    let ahead = prop_oneof![12 => Just(0), 1 => -1000..1000_i64];
    let len = prop_oneof![Just(0), Just(1000), 1..1448_usize];
    let eighths = prop_oneof![2 => Just(0), 6 => Just(8), 1 => 1..8_i64, 1 => Just(9)];
    let window = prop_oneof![6 => Just(60_000), 1 => Just(0), 2 => any::<u16>()];
    let age = prop_oneof![12 => Just(0), 1 => 0..2000_u32];
    let flags = prop_oneof![6 => Just(Flags::NONE), 4 => Just(Flags::PSH), 1 => Just(Flags::FIN)];
    let dsack = proptest::bool::weighted(0.05);
    (ahead, len, eighths, window, age, flags, dsack).prop_map(
        |(ahead, len, eighths, window, age, flags, dsack)| Step::Arrive {
            ahead,
            len,
            eighths,
            window,
            age,
            flags,
            dsack,
        },
    )
}

fn send() -> impl Strategy<Value = Step> {
    // About as much as one segment takes, too.
    let len = prop_oneof![
        8 => 1..4000_u32,
        2 => 998..1003_u32,
        2 => 1446..1451_u32,
        1 => 4000..60_000_u32,
    ];
    let pieces = prop_oneof![6 => Just(1), 1 => 1..100_u32];
    let seldom = || proptest::bool::weighted(0.1);
    (len, pieces, seldom(), seldom()).prop_map(|(len, pieces, more, later)| Step::Send {
        len,
        pieces,
        more,
        later,
    })
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => arrive(),
        4 => send(),
        3 => Just(Step::Consume),
        1 => any::<bool>().prop_map(Step::NoDelay),
        1 => any::<bool>().prop_map(Step::Cork),
        1 => prop_oneof![1 => Just(Step::Room(0)), 4 => Just(Step::Room(usize::MAX))],
        1 => proptest::bool::weighted(0.3).prop_map(Step::Away),
        1 => (500..1500_u16).prop_map(Step::MaxSegment),
        1 => Just(Step::Shutdown),
        3 => prop_oneof![4 => 0..5_u64, 4 => 0..300_u64, 1 => 0..3000_u64, 1 => 299_000..700_000_u64].prop_map(Step::Pass),
    ]
}

/// Where the peer is in its stream, and in ours.
pub fn numbers(b: &Bench) -> (i64, i64, i64) {
    let info = b.info();
    let una = 1 + info.bytes_acked as i64;
    let peer_closed = i64::from(b.update.peer_closed);
    (
        1 + info.bytes_received as i64 + peer_closed,
        una,
        una + i64::from(info.in_flight),
    )
}

/// Plays a step. What arrives may be dressed so that it looks otherwise.
pub fn play(b: &mut Bench, step: Step, dress: impl Fn(&Bench, Seg) -> Seg) {
    match step {
        Step::Arrive {
            ahead,
            len,
            eighths,
            window,
            age,
            flags,
            dsack,
        } => {
            let (next, una, nxt) = numbers(b);
            let ack = una + (nxt - una) * eighths / 8;
            let mut s = seg((next + ahead).max(1), len)
                .ack(ack)
                .window(window)
                .flags(flags);
            if b.with_options {
                let value = b.now.as_millis() as u32;
                s = s.ts(value.wrapping_sub(age), b.sink.stamp);
            }
            if dsack && ack > 1 {
                s.options.sack = blocks(&[(ack - 1, ack)], b.iss.unwrap_or_default());
            }
            let _ = b.arrive(dress(b, s));
            b.turn();
        }
        Step::Send {
            len,
            pieces,
            more,
            later,
        } => {
            let piece = len.div_ceil(pieces);
            let mut left = len;
            while left > 0 {
                // None follows upon another in memory.
                let extent = Extent {
                    addr: 0,
                    len: piece.min(left),
                };
                left -= extent.len;
                let more = more || left > 0;
                let send = Request::Send { extent, more };
                let _ = b.stack.on_request(b.now, b.conn.unwrap(), send);
            }
            if !later {
                b.turn();
            }
        }
        Step::Shutdown => b.request(Request::ShutdownWrite),
        Step::Consume => b.request(Request::Consumed(b.update.received)),
        Step::NoDelay(on) => b.request(Request::SetOption(ConnOption::NoDelay(on))),
        Step::Cork(on) => b.request(Request::SetOption(ConnOption::Cork(on))),
        Step::MaxSegment(most) => b.request(Request::SetOption(ConnOption::MaxSegment(most))),
        Step::Room(room) => {
            b.sink.room = room;
            b.turn();
        }
        Step::Away(away) => {
            b.sink.away = away;
            b.turn();
        }
        Step::Pass(millis) => b.advance(ms(millis)),
    }
}

/// All that anybody can see of a stack.
pub fn seen(b: &mut Bench) -> String {
    let sent: Vec<_> = b.all_sent().iter().map(|s| (s.raw, s.len, s.at)).collect();
    let (info, update) = (b.info(), b.update);
    let timeout = b.stack.next_timeout();
    let mut counters = b.stack.counters().clone();
    counters.urgent_segments = 0;
    format!("{sent:?}\n{update:?}\n{info:?}\n{timeout:?}\n{counters:?}")
}
