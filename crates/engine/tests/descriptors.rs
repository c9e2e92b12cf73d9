//! The engine runs out of descriptors. Alone in its process, which all tests of a file share the
//! limit of.

mod world;

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

use engine::config::Config;
use engine::slow::control::Control;
use engine::stats::Drop;
use netdev::sim::LinkConfig;
use queue_pair::control::{Channel, ChannelError, Reply, Request};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use world::World;

/// Descriptors that the engine may have beside those that it has.
const LEFT: u64 = 3;
const CLIENTS: usize = 8;

#[test]
fn who_finds_no_descriptor_is_turned_away_and_nobody_waits() {
    let (done, finished) = mpsc::channel();
    let work = std::thread::spawn(move || {
        turned_away();
        done.send(()).expect("somebody waits");
    });
    match finished.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the engine accepts for ever"),
        _ => work.join().expect("no panic"),
    }
}

fn turned_away() {
    let name = format!("outboard-descriptors-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let config = Config::default();
    let control = Control::listen_at(&path, &config.limits).expect("a socket");
    let mut world = World::with_control(config, LinkConfig::default(), control);
    let sockets: Vec<OwnedFd> = (0..CLIENTS).map(|_| unconnected()).collect();
    let before = getrlimit(Resource::Nofile);
    let last = sockets.iter().map(AsRawFd::as_raw_fd).max().expect("some");
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(last as u64 + 1 + LEFT),
            ..before
        },
    )
    .expect("fewer are always allowed");
    let address = SocketAddrUnix::new(&path).expect("short");
    let mut clients: Vec<Channel> = sockets
        .into_iter()
        .map(|socket| {
            connect(&socket, &address).expect("the kernel takes it");
            Channel::new(socket)
        })
        .collect();
    world.attend();
    let turned_away = world.desk.counters().dropped(Drop::NoDescriptor);
    assert_eq!(turned_away, CLIENTS as u64 - LEFT);
    // Who was taken is answered; who was not knows at once.
    for (at, client) in clients.iter_mut().enumerate() {
        if at < LEFT as usize {
            let (reply, _) = world.ask(client, &Request::Stats, Default::default());
            assert!(matches!(reply, Reply::Stats(_)), "{reply:?}");
        } else {
            let end = client.try_receive::<Reply>();
            assert!(matches!(end, Err(ChannelError::Closed)), "{end:?}");
        }
    }
    // When there are some again, so are there for new ones.
    clients.clear();
    world.attend();
    let socket = unconnected();
    connect(&socket, &address).expect("the kernel takes it");
    world.attend();
    let (reply, _) = world.ask(
        &mut Channel::new(socket),
        &Request::Stats,
        Default::default(),
    );
    assert!(matches!(reply, Reply::Stats(_)), "{reply:?}");
}

fn unconnected() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a descriptor")
}
