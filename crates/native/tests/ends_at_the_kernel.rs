//! How connections of the kernel's end, and what is told of them: both ends in one process.

use std::io::{PipeReader, PipeWriter};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use native::{Context, Errno, Event, Handle, Kind, Mode, Queue, Setting, Shutdown};

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const CLIENT: u64 = 2;
const RESET: i32 = 104;

/// A queue with both ends of a connection.
struct Pair {
    context: Context,
    queue: Queue,
    client: Handle,
    server: Handle,
    seen: Vec<Event>,
}

impl Pair {
    fn new() -> Self {
        let context = Context::attach("nobody", "test", Mode::Kernel).unwrap();
        let mut queue = context.queue().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = queue.listen(any, 16, 1).unwrap();
        let at = queue.local(listener).unwrap();
        let client = queue.connect(at, &[], CLIENT).unwrap();
        let mut pair = Self {
            context,
            queue,
            client,
            server: client,
            seen: Vec::new(),
        };
        pair.until(Kind::Open);
        pair.until(Kind::Accept);
        pair.server = pair.queue.accept(listener, 3).unwrap();
        pair
    }

    /// The first event of `kind`; others are kept.
    fn until(&mut self, kind: Kind) -> Event {
        loop {
            let found = self.seen.iter().position(|event| event.kind == kind);
            if let Some(at) = found {
                return self.seen.remove(at);
            }
            let mut events = Vec::new();
            self.queue.wait(&mut events, 16, Some(HANG)).unwrap();
            assert!(!events.is_empty(), "no {kind:?}: {:?}", self.seen);
            self.seen.extend(events);
        }
    }

    /// Sends more than the server takes, to come back, and has the server reset the connection. Returns how
    /// many sends there were.
    fn reset(&mut self) -> usize {
        let piece = vec![1; 1 << 20];
        self.queue
            .set(self.server, Setting::ResetOnClose(true))
            .unwrap();
        let mut sends = 0;
        while self
            .queue
            .send_async(self.client, &piece, false, 100 + sends)
            .is_ok()
        {
            sends += 1;
        }
        self.queue.close(self.server).unwrap();
        sends as usize
    }

