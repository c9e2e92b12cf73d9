//! Sending and receiving without copies: rooms, registered memory and views.

mod fake_engine;

use std::sync::atomic::Ordering;

use fake_engine::FakeEngine;
use host::send_pool::SLAB;
use host::{Errno, Listener, PendingError, Readiness, Session, Socket, View};
use queue_pair::{ConnRef, Sizes, Submission};

/// An engine, a program, and one connection between them.
struct Scene {
    engine: FakeEngine,
    session: Session,
    listener: Listener,
    socket: Socket,
    conn: ConnRef,
}

impl Scene {
    fn new() -> Self {
        Self::with(Sizes::default())
    }

    fn with(sizes: Sizes) -> Self {
        let engine = FakeEngine::start_with(Some(sizes));
        let (session, listener) = engine.listening();
        let (conn, socket) = engine.connection(&listener);
        engine.host(|host| host.submissions());
        Self {
            engine,
            session,
            listener,
            socket,
            conn,
        }
    }

    fn another(&self) -> (ConnRef, Socket) {
        self.listener.want();
        self.engine.connection(&self.listener)
    }

    fn deliver(&self, bytes: &[u8]) {
        self.engine.host(|host| host.deliver(self.conn, bytes));
        self.session.pump();
    }

    fn acknowledge(&self, acked: u64) {
        self.engine.host(|host| host.acknowledge(self.conn, acked));
        self.session.pump();
    }

    fn sent(&self) -> Vec<u8> {
        self.engine.host(|host| host.submissions());
        self.engine.host(|host| host.sent(self.conn))
    }

    /// What the engine was last told of how far the program has read.
    fn consumed(&self) -> Option<u64> {
        let submissions = self.engine.host(|host| host.submissions());
        submissions.iter().rev().find_map(|one| match one {
            Submission::Consumed { total, .. } => Some(*total),
            Submission::Send { consumed, .. } => Some(*consumed),
            _ => None,
        })
    }
}

fn read(view: &View) -> Vec<u8> {
    let bytes = view.bytes().unwrap();
    bytes
        .iter()
        .map(|byte| byte.load(Ordering::Relaxed))
        .collect()
}

#[test]
fn a_room_is_filled_in_place_and_sent_as_far_as_it_is_committed() {
    let scene = Scene::new();
    let room = scene.socket.room(100).unwrap();
    assert_eq!(room.bytes().unwrap().len(), 100);
    queue_pair::copy_in(room.bytes().unwrap(), b"filled in place");
    // Nothing comes in between.
    assert_eq!(scene.socket.send(b"x", false), Err(Errno::BUSY));
    assert_eq!(scene.socket.room(1).err(), Some(Errno::BUSY));
    assert!(scene.socket.commit(room, 6, false).is_ok());
    assert_eq!(scene.sent(), b"filled");
    scene.socket.send(b" and on", false).unwrap();
    assert_eq!(scene.sent(), b"filled and on");
}

#[test]
fn a_room_that_is_dropped_sends_nothing_and_one_too_short_is_refused() {
    let scene = Scene::new();
    drop(scene.socket.room(100).unwrap());
    scene.socket.send(b"x", false).unwrap();
    let room = scene.socket.room(10).unwrap();
    let refused = scene.socket.commit(room, 11, false).err().unwrap();
    assert!(refused.0.is_none());
    assert_eq!(refused.1, Errno::INVAL);
    let (_, other) = scene.another();
    let room = other.room(10).unwrap();
    let refused = scene.socket.commit(room, 1, false).err().unwrap();
    assert_eq!(refused.1, Errno::INVAL);
    // It went back to the connection that lent it.
    other.send(b"y", false).unwrap();
    assert_eq!(scene.sent(), b"x");
}

