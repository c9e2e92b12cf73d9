//! A worker with two interfaces: one that has no room, or whose link is down, one that strangers ask, one that a program
//! does not know of.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use engine::network::NicId;
use engine::slow::kernel::neighbours::Knowledge;
use engine::stats::Drop;
use netdev::sim::LinkConfig;
use queue_pair::control::Reply;
use queue_pair::{Completion, ConnRef, ConnectBlock, Submission};
use rustix::io::Errno;

use crate::world::{BEYOND, ENGINE, ENGINE_BEYOND, Host, PEER, PEER_MAC, World};

/// To which connections are opened, and the first port that they are opened from.
const TO: u16 = 7_000;
const FROM: u16 = 20_000;
/// Frames of the second link.
const FEW: usize = 4;
/// Bytes of a send, and how many there are.
const LEN: usize = 100;
const MANY: usize = 10;

/// A connection by each link.
fn connected() -> (World, Host, [ConnRef; 2]) {
    let few = LinkConfig {
        frames: FEW,
        ..LinkConfig::default()
    };
    let mut world = World::of_links([LinkConfig::default(), few]);
    let mut host = world.attach(None);
    let conns = [PEER, BEYOND].map(|to| opens(&mut world, &mut host, FROM, to).expect("it opens"));
    (world, host, conns)
}

/// A host opens a connection from this port, or why it does not.
fn opens(world: &mut World, host: &mut Host, from: u16, to: IpAddr) -> Result<ConnRef, u16> {
    if !world.peer.stack.listens_on(to, TO) {
        world.peer.listen_at(to, TO, tcp::ConnOptions::default());
    }
    let block = ConnectBlock {
        local: SocketAddr::new(ENGINE, from),
        ..ConnectBlock::new(SocketAddr::new(to, TO))
    };
    let bytes = block.encode();
    host.region.send.copy_in(1 << 20, &bytes).expect("inside");
    host.submit(Submission::Connect {
        token: 7,
        addr: 1 << 20,
    });
    world.settle();
    host.collect();
    let opened = std::mem::take(&mut host.completions);
    let opened = opened.iter().find_map(|it| match it {
        Completion::Opened { conn, .. } => Some(Ok(*conn)),
        Completion::OpenFailed { errno, .. } => Some(Err(*errno)),
        _ => None,
    });
    opened.expect("an answer")
}

/// The bytes that each has received, most first.
fn received(world: &World) -> Vec<usize> {
    let mut all: Vec<usize> = world.peer.conns.values().map(|it| it.bytes.len()).collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all
}

