//! A session that goes through a fork. One process plays both: what matters is that nothing of the
//! parent's region is used in the child.

mod fake_engine;

use fake_engine::{Attached, FakeEngine, GRANT};
use host::{Listener, OptionKind, PendingError, Readiness, Session, Shutdown, Socket};
use queue_pair::control::{Farewell, Request};
use queue_pair::{Completion, ConnRef, Submission};
use rustix::io::Errno;

/// A session with a connection that it has accepted.
struct Scene {
    engine: FakeEngine,
    session: Session,
    listener: Listener,
    socket: Socket,
    conn: ConnRef,
}

fn gives_credit(one: &Submission) -> bool {
    matches!(one, Submission::Credit { .. })
}

impl Scene {
    fn new() -> Self {
        let engine = FakeEngine::start();
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

    /// What the engine does towards the process as it was first, or, after a fork, the child.
    fn at<R>(&self, which: usize, act: impl FnOnce(&mut Attached) -> R) -> R {
        act(&mut self.engine.lock().attached[which])
    }

    fn fork(&self) {
        let token = self.session.before_fork();
        self.session.after_fork_child(token);
    }

    fn recv(&self) -> Result<Vec<u8>, Errno> {
        let mut out = [0; 100];
        let read = self.socket.recv(&mut out)?;
        Ok(out[..read].to_vec())
    }

    fn attachments(&self) -> usize {
        self.engine.lock().attached.len()
    }

    /// The engine answers the next request to read with a grant and bytes.
    fn grant(&self, which: usize, at: u64, bytes: &[u8], alone_since: Option<u32>) {
        let conn = self.conn;
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| {
                // The bytes come after the grant, in a completion of their own.
                loop {
                    match self.recv() {
                        Err(Errno::AGAIN) => std::thread::yield_now(),
                        other => return other,
                    }
                }
            });
            self.await_submission(which, |one| *one == Submission::Acquire { conn });
            self.at(which, |host| {
                host.begin_grant(conn, GRANT + 1, at);
                host.post(Completion::Granted {
                    conn,
                    grant: GRANT + 1,
                    consumed: at,
                    alone_since,
                });
                host.deliver(conn, bytes);
            });
            assert_eq!(reads.join().unwrap().as_deref(), Ok(bytes));
        });
    }

    fn await_submission(&self, which: usize, wanted: impl Fn(&Submission) -> bool) {
        let start = std::time::Instant::now();
        while !self.at(which, |host| host.submissions().iter().any(&wanted)) {
            assert!(start.elapsed() < fake_engine::HANG, "it never came");
            std::thread::yield_now();
        }
    }
}

fn elsewhere(conn: ConnRef, unread: u32, received: u64) -> Completion {
    Completion::Elsewhere {
        conn,
        unread,
        received,
        acked: 0,
        peer_closed: false,
    }
}

#[test]
fn a_child_attaches_at_its_first_touch_and_reads_what_it_asks_for() {
    let scene = Scene::new();
    let conn = scene.conn;
    scene.at(0, |parent| {
        parent.deliver(conn, b"the parent may read this")
    });
    scene.session.pump();
    scene.fork();
    assert_eq!(scene.attachments(), 1, "nothing is touched yet");
    // Looking is a touch: whoever waits is told what waits.
    scene.session.pump();
    assert_eq!(scene.attachments(), 2);
    assert!(!scene.socket.readiness().intersects(Readiness::IN));
    scene.at(1, |child| {
        child.know(conn);
        child.post(elsewhere(conn, 11, 111));
    });
    scene.session.pump();
    assert!(scene.socket.readiness().intersects(Readiness::IN));
    assert_eq!(scene.socket.available(), 11);
    scene.grant(1, 100, b"hello child", None);
    assert_eq!(scene.recv(), Err(Errno::AGAIN));
    assert_eq!(scene.at(0, |parent| parent.submissions()), []);
}

