//! What a program sees on one connection, against an engine that says what the test wants.

mod fake_engine;

use std::io::{IoSlice, IoSliceMut};

use fake_engine::{FakeEngine, LOCAL, PEER};
use host::{Errno, Listener, OptionKind, PendingError, Readiness, Session, Shutdown, Socket};
use queue_pair::{Completion, ConnRef, Sizes, Submission};

/// An engine, a program, and one connection between them.
struct World {
    engine: FakeEngine,
    session: Session,
    _listener: Listener,
    socket: Socket,
    conn: ConnRef,
}

impl World {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(sizes: Option<Sizes>) -> Self {
        Self::of(FakeEngine::start_with(sizes))
    }

    fn of(engine: FakeEngine) -> Self {
        let (session, listener) = engine.listening();
        let (conn, socket) = engine.connection(&listener);
        engine.host(|host| host.submissions());
        Self {
            engine,
            session,
            _listener: listener,
            socket,
            conn,
        }
    }

    fn deliver(&self, bytes: &[u8]) {
        self.engine.host(|host| host.deliver(self.conn, bytes));
    }

    fn acknowledge(&self, acked: u64) {
        self.engine.host(|host| host.acknowledge(self.conn, acked));
        self.session.pump();
    }

    fn post(&self, completion: Completion) {
        self.engine.host(|host| host.post(completion));
        self.session.pump();
    }

    fn submissions(&self) -> Vec<Submission> {
        self.engine.host(|host| host.submissions())
    }

    fn sent(&self) -> Vec<u8> {
        self.engine.host(|host| host.sent(self.conn))
    }

    fn recv(&self) -> Result<Vec<u8>, Errno> {
        let mut out = [0; 100];
        self.socket.recv(&mut out).map(|len| out[..len].to_vec())
    }
}

#[test]
fn an_accepted_socket_knows_its_ends_and_can_be_written() {
    let world = World::new();
    assert_eq!(world.socket.peer(), PEER.parse().unwrap());
    assert_eq!(world.socket.local(), LOCAL.parse().unwrap());
    assert_eq!(world.socket.readiness(), Readiness::OUT | Readiness::WRNORM);
    assert_eq!(world.recv(), Err(Errno::AGAIN));
}

