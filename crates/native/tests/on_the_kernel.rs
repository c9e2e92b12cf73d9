//! Every call of a queue over sockets of the kernel's, both ends in one process.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use native::{Context, Errno, Event, Handle, Kind, Mode, Queue, Setting, Shutdown, View};
use std::sync::atomic::{AtomicU8, Ordering};

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);

const LISTENER: u64 = 1;
const CLIENT: u64 = 2;
const SERVER: u64 = 3;

/// A queue with both ends of a connection.
struct Pair {
    context: Context,
    queue: Queue,
    listener: Handle,
    client: Handle,
    server: Handle,
    /// What was seen and not asked for yet.
    seen: Vec<Event>,
}

fn bytes(place: &[AtomicU8]) -> Vec<u8> {
    place
        .iter()
        .map(|byte| byte.load(Ordering::Relaxed))
        .collect()
}

fn fill(place: &[AtomicU8], with: &[u8]) {
    queue_pair::copy_in(place, with);
}

impl Pair {
    fn new() -> Self {
        let context = Context::attach("nobody", "test", Mode::Kernel).unwrap();
        let mut queue = context.queue().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = queue.listen(any, 16, LISTENER).unwrap();
        let at = queue.local(listener).unwrap();
        let client = queue
            .connect(at, &[Setting::NoDelay(true)], CLIENT)
            .unwrap();
        let mut pair = Self {
            context,
            queue,
            listener,
            client,
            server: client,
            seen: Vec::new(),
        };
        let open = pair.until(Kind::Open, CLIENT);
        assert_eq!((open.error, open.handle), (0, client));
        pair.until(Kind::Accept, LISTENER);
        pair.server = pair.queue.accept(listener, SERVER).unwrap();
        let none = pair.queue.accept(listener, SERVER);
        assert_eq!(none, Err(Errno::AGAIN));
        pair
    }

    /// The first event of `kind` with `cookie`; others are kept.
    fn until(&mut self, kind: Kind, cookie: u64) -> Event {
        loop {
            let found = self
                .seen
                .iter()
                .position(|event| event.kind == kind && event.cookie == cookie);
            if let Some(at) = found {
                return self.seen.remove(at);
            }
            let mut events = Vec::new();
            self.queue.wait(&mut events, 16, Some(HANG)).unwrap();
            assert!(
                !events.is_empty(),
                "no {kind:?} for {cookie}: {:?}",
                self.seen
            );
            self.seen.extend(events);
        }
    }

    /// Receives exactly as much as `expected` and holds it against that.
    fn expect(&mut self, at: Handle, cookie: u64, expected: &[u8]) {
        let mut all = Vec::new();
        while all.len() < expected.len() {
            let mut out = vec![0; expected.len() - all.len()];
            match self.queue.recv(at, &mut out) {
                Ok(0) => panic!("the end after {} bytes", all.len()),
                Ok(read) => all.extend_from_slice(&out[..read]),
                Err(Errno::AGAIN) => drop(self.until(Kind::Receive, cookie)),
                Err(errno) => panic!("{errno}"),
            }
        }
        assert!(all == expected, "other bytes");
    }
}

#[test]
fn what_is_sent_arrives_and_comes_back_when_it_is_acknowledged() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    assert_eq!(pair.queue.send(client, b"plain ", false), Ok(6));
    let sent = pair.queue.send_async(client, b"with a cookie", false, 77);
    assert_eq!(sent, Ok(13));
    pair.expect(server, SERVER, b"plain with a cookie");
    let back = pair.until(Kind::Sent, 77);
    assert_eq!((back.bytes, back.error, back.handle), (13, 0, client));
    // And again, on a connection that tells already.
    pair.queue.send_async(client, b"x", false, 78).unwrap();
    pair.until(Kind::Sent, 78);
    assert_eq!(pair.queue.recv(server, &mut [0; 4]), Ok(1));
    assert_eq!(pair.queue.recv(server, &mut [0; 4]), Err(Errno::AGAIN));
}

