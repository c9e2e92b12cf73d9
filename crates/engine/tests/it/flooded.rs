//! More SYNs arrive than a worker answers: everything else that arrives is still handled in time.

use crate::world::{ENGINE, World};
use engine::config::Config;
use netdev::sim::LinkConfig;
use queue_pair::Submission;
use queue_pair::control::{Fds, Reply, Request, SocketRow};
use std::collections::HashSet;
use std::net::Ipv4Addr;
use tcp::DropReason;
use wire::checksum::Sum;
use wire::ethernet::{MacAddr, Vlan};
use wire::ip::Ecn;
use wire::segment::{Headers, Link, TcpChecksum};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr};

/// Frames that a worker takes in a turn, and by how many more it catches up when so many wait.
const TURN: u32 = 64;
const CATCH_UP: u32 = 512;
const BEHIND: u32 = 1024;
/// SYNs that come at once.
const FLOOD: u32 = 2 * BEHIND;

/// The SYN of the `number`th stranger.
fn syn(number: u32, port: u16) -> Vec<u8> {
    let [_, a, b, c] = number.to_be_bytes();
    let headers = Headers {
        link: Link {
            src: MacAddr([2, 0, 0, 0, 0, 2]),
            dst: MacAddr([2, 0, 0, 0, 0, 1]),
            vlan: Vlan::None,
        },
        src: Ipv4Addr::new(10, 128 | a, b, c).into(),
        dst: ENGINE,
        hop_limit: 64,
        dscp: 0,
        ecn: Ecn::NotCapable,
        tcp: Repr {
            src_port: 1024,
            dst_port: port,
            seq: SeqNumber(number),
            ack: None,
            flags: Flags::SYN,
            window: 64_240,
            options: Options::NONE,
        },
    };
    let mut frame = vec![0; headers.len()];
    let complete = TcpChecksum::Complete(Sum::ZERO);
    headers.emit(0, complete, &mut frame).expect("fits");
    frame
}

/// A world with an open connection and a listener whose SYN queue is full.
fn flooded() -> (
    World,
    crate::world::Host,
    queue_pair::ConnRef,
    tcp::ConnId,
    u16,
) {
    let mut config = Config::default();
    config.limits.half_open = 1;
    let roomy = LinkConfig {
        capacity: 2 * FLOOD as usize,
        ..LinkConfig::default()
    };
    let mut world = World::with(config, roomy);
    let (host, conn, peer) = world.connected();
    let port = host.kernel[0].local_addr().unwrap().port();
    world.peer.inject(&syn(0, port));
    world.worker.turn(world.now);
    assert_eq!(world.worker.stack().half_open_count(), 1);
    (world, host, conn, peer, port)
}

fn answered_and_withheld(world: &World) -> (u64, u64) {
    let counters = world.worker.stack().counters();
    let withheld = counters.dropped(DropReason::CookieWithheld);
    (counters.cookies_sent, withheld)
}

#[test]
fn what_is_no_syn_overtakes_a_flood() {
    let (mut world, mut host, conn, peer, port) = flooded();
    for number in 1..=CATCH_UP {
        world.peer.inject(&syn(number, port));
    }
    world.peer.send(world.now, peer, b"in time");
    world.peer.turn(world.now);
    for number in 1..=FLOOD {
        world.peer.inject(&syn(CATCH_UP + number, port));
    }
    world.worker.turn(world.now);
    host.collect();
    assert_eq!(host.received(conn), b"in time");
    let (answered, withheld) = answered_and_withheld(&world);
    assert_eq!(answered, u64::from(TURN));
    // The peer's own TCP had a word or two to say about what was answered before.
    let least = u64::from(CATCH_UP - TURN);
    assert!(
        withheld > least && withheld < u64::from(CATCH_UP),
        "{withheld}"
    );
}

