//! Sends of many parts, and when they come back, on both sides.

#[path = "../../host/tests/fake_engine/mod.rs"]
mod fake_engine;

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fake_engine::{FakeEngine, HANG, is_readable};
use native::{Back, Context, Errno, Event, Handle, Kind, Mode, Piece, Queue};
use queue_pair::control::Request;
use queue_pair::{Completion, ConnRef, OptionKind, Submission};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

/// The next event.
fn next(queue: &mut Queue) -> Event {
    let mut events = Vec::new();
    queue.wait(&mut events, 1, Some(HANG)).unwrap();
    *events.first().expect("an event")
}

/// The first event of `kind`.
fn until(queue: &mut Queue, kind: Kind) -> Event {
    loop {
        let event = next(queue);
        if event.kind == kind {
            return event;
        }
    }
}

/// Both ends of a connection of the kernel's.
fn at_the_kernel() -> (Context, Queue, Handle, Handle) {
    let context = Context::attach("nobody", "test", Mode::Kernel).unwrap();
    let mut queue = context.queue().unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = queue.listen(any, 16, 1).unwrap();
    let at = queue.local(listener).unwrap();
    let client = queue.connect(at, &[], 2).unwrap();
    let server = loop {
        next(&mut queue);
        if let Ok(server) = queue.accept(listener, 3) {
            break server;
        }
    };
    // It may be open by now.
    while queue.send(client, b"", false) == Err(Errno::NOTCONN) {
        next(&mut queue);
    }
    (context, queue, client, server)
}

/// A connection that the engine has handed over.
fn at_the_engine() -> (FakeEngine, Context, Queue, Handle, ConnRef) {
    let (engine, context, mut queue, listener) = listening_at_the_engine();
    let (handle, conn) = accepted(&engine, &mut queue, listener);
    (engine, context, queue, handle, conn)
}

fn listening_at_the_engine() -> (FakeEngine, Context, Queue, Handle) {
    let engine = FakeEngine::start();
    let context = Context::attach_at(&engine.path, "test", Mode::Engine).unwrap();
    let mut queue = context.queue().unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = queue.listen(any, 16, 1).unwrap();
    (engine, context, queue, listener)
}

fn accepted(engine: &FakeEngine, queue: &mut Queue, listener: Handle) -> (Handle, ConnRef) {
    let conn = engine.host(|host| host.hand(1));
    until(queue, Kind::Accept);
    (queue.accept(listener, 2).unwrap(), conn)
}

fn received(queue: &mut Queue, at: Handle, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        let mut bytes = vec![0; len - all.len()];
        match queue.recv(at, &mut bytes) {
            Ok(read) => all.extend_from_slice(&bytes[..read]),
            Err(Errno::AGAIN) => drop(next(queue)),
            Err(errno) => panic!("{errno}"),
        }
    }
    all
}

/// More parts than the kernel takes at a time, some of them empty.
fn parts(bytes: &[u8]) -> Vec<IoSlice<'_>> {
    let parts = bytes.chunks(2).flat_map(|part| [part, &[]]);
    parts.map(IoSlice::new).collect()
}

#[test]
fn many_parts_are_one_send_on_the_kernel() {
    let (_context, mut queue, client, server) = at_the_kernel();
    let bytes: Vec<u8> = (0..3000_u32).map(|byte| byte as u8).collect();
    let sent = queue.sendv(client, &parts(&bytes), false, Some(9));
    assert_eq!(sent, Ok(3000));
    assert_eq!(received(&mut queue, server, 3000), bytes);
    let back = until(&mut queue, Kind::Sent);
    assert_eq!((back.cookie, back.bytes, back.error), (9, 3000, 0));
    // What finds no room is not said to have been sent, and what was comes back as one.
    let large = vec![7; 32 << 20];
    let halves: Vec<_> = large.chunks(16 << 20).map(IoSlice::new).collect();
    let sent = queue.sendv(client, &halves, false, Some(10)).unwrap();
    assert!(sent < 32 << 20);
    received(&mut queue, server, sent);
    let back = until(&mut queue, Kind::Sent);
    assert_eq!((back.cookie, back.bytes), (10, sent as u64));
}

