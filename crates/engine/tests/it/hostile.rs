//! Hosts that lie, die and leave; frames and demands beyond every limit. Whatever one of them
//! does, the others do not notice.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use engine::stats::Drop;
use netdev::sim::LinkConfig;
use queue_pair::control::{Channel, Fds, Reply, Request, VERSION};
use queue_pair::{Completion, ConnRef, ConnectBlock, Submission};
use rustix::fs::{FallocateFlags, fallocate};

/// A world with a victim that has a connection of its own, and a liar with one too.
struct Scene {
    world: World,
    victim: Host,
    victims: (ConnRef, tcp::ConnId),
    liar: Host,
    liars: (ConnRef, tcp::ConnId),
}

fn scene() -> Scene {
    let mut world = World::new();
    let (victim, conn, peer) = world.connected();
    let (liar, liars_conn, liars_peer) = world.connected();
    Scene {
        world,
        victim,
        victims: (conn, peer),
        liar,
        liars: (liars_conn, liars_peer),
    }
}

impl Scene {
    /// The liar's session has ended, and the victim's connection works.
    fn only_the_liar_is_gone(mut self) {
        self.world.pass(Duration::from_secs(1));
        assert_eq!(self.world.worker.counters().violations, 1);
        assert_eq!(self.world.worker.sessions(), 1, "its memory is free");
        let ended = self.world.peer.conns[&self.liars.1].update.failed;
        assert_eq!(ended, Some(tcp::Failure::Reset));
        let closed = self.liar.channel.try_receive::<Reply>();
        assert!(closed.is_err(), "its control connection is closed");
        self.the_victim_goes_on();
    }

    fn the_victim_goes_on(mut self) {
        let (conn, peer) = self.victims;
        self.world.peer.send(self.world.now, peer, b"still there?");
        self.world.settle();
        self.victim.collect();
        assert_eq!(self.victim.received(conn), b"still there?");
        self.victim.send(conn, b"yes", 12);
        self.world.settle();
        assert_eq!(self.world.peer.conns[&peer].bytes, b"yes");
    }

    fn lie(mut self, submission: Submission) {
        self.liar.submit(submission);
        self.only_the_liar_is_gone();
    }
}

#[test]
fn memory_that_goes_missing_ends_the_session() {
    // What is received is to be placed there, or what is sent is to be found there.
    for receives in [true, false] {
        let mut scene = scene();
        let (conn, peer) = scene.liars;
        queue_pair::lost::lose_pages(&scene.liar.memory).expect("it is mapped");
        if receives {
            let now = scene.world.now;
            scene.world.peer.send(now, peer, b"to nowhere");
            scene.world.settle();
        } else {
            // Its ring is gone as well: all that the engine finds there is zeros.
            scene.liar.send(conn, b"from nowhere", 0);
            scene.world.settle();
        }
        scene.only_the_liar_is_gone();
    }
}

#[test]
fn holes_in_the_memory_hurt_nobody_else() {
    let mut scene = scene();
    let (conn, peer) = scene.liars;
    let len = rustix::fs::fstat(&scene.liar.memory)
        .expect("a file")
        .st_size as u64;
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&scene.liar.memory, hole, 0, len).expect("nothing keeps it from that");
    scene.liar.send(conn, b"after it", 0);
    let now = scene.world.now;
    scene.world.peer.send(now, peer, b"all the same");
    scene.world.pass(Duration::from_secs(1));
    scene.the_victim_goes_on();
}

#[test]
fn a_stale_connection_ends_the_session() {
    let scene = scene();
    let conn = ConnRef {
        generation: scene.liars.0.generation + 1,
        ..scene.liars.0
    };
    scene.lie(Submission::Shutdown { conn, at: 0 });
}

#[test]
fn a_connection_that_never_was_ends_the_session() {
    let conn = ConnRef {
        index: u32::MAX,
        generation: 0,
    };
    scene().lie(Submission::Close {
        conn,
        abort: true,
        at: 0,
    });
}

#[test]
fn somebody_elses_connection_ends_the_session() {
    let scene = scene();
    let conn = scene.victims.0;
    scene.lie(Submission::Close {
        conn,
        abort: true,
        at: 0,
    });
}

