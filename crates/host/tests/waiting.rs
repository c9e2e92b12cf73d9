//! Ready sets, pollers and blocked threads.

mod fake_engine;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fake_engine::{FakeEngine, HANG};
use host::{
    Accepted, Errno, Event, Listener, Poller, Readiness, ReadySet, Session, Shutdown, Socket,
    Source,
};
use queue_pair::Sizes;

fn world() -> (FakeEngine, Session, Listener) {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session
        .listen("127.0.0.1:0".parse().unwrap(), 1000)
        .unwrap();
    listener.want();
    (engine, session, listener)
}

fn collect(session: &Session, set: &ReadySet) -> Vec<(u64, u32)> {
    session.pump();
    let mut events = Vec::new();
    set.collect(
        100,
        |Event {
             readiness, data, ..
         }| events.push((data, readiness.0)),
    );
    events
}

const IN: u32 = 0x1;
const OUT: u32 = 0x4;

#[test]
fn a_level_triggered_interest_is_reported_until_it_is_served() {
    let (engine, session, listener) = world();
    let (conn, socket) = engine.connection(&listener);
    let set = session.ready_set();
    set.add(&socket, 5, Readiness::IN, 77).unwrap();
    assert_eq!(set.add(&socket, 5, Readiness::IN, 77), Err(Errno::EXIST));
    assert_eq!(collect(&session, &set), []);
    engine.host(|host| host.deliver(conn, b"ab"));
    assert_eq!(collect(&session, &set), [(77, IN)]);
    assert_eq!(collect(&session, &set), [(77, IN)]);
    assert!(set.any_ready());
    socket.recv(&mut [0; 10]).unwrap();
    assert_eq!(collect(&session, &set), []);
    assert!(!set.any_ready());
    set.modify(&socket, 5, Readiness::IN | Readiness::OUT, 78)
        .unwrap();
    assert_eq!(collect(&session, &set), [(78, OUT)]);
    set.remove(&socket, 5).unwrap();
    assert_eq!(collect(&session, &set), []);
    assert_eq!(set.remove(&socket, 5), Err(Errno::NOENT));
}

#[test]
fn an_edge_triggered_interest_is_reported_once_for_every_arrival() {
    let (engine, session, listener) = world();
    let (conn, socket) = engine.connection(&listener);
    let set = session.ready_set();
    set.add(
        &socket,
        5,
        Readiness::IN | Readiness::OUT | Readiness::EDGE,
        1,
    )
    .unwrap();
    assert_eq!(collect(&session, &set), [(1, OUT)]);
    assert_eq!(collect(&session, &set), []);
    for _ in 0..2 {
        engine.host(|host| host.deliver(conn, b"ab"));
        // The whole state, as the kernel reports it.
        assert_eq!(collect(&session, &set), [(1, IN | OUT)]);
        assert_eq!(collect(&session, &set), []);
    }
    // An acknowledgement is no news to one that could write all the time.
    socket.send(b"x", false).unwrap();
    engine.host(|host| host.acknowledge(conn, 1));
    assert_eq!(collect(&session, &set), []);
}

#[test]
fn a_one_shot_interest_rests_until_it_is_set_anew() {
    let (engine, session, listener) = world();
    let (conn, socket) = engine.connection(&listener);
    let set = session.ready_set();
    set.add(&socket, 5, Readiness::IN | Readiness::ONESHOT, 1)
        .unwrap();
    engine.host(|host| host.deliver(conn, b"ab"));
    assert_eq!(collect(&session, &set), [(1, IN)]);
    engine.host(|host| host.deliver(conn, b"cd"));
    assert_eq!(collect(&session, &set), []);
    set.modify(&socket, 5, Readiness::IN | Readiness::ONESHOT, 2)
        .unwrap();
    assert_eq!(collect(&session, &set), [(2, IN)]);
}

