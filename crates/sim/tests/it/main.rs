//! The TCP under simulation, by topic. Each test is a small world; where it reads like a packet
//! trace, the lines are what `sim::Trace` prints.

mod bbr;
mod closing;
mod ecn;
mod flow_control;
mod goodput;
mod handshake;
mod hostile;
mod listener;
mod long_paths;
mod moving;
mod pacing_of_acks;
mod recovery;
mod resets;
mod scale;
mod seeds;
mod time_wait;
mod timeouts;
mod transfer;

use core::time::Duration;

use sim::{Pair, World};

/// Long enough for anything that does not wait for minutes.
const SOON: Duration = Duration::from_secs(30);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What was sent since [`World::trace_all`], without times.
fn sent(world: &World) -> Vec<String> {
    world
        .trace()
        .iter()
        .map(|sent| sent.to_string())
        .map(|line| {
            line.split_once(' ')
                .map_or(line.clone(), |(_, rest)| rest.to_string())
        })
        .collect()
}

/// The same, windows left out.
fn sent_without_windows(world: &World) -> Vec<String> {
    let without = |line: &String| {
        let words: Vec<&str> = line.split(' ').collect();
        let window = words.iter().position(|&word| word == "win");
        let kept = |at: &usize| window.is_none_or(|window| *at != window && *at != window + 1);
        (0..words.len())
            .filter(kept)
            .map(|at| words[at])
            .collect::<Vec<_>>()
            .join(" ")
    };
    sent(world).iter().map(without).collect()
}

/// Runs until no socket is left, and checks that nothing else is.
fn run_until_empty(pair: &mut Pair) {
    let (client, server) = (pair.client, pair.server);
    pair.run_until(Duration::from_secs(600), |world| {
        [client, server].iter().all(|&host| {
            let stack = &world.host(host).stack;
            stack.connection_count() == 0 && stack.half_open_count() == 0
        })
    });
    pair.check_empty();
}