/// Once one send was asked to come back, the kernel tells of all of them, in the place of what is to be received.
#[test]
fn a_connection_that_has_told_once_goes_on_receiving() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    for at in [client, server] {
        pair.queue.set(at, Setting::ReceiveBuffer(4096)).unwrap();
    }
    assert_eq!(pair.queue.send_async(client, b"first", false, 77), Ok(5));
    pair.until(Kind::Sent, 77);
    pair.expect(server, SERVER, b"first");
    for _ in 0..2_000 {
        assert_eq!(pair.queue.send(client, &[1; 200], false), Ok(200));
        pair.expect(server, SERVER, &[1; 200]);
        assert_eq!(pair.queue.send(server, &[2; 200], false), Ok(200));
        pair.expect(client, CLIENT, &[2; 200]);
    }
}

#[test]
fn what_is_not_open_yet_is_not_shut() {
    let context = Context::attach("nobody", "test", Mode::Kernel).unwrap();
    let mut queue = context.queue().unwrap();
    let full = TcpListener::bind("127.0.0.1:0").unwrap();
    let opening = queue
        .connect(full.local_addr().unwrap(), &[], CLIENT)
        .unwrap();
    let refused = queue.shutdown(opening, Shutdown::Write);
    assert_eq!(refused, Err(Errno::NOTCONN));
    let mut events = Vec::new();
    queue.wait(&mut events, 1, Some(HANG)).unwrap();
    assert_eq!((events[0].kind, events[0].error), (Kind::Open, 0));
    assert_eq!(queue.shutdown(opening, Shutdown::Write), Ok(()));
}

/// What was committed has to leave first, and that it has is told.
#[test]
fn who_may_not_shut_yet_is_told_when() {
    let (mut queue, handle, mut other, committed) = full_of_committed(false);
    assert_eq!(queue.shutdown(handle, Shutdown::Write), Err(Errno::AGAIN));
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        other.read_to_end(&mut all).map(|_| all.len())
    });
    let mut events = Vec::new();
    while queue.shutdown(handle, Shutdown::Write).is_err() {
        events.clear();
        queue.wait(&mut events, 16, Some(HANG)).unwrap();
        assert!(events.iter().any(|event| event.kind == Kind::Room));
    }
    assert_eq!(reader.join().unwrap().unwrap(), committed);
}

#[test]
fn more_than_the_socket_takes_waits_for_room() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    let piece = vec![5; 1 << 20];
    let mut sent = 0;
    loop {
        match pair.queue.send(client, &piece, false) {
            Ok(more) => sent += more,
            Err(errno) => {
                assert_eq!(errno, Errno::AGAIN);
                break;
            }
        }
    }
    let all = vec![5; sent];
    pair.expect(server, SERVER, &all);
    pair.until(Kind::Room, CLIENT);
    assert!(pair.queue.send(client, b"again", false).is_ok());
}

#[test]
fn registered_memory_is_the_programs_again_when_it_has_come_back() {
    let mut pair = Pair::new();
    let memory = pair.context.register(1 << 16).unwrap();
    fill(&memory.bytes().unwrap()[100..], b"registered");
    let send = |pair: &mut Pair, offset, len, cookie| {
        let client = pair.client;
        pair.queue
            .send_registered(client, &memory, offset, len, false, cookie)
    };
    assert_eq!(send(&mut pair, 100, 10, Some(5)), Ok(10));
    assert_eq!(send(&mut pair, 65_530, 7, None), Err(Errno::INVAL));
    assert_eq!(send(&mut pair, usize::MAX, 2, None), Err(Errno::INVAL));
    let (memory, errno) = memory.unregister().err().unwrap();
    assert_eq!(errno, Errno::BUSY);
    pair.expect(pair.server, SERVER, b"registered");
    pair.until(Kind::Sent, 5);
    assert!(memory.unregister().is_ok());
    assert_eq!(pair.context.register(0).err(), Some(Errno::INVAL));
}