#[test]
fn who_comes_again_is_answered() {
    let (mut world, _host, _, _, port) = flooded();
    // The last one of those by which the worker catches up.
    let client = TURN + CATCH_UP;
    let mut round = |first: u32| {
        let (before, _) = answered_and_withheld(&world);
        for number in 1..=FLOOD {
            let number = if number == client {
                client
            } else {
                first + number
            };
            world.peer.inject(&syn(number, port));
        }
        while world.worker.turn(world.now) {}
        world.now += std::time::Duration::from_secs(1);
        answered_and_withheld(&world).0 - before
    };
    let answered = round(0);
    assert!(answered < u64::from(FLOOD - CATCH_UP));
    assert_eq!(round(1 << 16), answered + 1);
}

#[test]
fn a_worker_that_keeps_up_answers_all() {
    let (mut world, _host, _, _, port) = flooded();
    for number in 1..=BEHIND {
        world.peer.inject(&syn(number, port));
    }
    while world.worker.turn(world.now) {}
    assert_eq!(answered_and_withheld(&world), (BEHIND.into(), 0));
}

/// What `ss` is told by a filter, and in how many answers.
fn told(world: &mut World, filter: &str) -> (Vec<SocketRow>, usize) {
    let mut channel = world.dial();
    let (mut rows, mut answers, mut after) = (Vec::new(), 0, None);
    loop {
        let filter = filter.to_owned();
        let request = Request::Sockets { after, filter };
        channel.send(&request, Fds::new()).expect("sent");
        // Without the peer, which ends the handshakes of strangers by RST.
        for _ in 0..200 {
            world.desk.attend();
            world.worker.attend(world.now);
        }
        let reply = channel.try_receive::<Reply>().expect("open");
        let Some((Reply::Sockets { rows: some, next }, _)) = reply else {
            panic!("no sockets");
        };
        rows.extend(some);
        answers += 1;
        after = next;
        if after.is_none() {
            return (rows, answers);
        }
    }
}

#[test]
fn strangers_and_the_departed_are_told_of_once_and_only_to_who_asks() {
    // More than are looked at for one answer.
    const MANY: u32 = 600;
    let roomy = LinkConfig {
        capacity: 2 * MANY as usize,
        ..LinkConfig::default()
    };
    let mut world = World::with(Config::default(), roomy);
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    host.submit(Submission::Credit {
        listener,
        total: 2 * MANY,
        waits: false,
    });
    let _open = world.connect(&mut host, port);
    for _ in 0..MANY {
        let (conn, peer) = world.connect(&mut host, port);
        host.close(conn);
        world.settle();
        world.peer.request(world.now, peer, tcp::Request::Close);
        world.settle();
    }
    for number in 1..=MANY {
        world.peer.inject(&syn(number, port));
        world.worker.turn(world.now);
    }
    let stack = world.worker.stack();
    assert_eq!(stack.time_wait_count(), MANY);
    assert_eq!(stack.half_open_count(), MANY);
    let (rows, _) = told(&mut world, "");
    let ends: HashSet<_> = rows.iter().map(|row| (row.local, row.peer)).collect();
    assert_eq!(ends.len(), rows.len(), "each once");
    let of = |state: &str| rows.iter().filter(|row| row.state == state).count() as u32;
    assert_eq!((of("TIME-WAIT"), of("SYN-RECEIVED")), (MANY, MANY));
    assert_eq!((of("LISTEN"), of("ESTABLISHED")), (1, 1));
    let (rows, _) = told(&mut world, "state time-wait");
    assert_eq!(rows.len() as u32, MANY);
    assert!(rows.iter().all(|row| {
        let timer = row.info.as_ref().and_then(|info| info.timer.as_ref());
        timer.is_some_and(|(what, left)| what == "timewait" && *left > 0)
    }));
    // Who does not want them does not wait for a walk through them.
    let (rows, answers) = told(&mut world, "exclude time-wait exclude syn-recv");
    assert_eq!((rows.len(), answers), (2, 1));
}