/// What came before the fork the parent was told of, with the same set as the kernel has it.
#[test]
fn what_came_before_a_fork_is_no_edge_to_a_child_that_was_told_of_it() {
    let scene = Scene::new();
    let conn = scene.conn;
    let edges = Readiness::IN | Readiness::OUT | Readiness::EDGE;
    let [told, untold, level] = [0; 3].map(|_| scene.session.ready_set());
    told.add(&scene.socket, 5, edges, 0).unwrap();
    level.add(&scene.socket, 5, Readiness::IN, 0).unwrap();
    scene.at(0, |parent| parent.deliver(conn, b"before"));
    scene.session.pump();
    assert_eq!(told.collect(9, |_| ()), 1);
    untold.add(&scene.socket, 5, edges, 0).unwrap();
    scene.fork();
    scene.session.pump();
    // Whatever else they report until the engine has said what there is.
    untold.collect(9, |event| assert_eq!(event.readiness, Readiness::OUT));
    level.collect(9, |_| panic!("nothing is known to be there"));
    scene.at(1, |child| {
        child.know(conn);
        child.post(elsewhere(conn, 6, 6));
    });
    scene.session.pump();
    let both = Readiness::IN | Readiness::OUT;
    told.collect(9, |_| panic!("an edge that was reported"));
    assert_eq!(
        untold.collect(9, |event| assert_eq!(event.readiness, both)),
        1
    );
    assert_eq!(level.collect(9, |_| ()), 1);
    // Nor is it one when the child becomes the reader, as of a parent that ends. What follows is.
    scene.at(1, |child| {
        child.post(Completion::Granted {
            conn,
            grant: GRANT,
            consumed: 0,
            alone_since: None,
        });
        child.deliver(conn, b"before");
    });
    scene.session.pump();
    told.collect(9, |_| panic!("an edge that was reported"));
    scene.at(1, |child| child.deliver(conn, b"!"));
    scene.session.pump();
    assert_eq!(told.collect(9, |_| ()), 1);
}

#[test]
fn what_a_child_knows_of_its_sockets_it_needs_no_engine_for() {
    let scene = Scene::new();
    let socket = &scene.socket;
    socket.set_option(OptionKind::Linger, 5).unwrap();
    assert_eq!(socket.send(b"the parent's, and on its way", false), Ok(28));
    assert!(!socket.is_drained());
    let names = (socket.local(), socket.peer());
    assert!(!scene.session.is_heir());
    scene.fork();
    assert!(scene.session.is_heir());
    assert_eq!((socket.local(), socket.peer()), names);
    assert!(socket.is_connected());
    assert_eq!(socket.option(OptionKind::Linger), Some(5));
    assert_eq!((socket.receive_low(), socket.readable_from()), (1, 1));
    assert!(socket.send_buffer() > 0);
    assert!(socket.is_drained(), "by this process nothing was sent");
    assert_eq!(scene.attachments(), 1);
    assert_eq!(scene.recv(), Err(Errno::AGAIN));
    assert_eq!(scene.attachments(), 2);
    assert!(!scene.session.is_heir());
}

/// A child that serves one connection, as that of a forking server does, must not be offered others: they
/// would lie there until they are taken back.
#[test]
fn a_child_wants_connections_when_it_waits_for_them_itself() {
    let scene = Scene::new();
    let set = scene.session.ready_set();
    let wanted = Readiness::IN;
    set.add(&scene.listener, 3, wanted, 3).unwrap();
    let other = scene.session.ready_set();
    scene.fork();
    scene.session.pump();
    assert_eq!(scene.attachments(), 2);
    scene.session.waits_in(&other);
    let said = scene.at(1, |child| child.submissions());
    assert!(!said.iter().any(gives_credit), "{said:?}");
    // It waits in a set that its parent has made.
    scene.session.waits_in(&set);
    let said = scene.at(1, |child| child.submissions());
    assert!(said.iter().any(gives_credit), "{said:?}");
}

#[test]
fn a_child_that_accepts_wants_connections() {
    let scene = Scene::new();
    scene.fork();
    assert!(matches!(
        scene.listener.accept_offloaded(),
        Err(Errno::AGAIN)
    ));
    let said = scene.at(1, |child| child.submissions());
    assert!(said.iter().any(gives_credit), "{said:?}");
}

