//! Frames that wait until it is known where their next hop is, and connections that wait for one who does not
//! answer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicU64;

use crate::world::{ENGINE, Host, PEER, PEER_MAC, World};
use engine::config::Config;
use engine::slow::kernel::neighbours::Knowledge;
use engine::stats::Drop;
use netdev::sim::{LinkConfig, Toll};
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, ConnectBlock, Submission};
use rustix::io::Errno;

/// The port that the first connection is opened from.
const FROM: u16 = 20_000;
/// To which.
const TO: u16 = 7_000;
/// Bytes of the send area for each block.
const BLOCK: u64 = 256;

/// A station that nobody hears of.
const SILENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 66));

const THERE: Knowledge = Knowledge::Resolved {
    mac: PEER_MAC,
    stale: false,
};

/// A world in which nothing is known of a neighbour yet, and a host.
fn unresolved(neighbour: IpAddr, faults: LinkConfig) -> (World, Host) {
    let mut world = World::with(Config::default(), faults);
    let host = world.attach(None);
    tell(&mut world, neighbour, Knowledge::Unresolved);
    world.peer.listen(TO);
    (world, host)
}

/// The engine hears this of a neighbour.
fn tell(world: &mut World, neighbour: IpAddr, knowledge: Knowledge) {
    world.worker.network().tell(neighbour, knowledge);
    world.worker.hear_of_network(world.now);
}

/// A host asks for one more connection, as its `token`th.
fn open(host: &mut Host, token: u16, to: IpAddr) {
    let block = ConnectBlock {
        local: SocketAddr::new(ENGINE, FROM + token),
        ..ConnectBlock::new(SocketAddr::new(to, TO))
    };
    let addr = u64::from(token) * BLOCK;
    let bytes = block.encode();
    host.region.send.copy_in(addr, &bytes).expect("inside");
    host.submit(Submission::Connect {
        token: token.into(),
        addr,
    });
}

/// How many connections a host has heard of by now that they are open, and which not.
fn heard(host: &mut Host) -> (usize, Vec<u64>) {
    host.collect();
    let opened = |it: &&Completion| matches!(it, Completion::Opened { .. });
    let count = host.completions.iter().filter(opened).count();
    let unreachable = Errno::HOSTUNREACH.raw_os_error() as u16;
    let failed = host.completions.iter().filter_map(|it| match it {
        Completion::OpenFailed { token, errno } => {
            assert_eq!(*errno, unreachable);
            Some(*token)
        }
        _ => None,
    });
    (count, failed.collect())
}

#[test]
fn what_waits_for_a_next_hop_leaves_as_the_device_has_frames_for_it() {
    const MANY: u16 = 40;
    let few = LinkConfig {
        frames: 4,
        ..LinkConfig::default()
    };
    let (mut world, mut host) = unresolved(PEER, few);
    for token in 0..MANY {
        open(&mut host, token, PEER);
    }
    world.settle();
    assert_eq!(heard(&mut host), (0, vec![]));
    tell(&mut world, PEER, THERE);
    // No time passes, so nothing is sent again.
    world.settle();
    assert_eq!(heard(&mut host), (usize::from(MANY), vec![]));
    assert_eq!(world.worker.counters().dropped(Drop::HeldUnresolved), 0);
}

#[test]
fn what_waits_for_a_next_hop_leaves_in_portions() {
    const MANY: u64 = 200;
    // What leaves before it is known what that takes.
    const PORTION: u64 = 32;
    let clock: &AtomicU64 = Box::leak(Box::default());
    let dear = LinkConfig {
        toll: Some(Toll {
            clock,
            call: 1,
            frame: 5_500,
        }),
        ..LinkConfig::default()
    };
    let (mut world, mut host) = unresolved(PEER, dear);
    for token in 0..MANY {
        open(&mut host, token as u16, PEER);
    }
    world.settle();
    let before = world.worker.counters().sent;
    tell(&mut world, PEER, THERE);
    let mut sent = world.worker.counters().sent;
    assert_eq!(sent, before, "they leave in turns");
    while sent < before + MANY {
        assert!(world.worker.turn(world.now), "it goes on");
        let now = world.worker.counters().sent;
        assert!((1..=PORTION).contains(&(now - sent)), "{}", now - sent);
        sent = now;
    }
    world.settle();
    assert_eq!(heard(&mut host), (MANY as usize, vec![]));
}

#[test]
fn connections_whose_next_hop_does_not_answer_fail_some_in_a_turn() {
    const MANY: u16 = 300;
    const IN_A_TURN: usize = 128;
    let (mut world, mut host) = unresolved(SILENT, LinkConfig::default());
    // One by another way.
    tell(&mut world, PEER, Knowledge::Unresolved);
    open(&mut host, MANY, PEER);
    world.settle();
    for token in 0..MANY {
        open(&mut host, token, SILENT);
    }
    world.settle();
    tell(&mut world, SILENT, Knowledge::Failed);
    // One that is asked for after that may be answered yet.
    world.now += std::time::Duration::from_micros(1);
    open(&mut host, MANY + 1, SILENT);
    let (mut failed, mut turns) = (0, 0);
    while failed < usize::from(MANY) {
        assert!(world.worker.turn(world.now), "it goes on");
        turns += 1;
        let (opened, now) = heard(&mut host);
        assert_eq!(opened, 0);
        assert!(now.len() - failed <= IN_A_TURN, "{failed}, {}", now.len());
        assert!(turns < 10, "{failed} have failed");
        failed = now.len();
    }
    world.settle();
    let (_, mut all) = heard(&mut host);
    all.sort_unstable();
    assert!(all.into_iter().eq(0..u64::from(MANY)));
    tell(&mut world, PEER, THERE);
    world.settle();
    assert_eq!(heard(&mut host).0, 1);
}

#[test]
fn who_answers_after_all_is_connected_to() {
    let (mut world, mut host) = unresolved(PEER, LinkConfig::default());
    open(&mut host, 0, PEER);
    world.settle();
    tell(&mut world, PEER, Knowledge::Failed);
    tell(&mut world, PEER, THERE);
    world.pass(std::time::Duration::from_secs(2));
    assert_eq!(heard(&mut host), (1, vec![]));
}

/// A program may have a reason to doubt a way that the kernel has not.
#[test]
fn who_is_doubted_is_looked_at_again_as_often_as_a_second_allows() {
    const MOST: usize = 100;
    let mut world = World::new();
    let mut host = world.attach(None);
    let way = |world: &mut World, host: &mut Host, doubted| {
        let remote = SILENT;
        world
            .request(host, &Request::Way { remote, doubted }, Fds::new())
            .0
    };
    let told = way(&mut world, &mut host, false);
    assert!(matches!(told, Reply::Way(_)), "{told:?}");
    assert!(world.worker.network().probed().is_empty());
    for count in 1..=MOST {
        let told = way(&mut world, &mut host, true);
        assert!(matches!(told, Reply::Way(_)), "{told:?}");
        assert_eq!(world.worker.network().probed(), vec![SILENT; count]);
    }
    let told = way(&mut world, &mut host, true);
    let again = Errno::AGAIN.raw_os_error();
    assert!(
        matches!(told, Reply::Error { errno, .. } if errno == again),
        "{told:?}"
    );
    assert_eq!(world.worker.network().probed().len(), MOST);
    assert_eq!(world.worker.counters().dropped(Drop::TooManyDoubts), 1);
}
