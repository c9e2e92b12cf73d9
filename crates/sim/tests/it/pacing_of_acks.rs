//! Nagle's algorithm, corks, and delayed acknowledgements: small segments and when they go.

use core::time::Duration;

use sim::{Pair, PairConfig, Plan, SocketId};
use tcp::{ConnOption, Extent, Request};

use crate::{SOON, ms, sent_without_windows};

/// A pair of which both sockets have been at it long enough not to be acknowledged at once any
/// more.
fn grown(seed: u64, mut config: PairConfig) -> (Pair, SocketId, SocketId) {
    // So that segments arrive one after the other, and are acknowledged often.
    config.link.bandwidth = Some(100_000_000);
    let mut pair = Pair::with(seed, config);
    let (client, server) = pair.establish(Plan::BY_HAND, Plan::BY_HAND);
    for socket in [client, server] {
        pair.send(socket, 200_000);
        pair.pump(socket);
    }
    pair.run_until(SOON, |world| {
        [client, server]
            .iter()
            .all(|&socket| world.socket(socket).update.acked == 200_000)
    });
    pair.run_for(ms(1_000));
    pair.trace_all();
    (pair, client, server)
}

/// Hands over so many bytes, as one piece.
fn hand_over(pair: &mut Pair, socket: SocketId, bytes: u64) {
    pair.send(socket, bytes);
    pair.pump(socket);
}

fn payloads(pair: &Pair) -> Vec<usize> {
    pair.trace()
        .iter()
        .map(|sent| sent.payload_len)
        .filter(|&len| len > 0)
        .collect()
}

#[test]
fn nagle_lets_one_small_segment_out_and_gathers_the_rest() {
    let (mut pair, client, _) = grown(1, PairConfig::default());
    for _ in 0..10 {
        hand_over(&mut pair, client, 10);
        pair.run_for(ms(1));
    }
    pair.run_for(ms(500));
    assert_eq!(payloads(&pair), [10, 90]);
}

#[test]
fn no_delay_sends_each_at_once() {
    let mut config = PairConfig::default();
    config.options.no_delay = true;
    let (mut pair, client, _) = grown(2, config);
    for _ in 0..10 {
        hand_over(&mut pair, client, 10);
        pair.run_for(ms(1));
    }
    assert_eq!(payloads(&pair), [10; 10]);
}

#[test]
fn setting_no_delay_sends_what_waits() {
    let (mut pair, client, _) = grown(3, PairConfig::default());
    hand_over(&mut pair, client, 10);
    pair.run_for(ms(1));
    hand_over(&mut pair, client, 20);
    pair.run_for(ms(1));
    assert_eq!(payloads(&pair), [10]);
    pair.request(client, Request::SetOption(ConnOption::NoDelay(true)))
        .unwrap();
    pair.run_for(ms(1));
    assert_eq!(payloads(&pair), [10, 20]);
}

#[test]
fn a_cork_holds_back_what_is_not_full_until_it_is_pulled() {
    let mut config = PairConfig::default();
    config.options.no_delay = true;
    let (mut pair, client, _) = grown(4, config);
    pair.request(client, Request::SetOption(ConnOption::Cork(true)))
        .unwrap();
    hand_over(&mut pair, client, 100);
    hand_over(&mut pair, client, 1_448);
    pair.run_for(ms(100));
    assert_eq!(payloads(&pair), [1_448]);
    pair.request(client, Request::SetOption(ConnOption::Cork(false)))
        .unwrap();
    pair.run_for(ms(1));
    assert_eq!(payloads(&pair), [1_448, 100]);
}

#[test]
fn a_cork_that_is_never_pulled_gives_way_after_200_ms() {
    let mut config = PairConfig::default();
    config.options.no_delay = true;
    let (mut pair, client, _) = grown(5, config);
    pair.request(client, Request::SetOption(ConnOption::Cork(true)))
        .unwrap();
    hand_over(&mut pair, client, 100);
    pair.run_for(ms(190));
    assert_eq!(payloads(&pair), [0_usize; 0]);
    pair.run_for(ms(20));
    assert_eq!(payloads(&pair), [100]);
}

#[test]
fn more_to_come_waits_for_it() {
    let mut config = PairConfig::default();
    config.options.no_delay = true;
    let (mut pair, client, _) = grown(6, config);
    // The header of an answer, then its body.
    let base = pair.socket(client).next_address();
    let header = Request::Send {
        extent: Extent {
            addr: base,
            len: 200,
        },
        more: true,
    };
    pair.request(client, header).unwrap();
    pair.run_for(ms(10));
    assert_eq!(payloads(&pair), [0_usize; 0]);
    let body = Request::Send {
        extent: Extent {
            addr: base + 200,
            len: 600,
        },
        more: false,
    };
    pair.request(client, body).unwrap();
    pair.run_for(ms(1));
    assert_eq!(payloads(&pair), [800]);
}

//~ RFC 9293 MUST-40
#[test]
fn a_delayed_ack_waits_but_not_long() {
    let (mut pair, client, _) = grown(7, PairConfig::default());
    hand_over(&mut pair, client, 100);
    pair.run_for(ms(200));
    let times: Vec<u64> = pair
        .trace()
        .iter()
        .map(|sent| sent.at.as_millis())
        .collect();
    let lines = sent_without_windows(&pair);
    assert_eq!(lines.len(), 2, "{}", pair.trace());
    // Ten milliseconds on the way, then the delay.
    let delay = times[1] - times[0] - 10;
    assert!((39..=45).contains(&delay), "{}", pair.trace());
}

#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    let (mut pair, client, _) = grown(8, PairConfig::default());
    hand_over(&mut pair, client, 2 * 1_448);
    pair.run_for(Duration::from_millis(25));
    let acks = pair
        .trace()
        .iter()
        .filter(|sent| sent.from == "server")
        .count();
    assert_eq!(acks, 1, "{}", pair.trace());
}

#[test]
fn an_answer_carries_the_acknowledgement() {
    let (mut pair, client, server) = grown(9, PairConfig::default());
    hand_over(&mut pair, client, 100);
    let before = pair.socket(server).consumed;
    pair.run_until(SOON, |world| world.socket(server).consumed == before + 100);
    hand_over(&mut pair, server, 300);
    pair.run_for(ms(15));
    let from_server: Vec<_> = pair
        .trace()
        .iter()
        .filter(|sent| sent.from == "server")
        .collect();
    assert_eq!(from_server.len(), 1, "{}", pair.trace());
    assert_eq!(from_server[0].payload_len, 300);
}