    /// Holds what comes back of so many sends, and the end, against a reset.
    fn expect_reset(&mut self, sends: usize) {
        assert_eq!(self.until(Kind::End).error, RESET);
        let back = self.seen.iter().filter(|event| event.kind == Kind::Sent);
        assert_eq!(back.clone().count(), sends);
        assert!(
            back.clone()
                .next_back()
                .is_some_and(|last| last.error == RESET),
            "{:?}",
            self.seen
        );
        // After a while the kernel is asked for nothing any more.
        let start = Instant::now();
        let mut events = Vec::new();
        loop {
            self.queue.poll(&mut events, 16).unwrap();
            let limit = self.queue.arm().unwrap();
            self.queue.disarm();
            if limit.is_none_or(|limit| limit > Duration::from_millis(50)) {
                break;
            }
            assert!(start.elapsed() < HANG, "the kernel is asked for ever");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_reset_that_a_receive_has_met_is_told_of_the_rest() {
    let mut pair = Pair::new();
    let sends = pair.reset();
    for _ in 0..2 {
        let received = pair.queue.recv(pair.client, &mut [0; 4]);
        assert_eq!(received, Err(Errno::CONNRESET));
    }
    pair.expect_reset(sends);
}

#[test]
fn a_reset_that_a_send_has_met_is_told_of_the_rest() {
    let mut pair = Pair::new();
    let sends = pair.reset();
    let mut send = || pair.queue.send(pair.client, b"x", false);
    assert_eq!((send(), send()), (Err(Errno::CONNRESET), Err(Errno::PIPE)));
    pair.expect_reset(sends);
}

#[test]
fn a_reset_that_a_posted_buffer_has_met_is_told_of_the_rest() {
    let mut pair = Pair::new();
    let memory = pair.context.register(100).unwrap();
    let sends = pair.reset();
    pair.queue.post(pair.client, &memory, 0, 100, 9).unwrap();
    assert_eq!(pair.until(Kind::Filled).error, RESET);
    pair.expect_reset(sends);
}

#[test]
fn a_reset_after_the_peers_end_is_told_of_the_rest() {
    let mut pair = Pair::new();
    pair.queue
        .shutdown(pair.server, native::Shutdown::Write)
        .unwrap();
    pair.until(Kind::Receive);
    let sends = pair.reset();
    assert_eq!(pair.queue.send(pair.client, b"x", false), Err(Errno::PIPE));
    let pipe = Errno::PIPE.raw_os_error();
    assert_eq!(pair.until(Kind::End).error, pipe);
    let sent = pair.seen.iter().filter(|event| event.kind == Kind::Sent);
    let errors: Vec<_> = sent.map(|event| event.error).collect();
    assert_eq!((errors.len(), errors.last()), (sends, Some(&pipe)));
}

/// Has three descriptors become ready, takes what has happened to one and closes the others.
#[must_use = "what is dropped is news"]
fn close_what_has_happened(pair: &mut Pair) -> Vec<(PipeReader, PipeWriter)> {
    let pipes: Vec<_> = (0..3).map(|_| std::io::pipe().unwrap()).collect();
    let mut watched = Vec::new();
    for (reader, writer) in &pipes {
        rustix::io::write(writer, b"x").unwrap();
        // An edge, which is told once.
        let wanted = 1 | 1 << 31;
        watched.push(pair.queue.watch(reader.as_fd(), wanted, 50).unwrap());
    }
    let mut events = Vec::new();
    pair.queue.wait(&mut events, 1, Some(HANG)).unwrap();
    let first = events[0].handle;
    for other in watched.iter().filter(|handle| **handle != first) {
        pair.queue.close(*other).unwrap();
    }
    pipes
}

#[test]
fn of_what_is_closed_nothing_is_told_any_more() {
    let mut pair = Pair::new();
    let _pipes = close_what_has_happened(&mut pair);
    let mut events = Vec::new();
    pair.queue.poll(&mut events, 16).unwrap();
    assert_eq!(events, []);
}

#[test]
fn what_is_closed_does_not_hide_what_is_behind_it() {
    let mut pair = Pair::new();
    // Its end is news.
    drop(close_what_has_happened(&mut pair));
    let mut events = Vec::new();
    pair.queue.poll(&mut events, 16).unwrap();
    assert_eq!(events.first().map(|event| event.kind), Some(Kind::Ready));
}

#[test]
fn what_is_closed_keeps_no_loop_from_waiting() {
    let mut pair = Pair::new();
    // That the other end can be sent into is not looked at otherwise.
    let mut events = Vec::new();
    pair.queue.poll(&mut events, 16).unwrap();
    let _pipes = close_what_has_happened(&mut pair);
    assert_ne!(pair.queue.arm(), Ok(Some(Duration::ZERO)));
    pair.queue.disarm();
}

#[test]
fn more_memory_than_there_is_is_an_error() {
    let pair = Pair::new();
    let most = pair.context.register(usize::MAX).err();
    assert_eq!(most, Some(Errno::NOBUFS));
    let half = pair.context.register(isize::MAX as usize / 2).err();
    assert_eq!(half, Some(Errno::NOBUFS));
}

#[test]
fn a_second_room_and_a_send_beside_one_are_refused() {
    let mut pair = Pair::new();
    let (queue, client) = (&mut pair.queue, pair.client);
    let room = queue.room(client, 10).unwrap();
    assert_eq!(queue.room(client, 10).err(), Some(Errno::BUSY));
    assert_eq!(queue.send(client, b"x", false), Err(Errno::BUSY));
    drop(room);
    let room = queue.room(client, 10).unwrap();
    assert!(queue.commit(room, 1, false, None).is_ok());
    assert_eq!(queue.send(client, b"x", false), Ok(1));
}

#[test]
fn a_reset_that_a_shutdown_has_met_is_told_of_the_end() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    let queue = &mut pair.queue;
    let piece = vec![1; 1 << 20];
    while queue.send(client, &piece, false).is_ok() {}
    // No room is left for it, so that it waits to leave before the end.
    let room = queue.room(client, 10).unwrap();
    assert!(queue.commit(room, 10, false, None).is_ok());
    queue.set(server, Setting::ResetOnClose(true)).unwrap();
    queue.close(server).unwrap();
    let ended = queue.shutdown(client, Shutdown::Write);
    assert_eq!(ended, Err(Errno::CONNRESET));
    assert_eq!(pair.until(Kind::End).error, RESET);
}
