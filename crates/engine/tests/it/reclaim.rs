//! What a session costs: little at first, what it uses then, and little again.

use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use engine::stats::Drop;
use netdev::sim::LinkConfig;
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{ConnRef, Submission};
use rustix::fd::AsFd;
use rustix::fs::{FallocateFlags, fallocate, fstat};

/// Bytes of memory that a session's file takes.
fn held(file: impl AsFd) -> u64 {
    fstat(file).expect("a file").st_blocks as u64 * 512
}

/// Bytes that differ from place to place and from one `seed` to the next.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Connections of one host, and how much of each it has read.
struct Busy {
    host: Host,
    conns: Vec<(ConnRef, tcp::ConnId, u64)>,
}

fn busy(world: &mut World, count: usize) -> Busy {
    let (mut host, conn, peer) = world.connected();
    let port = host.kernel[0].local_addr().expect("bound").port();
    let mut conns = vec![(conn, peer, 0)];
    for _ in 1..count {
        let (conn, peer) = world.connect(&mut host, port);
        conns.push((conn, peer, 0));
    }
    Busy { host, conns }
}

impl Busy {
    /// Something comes on each connection, which is not read until all of it is there.
    fn burst(&mut self, world: &mut World, seed: u64, len: usize) -> u64 {
        for (at, (_, peer, _)) in self.conns.iter().enumerate() {
            let bytes = pattern(seed + at as u64, len);
            world.peer.send(world.now, *peer, &bytes);
        }
        world.pass(Duration::from_millis(500));
        self.host.collect();
        let peak = held(&self.host.memory);
        for (at, (conn, _, read)) in self.conns.iter_mut().enumerate() {
            let expected = pattern(seed + at as u64, len);
            assert!(self.host.received(*conn) == expected, "round {seed}, {at}");
            *read += len as u64;
            let (conn, total) = (*conn, *read);
            self.host.submit(Submission::Consumed { conn, total });
        }
        self.host.completions.clear();
        world.settle();
        peak
    }
}

/// Time passes in which nobody wants anything.
fn idle(world: &mut World) {
    for _ in 0..3 {
        world.pass(Duration::from_secs(1));
        world.attend();
    }
}

fn given_back(world: &World) -> u64 {
    world.worker.counters().memory_given_back
}

fn metric(world: &mut World, name: &str) -> f64 {
    let Reply::Stats(metrics) = world.ask_once(&Request::Stats) else {
        panic!("counts");
    };
    let found = metrics.iter().find(|metric| metric.name == name);
    found.expect("it is counted").value
}

#[test]
fn who_does_nothing_costs_some_pages() {
    // With areas and rings as engines have them.
    let config = Config::default();
    let control = engine::slow::control::Control::without_socket(&config.limits).expect("made");
    let mut world = World::with_control(config, LinkConfig::default(), control);
    let mut parent = world.attach(None);
    let attached = held(&parent.memory);
    let (_, listener) = world.listen(&mut parent);
    parent.submit(Submission::Credit {
        listener,
        total: 8,
        waits: true,
    });
    world.settle();
    let listening = held(&parent.memory);
    let (reply, _lifeline) = world.request(&mut parent, &Request::Fork, Fds::new());
    let Reply::Forked { token } = reply else {
        panic!("{reply:?}");
    };
    let mut child = world.attach(Some(token));
    let (reply, _) = world.request(&mut child, &Request::AdoptListener { listener }, Fds::new());
    assert!(matches!(reply, Reply::Listening { .. }), "{reply:?}");
    world.attend();
    let child = held(&child.memory);
    println!("bytes: attached {attached}, listening {listening}, an idle child {child}");
    for bytes in [attached, listening, child] {
        assert!(bytes <= 64 << 10, "{bytes}");
    }
}

#[test]
fn after_a_burst_little_is_held_and_bytes_stay_right() {
    let mut world = World::new();
    let mut busy = busy(&mut world, 16);
    // Some is there all the time.
    let (waits, peer, _) = busy.conns.pop().expect("a connection");
    let kept = pattern(999, 50_000);
    world.peer.send(world.now, peer, &kept);
    world.settle();
    busy.host.collect();
    let mut places = busy.host.completions.clone();
    places.retain(|it| matches!(it, queue_pair::Completion::Update { conn, .. } if *conn == waits));
    let small = 512 << 10;
    for round in 0..8 {
        let before = given_back(&world);
        let peak = busy.burst(&mut world, 100 * round, 120_000);
        assert!(peak > 1_800_000, "{peak}");
        idle(&mut world);
        let after = held(&busy.host.memory);
        assert!(after < small, "round {round}: {after} of {peak}");
        assert!(given_back(&world) - before > 1_000_000);
    }
    assert!(metric(&mut world, "receive_memory") < small as f64);
    busy.host.completions = places;
    assert!(
        busy.host.received(waits) == kept,
        "what was not read is there"
    );
    // Nobody is woken for it any more.
    let before = given_back(&world);
    idle(&mut world);
    assert_eq!(given_back(&world), before);
}

