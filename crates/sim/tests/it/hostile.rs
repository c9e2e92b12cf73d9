//! Segments that nobody sane sends, at connections that live.

use core::time::Duration;

use sim::{Pair, PairConfig, Plan, Rng, SocketId, Then};
use wire::segment::Headers;
use wire::seq::SeqNumber;
use wire::tcp::{Flags, MAX_WINDOW_SCALE, Options, SackBlock, SackBlocks, Timestamps};

use crate::{ms, run_until_empty};

/// A header of the flow that ends at `to`, with any flags and options, and numbers that `number`
/// chooses.
fn any_header(
    pair: &mut Pair,
    to: SocketId,
    rng: &mut Rng,
    number: impl Fn(&mut Rng, SeqNumber) -> SeqNumber,
) -> Headers {
    let mut headers = pair.forge(to, Flags::ACK);
    let (seq, ack) = (headers.tcp.seq, headers.tcp.ack.unwrap_or_default());
    let bits = rng.next_u64();
    let has = |bit: u32| bits >> bit & 1 == 1;
    let mut sack = SackBlocks::EMPTY;
    for _ in 0..bits >> 60 & 3 {
        let (left, right) = (number(rng, ack), number(rng, ack));
        sack.push(SackBlock { left, right });
    }
    headers.tcp.flags = Flags::from_bits(bits as u8);
    headers.tcp.seq = number(rng, seq);
    headers.tcp.ack = has(8).then(|| number(rng, ack));
    headers.tcp.window = rng.next_u64() as u16;
    headers.tcp.options = Options {
        mss: has(9).then_some((bits >> 16) as u16),
        window_scale: has(10).then_some((bits >> 32) as u8 % (MAX_WINDOW_SCALE + 1)),
        sack_permitted: has(11),
        timestamps: has(12).then(|| Timestamps {
            value: rng.next_u64() as u32,
            echo: rng.next_u64() as u32,
        }),
        fast_open: None,
        sack,
    };
    headers
}

/// Two sockets that send to each other, and the hosts that they are on.
fn busy(seed: u64) -> (Pair, [(SocketId, sim::HostId); 2]) {
    let mut pair = Pair::with(
        seed,
        PairConfig {
            serve: Some(Plan::BY_HAND),
            ..PairConfig::default()
        },
    );
    pair.trace_all();
    let plan = Plan::transfer(300_000);
    let (client, server) = pair.establish(plan, plan);
    let ends = [(client, pair.client), (server, pair.server)];
    (pair, ends)
}

#[test]
fn who_does_not_know_the_numbers_can_do_no_harm() {
    for seed in 0..5 {
        let (mut pair, ends) = busy(seed);
        let mut rng = Rng::new(seed);
        // RFC 5961: only a number that is exactly right resets, and data needs two good ones.
        for _ in 0..200 {
            for (socket, host) in ends {
                for _ in 0..10 {
                    let headers = any_header(&mut pair, socket, &mut rng, |rng, _| {
                        SeqNumber(rng.next_u64() as u32)
                    });
                    pair.inject(host, &headers, b"not what the peer sent");
                }
            }
            pair.run_for(ms(1));
        }
        run_until_empty(&mut pair);
        pair.check_delivered(ends[0].0);
    }
}

#[test]
fn whoever_knows_the_numbers_cannot_break_more_than_the_connection() {
    for seed in 0..100 {
        let (mut pair, ends) = busy(seed);
        let mut rng = Rng::new(seed);
        for _ in 0..50 {
            for (socket, host) in ends {
                // Close to the right number, or to the edges of windows.
                let headers = any_header(&mut pair, socket, &mut rng, |rng, right| {
                    let distance = rng.magnitude(300_000) as u32;
                    if rng.next_u64() & 1 == 0 {
                        right + distance
                    } else {
                        right - distance
                    }
                });
                pair.inject(host, &headers, b"");
            }
            pair.run_for(ms(1));
        }
        // The connection may be reset, or each side believe something else of it. But no byte is
        // wrong, nothing goes in circles, and a host that gives up gets everything back.
        pair.run_for(Duration::from_secs(5));
        for socket in pair.sockets() {
            if !pair.socket(socket).closed {
                pair.request(socket, tcp::Request::Abort).unwrap();
            }
        }
        run_until_empty(&mut pair);
    }
}

#[test]
fn frames_that_are_damaged_anyhow_are_survived() {
    for seed in 0..20 {
        let (mut pair, ends) = busy(seed);
        let mut rng = Rng::new(seed);
        for _ in 0..100 {
            for (socket, host) in ends {
                let headers = pair.forge(socket, Flags::ACK);
                let mut frame = vec![0; 200];
                let checksum = wire::segment::TcpChecksum::Partial;
                let len = headers.emit(100, checksum, &mut frame).unwrap() + 100;
                frame.truncate(len);
                for _ in 0..rng.between(1, 8) {
                    let at = rng.below(len as u64) as usize;
                    frame[at] = rng.next_u64() as u8;
                }
                frame.truncate(rng.between(0, len as u64) as usize);
                pair.inject_frame(host, frame);
            }
            pair.run_for(ms(1));
        }
        run_until_empty(&mut pair);
        pair.check_delivered(ends[0].0);
        let refused: u64 = pair.host(pair.client).malformed.values().sum();
        assert_eq!(refused, 100);
    }
}

#[test]
fn a_syn_flood_is_bounded_and_does_not_touch_what_is_open() {
    let mut pair = Pair::with(
        1,
        PairConfig {
            max_half_open: 100,
            ..PairConfig::default()
        },
    );
    let plan = Plan {
        then: Then::Close,
        ..Plan::transfer(300_000)
    };
    let (client, _) = pair.establish(plan, Plan::LISTEN);
    let server = pair.server;
    let mut flow = pair.flow(client);
    for attack in 0..20_000_u32 {
        let [_, a, b, c] = attack.to_be_bytes();
        flow.local = [172, 16 | a, b, c].into();
        pair.inject(server, &sim::forge(flow, Flags::SYN), b"");
        if attack % 1_000 == 0 {
            pair.run_for(ms(1));
            assert!(pair.host(server).stack.half_open_count() <= 100);
        }
    }
    pair.run_until(Duration::from_secs(60), |world| {
        world.socket(client).released
    });
    pair.check_delivered(client);
    pair.run_for(Duration::from_secs(300));
    pair.check_empty();
}