#[test]
fn a_room_stays_the_programs_through_acknowledgements_and_the_end() {
    let scene = Scene::new();
    scene.socket.send(&[1; 2048], false).unwrap();
    let room = scene.socket.room(100).unwrap();
    // All that was sent is acknowledged: its memory is free, that of the room is not.
    scene.acknowledge(2048);
    let (conn, other) = scene.another();
    other.send(&[7; 2048], false).unwrap();
    queue_pair::copy_in(room.bytes().unwrap(), &[9; 100]);
    assert!(scene.socket.commit(room, 100, false).is_ok());
    scene.engine.host(|host| host.submissions());
    let theirs = scene.engine.host(|host| host.sent(conn));
    assert_eq!(theirs, [7; 2048]);
    assert_eq!(scene.sent()[2048..], [9; 100]);

    let room = scene.socket.room(2048).unwrap();
    scene.engine.host(|host| {
        host.post(queue_pair::Completion::Failed {
            conn: scene.conn,
            errno: 104,
        });
    });
    scene.session.pump();
    other.send(&[8; 2048], false).unwrap();
    queue_pair::copy_in(room.bytes().unwrap(), &[9; 100]);
    let ended = scene.socket.commit(room, 100, false).err().unwrap();
    assert!(ended.0.is_none());
    assert_eq!(ended.1, Errno::CONNRESET);
    scene.engine.host(|host| host.submissions());
    let theirs = scene.engine.host(|host| host.sent(conn));
    assert_eq!(theirs[2048..], [8; 2048]);
}

#[test]
fn registered_memory_is_sent_from_where_it_is() {
    let scene = Scene::new();
    let memory = scene.session.register(100_000).unwrap();
    assert_eq!(memory.len(), 100_000);
    queue_pair::copy_in(&memory.bytes().unwrap()[10..], b"twice the same ");
    for _ in 0..2 {
        let sent = scene.socket.send_registered(&memory, 10, 15, false);
        assert_eq!(sent, Ok(15));
    }
    assert_eq!(scene.sent(), b"twice the same twice the same ");
    assert!(memory.is_under_way());
    scene.acknowledge(29);
    let (memory, errno) = memory.unregister().err().unwrap();
    assert_eq!(errno, Errno::BUSY);
    scene.acknowledge(30);
    assert!(!memory.is_under_way());
    assert!(memory.unregister().is_ok());
}

#[test]
fn what_is_outside_of_registered_memory_is_refused() {
    let scene = Scene::new();
    let memory = scene.session.register(1000).unwrap();
    let send = |offset, len| scene.socket.send_registered(&memory, offset, len, false);
    assert_eq!(send(0, 1001), Err(Errno::INVAL));
    assert_eq!(send(1000, 1), Err(Errno::INVAL));
    assert_eq!(send(usize::MAX, 2), Err(Errno::INVAL));
    assert_eq!(send(1000, 0), Ok(0));
    assert_eq!(send(999, 1), Ok(1));
    assert_eq!(scene.session.register(0).err(), Some(Errno::INVAL));
    let all = scene.session.register(1 << 40);
    assert_eq!(all.err(), Some(Errno::NOBUFS));
}

#[test]
fn the_send_buffer_bounds_what_is_sent_from_registered_memory() {
    let scene = Scene::new();
    let memory = scene.session.register(1 << 20).unwrap();
    scene.socket.set_send_buffer(100_000);
    let send = || scene.socket.send_registered(&memory, 0, 1 << 20, false);
    assert_eq!(send(), Ok(100_000));
    assert_eq!(send(), Err(Errno::AGAIN));
    scene.sent();
    scene.acknowledge(60_000);
    assert_eq!(send(), Ok(60_000));
}

#[test]
fn the_pieces_under_way_are_bounded_however_short_they_are() {
    let scene = Scene::new();
    let memory = scene.session.register(100).unwrap();
    let (mut pieces, mut before) = (0, None);
    // The ring has room again once the engine has looked.
    while before != Some(pieces) {
        before = Some(pieces);
        while let Ok(sent) = scene.socket.send_registered(&memory, 0, 1, false) {
            pieces += sent;
        }
        assert_eq!(scene.sent().len(), pieces);
        scene.session.pump();
    }
    let full = scene.socket.send_registered(&memory, 0, 1, false);
    assert_eq!(full, Err(Errno::AGAIN));
    assert_eq!(pieces, queue_pair::MOST_PIECES);
    assert_eq!(scene.socket.send(b"x", false), Err(Errno::AGAIN));
    assert_eq!(scene.socket.room(1).err(), Some(Errno::AGAIN));
    let is_writable = || scene.socket.readiness().intersects(Readiness::OUT);
    assert!(!is_writable());
    // As with bytes, writers are told once a third is free.
    let third = pieces as u64 / 3;
    scene.acknowledge(third);
    assert!(!is_writable());
    assert_eq!(scene.socket.send(b"x", false), Ok(1));
    scene.acknowledge(third + 2);
    assert!(is_writable());
}

