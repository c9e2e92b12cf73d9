//! Several workers: what comes to the wrong one finds the right one, a listener of several is as fair as one,
//! and nobody who waits is lost when a process goes.

use std::net::SocketAddr;
use std::time::Duration;

use crate::world::{ENGINE, Host, PEER, World};
use engine::config::Config;
use engine::stats::Drop;
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, ConnectBlock, Submission, position};

/// A listener of two processes, each at a worker of its own: the processes, their names of it, its port.
fn listener_of_two(world: &mut World) -> ([Host; 2], [u32; 2], u16) {
    let mut first = world.attach(None);
    let mut second = world.attach(None);
    let (port, name) = world.listen(&mut first);
    let other = world.join(&mut second, &first);
    ([first, second], [name, other], port)
}

fn credit(host: &mut Host, listener: u32, total: u32) {
    host.submit(Submission::Credit {
        listener,
        total,
        waits: true,
    });
}

#[test]
fn a_connection_is_its_workers_wherever_its_frames_come() {
    let mut world = World::of_workers(3);
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    credit(&mut host, listener, 64);
    for (round, begins) in [0, 1, 2].into_iter().enumerate() {
        // Its SYN comes to one worker, everything else to another each time.
        world.peer.sends_to = begins;
        let (conn, peer) = world.connect(&mut host, port);
        let mut sent = Vec::new();
        for piece in 0..9u8 {
            world.peer.sends_to = usize::from(piece) % 3;
            world.peer.send(world.now, peer, &[piece; 1000]);
            sent.extend([piece; 1000]);
            world.settle();
        }
        host.collect();
        assert_eq!(host.received(conn), sent, "{round}");
        host.send(conn, b"an answer", 9000);
        world.settle();
        assert_eq!(world.peer.conns[&peer].bytes, b"an answer");
    }
    let others = world
        .others
        .iter()
        .map(|worker| worker.stack().connection_count());
    assert_eq!(others.sum::<u32>(), 0, "they are all of the first");
    assert!(world.worker.stack().connection_count() == 3);
    let handed: u64 = world
        .others
        .iter()
        .map(|w| w.counters().frames_handed)
        .sum();
    assert!(handed >= 3 * 6, "{handed}");
}

#[test]
fn what_is_of_nobody_is_answered_where_it_came() {
    let mut world = World::of_workers(2);
    world.peer.sends_to = 1;
    let peer = world.peer.connect(world.now, 9);
    world.settle();
    assert!(world.peer.conns[&peer].update.failed.is_some(), "refused");
    assert_eq!(world.others[0].counters().frames_handed, 0);
}

/// The other is stopped, say: its clients would hear nothing for as long as that is so.
#[test]
fn who_does_not_come_for_what_it_is_handed_is_told_of() {
    let mut world = World::of_workers(2);
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    world.peer.sends_to = 1;
    let turn = |world: &mut World| {
        while world.peer.turn(world.now) | world.others[0].turn(world.now) {}
    };
    world.peer.connect(world.now, port);
    turn(&mut world);
    assert_eq!(world.others[0].counters().frames_handed, 1);
    // It sends its SYN again.
    world.now += Duration::from_secs(2);
    let late = |world: &World| world.others[0].network().late();
    assert!(late(&world).is_empty());
    turn(&mut world);
    assert_eq!(world.others[0].counters().frames_handed, 2);
    assert_eq!(late(&world), [0]);
}

/// Others may go on to take new ones while the worker does not that has this one.
#[test]
fn what_is_handed_for_a_connection_that_there_is_says_nothing_of_new_ones() {
    let mut world = World::of_workers(2);
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    world.peer.sends_to = 1;
    let peer = world.peer.connect(world.now, port);
    world.settle();
    let turn = |world: &mut World| {
        while world.peer.turn(world.now) | world.others[0].turn(world.now) {}
    };
    let handed = |world: &World| world.others[0].counters().frames_handed;
    let first = handed(&world);
    world.peer.send(world.now, peer, b"data");
    turn(&mut world);
    let second = handed(&world);
    assert!(second > first);
    // It sends that again.
    world.now += Duration::from_secs(2);
    turn(&mut world);
    assert!(handed(&world) > second);
    assert!(world.others[0].network().late().is_empty());
}

