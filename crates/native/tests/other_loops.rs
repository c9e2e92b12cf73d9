//! A loop of the program's own that waits by a queue's descriptor, edge-triggered as tokio's does.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use native::{Context, Event, Handle, Kind, Mode, Queue};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::OwnedFd;

/// How long anything may take before it counts as a hang.
const HANG: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
/// More than the library takes from the kernel at once, and fewer than a listener of the standard library's has room
/// for.
const MANY: usize = 100;
const WATCH: u64 = 7;

/// A loop around a queue, and an eventfd that the queue watches.
struct Loop {
    queue: Queue,
    outer: OwnedFd,
    watched: OwnedFd,
    _watch: Handle,
}

impl Loop {
    fn new() -> Self {
        let context = Context::attach("nobody", "test", Mode::Kernel).unwrap();
        let mut queue = context.queue().unwrap();
        let outer = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&outer, queue.fd(), epoll::EventData::new_u64(0), edge).unwrap();
        let watched = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let watch = queue.watch(watched.as_fd(), 1, WATCH).unwrap();
        Self {
            queue,
            outer,
            watched,
            _watch: watch,
        }
    }

    fn poll(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.queue.poll(&mut events, 16).unwrap();
        events
    }

    /// One turn as outboard.h has it: arm, wait if it says so, disarm, poll.
    fn turn(&mut self) -> Vec<Event> {
        let limit = self.queue.arm().unwrap();
        let limit = limit.map_or(HANG, |limit| Timespec::try_from(limit).unwrap());
        let mut room = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 4];
        let woken = epoll::wait(&self.outer, &mut room, Some(&limit)).unwrap();
        assert!(woken > 0 || limit.tv_sec < HANG.tv_sec, "it sleeps on");
        self.queue.disarm();
        self.poll()
    }
}

#[test]
fn what_says_nothing_does_not_hide_what_is_behind_it() {
    let mut queue = Loop::new();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = queue.queue.listen(any, 1024, 0).unwrap();
    let at = queue.queue.local(listener).unwrap();
    let clients: Vec<_> = (0..MANY).map(|_| TcpStream::connect(at).unwrap()).collect();
    // Each can be sent into from its beginning, of which nobody wants to hear.
    while queue.queue.accept(listener, 1).is_ok() {}
    rustix::io::write(&queue.watched, &1_u64.to_ne_bytes()).unwrap();
    // The loop has been told of all that, once.
    let mut seen = queue.turn();
    while !seen.iter().any(|event| event.kind == Kind::Ready) {
        seen = queue.turn();
    }
    assert_eq!(seen.last().map(|event| event.cookie), Some(WATCH));
    drop(clients);
}

#[test]
fn who_arms_is_told_of_what_is_there_already() {
    let mut queue = Loop::new();
    // Whoever waits for an edge has had this one.
    rustix::io::write(&queue.watched, &1_u64.to_ne_bytes()).unwrap();
    let mut room = [epoll::Event {
        flags: epoll::EventFlags::empty(),
        data: epoll::EventData::new_u64(0),
    }; 4];
    assert_eq!(epoll::wait(&queue.outer, &mut room, Some(&HANG)), Ok(1));
    assert_eq!(queue.queue.arm(), Ok(Some(Duration::ZERO)));
    queue.queue.disarm();
    assert_eq!(
        queue.poll().first().map(|event| event.kind),
        Some(Kind::Ready)
    );
    rustix::io::read(&queue.watched, &mut [0; 8]).unwrap();
    assert_eq!(queue.poll(), []);
    assert_ne!(
        queue.queue.arm(),
        Ok(Some(Duration::ZERO)),
        "nothing is there"
    );
    queue.queue.disarm();
}

#[test]
fn nothing_is_left_behind_however_much_comes_at_once() {
    let mut queue = Loop::new();
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = peer.local_addr().unwrap();
    for cookie in 0..MANY as u64 {
        queue.queue.connect(at, &[], cookie).unwrap();
    }
    let mut opened = 0;
    while opened < MANY {
        let events = queue.turn();
        opened += events
            .iter()
            .filter(|event| event.kind == Kind::Open)
            .count();
    }
    drop(peer);
}

#[test]
fn who_wants_the_kernel_is_not_woken_to_look_for_an_engine() {
    let mut queue = Loop::new();
    assert_eq!(queue.poll(), []);
    assert_eq!(queue.queue.arm(), Ok(None));
    queue.queue.disarm();
}