#[test]
fn a_request_is_read_and_its_consumption_rides_on_the_answer() {
    let world = World::new();
    world.deliver(b"GET / HTTP/1.1\r\n");
    world.deliver(b"\r\n");
    assert_eq!(world.recv().unwrap(), b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(world.socket.send(b"HTTP/1.1 200 OK", false), Ok(15));
    let submissions = world.submissions();
    let [
        Submission::Send {
            conn,
            len: 15,
            consumed: 18,
            more: false,
            ..
        },
    ] = submissions[..]
    else {
        panic!("{submissions:?}");
    };
    assert_eq!(conn, world.conn);
    assert_eq!(world.sent(), b"HTTP/1.1 200 OK");
}

#[test]
fn peeking_leaves_what_it_saw_and_discarding_does_not() {
    let world = World::new();
    world.deliver(b"abcdef");
    let mut out = [0; 4];
    let mut parts = [IoSliceMut::new(&mut out)];
    assert_eq!(world.socket.peekv(&mut parts, PendingError::Take), Ok(4));
    assert_eq!(&out, b"abcd");
    assert_eq!(world.socket.available(), 6);
    assert_eq!(world.socket.discard(4, PendingError::Take), Ok(4));
    assert_eq!(world.recv().unwrap(), b"ef");
}

#[test]
fn who_peeks_again_sees_what_has_come_since() {
    let world = World::new();
    let mut out = [0; 8];
    for (comes, sees) in [
        (&b"abc"[..], &b"abc"[..]),
        (b"de", b"abcde"),
        (b"", b"abcde"),
    ] {
        if !comes.is_empty() {
            world.deliver(comes);
        }
        let count = world
            .socket
            .peekv(&mut [IoSliceMut::new(&mut out)], PendingError::Take)
            .expect("something waits");
        assert_eq!(&out[..count], sees);
    }
    assert_eq!(world.recv().unwrap(), b"abcde");
}

#[test]
fn much_that_was_read_is_announced_at_once() {
    let world = World::new();
    world.deliver(&[7; 40_000]);
    let mut out = vec![0; 40_000];
    assert_eq!(world.socket.recv(&mut out), Ok(40_000));
    let conn = world.conn;
    assert_eq!(
        world.submissions(),
        [Submission::Consumed {
            conn,
            total: 40_000
        }]
    );
}

#[test]
fn small_writes_lie_side_by_side_and_are_freed_by_acknowledgement() {
    let world = World::new();
    world.socket.send(b"one ", true).unwrap();
    world.socket.send(b"two", false).unwrap();
    let submissions = world.submissions();
    let [
        Submission::Send {
            addr: first,
            more: true,
            ..
        },
        Submission::Send {
            addr: second,
            more: false,
            ..
        },
    ] = submissions[..]
    else {
        panic!("{submissions:?}");
    };
    assert_eq!(second, first + 4);
    assert_eq!(world.sent(), b"one two");
    assert_eq!(world.socket.unsent(), 7);
    world.acknowledge(7);
    assert_eq!(world.socket.unsent(), 0);
}

#[test]
fn a_full_send_buffer_refuses_and_a_third_of_it_free_invites() {
    let world = World::new();
    world.socket.set_send_buffer(30_000);
    assert_eq!(world.socket.send(&[1; 100_000], false), Ok(30_000));
    assert_eq!(world.socket.send(&[1; 1], false), Err(Errno::AGAIN));
    assert!(!world.socket.readiness().intersects(Readiness::OUT));
    world.acknowledge(9_000);
    assert!(!world.socket.readiness().intersects(Readiness::OUT));
    world.acknowledge(10_000);
    assert!(world.socket.readiness().intersects(Readiness::OUT));
    assert_eq!(world.socket.send(&[1; 100_000], false), Ok(10_000));
}

#[test]
fn a_bound_for_what_has_not_left_holds_writes_back_until_enough_has() {
    let world = World::new();
    let conn = world.conn;
    let departed = |total: usize| {
        let total = total as u64;
        world.post(Completion::Departed { conn, total });
    };
    let writable = || world.socket.readiness().intersects(Readiness::OUT);
    let set = |bytes| world.socket.set_option(OptionKind::NotSentLow, bytes);
    set(10_000).unwrap();
    // It is looked at before each piece.
    let first = world.socket.send(&[1; 200_000], false).unwrap();
    assert!((10_000..=65_536).contains(&first), "{first}");
    assert_eq!(world.socket.send(&[1; 1], false), Err(Errno::AGAIN));
    assert!(!writable());
    // Less than the bound: it may write, but is not asked to.
    departed(first - 6_000);
    assert!(!writable());
    assert_eq!(world.socket.send(&[1; 4_000], false), Ok(4_000));
    assert_eq!(world.socket.send(&[1; 1], false), Err(Errno::AGAIN));
    departed(first - 1_000);
    assert!(!writable());
    departed(first - 999);
    assert!(writable());
    // What is acknowledged has left.
    assert_eq!(world.socket.send(&[1; 9_000], false), Ok(9_000));
    assert!(!writable());
    world.acknowledge((first + 9_000) as u64);
    assert!(writable());
    // A bound that is taken back, or set later.
    assert_eq!(world.socket.send(&[1; 9_000], false), Ok(9_000));
    assert!(!writable());
    set(0).unwrap();
    assert!(writable());
    set(20_000).unwrap();
    assert!(!writable());
    let posted = world.submissions();
    let values = posted.iter().filter_map(|it| match it {
        Submission::SetOption { option, value, .. } if *option == OptionKind::NotSentLow => {
            Some(*value)
        }
        _ => None,
    });
    assert_eq!(values.collect::<Vec<_>>(), [10_000, 0, 20_000]);
}

/// Who has asked what has left hears of all of it, whatever bound he sets then.
#[test]
fn a_bound_for_what_has_not_left_takes_nothing_back_that_was_asked() {
    let world = World::new();
    let (conn, low) = (world.conn, OptionKind::NotSentLow);
    world.socket.set_option(low, 10_000).unwrap();
    world.socket.tell_when_departed(Some(1));
    for bytes in [20_000, 0] {
        world.socket.set_option(low, bytes).unwrap();
        assert_eq!(world.socket.option(low), Some(bytes));
    }
    let posted = world.submissions();
    let values = posted.iter().filter_map(|it| match it {
        Submission::SetOption { option, value, .. } if *option == low => Some(*value),
        _ => None,
    });
    assert_eq!(values.collect::<Vec<_>>(), [10_000, 1, 1, 1]);
    world.socket.set_option(low, 5_000).unwrap();
    // The bound is kept here.
    let sent = world.socket.send(&[1; 200_000], false).unwrap();
    assert!(sent > 5_000, "{sent}");
    world.post(Completion::Departed { conn, total: 100 });
    assert!(world.socket.readiness().intersects(Readiness::ACKED));
    assert!(!world.socket.readiness().intersects(Readiness::OUT));
}

#[test]
fn an_older_engine_that_does_not_say_what_has_left_holds_nobody_back() {
    let engine = FakeEngine::start();
    engine.lock().version = Some(9);
    let world = World::of(engine);
    world.socket.set_option(OptionKind::NotSentLow, 1).unwrap();
    let sent = world.socket.send(&[1; 100_000], false);
    assert_eq!(sent, Ok(100_000));
    let told = world.submissions();
    let set = |it: &Submission| matches!(it, Submission::SetOption { .. });
    assert!(!told.iter().any(set), "{told:?}");
}

#[test]
fn the_send_buffer_follows_the_path_until_the_program_fixes_it() {
    let world = World::new();
    let advise = |bytes| {
        let conn = world.conn;
        world.post(Completion::SendBuffer { conn, bytes });
        world.session.pump();
    };
    let begins_with = world.socket.send_buffer();
    assert_eq!(
        world.socket.send(&vec![1; 1 << 20], false),
        Ok(begins_with as usize)
    );
    assert!(!world.socket.readiness().intersects(Readiness::OUT));
    advise(400_000);
    assert!(world.socket.readiness().intersects(Readiness::OUT));
    assert_eq!(world.socket.send_buffer(), 400_000);
    let more = 400_000 - begins_with as usize;
    assert_eq!(world.socket.send(&vec![1; 1 << 20], false), Ok(more));
    // The window has become smaller.
    advise(300_000);
    world.acknowledge(100_000);
    assert_eq!(world.socket.send(&[1; 1], false), Err(Errno::AGAIN));
    world.socket.set_send_buffer(350_000);
    advise(500_000);
    assert_eq!(world.socket.send_buffer(), 350_000);
    assert_eq!(world.socket.send(&vec![1; 1 << 20], false), Ok(50_000));
}

#[test]
fn what_a_program_fills_in_itself_is_sent_from_where_it_lies() {
    let world = World::new();
    let mut pieces = [b"abc".as_slice(), b"de", b""].into_iter();
    let sent = world.socket.send_with(100, false, |room| {
        let piece = pieces.next().unwrap();
        queue_pair::copy_in(room, piece);
        Ok(piece.len())
    });
    assert_eq!(sent, Ok(5));
    assert_eq!(world.sent(), b"abcde");
    assert_eq!(
        world.socket.send_with(100, false, |_| Err(Errno::IO)),
        Err(Errno::IO)
    );
}

#[test]
fn a_file_goes_out_without_passing_through_the_program() {
    let world = World::new();
    let path = std::env::temp_dir().join(format!("outboard-send-file-{}", std::process::id()));
    let content: Vec<u8> = (0..200_000u32).map(|i| (i * 7 % 251) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        world.socket.send_file(&file, 1000, 150_000, false),
        Ok(150_000)
    );
    assert_eq!(world.sent(), content[1000..151_000]);
    // The end of the file is the end.
    assert_eq!(world.socket.send_file(&file, 199_990, 100, false), Ok(10));
    assert_eq!(world.socket.send_file(&file, 200_000, 100, false), Ok(0));
}

#[test]
fn when_send_memory_runs_out_others_wait_for_it_and_are_told() {
    let world = World::with(Some(Sizes {
        send_len: 256 * 1024,
        ..Sizes::default()
    }));
    let listener = &world._listener;
    let other_conn = world.engine.host(|host| host.hand(1));
    let other = listener.accept_offloaded().unwrap();
    // A connection on its own gets its share of what is free.
    let taken = world.socket.send(&[1; 300_000], false).unwrap();
    assert!((64 * 1024..256 * 1024).contains(&taken), "{taken}");
    assert!(!world.socket.readiness().intersects(Readiness::OUT));
    // There is some left for another one.
    assert!(other.send(&[2; 1000], false).is_ok());
    world.engine.host(|host| host.submissions());
    world.acknowledge(taken as u64);
    assert!(world.socket.readiness().intersects(Readiness::OUT));
    world.engine.host(|host| host.acknowledge(other_conn, 1000));
    assert!(world.socket.send(&[1; 50_000], false).is_ok());
}

#[test]
fn a_full_ring_refuses_sends_but_loses_no_close() {
    let world = World::with(Some(Sizes {
        submission_entries: 16,
        ..Sizes::default()
    }));
    let mut sent = 0;
    let refused = loop {
        match world.socket.send(b"x", false) {
            Ok(len) => sent += len,
            Err(errno) => break errno,
        }
    };
    assert_eq!((sent, refused), (16, Errno::AGAIN));
    world.socket.set_option(OptionKind::NoDelay, 1).unwrap();
    world.socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(world.submissions().len(), 16);
    world.session.pump();
    let conn = world.conn;
    assert_eq!(
        world.submissions(),
        [
            Submission::SetOption {
                conn,
                option: OptionKind::NoDelay,
                value: 1
            },
            Submission::Shutdown { conn, at: 0 },
        ]
    );
    assert_eq!(world.sent(), [b'x'; 16]);
}

#[test]
fn the_end_of_the_stream_comes_after_its_data() {
    let world = World::new();
    world.deliver(b"last");
    world.engine.host(|host| host.peer_closes(world.conn));
    world.session.pump();
    let ready = world.socket.readiness();
    assert!(ready.intersects(Readiness::RDHUP) && !ready.intersects(Readiness::HUP));
    assert_eq!(world.recv().unwrap(), b"last");
    assert_eq!(world.recv().unwrap(), b"");
    assert_eq!(world.socket.send(b"still", false), Ok(5));
    world.socket.shutdown(Shutdown::Write).unwrap();
    assert!(world.socket.readiness().intersects(Readiness::HUP));
    assert_eq!(world.socket.send(b"no more", false), Err(Errno::PIPE));
}

#[test]
fn a_reset_is_reported_once_and_data_before_it_is_readable() {
    let world = World::new();
    world.deliver(b"before");
    let conn = world.conn;
    world.post(Completion::Failed { conn, errno: 104 });
    let ready = world.socket.readiness();
    assert!(ready.intersects(Readiness::ERR) && ready.intersects(Readiness::HUP));
    assert_eq!(world.recv().unwrap(), b"before");
    assert_eq!(world.recv(), Err(Errno::CONNRESET));
    assert_eq!(world.recv().unwrap(), b"");
    assert_eq!(world.socket.send(b"x", false), Err(Errno::PIPE));
    // It stays the engine's until it is closed.
    drop(world.socket);
    let submissions = world.engine.host(|host| host.submissions());
    assert_eq!(
        submissions.last(),
        Some(&Submission::Close {
            conn,
            abort: false,
            at: 0
        })
    );
}

#[test]
fn a_failed_send_takes_the_error_too() {
    let world = World::new();
    let conn = world.conn;
    assert!(!world.socket.refuses_writes());
    world.post(Completion::Failed { conn, errno: 110 });
    assert!(world.socket.refuses_writes(), "and takes nothing");
    assert_eq!(world.socket.send(b"x", false), Err(Errno::TIMEDOUT));
    assert_eq!(world.socket.take_error(), None);
    assert!(world.socket.refuses_writes());
    let world = World::new();
    world.socket.shutdown(Shutdown::Write).unwrap();
    assert!(world.socket.refuses_writes());
}

#[test]
fn a_call_that_has_moved_bytes_leaves_the_error_to_the_next() {
    let reset = || {
        let world = World::new();
        let conn = world.conn;
        world.post(Completion::Failed { conn, errno: 104 });
        world
    };
    type Call = fn(&Socket, PendingError) -> Result<usize, Errno>;
    let calls: [Call; 4] = [
        |socket, pending| socket.recvv(&mut [IoSliceMut::new(&mut [0])], pending),
        |socket, pending| socket.peekv(&mut [IoSliceMut::new(&mut [0])], pending),
        |socket, pending| socket.discard(1, pending),
        |socket, pending| socket.sendv(&[IoSlice::new(b"x")], false, pending),
    ];
    for (case, call) in calls.into_iter().enumerate() {
        let world = reset();
        let over = Err(Errno::CONNRESET);
        assert_eq!(call(&world.socket, PendingError::Keep), over, "{case}");
        assert!(world.socket.readiness().intersects(Readiness::ERR));
        assert_eq!(call(&world.socket, PendingError::Take), over, "{case}");
        assert_eq!(world.socket.take_error(), None, "{case}");
        let over = call(&world.socket, PendingError::Keep);
        assert_ne!(over, Err(Errno::CONNRESET), "{case}");
    }
}

#[test]
fn a_reset_after_the_peers_end_is_a_broken_pipe_to_who_could_still_write() {
    let ends = |world: &World, how| world.socket.shutdown(how).unwrap();
    let elsewhere = |world: &World| {
        let conn = world.conn;
        world.post(Completion::Shut { conn });
    };
    type Act<'a> = &'a dyn Fn(&World);
    let cases: [(Act<'_>, Errno); 5] = [
        (&|_| {}, Errno::PIPE),
        (&|world| ends(world, Shutdown::Read), Errno::PIPE),
        (&|world| ends(world, Shutdown::Write), Errno::CONNRESET),
        (&|world| ends(world, Shutdown::Both), Errno::CONNRESET),
        (&elsewhere, Errno::CONNRESET),
    ];
    for (case, (act, expected)) in cases.into_iter().enumerate() {
        let world = World::new();
        let conn = world.conn;
        world.post(Completion::Update {
            conn,
            addr: 0,
            len: 0,
            acked: 0,
            peer_closed: true,
        });
        act(&world);
        world.post(Completion::Failed { conn, errno: 104 });
        assert_eq!(world.socket.take_error(), Some(expected), "{case}");
    }
}

#[test]
fn closing_says_what_was_read_and_resets_if_something_was_not() {
    let world = World::new();
    world.deliver(b"read");
    world.recv().unwrap();
    let World {
        engine,
        socket,
        conn,
        _listener,
        session,
    } = world;
    drop(socket);
    assert_eq!(
        engine.host(|host| host.submissions()),
        [
            Submission::Consumed { conn, total: 4 },
            Submission::Close {
                conn,
                abort: false,
                at: 0
            }
        ]
    );

    let conn = engine.host(|host| host.hand(1));
    let socket = _listener.accept_offloaded().unwrap();
    engine.host(|host| host.deliver(conn, b"unread"));
    session.pump();
    drop(socket);
    let submissions = engine.host(|host| host.submissions());
    assert_eq!(
        submissions.last(),
        Some(&Submission::Close {
            conn,
            abort: true,
            at: 0
        })
    );
}

#[test]
fn lingering_for_no_time_resets() {
    let world = World::new();
    world.socket.set_option(OptionKind::Linger, 1).unwrap();
    let conn = world.conn;
    drop(world.socket);
    let submissions = world.engine.host(|host| host.submissions());
    assert_eq!(
        submissions.last(),
        Some(&Submission::Close {
            conn,
            abort: true,
            at: 0
        })
    );
}

#[test]
fn the_send_memory_of_a_closed_connection_comes_back_with_the_last_word() {
    let world = World::with(Some(Sizes {
        send_len: 64 * 1024,
        ..Sizes::default()
    }));
    assert!(world.socket.send(&[1; 64 * 1024], false).is_ok());
    let World {
        engine,
        socket,
        conn,
        _listener,
        session,
    } = world;
    drop(socket);
    engine.host(|host| host.post(Completion::Released { conn }));
    session.pump();
    engine.host(|host| host.hand(1));
    let next = _listener.accept_offloaded().unwrap();
    engine.host(|host| host.submissions());
    assert!(next.send(&[1; 64 * 1024], false).is_ok());
}

#[test]
fn options_are_checked_remembered_and_passed_on() {
    let world = World::new();
    let conn = world.conn;
    assert_eq!(world.socket.option(OptionKind::KeepIdle), None);
    assert_eq!(
        world.socket.set_option(OptionKind::KeepIdle, 0),
        Err(Errno::INVAL)
    );
    assert_eq!(world.socket.set_option(OptionKind::KeepIdle, 60), Ok(()));
    assert_eq!(world.socket.option(OptionKind::KeepIdle), Some(60));
    // Once is enough.
    assert_eq!(world.socket.set_option(OptionKind::KeepIdle, 60), Ok(()));
    assert_eq!(
        world.submissions(),
        [Submission::SetOption {
            conn,
            option: OptionKind::KeepIdle,
            value: 60
        }]
    );
}

/// An engine that is broken must not break the program: its connections fail, and nothing else.
#[test]
fn what_cannot_be_detaches() {
    type Lie = fn(ConnRef) -> Completion;
    let lies: [(&str, Lie); 4] = [
        ("data outside of the area", |conn| Completion::Update {
            conn,
            addr: u64::MAX - 3,
            len: 10,
            acked: 0,
            peer_closed: false,
        }),
        ("data longer than the area", |conn| Completion::Update {
            conn,
            addr: 0,
            len: u32::MAX,
            acked: 0,
            peer_closed: false,
        }),
        ("acknowledged what was never sent", |conn| {
            Completion::Update {
                conn,
                addr: 0,
                len: 0,
                acked: 1,
                peer_closed: false,
            }
        }),
        ("a place that no engine has", |_| Completion::Accepted {
            grant: fake_engine::GRANT,
            conn: ConnRef {
                index: u32::MAX,
                generation: 0,
            },
            listener: 1,
            peer: PEER.parse().unwrap(),
            local: LOCAL.parse().unwrap(),
        }),
    ];
    for (what, lie) in lies {
        let world = World::new();
        world.post(lie(world.conn));
        assert_eq!(world.recv(), Err(Errno::CONNRESET), "{what}");
        assert!(!world.session.is_attached(), "{what}");
        assert_eq!(world.socket.send(b"x", false), Err(Errno::PIPE), "{what}");
    }
}

#[test]
fn completions_of_unknown_connections_are_passed_over() {
    let world = World::new();
    let stranger = ConnRef {
        index: world.conn.index,
        generation: 99,
    };
    world.post(Completion::Update {
        conn: stranger,
        addr: 0,
        len: 4,
        acked: 0,
        peer_closed: true,
    });
    world.post(Completion::Failed {
        conn: stranger,
        errno: 104,
    });
    world.post(Completion::Released {
        conn: ConnRef {
            index: 1 << 20,
            generation: 0,
        },
    });
    world.post(Completion::OpenFailed {
        token: 12,
        errno: 111,
    });
    assert_eq!(world.recv(), Err(Errno::AGAIN));
    assert!(world.session.is_attached());
}
