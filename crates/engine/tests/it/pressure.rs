//! Receive memory runs short: windows shrink, then what is out of order goes.

use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use netdev::sim::LinkConfig;
use queue_pair::{Completion, ConnRef, Submission};
use tcp::ConnId;

/// Bytes of the session's receive area: sixteen chunks.
const AREA: u32 = 1 << 16;

fn world() -> World {
    let mut config = Config::default();
    config.limits.receive_area = AREA;
    World::with(config, LinkConfig::default())
}

#[test]
fn a_peer_is_slowed_down_before_memory_is_gone() {
    let mut world = world();
    let (mut host, conn, peer) = world.connected();
    // The host reads nothing, and the connection's own buffer is far larger than the area.
    world.peer.send(world.now, peer, &[7; 4 * AREA as usize]);
    world.pass(std::time::Duration::from_secs(2));
    host.collect();
    let received = host.received(conn).len();
    assert!(received > AREA as usize / 2, "{received}");
    let counters = world.worker.stack().counters();
    assert!(counters.windows_limited > 0);
    // It goes on when the host reads.
    let mut total = received as u64;
    for _ in 0..2000 {
        host.completions.clear();
        host.submit(Submission::Consumed { conn, total });
        world.pass(std::time::Duration::from_millis(10));
        host.collect();
        total += host.received(conn).len() as u64;
        if total == 4 * u64::from(AREA) {
            return;
        }
    }
    panic!("{total} bytes arrived");
}

#[test]
fn what_another_connection_holds_out_of_order_goes_first() {
    let mut world = world();
    let (mut host, _, peer) = world.connected();
    let port = host.kernel[0].local_addr().unwrap().port();
    world.peer.hole_in = Some(peer);
    world.peer.send(world.now, peer, &[7; 14_000]);
    world.settle();
    let held = |world: &World| {
        let stack = world.worker.stack();
        let held = stack.connections().map(|id| stack.info(world.now, id));
        held.flatten().map(|info| info.out_of_order).sum::<u32>()
    };
    assert!(held(&world) > 10_000, "{}", held(&world));
    // Others need the memory for what is in order.
    let mut received = 0;
    for _ in 0..4 {
        let (conn, other) = world.connect(&mut host, port);
        world.peer.send(world.now, other, &[9; AREA as usize]);
        world.pass(std::time::Duration::from_millis(100));
        host.collect();
        received += host.received(conn).len();
    }
    assert_eq!(held(&world), 0);
    assert!(world.worker.stack().counters().out_of_order_shed > 10_000);
    assert!(received > AREA as usize - 5 * 4096, "{received}");
}

#[test]
fn a_connection_that_finds_no_memory_waits_until_some_is_given_back() {
    let mut world = world();
    let (mut host, first, peer) = world.connected();
    let port = host.kernel[0].local_addr().unwrap().port();
    // A byte that is not read holds a chunk: here on as many connections as there are chunks.
    world.peer.send(world.now, peer, &[1]);
    for _ in 1..AREA / 4096 {
        let (_, peer) = world.connect(&mut host, port);
        world.peer.send(world.now, peer, &[1]);
    }
    world.settle();
    let accepted = host.accepted().len();
    // The last one's handshake comes with its first byte.
    let late = world.peer.connect(world.now, port);
    world.peer.send(world.now, late, &[2]);
    world.settle();
    host.collect();
    assert_eq!(host.accepted().len(), accepted, "there is no memory for it");
    let total = 1;
    host.submit(Submission::Consumed { conn: first, total });
    world.settle();
    host.collect();
    let accepted = host.accepted()[accepted..].to_vec();
    let [conn] = accepted[..] else {
        panic!("{accepted:?}");
    };
    assert_eq!(host.received(conn), [2]);
}

