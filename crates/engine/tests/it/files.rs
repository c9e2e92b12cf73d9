//! Sending from files: the engine reads them when their bytes leave, as often as that is, and whatever
//! becomes of them meanwhile ends one connection at most.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use engine::stats::Drop as Reason;
use netdev::faults::Faults;
use netdev::sim::LinkConfig;
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{ConnRef, Submission};
use rustix::fs::{
    Advice, MemfdFlags, SealFlags, fadvise, fcntl_add_seals, fstat, fsync, memfd_create,
};
use rustix::io::Errno;
use tcp::ConnId;

/// Bytes of the file.
const LEN: usize = 300_000;

/// A file, gone when this is.
struct OnDisk(PathBuf, Vec<u8>);

impl OnDisk {
    fn new(name: &str) -> Self {
        Self::of(name, LEN)
    }

    fn of(name: &str, len: usize) -> Self {
        let path = std::env::temp_dir().join(format!("outboard-{name}-{}", std::process::id()));
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
        std::fs::write(&path, &bytes).expect("written");
        Self(path, bytes)
    }

    fn open(&self) -> File {
        File::open(&self.0).expect("readable")
    }

    /// Nothing of it is in memory.
    fn put_away(&self) {
        let file = self.open();
        fsync(&file).expect("on the disk");
        fadvise(&file, 0, None, Advice::DontNeed).expect("out of memory");
    }