#[test]
fn a_connection_that_a_program_opens_hears_its_answer_from_any_queue() {
    let mut world = World::of_workers(2);
    let mut host = world.attach(None);
    world.peer.listen(7);
    world.peer.sends_to = 1;
    let block = ConnectBlock {
        local: SocketAddr::new(ENGINE, 20_000),
        ..ConnectBlock::new(SocketAddr::new(PEER, 7))
    };
    let block = block.encode();
    host.region.send.copy_in(0, &block).expect("inside");
    host.submit(Submission::Connect { token: 5, addr: 0 });
    world.settle();
    host.collect();
    let opened = |it: &Completion| matches!(it, Completion::Opened { token: 5, .. });
    assert!(
        host.completions.iter().any(opened),
        "{:?}",
        host.completions
    );
}

#[test]
fn a_syn_stays_with_the_worker_that_it_comes_to_if_somebody_accepts_there() {
    let mut world = World::of_workers(2);
    let ([mut first, mut second], names, port) = listener_of_two(&mut world);
    credit(&mut first, names[0], 64);
    credit(&mut second, names[1], 64);
    world.settle();
    for to in [0, 1, 1, 0, 1] {
        world.peer.sends_to = to;
        world.peer.connect(world.now, port);
        world.settle();
    }
    first.collect();
    second.collect();
    assert_eq!((first.accepted().len(), second.accepted().len()), (2, 3));
}

#[test]
fn what_nobody_takes_here_goes_where_somebody_waits() {
    let mut world = World::of_workers(2);
    let ([mut first, mut second], names, port) = listener_of_two(&mut world);
    // The first process works and takes nothing; the second waits, at the other worker.
    credit(&mut second, names[1], 2);
    world.settle();
    let mut peers = Vec::new();
    for n in 0..3u8 {
        let peer = world.peer.connect(world.now, port);
        world.peer.send(world.now, peer, &[n; 5000]);
        world.settle();
        peers.push(peer);
    }
    first.collect();
    second.collect_and_accept();
    assert_eq!(first.accepted(), []);
    let accepted = second.accepted();
    assert_eq!(accepted.len(), 2, "as many as it takes");
    for (n, conn) in accepted.iter().enumerate() {
        assert_eq!(second.received(*conn), [n as u8; 5000]);
    }
    // The third is for who asks first, wherever that is.
    credit(&mut first, names[0], 1);
    world.settle();
    first.collect_and_accept();
    let own = first.accepted();
    assert_eq!(first.received(own[0]), [2; 5000]);
    // What has moved goes on as any other.
    world.peer.send(world.now, peers[0], b"more");
    second.send(accepted[0], b"answer", 5000);
    world.settle();
    second.collect();
    assert_eq!(second.received(accepted[0])[5000..], *b"more");
    assert_eq!(world.peer.conns[&peers[0]].bytes, b"answer");
    assert_eq!(world.worker.counters().connections_moved, 2);
}

#[test]
fn who_has_said_once_that_it_wants_one_gets_one() {
    let mut world = World::of_workers(2);
    let ([_first, mut second], names, port) = listener_of_two(&mut world);
    credit(&mut second, names[1], 1);
    world.settle();
    for _ in 0..3 {
        world.peer.connect(world.now, port);
    }
    for _ in 0..8 {
        world.peer.turn(world.now);
        world.worker.turn(world.now);
    }
    assert_eq!(world.worker.counters().connections_moved, 1);
    world.settle();
    second.collect();
    assert_eq!(second.accepted().len(), 1);
}

