//! How often a process that sends without a pause is woken, where it can send more than is taken.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use netdev::sim::LinkConfig;
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::doorbell::{Bell, Rung};
use queue_pair::parked::{self, Wants};
use queue_pair::room::{self, Awaits};
use queue_pair::{Completion, ConnRef, Submission};

/// Bytes of a send.
const SEND: u64 = 16 << 10;
/// What may be under way: as it is where the path asks for no more.
const BUFFER: u64 = Completion::SEND_BUFFER as u64;
const TOTAL: u64 = 8 << 20;

/// How a process sleeps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Bell,
    /// The word of the connection.
    Word,
}

/// A process that sleeps whenever its buffer is full.
struct Sender {
    by: By,
    host: Host,
    conn: ConnRef,
    bell: (u32, Bell),
    written: u64,
    acked: u64,
    /// Acknowledgements that it was told of.
    told: u64,
    /// How often it was woken.
    woken: u64,
}

impl Sender {
    fn new(world: &mut World, by: By) -> Self {
        let (mut host, conn, _) = world.connected();
        let (reply, mut fds) = world.request(&mut host, &Request::Waker, Fds::new());
        let Reply::Waker { waker } = reply else {
            panic!("{reply:?}");
        };
        let bell = (waker, Bell::from(fds.pop().expect("a bell")));
        Self {
            by,
            host,
            conn,
            bell,
            written: 0,
            acked: 0,
            told: 0,
            woken: 0,
        }
    }

    /// Fills its buffer, which has always the same in it, and sleeps.
    fn fill_and_sleep(&mut self, awaits: impl Fn(u64) -> Awaits) {
        while self.written - self.acked < BUFFER {
            let len = SEND.min(BUFFER - (self.written - self.acked));
            self.written += len;
            self.host.submit(Submission::Send {
                conn: self.conn,
                addr: 0,
                len: len as u32,
                more: false,
                consumed: 0,
            });
        }
        // A third of the buffer is free.
        self.sleep(awaits(self.written - (2 * BUFFER + 1) / 3));
    }

    fn sleep(&mut self, awaits: Awaits) {
        match self.by {
            By::Bell => {
                room::say(self.word(), awaits);
                self.host.region.armed.arm(self.bell.0);
                self.collect();
            }
            By::Word => {
                parked::set(self.word(), Wants::All);
                self.collect();
                room::say(self.word(), awaits);
            }
        }
    }

    fn word(&self) -> &AtomicU32 {
        let word = self.host.region.positions.sleeper(self.conn.index);
        word.expect("a place")
    }

    fn collect(&mut self) {
        self.host.collect();
        for completion in self.host.completions.drain(..) {
            if let Completion::Update { acked, .. } = completion {
                self.acked = acked;
                self.told += 1;
            }
        }
    }

    /// Whether it was woken.
    fn wakes(&mut self) -> bool {
        let wakes = match self.by {
            By::Bell => self.bell.1.drain() == Rung::Yes,
            By::Word => !parked::is_asleep(self.word()),
        };
        if wakes {
            self.woken += 1;
            match self.by {
                By::Bell => self.host.region.armed.disarm(self.bell.0),
                By::Word => parked::set(self.word(), Wants::Nothing),
            }
            self.collect();
        }
        wakes
    }
}

/// A peer that takes two segments at a time, and a buffer that does not grow.
fn slow() -> World {
    let mut config = Config::default();
    config.tcp.send_buffer_limit = 0;
    let mut world = World::with(config, LinkConfig::default());
    world.peer.options.receive_buffer = 4096;
    world
}

/// A turn, after which the engine sleeps: it rings for what could wait, too.
fn turn(world: &mut World) {
    world.worker.turn(world.now);
    world.peer.turn(world.now);
    world.worker.turn(world.now);
    world.worker.attend(world.now);
    world.now += Duration::from_micros(100);
}

/// How often a process that waits so is told of acknowledgements, and how often it is woken.
fn sends(by: By, awaits: impl Fn(u64) -> Awaits) -> (u64, u64) {
    let mut world = slow();
    let mut sender = Sender::new(&mut world, by);
    sender.fill_and_sleep(&awaits);
    for _ in 0..100_000 {
        turn(&mut world);
        if sender.wakes() {
            sender.fill_and_sleep(&awaits);
        }
        if sender.acked >= TOTAL {
            return (sender.told, sender.woken);
        }
    }
    panic!("{} bytes were acknowledged, and no more", sender.acked);
}

#[test]
fn a_sender_is_woken_once_for_a_third_of_its_buffer() {
    for by in [By::Bell, By::Word] {
        let (told, woken) = sends(by, Awaits::Until);
        assert!(woken <= 3 * TOTAL / BUFFER + 1, "{by:?}: {woken} times");
        assert!(
            told > 10 * woken,
            "{by:?}: told {told} times, woken {woken}"
        );
    }
}

/// As programs do whose library does not know of counts.
#[test]
fn who_waits_for_whatever_comes_is_woken_for_each_acknowledgement() {
    for by in [By::Bell, By::Word] {
        let (_, woken) = sends(by, |_| Awaits::Anything);
        assert!(woken > 10 * (3 * TOTAL / BUFFER), "{by:?}: {woken} times");
    }
}

/// Who says that it waits for less than it does, or nonsense, harms nobody else.
#[test]
fn what_a_word_says_concerns_its_own_connection_alone() {
    let mut world = slow();
    let mut honest = Sender::new(&mut world, By::Bell);
    let mut other = Sender::new(&mut world, By::Bell);
    let (awake, asleep) = (1 << 31, 1 << 30);
    let counts = [awake, asleep, asleep | 7, awake | asleep];
    let words = [&counts[..], &[2, 3, 4, 5, 6, u32::MAX]].concat();
    for &nonsense in &words {
        let place = other.conn.index;
        let word = other.host.region.positions.sleeper(place).expect("a place");
        word.store(nonsense, Ordering::Relaxed);
        other.host.submit(Submission::Send {
            conn: other.conn,
            addr: 0,
            len: 100_000,
            more: false,
            consumed: 0,
        });
        other.host.region.armed.arm(other.bell.0);
        let before = honest.woken;
        honest.fill_and_sleep(Awaits::Until);
        for _ in 0..1_000 {
            turn(&mut world);
            if honest.wakes() {
                break;
            }
        }
        assert_eq!(honest.woken, before + 1, "{nonsense:#x}");
    }
    for _ in 0..5_000 {
        turn(&mut world);
    }
    other.collect();
    let sent = 100_000 * words.len() as u64;
    assert_eq!(other.acked, sent, "it looks by itself");
}
