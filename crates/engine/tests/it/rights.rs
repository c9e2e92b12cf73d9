//! Descriptors of programs at a worker: it closes none, for that can take as long as the program likes (SO_LINGER,
//! FUSE). What it does not keep goes to the desk, which has others close it.

use std::io::{ErrorKind, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use engine::capture::MAX_CAPTURES;
use engine::clock::Clock;
use engine::config::Config;
use engine::exchange::{self, Ask, ClientKey, Order, SessionKey, Tale, ToFast, Told};
use engine::fast::common::Common;
use engine::fast::connections::SessionId;
use engine::fast::session::{EndReason, Process, Session};
use engine::fast::worker::Worker;
use engine::network::FixedNetwork;
use netdev::sim::{LinkConfig, SimDevice, link};
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Layout, Sizes, Submission, doorbell, region};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    bind, getsockname, sendmsg, socket_with,
};
use rustix::pipe::{PipeFlags, pipe_with};
use tcp::Instant;

use crate::world::{ENGINE, ENGINE_MAC, Host, PEER_MAC, World};

static STANDSTILL: AtomicU64 = AtomicU64::new(0);
const UID: u32 = 1000;
const CLIENT: ClientKey = ClientKey { slot: 0, serial: 1 };

/// A worker, and a session whose doorbell takes descriptors, as before Linux 6.16.
struct Alone {
    worker: Worker<SimDevice, FixedNetwork>,
    desk: ToFast,
    doorbell: OwnedFd,
}

impl Alone {
    fn new() -> Self {
        let config = Config::default();
        let network = FixedNetwork::between(ENGINE_MAC, ENGINE, PEER_MAC);
        let (near, _) = link(LinkConfig::default()).expect("descriptors");
        let (desk, to_slow) = exchange::pair(&config.limits).expect("descriptors");
        let common = Common {
            seed: [7; 32],
            clock: Clock::told(&STANDSTILL),
        };
        let mut worker = Worker::new(config, vec![near], network, to_slow, common);
        let layout = Layout::new(Sizes::default()).expect("possible sizes");
        let (_, engine_side) = region::create(&layout).expect("memory");
        let (ringer, bell) = doorbell::pair().expect("descriptors");
        let (waker, _) = doorbell::pair().expect("descriptors");
        let process = Process {
            pid: 1,
            uid: UID,
            program: "test".into(),
        };
        let session = Session::new(1, CLIENT, process, engine_side, bell, waker);
        let what = Ask::Attach {
            session: Box::new(session),
            fork_token: None,
            inherits: Vec::new(),
        };
        let order = Order::Ask {
            client: CLIENT,
            session: None,
            what,
        };
        assert!(desk.send(order).is_ok());
        worker.attend(Instant::ZERO);
        let told = desk.hear().expect("works");
        assert!(
            matches!(told, Some(Tale::Answer(CLIENT, Ok(Told::Attached(..))))),
            "{told:?}"
        );
        let doorbell = ringer.into();
        Self {
            worker,
            desk,
            doorbell,
        }
    }

    fn rings_with(&self, bytes: &[u8], fd: OwnedFd) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let part = [IoSlice::new(bytes)];
        let sent = sendmsg(&self.doorbell, &part, &mut control, SendFlags::DONTWAIT);
        assert_eq!(sent, Ok(bytes.len()));
    }
}

#[test]
fn what_comes_with_a_ring_is_closed_elsewhere_and_ends_the_session() {
    // A message of no bytes is taken for the end of the other side.
    for bytes in [&[1][..], &[]] {
        let mut alone = Alone::new();
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        alone.rings_with(bytes, writer);
        alone.worker.attend(Instant::ZERO);
        let is_open = || rustix::io::read(&reader, &mut [0]) == Err(Errno::AGAIN);
        let told = alone.desk.hear().expect("works");
        assert!(
            matches!(told, Some(Tale::Ended(CLIENT, _, EndReason::Rights))),
            "{told:?}"
        );
        assert_eq!(alone.worker.counters().violations, 1);
        let Ok(Some(Tale::Spent(session))) = alone.desk.hear() else {
            panic!("it is nobody's");
        };
        assert!(is_open(), "not closed by the worker");
        drop(session);
        assert!(!is_open());
    }
}

#[test]
fn a_worker_that_ends_closes_nothing_that_programs_have_sent() {
    let mut alone = Alone::new();
    let (socket, local) = bound("0.0.0.0:0");
    let what = Ask::Bound {
        local,
        socket,
        uid: UID,
    };
    let session = Some(SessionKey {
        id: SessionId(0),
        number: 1,
    });
    let order = Order::Ask {
        client: CLIENT,
        session,
        what,
    };
    assert!(alone.desk.send(order).is_ok());
    alone.worker.attend(Instant::ZERO);
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
    alone.rings_with(&[1], writer);
    drop(alone.worker);
    let is_open = || rustix::io::read(&reader, &mut [0]) == Err(Errno::AGAIN);
    let mut tales = Vec::new();
    while let Ok(Some(tale)) = alone.desk.hear() {
        tales.push(tale);
    }
    assert!(is_open() && is_held(local), "{tales:?}");
    assert!(matches!(tales.last(), Some(Tale::Undone(_))), "{tales:?}");
    drop(tales);
    assert!(!is_open() && !is_held(local));
}

/// A socket that is bound to `address`.
fn bound(address: &str) -> (OwnedFd, SocketAddr) {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    let socket = socket.expect("a descriptor");
    let address: SocketAddr = address.parse().expect("an address");
    bind(&socket, &address).expect("a port");
    let local = getsockname(&socket).expect("bound").try_into();
    (socket, local.expect("an address"))
}

