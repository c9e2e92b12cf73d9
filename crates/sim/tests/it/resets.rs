//! RST: sent where nothing is, believed only where it must be (RFC 5961).

use core::time::Duration;

use sim::{Pair, Plan, Reading, SocketId, forge};
use tcp::{ConnectError, Failure, Request, State};
use wire::tcp::Flags;

use crate::{SOON, ms, sent_without_windows};

fn open(seed: u64) -> (Pair, SocketId, SocketId) {
    let mut pair = Pair::new(seed);
    let (client, server) = pair.establish(Plan::BY_HAND, Plan::BY_HAND);
    pair.run_for(ms(1_000));
    (pair, client, server)
}

/// Brings the client's end into a state.
fn in_state(seed: u64, state: State) -> (Pair, SocketId) {
    let (mut pair, client, server) = open(seed);
    let host = pair.server;
    match state {
        State::Established => {}
        State::FinWait1 => {
            pair.request(client, Request::ShutdownWrite).unwrap();
            pair.run_for(ms(1));
        }
        State::FinWait2 => {
            pair.request(client, Request::ShutdownWrite).unwrap();
            pair.run_for(ms(200));
        }
        State::CloseWait => {
            pair.request(server, Request::ShutdownWrite).unwrap();
            pair.run_for(ms(200));
        }
        State::LastAck => {
            pair.request(server, Request::ShutdownWrite).unwrap();
            pair.run_for(ms(200));
            pair.request(client, Request::ShutdownWrite).unwrap();
            pair.run_for(ms(1));
        }
        State::Closing => {
            pair.request(client, Request::ShutdownWrite).unwrap();
            pair.request(server, Request::ShutdownWrite).unwrap();
            // The peer's FIN arrives, its acknowledgement of ours does not.
            pair.filter(host, |segment| segment.tcp.flags.contains(Flags::FIN));
            pair.run_for(ms(15));
        }
        other => unreachable!("{other:?}"),
    }
    assert_eq!(pair.info(client).unwrap().state, state);
    (pair, client)
}

const SYNCHRONIZED: [State; 6] = [
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
];

//~ RFC 9293 §3.10.7.4
#[test]
fn an_exact_reset_ends_a_connection_in_every_state() {
    for state in SYNCHRONIZED {
        let (mut pair, client) = in_state(1, state);
        let reset = pair.forge(client, Flags::RST);
        let host = pair.client;
        pair.inject(host, &reset, b"");
        pair.run_for(ms(1));
        assert_eq!(
            pair.socket(client).update.failed,
            Some(Failure::Reset),
            "{state:?}"
        );
        pair.request(client, Request::Close).unwrap();
        pair.run_for(ms(1));
        assert!(pair.socket(client).released, "{state:?}");
    }
}

#[test]
fn a_reset_that_is_off_by_one_is_challenged_in_every_state() {
    for state in SYNCHRONIZED {
        let (mut pair, client) = in_state(2, state);
        let mut reset = pair.forge(client, Flags::RST);
        reset.tcp.seq += 1;
        let host = pair.client;
        pair.trace_all();
        pair.inject(host, &reset, b"");
        pair.run_for(ms(1));
        assert_eq!(pair.socket(client).update.failed, None, "{state:?}");
        assert_eq!(pair.info(client).unwrap().state, state);
        assert_eq!(
            pair.host(host).stack.counters().challenge_acks,
            1,
            "{state:?}"
        );
        assert_eq!(
            sent_without_windows(&pair).len(),
            1,
            "{state:?}: {}",
            pair.trace()
        );
    }
}

#[test]
fn a_reset_outside_the_window_is_ignored() {
    for state in SYNCHRONIZED {
        let (mut pair, client) = in_state(3, state);
        let mut reset = pair.forge(client, Flags::RST);
        reset.tcp.seq += 100_000_000;
        let host = pair.client;
        pair.trace_all();
        pair.inject(host, &reset, b"");
        pair.run_for(ms(1));
        assert_eq!(pair.info(client).unwrap().state, state);
        assert_eq!(
            pair.trace().iter().count(),
            0,
            "{state:?}: {}",
            pair.trace()
        );
    }
}

