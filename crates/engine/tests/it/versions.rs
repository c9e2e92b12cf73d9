//! Programs and engines of different versions: they agree on one, or say in words why not.

use std::os::fd::AsFd;

use std::time::Duration;

use crate::frozen::{Frozen, say};
use crate::world::{Host, PEER, World};
use queue_pair::control::{Fds, Reply, Request, VERSION};
use queue_pair::parked::{self, Wants};
use queue_pair::{Completion, ConnRef, ConnectBlock, FastOpen, Submission, Versions, region, room};

/// A program that was built when version 6 was frozen serves a connection of this engine's.
fn serves_a_program_of_version_6(world: &mut World) {
    let socket = world.dial_bare();
    say(&socket, crate::frozen::attach(), &[]);
    world.attend();
    let mut program = Frozen::attached(socket);
    let port = program.listen().port();
    world.attend();
    program.listening();
    let peer = world.peer.connect(world.now, port);
    world.settle();
    let conn = program.accept();
    world.peer.send(world.now, peer, b"ping");
    world.settle();
    assert_eq!(program.read(conn), b"ping");
    program.send(conn, b"pong!", 4);
    world.settle();
    assert_eq!(world.peer.conns[&peer].bytes, b"pong!");
    world.peer.request(world.now, peer, tcp::Request::Close);
    world.settle();
    program.close(conn);
    world.pass(Duration::from_millis(50));
    assert!(program.is_released(conn));
}

#[test]
fn a_program_of_version_6_attaches_and_serves() {
    serves_a_program_of_version_6(&mut World::new());
}

#[test]
fn an_engine_of_the_next_version_goes_on_with_programs_of_this_one() {
    let mut world = World::speaking(Versions {
        newest: VERSION + 1,
        ..Versions::SPOKEN
    });
    serves_a_program_of_version_6(&mut world);
    let (mut host, conn, peer) = world.connected();
    host.send(conn, b"as ever", 0);
    world.settle();
    assert_eq!(world.peer.conns[&peer].bytes, b"as ever");
}

#[test]
fn a_program_of_the_next_version_falls_back_to_this_one() {
    let mut world = World::new();
    let mut channel = world.dial();
    let request = Request::Attach {
        version: VERSION + 1,
        oldest: Some(VERSION),
        program: "from the future".to_owned(),
        fork_token: None,
    };
    let (reply, fds) = world.ask(&mut channel, &request, Fds::new());
    let Reply::Attached { version, .. } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(version, Some(VERSION), "it is told");
    let mut host = world.host(channel, fds);
    assert_eq!(host.region.layout.version, VERSION);
    let (conn, peer) = world.serving(&mut host);
    host.send(conn, b"in the old way", 0);
    world.settle();
    assert_eq!(world.peer.conns[&peer].bytes, b"in the old way");
}

#[test]
fn a_region_of_another_version_is_refused_by_the_program() {
    let sizes = queue_pair::Sizes::default();
    let layout = queue_pair::Layout::new(sizes).expect("a layout");
    let oldest = Versions::SPOKEN.oldest;
    for (version, taken) in [
        (VERSION, true),
        (oldest, true),
        (VERSION + 1, false),
        (oldest - 1, false),
    ] {
        let (fd, _engine) = region::create(&layout.of_version(version)).expect("memory");
        assert_eq!(region::attach(fd.as_fd()).is_ok(), taken, "{version}");
    }
}

#[test]
fn who_has_no_version_in_common_is_told_in_words_counted_and_explained() {
    let mut world = World::new();
    let mut attempt = |version: u32, oldest: Option<u32>| {
        let mut channel = world.dial();
        let request = Request::Attach {
            version,
            oldest,
            program: "stranger".to_owned(),
            fork_token: None,
        };
        let (reply, _) = world.ask(&mut channel, &request, Fds::new());
        let Reply::Error { errno, message } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(errno, rustix::io::Errno::PROTONOSUPPORT.raw_os_error());
        let explain = Request::Explain {
            pid: std::process::id(),
        };
        let reply = world.ask_once(&explain);
        let Reply::Explained(explained) = reply else {
            panic!("{reply:?}");
        };
        let told: Vec<&str> = explained.iter().map(|one| one.reason.as_str()).collect();
        // Once for a process, however often it tries; and the channel that asked is gone by then.
        assert_eq!(told, [message.as_str()]);
        message
    };
    let ours = Versions::SPOKEN;
    let old = attempt(ours.oldest - 1, Some(ours.oldest - 3));
    let theirs = format!("versions {} to {}", ours.oldest - 3, ours.oldest - 1);
    assert!(
        old.contains(&theirs) && old.contains(&ours.to_string()),
        "{old}"
    );
    assert!(old.contains("start the program again"), "{old}");
    let new = attempt(VERSION + 2, Some(VERSION + 1));
    assert!(new.contains("start the engine again"), "{new}");
    let reply = world.ask_once(&Request::Stats);
    let Reply::Stats(metrics) = reply else {
        panic!("{reply:?}");
    };
    let label = ("reason".to_owned(), "other_version".to_owned());
    let counted = metrics
        .iter()
        .find(|metric| metric.name == "dropped" && metric.labels == [label.clone()]);
    assert_eq!(counted.map(|metric| metric.value), Some(2.0));
    // Attached, it is a stranger no longer.
    let _host = world.attach(None);
    let explain = Request::Explain {
        pid: std::process::id(),
    };
    let reply = world.ask_once(&explain);
    assert_eq!(reply, Reply::Explained(Vec::new()));
}