#[test]
fn what_is_written_after_a_fork_says_when() {
    let scene = Scene::new();
    let conn = scene.conn;
    drop(scene.session.before_fork());
    for text in [b"one", b"two"] {
        scene.socket.send(text, false).unwrap();
    }
    scene.socket.shutdown(Shutdown::Write).unwrap();
    let times: Vec<_> = scene
        .at(0, |host| host.submissions())
        .iter()
        .map(|one| one.time().expect("a time"))
        .collect();
    assert_eq!(times.len(), 3);
    assert!(times.is_sorted());
    assert_eq!(scene.at(0, |host| host.sent(conn)), b"onetwo");
}

#[test]
fn who_is_alone_again_says_no_times() {
    for (alone_since, timed) in [(Some(1), false), (Some(0), true), (None, true)] {
        let scene = Scene::new();
        let conn = scene.conn;
        drop(scene.session.before_fork());
        scene.at(0, |host| {
            host.begin_grant(conn, GRANT + 1, 0);
            host.post(Completion::Granted {
                conn,
                grant: GRANT + 1,
                consumed: 0,
                alone_since,
            });
        });
        scene.session.pump();
        scene.socket.send(b"x", false).unwrap();
        let sent = scene.at(0, |host| host.submissions());
        assert_eq!(sent[0].time().is_some(), timed, "{alone_since:?}");
    }
}

#[test]
fn what_another_process_reads_is_not_read_here() {
    let scene = Scene::new();
    let conn = scene.conn;
    drop(scene.session.before_fork());
    scene.at(0, |host| host.deliver(conn, b"0123456789"));
    let mut out = [0; 4];
    assert_eq!(scene.socket.recv(&mut out), Ok(4));
    // Others hear at once how far it has come.
    let consumed = Submission::Consumed { conn, total: 4 };
    assert_eq!(scene.at(0, |host| host.submissions()), [consumed]);
    // The engine gives the rest to another process, without asking this one.
    assert_eq!(scene.at(0, |host| host.revoke(conn)), 4);
    scene.at(0, |host| host.post(elsewhere(conn, 3, 10)));
    scene.grant(0, 7, b"789", None);
    assert_eq!(scene.recv(), Err(Errno::AGAIN));
    // Without a word of it: the position alone tells.
    scene.at(0, |host| host.deliver(conn, b"abc"));
    scene.session.pump();
    assert_eq!(scene.at(0, |host| host.revoke(conn)), 10);
    scene.grant(0, 10, b"ab", None);
}

/// The connection is reset, and the engine says whether this process is to report it when it asks.
fn reset_reported(yours: bool, call: impl FnOnce(&Socket) -> Result<usize, Errno> + Send) -> Scene {
    let scene = Scene::new();
    let conn = scene.conn;
    drop(scene.session.before_fork());
    let errno = Errno::CONNRESET.raw_os_error() as u16;
    scene.at(0, |host| host.post(Completion::Failed { conn, errno }));
    scene.session.pump();
    assert!(scene.socket.readiness().intersects(Readiness::ERR));
    let over = std::thread::scope(|scope| {
        let calls = scope.spawn(|| call(&scene.socket));
        scene.await_submission(0, |one| *one == Submission::TakeError { conn });
        scene.at(0, |host| host.post(Completion::ErrorTaken { conn, yours }));
        calls.join().unwrap()
    });
    assert_eq!(over == Err(Errno::CONNRESET), yours);
    assert!(!scene.socket.readiness().intersects(Readiness::ERR));
    assert_eq!(scene.at(0, |host| host.submissions()), [], "it asks once");
    scene
}

#[test]
fn an_error_is_reported_by_the_process_of_which_the_engine_says_so() {
    for yours in [true, false] {
        reset_reported(yours, |socket| socket.recv(&mut [0; 9]));
        reset_reported(yours, |socket| socket.discard(9, PendingError::Take));
        reset_reported(yours, |socket| socket.view(9).map(|_| 0));
        let scene = reset_reported(yours, |socket| socket.send(b"x", false));
        assert_eq!(scene.recv().as_deref(), Ok(&b""[..]), "and never again");
        let scene = reset_reported(yours, |socket| socket.take_error().map_or(Ok(0), Err));
        assert_eq!(scene.socket.send(b"x", false), Err(Errno::PIPE));
        assert_eq!(scene.socket.take_error(), None);
    }
}