#[test]
fn a_room_is_sent_as_a_whole_also_beyond_what_the_socket_takes() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    let mut sent = 0;
    let mut cookie = 0;
    // Until the socket is full, and one more.
    loop {
        match pair.queue.room(client, 1 << 20) {
            Ok(room) => {
                assert_eq!(room.bytes().unwrap().len(), 64 * 1024);
                fill(room.bytes().unwrap(), &[9; 64 * 1024]);
                let done = pair.queue.commit(room, 60_000, false, Some(cookie));
                assert!(done.is_ok());
                cookie += 1;
                sent += 60_000;
            }
            Err(errno) => {
                assert_eq!(errno, Errno::AGAIN);
                break;
            }
        }
    }
    pair.expect(server, SERVER, &vec![9; sent]);
    let last = pair.until(Kind::Sent, cookie - 1);
    assert_eq!((last.bytes, last.error), (60_000, 0));
    let room = pair.queue.room(client, 10).unwrap();
    let refused = pair.queue.commit(room, 11, false, None).err().unwrap();
    assert_eq!(refused.1, Errno::INVAL);
}

#[test]
fn what_was_committed_leaves_after_the_close() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    let mut sent = 0;
    while let Ok(room) = pair.queue.room(client, 1 << 16) {
        assert!(pair.queue.commit(room, 1 << 16, false, None).is_ok());
        sent += 1 << 16;
    }
    pair.queue.close(client).unwrap();
    assert_eq!(pair.queue.close(client), Err(Errno::BADF));
    assert_eq!(pair.queue.send(client, b"x", false), Err(Errno::BADF));
    pair.expect(server, SERVER, &vec![0; sent]);
    // The end may have come with the last of it.
    loop {
        match pair.queue.recv(server, &mut [0; 1]) {
            Err(Errno::AGAIN) => drop(pair.until(Kind::Receive, SERVER)),
            end => break assert_eq!(end, Ok(0)),
        }
    }
}

/// A queue with a connection that has little room, so that committed bytes wait in the library;
/// its other end, and how many bytes were committed.
fn full_of_committed(reset: bool) -> (Queue, Handle, TcpStream, usize) {
    let context = Context::attach("nobody", "test", Mode::Kernel).unwrap();
    let mut queue = context.queue().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 8192).unwrap();
    let at = listener.local_addr().unwrap();
    let little = [Setting::SendBuffer(16384)];
    let handle = queue.connect(at, &little, CLIENT).unwrap();
    let (other, _) = listener.accept().unwrap();
    let mut events = Vec::new();
    queue.wait(&mut events, 1, Some(HANG)).unwrap();
    assert_eq!(events[0].kind, Kind::Open);
    queue.set(handle, Setting::ResetOnClose(reset)).unwrap();
    let mut committed = 0;
    while let Ok(room) = queue.room(handle, 1 << 16) {
        fill(room.bytes().unwrap(), &[7; 1 << 16]);
        assert!(queue.commit(room, 1 << 16, false, None).is_ok());
        committed += 1 << 16;
    }
    (queue, handle, other, committed)
}

#[test]
fn what_was_committed_leaves_before_its_queue_is_gone() {
    for closes in [true, false] {
        let (mut queue, handle, mut other, committed) = full_of_committed(false);
        if closes {
            queue.close(handle).unwrap();
        }
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            other.read_to_end(&mut all).map(|_| all.len())
        });
        drop(queue);
        assert_eq!(reader.join().unwrap().unwrap(), committed);
    }
}

/// An end would look as if all had come.
#[test]
fn what_was_committed_and_finds_no_room_ends_with_a_reset() {
    let (mut queue, handle, mut other, _) = full_of_committed(false);
    queue.close(handle).unwrap();
    drop(queue);
    let read = other.read_to_end(&mut Vec::new());
    assert_eq!(read.unwrap_err().raw_os_error(), Some(104));
}

#[test]
fn what_the_program_has_said_of_the_close_holds_when_all_has_left() {
    let all = [false, true].map(|late| [(late, false, None), (late, true, Some(104))]);
    for (late, reset, expected) in all.into_iter().flatten() {
        // Said before, or while some of it waits.
        let (mut queue, handle, mut other, committed) = full_of_committed(reset ^ late);
        if late {
            queue.set(handle, Setting::ResetOnClose(reset)).unwrap();
        }
        let mut all = vec![0; committed];
        let reader = std::thread::spawn(move || {
            other.read_exact(&mut all).unwrap();
            other
        });
        // A room is lent when nothing is left of those before.
        let mut events = Vec::new();
        while queue.room(handle, 1).is_err() {
            queue.wait(&mut events, 8, Some(HANG)).unwrap();
        }
        let mut other = reader.join().unwrap();
        queue.close(handle).unwrap();
        let read = other.read(&mut [0]);
        assert_eq!(read.err().and_then(|error| error.raw_os_error()), expected);
    }
}

