//! Descriptors of programs at a worker: it closes none, for that can take as long as the program likes (SO_LINGER,
//! FUSE). What it does not keep goes to the desk, which has others close it.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use engine::clock::Clock;
use engine::config::Config;
use engine::exchange::{self, Ask, ClientKey, Order, Tale, ToFast, Told};
use engine::fast::common::Common;
use engine::fast::session::{EndReason, Process, Session};
use engine::fast::worker::Worker;
use engine::network::FixedNetwork;
use netdev::sim::{LinkConfig, SimDevice, link};
use queue_pair::{Layout, Sizes, doorbell, region};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use tcp::Instant;

use crate::world::{ENGINE, ENGINE_MAC, PEER_MAC};

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
        let network = FixedNetwork {
            mac: ENGINE_MAC,
            addresses: vec![ENGINE],
            peer: PEER_MAC,
            steered: Vec::new(),
            ports: Vec::new(),
            gateway: None,
            narrow: Vec::new(),
            unrouted: Vec::new(),
            asked: 0,
        };
        let (near, _) = link(LinkConfig::default()).expect("descriptors");
        let (desk, to_slow) = exchange::pair(&config.limits).expect("descriptors");
        let common = Common {
            seed: [7; 32],
            clock: Clock::told(&STANDSTILL),
        };
        let mut worker = Worker::new(config, near, network, to_slow, common);
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
        assert!(is_open(), "not closed by the worker");
        let Ok(Some(Tale::Returned(UID, fds))) = alone.desk.hear() else {
            panic!("it is nobody's");
        };
        assert!(is_open() && fds.len() == 1);
        drop(fds);
        assert!(!is_open());
        let told = alone.desk.hear().expect("works");
        assert!(
            matches!(told, Some(Tale::Ended(CLIENT, _, EndReason::Rights))),
            "{told:?}"
        );
        assert_eq!(alone.worker.counters().violations, 1);
    }
}
