//! Connections that go from one stack to another.

use core::time::Duration;

use sim::{Chance, LinkConfig, Pair, PairConfig, Plan, Reading, Rng, SocketId};
use tcp::snapshot::{FastOpen, Fate, FlightPiece, RecoveryPhase, Snapshot, TimeWait};
use tcp::{
    Algorithm, Config, ConnId, ConnOptions, ExportError, FrameSink, ImportError, Instant,
    ListenSpec, Outgoing, SinkFull, Stack, State,
};
use wire::tcp::Flags;

use crate::{SOON, ms, run_until_empty};

fn lossy(algorithm: Algorithm, selective_acks: bool) -> PairConfig {
    let stack = Config {
        selective_acks,
        ..Config::default()
    };
    PairConfig {
        client: stack.clone(),
        server: stack,
        options: ConnOptions {
            congestion: algorithm,
            ..ConnOptions::default()
        },
        link: LinkConfig {
            delay: ms(10),
            bandwidth: Some(20_000_000),
            loss: Chance::percent(3),
            reordering: Chance::percent(5),
            lateness: ms(15),
            ..LinkConfig::default()
        },
        ..PairConfig::default()
    }
}

#[test]
fn every_connection_goes_on_in_another_stack_with_other_secrets() {
    for algorithm in [Algorithm::Cubic, Algorithm::Reno, Algorithm::Bbr] {
        for (number, selective_acks) in [true, false].into_iter().enumerate() {
            let config = lossy(algorithm, selective_acks);
            let mut pair = Pair::with(7 + number as u64, config.clone());
            let plan = Plan::transfer(400_000);
            let sockets: Vec<_> = (0..3).map(|_| pair.establish(plan, plan)).collect();
            let sent = |pair: &Pair, at: u64| {
                let acked = |id: SocketId| pair.socket(id).update.acked;
                sockets.iter().all(|&(a, b)| acked(a) + acked(b) >= at)
            };
            // Before any of them is near its end, so that no TIME-WAIT is left behind.
            for step in 1..=20 {
                let at = step * 15_000;
                pair.run_until(SOON * 20, |_| true);
                while !sent(&pair, at) {
                    assert!(pair.step());
                }
                let host = if step % 2 == 0 {
                    pair.client
                } else {
                    pair.server
                };
                let stack = Stack::new(config.client.clone(), [step as u8; 32]);
                pair.replace_stack(host, stack).expect("all are sound");
            }
            for &(client, server) in &sockets {
                let closed = |pair: &Pair| pair.socket(client).closed && pair.socket(server).closed;
                while !closed(&pair) {
                    assert!(pair.step());
                }
                pair.check_delivered(client);
            }
            run_until_empty(&mut pair);
        }
    }
}

/// Every few steps from the first SYN to the end of TIME-WAIT: whatever state they are in, connections
/// find their peers where they left them.
#[test]
fn stacks_are_replaced_from_the_first_syn_to_the_end_of_time_wait() {
    let mut half_opens = 0;
    for seed in 0..12 {
        let config = lossy(Algorithm::Cubic, seed % 2 == 0);
        let stacks = config.client.clone();
        let mut pair = Pair::with(seed, config);
        let mut rng = Rng::new(seed);
        let clients: Vec<_> = (0..3)
            .map(|number| {
                let size = [0, 3_000, 60_000][number];
                pair.connect(Plan::transfer(size))
            })
            .collect();
        let mut steps = 0;
        loop {
            steps += 1;
            let acceptable = pair.acceptable(pair.server, pair.listener);
            if acceptable > 0 && rng.happens(Chance::percent(20)) {
                pair.accept(Plan::transfer(20_000));
            }
            if rng.happens(Chance::percent(15)) {
                let host = rng.pick(&[pair.client, pair.server]);
                half_opens += pair.host(host).stack.half_open_count();
                let stack = Stack::new(stacks.clone(), [steps as u8; 32]);
                pair.replace_stack(host, stack).expect("all are sound");
            }
            if !pair.step() && pair.acceptable(pair.server, pair.listener) == 0 {
                break;
            }
        }
        for client in clients {
            pair.check_delivered(client);
        }
        pair.check_empty();
        let waiting = |host| pair.host(host).stack.time_wait_count();
        assert_eq!([pair.client, pair.server].map(waiting), [0, 0]);
    }
    assert!(half_opens > 0, "no handshake was moved");
}