#[test]
fn views_show_what_arrived() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    assert_eq!(pair.queue.view(server, 9).err(), Some(Errno::AGAIN));
    pair.queue.send(client, b"to be seen", false).unwrap();
    pair.until(Kind::Receive, SERVER);
    let first = pair.queue.view(server, 6).unwrap().unwrap();
    assert_eq!(bytes(first.bytes().unwrap()), b"to be ");
    let second = pair.queue.view(server, 600).unwrap().unwrap();
    assert_eq!(pair.queue.recv(server, &mut [0; 4]), Err(Errno::BUSY));
    pair.queue.release(first).unwrap();
    assert_eq!(bytes(second.bytes().unwrap()), b"seen");
    pair.queue.release(second).unwrap();
    assert_eq!(pair.queue.view(server, 0).err(), Some(Errno::INVAL));
    pair.queue.shutdown(client, Shutdown::Write).unwrap();
    pair.until(Kind::Receive, SERVER);
    assert!(pair.queue.view(server, 9).unwrap().is_none());
}

/// What is lent holds the peer back, as on the engine, and what is given back is told of.
#[test]
fn views_are_bounded_by_the_receive_buffer() {
    const BUFFER: usize = 64 * 1024;
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    let set = Setting::ReceiveBuffer(BUFFER as u32);
    pair.queue.set(server, set).unwrap();
    let piece = vec![7; 1 << 20];
    let mut sent = 0;
    let (mut views, mut lent): (Vec<View>, _) = (Vec::new(), 0);
    // Until neither sends nor shows anything more.
    loop {
        let taken = pair.queue.send(client, &piece, false).unwrap_or(0);
        sent += taken;
        let shown = pair.queue.view(server, 10_000);
        match shown {
            Ok(view) => {
                let view = view.expect("no end");
                lent += view.bytes().unwrap().len();
                views.push(view);
            }
            Err(errno) => {
                assert_eq!(errno, Errno::AGAIN);
                match lent >= BUFFER {
                    true if taken == 0 => break,
                    true => {}
                    false => drop(pair.until(Kind::Receive, SERVER)),
                }
            }
        }
        assert!(lent <= BUFFER, "{lent}");
    }
    assert!(sent > BUFFER);
    pair.seen.clear();
    // What waits is told of when there is room again.
    pair.queue.release(views.remove(3)).unwrap();
    pair.until(Kind::Receive, SERVER);
    let view = pair.queue.view(server, 10_000).unwrap().unwrap();
    let mut left = sent - lent - view.bytes().unwrap().len();
    views.push(view);
    for view in views {
        pair.queue.release(view).unwrap();
    }
    let mut out = vec![0; 1 << 20];
    while left > 0 {
        match pair.queue.recv(server, &mut out[..left.min(1 << 20)]) {
            Ok(read) => left -= read,
            Err(errno) => {
                assert_eq!(errno, Errno::AGAIN);
                pair.until(Kind::Receive, SERVER);
            }
        }
    }
}

/// Handles of two queues are equal; what is lent of one is not given back to the other.
#[test]
fn what_is_lent_is_given_back_where_it_was_lent() {
    let (mut one, mut other) = (Pair::new(), Pair::new());
    assert_eq!((one.client, one.server), (other.client, other.server));
    for pair in [&mut one, &mut other] {
        pair.queue.send(pair.client, b"to be seen", false).unwrap();
        pair.until(Kind::Receive, SERVER);
    }
    let server = one.server;
    let view = one.queue.view(server, 2).unwrap().unwrap();
    let theirs = other.queue.view(server, 2).unwrap().unwrap();
    assert_eq!(other.queue.release(view), Err(Errno::INVAL));
    // Its own is lent as before, and given back as ever.
    assert_eq!(other.queue.recv(server, &mut [0; 4]), Err(Errno::BUSY));
    other.queue.release(theirs).unwrap();
    assert_eq!(other.queue.recv(server, &mut [0; 4]), Ok(4));
    let room = one.queue.room(one.client, 9).unwrap();
    let theirs = other.queue.room(other.client, 9).unwrap();
    let refused = other.queue.commit(room, 9, false, None).err().unwrap();
    assert_eq!(refused.1, Errno::INVAL);
    assert!(other.queue.commit(theirs, 9, false, None).is_ok());
    assert_eq!(one.queue.send(one.client, b"x", false), Ok(1));
}