#[test]
fn who_could_not_be_given_one_is_given_the_next() {
    let mut config = Config::default();
    config.limits.unaccepted_bytes = 1 << 16;
    let mut world = World::of_workers_with(2, config);
    let ([_first, mut second], names, port) = listener_of_two(&mut world);
    let (_third, mut fourth) = (world.attach(None), world.attach(None));
    let (full, _) = world.listen(&mut fourth);
    // Where somebody waits there is no memory for what clients of another listener send.
    world.peer.sends_to = 1;
    for _ in 0..4 {
        let peer = world.peer.connect(world.now, full);
        world.settle();
        world.peer.send(world.now, peer, &[7; 20_000]);
        world.settle();
    }
    world.peer.sends_to = 0;
    for sent in [5_000, 0] {
        let peer = world.peer.connect(world.now, port);
        world.settle();
        if sent > 0 {
            world.peer.send(world.now, peer, &[8; 5_000]);
            world.settle();
            credit(&mut second, names[1], 1);
        }
        world.settle();
    }
    assert_eq!(world.others[0].counters().dropped(Drop::MoveFailed), 1);
    second.collect();
    assert_eq!(second.accepted().len(), 1);
}

#[test]
fn an_offer_that_lies_untouched_goes_where_somebody_waits() {
    let mut world = World::of_workers(2);
    let ([mut first, mut second], names, port) = listener_of_two(&mut world);
    // It has promised to take one, and does not: it is stopped.
    credit(&mut first, names[0], 1);
    world.settle();
    world.peer.connect(world.now, port);
    world.settle();
    credit(&mut second, names[1], 1);
    world.pass(Duration::from_millis(10));
    world.worker.attend(world.now);
    world.settle();
    second.collect();
    assert_eq!(second.accepted().len(), 1);
    first.collect();
    assert_eq!(first.accepted().len(), 1, "it was told, before");
}

#[test]
fn what_moves_may_be_younger_than_the_turn_in_which_it_comes() {
    let mut world = World::of_workers(2);
    let ([_first, mut second], names, port) = listener_of_two(&mut world);
    credit(&mut second, names[1], 1);
    world.settle();
    world.peer.connect(world.now, port);
    let later = world.now + Duration::from_millis(1);
    for _ in 0..4 {
        world.peer.turn(world.now);
        world.worker.turn(later);
    }
    world.others[0].turn(world.now);
    world.now = later;
    world.settle();
    second.collect();
    assert_eq!(second.accepted().len(), 1);
}

#[test]
fn a_frame_that_comes_before_its_connection_waits_for_it() {
    let mut world = World::of_workers(2);
    let ([_first, mut second], names, port) = listener_of_two(&mut world);
    credit(&mut second, names[1], 1);
    world.settle();
    let peer = world.peer.connect(world.now, port);
    for _ in 0..2 {
        world.peer.turn(world.now);
        world.worker.turn(world.now);
    }
    // The ACK is taken, and the connection on its way; what the client sends next comes to the other queue,
    // and is looked at before the mail.
    world.peer.sends_to = 1;
    world.peer.send(world.now, peer, b"at once");
    world.peer.turn(world.now);
    assert_eq!(world.worker.counters().connections_moved, 1);
    world.settle();
    second.collect();
    let conn = second.accepted()[0];
    assert_eq!(second.received(conn), b"at once");
    assert_eq!(world.peer.conns[&peer].update.failed, None);
}

#[test]
fn a_frame_that_comes_after_its_connection_has_gone_follows_it() {
    let mut world = World::of_workers(2);
    let ([mut first, mut second], names, port) = listener_of_two(&mut world);
    credit(&mut first, names[0], 1);
    world.settle();
    let peer = world.peer.connect(world.now, port);
    world.settle();
    credit(&mut second, names[1], 1);
    world.settle();
    world.now += Duration::from_millis(5);
    // It comes to the other queue and is handed over, while the connection goes the other way.
    world.peer.sends_to = 1;
    world.peer.send(world.now, peer, b"late");
    world.peer.turn(world.now);
    world.others[0].turn(world.now);
    world.worker.attend(world.now);
    assert_eq!(world.worker.counters().connections_moved, 1);
    world.settle();
    second.collect();
    let conn = second.accepted()[0];
    assert_eq!(second.received(conn), b"late");
    assert_eq!(world.peer.conns[&peer].update.failed, None);
}

