//! A program that opens more connections than the engine has ports for: none of them fails.
#![forbid(unsafe_code)]

use lab::outboard::{Outboard, total};
use lab::{Side, World};
use std::path::Path;

/// Opens and closes as many connections as it is told, and prints how many were answered; then waits.
const CLIENT: &str = "
import socket, sys, time
answered = 0
for _ in range(int(sys.argv[2])):
    with socket.create_connection((sys.argv[1], 7000)) as connection:
        connection.sendall(b'?')
        answered += connection.recv(1) == b'!'
# In one write, whatever PYTHONUNBUFFERED is: its reader does not wait for the rest of the line.
print(f'answered {answered}', flush=True)
time.sleep(600)
";

const SERVER: &str = "
import socket
server = socket.create_server(('', 7000), backlog=512)
print('ready', flush=True)
while True:
    connection, _ = server.accept()
    connection.recv(1)
    connection.sendall(b'!')
";

#[test]
fn a_program_that_needs_more_ports_than_there_are_goes_on_by_the_kernel() {
    if lab::skip_without(
        "a_program_that_needs_more_ports_than_there_are_goes_on_by_the_kernel",
        &["python3"],
    ) {
        return;
    }
    let patience = std::time::Duration::from_secs(120);
    let world = World::new().unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard
        .start_engine_with(&world, "[limits]\nleased_ports = 4\n")
        .unwrap();
    let mut server = world
        .program(Side::Client, "python3")
        .args(["-c", SERVER])
        .log(world.scratch().join("server.log"))
        .start()
        .unwrap();
    let printed = |name: &str, word: &str| {
        std::fs::read_to_string(world.scratch().join(name)).is_ok_and(|log| log.contains(word))
    };
    server
        .wait_until(patience, || printed("server.log", "ready"))
        .unwrap();
    let mut client = outboard
        .on_engine(&world, "python3")
        .args(["-c", CLIENT, &Side::Client.ipv4().to_string(), "200"])
        .log(world.scratch().join("client.log"))
        .start()
        .unwrap();
    let waited = client.wait_until(patience, || printed("client.log", "answered"));
    waited.unwrap_or_else(|error| panic!("{error:#}\n{}", client.printed()));
    assert!(
        printed("client.log", "answered 200"),
        "{}",
        client.printed()
    );
    let stats = outboard.stats().unwrap();
    let opens = total(&stats, "tcp_active_opens");
    assert!((4.0..200.0).contains(&opens), "{opens}");
    let explained = outboard
        .command(&world, "explain")
        .arg(client.id().to_string())
        .output()
        .unwrap();
    assert!(explained.contains("limits.leased_ports"), "{explained}");
}