    fn shorten(&self, len: u64) {
        let file = File::options().write(true).open(&self.0);
        file.and_then(|file| file.set_len(len)).expect("shorter");
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn show(world: &mut World, host: &mut Host, file: impl Into<OwnedFd>) -> Result<u16, Errno> {
    let fds: Fds = [file.into()].into_iter().collect();
    match world.request(host, &Request::File, fds).0 {
        Reply::File { file, .. } => Ok(file),
        Reply::Error { errno, .. } => Err(Errno::from_raw_os_error(errno)),
        other => panic!("{other:?}"),
    }
}

fn skipped(why: &str) {
    let said = format!("SKIPPED: {why}\n");
    let _ = std::io::stderr().write_all(said.as_bytes());
}

/// A host that has shown a file, and a connection. `None`: there is no file here that can be sent from.
fn scene(config: Config, link: LinkConfig, name: &str) -> Option<Scene> {
    let mut world = World::with(config, link);
    let (mut host, conn, peer) = world.connected();
    let disk = OnDisk::new(name);
    match show(&mut world, &mut host, disk.open()) {
        Ok(file) => Some(Scene {
            world,
            host,
            conn,
            peer,
            disk,
            file,
        }),
        Err(Errno::OPNOTSUPP) => {
            skipped("nothing in the directory for temporary files is sent from");
            None
        }
        Err(errno) => panic!("{errno}"),
    }
}

struct Scene {
    world: World,
    host: Host,
    conn: ConnRef,
    peer: ConnId,
    disk: OnDisk,
    file: u16,
}

impl Scene {
    fn plain(name: &str) -> Option<Self> {
        scene(Config::default(), LinkConfig::default(), name)
    }

    fn send(&mut self, offset: u64, len: usize) {
        self.host.submit(Submission::SendFile {
            conn: self.conn,
            file: self.file,
            offset,
            len: len as u32,
            more: false,
            at: 0,
        });
    }

    fn arrived(&self) -> &[u8] {
        &self.world.peer.conns[&self.peer].bytes
    }

    /// Time passes, and the slow half does what it is asked.
    fn pass(&mut self, times: usize) {
        for _ in 0..times {
            self.world.pass(Duration::from_millis(20));
            self.world.attend();
        }
    }

    /// The session has ended, and nothing else.
    fn is_ended(&mut self) {
        self.pass(2);
        assert_eq!(self.world.worker.counters().violations, 1);
        let (mut other, conn, peer) = self.world.connected();
        other.send(conn, b"unharmed", 0);
        self.world.settle();
        assert_eq!(self.world.peer.conns[&peer].bytes, b"unharmed");
    }
}

#[test]
fn bytes_of_a_file_come_between_those_of_memory() {
    let Some(mut scene) = Scene::plain("between") else {
        return;
    };
    scene.host.send(scene.conn, b"head ", 0);
    scene.send(0, LEN);
    scene.send(17, 4);
    scene.host.send(scene.conn, b" tail", 0);
    scene.pass(10);
    let bytes = &scene.disk.1;
    let whole = [b"head ", &bytes[..], &bytes[17..21], b" tail"].concat();
    assert!(scene.arrived() == whole, "{} bytes", scene.arrived().len());
    assert_eq!(scene.world.worker.counters().file_sends, 2);
    // It is closed when nothing is sent from it any more.
    scene
        .host
        .submit(Submission::ForgetFile { file: scene.file });
    scene.pass(1);
    scene.send(0, 1);
    scene.is_ended();
}

#[test]
fn a_memory_file_is_sent_from_as_a_file_is() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = File::from(memfd_create("theirs", flags).expect("a memory file"));
    memory.set_len(LEN as u64).expect("its size");
    memory.write_all_at(b"written", 1_000).expect("its bytes");
    let mut world = World::with(Config::default(), LinkConfig::default());
    let (mut host, conn, peer) = world.connected();
    let shown = show(
        &mut world,
        &mut host,
        memory.try_clone().expect("once more"),
    );
    assert_eq!(shown, Err(Errno::OPNOTSUPP), "it could become shorter");
    fcntl_add_seals(&memory, SealFlags::SHRINK).expect("sealed");
    let shown = show(
        &mut world,
        &mut host,
        memory.try_clone().expect("once more"),
    );
    host.submit(Submission::SendFile {
        conn,
        file: shown.expect("one to send from"),
        offset: 0,
        len: LEN as u32,
        more: false,
        at: 0,
    });
    for _ in 0..10 {
        world.pass(Duration::from_millis(20));
        world.attend();
    }
    // What was never written is zeros, and takes no memory.
    let mut whole = vec![0; LEN];
    whole[1_000..1_007].copy_from_slice(b"written");
    assert!(world.peer.conns[&peer].bytes == whole);
    let counters = world.worker.counters();
    assert_eq!((counters.file_sends, counters.file_waits), (1, 0));
    assert!(fstat(&memory).expect("facts").st_blocks <= 8);
}

#[test]
fn what_is_lost_is_read_again() {
    let faults = Faults {
        loss: 0.05,
        ..Faults::NONE
    };
    let link = LinkConfig {
        faults,
        seed: 11,
        ..LinkConfig::default()
    };
    let Some(mut scene) = scene(Config::default(), link, "lost") else {
        return;
    };
    scene.send(0, LEN);
    scene.pass(500);
    assert!(
        scene.arrived() == scene.disk.1,
        "{} bytes",
        scene.arrived().len()
    );
    assert!(scene.world.worker.stack().counters().retransmitted_segments > 0);
}

#[test]
fn what_is_not_in_memory_is_fetched_while_others_go_on() {
    let Some(mut scene) = Scene::plain("away") else {
        return;
    };
    scene.disk.put_away();
    scene.send(0, LEN);
    scene.world.settle();
    if scene.world.worker.counters().file_waits == 0 {
        skipped("this kernel keeps files in memory");
        return;
    }
    let (mut other, conn, peer) = scene.world.connected();
    other.send(conn, b"goes on", 0);
    scene.world.settle();
    assert_eq!(scene.world.peer.conns[&peer].bytes, b"goes on");
    scene.pass(20);
    assert!(
        scene.arrived() == scene.disk.1,
        "{} bytes",
        scene.arrived().len()
    );
}

/// Bytes that this thread has had disks read (proc_pid_io(5)), if the kernel counts them.
fn had_read() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    let line = counts
        .lines()
        .find_map(|it| it.strip_prefix("read_bytes: "));
    line?.parse().ok()
}