#[test]
fn a_pair_in_time_wait_moves_with_its_clock_and_what_is_left() {
    let mut pair = Pair::new(8);
    let (client, _) = pair.establish(Plan::transfer(1_000), Plan::LISTEN);
    run_until_empty(&mut pair);
    pair.run_for(Duration::from_secs(20));
    let (now, host) = (pair.now(), pair.client);
    let old = &mut pair.host_mut(host).stack;
    let value = old.export_time_wait(now).expect("it closed first");
    assert_eq!(old.export_time_wait(now), None);
    assert_eq!((old.time_wait_count(), old.audit()), (0, Ok(())));
    let seconds = |nanos: u64| nanos / 1_000_000_000;
    assert_eq!((seconds(value.age), seconds(value.left)), (20, 39));
    let elsewhere = Instant::from_secs(5_000_000);
    let mut stack = Stack::new(Config::default(), [3; 32]);
    stack.import_time_wait(elsewhere, &value).expect("sound");
    assert_eq!(stack.audit(), Ok(()));
    let again = stack.import_time_wait(elsewhere, &value);
    assert_eq!(again, Err(ImportError::AddressInUse));
    assert_eq!(stack.export_time_wait(elsewhere), Some(value));
    let newer = TimeWait {
        version: value.version + 1,
        ..value
    };
    let refused = stack.import_time_wait(elsewhere, &newer);
    assert_eq!(refused, Err(ImportError::Version(newer.version)));
    let mut small = Stack::new(
        Config {
            max_time_wait: 1,
            ..Config::default()
        },
        [0; 32],
    );
    small.import_time_wait(now, &value).expect("there is room");
    let mut other = value;
    other.remote.set_port(1);
    let full = small.import_time_wait(now, &other);
    assert_eq!(full, Err(ImportError::TooManyConnections));
    // In the next stack it expires when it would have.
    let end = elsewhere + Duration::from_nanos(value.left);
    stack.import_time_wait(elsewhere, &value).expect("sound");
    assert_eq!(stack.next_timeout(), Some(end));
    stack.on_timeout(end, 10);
    assert_eq!((stack.time_wait_count(), stack.audit()), (0, Ok(())));
    pair.check_delivered(client);
}

#[test]
fn a_handshake_moves_to_where_somebody_listens() {
    let mut pair = Pair::new(9);
    let (client, server) = (pair.client, pair.server);
    pair.filter(client, |segment| segment.tcp.flags.contains(Flags::SYN));
    let socket = pair.connect(Plan::transfer(5_000));
    pair.run_for(ms(300));
    let now = pair.now();
    let value = {
        let old = &mut pair.host_mut(server).stack;
        let value = old.export_half_open(now).expect("its ACK was lost");
        assert_eq!(old.export_half_open(now), None);
        assert_eq!((old.half_open_count(), old.audit()), (0, Ok(())));
        old.import_half_open(now, &value).expect("sound");
        value
    };
    assert_eq!((value.syn_acks, value.retries), (1, 0));
    let mut stack = Stack::new(Config::default(), [3; 32]);
    let nobody = stack.import_half_open(now, &value);
    assert_eq!(nobody, Err(ImportError::NoListener));
    let elsewhere = Instant::from_secs(7);
    let spec = |max_half_open| ListenSpec {
        addr: None,
        port: value.local.port(),
        backlog: 1,
        max_half_open,
        v6_only: false,
        options: ConnOptions::default(),
    };
    let none = stack.listen(spec(0)).expect("nothing listens");
    let full = stack.import_half_open(elsewhere, &value);
    assert_eq!(full, Err(ImportError::TooManyConnections));
    stack.unlisten(elsewhere, none);
    stack.listen(spec(1)).expect("nothing listens");
    let mut scaled = value;
    scaled.window_scales = Some((7, 3));
    let refused = stack.import_half_open(elsewhere, &scaled);
    assert_eq!(
        refused,
        Err(ImportError::Inconsistent("another window scale"))
    );
    stack.import_half_open(elsewhere, &value).expect("sound");
    assert_eq!(stack.export_half_open(elsewhere), Some(value));
    assert_eq!(stack.audit(), Ok(()));
    // The pair's own server goes on as well, in a stack with other secrets.
    let stack = Stack::new(Config::default(), [4; 32]);
    assert_eq!(pair.replace_stack(server, stack), Ok(true));
    pair.unfilter(client);
    pair.run_until(SOON, |world| world.socket(socket).update.acked == 5_000);
    let counters = pair.host(server).stack.counters();
    assert_eq!((counters.passive_opens, counters.failures), (1, 0));
}

