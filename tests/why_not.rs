//! Why the kernel has a connection that came to a listener of the engine's.
#![forbid(unsafe_code)]

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Side, World, skip_without_root};
use native::{Context, Errno, Handle, Mode, Queue};

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const PORT: u16 = 7000;

fn accept(queue: &mut Queue, listener: Handle) -> Handle {
    let mut events = Vec::new();
    loop {
        match queue.accept(listener, 0) {
            Err(Errno::AGAIN) => queue.wait(&mut events, 16, Some(HANG)).expect("events"),
            accepted => return accepted.expect("a connection"),
        }
    }
}

#[test]
fn what_comes_by_the_wire_is_told_from_what_comes_from_this_machine() {
    let test = "what_comes_by_the_wire_is_told_from_what_comes_from_this_machine";
    if skip_without_root(test) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let placed = outboard.start_engine_with(&world, "placement = \"kernel\"\n");
    let engine = placed.expect("an engine");
    world.enter(Side::Server).expect("the server's side");
    let context = Context::attach_at(outboard.socket(), "test", Mode::Any).expect("a context");
    let mut queue = context.queue().expect("a queue");
    let at: SocketAddr = (Side::Server.ipv4(), PORT).into();
    let listener = queue.listen(at, 16, 0).expect("a port");
    assert_eq!(queue.is_offloaded(listener), Ok(true));
    let mut why = |from| {
        let connect = || Ok(TcpStream::connect_timeout(&at, HANG)?);
        let _client = world.on(from, connect).expect("a connection");
        let accepted = accept(&mut queue, listener);
        let facts = queue.facts(accepted).expect("facts");
        assert!(!facts.is_offloaded);
        facts.why_not.unwrap_or_default()
    };
    let by_wire = why(Side::Client);
    assert!(by_wire.contains("the engine left it"), "{by_wire}");
    let from_here = why(Side::Server);
    assert!(from_here.contains("from this machine"), "{from_here}");
    drop(queue);
    engine.stop(HANG).expect("an end");
}
