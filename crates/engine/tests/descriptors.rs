//! The engine runs out of descriptors. Alone in its process, which all tests of a file share the
//! limit of.

mod world;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use engine::config::Config;
use engine::slow::control::{Accepted, Control};
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

/// Where a control socket is for this test.
fn path(name: &str) -> PathBuf {
    let name = format!("outboard-descriptors-{}-{name}.sock", std::process::id());
    std::env::temp_dir().join(name)
}

fn turned_away() {
    let path = path("desk");
    let config = Config::default();
    let before_limit = kept_for_who_closes(&config);
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
    before_limit();
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

/// What has been sent on a connection that is turned away is left to who has time to close it. Returns what is to be
/// done where there are no descriptors.
fn kept_for_who_closes(config: &Config) -> impl FnOnce() + use<> {
    let path = path("control");
    let mut control = Control::listen_at(&path, &config.limits).expect("a socket");
    let clients = [(); 2].map(|()| unconnected());
    move || {
        let address = SocketAddrUnix::new(&path).expect("short");
        for client in &clients {
            connect(client, &address).expect("the kernel takes it");
        }
        assert_eq!(control.accept(), Ok(Accepted::NoDescriptor));
        // The other one waits until that is closed.
        assert_eq!(control.accept(), Ok(Accepted::Nobody));
        assert!(control.is_paused());
        for _ in 0..2 {
            let kept = control.turned_away();
            assert_eq!(kept.len(), 1);
            drop(kept);
            assert!(control.renew_spare());
            let accepted = control.accept();
            assert!(
                matches!(accepted, Ok(Accepted::NoDescriptor | Accepted::Nobody)),
                "{accepted:?}"
            );
        }
    }
}

fn unconnected() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a descriptor")
}