/// A recovery is not forgotten: what was lost and not sent again is sent by the next stack, without a
/// timeout.
#[test]
fn what_was_lost_is_sent_again_by_the_next_stack() {
    let mut pair = Pair::new(2);
    let client = pair.client;
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    let mut count = 0;
    pair.filter(client, move |segment| {
        count += usize::from(!segment.payload.is_empty());
        ![11, 14, 15].contains(&count) || segment.payload.is_empty()
    });
    *pair.plan_mut(socket) = Plan::transfer(100_000);
    pair.pump(socket);
    pair.run_until(SOON, |world| {
        world.info(socket).is_some_and(|info| info.recovering)
    });
    let before = pair.info(socket).expect("it is there");
    pair.replace_stack(client, Stack::new(Config::default(), [9; 32]))
        .expect("it is sound");
    let after = pair.info(socket).expect("it is there");
    let told = |info: &tcp::ConnInfo| {
        let books = (info.lost, info.sacked, info.retransmitted, info.in_flight);
        (info.recovering, books, info.srtt, info.ssthresh)
    };
    assert_eq!(told(&after), told(&before));
    run_until_empty(&mut pair);
    pair.check_delivered(socket);
    let counters = pair.host(client).stack.counters();
    assert_eq!(counters.timeouts, 0, "{counters:?}");
}

#[test]
fn a_closed_window_is_probed_by_the_next_stack() {
    let mut pair = Pair::new(3);
    let (client, server) = pair.establish(Plan::transfer(600_000), Plan::BY_HAND);
    pair.plan_mut(server).reading = Reading::Never;
    pair.run_for(Duration::from_secs(5));
    let info = pair.info(client).expect("it is there");
    assert_eq!(
        (info.in_flight, info.timer.map(|(name, _)| name)),
        (0, Some("persist"))
    );
    for host in [pair.client, pair.server] {
        let stack = Stack::new(Config::default(), [1; 32]);
        pair.replace_stack(host, stack).expect("all are sound");
    }
    pair.run_for(Duration::from_secs(60));
    pair.plan_mut(server).reading = Reading::Eager;
    pair.plan_mut(server).close_after_peer = true;
    pair.pump(server);
    run_until_empty(&mut pair);
    pair.check_delivered(client);
}

/// A clock that shows another time, and a while in between: the peer sees the timestamps rise.
#[test]
fn another_clock_makes_no_difference() {
    let mut pair = Pair::new(4);
    let (client, _) = pair.establish(Plan::transfer(100_000), Plan::LISTEN);
    pair.run_for(ms(45));
    let (now, conn) = (pair.now(), pair.socket(client).conn);
    let host = pair.client;
    let snapshot = pair.host_mut(host).stack.export(now, conn).expect("open");
    for elsewhere in [Instant::from_secs(5_000_000), Instant::from_secs(1_000)] {
        let mut stack = Stack::new(Config::default(), [3; 32]);
        let conn = stack.import(elsewhere, &snapshot).expect("sound");
        assert_eq!(stack.audit(), Ok(()));
        assert_eq!(stack.export(elsewhere, conn), Ok(snapshot.clone()));
        assert_eq!((stack.connection_count(), stack.audit()), (0, Ok(())));
    }
}

#[test]
fn what_cannot_move_says_why() {
    let mut pair = Pair::new(5);
    let client = pair.connect(Plan::BY_HAND);
    pair.run_for(ms(200));
    let (now, host, server) = (pair.now(), pair.client, pair.server);
    // Nobody has accepted it at the server; its first slot is its name.
    let waiting = ConnId {
        index: 0,
        generation: 0,
    };
    let stack = &mut pair.host_mut(server).stack;
    assert_eq!(stack.export(now, waiting), Err(ExportError::NotAccepted));
    let conn = pair.socket(client).conn;
    let stack = &mut pair.host_mut(host).stack;
    let snapshot = stack.export(now, conn).expect("it is open");
    assert_eq!(stack.export(now, conn), Err(ExportError::UnknownConnection));
    let newer = Snapshot {
        version: snapshot.version + 1,
        ..snapshot.clone()
    };
    assert_eq!(
        stack.import(now, &newer),
        Err(ImportError::Version(newer.version))
    );
    let conn = stack.import(now, &snapshot).expect("it is sound");
    assert_eq!(stack.import(now, &snapshot), Err(ImportError::AddressInUse));
    let abort = tcp::Request::Abort;
    // Its owner has not let go of it, so the RST leaves first.
    stack.on_request(now, conn, abort).expect("it is there");
    assert_eq!(stack.export(now, conn), Err(ExportError::Over));
    let mut small = Stack::new(
        Config {
            max_connections: 0,
            ..Config::default()
        },
        [0; 32],
    );
    assert_eq!(
        small.import(now, &snapshot),
        Err(ImportError::TooManyConnections)
    );
}

/// Takes everything, and sends nothing anywhere.
struct Nowhere;

impl FrameSink for Nowhere {
    fn burst_limit(&mut self, _conn: ConnId, mss: u16) -> usize {
        usize::from(mss)
    }

    fn emit(&mut self, _now: Instant, _out: &Outgoing<'_>) -> Result<(), SinkFull> {
        Ok(())
    }
}