#[test]
fn what_is_read_ahead_is_read_by_others() {
    const MIB: usize = 1 << 20;
    let Some(mut scene) = Scene::plain("ahead") else {
        return;
    };
    scene.disk = OnDisk::of("far-ahead", 8 * MIB);
    let file = scene.disk.open();
    scene.file = show(&mut scene.world, &mut scene.host, file).expect("shown");
    scene.disk.put_away();
    if had_read().is_none() {
        skipped("this kernel does not count what a thread reads");
        return;
    }
    let count = || had_read().expect("counted");
    scene.send(0, 8 * MIB);
    let (mut by_worker, mut by_others) = (0, 0);
    let mut behind = None;
    for _ in 0..20_000 {
        let before = count();
        scene.world.worker.turn(scene.world.now);
        let after = count();
        by_worker += after - before;
        scene.world.peer.turn(scene.world.now);
        scene.world.desk.attend();
        scene.world.worker.attend(scene.world.now);
        by_others += count() - after;
        let arrived = scene.arrived().len();
        if arrived == 8 * MIB {
            break;
        }
        let read = by_worker + by_others;
        if arrived > MIB / 2 && read < 2 * MIB as u64 {
            behind.get_or_insert((read, arrived));
        }
        scene.world.now += Duration::from_millis(1);
    }
    assert!(scene.arrived() == scene.disk.1);
    if by_worker + by_others < 8 * MIB as u64 {
        // What the kernel keeps in memory, or some of it, nobody reads.
        skipped("this kernel keeps files in memory");
        return;
    }
    assert_eq!(
        behind, None,
        "bytes that were read when so many had arrived"
    );
    // What it asked for when it found nothing, and a page on either side.
    assert!(by_worker <= 66_000 + 2 * 4096, "{by_worker} bytes");
}