#[test]
fn bytes_outside_the_send_area_end_the_session() {
    for addr in [1 << 22, (1 << 22) - 1, u64::MAX, u64::MAX - 3] {
        let scene = scene();
        let conn = scene.liars.0;
        scene.lie(Submission::Send {
            conn,
            addr,
            len: 4,
            more: false,
            consumed: 0,
        });
    }
}

#[test]
fn pieces_under_way_are_limited_and_given_back() {
    let mut config = Config::default();
    config.limits.send_area = 1 << 16;
    let mut world = World::with(config, LinkConfig::default());
    let (mut host, conn, peer) = world.connected();
    // No piece lies behind the one before, so each takes an entry.
    let post = |world: &mut World, host: &mut Host, pieces: u64| {
        for piece in 0..pieces {
            host.submit(Submission::Send {
                conn,
                addr: piece % 8 * 2,
                len: 1,
                more: false,
                consumed: 0,
            });
            if piece % 32 == 31 {
                // The peer has no turn, and acknowledges nothing.
                world.worker.turn(world.now);
            }
        }
    };
    for _ in 0..4 {
        post(&mut world, &mut host, 1024);
        world.pass(Duration::from_secs(1));
        host.collect();
    }
    assert_eq!(world.peer.conns[&peer].update.failed, None);
    assert_eq!(world.peer.conns[&peer].bytes.len(), 4096);
    post(&mut world, &mut host, 1056);
    world.pass(Duration::from_secs(1));
    let ended = world.peer.conns[&peer].update.failed;
    assert_eq!(ended, Some(tcp::Failure::Reset));
}

#[test]
fn consuming_what_was_never_given_ends_the_session() {
    let scene = scene();
    let conn = scene.liars.0;
    scene.lie(Submission::Consumed { conn, total: 1 });
}

#[test]
fn taking_back_what_was_consumed_ends_the_session() {
    let mut scene = scene();
    let (conn, peer) = scene.liars;
    scene.world.peer.send(scene.world.now, peer, b"four");
    scene.world.settle();
    scene.liar.submit(Submission::Consumed { conn, total: 4 });
    scene.lie(Submission::Consumed { conn, total: 3 });
}

#[test]
fn credit_or_a_bell_for_somebody_elses_listener_ends_the_session() {
    let (listener, bell) = (77, None);
    scene().lie(Submission::NameListenersBell { listener, bell });
    scene().lie(Submission::Credit {
        listener: 77,
        total: 1,
        waits: false,
    });
}

#[test]
fn a_connect_block_outside_the_area_ends_the_session() {
    scene().lie(Submission::Connect {
        token: 1,
        addr: (1 << 22) - 63,
    });
}

#[test]
fn a_connect_block_of_nonsense_ends_the_session() {
    let scene = scene();
    scene
        .liar
        .region
        .send
        .copy_in(0, &[0xff; 64])
        .expect("inside");
    scene.lie(Submission::Connect { token: 1, addr: 0 });
}

#[test]
fn giving_back_somebody_elses_connection_does_nothing() {
    let mut scene = scene();
    let conn = scene.victims.0;
    // It could have been its own a moment ago: an offer that the engine has taken back.
    scene.liar.submit(Submission::GiveBack { conn });
    scene.world.settle();
    assert_eq!(scene.world.worker.counters().violations, 0);
    assert_eq!(scene.world.worker.counters().given_back, 0);
    scene.victim.send(conn, b"still here", 0);
    scene.world.settle();
    assert_eq!(
        scene
            .world
            .worker
            .counters()
            .dropped(engine::stats::Drop::RequestRefused),
        0
    );
}