#[test]
fn an_end_by_agreement_and_one_by_reset_are_told_apart() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    pair.queue.shutdown(client, Shutdown::Write).unwrap();
    pair.queue.shutdown(server, Shutdown::Write).unwrap();
    assert_eq!(pair.until(Kind::End, CLIENT).error, 0);
    assert_eq!(pair.queue.send(client, b"x", false), Err(Errno::PIPE));

    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    pair.queue.set(server, Setting::ResetOnClose(true)).unwrap();
    pair.queue
        .set(server, Setting::ReceiveBuffer(4096))
        .unwrap();
    let piece = vec![1; 1 << 20];
    while pair.queue.send_async(client, &piece, false, 9).is_ok() {}
    pair.queue.close(server).unwrap();
    let reset = Errno::CONNRESET.raw_os_error();
    assert_eq!(pair.until(Kind::End, CLIENT).error, reset);
    // Whoever receives is told, too: what was reset is not taken for an end by agreement.
    assert_eq!(pair.queue.recv(client, &mut [0; 4]), Err(Errno::CONNRESET));
    let viewed = pair.queue.view(client, 4).map(|view| view.is_some());
    assert_eq!(viewed, Err(Errno::CONNRESET));
    // What was not acknowledged comes back with the error.
    assert!(
        pair.seen
            .iter()
            .any(|event| event.kind == Kind::Sent && event.error == reset),
        "{:?}",
        pair.seen
    );
}

#[test]
fn a_connection_that_is_not_accepted_is_told_once() {
    let mut pair = Pair::new();
    let at = pair.queue.local(pair.listener).unwrap();
    pair.queue.connect(at, &[], 20).unwrap();
    pair.until(Kind::Accept, LISTENER);
    pair.until(Kind::Open, 20);
    let mut events = Vec::new();
    // Whoever takes what has happened until there is nothing more comes to an end.
    pair.queue.poll(&mut events, 16).unwrap();
    assert_eq!(events, []);
    pair.queue.connect(at, &[], 21).unwrap();
    pair.until(Kind::Accept, LISTENER);
    for cookie in [30, 31] {
        pair.queue.accept(pair.listener, cookie).unwrap();
    }
}

#[test]
fn a_connection_that_is_refused_says_so() {
    let mut pair = Pair::new();
    let at = pair.queue.local(pair.listener).unwrap();
    pair.queue.close(pair.listener).unwrap();
    let refused = pair.queue.connect(at, &[], 40).unwrap();
    assert_eq!(pair.queue.send(refused, b"x", false), Err(Errno::NOTCONN));
    let open = pair.until(Kind::Open, 40);
    assert_eq!(open.error, Errno::CONNREFUSED.raw_os_error());
    // Also if a call has met it before.
    let refused = pair.queue.connect(at, &[], 41).unwrap();
    let received = pair.queue.recv(refused, &mut [0; 1]);
    assert_eq!(received, Err(Errno::CONNREFUSED));
    let open = pair.until(Kind::Open, 41);
    assert_eq!(open.error, Errno::CONNREFUSED.raw_os_error());
}

