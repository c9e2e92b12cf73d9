//! A program that looks whether its engine has news, rather than sleep, sees what the kernel has for it, too.
#![forbid(unsafe_code)]

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Side, World};

const PATIENCE: Duration = Duration::from_secs(60);
/// A look for as long as it may be takes a millisecond.
const LOOK: Duration = Duration::from_millis(1);

/// As programs have it whose threads tell each other by a descriptor what to send (ZeroMQ).
#[test]
fn who_looks_for_the_engine_hears_another_thread_meanwhile() {
    if lab::skip_without(
        "who_looks_for_the_engine_hears_another_thread_meanwhile",
        &["python3"],
    ) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let outboard = outboard.waiting_by("latency");
    let _engine = outboard.start_engine(&world, None).expect("an engine");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/looks/beside.py");
    let server = outboard.on_engine(&world, "python3").arg(script);
    let mut server = server.start().expect("the server starts");
    outboard
        .wait_until_taken(&mut server, PATIENCE, 7000, || true)
        .expect("it is on the engine");
    let address = SocketAddr::new(Side::Server.ipv4().into(), 7000);
    let asked = world.on(Side::Client, || {
        let mut client = TcpStream::connect_timeout(&address, PATIENCE)?;
        client.set_read_timeout(Some(PATIENCE))?;
        let mut said = String::new();
        client.read_to_string(&mut said)?;
        Ok(said)
    });
    let said = asked.expect("the client hears");
    let used = Duration::from_nanos(said.parse().expect("nanoseconds"));
    println!("a turn takes {used:?} of a core");
    assert!(used < LOOK / 2, "{used:?} of a core for each turn");
}