#[test]
fn registered_memory_that_is_dropped_is_free_with_the_last_acknowledgement() {
    let sizes = Sizes {
        send_len: 16 * u64::from(SLAB),
        ..Sizes::default()
    };
    let scene = Scene::with(sizes);
    let register = || scene.session.register(10 * SLAB as usize);
    let memory = register().unwrap();
    scene
        .socket
        .send_registered(&memory, 0, 100, false)
        .unwrap();
    drop(memory);
    assert_eq!(register().err(), Some(Errno::NOBUFS));
    scene.sent();
    scene.acknowledge(100);
    let memory = register().unwrap();
    // And with the end of the connection.
    scene
        .socket
        .send_registered(&memory, 0, 100, false)
        .unwrap();
    drop(memory);
    scene.engine.host(|host| {
        host.post(queue_pair::Completion::Failed {
            conn: scene.conn,
            errno: 104,
        });
    });
    scene.session.pump();
    assert!(register().is_ok());
}

#[test]
fn memory_of_an_engine_that_died_is_not_sent_by_the_next() {
    let scene = Scene::new();
    let memory = scene.session.register(1000).unwrap();
    let path = scene.engine.die();
    let over = scene.socket.wait(Readiness::HUP, Some(fake_engine::HANG));
    assert!(over.unwrap().intersects(Readiness::HUP));
    assert!(memory.bytes().is_ok(), "the program may still have it");
    let engine = FakeEngine::start_at(path, None);
    let start = std::time::Instant::now();
    while !scene.listener.is_offloaded() {
        let slice = std::time::Duration::from_millis(100);
        let _ = scene.listener.wait(Some(slice));
        assert!(start.elapsed() < fake_engine::HANG, "never attached");
    }
    scene.listener.want();
    engine.host(|host| host.hand(1));
    let socket = scene.listener.accept_offloaded().unwrap();
    let sent = socket.send_registered(&memory, 0, 10, false);
    assert_eq!(sent, Err(Errno::STALE));
}

#[test]
fn an_acknowledgement_is_told_once_it_covers_what_was_asked_for() {
    let scene = Scene::new();
    let set = scene.session.ready_set();
    let wanted = Readiness::ACKED | Readiness::EDGE;
    set.add(&scene.socket, 1, wanted, 1).unwrap();
    scene.socket.send(&[1; 1000], false).unwrap();
    scene.sent();
    assert_eq!(scene.socket.written(), 1000);
    scene.socket.tell_when_acknowledged(Some(600));
    let told = || set.collect(8, |event| assert!(event.readiness.intersects(wanted)));
    scene.acknowledge(599);
    assert_eq!((told(), scene.socket.acknowledged()), (0, 599));
    scene.acknowledge(600);
    assert_eq!(told(), 1);
    // What is so already is told at once.
    scene.socket.tell_when_acknowledged(None);
    scene.socket.tell_when_acknowledged(Some(10));
    assert_eq!(told(), 1);
    scene.socket.tell_when_acknowledged(Some(1000));
    assert_eq!(told(), 0);
}

#[test]
fn views_show_what_arrived_where_it_is_and_come_back_in_any_order() {
    let scene = Scene::new();
    assert_eq!(scene.socket.view(10).err(), Some(Errno::AGAIN));
    scene.deliver(b"first ");
    let first = scene.socket.view(1000).unwrap().unwrap();
    assert_eq!(read(&first), b"first ");
    assert_eq!(scene.socket.view(10).err(), Some(Errno::AGAIN));
    assert!(!scene.socket.readiness().intersects(Readiness::IN));
    scene.deliver(b"second");
    assert!(scene.socket.readiness().intersects(Readiness::IN));
    let second = scene.socket.view(3).unwrap().unwrap();
    assert_eq!((read(&second), second.len()), (b"sec".to_vec(), 3));
    let mut out = [0; 8];
    assert_eq!(scene.socket.recv(&mut out), Err(Errno::BUSY));
    assert_eq!(
        scene.socket.discard(8, PendingError::Take),
        Err(Errno::BUSY)
    );
    scene.consumed();
    scene.socket.release(second).unwrap();
    scene.socket.send(b"x", false).unwrap();
    assert_eq!(scene.consumed(), Some(0));
    scene.socket.release(first).unwrap();
    scene.socket.send(b"x", false).unwrap();
    assert_eq!(scene.consumed(), Some(9));
    // What was not lent is still to be had by copying.
    assert_eq!(scene.socket.recv(&mut out), Ok(3));
    assert_eq!(&out[..3], b"ond");
}

