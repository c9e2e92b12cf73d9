//! What a request costs the program: `cargo bench -p outboard-host --bench request`.
//!
//! An engine without a network puts a request of 64 bytes on each of some connections; the clock runs
//! while the program learns of them by a ready set, reads them and answers with 64 bytes each.

#[path = "../tests/fake_engine/mod.rs"]
mod fake_engine;

use std::time::{Duration, Instant};

use fake_engine::FakeEngine;
use host::Readiness;

const CONNECTIONS: usize = 32;
const ROUNDS: usize = 20_000;

fn main() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session
        .listen("127.0.0.1:0".parse().expect("an address"), 1000)
        .expect("a listener");
    listener.want();
    let connections: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let conn = engine.host(|host| host.hand(1));
            (conn, listener.accept_offloaded().expect("a connection"))
        })
        .collect();
    let set = session.ready_set();
    for (at, (_, socket)) in connections.iter().enumerate() {
        set.add(
            socket,
            at as u64,
            Readiness::IN | Readiness::EDGE,
            at as u64,
        )
        .expect("an interest");
    }
    let mut events = Vec::with_capacity(CONNECTIONS);
    let mut buffer = [0; 1024];
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|round| {
            engine.host(|host| {
                host.submissions();
                host.forget_sent();
                for (conn, _) in &connections {
                    host.deliver_acknowledging(*conn, &[b'q'; 64], 64 * round as u64);
                }
            });
            let start = Instant::now();
            session.pump();
            events.clear();
            set.collect(CONNECTIONS, |event| events.push(event.key));
            for at in &events {
                let socket = &connections[*at as usize].1;
                let read = socket.recv(&mut buffer).expect("a request");
                assert_eq!(read, 64);
                socket.send(&buffer[..64], false).expect("room");
            }
            let time = start.elapsed();
            assert_eq!(events.len(), CONNECTIONS);
            time
        })
        .collect();
    rounds.sort_unstable();
    let per_request = |at: usize| rounds[at].as_nanos() as f64 / CONNECTIONS as f64;
    println!(
        "a request of 64 bytes, read and answered: median {:.0} ns, 90 % within {:.0} ns",
        per_request(ROUNDS / 2),
        per_request(ROUNDS * 9 / 10)
    );
}
