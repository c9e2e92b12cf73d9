//! A process that has ended before it is attached, whose connection to the engine others have: its children.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use crate::world::{World, attach_request};
use queue_pair::control::{Channel, Fds, VERSION};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};

/// To what the process connects that does nothing else.
const CONNECTS_TO: &str = "OUTBOARD_TEST_CONNECTS_TO";

fn socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("descriptors")
}

#[test]
fn nobody_stays_attached_whose_process_has_ended() {
    let address = |name: &str| SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("short");
    if let Ok(name) = std::env::var(CONNECTS_TO) {
        return connect(std::io::stdin(), &address(&name)).expect("somebody listens");
    }
    let name = format!("outboard-test-gone-{}", std::process::id());
    let engine = socket();
    bind(&engine, &address(&name)).expect("free");
    listen(&engine, 1).expect("bound");
    // Who connects is whose the connection is, and is gone when it is taken up.
    let ours = socket();
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "gone::nobody_stays_attached_whose_process_has_ended",
        ])
        .env(CONNECTS_TO, &name)
        .stdin(Stdio::from(ours.try_clone().expect("descriptors")))
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("it runs").success());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let theirs = accept_with(&engine, flags).expect("it has connected");
    let mut world = World::new();
    world.desk.add_client(theirs).expect("room");
    let mut channel = Channel::new(ours);
    let request = attach_request(VERSION, None);
    channel.send(&request, Fds::new()).expect("sent");
    // By Linux 6.16 its end is heard of afterwards.
    world.attend();
    world.attend();
    assert_eq!(world.worker.counters().sessions, 1);
    assert_eq!(world.worker.sessions(), 0);
}
