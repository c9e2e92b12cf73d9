//! TCP Fast Open of connections that a program opens: what an engine is asked for, and what is waited for.

mod fake_engine;

use std::time::{Duration, Instant};

use fake_engine::{FakeEngine, HANG, is_readable};
use host::{ConnectOptions, Errno, FastOpen, Poller, Readiness, Session, Socket, Source};
use queue_pair::{CONNECT_BLOCK_LEN, Completion, ConnRef, ConnectBlock, Submission, Versions};

/// A program that opens a connection, and its engine.
struct World {
    engine: FakeEngine,
    session: Session,
    socket: Socket,
    /// Of the request to open it.
    token: u64,
    /// What the engine is asked for.
    asked: FastOpen,
}

/// A program that wants this of an engine of that version.
fn connecting(version: u32, fast_open: FastOpen) -> World {
    let engine = FakeEngine::start();
    {
        let mut inner = engine.lock();
        (inner.version, inner.local) = (Some(version), true);
    }
    let session = engine.attach();
    let mut options = ConnectOptions::default();
    options.fast_open = fast_open;
    let remote = "127.0.0.1:7".parse().unwrap();
    let socket = session.connect(remote, options).unwrap();
    let (token, asked) = engine.host(|host| {
        let submissions = host.side_submissions();
        let [Submission::Connect { token, addr }] = submissions[..] else {
            panic!("{submissions:?}");
        };
        let mut bytes = [0; CONNECT_BLOCK_LEN];
        host.side.send.copy_out(addr, &mut bytes).unwrap();
        (token, ConnectBlock::decode(&bytes).unwrap().fast_open)
    });
    World {
        engine,
        session,
        socket,
        token,
        asked,
    }
}

#[test]
fn an_engine_is_asked_only_for_what_its_version_has() {
    use FastOpen::{Ask, Hold, No};
    let newest = Versions::SPOKEN.newest;
    for (version, expected) in [
        (6, [No, No, No]),
        (7, [No, Hold, No]),
        (8, [No, Hold, No]),
        (9, [No, Hold, Ask]),
        (newest, [No, Hold, Ask]),
    ] {
        let asked = [No, Hold, Ask].map(|wanted| connecting(version, wanted).asked);
        assert_eq!(asked, expected, "version {version}");
    }
}

#[test]
fn only_a_syn_that_may_wait_has_an_answer_that_is_waited_for() {
    let newest = Versions::SPOKEN.newest;
    for (version, fast_open) in [
        (newest, FastOpen::No),
        (newest, FastOpen::Ask),
        (6, FastOpen::Hold),
        (8, FastOpen::Ask),
    ] {
        let world = connecting(version, fast_open);
        let begin = Instant::now();
        assert!(!world.socket.await_syn(HANG));
        assert!(begin.elapsed() < HANG, "{version} {fast_open:?}");
    }
    let World { socket, .. } = &connecting(newest, FastOpen::Hold);
    assert!(!socket.await_syn(Duration::from_millis(1)));
    let (World { socket, .. }, _) = &holding(newest);
    assert!(socket.holds_syn());
}

/// A socket of an engine of that version, whose SYN waits for data.
fn holding(version: u32) -> (World, ConnRef) {
    let world = connecting(version, FastOpen::Hold);
    let conn = ConnRef {
        index: 1,
        generation: 1,
    };
    let token = world.token;
    world.engine.host(|host| {
        host.know(conn);
        host.post(Completion::Syn {
            token,
            conn,
            room: 100,
        });
    });
    assert!(world.socket.await_syn(HANG));
    (world, conn)
}

#[test]
fn a_syn_that_waits_is_let_go_once() {
    let (world, conn) = holding(9);
    assert!(world.socket.let_syn_go());
    assert!(!world.socket.holds_syn() && !world.socket.let_syn_go());
    assert_eq!(world.socket.send(b"later", false), Err(Errno::AGAIN));
    assert!(!world.socket.readiness().intersects(Readiness::OUT));
    let submissions = world.engine.host(|host| host.side_submissions());
    assert_eq!(submissions, [Submission::LetSynGo { conn }]);
}

#[test]
fn an_engine_that_cannot_let_a_syn_go_is_not_asked() {
    let (world, conn) = holding(8);
    assert!(!world.socket.let_syn_go());
    // It still leaves with data.
    assert!(world.socket.holds_syn());
    assert_eq!(world.socket.send(b"with it", false), Ok(7));
    let submissions = world.engine.host(|host| host.side_submissions());
    let [
        Submission::Send {
            conn: sent, len: 7, ..
        },
    ] = submissions[..]
    else {
        panic!("{submissions:?}");
    };
    assert_eq!(sent, conn);
}

/// A connection has its name before it is open, and is given it once more then. What was said of it before, that
/// nobody waits for room, is said again.
#[test]
fn one_that_is_open_wakes_nobody_for_room_that_nobody_waits_for() {
    let (world, conn) = holding(Versions::SPOKEN.newest);
    world.engine.host(|host| {
        host.post(Completion::Opened {
            token: world.token,
            conn,
            grant: fake_engine::GRANT,
            local: fake_engine::LOCAL.parse().unwrap(),
        });
    });
    let mut poller = Poller::new(&world.session).unwrap();
    let everything = Readiness::IN | Readiness::OUT | Readiness::EDGE;
    poller
        .add(Source::Socket(&world.socket), 1, everything)
        .unwrap();
    let mut events = Vec::new();
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert_eq!(world.socket.send(b"some", false), Ok(4));
    world.engine.host(|host| host.submissions());
    assert_ne!(poller.arm().unwrap(), Some(Duration::ZERO));
    world.engine.host(|host| host.acknowledge(conn, 4));
    assert!(!is_readable(poller.fd()));
    poller.disarm();
}