/// A value may come from anywhere: whatever it says, the stack stays sound, and what is made of it ends
/// when its peer is silent.
#[test]
fn no_snapshot_breaks_a_stack() {
    let mut rng = Rng::new(6);
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..20 {
        let mut pair = Pair::with(seed, lossy(Algorithm::Cubic, seed % 4 != 0));
        let plan = Plan::transfer(200_000);
        let (client, _) = pair.establish(plan, plan);
        pair.run_for(ms(rng.below(400)));
        let (now, conn, host) = (pair.now(), pair.socket(client).conn, pair.client);
        let Ok(sound) = pair.host_mut(host).stack.export(now, conn) else {
            continue;
        };
        for _ in 0..200 {
            let mut snapshot = sound.clone();
            for _ in 0..rng.between(1, 3) {
                spoil(&mut snapshot, &mut rng);
            }
            let mut stack = Stack::new(Config::default(), [0; 32]);
            match stack.import(now, &snapshot) {
                Ok(_) => {
                    taken += 1;
                    outlive(&mut stack, now, &snapshot);
                }
                Err(_) => refused += 1,
            }
            assert_eq!(stack.audit(), Ok(()), "{snapshot:?}");
        }
    }
    assert!(taken > 500 && refused > 500, "{taken} taken, {refused} not");
}

fn outlive(stack: &mut Stack, mut now: Instant, snapshot: &Snapshot) {
    for _ in 0..5_000 {
        stack.poll_transmit(now, &mut Nowhere, 64);
        while stack.poll_event().is_some() {}
        assert_eq!(stack.audit(), Ok(()), "{snapshot:?}");
        if stack.wants_transmit() {
            continue;
        }
        match stack.next_timeout() {
            Some(at) => now = now.max(at),
            None => break,
        }
        stack.on_timeout(now, 100);
    }
    assert!(
        stack.next_timeout().is_none(),
        "it does not end: {snapshot:?}"
    );
}

/// Makes one part of a snapshot say something else.
fn spoil(snapshot: &mut Snapshot, rng: &mut Rng) {
    let any = rng.next_u64();
    let (small, word) = (any % 5_000, any as u32);
    let s = snapshot;
    let states = [
        State::SynSent,
        State::SynReceived,
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
        State::TimeWait,
        State::Closed,
    ];
    match rng.below(38) {
        0 => s.state = rng.pick(&states),
        1 => s.agreed.window_scales = Some((word as u8 % 20, (word >> 8) as u8 % 20)),
        2 => s.agreed.timestamps = None,
        3 => s.agreed.selective_acks ^= true,
        4 => s.agreed.peer_mss = word as u16,
        5 => s.send.una = s.send.una.wrapping_add(small as u32),
        6 => s.send.nxt = word,
        7 => s.send.wnd = word,
        8 => s.send.acked = any,
        9 => s.send.extents.clear(),
        10 => s.send.extents.push(tcp::Extent {
            addr: any,
            len: word,
        }),
        11 => s.send.shutdown ^= true,
        12 => s.send.fin_sent ^= true,
        13 => s.receive.adv = s.receive.adv.wrapping_add(word % 2_000_000),
        14 => s.receive.nxt = word,
        15 => s.receive.received = small,
        16 => s.receive.consumed = small,
        17 => s.receive.fin_at = Some(s.receive.received + small % 2),
        18 => s.receive.held.push((any >> 20, any >> 20 | small)),
        19 => s.receive.buffer = word,
        20 => s.path.mtu = word as u16,
        21 => s.path.local_mss = word as u16,
        22 => s.path.srtt = any,
        23 => s.path.look_in_seconds = word as i32,
        24 => s.congestion.cwnd = word,
        25 => s.congestion.ssthresh = Some(word),
        26 => {
            s.congestion.algorithm = Algorithm::Bbr;
            (s.congestion.max_bw, s.congestion.bbr_min_rtt) = (any, rng.next_u64());
        }
        27 => s.recovery.phase = rng.pick(&[RecoveryPhase::Fast, RecoveryPhase::Loss]),
        28 => s.recovery.recover = word,
        29 => s.recovery.flight.push(FlightPiece {
            len: small as u32,
            age: any,
            fate: Fate::Lost,
        }),
        30 => {
            for piece in &mut s.recovery.flight {
                piece.fate = rng.pick(&[Fate::Lost, Fate::Sacked, Fate::Retransmitted]);
                piece.age = any;
            }
        }
        31 => s.waits.rto_or_persist = rng.pick(&[None, Some(any)]),
        32 => s.waits.backoff = word as u8,
        33 => s.owner.orphan ^= true,
        35 => s.send.syn_data = word as u16 % 600,
        36 => s.send.fast_open = rng.pick(&[FastOpen::Pending { renew: true }, FastOpen::Asked]),
        34 => s.owner.user_timeout_ms = word % 1_000_000,
        _ => s.receive.quick = word as u8,
    }
}