#[test]
fn interests_go_to_another_set_as_they_are() {
    let (engine, session, listener) = world();
    let (conn, socket) = engine.connection(&listener);
    let set = session.ready_set();
    let (edge, once) = (Readiness::EDGE, Readiness::ONESHOT);
    set.add(&socket, 5, Readiness::IN | once, 1).unwrap();
    set.add(&socket, 6, Readiness::IN | edge, 2).unwrap();
    set.add(&socket, 7, Readiness::OUT | Readiness::EXCLUSIVE, 3)
        .unwrap();
    engine.host(|host| host.deliver(conn, b"ab"));
    assert_eq!(collect(&session, &set), [(3, OUT), (1, IN), (2, IN)]);

    let other = session.ready_set();
    assert_eq!(other.interests(&socket), []);
    for interest in set.interests(&socket) {
        other.put_back(&socket, interest).unwrap();
        assert_eq!(other.put_back(&socket, interest), Err(Errno::EXIST));
    }
    assert_eq!(other.interests(&socket), set.interests(&socket));
    // The one-shot interest rests; an edge is reported anew.
    assert_eq!(collect(&session, &other), [(2, IN), (3, OUT)]);
    assert_eq!(
        other.modify(&socket, 7, Readiness::OUT, 3),
        Err(Errno::INVAL)
    );
    other.modify(&socket, 5, Readiness::IN | once, 4).unwrap();
    assert_eq!(collect(&session, &other), [(3, OUT), (4, IN)]);
    // The first set has what it had.
    set.modify(&socket, 6, Readiness::OUT, 2).unwrap();
    assert_eq!(collect(&session, &set), [(3, OUT), (2, OUT)]);
}

#[test]
fn a_socket_that_is_dropped_leaves_its_sets() {
    let (engine, session, listener) = world();
    let (conn, socket) = engine.connection(&listener);
    let set = session.ready_set();
    set.add(&socket, 5, Readiness::IN, 1).unwrap();
    engine.host(|host| host.deliver(conn, b"ab"));
    session.pump();
    drop(socket);
    assert_eq!(collect(&session, &set), []);
    // Its slot serves another.
    let (conn, socket) = engine.connection(&listener);
    set.add(&socket, 5, Readiness::IN, 2).unwrap();
    engine.host(|host| host.deliver(conn, b"ab"));
    assert_eq!(collect(&session, &set), [(2, IN)]);
    // And a set that goes leaves its sockets.
    drop(set);
    engine.host(|host| host.deliver(conn, b"ab"));
    session.pump();
}

#[test]
fn two_keys_of_one_socket_are_two_interests() {
    let (engine, session, listener) = world();
    let (conn, socket) = engine.connection(&listener);
    let set = session.ready_set();
    set.add(&socket, 5, Readiness::IN, 1).unwrap();
    set.add(&socket, 6, Readiness::IN, 2).unwrap();
    engine.host(|host| host.deliver(conn, b"ab"));
    assert_eq!(collect(&session, &set), [(1, IN), (2, IN)]);
}

#[test]
fn what_is_watched_and_idle_costs_nothing() {
    let (engine, session, listener) = world();
    let set = session.ready_set();
    let sockets: Vec<_> = (0..500).map(|_| engine.connection(&listener)).collect();
    for (at, (_, socket)) in sockets.iter().enumerate() {
        set.add(socket, at as u64, Readiness::IN, at as u64)
            .unwrap();
    }
    engine.host(|host| host.deliver(sockets[321].0, b"ab"));
    session.pump();
    // Not more than one is even looked at: the limit would cut it off otherwise.
    let mut looked = 0;
    assert_eq!(set.collect(1, |event| looked = event.data), 1);
    assert_eq!(looked, 321);
}

#[test]
fn a_program_that_never_sleeps_still_gives_memory_back() {
    let (engine, session, listener) = world();
    let connections: Vec<_> = (0..100).map(|_| engine.connection(&listener)).collect();
    engine.host(|host| host.submissions());
    for (conn, socket) in &connections {
        engine.host(|host| host.deliver(*conn, b"read, not answered"));
        assert_eq!(socket.recv(&mut [0; 100]), Ok(18));
    }
    session.pump();
    let announced = engine.host(|host| host.submissions()).len();
    assert!(announced >= 64, "{announced} of 100 were announced");
}