#[test]
fn many_parts_are_one_send_on_the_engine() {
    let (engine, _context, mut queue, handle, conn) = at_the_engine();
    let bytes: Vec<u8> = (0..3000_u32).map(|byte| byte as u8).collect();
    let sent = queue.sendv(handle, &parts(&bytes), false, Some(9));
    assert_eq!(sent, Ok(3000));
    assert_eq!(engine.host(|host| host.sent(conn)), bytes);
    engine.host(|host| host.acknowledge(conn, 2999));
    engine.host(|host| host.acknowledge(conn, 3000));
    let back = until(&mut queue, Kind::Sent);
    assert_eq!((back.cookie, back.bytes), (9, 3000));
}

/// A memory file of the program's own.
fn memory_file(len: u64) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = memfd_create("theirs", flags).unwrap();
    ftruncate(&memfd, len).unwrap();
    memfd
}

#[test]
fn memory_of_the_programs_own_is_named_to_the_engine() {
    let (engine, context, mut queue, handle, conn) = at_the_engine();
    let memfd = memory_file(10_000);
    fcntl_add_seals(&memfd, SealFlags::SHRINK).unwrap();
    let own = context.register_memfd(memfd.as_fd(), 5_000, 1_000).unwrap();
    let lent = context.register(100).unwrap();
    let piece = |memory, offset, len| Piece {
        memory,
        offset,
        len,
    };
    let beyond = [piece(&lent, 0, 1), piece(&own, 991, 10)];
    let sent = queue.sendv_registered(handle, &beyond, false, None);
    assert_eq!(sent, Err(Errno::INVAL));
    let pieces = [piece(&own, 10, 20), piece(&lent, 0, 30), piece(&own, 0, 5)];
    let sent = queue.sendv_registered(handle, &pieces, false, Some(4));
    assert_eq!(sent, Ok(55));
    let submissions = engine.host(|host| host.submissions());
    let named = submissions.iter().filter_map(|it| match *it {
        Submission::SendFile {
            file,
            offset,
            len,
            more,
            ..
        } => Some((Some(file), offset, len, more)),
        Submission::Send { len, more, .. } => Some((None, 0, len, more)),
        _ => None,
    });
    let expected = [
        (Some(5), 5_010, 20, true),
        (None, 0, 30, true),
        (Some(5), 5_000, 5, false),
    ];
    assert_eq!(named.collect::<Vec<_>>(), expected);
    // It is one send: memory that it names is under way until that has come back, whatever is acknowledged of it.
    engine.host(|host| host.acknowledge(conn, 50));
    next_acknowledged(&mut queue, handle, 5);
    let (lent, errno) = lent.unregister().err().unwrap();
    assert_eq!(errno, Errno::BUSY);
    let (own, errno) = own.unregister().err().unwrap();
    assert_eq!(errno, Errno::BUSY);
    engine.host(|host| host.acknowledge(conn, 55));
    assert_eq!(until(&mut queue, Kind::Sent).cookie, 4);
    assert!(lent.unregister().is_ok());
    assert!(own.unregister().is_ok());
}

/// Waits until so many bytes are not acknowledged.
fn next_acknowledged(queue: &mut Queue, handle: Handle, left: u64) {
    while queue.facts(handle).unwrap().unacknowledged != left {
        let mut events = Vec::new();
        queue.poll(&mut events, 1).unwrap();
    }
}