#[test]
fn a_view_of_the_end_is_none_and_another_connections_is_refused() {
    let scene = Scene::new();
    scene.deliver(b"last");
    scene.engine.host(|host| host.peer_closes(scene.conn));
    scene.session.pump();
    let view = scene.socket.view(10).unwrap().unwrap();
    assert!(scene.socket.view(10).unwrap().is_none());
    let (_, other) = scene.another();
    assert_eq!(other.release(view).err(), Some(Errno::INVAL));
}

fn bytes_of(memory: &host::Registered, from: usize, len: usize) -> Vec<u8> {
    let bytes = memory.bytes().unwrap();
    bytes[from..from + len]
        .iter()
        .map(|byte| byte.load(Ordering::Relaxed))
        .collect()
}

fn taken(socket: &Socket, unit: u32) -> Vec<(u64, u32, bool, Option<Errno>)> {
    let mut told = Vec::new();
    socket.take_placed(unit, |placed| {
        told.push((placed.key, placed.filled, placed.is_back, placed.error));
    });
    told
}

impl Scene {
    /// Where the engine was asked to place what comes: address, length, and where in the stream.
    fn posted(&self) -> Vec<(u64, u32, u64)> {
        let submissions = self.engine.host(|host| host.submissions());
        let post = |one: &Submission| match one {
            Submission::Post {
                addr, len, from, ..
            } => Some((*addr, *len, *from)),
            _ => None,
        };
        submissions.iter().filter_map(post).collect()
    }

    /// Places bytes as the engine does that was asked.
    fn place(&self, addr: u64, bytes: &[u8]) {
        self.engine.host(|host| {
            host.side.send.copy_in(addr, bytes).unwrap();
            self.say_placed(host, addr, bytes.len() as u32);
        });
        self.session.pump();
    }

    fn say_placed(&self, host: &mut fake_engine::Attached, addr: u64, len: u32) {
        host.post(queue_pair::Completion::Placed {
            conn: self.conn,
            addr,
            len,
            acked: 0,
            peer_closed: false,
        });
    }
}

#[test]
fn what_comes_is_placed_in_buffers_and_what_had_come_is_copied() {
    let scene = Scene::new();
    let memory = scene.session.register(100_000).unwrap();
    // Known here, on its way, and not yet come.
    scene.deliver(b"known ");
    scene
        .engine
        .host(|host| host.deliver(scene.conn, b"coming "));
    scene.socket.post(&memory, 1000, 20, 1).unwrap();
    scene.socket.post(&memory, 5000, 10, 2).unwrap();
    assert_eq!(scene.socket.recv(&mut [0; 4]), Err(Errno::BUSY));
    assert_eq!(
        scene.socket.discard(4, PendingError::Take),
        Err(Errno::BUSY)
    );
    assert!(matches!(scene.socket.view(4), Err(Errno::BUSY)));
    let posted = scene.posted();
    let base = posted[0].0;
    assert_eq!(posted, [(base, 20, 0), (base + 4000, 10, 20)]);
    assert_eq!(taken(&scene.socket, 0), [(1, 13, false, None)]);
    assert_eq!(taken(&scene.socket, 0), []);
    scene.place(base + 13, b"placed!");
    assert!(scene.socket.readiness().intersects(Readiness::IN));
    // What the engine could not place comes otherwise.
    scene.deliver(b"again");
    assert_eq!(
        taken(&scene.socket, 5),
        [(1, 20, true, None), (2, 5, false, None)]
    );
    assert_eq!(bytes_of(&memory, 1000, 20), b"known coming placed!");
    scene.deliver(b"more than fits");
    assert_eq!(taken(&scene.socket, 0), [(2, 10, true, None)]);
    assert_eq!(bytes_of(&memory, 5000, 10), b"againmore ");
    let mut rest = [0; 20];
    assert_eq!(scene.socket.recv(&mut rest), Ok(9));
    assert_eq!(rest[..9], *b"than fits");
    assert_eq!(scene.consumed(), None, "it is said before anybody sleeps");
    assert!(memory.unregister().is_ok());
}