#[test]
fn a_link_that_has_no_room_holds_up_nobody_elses_connections() {
    let (mut world, mut host, [by_first, by_second]) = connected();
    world.peer.deaf_on = Some(1);
    // It takes a frame each time that it is sent again, until there is none.
    host.send(by_second, &[2; LEN], 0);
    world.pass(Duration::from_secs(15));
    for _ in 0..MANY {
        host.send(by_first, &[1; LEN], 0);
        // The peer may take its time to acknowledge.
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(received(&world)[0], MANY * LEN);
    // What has waited leaves when there is room.
    world.peer.deaf_on = None;
    world.pass(Duration::from_secs(60));
    assert_eq!(received(&world), [MANY * LEN, LEN]);
}

#[test]
fn what_has_no_data_is_lost_on_a_link_without_room() {
    let (mut world, mut host, [by_first, by_second]) = connected();
    world.peer.deaf_on = Some(1);
    host.send(by_second, &[2; LEN], 0);
    world.pass(Duration::from_secs(15));
    assert_eq!(world.worker.counters().dropped(Drop::LinkFull), 0);
    // Its FIN waits behind the data; acknowledgements of what comes do not wait.
    let theirs = world.peer.conns.keys().copied().collect::<Vec<_>>();
    for conn in theirs {
        world.peer.send(world.now, conn, &[3; LEN]);
    }
    world.pass(Duration::from_secs(1));
    host.collect();
    for conn in [by_first, by_second] {
        assert_eq!(host.received(conn), [3; LEN]);
    }
    assert!(world.worker.counters().dropped(Drop::LinkFull) > 0);
}

/// Frames were held for a neighbour, and he is found when the link to him is down.
#[test]
fn what_was_held_for_a_link_that_is_down_is_lost_and_counted() {
    let mut world = World::of_links([LinkConfig::default(); 2]);
    let mut host = world.attach(None);
    world
        .peer
        .listen_at(BEYOND, TO, tcp::ConnOptions::default());
    let hear = |world: &mut World| world.worker.hear_of_network(world.now);
    world.worker.network().tell(BEYOND, Knowledge::Unresolved);
    hear(&mut world);
    let block = ConnectBlock {
        local: SocketAddr::new(ENGINE, FROM),
        ..ConnectBlock::new(SocketAddr::new(BEYOND, TO))
    };
    host.region
        .send
        .copy_in(0, &block.encode())
        .expect("inside");
    host.submit(Submission::Connect { token: 7, addr: 0 });
    world.settle();
    world.worker.network().tell_of_link(NicId::at(1), false);
    hear(&mut world);
    let sent = world.worker.counters().sent;
    let known = Knowledge::Resolved {
        mac: PEER_MAC,
        stale: false,
    };
    world.worker.network().tell(BEYOND, known);
    hear(&mut world);
    world.settle();
    let counters = world.worker.counters();
    assert_eq!((counters.sent, counters.dropped(Drop::LinkDown)), (sent, 1));
    // When it is up again the SYN is sent again.
    world.worker.network().tell_of_link(NicId::at(1), true);
    hear(&mut world);
    world.pass(Duration::from_secs(2));
    host.collect();
    let opened = |it: &Completion| matches!(it, Completion::Opened { .. });
    assert!(host.completions.iter().any(opened));
}

/// Strangers, each with an address of his own on the second link.
const STRANGERS: u8 = 40;

/// A frame does not say by which of two interfaces with one hardware address it came, and a question about each
/// stranger's route would leave no turn for anybody else.
#[test]
fn who_asks_an_interface_is_answered_by_it_without_a_question_for_his_route() {
    let mut world = World::of_links([LinkConfig::default(); 2]);
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    world.peer.sends_to = 1;
    let to = SocketAddr::new(ENGINE_BEYOND, port);
    let strangers: Vec<_> = (1..=STRANGERS)
        .map(|last| {
            let from = SocketAddr::from(([10, 1, 0, last], 1_024));
            let options = tcp::ConnOptions::default();
            let conn = world.peer.stack.connect(world.now, from, to, &options);
            conn.expect("a new pair")
        })
        .collect();
    world.peer.only_sends(world.now);
    let asked = world.worker.network().asked;
    world.worker.turn(world.now);
    assert_eq!(world.worker.network().asked, asked);
    world.peer.deaf_on = Some(0);
    world.peer.turn(world.now);
    let connected = |conn| {
        world
            .peer
            .conns
            .get(conn)
            .is_some_and(|it| it.update.connected)
    };
    assert_eq!(
        strangers.iter().filter(|it| connected(it)).count(),
        strangers.len()
    );
}

/// It may have bound its socket to the first, which it takes for the only one, and does not say so.
#[test]
fn a_program_that_knows_of_one_interface_opens_nothing_by_another() {
    let mut world = World::of_links([LinkConfig::default(); 2]);
    let older = world.attach_of(Reply::SEVERAL_INTERFACES_SINCE - 1);
    let newer = world.attach(None);
    for (mut host, from, refused) in [(older, FROM, true), (newer, FROM + 1, false)] {
        for (to, refused) in [(PEER, false), (BEYOND, refused)] {
            let opened = opens(&mut world, &mut host, from, to);
            let expected = Err(Errno::OPNOTSUPP.raw_os_error() as u16);
            match refused {
                true => assert_eq!(opened, expected, "{to}"),
                false => assert!(opened.is_ok(), "{to}: {opened:?}"),
            }
        }
    }
}