#[test]
fn who_leaves_an_error_to_the_next_call_does_not_ask_whose_it_is() {
    let scene = Scene::new();
    let conn = scene.conn;
    drop(scene.session.before_fork());
    let errno = Errno::CONNRESET.raw_os_error() as u16;
    scene.at(0, |host| host.post(Completion::Failed { conn, errno }));
    scene.session.pump();
    scene.at(0, |host| host.submissions());
    let over = Err(Errno::CONNRESET);
    assert_eq!(scene.socket.discard(9, PendingError::Keep), over);
    let part = [std::io::IoSlice::new(b"x")];
    assert_eq!(scene.socket.sendv(&part, false, PendingError::Keep), over);
    assert_eq!(scene.at(0, |host| host.submissions()), []);
}

#[test]
fn what_any_process_says_of_waiting_holds_until_another_does() {
    let scene = Scene::new();
    let conn = scene.conn;
    assert_eq!(scene.socket.is_nonblocking(), None);
    scene.socket.tell_nonblocking(true);
    assert_eq!(scene.at(0, |host| host.submissions()), [], "it is alone");
    drop(scene.session.before_fork());
    for on in [false, true, false] {
        scene.at(0, |host| host.post(Completion::NonBlocking { conn, on }));
        assert_eq!(scene.socket.is_nonblocking(), Some(!on));
        assert_eq!(scene.recv(), Err(Errno::AGAIN));
        // As often as anybody asks: several sockets of a process may stand for it.
        assert_eq!(scene.socket.is_nonblocking(), Some(on));
        assert_eq!(scene.socket.is_nonblocking(), Some(on));
    }
    // What this process says later is what holds.
    scene.at(0, |host| {
        host.post(Completion::NonBlocking { conn, on: false });
    });
    scene.socket.tell_nonblocking(true);
    let told = Submission::NonBlocking { conn, on: true };
    assert_eq!(scene.at(0, |host| host.submissions()), [told]);
    assert_eq!(scene.socket.is_nonblocking(), Some(true));
}

#[test]
fn an_error_that_another_process_has_reported_is_none() {
    for told_before in [true, false] {
        let scene = Scene::new();
        let conn = scene.conn;
        drop(scene.session.before_fork());
        let errno = Errno::CONNRESET.raw_os_error() as u16;
        let mut said = [
            Completion::Failed { conn, errno },
            Completion::ErrorTaken { conn, yours: false },
        ];
        if told_before {
            said.reverse();
        }
        for completion in said {
            scene.at(0, |host| host.post(completion));
        }
        assert_eq!(scene.recv().as_deref(), Ok(&b""[..]));
        assert!(!scene.socket.readiness().intersects(Readiness::ERR));
        assert_eq!(scene.socket.send(b"x", false), Err(Errno::PIPE));
        assert_eq!(scene.at(0, |host| host.submissions()), []);
    }
}

#[test]
fn an_engine_that_goes_before_it_says_whose_an_error_is_holds_nobody_up() {
    let scene = Scene::new();
    let conn = scene.conn;
    drop(scene.session.before_fork());
    let errno = Errno::CONNRESET.raw_os_error() as u16;
    scene.at(0, |host| host.post(Completion::Failed { conn, errno }));
    let Scene {
        engine,
        session: _session,
        socket,
        ..
    } = scene;
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| socket.recv(&mut [0; 9]));
        let start = std::time::Instant::now();
        let asked = |host: &mut Attached| host.submissions();
        let take = Submission::TakeError { conn };
        while !asked(&mut engine.lock().attached[0]).contains(&take) {
            assert!(start.elapsed() < fake_engine::HANG, "it never asked");
            std::thread::yield_now();
        }
        engine.die();
        assert_eq!(reads.join().unwrap(), Err(Errno::CONNRESET));
    });
}

#[test]
fn peeking_looks_at_nothing_that_is_anothers() {
    let scene = Scene::new();
    let conn = scene.conn;
    drop(scene.session.before_fork());
    scene.at(0, |host| host.deliver(conn, b"0123456789"));
    let mut out = [0; 4];
    let peek = |out: &mut [u8; 4]| {
        scene.socket.peekv(
            &mut [std::io::IoSliceMut::new(&mut out[..])],
            PendingError::Take,
        )
    };
    assert_eq!(peek(&mut out), Ok(4));
    assert_eq!(
        scene.at(0, |host| host.revoke(conn)),
        0,
        "it has read nothing"
    );
    scene.at(0, |host| host.post(elsewhere(conn, 0, 10)));
    assert_eq!(peek(&mut out), Err(Errno::AGAIN));
}

