//! Epoll sets in epoll sets: who sleeps in the outer one is told of what comes to those inside, also where the engine
//! rings for nobody.

mod scene;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lab::outboard::total;
use rustix::process::Signal;
use scene::Scene;

/// What fails is one that waits for ever.
const LIMIT: Duration = Duration::from_secs(30);

/// As many as the server waits for.
const MANY: usize = 70;

fn echoes(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"something")?;
    stream.read_exact(&mut [0; 9])
}

#[test]
fn an_outer_set_tells_of_what_nobody_rings_for() {
    let test = "an_outer_set_tells_of_what_nobody_rings_for";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let mut scene = Scene::start("sets_in_sets/outer.py", 3, LIMIT);
    for port in [7000, 7001, 7002] {
        let mut streams: Vec<_> = (0..MANY).map(|_| scene.connect(port)).collect();
        for _ in 0..2 {
            for (at, stream) in streams.iter_mut().enumerate() {
                echoes(stream).unwrap_or_else(|error| panic!("port {port}, {at}: {error}"));
            }
        }
    }
    let stats = scene.outboard.stats().expect("the engine counts");
    assert_eq!(total(&stats, "tcp_passive_opens"), 3.0 * MANY as f64);

    // An engine that comes back is found by who sleeps there, and nowhere else.
    let log = scene.world.scratch().join("server.log");
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let waited = scene.server.wait_until(LIMIT, || said().contains("sleeps"));
    waited.unwrap_or_else(|error| panic!("{error:#}\n{}", said()));
    scene._engine.signal(Signal::KILL).expect("killed");
    scene._engine.wait(LIMIT).expect("it ends");
    let (outboard, world) = (&scene.outboard, &scene.world);
    scene._engine = outboard.start_engine(world, None).expect("another");
    let is_listening = || {
        let rows = outboard.sockets().unwrap_or_default();
        rows.iter().any(|row| row["state"] == "LISTEN")
    };
    let waited = scene.server.wait_until(LIMIT, is_listening);
    waited.unwrap_or_else(|error| panic!("{error:#}\n{}", said()));
    let mut bytes = Vec::new();
    let mut stream = scene.connect(7000);
    stream.read_to_end(&mut bytes).expect("it is accepted");
    assert_eq!(bytes, b"accepted");
    let stats = scene.outboard.stats().expect("the engine counts");
    assert_eq!(total(&stats, "tcp_passive_opens"), 1.0);
}