#[test]
fn a_blocked_thread_is_woken_by_the_engine() {
    let (engine, _session, listener) = world();
    let (conn, socket) = engine.connection(&listener);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| socket.wait(Readiness::IN, Some(HANG)));
        engine.until(|inner| {
            // It sleeps, or is about to: either way this must reach it.
            let host = &mut inner.attached[0];
            host.deliver(conn, b"wake");
            Some(())
        });
        assert!(waiter.join().unwrap().unwrap().intersects(Readiness::IN));
    });
}

#[test]
fn a_sleeper_takes_in_even_the_longest_list_first() {
    let engine = FakeEngine::start_with(Some(Sizes {
        completion_entries: 64,
        ..Sizes::default()
    }));
    let session = engine.attach();
    let listener = session
        .listen("127.0.0.1:0".parse().unwrap(), 1000)
        .unwrap();
    listener.want();
    let (noisy, _first) = engine.connection(&listener);
    let (quiet, socket) = engine.connection(&listener);
    // Nobody sleeps, so nobody is rung for these.
    engine.host(|host| {
        (0..60).for_each(|_| host.update(noisy, 0, 0));
        host.deliver(quiet, b"at the end of the list");
    });
    let mut sleeper = session.sleeper().unwrap();
    sleeper.arm();
    assert!(socket.readiness().intersects(Readiness::IN));
    sleeper.disarm(false);
}

#[test]
fn a_blocked_thread_is_woken_by_a_shutdown_in_another() {
    let (engine, _session, listener) = world();
    let (_, socket) = engine.connection(&listener);
    let started = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            started.store(true, Ordering::Relaxed);
            socket.wait(Readiness::IN, Some(HANG))
        });
        while !started.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        socket.shutdown(Shutdown::Both).unwrap();
        assert!(waiter.join().unwrap().unwrap().intersects(Readiness::HUP));
    });
}

#[test]
fn waiting_ends_in_time() {
    let (engine, _session, listener) = world();
    let (_, socket) = engine.connection(&listener);
    let start = Instant::now();
    let limit = Duration::from_millis(20);
    assert_eq!(
        socket.wait(Readiness::IN, Some(limit)),
        Err(Errno::TIMEDOUT)
    );
    assert!(start.elapsed() >= limit && start.elapsed() < HANG);
}

#[test]
fn many_threads_on_many_sockets_lose_no_wake_up() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 300;
    let (engine, _session, listener) = world();
    let sockets: Vec<_> = (0..THREADS).map(|_| engine.connection(&listener)).collect();
    let done = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let clients: Vec<_> = sockets
            .iter()
            .map(|(_, socket)| {
                scope.spawn(move || {
                    let mut out = [0; 8];
                    for round in 0..ROUNDS as u64 {
                        let message = round.to_ne_bytes();
                        assert_eq!(socket.send(&message, false), Ok(8));
                        loop {
                            match socket.recv(&mut out) {
                                Ok(8) => break,
                                Err(Errno::AGAIN) => {
                                    socket.wait(Readiness::IN, Some(HANG)).unwrap();
                                }
                                other => panic!("{other:?}"),
                            }
                        }
                        assert_eq!(out, message);
                    }
                })
            })
            .collect();
        // The engine echoes, sleeping whenever there is nothing.
        let stop = Arc::clone(&done);
        let engine = &engine;
        let conns: Vec<_> = sockets.iter().map(|(conn, _)| *conn).collect();
        scope.spawn(move || {
            let mut echoed = vec![0; conns.len()];
            while !stop.load(Ordering::Relaxed) {
                engine.host(|host| {
                    for (conn, echoed) in conns.iter().zip(&mut echoed) {
                        let sent = host.sent(*conn);
                        if sent.len() > *echoed {
                            host.acknowledge(*conn, sent.len() as u64);
                            host.deliver(*conn, &sent[*echoed..]);
                            *echoed = sent.len();
                        }
                    }
                    host.submissions();
                    host.sleep(Duration::from_millis(2));
                });
            }
        });
        let results: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
}