#[test]
fn files_descriptors_wakers_and_facts() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    let path = std::env::temp_dir().join(format!("outboard-native-{}", std::process::id()));
    std::fs::write(&path, b"from a file").unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let sent = pair
        .queue
        .send_file(client, file.as_fd(), 5, 100, false, Some(8));
    assert_eq!(sent, Ok(6));
    pair.expect(server, SERVER, b"a file");
    pair.until(Kind::Sent, 8);

    let facts = pair.queue.facts(client).unwrap();
    assert!(!facts.is_offloaded && facts.tcp.is_none());
    assert_eq!(facts.why_not, Some("the program has chosen the kernel"));
    assert_eq!((facts.unread, facts.unacknowledged), (0, 0));
    for other in [server, pair.listener] {
        let told = pair.queue.facts(other).unwrap();
        assert!(!told.is_offloaded);
        assert_eq!(told.why_not, facts.why_not);
    }
    let (here, there) = (pair.queue.local(client), pair.queue.peer(server));
    assert_eq!(here.unwrap(), there.unwrap());

    let waker = pair.queue.waker();
    std::thread::spawn(move || waker.wake()).join().unwrap();
    pair.until(Kind::Wake, 0);

    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let watched = pair.queue.watch(ours.as_fd(), 1, 60).unwrap();
    assert_eq!(
        pair.queue.watch(ours.as_fd(), 1 << 30, 0),
        Err(Errno::INVAL)
    );
    std::io::Write::write_all(&mut &theirs, b"x").unwrap();
    let ready = pair.until(Kind::Ready, 60);
    assert_eq!((ready.handle, ready.bytes), (watched, 1));
    pair.queue.close(watched).unwrap();
    assert_eq!(pair.queue.send(watched, b"x", false), Err(Errno::BADF));
}

#[test]
fn a_file_is_sent_from_when_it_is_needed_and_only_if_it_is_one() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    let path = std::env::temp_dir().join(format!("outboard-native-file-{}", std::process::id()));
    std::fs::write(&path, b"from a file").unwrap();
    let file = pair
        .context
        .file(std::fs::File::open(&path).unwrap().into());
    std::fs::remove_file(&path).unwrap();
    let mut send = |file, offset| {
        pair.queue
            .send_registered_file(client, file, offset, 100, false, None)
    };
    assert_eq!((send(&file, 5), send(&file, 11)), (Ok(6), Ok(0)));
    let (pipe, _other) = std::io::pipe().unwrap();
    let no_file = pair.context.file(pipe.into());
    assert_eq!(send(&no_file, 0), Err(Errno::INVAL));
    assert!(!file.is_offloaded() && !no_file.is_offloaded());
    pair.expect(server, SERVER, b"a file");
    let mut send = |offset, len| {
        pair.queue
            .send_known_file(client, &file, offset, len, false, None)
    };
    // Who knows wrong is told how many there are.
    assert_eq!((send(0, 4), send(9, 100)), (Ok(4), Ok(2)));
    assert_eq!((send(11, 100), send(0, 0)), (Ok(0), Ok(0)));
    pair.expect(server, SERVER, b"fromle");
    assert_eq!(pair.queue.is_offloaded(server), Ok(false));
    assert_eq!(pair.queue.is_offloaded(pair.listener), Ok(false));
    pair.queue.close(server).unwrap();
    assert_eq!(pair.queue.is_offloaded(server), Err(Errno::BADF));
}

#[test]
fn why_there_is_no_engine_is_known() {
    let nowhere = std::path::Path::new("/nonexistent/engine.sock");
    let attach = |mode| Context::attach_at(nowhere, "test", mode);
    let any = attach(Mode::Any).unwrap();
    assert_eq!(any.refused(), Some(Errno::NOENT));
    assert!(!any.is_attached());
    assert_eq!(any.why_not_attached(), Some(Errno::NOENT));
    let kernel = attach(Mode::Kernel).unwrap();
    assert_eq!(kernel.why_not_attached(), Some(Errno::OPNOTSUPP));
    // Who wants the kernel has not been refused anything.
    assert_eq!(attach(Mode::Kernel).unwrap().refused(), None);
    assert_eq!(attach(Mode::Engine).err(), Some(Errno::NOENT));
}

#[test]
fn another_loop_waits_by_the_queues_descriptor() {
    let mut pair = Pair::new();
    let (client, server) = (pair.client, pair.server);
    let mut events = Vec::new();
    loop {
        pair.queue.poll(&mut events, 16).unwrap();
        if events.is_empty() {
            break;
        }
    }
    pair.queue.arm().unwrap();
    pair.queue.send(client, b"x", false).unwrap();
    let mut polls = [rustix::event::PollFd::from_borrowed_fd(
        pair.queue.fd(),
        rustix::event::PollFlags::IN,
    )];
    let limit = rustix::event::Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    assert_eq!(rustix::event::poll(&mut polls, Some(&limit)), Ok(1));
    pair.queue.disarm();
    pair.until(Kind::Receive, SERVER);
    assert_eq!(pair.queue.recv(server, &mut [0; 4]), Ok(1));
}
