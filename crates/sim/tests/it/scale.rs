//! What many connections cost: nothing while they are idle.

use core::time::Duration;

use sim::{HostConfig, Plan, SocketId, World};
use tcp::{ConnOptions, ListenSpec};

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

/// How often the world is moved on, and how many segments there are, while a megabyte passes.
fn work(idle: u16) -> (u64, u64) {
    let (mut world, active, peer) = world(idle);
    let segments = |world: &World| {
        let hosts = [active, peer].map(|socket| world.socket(socket).host);
        hosts
            .map(|host| world.host(host).stack.counters().segments_out)
            .iter()
            .sum::<u64>()
    };
    let before = (world.steps(), segments(&world));
    world.send(active, 1_000_000);
    world.pump(active);
    world.run_until(Duration::from_secs(10), |world| {
        world.socket(peer).consumed == 1_000_000
    });
    (world.steps() - before.0, segments(&world) - before.1)
}

#[test]
fn idle_connections_neither_wake_anybody_nor_send_anything() {
    assert_eq!(work(IDLE), work(1));
}