/// A connection on its way from the first worker to the second, where a process has just waited for it.
fn on_its_way(world: &mut World) -> ([Host; 2], u32, tcp::ConnId) {
    let ([first, mut second], names, port) = listener_of_two(world);
    credit(&mut second, names[1], 1);
    world.settle();
    let peer = world.peer.connect(world.now, port);
    world.peer.send(world.now, peer, b"hello");
    while world.worker.counters().connections_moved == 0 {
        world.peer.turn(world.now);
        world.worker.turn(world.now);
    }
    ([first, second], names[0], peer)
}

#[test]
fn a_connection_that_comes_where_nobody_is_left_goes_on() {
    let mut world = World::of_workers(2);
    let ([mut first, second], name, peer) = on_its_way(&mut world);
    drop(second);
    world.attend();
    assert_eq!(world.others[0].stack().connection_count(), 0);
    credit(&mut first, name, 1);
    world.settle();
    first.collect_and_accept();
    let conn = first.accepted()[0];
    assert_eq!(first.received(conn), b"hello");
    assert_eq!(world.peer.conns[&peer].update.failed, None);
}

#[test]
fn a_connection_that_nobody_is_left_for_is_reset() {
    let mut world = World::of_workers(2);
    let ([first, second], _, peer) = on_its_way(&mut world);
    drop((first, second));
    world.attend();
    world.pass(Duration::from_millis(50));
    assert_eq!(
        world.peer.conns[&peer].update.failed,
        Some(tcp::Failure::Reset)
    );
    let all = std::iter::once(&world.worker).chain(&world.others);
    for worker in all {
        assert_eq!(worker.stack().connection_count(), 0);
        assert_eq!(worker.sessions(), 0);
    }
}

#[test]
fn who_waits_when_the_last_process_goes_is_accepted_at_another_worker() {
    let mut world = World::of_workers(2);
    let ([first, mut second], names, port) = listener_of_two(&mut world);
    // Two wait, one of them with data, and a third is about to.
    let waits = world.peer.connect(world.now, port);
    world.peer.send(world.now, waits, b"hello");
    let silent = world.peer.connect(world.now, port);
    world.settle();
    let begun = world.peer.connect(world.now, port);
    world.worker.turn(world.now);
    drop(first);
    world.attend();
    credit(&mut second, names[1], 8);
    world.settle();
    second.collect_and_accept();
    let accepted = second.accepted();
    assert_eq!(accepted.len(), 3);
    let received: Vec<_> = accepted.iter().map(|conn| second.received(*conn)).collect();
    assert!(received.contains(&b"hello".to_vec()), "{received:?}");
    for peer in [waits, silent, begun] {
        assert_eq!(world.peer.conns[&peer].update.failed, None);
    }
    assert_eq!(world.worker.stack().connection_count(), 0);
    // The next come there as well, though the frames come here.
    let next = world.peer.connect(world.now, port);
    world.settle();
    assert_eq!(world.peer.conns[&next].update.failed, None);
}

/// What a process accepts of what it was offered and has not been taken back: what was received there.
fn accept_all(host: &mut Host) -> Vec<Vec<u8>> {
    host.collect();
    let offered: Vec<_> = host
        .completions
        .iter()
        .filter_map(|it| match it {
            Completion::Accepted { conn, grant, .. } => Some((*conn, *grant)),
            _ => None,
        })
        .collect();
    let taken = offered.into_iter().filter(|(conn, grant)| {
        let word = host.region.positions.word(conn.index).expect("a place");
        position::accept(word, *grant, conn.generation)
    });
    let taken: Vec<_> = taken.collect();
    taken.iter().map(|(conn, _)| host.pushed(*conn)).collect()
}

