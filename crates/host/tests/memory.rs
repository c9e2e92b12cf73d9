//! Memory that a program has sent from goes back to the machine, without its doing.

mod fake_engine;

use std::time::{Duration, Instant};

use fake_engine::{FakeEngine, HANG};
use host::{Event, Listener, Poller, Readiness, Session, Socket, Source};
use queue_pair::{Completion, ConnRef};

/// Bytes of a burst.
const BURST: usize = 4 << 20;
/// What a session that is idle keeps at most: 256 KiB of free slabs, and what is begun.
const KEPT: u64 = 512 << 10;

struct World {
    engine: FakeEngine,
    session: Session,
    _listener: Listener,
    socket: Socket,
    conn: ConnRef,
    sent: u64,
}

impl World {
    fn new() -> Self {
        let engine = FakeEngine::start();
        let (session, listener) = engine.listening();
        let (conn, socket) = engine.connection(&listener);
        let bytes = 2 * BURST as u32;
        engine.host(|host| host.post(Completion::SendBuffer { conn, bytes }));
        session.pump();
        Self {
            engine,
            session,
            _listener: listener,
            socket,
            conn,
            sent: 0,
        }
    }

    /// Bytes that the program holds to send from.
    fn held(&self) -> u64 {
        self.engine.host(|host| host.side.send.resident().unwrap())
    }

    /// Sends much at once, which is acknowledged.
    fn burst(&mut self, byte: u8) {
        let bytes = vec![byte; BURST];
        assert_eq!(self.socket.send(&bytes, false), Ok(BURST));
        assert!(self.held() >= BURST as u64);
        let sent = self.engine.host(|host| {
            host.submissions();
            host.sent(self.conn)
        });
        assert!(sent[self.sent as usize..] == bytes, "{byte}");
        self.sent += BURST as u64;
        let (conn, acked) = (self.conn, self.sent);
        self.engine.host(|host| host.acknowledge(conn, acked));
        self.session.pump();
    }

    fn until_little_is_held(&self) {
        let start = Instant::now();
        while self.held() > KEPT {
            assert!(start.elapsed() < HANG, "{} bytes are held", self.held());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn it_goes_while_the_program_sleeps_and_comes_again() {
    let mut world = World::new();
    for byte in 1..=3 {
        world.burst(byte);
        std::thread::scope(|scope| {
            // Nothing wakes it but what is delivered in the end.
            let sleeper = scope.spawn(|| {
                let mut poller = Poller::new(&world.session).unwrap();
                poller
                    .add(Source::Socket(&world.socket), 1, Readiness::IN)
                    .unwrap();
                let mut events: Vec<Event> = Vec::new();
                poller.wait(&mut events, None).unwrap();
                assert_eq!(events.len(), 1);
            });
            world.until_little_is_held();
            assert!(!sleeper.is_finished());
            world.engine.host(|host| host.deliver(world.conn, b"!"));
            sleeper.join().unwrap();
        });
        assert_eq!(world.socket.recv(&mut [0; 9]), Ok(1));
    }
}

#[test]
fn it_goes_while_threads_sleep_each_on_its_connection() {
    let mut world = World::new();
    world.burst(1);
    std::thread::scope(|scope| {
        let threads =
            [(); 4].map(|()| scope.spawn(|| world.socket.wait(Readiness::IN, Some(HANG)).unwrap()));
        world.until_little_is_held();
        assert!(threads.iter().all(|thread| !thread.is_finished()));
        world.engine.host(|host| host.deliver(world.conn, b"!"));
        for thread in threads {
            assert!(thread.join().unwrap().intersects(Readiness::IN));
        }
    });
}

#[test]
fn registered_memory_and_what_is_under_way_stay() {
    let mut world = World::new();
    let registered = world.session.register(1 << 20).unwrap();
    queue_pair::copy_in(registered.bytes().unwrap(), &[9; 1 << 20]);
    world.burst(1);
    let under_way = [7; 100_000];
    assert_eq!(world.socket.send(&under_way, false), Ok(under_way.len()));
    let start = Instant::now();
    while world.held() > KEPT + (1 << 20) {
        assert!(start.elapsed() < HANG, "{} bytes are held", world.held());
        let _ = world
            .socket
            .wait(Readiness::IN, Some(Duration::from_millis(10)));
    }
    let mut bytes = vec![0; 1 << 20];
    queue_pair::copy_out(registered.bytes().unwrap(), &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == 9));
    let sent = world.engine.host(|host| {
        host.submissions();
        host.sent(world.conn)
    });
    assert!(sent[BURST..] == under_way);
}

#[test]
fn a_program_that_may_not_give_it_back_keeps_it() {
    let mut world = World::new();
    world.session.keep_memory();
    world.burst(1);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(2_500) {
        let _ = world
            .socket
            .wait(Readiness::IN, Some(Duration::from_millis(10)));
    }
    assert!(world.held() >= BURST as u64);
}
