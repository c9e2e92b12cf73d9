//! `outboard respond` on a TAP device whose wire is this process: frames as they are, and with VLAN
//! tags that the wire puts on and takes off, for kernels that know no VLANs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lab::{Process, Side, World, tool};
use netdev::tun::Tun;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const STARTING: Duration = Duration::from_secs(60);
const VLAN: u16 = 7;
const SERVER: &str = "10.79.0.1";
const CLIENT: &str = "10.79.0.2";
const DEVICE: &str = "tap0";
/// The longest frame, and a tag.
const LONGEST: usize = 2048;

/// Carries frames between a TAP device on either side, until it is dropped.
struct Wire {
    stop: Arc<AtomicBool>,
    /// Says how many frames came back with a tag.
    thread: Option<JoinHandle<u64>>,
}

impl Wire {
    fn new(world: &World, tags: bool) -> Self {
        let [client, server] = [Side::Client, Side::Server].map(|side| {
            let tap = world.on(side, || Ok(Tun::open_tap(DEVICE)?));
            let address = match side {
                Side::Client => CLIENT,
                Side::Server => SERVER,
            };
            let name = world.name(side);
            for line in [
                format!("addr add {address}/24 dev {DEVICE}"),
                format!("link set {DEVICE} up"),
            ] {
                tool::run(&format!("ip -n {name} {line}")).expect("ip");
            }
            tap.expect("a TAP device")
        });
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || carry(&client, &server, tags, &stop)
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("the wire holds")
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn is_tcp(frame: &[u8]) -> bool {
    frame.len() > 34 && frame[12..14] == [0x08, 0x00] && frame[23] == 6
}

fn carry(client: &Tun, server: &Tun, tags: bool, stop: &AtomicBool) -> u64 {
    let tag = [[0x81, 0x00], VLAN.to_be_bytes()].concat();
    let mut buffer = [0; LONGEST];
    let mut tagged = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut devices = [client, server].map(|device| PollFd::new(device, PollFlags::IN));
        let soon = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        poll(&mut devices, Some(&soon)).expect("poll");
        while let Some(length) = client.receive(&mut buffer).expect("a frame") {
            let mut frame = buffer[..length].to_vec();
            if tags && is_tcp(&frame) {
                frame.splice(12..12, tag.iter().copied());
            }
            server.send(&frame).expect("sent");
        }
        while let Some(length) = server.receive(&mut buffer).expect("a frame") {
            let mut frame = buffer[..length].to_vec();
            if frame[12..16] == tag[..] {
                frame.drain(12..16);
                tagged += 1;
            }
            client.send(&frame).expect("sent");
        }
    }
    tagged
}

fn start(world: &World, arguments: &[&str]) -> Process {
    let program = world
        .program(Side::Server, Path::new(env!("CARGO_BIN_EXE_outboard")))
        .args(["respond", "-i", DEVICE, "-L", ":8000"])
        .args(arguments)
        .log(world.scratch().join("respond.log"));
    let mut responder = program.start().expect("it starts");
    let ready = responder.wait_until(STARTING, || fetch_within(world, 0, "2").is_ok());
    ready.expect("it answers");
    responder
}

fn fetch(world: &World, size: usize) -> anyhow::Result<String> {
    fetch_within(world, size, "60")
}

/// With a limit in seconds.
fn fetch_within(world: &World, size: usize, limit: &str) -> anyhow::Result<String> {
    let url = format!("http://{SERVER}:8000/?s={size}");
    let curl = world.program(Side::Client, "curl");
    curl.args(["-sf", "--max-time", limit, &url]).output()
}

fn bodies_are_whole(world: &World) {
    for size in [0, 1, 64, 300, 1000] {
        let body = fetch(world, size).expect("a response");
        assert_eq!(body.len(), size);
        assert!(body.starts_with(&".outboard."[..size.min(10)]), "{body}");
    }
}

#[test]
fn a_tap_device_is_answered_on_in_the_driver() {
    if lab::skip_without("a_tap_device_is_answered_on_in_the_driver", &["curl"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let wire = Wire::new(&world, false);
    let responder = start(&world, &[]);
    bodies_are_whole(&world);
    responder.stop(STARTING).expect("it stops");
    let log = std::fs::read_to_string(world.scratch().join("respond.log")).expect("a log");
    assert!(log.contains("in place (XDP, native)"), "{log}");
    assert_eq!(wire.stop(), 0);
}

#[test]
fn tagged_frames_are_answered_with_their_tag() {
    if lab::skip_without("tagged_frames_are_answered_with_their_tag", &["curl"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let wire = Wire::new(&world, true);
    let responder = start(&world, &["--vlan", &VLAN.to_string()]);
    bodies_are_whole(&world);
    responder.stop(STARTING).expect("it stops");
    // At least a SYN-ACK, a response and the end, of five connections.
    assert!(wire.stop() >= 15);
}

#[test]
fn a_tag_that_was_not_asked_for_is_the_kernels() {
    if lab::skip_without("a_tag_that_was_not_asked_for_is_the_kernels", &["curl"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let wire = Wire::new(&world, true);
    let program = world
        .program(Side::Server, Path::new(env!("CARGO_BIN_EXE_outboard")))
        .args([
            "respond", "--json", "-i", DEVICE, "-L", ":8000", "--vlan", "8",
        ])
        .log(world.scratch().join("respond.log"));
    let mut responder = program.start().expect("it starts");
    let counts = || {
        let log = std::fs::read_to_string(world.scratch().join("respond.log")).unwrap_or_default();
        log.contains("\"syns\":0")
    };
    responder.wait_until(STARTING, counts).expect("it runs");
    fetch_within(&world, 0, "2").expect_err("nobody serves VLAN 7");
    responder.stop(STARTING).expect("it stops");
    let log = std::fs::read_to_string(world.scratch().join("respond.log")).expect("a log");
    let last = log.lines().rfind(|line| line.starts_with('{'));
    assert!(last.expect("JSON").contains("\"syns\":0"), "{log}");
    assert_eq!(wire.stop(), 0);
}
