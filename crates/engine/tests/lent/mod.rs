//! Memory that is lent: what a program sends from without a copy (registered memory), what it looks at where
//! the engine has put it (views), buffers that it posts to receive into, and memory files of its own. An honest program does all of it
//! as a script of bytes says, while a hostile one does so against every rule. Run by the test `lent` with
//! random scripts and the corpus, and by the fuzz target of the same name with scripts that it makes up.
//!
//! Whatever they do: nothing panics, each byte of the honest one is where it belongs, nothing is written where
//! it has lent nothing, and when they have gone nothing of theirs is left.

mod honest;
mod hostile;
#[path = "../strangers/script.rs"]
#[allow(dead_code, reason = "each harness uses its part")]
mod script;

use std::fs::File;
use std::time::Duration;

use engine::config::Config;
use netdev::faults::Faults;
use netdev::sim::LinkConfig;
use queue_pair::ConnRef;
use queue_pair::control::{Fds, Reply, Request};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use tcp::ConnId;

use crate::world::{Host, World};
use honest::Honest;
use hostile::Hostile;
use script::Script;

/// Long enough for whatever they left behind to end.
const AFTERWARDS: Duration = Duration::from_secs(1200);
/// In so long everything arrives, however much is lost.
const ARRIVES: Duration = Duration::from_secs(600);
/// The most that is sent at once, in bytes.
const PIECE: usize = 4000;

/// What there was to see, so that a test can tell whether its scripts reach what they are for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Buffers that the engine has used, of either.
    pub posted: u64,
    /// Bytes of the honest one that came into its buffers.
    pub placed: u64,
    /// Bytes of the honest one that it looked at where they were.
    pub viewed: u64,
    /// Bytes of the honest one's registered memory that the peer got.
    pub sent: u64,
    /// Bytes of the honest one's memory file that the peer got.
    pub read: u64,
    /// Sessions that were ended for what they did.
    pub violations: u64,
}

/// Runs a script.
///
/// # Panics
/// A rule above is broken.
pub fn run(script: &[u8]) -> Seen {
    let mut script = Script(script);
    let mut world = World::with(Config::default(), link(&mut script));
    let mut honest = Honest::new(&mut world);
    let mut hostile = Hostile::new(&mut world);
    while let Some(step) = script.next() {
        match step % 16 {
            0..=5 => honest.step(step % 16, &mut world, &mut script),
            6 => world.now += Duration::from_millis(script.byte().into()),
            7 => rests(&mut world, Duration::from_secs(script.byte().into())),
            8 if script.below(8) == 0 => {
                // The next one gets what this one had.
                drop(hostile);
                world.attend();
                hostile = Hostile::new(&mut world);
            }
            _ => hostile.step(&mut world, &mut script),
        }
        world.attend();
        honest.looks();
        if let Err(rule) = world.worker.stack().audit() {
            panic!("{rule}");
        }
    }
    drop(hostile);
    world.attend();
    honest.ends(&mut world);
    let counters = world.worker.counters();
    let seen = Seen {
        posted: counters.buffers_posted,
        violations: counters.violations,
        ..honest.seen
    };
    drop(honest);
    world.attend();
    rests(&mut world, AFTERWARDS);
    assert_eq!(world.worker.sessions(), 0, "sessions are left");
    let left = world.worker.stack().connection_count();
    assert_eq!(left, 0, "connections are left");
    seen
}

/// A link that may lose, repeat and reorder.
fn link(script: &mut Script<'_>) -> LinkConfig {
    let share = |byte: u8| f64::from(byte % 8) / 50.0;
    LinkConfig {
        faults: Faults {
            loss: share(script.byte()),
            reorder: share(script.byte()),
            reorder_distance: 6,
            duplication: share(script.byte()),
            ..Faults::NONE
        },
        seed: script.byte().into(),
        ..LinkConfig::default()
    }
}

/// Time passes, in a few steps.
fn rests(world: &mut World, span: Duration) {
    let end = world.now + span;
    let step = (span / 200).max(Duration::from_millis(50));
    while world.now < end {
        world.now += step;
        world.attend();
    }
}

/// A program with a listener, and connections that the peer has opened to it.
fn program(world: &mut World, connections: usize) -> (Host, Vec<(ConnRef, ConnId)>) {
    let mut host = world.attach(None);
    let (port, _) = world.listen_with_credit(&mut host);
    let mut opened = Vec::new();
    for _ in 0..connections {
        let peer = world.peer.connect(world.now, port);
        let start = world.now;
        while host.accepted().len() == opened.len() {
            assert!(world.now < start + ARRIVES, "nobody is handed over");
            world.now += Duration::from_millis(50);
            world.settle();
            host.collect_and_accept();
        }
        opened.push((host.accepted()[opened.len()], peer));
    }
    (host, opened)
}

/// A memory file of a program's own, as the engine takes it.
fn memory_file(len: u64) -> File {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("theirs", flags).expect("a memory file"));
    file.set_len(len).expect("its size");
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
    file
}

/// Shows the engine a file; its name, if it takes it, and is there to do so.
fn show(world: &mut World, host: &mut Host, file: File) -> Option<u16> {
    let fds: Fds = [file.into()].into_iter().collect();
    host.channel.send(&Request::File, fds).ok()?;
    world.attend();
    match host.channel.try_receive::<Reply>() {
        Ok(Some((Reply::File { file, .. }, _))) => Some(file),
        _ => None,
    }
}

/// The stream that the peer sends, and what registered memory is filled with: a byte says where it belongs.
fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}