#[test]
fn what_a_program_uses_again_and_again_stays() {
    let mut world = World::new();
    let mut busy = busy(&mut world, 8);
    busy.burst(&mut world, 1, 100_000);
    world.attend();
    let before = given_back(&world);
    for round in 0..4 {
        busy.burst(&mut world, 10 + round, 100_000);
        world.pass(Duration::from_secs(1));
        world.attend();
    }
    assert_eq!(
        given_back(&world),
        before,
        "it was in use between any two looks"
    );
}

#[test]
fn what_one_program_has_given_back_another_can_use() {
    const EACH: usize = 50_000;
    let mut config = Config::default();
    // Beside 1 MiB of each there is 1 MiB for all.
    config.limits.receive_memory = 1 << 20;
    let mut world = World::with(config, LinkConfig::default());
    let mut first = busy(&mut world, 32);
    let mut second = busy(&mut world, 32);
    let peak = first.burst(&mut world, 0, EACH);
    assert!(peak > 32 * EACH as u64, "{peak}");
    idle(&mut world);
    let peak = second.burst(&mut world, 100, EACH);
    assert!(peak > 32 * EACH as u64, "{peak}");
    assert_eq!(world.worker.counters().dropped(Drop::MemoryFull), 0);
}

#[test]
fn who_finds_none_makes_others_give_theirs_at_once() {
    const EACH: usize = 50_000;
    let mut config = Config::default();
    config.limits.receive_memory = 1 << 20;
    let mut world = World::with(config, LinkConfig::default());
    let mut first = busy(&mut world, 32);
    let mut second = busy(&mut world, 32);
    first.burst(&mut world, 0, EACH);
    // The first one's were in use until now.
    for (_, peer, _) in &second.conns {
        world.peer.send(world.now, *peer, &pattern(5, EACH));
    }
    world.pass(Duration::from_millis(500));
    second.host.collect();
    let came = |host: &Host, conns: &[(ConnRef, tcp::ConnId, u64)]| -> usize {
        conns
            .iter()
            .map(|(conn, ..)| host.received(*conn).len())
            .sum()
    };
    assert!(
        came(&second.host, &second.conns) < 32 * EACH,
        "there is too little"
    );
    assert_eq!(given_back(&world), 0);
    world.attend();
    assert!(given_back(&world) > 1 << 19);
    for _ in 0..20 {
        world.pass(Duration::from_secs(1));
    }
    second.host.collect();
    for (conn, ..) in &second.conns {
        assert!(second.host.received(*conn) == pattern(5, EACH));
    }
}

#[test]
fn what_a_program_sends_from_is_counted() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    host.send(conn, &pattern(3, 100_000), 0);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, pattern(3, 100_000));
    idle(&mut world);
    assert_eq!(metric(&mut world, "send_memory"), 25.0 * 4096.0);
    // It goes back by the program's own doing, of which the engine learns when it does something again.
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let layout = host.region.layout;
    fallocate(&host.memory, hole, layout.send_at, layout.sizes.send_len).expect("punched");
    host.send(conn, b"more", 0);
    world.pass(Duration::from_secs(5));
    world.attend();
    assert_eq!(metric(&mut world, "send_memory"), 4096.0);
}

#[test]
fn who_gives_everything_back_himself_harms_nobody_else() {
    let mut world = World::new();
    let mut liar = busy(&mut world, 4);
    let mut victim = busy(&mut world, 4);
    let len = liar.host.region.layout.total_len;
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for round in 0..4 {
        for (at, (_, peer, read)) in liar.conns.iter_mut().enumerate() {
            world
                .peer
                .send(world.now, *peer, &pattern(at as u64, 100_000));
            *read += 100_000;
        }
        victim.burst(&mut world, 1_000 + round, 100_000);
        for (conn, _, read) in &liar.conns {
            let (conn, total) = (*conn, *read);
            liar.host.submit(Submission::Consumed { conn, total });
        }
        world.settle();
        if round > 0 {
            // All but its rings and where they stand, of which the engine makes no more than it does of
            // other nonsense.
            let from = liar.host.region.layout.send_at;
            fallocate(&liar.host.memory, hole, from, len - from).expect("punched");
        }
        liar.host.collect();
        liar.host.completions.clear();
        idle(&mut world);
    }
    assert_eq!(world.worker.counters().violations, 0);
    fallocate(&liar.host.memory, hole, 0, len).expect("punched");
    for (_, peer, _) in &liar.conns {
        world.peer.send(world.now, *peer, &pattern(7, 10_000));
    }
    idle(&mut world);
    victim.burst(&mut world, 5_000, 100_000);
    idle(&mut world);
    assert!(held(&victim.host.memory) < 512 << 10);
}