/// One thread keeps watch by the bell, two are parked. The watch ends, and the one that is woken to take it
/// over may have news of its own: the third hears of the engine's death all the same.
#[test]
fn a_watch_is_passed_on_by_who_was_woken_for_it_and_goes() {
    let wait = |socket: &Socket| socket.wait(Readiness::IN, Some(HANG));
    // Which of the two is woken is chance.
    for _ in 0..12 {
        let (engine, _session, listener) = world();
        let [watching, ready, silent] = [0; 3].map(|_| engine.connection(&listener));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| wait(&watching.1));
            engine.await_armed();
            let parked = [&ready, &silent].map(|(conn, socket)| {
                let thread = scope.spawn(move || wait(socket));
                engine.await_parked(*conn);
                thread
            });
            engine.host(|host| {
                host.peer_closes_quietly(ready.0);
                host.deliver(watching.0, b"news");
            });
            first.join().unwrap().unwrap();
            engine.die();
            for thread in parked {
                thread.join().unwrap().unwrap();
            }
        });
    }
}

#[test]
fn a_poller_waits_for_engine_and_kernel_alike() {
    let (engine, session, listener) = world();
    let mut poller = Poller::new(&session).unwrap();
    poller
        .add(Source::Listener(&listener), 1, Readiness::IN)
        .unwrap();
    let mut events = Vec::new();
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert_eq!(events, []);

    // A client on this machine is the kernel's.
    let client = std::net::TcpStream::connect(listener.local()).unwrap();
    poller.wait(&mut events, Some(HANG)).unwrap();
    assert_eq!(events.len(), 1);
    let Ok(Accepted::Kernel(fd)) = listener.accept() else {
        panic!()
    };
    poller
        .add(
            Source::Kernel(rustix::fd::AsFd::as_fd(&fd)),
            2,
            Readiness::IN,
        )
        .unwrap();
    std::io::Write::write_all(&mut &client, b"x").unwrap();
    poller.wait(&mut events, Some(HANG)).unwrap();
    assert_eq!(
        events.iter().map(|event| event.key).collect::<Vec<_>>(),
        [2]
    );
    rustix::io::read(&fd, &mut [0; 1]).unwrap();

    // One from elsewhere is the engine's.
    let conn = engine.host(|host| host.hand(1));
    poller.wait(&mut events, Some(HANG)).unwrap();
    assert_eq!(
        events.iter().map(|event| event.key).collect::<Vec<_>>(),
        [1]
    );
    let Ok(Accepted::Offloaded(socket)) = listener.accept() else {
        panic!()
    };
    poller
        .add(Source::Socket(&socket), 3, Readiness::IN)
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| engine.host(|host| host.deliver(conn, b"y")));
        poller.wait(&mut events, Some(HANG)).unwrap();
    });
    assert_eq!(
        events.iter().map(|event| event.key).collect::<Vec<_>>(),
        [3]
    );
}

#[test]
fn the_kernels_events_come_even_when_the_engine_always_has_some() {
    let (engine, session, listener) = world();
    let (conn, socket) = engine.connection(&listener);
    let mut poller = Poller::new(&session).unwrap();
    let eventfd = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    poller
        .add(Source::Socket(&socket), 1, Readiness::IN)
        .unwrap();
    poller
        .add(
            Source::Kernel(rustix::fd::AsFd::as_fd(&eventfd)),
            2,
            Readiness::IN,
        )
        .unwrap();
    engine.host(|host| host.deliver(conn, b"always"));
    let mut events = Vec::new();
    let turns = (0..100).find(|_| {
        poller.wait(&mut events, Some(HANG)).unwrap();
        events.iter().any(|event| event.key == 2)
    });
    assert!(turns.is_some_and(|turns| turns < 20), "{turns:?}");
}