#[test]
fn a_dead_host_frees_everything_within_a_second() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    host.submit(Submission::Credit {
        listener,
        total: 1000,
        waits: false,
    });
    let mut conns = Vec::new();
    for _ in 0..1000 {
        conns.push(world.connect(&mut host, port));
    }
    // Every third was read and answered, every third was not read, every third is idle.
    for (i, (conn, peer)) in conns.iter().enumerate() {
        match i % 3 {
            0 => {
                world.peer.send(world.now, *peer, b"request");
                world.settle();
                host.collect();
                host.send(*conn, b"response", 7);
            }
            1 => world.peer.send(world.now, *peer, b"unread"),
            _ => host.submit(Submission::Consumed {
                conn: *conn,
                total: 0,
            }),
        }
    }
    world.settle();
    for (i, (conn, _)) in conns.iter().enumerate() {
        if i % 3 == 1 {
            // Touched, so that it is the host's own and not the listener's any more.
            host.submit(Submission::SetOption {
                conn: *conn,
                option: queue_pair::OptionKind::NoDelay,
                value: 1,
            });
        }
    }
    // The last words of the host are still in its ring when it dies.
    let (last, last_peer) = conns[0];
    host.send(last, b", and goodbye", 7);
    drop(host);
    world.attend();
    world.pass(Duration::from_secs(1));
    assert_eq!(world.worker.sessions(), 0, "all of its memory is free");
    for (i, (_, peer)) in conns.iter().enumerate() {
        let at_peer = &world.peer.conns[peer];
        let reset = Some(tcp::Failure::Reset);
        match i % 3 {
            1 => assert_eq!(at_peer.update.failed, reset, "unread data: a reset"),
            _ => assert!(
                at_peer.update.peer_closed,
                "connection {i} ends in good order"
            ),
        }
    }
    assert_eq!(world.peer.conns[&last_peer].bytes, b"response, and goodbye");
    // A new server starts on the same port at once.
    let mut next = world.attach(None);
    let (port, listener) = world.listen(&mut next);
    next.submit(Submission::Credit {
        listener,
        total: 1,
        waits: false,
    });
    world.connect(&mut next, port);
}

#[test]
fn a_dead_host_that_lingers_for_no_time_resets() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    host.submit(Submission::SetOption {
        conn,
        option: queue_pair::OptionKind::Linger,
        value: 1,
    });
    world.settle();
    drop(host);
    world.attend();
    world.pass(Duration::from_millis(100));
    let failed = world.peer.conns[&peer].update.failed;
    assert_eq!(failed, Some(tcp::Failure::Reset));
}

#[test]
fn the_last_words_of_a_dead_host_are_all_heard() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    host.submit(Submission::Credit {
        listener,
        total: 600,
        waits: false,
    });
    let mut conns = Vec::new();
    for _ in 0..600 {
        conns.push(world.connect(&mut host, port));
    }
    // More than the engine takes in a turn, and each close is answered by a notice.
    for (conn, _) in &conns {
        host.send(*conn, b"bye", 0);
        host.close(*conn);
    }
    drop(host);
    world.attend();
    world.pass(Duration::from_secs(1));
    for (_, peer) in &conns {
        assert_eq!(world.peer.conns[peer].bytes, b"bye");
        assert!(world.peer.conns[peer].update.peer_closed);
    }
    assert_eq!(world.worker.sessions(), 0);
}

#[test]
fn what_a_process_did_not_accept_goes_to_another() {
    let mut world = World::new();
    let (mut first, mut second) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut first);
    let other = world.join(&mut second, &first);
    first.submit(Submission::Credit {
        listener,
        total: 2,
        waits: false,
    });
    world.settle();
    let (untouched, peer) = world.offer(&mut first, port);
    let (given, _) = world.offer(&mut first, port);
    world.peer.send(world.now, peer, b"kept");
    world.settle();
    first.submit(Submission::GiveBack { conn: given });
    world.settle();
    first.collect();
    assert!(first.is_released(given));
    drop(first);
    world.attend();
    second.submit(Submission::Credit {
        listener: other,
        total: 9,
        waits: false,
    });
    world.settle();
    second.collect();
    let accepted = second.accepted();
    assert_eq!(accepted.len(), 2, "both came back");
    let same = accepted.iter().find(|conn| **conn == untouched);
    assert_eq!(second.received(*same.expect("the same one")), b"kept");
    assert_eq!(world.worker.counters().given_back, 2);
}

#[test]
fn a_listener_without_processes_resets_what_waits_and_frees_its_port() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    let peer = world.peer.connect(world.now, port);
    world.settle();
    assert_eq!(world.worker.network().steered.len(), 1);
    drop(host);
    world.attend();
    world.pass(Duration::from_secs(1));
    assert_eq!(
        world.peer.conns[&peer].update.failed,
        Some(tcp::Failure::Reset)
    );
    world.attend();
    assert!(world.worker.network().steered.is_empty());
}