#[test]
fn memory_of_the_programs_own_is_registered() {
    let memfd = memory_file(10_000);
    let (context, mut queue, client, server) = at_the_kernel();
    let register = |offset, len| context.register_memfd(memfd.as_fd(), offset, len);
    assert_eq!(register(5, 100).err(), Some(Errno::PERM));
    fcntl_add_seals(&memfd, SealFlags::SHRINK).unwrap();
    assert_eq!(register(5, 0).err(), Some(Errno::INVAL));
    assert_eq!(register(9_990, 11).err(), Some(Errno::INVAL));
    let memory = register(9_990, 10).unwrap();
    assert_eq!(memory.len(), 10);
    rustix::io::pwrite(&memfd, b"theirs", 9_991).unwrap();
    let sent = queue.send_registered(client, &memory, 1, 6, false, Some(3));
    assert_eq!(sent, Ok(6));
    let beyond = queue.send_registered(client, &memory, 5, 6, false, Some(4));
    assert_eq!(beyond, Err(Errno::INVAL));
    let (memory, errno) = memory.unregister().err().unwrap();
    assert_eq!(errno, Errno::BUSY);
    assert_eq!(received(&mut queue, server, 6), b"theirs");
    assert_eq!(until(&mut queue, Kind::Sent).cookie, 3);
    assert!(memory.unregister().is_ok());
}

#[test]
fn registered_memory_is_gathered() {
    let (engine, context, mut queue, handle, conn) = at_the_engine();
    let (first, second) = (
        context.register(100).unwrap(),
        context.register(50).unwrap(),
    );
    let fill = |place: &[AtomicU8], with: u8| queue_pair::copy_in(place, &vec![with; place.len()]);
    fill(first.bytes().unwrap(), 1);
    fill(second.bytes().unwrap(), 2);
    let piece = |memory, offset, len| Piece {
        memory,
        offset,
        len,
    };
    let beyond = [piece(&first, 0, 10), piece(&second, 41, 10)];
    let sent = queue.sendv_registered(handle, &beyond, false, None);
    assert_eq!(sent, Err(Errno::INVAL));
    let pieces = [
        piece(&first, 90, 10),
        piece(&second, 0, 0),
        piece(&second, 0, 50),
        piece(&first, 0, 3),
    ];
    let sent = queue.sendv_registered(handle, &pieces, false, Some(4));
    assert_eq!(sent, Ok(63));
    let expected = [vec![1; 10], vec![2; 50], vec![1; 3]].concat();
    assert_eq!(engine.host(|host| host.sent(conn)), expected);
    let more: Vec<_> = engine.host(|host| host.submissions());
    let more: Vec<_> = more
        .iter()
        .filter_map(|it| match it {
            Submission::Send { more, .. } | Submission::SendAt { more, .. } => Some(*more),
            _ => None,
        })
        .collect();
    assert_eq!(more, [true, true, false], "only the last ends it");
    assert!(first.is_under_way() && second.is_under_way());
    engine.host(|host| host.acknowledge(conn, 63));
    assert_eq!(until(&mut queue, Kind::Sent).bytes, 63);
    assert!(!first.is_under_way() && !second.is_under_way());
    // What has no room does not follow at once.
    let large = context.register(4 << 20).unwrap();
    let pieces = [piece(&large, 0, 4 << 20); 2];
    let sent = queue
        .sendv_registered(handle, &pieces, false, None)
        .unwrap();
    assert!(sent < 8 << 20);
    let last = engine.host(|host| host.submissions().pop());
    assert!(
        matches!(last, Some(Submission::Send { more: false, .. })),
        "{last:?}"
    );

    let (context, mut queue, client, server) = at_the_kernel();
    let first = context.register(100).unwrap();
    fill(first.bytes().unwrap(), 5);
    let pieces = [piece(&first, 0, 60), piece(&first, 60, 40)];
    let sent = queue.sendv_registered(client, &pieces, false, Some(4));
    assert_eq!(sent, Ok(100));
    assert!(first.is_under_way());
    assert_eq!(received(&mut queue, server, 100), [5; 100]);
    assert_eq!(until(&mut queue, Kind::Sent).bytes, 100);
    assert!(!first.is_under_way());
}