#[test]
fn buffers_come_back_at_the_end_and_their_memory_when_the_engine_has_let_go() {
    let scene = Scene::new();
    let memory = scene.session.register(1000).unwrap();
    assert_eq!(scene.socket.post(&memory, 0, 0, 1), Err(Errno::INVAL));
    assert_eq!(scene.socket.post(&memory, 999, 2, 1), Err(Errno::INVAL));
    assert_eq!(
        scene.socket.post(&memory, usize::MAX, 2, 1),
        Err(Errno::INVAL)
    );
    for key in 0..64 {
        scene.socket.post(&memory, 0, 10, key).unwrap();
    }
    assert_eq!(scene.socket.post(&memory, 0, 10, 64), Err(Errno::NOBUFS));
    scene.deliver(b"some");
    let Err((memory, Errno::BUSY)) = memory.unregister() else {
        panic!("given back while the engine may write there");
    };
    scene.engine.host(|host| host.peer_closes(scene.conn));
    let told = taken(&scene.socket, 0);
    assert_eq!(told.len(), 64);
    assert_eq!(told[0], (0, 4, true, None));
    assert!(told[1..].iter().all(|one| (one.1, one.2) == (0, true)));
    assert_eq!(scene.socket.recv(&mut [0; 4]), Ok(0));
    // After the end one comes back at once.
    scene.socket.post(&memory, 0, 10, 70).unwrap();
    assert_eq!(taken(&scene.socket, 0), [(70, 0, true, None)]);

    let (conn, socket) = scene.another();
    socket.post(&memory, 0, 10, 71).unwrap();
    drop(socket);
    let Err((memory, Errno::BUSY)) = memory.unregister() else {
        panic!("given back before the engine has released the connection");
    };
    scene
        .engine
        .host(|host| host.post(queue_pair::Completion::Released { conn }));
    scene.session.pump();
    assert!(memory.unregister().is_ok());
}

#[test]
fn a_connection_that_fails_says_so_to_its_buffers() {
    let scene = Scene::new();
    let memory = scene.session.register(1000).unwrap();
    scene.socket.post(&memory, 0, 10, 1).unwrap();
    scene.engine.host(|host| {
        host.post(queue_pair::Completion::Failed {
            conn: scene.conn,
            errno: Errno::TIMEDOUT.raw_os_error() as u16,
        });
    });
    let failed = Some(Errno::TIMEDOUT);
    assert_eq!(taken(&scene.socket, 0), [(1, 0, true, failed)]);
}

#[test]
fn an_engine_that_places_elsewhere_is_left() {
    let lies: [fn(u64) -> (u64, u32); 5] = [
        |base| (base + 1, 3),
        |base| (base, 11),
        |_| (u64::MAX, 1),
        |_| (0, u32::MAX),
        |base| (base + 10, 1),
    ];
    for lie in lies {
        let scene = Scene::new();
        let memory = scene.session.register(1000).unwrap();
        scene.socket.post(&memory, 7, 10, 1).unwrap();
        let (addr, len) = lie(scene.posted()[0].0);
        scene.engine.host(|host| scene.say_placed(host, addr, len));
        scene.session.pump();
        assert_eq!(scene.socket.take_error(), Some(Errno::CONNRESET));
    }
    // And one that was asked for nothing.
    let scene = Scene::new();
    scene.engine.host(|host| scene.say_placed(host, 0, 1));
    scene.session.pump();
    assert_eq!(scene.socket.take_error(), Some(Errno::CONNRESET));
}

#[test]
fn buffers_of_a_connection_that_another_process_reads_come_back() {
    let scene = Scene::new();
    let memory = scene.session.register(1000).unwrap();
    scene.socket.post(&memory, 0, 10, 1).unwrap();
    let base = scene.posted()[0].0;
    scene.place(base, b"abc");
    scene
        .engine
        .host(|host| assert_eq!(host.revoke(scene.conn), 3));
    // It was on its way.
    scene.place(base + 3, b"def");
    let stale = Some(Errno::STALE);
    assert_eq!(taken(&scene.socket, 0), [(1, 3, true, stale)]);
    assert_eq!(scene.socket.post(&memory, 0, 10, 2), Err(Errno::STALE));
}