#[test]
fn a_process_without_memory_does_not_hold_up_the_others() {
    let mut world = world();
    let (mut full, _, peer) = world.connected();
    let port = full.kernel[0].local_addr().unwrap().port();
    world.peer.send(world.now, peer, &[1]);
    for _ in 1..AREA / 4096 {
        let (_, peer) = world.connect(&mut full, port);
        world.peer.send(world.now, peer, &[1]);
    }
    world.settle();
    let mut other = world.attach(None);
    let listener = world.join(&mut other, &full);
    other.submit(Submission::Credit {
        listener,
        total: 8,
        waits: false,
    });
    // Both are willing, in turn; only one has room.
    for count in 1..=4 {
        let late = world.peer.connect(world.now, port);
        world.peer.send(world.now, late, &[2]);
        world.settle();
        other.collect();
        assert_eq!(other.accepted().len(), count);
    }
}

#[test]
fn receive_memory_in_use_is_bounded_and_nothing_is_lost() {
    const EACH: usize = 100_000;
    let mut config = Config::default();
    config.limits.receive_memory = 1 << 18;
    let mut world = World::with(config, LinkConfig::default());
    let (mut host, conn, peer) = world.connected();
    let port = host.kernel[0].local_addr().expect("bound").port();
    let mut conns = vec![(conn, peer)];
    conns.extend((0..31).map(|_| world.connect(&mut host, port)));
    for (_, peer) in &conns {
        world.peer.send(world.now, *peer, &[7; EACH]);
    }
    for _ in 0..100 {
        world.pass(Duration::from_millis(50));
    }
    host.collect();
    let held = |host: &Host| {
        conns
            .iter()
            .map(|(conn, _)| host.received(*conn).len())
            .sum()
    };
    let before: usize = held(&host);
    assert!(
        before <= (1 << 20) + (1 << 18),
        "{before} bytes, and 1 MiB is free"
    );
    let mut consumed = vec![0; conns.len()];
    for _ in 0..2_000 {
        world.pass(Duration::from_millis(50));
        host.collect();
        for (at, (conn, _)) in conns.iter().enumerate() {
            consumed[at] += host.received(*conn).len();
            let (conn, total) = (*conn, consumed[at] as u64);
            host.submit(Submission::Consumed { conn, total });
        }
        host.completions.clear();
        if consumed.iter().sum::<usize>() >= conns.len() * EACH {
            break;
        }
    }
    assert_eq!(consumed, vec![EACH; conns.len()]);
}

/// What one of several equal readers has got.
struct Reader {
    conn: ConnRef,
    peer: ConnId,
    /// Bytes that have come, and those of them that were read.
    came: u64,
    read: u64,
}

/// A process whose connections are all alike.
struct Readers {
    host: Host,
    all: Vec<Reader>,
}

impl Readers {
    /// A process with so many.
    fn new(world: &mut World, mut host: Host, count: usize) -> Self {
        let first = world.serving(&mut host);
        let port = host.kernel[0].local_addr().expect("bound").port();
        let more = (1..count).map(|_| world.connect(&mut host, port));
        let conns: Vec<_> = [first].into_iter().chain(more).collect();
        let reader = |(conn, peer)| Reader {
            conn,
            peer,
            came: 0,
            read: 0,
        };
        let all = conns.into_iter().map(reader).collect();
        Self { host, all }
    }

    /// Each one's peer sends so much.
    fn begin(&self, world: &mut World, bytes: u64) {
        let bytes = vec![7; bytes as usize];
        for reader in &self.all {
            world.peer.send(world.now, reader.peer, &bytes);
        }
    }

    /// Counts what has come.
    fn hear(&mut self) {
        self.host.collect();
        for completion in self.host.completions.drain(..) {
            if let Completion::Update { conn, len, .. } = completion
                && let Some(reader) = self.all.iter_mut().find(|it| it.conn == conn)
            {
                reader.came += u64::from(len);
            }
        }
    }

    /// Each reads so much of what has come, at most.
    fn read(&mut self, most: u64) {
        self.hear();
        for reader in &mut self.all {
            let total = reader.came.min(reader.read + most);
            if total > reader.read {
                reader.read = total;
                let conn = reader.conn;
                self.host.submit(Submission::Consumed { conn, total });
            }
        }
    }

    /// Bytes that have come to each of them.
    fn came(&self) -> Vec<u64> {
        self.all.iter().map(|reader| reader.came).collect()
    }

    /// Bytes that have come to all of them.
    fn sum(&self) -> u64 {
        self.came().iter().sum()
    }
}