#[test]
fn a_send_can_come_back_when_it_has_left_the_engine() {
    let (engine, _context, mut queue, handle, conn) = at_the_engine();
    queue.send_async(handle, &[1; 100], false, 1).unwrap();
    let parts = [IoSlice::new(&[2; 100])];
    let sent = queue.sendv(handle, &parts, false, Back::Left(2));
    assert_eq!(sent, Ok(100));
    let asked = engine.host(|host| host.submissions());
    let wanted = Submission::SetOption {
        conn,
        option: OptionKind::NotSentLow,
        value: 1,
    };
    assert!(asked.contains(&wanted), "{asked:?}");
    let left = |total| engine.host(|host| host.post(Completion::Departed { conn, total }));
    left(199);
    let mut events = Vec::new();
    queue.poll(&mut events, 8).unwrap();
    assert_eq!(events, []);
    left(200);
    let back = next(&mut queue);
    assert_eq!((back.kind, back.cookie, back.bytes), (Kind::Sent, 2, 100));
    // One that has left before it is asked for is told at once, and one whose acknowledgement comes first.
    queue.sendv(handle, &parts, false, Back::Left(3)).unwrap();
    engine.host(|host| host.submissions());
    engine.host(|host| host.acknowledge(conn, 300));
    let both: Vec<u64> = (0..2).map(|_| next(&mut queue).cookie).collect();
    assert_eq!(both, [1, 3]);
    // What has left has left, also if the connection is reset.
    queue.sendv(handle, &parts, false, Back::Left(4)).unwrap();
    queue.sendv(handle, &parts, false, Back::Left(5)).unwrap();
    engine.host(|host| host.submissions());
    left(400);
    engine.host(|host| host.post(Completion::Failed { conn, errno: 104 }));
    let errors = [4, 5].map(|cookie| {
        let back = until(&mut queue, Kind::Sent);
        assert_eq!(back.cookie, cookie);
        back.error
    });
    assert_eq!(errors, [0, 104]);
}

#[test]
fn a_send_can_come_back_when_it_has_left_the_kernel() {
    let (_context, mut queue, client, server) = at_the_kernel();
    let parts = [IoSlice::new(b"at once")];
    queue.sendv(client, &parts, false, Back::Left(2)).unwrap();
    assert_eq!(until(&mut queue, Kind::Sent).cookie, 2);
    // More than the window takes waits until there is room, and no longer.
    let piece = vec![3; 1 << 20];
    let parts = [IoSlice::new(&piece)];
    let (mut all, mut sends) = (7, 0);
    while let Ok(sent) = queue.sendv(client, &parts, false, Back::Left(100 + sends)) {
        sends += 1;
        all += sent;
    }
    let mut back = Vec::new();
    let mut events = Vec::new();
    let mut out = vec![0; 1 << 16];
    while back.len() < sends as usize {
        while let Ok(1..) = queue.recv(server, &mut out) {}
        queue.wait(&mut events, 64, Some(HANG)).unwrap();
        assert!(!events.is_empty(), "{back:?} of {sends}");
        let sent = events.iter().filter(|event| event.kind == Kind::Sent);
        back.extend(sent.map(|event| (event.cookie, event.error)));
    }
    assert!(all > 1 << 20);
    assert!(back.is_sorted() && back.iter().all(|(_, error)| *error == 0));
}