#[test]
fn malformed_frames_are_counted_and_nothing_else() {
    use wire::segment::Malformed;
    let mut world = World::new();
    let (_host, _, _) = world.connected();
    // A good frame to begin with: a segment to nobody, from the other side of the link.
    let good = {
        let mut frame = vec![0; 54];
        let headers = wire::segment::Headers {
            link: wire::segment::Link {
                dst: crate::world::ENGINE_MAC,
                ..wire::segment::Link::default()
            },
            src: crate::world::PEER,
            dst: crate::world::ENGINE,
            hop_limit: 64,
            dscp: 0,
            ecn: wire::ip::Ecn::NotCapable,
            tcp: wire::tcp::Repr {
                src_port: 1,
                dst_port: 2,
                seq: wire::seq::SeqNumber(1),
                ack: None,
                flags: wire::tcp::Flags::RST,
                window: 0,
                options: wire::tcp::Options::default(),
            },
        };
        let sum = wire::segment::TcpChecksum::Complete(wire::checksum::Sum::ZERO);
        headers.emit(0, sum, &mut frame).expect("fits");
        frame
    };
    let mangled = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    let cases = [
        (good[..10].to_vec(), Malformed::EthernetTruncated),
        (mangled(12, 0x99), Malformed::NotIp),
        (good[..20].to_vec(), Malformed::IpTruncated),
        (mangled(14, 0x65), Malformed::IpVersion),
        (mangled(14, 0x41), Malformed::Ipv4HeaderLength),
        (mangled(24, 0xff), Malformed::Ipv4Checksum),
        (mangled(50, 0xff), Malformed::TcpChecksum),
        (mangled(46, 0x10), Malformed::TcpDataOffset),
    ];
    for (frame, reason) in cases {
        let before = world.worker.counters().refused_frames(reason);
        world.peer.inject(&frame);
        world.settle();
        let after = world.worker.counters().refused_frames(reason);
        assert_eq!(after, before + 1, "{reason}");
    }
    // And every prefix and every single byte changed: whatever they are, nothing falls over.
    for cut in 0..good.len() {
        world.peer.inject(&good[..cut]);
        world.peer.inject(&mangled(cut, !good[cut]));
        world.settle();
    }
}

#[test]
fn limits_are_hit_and_said() {
    let mut config = Config::default();
    config.limits.sessions = 2;
    config.limits.connections = 3;
    config.limits.control_connections = 8;
    let mut world = World::with(config, LinkConfig::default());
    let (mut host, _, _) = world.connected();
    let _second = world.attach(None);
    let mut third = world.dial();
    let attach = Request::Attach {
        version: VERSION,
        oldest: None,
        program: "one too many".to_owned(),
        fork_token: None,
    };
    let (reply, _) = world.ask(&mut third, &attach, Fds::new());
    assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");

    let port = host.kernel[0].local_addr().expect("bound").port();
    for _ in 0..4 {
        world.peer.connect(world.now, port);
        world.settle();
    }
    host.collect();
    assert_eq!(host.accepted().len(), 3, "as many as the limit says");
    let dropped = world.worker.stack().counters();
    assert!(dropped.dropped(tcp::DropReason::ConnectionsFull) > 0);
}

#[test]
fn data_out_of_order_goes_first_when_memory_is_short() {
    let mut config = Config::default();
    config.limits.receive_area = 1 << 16;
    // Whenever a segment is lost, those after it are out of order and fill what is left.
    let faults = netdev::faults::Faults {
        loss: 0.02,
        ..netdev::faults::Faults::NONE
    };
    let link = LinkConfig {
        faults,
        seed: 3,
        ..LinkConfig::default()
    };
    let mut world = World::with(config, link);
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    host.submit(Submission::Credit {
        listener,
        total: 2,
        waits: false,
    });
    let reader = world.peer.connect(world.now, port);
    world.peer.send(world.now, reader, &[1; 52_000]);
    world.pass(Duration::from_secs(5));
    host.collect();
    let unread = host.accepted()[0];
    assert_eq!(host.received(unread).len(), 52_000, "and it stays unread");
    let peer = world.peer.connect(world.now, port);
    world.pass(Duration::from_secs(5));
    host.collect();
    let conn = host.accepted()[1];
    let data: Vec<u8> = (0..300_000u32).map(|i| (i / 5) as u8).collect();
    world.peer.send(world.now, peer, &data);
    let mut got = Vec::new();
    for _ in 0..20_000 {
        world.pass(Duration::from_millis(5));
        host.collect();
        let fresh = host.received(conn);
        host.completions.clear();
        if !fresh.is_empty() {
            got.extend(fresh);
            let total = got.len() as u64;
            host.submit(Submission::Consumed { conn, total });
        }
        if got.len() >= data.len() {
            break;
        }
    }
    assert!(got == data, "{} of {} bytes", got.len(), data.len());
    assert!(world.worker.stack().counters().out_of_order_shed > 0);
}