#[test]
fn an_engine_without_memory_for_it_is_no_end() {
    let scene = Scene::new();
    let conn = scene.conn;
    scene.at(0, |host| host.revoke(conn));
    scene.at(0, |host| host.post(elsewhere(conn, 5, 5)));
    scene.session.pump();
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| scene.recv());
        scene.await_submission(0, |one| *one == Submission::Acquire { conn });
        let errno = Errno::AGAIN.raw_os_error() as u16;
        scene.at(0, |host| host.post(Completion::NotGranted { conn, errno }));
        assert_eq!(reads.join().unwrap(), Err(Errno::AGAIN));
    });
    scene.grant(0, 0, b"hello", None);
}

#[test]
fn a_child_that_closes_without_attaching_says_so() {
    let scene = Scene::new();
    scene.fork();
    let Scene {
        engine,
        session,
        listener: _listener,
        socket,
        conn,
    } = scene;
    drop(socket);
    let local = _listener.local();
    drop(_listener);
    // Nothing keeps the kernel's socket open: the port is free.
    std::net::TcpListener::bind(local).unwrap();
    let inner = engine.lock();
    assert_eq!(inner.attached.len(), 1);
    let mut heard = Vec::new();
    let mut message = [0; Farewell::LEN];
    let flags = rustix::net::RecvFlags::DONTWAIT;
    while let Ok((count, _)) = rustix::net::recv(&inner.lifelines[0], &mut message[..], flags) {
        heard.extend(Farewell::decode(&message[..count]));
    }
    assert_eq!(heard, [Farewell::Connection(conn), Farewell::Listener(1)]);
    drop(session);
}

#[test]
fn a_child_without_an_engine_serves_by_the_kernel_and_touches_no_ring() {
    let scene = Scene::new();
    scene.at(0, |host| host.deliver(scene.conn, b"unread"));
    scene.session.pump();
    scene.fork();
    let Scene {
        engine,
        session,
        listener,
        socket,
        ..
    } = scene;
    let path = engine.die();
    // Whatever it does with what it has, it does not touch memory that is its parent's.
    listener.want();
    assert!(listener.accept_offloaded().is_err());
    assert_eq!(socket.take_error(), Some(Errno::CONNRESET));
    assert_eq!(socket.recv(&mut [0; 9]), Ok(0));
    assert_eq!(socket.send(b"x", false), Err(Errno::PIPE));
    let _ = socket.set_option(OptionKind::NoDelay, 1);
    let _client = std::net::TcpStream::connect(listener.local()).unwrap();
    listener.wait(Some(fake_engine::HANG)).unwrap();
    assert!(listener.accept().is_ok());
    drop(socket);
    // And when there is an engine again its listener is announced there.
    let engine = FakeEngine::start_at(path, None);
    let start = std::time::Instant::now();
    while !listener.is_offloaded() {
        let _ = listener.wait(Some(std::time::Duration::from_millis(50)));
        assert!(start.elapsed() < fake_engine::HANG);
    }
    let listens = |one: &Request| matches!(one, Request::Listen { .. });
    assert!(engine.lock().requests.iter().any(listens));
    drop(session);
}

#[test]
fn a_process_that_has_nothing_forks_for_nothing() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    drop(session.before_fork());
    let forks = |one: &Request| *one == Request::Fork;
    assert!(!engine.lock().requests.iter().any(forks));
    let _listener = session.listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    drop(session.before_fork());
    assert!(engine.lock().requests.iter().any(forks));
}

#[test]
fn grandchildren_inherit_what_a_child_did_not_touch() {
    let scene = Scene::new();
    scene.fork();
    assert_eq!(scene.attachments(), 1);
    scene.fork();
    assert_eq!(scene.attachments(), 2, "the child has to claim it");
    scene.session.pump();
    assert_eq!(scene.attachments(), 3);
    scene.at(2, |host| {
        host.know(scene.conn);
        host.post(elsewhere(scene.conn, 2, 2));
    });
    scene.grant(2, 0, b"ok", None);
}