/// A file of so many bytes, which nobody else has.
fn file(context: &Context, len: usize) -> native::File {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("outboard-sends-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, vec![7; len]).unwrap();
    let file = context.file(std::fs::File::open(&path).unwrap().into());
    std::fs::remove_file(&path).unwrap();
    file
}

/// How often the engine was shown a file.
fn shown(engine: &FakeEngine) -> usize {
    let asked = |it: &&Request| matches!(it, Request::File);
    engine.lock().requests.iter().filter(asked).count()
}

#[test]
fn files_that_the_policy_leaves_are_read_here_and_not_asked_about_one_by_one() {
    let (engine, context, mut queue, handle, _) = at_the_engine();
    engine.lock().leaves_files = true;
    let [left, other, longer] = [3000, 4000, 5001].map(|len| file(&context, len));
    let mut send = |file| {
        let sent = queue.send_registered_file(handle, file, 0, 1000, false, Back::Never);
        assert_eq!(sent, Ok(1000));
    };
    (0..3).for_each(|_| send(&left));
    send(&other);
    assert!(!left.is_offloaded() && !other.is_offloaded());
    let sent = engine.host(|host| host.submissions());
    let by_engine = |it: &Submission| matches!(it, Submission::SendFile { .. });
    assert!(!sent.iter().any(by_engine), "{sent:?}");
    assert_eq!(shown(&engine), 1, "it has said so of both");
    // Of one that is longer nothing is known.
    engine.lock().leaves_files = false;
    send(&longer);
    assert!(longer.is_offloaded());
    assert_eq!(shown(&engine), 2);
    let sent = engine.host(|host| host.submissions());
    assert!(sent.iter().any(by_engine), "{sent:?}");
}

#[test]
fn a_file_for_which_there_was_no_room_is_read_here_and_shown_again_later() {
    let (engine, context, mut queue, handle, _) = at_the_engine();
    engine.lock().full = true;
    let file = file(&context, 3000);
    let mut send = || queue.send_registered_file(handle, &file, 0, 1000, false, Back::Never);
    assert_eq!((send(), send()), (Ok(1000), Ok(1000)));
    assert!(!file.is_offloaded());
    assert_eq!(shown(&engine), 1, "not at each send");
    engine.lock().full = false;
    let begin = Instant::now();
    while !file.is_offloaded() {
        assert!(begin.elapsed() < HANG, "it was given up");
        std::thread::sleep(Duration::from_millis(250));
        // Nobody acknowledges: what is not offloaded finds no room any more, and may not.
        let _ = send();
    }
    assert_eq!(shown(&engine), 2);
}

/// Takes what has happened.
fn quiet(queue: &mut Queue) {
    queue.poll(&mut Vec::new(), 64).unwrap();
}

/// On a link that is the limit a sender sleeps most of the time: it is woken as often as the kernel would wake it.
#[test]
fn who_was_refused_room_hears_of_room_and_not_of_each_send() {
    let (engine, _context, mut queue, handle, conn) = at_the_engine();
    let piece = [7; 16 << 10];
    let (mut cookie, mut sent) = (0, 0);
    let mut acked = 0;
    for _ in 0..3 {
        while let Ok(taken) = queue.send_async(handle, &piece, false, cookie) {
            (cookie, sent) = (cookie + 1, sent + taken as u64);
        }
        engine.host(|host| host.forget_sent());
        let buffer = 2 * (sent - acked);
        // A third of it is free.
        let room = sent - (buffer + 1) / 3;
        // However slow this machine is, no look for sends is in vain.
        loop {
            acked += piece.len() as u64;
            engine.host(|host| host.acknowledge(conn, acked));
            quiet(&mut queue);
            if queue.arm() != Ok(Some(Duration::ZERO)) {
                break;
            }
            queue.disarm();
        }
        assert!(acked + 2 * 1448 < room);
        while acked + 1448 < room {
            acked += 1448;
            engine.host(|host| host.acknowledge(conn, acked));
            assert!(!is_readable(queue.fd()), "{acked} of {room}");
        }
        // There is some, which is less than is worth a wake-up.
        let tried = queue.send_async(handle, &piece, false, cookie);
        assert_eq!(tried, Err(Errno::AGAIN));
        assert_eq!(queue.send(handle, &piece, false), Err(Errno::AGAIN));
        assert_eq!(queue.room(handle, 1).err(), Some(Errno::AGAIN));
        assert_eq!(queue.send(handle, b"", false), Ok(0));
        acked = room;
        engine.host(|host| host.acknowledge(conn, acked));
        assert!(is_readable(queue.fd()));
        queue.disarm();
        until(&mut queue, Kind::Room);
    }
}

#[test]
fn who_was_refused_room_hears_of_sends_though_none_comes() {
    let (engine, _context, mut queue, handle, conn) = at_the_engine();
    let piece = [7; 16 << 10];
    while queue.send_async(handle, &piece, false, 9).is_ok() {}
    engine.host(|host| host.acknowledge(conn, piece.len() as u64));
    let event = next(&mut queue);
    assert_eq!((event.kind, event.bytes), (Kind::Sent, 16 << 10));
}

/// There may be many peers that are slow, or gone.
#[test]
fn who_was_refused_room_and_hears_of_nothing_is_not_looked_at_for_ever() {
    let (engine, _context, mut queue, handle, conn) = at_the_engine();
    let piece = [7; 16 << 10];
    while queue.send_async(handle, &piece, false, 9).is_ok() {}
    engine.host(|host| host.forget_sent());
    // It stays armed if it is not.
    let is_to_look = |queue: &mut Queue| {
        let limit = queue.arm().unwrap();
        let looks = limit.is_some_and(|limit| limit <= Duration::from_millis(50));
        if looks {
            queue.disarm();
        }
        looks
    };
    let arm_without_looks = |queue: &mut Queue| {
        let mut events = Vec::new();
        // In each of these waits it is looked at.
        for _ in 0..5 {
            if !is_to_look(queue) {
                return;
            }
            queue
                .wait(&mut events, 8, Some(Duration::from_millis(100)))
                .unwrap();
            assert_eq!(events, []);
        }
        panic!("it is looked at for ever");
    };
    for first in [16 << 10, 32 << 10] {
        arm_without_looks(&mut queue);
        engine.host(|host| host.acknowledge(conn, first - 1));
        assert!(!is_readable(queue.fd()));
        engine.host(|host| host.acknowledge(conn, first));
        assert!(is_readable(queue.fd()));
        queue.disarm();
        assert_eq!(next(&mut queue).kind, Kind::Sent);
        // From now on it is looked at again.
        assert!(is_to_look(&mut queue));
    }
}

#[test]
fn who_has_been_lent_room_is_told_so_though_there_is_none() {
    let (engine, _context, mut queue, listener) = listening_at_the_engine();
    let (one, _) = accepted(&engine, &mut queue, listener);
    let (other, _) = accepted(&engine, &mut queue, listener);
    let room = queue.room(one, 100).unwrap();
    // Until the ring is full.
    while queue.send(other, b"x", false).is_ok() {}
    let (room, errno) = queue.commit(room, 10, false, None).err().unwrap();
    assert_eq!(errno, Errno::AGAIN);
    assert!(room.is_some());
    assert_eq!(queue.send(one, b"x", false), Err(Errno::BUSY));
    assert_eq!(queue.room(one, 1).err(), Some(Errno::BUSY));
}

#[test]
fn who_has_room_hears_of_a_send_when_it_is_acknowledged() {
    let (engine, _context, mut queue, handle, conn) = at_the_engine();
    quiet(&mut queue);
    queue.send_async(handle, &[7; 10_000], false, 1).unwrap();
    queue.send_async(handle, &[7; 10_000], false, 2).unwrap();
    for (cookie, before, at) in [(1, 9_999, 10_000), (2, 19_999, 20_000)] {
        assert_ne!(queue.arm(), Ok(Some(Duration::ZERO)));
        engine.host(|host| host.acknowledge(conn, before));
        assert!(!is_readable(queue.fd()));
        engine.host(|host| host.acknowledge(conn, at));
        assert!(is_readable(queue.fd()));
        queue.disarm();
        assert_eq!(next(&mut queue).cookie, cookie);
    }
}