#[test]
fn an_unintelligible_control_message_ends_that_session_alone() {
    let mut scene = scene();
    scene
        .liar
        .channel
        .send(&"gibberish", Fds::new())
        .expect("sent");
    scene.world.attend();
    scene.only_the_liar_is_gone();
}

#[test]
fn an_old_version_is_told_apart() {
    let mut world = World::new();
    let mut channel: Channel = world.dial();
    let request = Request::Attach {
        version: VERSION + 1,
        oldest: None,
        program: "from the future".to_owned(),
        fork_token: None,
    };
    let (reply, _) = world.ask(&mut channel, &request, Fds::new());
    let Reply::Error { message, .. } = reply else {
        panic!("{reply:?}");
    };
    assert!(message.contains("version"), "{message}");
}

#[test]
fn a_full_receive_area_stalls_the_sender_and_loses_nothing() {
    let mut config = Config::default();
    config.limits.receive_area = 1 << 16;
    let mut world = World::with(config, LinkConfig::default());
    let (mut host, conn, peer) = world.connected();
    let data: Vec<u8> = (0..400_000u32).map(|i| (i / 3) as u8).collect();
    world.peer.send(world.now, peer, &data);
    let mut got = Vec::new();
    for _ in 0..20_000 {
        world.pass(Duration::from_millis(5));
        host.collect();
        let fresh = host.received(conn);
        host.completions.clear();
        if !fresh.is_empty() {
            got.extend(fresh);
            let total = got.len() as u64;
            host.submit(Submission::Consumed { conn, total });
        }
        if got.len() >= data.len() {
            break;
        }
    }
    assert!(got == data, "{} of {} bytes", got.len(), data.len());
}

#[test]
fn listening_again_and_again_is_bounded() {
    let mut config = Config::default();
    config.limits.listeners = 4;
    let mut world = World::with(config, LinkConfig::default());
    let (mut host, ..) = world.connected();
    // The same socket is shown each time.
    let addr = host.kernel[0].local_addr().expect("bound");
    for more in [true, true, true, false] {
        let request = Request::Listen {
            addr,
            v6only: false,
            backlog: 1,
            pinned: false,
        };
        let shown: OwnedFd = host.kernel[0].try_clone().expect("descriptors").into();
        let (reply, _) = world.request(&mut host, &request, [shown].into_iter().collect());
        let joined = matches!(reply, Reply::Listening { .. });
        assert_eq!(joined, more, "{reply:?}");
    }
    assert_eq!(world.worker.counters().dropped(Drop::ListenersFull), 1);
}

#[test]
fn who_is_one_session_too_many_is_told_which_limit_it_met() {
    let mut config = Config::default();
    config.limits.sessions = 4;
    config.limits.sessions_per_user = 2;
    let mut world = World::with(config, LinkConfig::default());
    // Its share does not bind while there is plenty.
    let _hosts = [(); 3].map(|()| world.attach(None));
    let mut channel = world.dial();
    let request = Request::Attach {
        version: VERSION,
        oldest: None,
        program: "fourth".to_owned(),
        fork_token: None,
    };
    let (reply, _) = world.ask(&mut channel, &request, Fds::new());
    let Reply::Error { message, .. } = reply else {
        panic!("{reply:?}");
    };
    assert!(message.contains("limits.sessions_per_user"), "{message}");
    assert_eq!(world.desk.counters().dropped(Drop::SessionsOfUser), 1);
    assert_eq!(world.worker.sessions(), 3);
}

#[test]
fn a_connect_that_finds_no_port_is_counted() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let block = ConnectBlock::new(std::net::SocketAddr::new(crate::world::PEER, 7000));
    host.region
        .send
        .copy_in(0, &block.encode())
        .expect("inside");
    host.submit(Submission::Connect { token: 5, addr: 0 });
    world.settle();
    host.collect();
    let errno = rustix::io::Errno::ADDRNOTAVAIL.raw_os_error() as u16;
    let failed = [Completion::OpenFailed { token: 5, errno }];
    assert_eq!(host.completions, failed);
    assert_eq!(world.worker.counters().dropped(Drop::PortsFull), 1);
}