/// Processes come and go at three workers, and promise to take connections and do not; frames come to any
/// queue. Whoever was connected is accepted in the end, once, with all that it has sent.
#[test]
fn nobody_is_lost_or_doubled_whatever_comes_where_and_whoever_goes() {
    for seed in 0..40u64 {
        let mut state = seed;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut world = World::of_workers(3);
        let mut stays = world.attach(None);
        let (port, own) = world.listen(&mut stays);
        let mut hosts: Vec<(Host, u32, u32)> = Vec::new();
        let mut peers = Vec::new();
        for _ in 0..120 {
            match draw(8) {
                0 | 1 => {
                    world.peer.sends_to = draw(3) as usize;
                    let peer = world.peer.connect(world.now, port);
                    peers.push(peer);
                    let n = peers.len() as u8;
                    world.peer.send(world.now, peer, &[n; 700]);
                }
                2 => {
                    let mut host = world.attach(None);
                    let name = world.join(&mut host, &stays);
                    hosts.push((host, name, 0));
                }
                3 if !hosts.is_empty() => {
                    hosts.swap_remove(draw(hosts.len() as u64) as usize);
                    world.attend();
                }
                4 | 5 if !hosts.is_empty() => {
                    let at = draw(hosts.len() as u64) as usize;
                    let (host, name, total) = &mut hosts[at];
                    *total += draw(3) as u32;
                    credit(host, *name, *total);
                }
                6 => world.now += Duration::from_millis(draw(4)),
                _ => {
                    world.peer.sends_to = draw(3) as usize;
                    for _ in 0..draw(4) {
                        world.peer.turn(world.now);
                        match draw(3) {
                            0 => drop(world.worker.turn(world.now)),
                            other => drop(world.others[other as usize - 1].turn(world.now)),
                        }
                    }
                }
            }
            world.worker.attend(world.now);
        }
        world.pass(Duration::from_secs(4));
        let mut accepted = Vec::new();
        for (mut host, ..) in hosts.drain(..) {
            accepted.extend(accept_all(&mut host));
            stays.kernel.append(&mut host.kernel);
            world.settle();
            // It keeps what it has accepted: it stays.
            core::mem::forget(host);
        }
        for round in 1..=20 {
            credit(&mut stays, own, round * 10);
            world.pass(Duration::from_millis(20));
            world.worker.attend(world.now);
            for worker in &mut world.others {
                worker.attend(world.now);
            }
            world.settle();
            accepted.extend(accept_all(&mut stays));
            stays.completions.clear();
        }
        let failed = peers
            .iter()
            .filter(|peer| world.peer.conns[*peer].update.failed.is_some());
        assert_eq!(failed.count(), 0, "seed {seed}");
        accepted.sort();
        let mut expected: Vec<Vec<u8>> = (1..=peers.len()).map(|n| vec![n as u8; 700]).collect();
        expected.sort();
        assert_eq!(accepted, expected, "seed {seed}");
    }
}

#[test]
fn a_forked_child_with_listeners_alone_accepts_at_another_worker() {
    let mut world = World::of_workers(2);
    let mut parent = world.attach(None);
    let (port, name) = world.listen(&mut parent);
    let (reply, lifeline) = world.request(&mut parent, &Request::Fork, Fds::new());
    let Reply::Forked { token } = reply else {
        panic!("{reply:?}");
    };
    let mut child = world.attach(Some(token));
    let adopt = Request::AdoptListener { listener: name };
    let (reply, _) = world.request(&mut child, &adopt, Fds::new());
    let Reply::Listening { listener } = reply else {
        panic!("{reply:?}");
    };
    credit(&mut child, listener, 8);
    world.settle();
    world.peer.sends_to = 1;
    let (conn, peer) = world.connect(&mut child, port);
    assert_eq!(world.others[0].stack().connection_count(), 1);
    child.send(conn, b"from the child", 0);
    world.settle();
    assert_eq!(world.peer.conns[&peer].bytes, b"from the child");
    // What the parent's worker held for it, it holds no longer: with the parent the listener there goes.
    drop(lifeline);
    drop(parent);
    world.attend();
    world.peer.sends_to = 0;
    let (_, peer) = world.connect(&mut child, port);
    assert_eq!(world.peer.conns[&peer].update.failed, None);
}

#[test]
fn a_child_with_connections_stays_with_its_parent() {
    let mut world = World::of_workers(2);
    let (mut parent, conn, peer) = world.connected();
    let (reply, _lifeline) = world.request(&mut parent, &Request::Fork, Fds::new());
    let Reply::Forked { token } = reply else {
        panic!("{reply:?}");
    };
    let mut child = world.attach(Some(token));
    child.send_at(conn, b"from the child", 0);
    world.settle();
    assert_eq!(world.peer.conns[&peer].bytes, b"from the child");
    assert_eq!(world.others[0].sessions(), 0);
}
