//! A program that asks and asks reads what the engine says now and then.

mod fake_engine;

use fake_engine::FakeEngine;
use host::{Listener, OptionKind, Session, Socket};
use queue_pair::{ConnRef, Sizes, Submission};

const RING: u32 = 64;
/// More than two rings full.
const SOCKETS: u32 = 150;
/// That nobody accepts: more than is read in one go.
const HANDED: u32 = 40;

/// An engine with small rings, a socket of its own, whose connection is named, and those that are closed.
struct Scene {
    sockets: Vec<(ConnRef, Socket)>,
    closed: Vec<ConnRef>,
    conn: ConnRef,
    _kept: Socket,
    listener: Option<Listener>,
    session: Session,
    engine: FakeEngine,
}

impl Scene {
    fn new() -> Self {
        let engine = FakeEngine::start_with(Some(Sizes {
            submission_entries: RING,
            completion_entries: RING,
            ..Sizes::default()
        }));
        let (session, listener) = engine.listening();
        let (conn, _kept) = engine.connection(&listener);
        let sockets = (0..SOCKETS).map(|_| engine.connection(&listener));
        let sockets: Vec<_> = sockets.collect();
        session.pump();
        engine.host(|host| host.submissions());
        Self {
            sockets,
            closed: Vec::new(),
            conn,
            _kept,
            listener: Some(listener),
            session,
            engine,
        }
    }

    /// How many were closed, as the engine has heard by now.
    fn closed(&mut self) -> u32 {
        let taken = self.engine.host(|host| host.submissions());
        self.closed
            .extend(taken.into_iter().filter_map(|it| match it {
                Submission::Close { conn, .. } | Submission::GiveBack { conn } => Some(conn),
                _ => None,
            }));
        self.closed.len() as u32
    }

    /// Closes so many, and the engine has said so many things meanwhile that nobody has read.
    fn close_unread(&mut self, count: u32, unread: u32) -> Vec<ConnRef> {
        let conn = self.conn;
        for _ in 0..unread {
            self.engine.host(|host| host.deliver(conn, b"x"));
        }
        let mut names = Vec::new();
        for (name, socket) in self.sockets.drain(..count as usize).collect::<Vec<_>>() {
            drop(socket);
            names.push(name);
            self.closed();
        }
        names
    }

    /// Closes a ring full, and then the listener, which gives back what it was handed and reads nothing.
    fn ask_too_much(&mut self, unread: u32) -> Vec<ConnRef> {
        let hand = |_| {
            let conn = self.engine.host(|host| host.hand(1));
            self.session.pump();
            conn
        };
        let handed: Vec<_> = (0..HANDED).map(hand).collect();
        self.engine.host(|host| host.submissions());
        let mut names = self.close_unread(RING, unread);
        self.listener = None;
        names.extend(handed);
        names
    }
}

#[test]
fn who_reads_nothing_asks_a_ring_full_and_no_more() {
    let mut scene = Scene::new();
    let names = scene.ask_too_much(1);
    assert_eq!(scene.closed(), RING);
    while scene.closed() < RING + HANDED {
        let before = scene.closed();
        scene.session.pump();
        assert!(scene.closed() > before, "{before} of {HANDED} more");
    }
    assert_eq!(scene.closed, names, "in their order");
}

#[test]
fn who_closes_one_after_the_other_reads_meanwhile() {
    for unread in [1, RING - 1] {
        let mut scene = Scene::new();
        let names = scene.close_unread(SOCKETS, unread);
        assert_eq!(scene.closed(), SOCKETS, "nobody else pumps");
        assert_eq!(scene.closed, names, "in their order");
    }
}

#[test]
fn where_nothing_waits_to_be_read_there_is_no_such_bound() {
    let mut scene = Scene::new();
    scene.close_unread(SOCKETS, 0);
    assert_eq!(scene.closed(), SOCKETS);
}

#[test]
fn what_is_not_answered_is_submitted_all_the_same() {
    let mut scene = Scene::new();
    let (_, last) = scene.sockets.pop().expect("the last");
    scene.ask_too_much(1);
    // Behind what waits, it waits, too; before that it does not.
    assert_eq!(scene.closed(), RING);
    for value in 1..=SOCKETS {
        last.set_option(OptionKind::KeepIdle, value).unwrap();
    }
    assert!(scene.engine.host(|host| host.submissions()).is_empty());
    let mut scene = Scene::new();
    let (conn, last) = scene.sockets.pop().expect("the last");
    scene.engine.host(|host| host.deliver(conn, b"unread"));
    for value in 1..=SOCKETS {
        last.set_option(OptionKind::KeepIdle, value).unwrap();
        assert_eq!(scene.engine.host(|host| host.submissions().len()), 1);
    }
}

#[test]
fn who_has_read_a_part_asks_as_much_more() {
    // What is read in one go.
    const PART: u32 = RING / 2;
    let mut scene = Scene::new();
    scene.ask_too_much(PART + 8);
    assert_eq!(scene.closed(), RING);
    scene.session.pump();
    assert_eq!(scene.closed(), RING + PART, "the rest is unread");
    scene.session.pump();
    assert!(scene.closed() > RING + PART);
}
