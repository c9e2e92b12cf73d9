//! A host that is used for long, and one whose engine talks nonsense.

mod fake_engine;

use std::sync::{Mutex, MutexGuard, PoisonError};

use fake_engine::{FakeEngine, LOCAL, PEER};
use host::{Errno, Readiness};
use queue_pair::{Completion, ConnRef, Sizes};

/// What these tests measure is the process's, so one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of memory that this process has for itself.
fn private_memory() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let kilobytes = |name: &str| -> u64 {
        let line = rollup.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    1024 * (kilobytes("Private_Clean:") + kilobytes("Private_Dirty:"))
}

#[test]
fn a_hundred_thousand_connections_in_turn_leave_nothing_behind() {
    let _alone = alone();
    const ROUNDS: u32 = 100_000;
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen("127.0.0.1:0".parse().unwrap(), 100).unwrap();
    listener.want();
    let set = session.ready_set();
    let mut before = 0;
    for round in 0..ROUNDS {
        if round == ROUNDS / 10 {
            before = private_memory();
        }
        // The engine's places are used again and again, each time by another generation.
        let conn = ConnRef {
            index: round % 50,
            generation: round / 50,
        };
        let mut inner = engine.lock();
        let host = &mut inner.attached[0];
        host.offer(1, conn);
        host.deliver(conn, b"request");
        drop(inner);

        let socket = listener.accept_offloaded().unwrap();
        set.add(&socket, 1, Readiness::IN, u64::from(round))
            .unwrap();
        session.pump();
        let mut key = None;
        set.collect(10, |event| key = Some(event.data));
        assert_eq!(key, Some(u64::from(round)));
        assert_eq!(socket.recv(&mut [0; 100]), Ok(7));
        assert_eq!(socket.send(b"answer", false), Ok(6));
        drop(socket);

        let mut inner = engine.lock();
        let host = &mut inner.attached[0];
        assert_eq!(host.sent(conn), b"answer");
        host.submissions();
        host.forget(conn);
        host.post(Completion::Released { conn });
    }
    session.pump();
    let grown = private_memory().saturating_sub(before);
    assert!(
        grown < 512 * 1024,
        "{grown} bytes more after {ROUNDS} connections"
    );
    // Nobody is left whom an event could reach.
    assert_eq!(set.collect(10, |_| ()), 0);
}

#[test]
fn ten_thousand_open_connections_cost_little_and_no_descriptor() {
    let _alone = alone();
    const CONNECTIONS: u32 = 10_000;
    /// What one may cost the process: the socket, its queues and its interest in one ready set.
    const BYTES: u64 = 1024;
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen("127.0.0.1:0".parse().unwrap(), 100).unwrap();
    listener.want();
    let set = session.ready_set();
    let mut sockets = Vec::with_capacity(CONNECTIONS as usize);
    let (memory, opened) = (private_memory(), descriptors());
    for index in 0..CONNECTIONS {
        let conn = engine.host(|host| {
            let conn = host.hand(1);
            host.deliver(conn, b"request");
            conn
        });
        let socket = listener.accept_offloaded().unwrap();
        set.add(
            &socket,
            1,
            Readiness::IN | Readiness::EDGE,
            u64::from(index),
        )
        .unwrap();
        session.pump();
        assert_eq!(set.collect(10, |_| ()), 1);
        assert_eq!(socket.recv(&mut [0; 100]), Ok(7));
        assert_eq!(socket.send(b"answer", false), Ok(6));
        engine.host(|host| {
            host.submissions();
            host.forget(conn);
            host.post(Completion::Update {
                conn,
                addr: 0,
                len: 0,
                acked: 6,
                peer_closed: false,
            });
        });
        sockets.push(socket);
    }
    session.pump();
    let each = (private_memory() - memory) / u64::from(CONNECTIONS);
    assert!(each <= BYTES, "{each} bytes for an idle connection");
    assert!(
        descriptors() <= opened + 4,
        "{} descriptors more",
        descriptors() - opened
    );
}

/// Whatever the engine says, the program goes on: its calls succeed or fail as calls on sockets do.
#[test]
fn nonsense_from_the_engine_never_breaks_the_program() {
    let _alone = alone();
    let sizes = Sizes {
        positions: 64,
        submission_entries: 64,
        completion_entries: 64,
        send_len: 128 * 1024,
        receive_len: 64 * 1024,
    };
    for seed in 1..=60u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let engine = FakeEngine::start_with(Some(sizes));
        let session = engine.attach();
        let listener = session.listen("127.0.0.1:0".parse().unwrap(), 100).unwrap();
        listener.want();
        let set = session.ready_set();
        let mut sockets = Vec::new();
        for _ in 0..300 {
            let conn = ConnRef {
                index: random(4) as u32,
                generation: random(2) as u32,
            };
            let (peer, local) = (PEER.parse().unwrap(), LOCAL.parse().unwrap());
            // Mostly what could be, so that not every run ends at once.
            let odd = random(60) == 0;
            let completion = match random(8) {
                0 => Completion::Accepted {
                    conn,
                    grant: random(9) as u16,
                    listener: 1 + u32::from(odd),
                    peer,
                    local,
                },
                1 => Completion::Failed {
                    conn,
                    errno: random(if odd { 65_536 } else { 130 }) as u16,
                },
                2 if random(4) == 0 => Completion::Released { conn },
                3 => Completion::Opened {
                    token: random(3),
                    conn,
                    grant: random(9) as u16,
                    local,
                },
                4 if random(3) == 0 => Completion::Syn {
                    token: random(3),
                    conn,
                    room: random(2000) as u16,
                },
                4 => Completion::OpenFailed {
                    token: random(3),
                    errno: random(200) as u16,
                },
                5 => match random(3) {
                    0 => Completion::Granted {
                        conn,
                        grant: random(9) as u16,
                        consumed: random(1 << 50),
                        alone_since: (random(2) == 0).then_some(random(3) as u32),
                    },
                    1 => Completion::NotGranted {
                        conn,
                        errno: random(200) as u16,
                    },
                    _ => Completion::Elsewhere {
                        conn,
                        unread: random(1 << 32) as u32,
                        received: random(u64::MAX),
                        acked: if odd { random(1000) } else { 0 },
                        peer_closed: random(20) == 0,
                    },
                },
                _ => Completion::Update {
                    conn,
                    addr: random(if odd { u64::MAX } else { 60 * 1024 }),
                    len: random(if odd { 1 << 32 } else { 4096 }) as u32,
                    acked: if odd { random(1000) } else { 0 },
                    peer_closed: random(20) == 0,
                },
            };
            let mut inner = engine.lock();
            // After the first thing that cannot be, the program may attach anew.
            if let Some(host) = inner.attached.last_mut()
                && session.is_attached()
            {
                host.post(completion);
                let _ = host.side.submissions.take();
                host.side.submissions.release();
            }
            drop(inner);
            session.pump();
            match listener.accept_offloaded() {
                Ok(socket) => {
                    set.add(&socket, 1, Readiness::IN | Readiness::OUT, 1)
                        .unwrap();
                    sockets.push(socket);
                }
                Err(errno) => assert_eq!(errno, Errno::AGAIN),
            }
            set.collect(100, |_| ());
            if !sockets.is_empty() {
                let at = random(sockets.len() as u64) as usize;
                let _ = sockets[at].recv(&mut [0; 3000]);
                let _ = sockets[at].send(&[7; 3000], false);
                if random(10) == 0 {
                    drop(sockets.swap_remove(at));
                }
            }
        }
    }
}
