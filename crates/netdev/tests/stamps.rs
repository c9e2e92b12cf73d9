//! Raw sockets whose frames are stamped by the kernel when they come.

mod common;

use std::time::{Duration, Instant};

use common::Frame;
use lab::{Side, World};
use netdev::interface::Interface;
use netdev::packet::{FrameBatch, RawSocket};

/// Nothing may hang.
const LIMIT: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_millis(50);

#[test]
fn stamped_frames_tell_how_long_they_have_waited() {
    if lab::skip_without_root("stamped_frames_tell_how_long_they_have_waited") {
        return;
    }
    let world = World::new().expect("a private network");
    let interface = |side: Side| {
        let find = move || Ok(Interface::find(side.interface())?);
        world.on(side, find).expect("interface")
    };
    let (server, client) = (interface(Side::Server), interface(Side::Client));
    let receiver = world.on(Side::Server, || Ok(RawSocket::open(&server)?));
    let receiver = receiver.expect("raw socket");
    let sender = world.on(Side::Client, || Ok(RawSocket::open_sender(&client)?));
    let sender = sender.expect("raw socket");
    let frame = Frame::new(Side::Client.ipv4(), Side::Server.ipv4(), 80)
        .with(|frame| frame.dst_mac = server.mac)
        .build();
    let mut batch = FrameBatch::new(2_048);
    let mut age = || {
        let start = Instant::now();
        loop {
            receiver.receive(&mut batch).expect("receive");
            if let Some((_, age)) = batch.aged_frames().find(|(found, _)| *found == frame) {
                return age;
            }
            assert!(start.elapsed() < LIMIT, "the frame does not come");
        }
    };
    sender.send(&frame).expect("send");
    assert_eq!(age(), Duration::ZERO, "nobody has asked for stamps");
    receiver.stamp().expect("stamp");
    // It begins a moment later.
    let asked = Instant::now();
    loop {
        let start = Instant::now();
        sender.send(&frame).expect("send");
        std::thread::sleep(WAIT);
        let age = age();
        assert!(age <= start.elapsed(), "{age:?}");
        if age >= WAIT {
            return;
        }
        assert!(asked.elapsed() < LIMIT, "frames are not stamped: {age:?}");
    }
}
