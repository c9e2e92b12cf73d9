//! What many connections cost: nothing while they are idle.

use core::time::Duration;

use sim::{HostConfig, Plan, SocketId, World};
use tcp::{ConnOptions, ListenSpec, Stack};

use crate::ms;

/// How many connections are idle.
const IDLE: u16 = 50_000;

/// A world with `idle` idle connections from each of two addresses, and one that is not.
fn world(idle: u16) -> (World, SocketId, SocketId) {
    let mut world = World::new(1);
    let addresses: Vec<_> = [[10, 0, 0, 1], [10, 0, 0, 3]].map(Into::into).to_vec();
    let client = world.add_host(HostConfig {
        addresses: addresses.clone(),
        ..HostConfig::new("client", addresses[0])
    });
    let server = world.add_host(HostConfig::new("server", [10, 0, 0, 2].into()));
    world.join(client, server, &Default::default());
    let spec = ListenSpec {
        addr: None,
        port: 80,
        backlog: 200_000,
        max_half_open: 200_000,
        v6_only: false,
        options: ConnOptions::default(),
    };
    world.listen(server, spec, Some(Plan::LISTEN));
    let mut active = None;
    for address in addresses {
        for port in 0..idle {
            let (local, remote) = ((address, 10_000 + port).into(), ([10, 0, 0, 2], 80).into());
            let socket = world.connect(
                client,
                local,
                remote,
                &ConnOptions::default(),
                Plan::BY_HAND,
            );
            active = active.or(socket.ok());
            // In batches, so that they do not all open at the same time.
            if port % 1_000 == 0 {
                world.run_for(ms(1));
            }
        }
    }
    world.run_for(Duration::from_secs(10));
    assert_eq!(
        world.host(server).stack.connection_count(),
        2 * u32::from(idle)
    );
    let active = active.unwrap();
    let peer = world.peer(active).unwrap();
    (world, active, peer)
}

/// What it takes to pass a megabyte: how often the world is moved on, how many segments there are,
/// and how often the two stacks look at a connection.
fn work(idle: u16) -> [u64; 3] {
    let (mut world, active, peer) = world(idle);
    let hosts = [active, peer].map(|socket| world.socket(socket).host);
    let count = |world: &World| {
        let sum =
            |of: fn(&Stack) -> u64| hosts.map(|host| of(&world.host(host).stack)).iter().sum();
        [
            world.steps(),
            sum(|stack| stack.counters().segments_out),
            sum(Stack::connection_visits),
        ]
    };
    let before = count(&world);
    world.send(active, 1_000_000);
    world.pump(active);
    world.run_until(Duration::from_secs(10), |world| {
        world.socket(peer).consumed == 1_000_000
    });
    let after = count(&world);
    [0, 1, 2].map(|at| after[at] - before[at])
}

#[test]
fn idle_connections_cost_nothing_while_others_are_busy() {
    let [steps, segments, visits] = work(1);
    let crowded = work(IDLE);
    // Where the ticks fall by which bursts are spread moves a few acknowledgements.
    assert!(
        crowded[1].abs_diff(segments) <= segments / 50,
        "{} for {segments}",
        crowded[1]
    );
    // Where the ticks of the timer wheel fall and the random size of batches move some steps and looks.
    assert!(
        crowded[0].abs_diff(steps) <= 2 + steps / 10,
        "{} for {steps}",
        crowded[0]
    );
    assert!(
        crowded[2].abs_diff(visits) < visits / 20,
        "{} for {visits}",
        crowded[2]
    );
    // And what there is to do is done in a few looks a segment.
    assert!(
        visits < 8 * segments,
        "{visits} visits for {segments} segments"
    );
}

#[test]
fn idle_connections_have_no_timers() {
    let (mut world, ..) = world(1_000);
    assert!(world.is_quiet());
    assert_eq!(world.next_happening(), None);
}