/// Asserts that nobody has more than so many times what another has.
fn alike(of: &[u64], factor: u64) {
    let (least, most) = (of.iter().min(), of.iter().max());
    let (least, most) = (least.expect("some"), most.expect("some"));
    assert!(*most <= factor * least, "{of:?}");
}

#[test]
fn equal_readers_of_one_session_get_equally_much() {
    const EACH: u64 = 4 << 20;
    // From four chunks for each of the eight to all that each is offered at its beginning.
    for area in [1 << 17, 1 << 18, 1 << 19, 1 << 20] {
        let mut config = Config::default();
        config.limits.receive_area = area;
        let mut world = World::with(config, LinkConfig::default());
        let host = world.attach(None);
        let mut readers = Readers::new(&mut world, host, 8);
        readers.begin(&mut world, EACH);
        // Nobody reads.
        world.pass(Duration::from_secs(2));
        readers.hear();
        assert!(readers.sum() > u64::from(area) * 7 / 8, "{area}");
        alike(&readers.came(), 4);
        // All read slowly, each as fast as the others.
        let mut ends = vec![0; readers.all.len()];
        for turn in 1..4_000 {
            readers.read(8 << 10);
            world.pass(Duration::from_millis(5));
            for (end, reader) in ends.iter_mut().zip(&readers.all) {
                if *end == 0 && reader.read == EACH {
                    *end = turn;
                }
            }
            if !ends.contains(&0) {
                break;
            }
        }
        println!("{area}: {ends:?}");
        alike(&ends, 2);
    }
}

#[test]
fn equal_sessions_of_two_users_get_equally_much_and_one_that_comes_late_some() {
    const EACH: u64 = 1 << 20;
    const COUNT: usize = 24;
    const FREE: u64 = 1 << 20;
    if !rustix::process::geteuid().is_root() {
        println!("left out: it takes root to be several users");
        return;
    }
    let mut config = Config::default();
    config.limits.receive_memory = 4 << 20;
    let mut world = World::with(config, LinkConfig::default());
    let attach = |world: &mut World, uid| {
        let host = world.attach_as(uid);
        Readers::new(world, host, COUNT)
    };
    let mut sessions = vec![attach(&mut world, 1), attach(&mut world, 2)];
    let wait = |world: &mut World, sessions: &mut [Readers]| -> Vec<u64> {
        // Not for longer: a peer whose bytes found no memory waits twice as long each time.
        world.pass(Duration::from_millis(300));
        sessions.iter_mut().for_each(Readers::hear);
        let sums = sessions.iter().map(Readers::sum);
        sums.map(|sum| sum.saturating_sub(FREE)).collect()
    };
    for session in &sessions {
        session.begin(&mut world, EACH);
    }
    // Each may have a third of seven eighths, and what is free.
    let beyond = wait(&mut world, &mut sessions);
    println!("{beyond:?}");
    alike(&beyond, 2);
    // Who comes late may have half of what they have left.
    sessions.push(attach(&mut world, 3));
    sessions[2].begin(&mut world, EACH);
    let beyond = wait(&mut world, &mut sessions);
    println!("{beyond:?}");
    alike(&beyond, 4);
    for session in &sessions {
        let came = session.came();
        assert!(came.iter().all(|came| *came >= 4096), "{came:?}");
    }
    // All are served when they read: most of them as soon as others are, and the last when its peer, for
    // whose bytes there was no memory again and again, sends them once more.
    let all = COUNT as u64 * EACH;
    let mut ends = vec![0; sessions.len()];
    for turn in 1..8_000 {
        for (end, readers) in ends.iter_mut().zip(&mut sessions) {
            readers.read(16 << 10);
            if *end == 0 && readers.sum() > all * 7 / 8 {
                *end = turn;
            }
        }
        world.pass(Duration::from_millis(5));
        world.attend();
        if sessions.iter().all(|readers| readers.sum() == all) {
            break;
        }
    }
    println!("{ends:?}");
    alike(&ends, 3);
    for session in &sessions {
        assert_eq!(session.came(), [EACH; COUNT]);
    }
}