#[test]
fn a_file_that_has_become_shorter_ends_its_connection_alone() {
    for left in [0, 70_000] {
        let Some(mut scene) = Scene::plain("shorter") else {
            return;
        };
        scene.disk.shorten(left);
        scene.send(0, LEN);
        scene.pass(5);
        scene.host.collect();
        let errno = Errno::CONNABORTED.raw_os_error() as u16;
        assert_eq!(scene.host.failure(scene.conn), Some(errno));
        let ended = scene.world.peer.conns[&scene.peer].update.failed;
        assert_eq!(ended, Some(tcp::Failure::Reset));
        assert!(
            scene.arrived().len() as u64 <= left,
            "no byte that was not there"
        );
        let counters = scene.world.worker.counters();
        assert_eq!((counters.violations, counters.files_short), (0, 1));
        // The session goes on.
        let (mut other, conn, peer) = scene.world.connected();
        let file = show(&mut scene.world, &mut other, scene.disk.open()).expect("shown");
        other.submit(Submission::SendFile {
            conn,
            file,
            offset: 0,
            len: left as u32,
            more: false,
            at: 0,
        });
        scene.world.pass(Duration::from_millis(100));
        assert!(scene.world.peer.conns[&peer].bytes == scene.disk.1[..left as usize]);
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_fetched_ends_its_connection_alone() {
    let Some(mut scene) = Scene::plain("cut") else {
        return;
    };
    scene.disk.put_away();
    scene.send(200_000, 50_000);
    scene.world.worker.turn(scene.world.now);
    scene.disk.shorten(3);
    scene.pass(5);
    let ended = scene.world.peer.conns[&scene.peer].update.failed;
    assert_eq!(ended, Some(tcp::Failure::Reset));
    assert_eq!(scene.world.worker.counters().files_short, 1);
}

#[test]
fn forgetting_too_early_ends_the_connection_alone() {
    let Some(mut scene) = Scene::plain("early") else {
        return;
    };
    scene.send(0, LEN);
    scene
        .host
        .submit(Submission::ForgetFile { file: scene.file });
    scene.pass(5);
    let ended = scene.world.peer.conns[&scene.peer].update.failed;
    assert_eq!(ended, Some(tcp::Failure::Reset));
    assert_eq!(scene.world.worker.counters().violations, 0);
    // What was never shown, or is not there any more, ends the session.
    scene
        .host
        .submit(Submission::ForgetFile { file: scene.file });
    scene.is_ended();
}

#[test]
fn a_file_that_was_never_shown_ends_the_session() {
    for file in [1, 2_048, u16::MAX] {
        let Some(mut scene) = Scene::plain("never") else {
            return;
        };
        scene.file = file;
        scene.send(0, 1);
        scene.is_ended();
    }
}

#[test]
fn bytes_beyond_the_end_of_any_file_end_the_session() {
    for offset in [u64::MAX, (1 << 40) - 1, 1 << 63] {
        let Some(mut scene) = Scene::plain("beyond") else {
            return;
        };
        scene.send(offset, 1);
        scene.is_ended();
    }
}

#[test]
fn bytes_that_a_file_does_not_have_end_the_connection_alone() {
    for (offset, len) in [(LEN as u64, 1), ((1 << 40) - 9, 7), (0, 1 << 30)] {
        let Some(mut scene) = Scene::plain("behind") else {
            return;
        };
        scene.send(offset, len);
        scene.pass(20);
        let ended = scene.world.peer.conns[&scene.peer].update.failed;
        assert_eq!(ended, Some(tcp::Failure::Reset), "{len} at {offset}");
        assert_eq!(scene.world.worker.counters().violations, 0);
    }
}

#[test]
fn files_are_limited_and_their_places_come_back() {
    let mut config = Config::default();
    config.limits.files = 3;
    let Some(mut scene) = scene(config, LinkConfig::default(), "limit") else {
        return;
    };
    let show_one = |scene: &mut Scene| {
        let file = scene.disk.open();
        show(&mut scene.world, &mut scene.host, file)
    };
    assert_eq!(show_one(&mut scene), Ok(1));
    assert_eq!(show_one(&mut scene), Ok(2));
    assert_eq!(show_one(&mut scene), Err(Errno::MFILE));
    assert_eq!(scene.world.desk.counters().dropped(Reason::FilesFull), 1);
    scene.host.submit(Submission::ForgetFile { file: 1 });
    scene.pass(1);
    assert_eq!(show_one(&mut scene), Ok(1));
    // Those of a session that has ended come back, too, when nothing of them is under way any more.
    scene.send(0, LEN);
    drop(scene.host.channel);
    scene.world.attend();
    for _ in 0..20 {
        scene.world.pass(Duration::from_millis(20));
        scene.world.attend();
    }
    assert!(scene.world.peer.conns[&scene.peer].bytes == scene.disk.1);
    assert!(scene.world.peer.conns[&scene.peer].update.peer_closed);
    scene
        .world
        .peer
        .request(scene.world.now, scene.peer, tcp::Request::Close);
    scene.world.pass(Duration::from_secs(1));
    scene.world.attend();
    let mut host = scene.world.attach(None);
    for name in 0..3 {
        let file = scene.disk.open();
        assert_eq!(show(&mut scene.world, &mut host, file), Ok(name));
    }
}

#[test]
fn what_is_no_file_is_refused_and_nothing_else_happens() {
    let Some(mut scene) = Scene::plain("no-file") else {
        return;
    };
    let nothing = scene
        .world
        .request(&mut scene.host, &Request::File, Fds::new());
    assert!(matches!(nothing.0, Reply::Error { .. }));
    let device = File::open("/dev/zero").expect("a device");
    assert_eq!(
        show(&mut scene.world, &mut scene.host, device),
        Err(Errno::BADF)
    );
    let of_nobodys_disk = File::open("/proc/self/status").expect("readable");
    let refused = show(&mut scene.world, &mut scene.host, of_nobodys_disk);
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
    scene.send(5, 5);
    scene.pass(1);
    assert_eq!(scene.arrived(), &scene.disk.1[5..10]);
}