/// A program that speaks this version alone, with a connection.
fn connected_by(world: &mut World, version: u32) -> (Host, ConnRef) {
    let mut host = world.attach_of(version);
    let (conn, _) = world.serving(&mut host);
    (host, conn)
}

/// Its threads sleep by words that say what they are woken for, and not for how much room.
#[test]
fn a_program_of_before_there_were_words_for_both_is_woken_by_those_it_has() {
    let mut world = World::new();
    let (mut host, conn) = connected_by(&mut world, room::SLEEPERS_SAY_SINCE - 1);
    for wants in [Wants::Urgent, Wants::All] {
        host.send(conn, &[7; 100_000], 0);
        let word = host.region.positions.sleeper(conn.index);
        let word = word.expect("a place");
        parked::set(word, wants);
        room::say_if_awake(word, room::Awaits::Nothing);
        assert!(parked::is_asleep(word));
        world.pass(Duration::from_millis(50));
        assert!(!parked::is_asleep(word), "{wants:?}");
        host.collect();
    }
}

/// Whether that ends the session of a program which has agreed on a version.
fn is_breach(version: u32, said: impl FnOnce(&mut Host, ConnRef)) -> bool {
    let mut world = World::new();
    let (mut host, conn) = connected_by(&mut world, version);
    said(&mut host, conn);
    world.pass(Duration::from_millis(50));
    let counted = world.worker.counters().violations;
    assert_eq!(world.worker.sessions(), usize::from(counted == 0));
    counted == 1
}

/// A word of a submission on a connection.
type Word = fn(ConnRef) -> Submission;

#[test]
fn what_came_later_than_the_version_that_was_agreed_on_ends_the_session() {
    for version in Versions::SPOKEN.oldest..=VERSION {
        let words: [(Word, u32); 5] = [
            (|conn| Submission::ShutdownRead { conn }, 7),
            (
                |conn| Submission::Post {
                    conn,
                    addr: 0,
                    len: 1,
                    from: 0,
                },
                7,
            ),
            (|conn| Submission::LetSynGo { conn }, 9),
            (|conn| Submission::TakeError { conn }, 11),
            (|conn| Submission::NonBlocking { conn, on: true }, 11),
        ];
        for (word, since) in words {
            let refused = is_breach(version, |host, conn| host.submit(word(conn)));
            assert_eq!(refused, since > version, "{since} at {version}");
        }
        for (fast_open, since) in [(FastOpen::No, 0), (FastOpen::Hold, 7), (FastOpen::Ask, 9)] {
            let refused = is_breach(version, |host, _| {
                let block = ConnectBlock {
                    fast_open,
                    ..ConnectBlock::new((PEER, 7_000).into())
                };
                let bytes = block.encode();
                host.region.send.copy_in(0, &bytes).expect("inside");
                host.submit(Submission::Connect { token: 1, addr: 0 });
            });
            assert_eq!(refused, since > version, "{fast_open:?} at {version}");
        }
    }
}

#[test]
fn who_speaks_an_earlier_version_is_told_of_no_flag() {
    let mut world = World::new();
    let (mut parent, conn) = connected_by(&mut world, 10);
    let (reply, _lifeline) = world.request(&mut parent, &Request::Fork, Fds::new());
    let Reply::Forked { token } = reply else {
        panic!("{reply:?}");
    };
    let mut child = world.attach(Some(token));
    child.submit(Submission::NonBlocking { conn, on: true });
    world.settle();
    parent.collect();
    let is_flag = |it: &Completion| matches!(it, Completion::NonBlocking { .. });
    assert!(!parent.completions.iter().any(is_flag));
    assert_eq!(world.worker.sessions(), 2);
}