#[test]
fn a_syn_on_an_open_connection_is_challenged() {
    for state in SYNCHRONIZED {
        let (mut pair, client) = in_state(4, state);
        let syn = pair.forge(client, Flags::SYN);
        let host = pair.client;
        pair.trace_all();
        pair.inject(host, &syn, b"");
        pair.run_for(ms(1));
        assert_eq!(pair.info(client).unwrap().state, state);
        assert_eq!(
            pair.trace().iter().count(),
            1,
            "{state:?}: {}",
            pair.trace()
        );
    }
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_answered_and_ignored() {
    let (mut pair, client) = in_state(5, State::Established);
    let mut ack = pair.forge(client, Flags::ACK);
    ack.tcp.ack = ack.tcp.ack.map(|ack| ack + 1_000);
    let host = pair.client;
    pair.inject(host, &ack, b"data that goes with it is not taken either");
    pair.run_for(ms(1));
    assert_eq!(pair.socket(client).update.received, 0);
}

#[test]
fn a_syn_to_a_closed_port_is_refused() {
    let mut pair = Pair::new(6);
    let (local, mut remote) = (pair.client_addr(40_000), pair.server_addr());
    remote.set_port(81);
    let host = pair.client;
    let client = pair
        .connect_between(host, local, remote, Plan::LISTEN)
        .unwrap();
    pair.run_until(SOON, |world| world.socket(client).update.failed.is_some());
    assert_eq!(pair.socket(client).update.failed, Some(Failure::Refused));
    assert_eq!(
        sent_without_windows(&pair),
        ["client S 0:0(0)", "server R. 0:0(0) ack 1"]
    );
    pair.run_for(ms(1));
    pair.check_empty();
}

#[test]
fn segments_for_no_connection_are_answered_by_reset_and_resets_by_nothing() {
    let (mut pair, client, _) = open(7);
    let host = pair.client;
    let mut ack = pair.forge(client, Flags::ACK);
    ack.tcp.dst_port = 999;
    pair.trace_all();
    pair.inject(host, &ack, b"hello");
    pair.run_for(ms(1));
    let seq = ack.tcp.ack.unwrap();
    let reset = pair.trace().iter().next().unwrap().tcp;
    // RFC 9293 3.10.7.1: the reset takes its number from the acknowledgement.
    assert!(reset.flags.contains(Flags::RST) && reset.ack.is_none() && reset.seq == seq);
    let mut stray = ack;
    stray.tcp.flags = Flags::RST;
    stray.tcp.ack = None;
    pair.trace_all();
    pair.inject(host, &stray, b"");
    pair.run_for(ms(1));
    assert_eq!(pair.trace().iter().count(), 0);
}

#[test]
fn aborting_resets_the_peer() {
    let (mut pair, client, server) = open(8);
    pair.request(client, Request::Abort).unwrap();
    pair.run_until(SOON, |world| world.socket(server).update.failed.is_some());
    assert_eq!(pair.socket(server).update.failed, Some(Failure::Reset));
    assert!(pair.socket(client).released);
}

#[test]
fn closing_with_unread_data_resets_the_peer() {
    let (mut pair, client, server) = open(9);
    pair.plan_mut(server).reading = Reading::Never;
    pair.send(client, 100);
    pair.pump(client);
    pair.run_until(SOON, |world| world.socket(server).update.received == 100);
    pair.request(server, Request::Close).unwrap();
    pair.run_until(SOON, |world| world.socket(client).update.failed.is_some());
    assert_eq!(pair.socket(client).update.failed, Some(Failure::Reset));
}

#[test]
fn data_for_an_owner_that_has_closed_is_answered_by_reset() {
    let (mut pair, client, server) = open(10);
    pair.request(server, Request::Close).unwrap();
    pair.run_until(SOON, |world| world.socket(client).update.peer_closed);
    pair.send(client, 100);
    pair.pump(client);
    pair.run_until(SOON, |world| world.socket(client).update.failed.is_some());
    assert_eq!(pair.socket(client).update.failed, Some(Failure::Reset));
}

//~ RFC 9293 MUST-11
#[test]
fn a_reset_of_a_half_open_connection_frees_it() {
    let mut pair = Pair::new(11);
    let client = pair.connect(Plan::BY_HAND);
    let (host, peer) = (pair.client, pair.server);
    // The server's SYN-ACK never arrives.
    pair.filter(peer, |_| false);
    pair.run_for(ms(15));
    assert_eq!(pair.host(peer).stack.half_open_count(), 1);
    pair.unfilter(peer);
    pair.filter(host, |_| false);
    let syn = pair.trace().iter().next().unwrap().tcp;
    let flow = pair.flow(client);
    let mut reset = forge(flow, Flags::RST);
    reset.tcp.seq = syn.seq + 1;
    pair.inject(peer, &reset, b"");
    pair.run_for(ms(1));
    assert_eq!(pair.host(peer).stack.half_open_count(), 0);
}

#[test]
fn a_wrong_acknowledgement_of_a_syn_is_answered_by_reset() {
    let mut pair = Pair::new(12);
    let client = pair.connect(Plan::BY_HAND);
    let host = pair.client;
    pair.run_for(ms(1));
    let syn = pair.trace().iter().next().unwrap().tcp;
    let flow = pair.flow(client).reversed();
    let mut syn_ack = forge(flow, Flags::SYN | Flags::ACK);
    syn_ack.tcp.ack = Some(syn.seq + 2);
    pair.trace_all();
    pair.inject(host, &syn_ack, b"");
    pair.run_for(ms(1));
    let answer = pair.trace().iter().next().unwrap().tcp;
    assert!(answer.flags.contains(Flags::RST) && answer.seq == syn.seq + 2);
    assert_eq!(pair.info(client).unwrap().state, State::SynSent);
    pair.run_until(SOON, |world| world.socket(client).update.connected);
}

#[test]
fn challenges_are_limited() {
    let (mut pair, client, _) = open(13);
    let host = pair.client;
    let mut reset = pair.forge(client, Flags::RST);
    reset.tcp.seq += 1;
    pair.trace_all();
    for _ in 0..5_000 {
        pair.inject(host, &reset, b"");
    }
    pair.run_for(ms(900));
    let limit = tcp::Config::default().challenge_acks_per_second as usize;
    let answers = pair.trace().iter().count();
    assert!((1..=limit).contains(&answers), "{answers}");
}

#[test]
fn a_pair_that_is_in_use_cannot_be_opened_again() {
    let (mut pair, client, _) = open(14);
    let (host, flow) = (pair.client, pair.socket(client).clone());
    let again = pair.connect_between(host, flow.local, flow.remote, Plan::BY_HAND);
    assert_eq!(again, Err(ConnectError::AddressInUse));
    pair.run_for(Duration::from_secs(1));
}