/// A host shows a socket, of which it keeps no copy; the desk has sent that on.
fn shows(world: &mut World, host: &mut Host, address: &str) -> SocketAddr {
    let (socket, local) = bound(address);
    let fds: Fds = [socket].into_iter().collect();
    let request = Request::Bound { local };
    host.channel.send(&request, fds).expect("sent");
    world.desk.attend();
    local
}

/// Whether a socket is bound there.
fn is_held(local: SocketAddr) -> bool {
    TcpListener::bind(local).is_err()
}

/// Whether what was refused is closed by the desk, and not before.
fn is_closed_by_the_desk(world: &mut World, local: SocketAddr) -> bool {
    let before = is_held(local);
    world.desk.attend();
    before && !is_held(local)
}

#[test]
fn a_socket_that_is_not_lent_is_not_closed_by_the_worker() {
    let mut config = Config::default();
    config.limits.leased_ports = 0;
    let mut world = World::with(config, LinkConfig::default());
    let mut host = world.attach(None);
    // It is not an address of the engine's; there are as many ports as there may be.
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let local = shows(&mut world, &mut host, address);
        world.worker.attend(world.now);
        assert!(is_closed_by_the_desk(&mut world, local), "{address}");
        let reply = host.channel.try_receive::<Reply>().expect("open");
        assert!(matches!(reply, Some((Reply::Error { .. }, _))), "{reply:?}");
    }
}

/// Of a connection that there never was.
fn breach() -> Submission {
    Submission::Consumed {
        conn: queue_pair::ConnRef {
            index: 9,
            generation: 9,
        },
        total: 1,
    }
}

#[test]
fn a_socket_of_a_session_that_is_over_is_not_closed_by_the_worker() {
    // It ends before the request is taken, or by what comes before it.
    for ended in [true, false] {
        let mut world = World::new();
        let mut host = world.attach(None);
        host.submit(breach());
        let local = shows(&mut world, &mut host, "0.0.0.0:0");
        if ended {
            world.worker.turn(world.now);
            assert_eq!(world.worker.counters().violations, 1);
        }
        world.worker.attend(world.now);
        assert_eq!(world.worker.counters().violations, 1);
        assert!(is_closed_by_the_desk(&mut world, local), "{ended}");
    }
}

/// A memory file that can be sent from.
fn memory_file(name: &str) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(name, flags).expect("a memory file");
    ftruncate(&file, 4_096).expect("room");
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
    file
}

/// How often a memory file with this name is open here.
fn open_ones(name: &str) -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("mounted");
    let links = all.filter_map(|it| std::fs::read_link(it.ok()?.path()).ok());
    let expected = format!("/memfd:{name} (deleted)");
    links.filter(|link| link.as_os_str() == &*expected).count()
}

/// Its program is gone when it is refused: nobody else holds it.
#[test]
fn a_file_of_a_session_that_is_over_is_not_closed_by_the_worker() {
    for ended in [true, false] {
        let mut world = World::new();
        let mut host = world.attach(None);
        host.submit(breach());
        let name = format!("refused-{}-{ended}", std::process::id());
        let fds: Fds = [memory_file(&name)].into_iter().collect();
        host.channel.send(&Request::File, fds).expect("sent");
        world.desk.attend();
        drop(host);
        world.desk.attend();
        assert_eq!(open_ones(&name), 1, "the engine's own");
        if ended {
            world.worker.turn(world.now);
            assert_eq!(world.worker.counters().violations, 1);
        }
        world.worker.attend(world.now);
        assert_eq!(open_ones(&name), 1, "{ended}");
        world.desk.attend();
        assert_eq!(open_ones(&name), 0, "{ended}");
    }
}

/// The reader's end of a capture that was asked for.
fn captures(world: &mut World, host: &mut Host, filter: &str) -> UnixStream {
    let (reader, writer) = UnixStream::pair().expect("a pair");
    reader.set_nonblocking(true).expect("set");
    let request = Request::Capture {
        filter: filter.to_owned(),
    };
    let fds: Fds = [OwnedFd::from(writer)].into_iter().collect();
    host.channel.send(&request, fds).expect("sent");
    world.desk.attend();
    reader
}

/// Whether the engine's end is open, whatever was written to it.
fn is_open(mut reader: &UnixStream) -> bool {
    let read = reader.read_to_end(&mut Vec::new());
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_capture_is_not_closed_by_the_worker() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let mut readers = Vec::new();
    for _ in 0..=MAX_CAPTURES {
        readers.push(captures(&mut world, &mut host, ""));
        world.worker.attend(world.now);
        let last = readers.last().expect("there");
        assert!(is_open(last));
        world.desk.attend();
    }
    let mut last = None;
    while let Ok(Some((reply, _))) = host.channel.try_receive::<Reply>() {
        last = Some(reply);
    }
    assert!(matches!(last, Some(Reply::Error { .. })), "{last:?}");
    let refused = readers.pop().expect("one more than there may be");
    assert!(!is_open(&refused));
    // One is not read any more.
    let over = readers.pop().expect("running");
    over.shutdown(Shutdown::Write).expect("open");
    world.now += Duration::from_secs(2);
    world.worker.attend(world.now);
    assert!(is_open(&over));
    world.desk.attend();
    assert!(!is_open(&over));
    // Its place is free; a filter that is none takes no place.
    let refused = captures(&mut world, &mut host, "prot 80");
    world.desk.attend();
    assert!(!is_open(&refused));
    let again = captures(&mut world, &mut host, "");
    world.worker.attend(world.now);
    world.desk.attend();
    assert!(is_open(&again));
    // The rest goes back when the worker ends.
    let World { worker, desk, .. } = world;
    drop(worker);
    assert!(is_open(&again) && readers.iter().all(is_open));
    drop(desk);
    assert!(!is_open(&again) && !readers.iter().any(is_open));
}
