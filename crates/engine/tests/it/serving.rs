//! A whole engine over a simulated link: connections are handed over, data goes both ways, and
//! everything ends as it should.

use std::time::Duration;

use crate::world::{ENGINE, PEER, World};
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, ConnectBlock, OptionKind, Submission, position};

#[test]
fn a_request_is_answered_with_one_submission_and_one_completion() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    host.completions.clear();
    world.peer.send(world.now, peer, b"ping");
    world.settle();
    host.collect();
    assert_eq!(host.completions.len(), 1, "{:?}", host.completions);
    assert_eq!(host.received(conn), b"ping");
    host.send(conn, b"pong!", 4);
    world.settle();
    assert_eq!(world.peer.conns[&peer].bytes, b"pong!");
    // The peer delays its acknowledgement.
    world.pass(Duration::from_millis(50));
    host.collect();
    assert!(
        matches!(
            host.completions.last(),
            Some(Completion::Update {
                acked: 5,
                len: 0,
                ..
            })
        ),
        "{:?}",
        host.completions
    );
}

#[test]
fn a_megabyte_comes_back_as_it_went() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    let data: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    world.peer.send(world.now, peer, &data);
    let mut echoed = Vec::new();
    for _ in 0..10_000 {
        world.pass(Duration::from_millis(1));
        host.collect();
        let fresh = host.received(conn);
        host.completions.clear();
        if !fresh.is_empty() {
            echoed.extend_from_slice(&fresh);
            host.send(conn, &fresh, echoed.len() as u64);
        }
        if world.peer.conns[&peer].bytes.len() == data.len() {
            break;
        }
    }
    assert!(
        world.peer.conns[&peer].bytes == data,
        "equal bytes both ways"
    );
}

#[test]
fn data_that_arrives_before_the_connection_is_handed_over_is_kept() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    let peer = world.peer.connect(world.now, port);
    world.settle();
    world.peer.send(world.now, peer, b"early");
    world.settle();
    host.collect();
    assert_eq!(host.completions, [], "nothing is handed over unasked");
    host.submit(Submission::Credit {
        listener,
        total: 1,
        waits: false,
    });
    world.settle();
    host.collect();
    let conn = host.accepted()[0];
    assert_eq!(host.received(conn), b"early");
}

#[test]
fn a_peer_that_closes_is_announced_with_its_last_bytes() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    world.peer.send(world.now, peer, b"bye");
    world
        .peer
        .request(world.now, peer, tcp::Request::ShutdownWrite);
    world.settle();
    host.collect();
    assert_eq!(host.received(conn), b"bye");
    assert!(host.peer_closed(conn));
    host.send(conn, b"you too", 3);
    host.close(conn);
    world.pass(Duration::from_secs(1));
    host.collect();
    assert!(host.is_released(conn));
    let at_peer = &world.peer.conns[&peer];
    assert_eq!(at_peer.bytes, b"you too");
    assert!(at_peer.update.peer_closed);
}

#[test]
fn a_close_with_unread_data_is_a_reset() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    world.peer.send(world.now, peer, b"never read");
    world.settle();
    host.close(conn);
    world.pass(Duration::from_secs(1));
    host.collect();
    assert!(host.is_released(conn));
    let failed = world.peer.conns[&peer].update.failed;
    assert_eq!(failed, Some(tcp::Failure::Reset));
}

#[test]
fn a_reset_is_told_as_connection_reset() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    world.peer.request(world.now, peer, tcp::Request::Abort);
    world.settle();
    host.collect();
    let reset = rustix::io::Errno::CONNRESET.raw_os_error() as u16;
    assert_eq!(host.failure(conn), Some(reset));
    host.close(conn);
    world.settle();
    host.collect();
    assert!(host.is_released(conn));
}

#[test]
fn ten_thousand_connections_in_sequence_leave_nothing_behind() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    for round in 1..=10_000u32 {
        host.submit(Submission::Credit {
            listener,
            total: round,
            waits: false,
        });
        let (conn, peer) = world.connect(&mut host, port);
        world.peer.request(world.now, peer, tcp::Request::Abort);
        host.submit(Submission::Close {
            conn,
            abort: true,
            at: 0,
        });
        world.settle();
        host.collect();
        assert!(host.is_released(conn), "round {round}");
        host.completions.clear();
    }
    assert_eq!(world.worker.stack().connection_count(), 0);
}

#[test]
fn what_was_sent_leaves_before_a_reset() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    // Both are in the ring before the engine looks.
    host.send(conn, b"last words", 0);
    host.submit(Submission::Close {
        conn,
        abort: true,
        at: 0,
    });
    world.settle();
    assert_eq!(world.peer.conns[&peer].bytes, b"last words");
    let failed = world.peer.conns[&peer].update.failed;
    assert_eq!(failed, Some(tcp::Failure::Reset));
}

/// Its process ends with something unread, before the engine looks.
#[test]
fn what_was_sent_leaves_before_the_reset_of_a_process_that_ends() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    world.peer.send(world.now, peer, b"unread");
    world.settle();
    host.send(conn, b"last words", 0);
    drop(host);
    world.attend();
    world.settle();
    assert_eq!(world.peer.conns[&peer].bytes, b"last words");
    let failed = world.peer.conns[&peer].update.failed;
    assert_eq!(failed, Some(tcp::Failure::Reset));
}

//~ RFC 9293 MUST-44
#[test]
fn a_connection_is_opened_from_a_leased_port() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let listener = world.peer.listen(7000);
    let block = ConnectBlock {
        local: std::net::SocketAddr::new(ENGINE, 20_000),
        ..ConnectBlock::new(std::net::SocketAddr::new(PEER, 7000))
    };
    host.region
        .send
        .copy_in(0, &block.encode())
        .expect("inside");
    host.submit(Submission::Connect { token: 99, addr: 0 });
    world.settle();
    host.collect();
    let Some(Completion::Opened {
        token, conn, local, ..
    }) = host.completions.first().copied()
    else {
        panic!("not opened: {:?}", host.completions);
    };
    assert_eq!((token, local.port()), (99, 20_000));
    let accepted = world.peer.stack.accept(listener).expect("at the peer");
    host.send(conn, b"hello", 0);
    world.settle();
    assert_eq!(world.peer.conns[&accepted].bytes, b"hello");
}

#[test]
fn a_refused_connection_says_so() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let block = ConnectBlock {
        local: std::net::SocketAddr::new(ENGINE, 20_001),
        ..ConnectBlock::new(std::net::SocketAddr::new(PEER, 7001))
    };
    host.region
        .send
        .copy_in(0, &block.encode())
        .expect("inside");
    host.submit(Submission::Connect { token: 5, addr: 0 });
    world.settle();
    host.collect();
    let errno = rustix::io::Errno::CONNREFUSED.raw_os_error() as u16;
    assert_eq!(
        host.completions,
        [Completion::OpenFailed { token: 5, errno }]
    );
    assert_eq!(world.worker.stack().connection_count(), 0);
}

#[test]
fn connecting_to_a_local_address_is_left_to_the_kernel() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let block = ConnectBlock::new(std::net::SocketAddr::new(ENGINE, 80));
    host.region
        .send
        .copy_in(0, &block.encode())
        .expect("inside");
    host.submit(Submission::Connect { token: 5, addr: 0 });
    world.settle();
    host.collect();
    let errno = rustix::io::Errno::OPNOTSUPP.raw_os_error() as u16;
    assert_eq!(
        host.completions,
        [Completion::OpenFailed { token: 5, errno }]
    );
}

#[test]
fn two_processes_share_a_listener_and_take_turns() {
    let mut world = World::new();
    let (mut first, mut second) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut first);
    let other = world.join(&mut second, &first);
    assert_ne!(listener, other, "each socket has its own name");
    for (host, listener) in [(&mut first, listener), (&mut second, other)] {
        host.submit(Submission::Credit {
            listener,
            total: 5,
            waits: false,
        });
    }
    world.settle();
    for _ in 0..6 {
        world.peer.connect(world.now, port);
        world.settle();
    }
    first.collect();
    second.collect();
    assert_eq!((first.accepted().len(), second.accepted().len()), (3, 3));
}

#[test]
fn a_port_without_proof_is_refused() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let request = Request::Listen {
        addr: "0.0.0.0:80".parse().unwrap(),
        v6only: false,
        backlog: 1,
        pinned: false,
    };
    let (reply, _) = world.request(&mut host, &request, Fds::new());
    assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
    assert!(world.worker.network().steered.is_empty());
}

#[test]
fn send_memory_is_free_when_its_bytes_are_acknowledged_however_long_the_peer_lingers() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    host.send(conn, &[7; 100_000], 0);
    host.close(conn);
    // The peer takes everything and does not close.
    world.pass(Duration::from_millis(500));
    host.collect();
    assert_eq!(world.peer.conns[&peer].bytes.len(), 100_000);
    assert!(
        host.is_released(conn),
        "although the connection is half closed"
    );
    assert_eq!(world.worker.stack().connection_count(), 1);
    drop(host);
    world.attend();
    assert_eq!(world.worker.sessions(), 0);
}

//~ RFC 9293 MUST-48
#[test]
fn packets_carry_the_traffic_class_that_a_program_has_set() {
    let mut world = World::new();
    let (mut host, conn, _) = world.connected();
    host.send(conn, b"plain", 0);
    // Until it is acknowledged: Nagle would keep the next one back.
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.type_of_service, 0);
    host.submit(Submission::SetOption {
        conn,
        option: OptionKind::TrafficClass,
        value: 0xb9,
    });
    host.send(conn, b"urgent", 0);
    world.settle();
    // The lower two bits are the transport's.
    assert_eq!(world.peer.type_of_service & !0b11, 0xb8);

    world.peer.listen(7_002);
    let block = ConnectBlock {
        local: std::net::SocketAddr::new(ENGINE, 20_001),
        traffic_class: 0x10,
        ..ConnectBlock::new(std::net::SocketAddr::new(PEER, 7_002))
    };
    let bytes = block.encode();
    host.region.send.copy_in(1 << 20, &bytes).expect("inside");
    host.submit(Submission::Connect {
        token: 1,
        addr: 1 << 20,
    });
    world.settle();
    assert_eq!(world.peer.type_of_service, 0x10, "from the SYN on");
}

//~ RFC 9293 MUST-49
#[test]
fn packets_start_with_the_hop_limit_of_the_configuration() {
    let mut config = engine::config::Config::default();
    config.tcp.hop_limit = 33;
    let mut world = World::with(config, netdev::sim::LinkConfig::default());
    world.connected();
    assert_eq!(world.peer.hop_limit, 33);
}

/// An offer that is taken back in the turn in which it was made was never told, and so costs no credit:
/// the process gives more only for what it has heard of.
#[test]
fn an_offer_that_was_never_told_uses_no_credit_up() {
    let mut world = World::new();
    let (mut first, mut second) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut first);
    let other = world.join(&mut second, &first);
    world.peer.connect(world.now, port);
    world.settle();
    // Both ask before the engine looks: the first is offered it, and the second gets it.
    for (host, listener) in [(&mut first, listener), (&mut second, other)] {
        host.submit(Submission::Credit {
            listener,
            total: 1,
            waits: true,
        });
    }
    world.settle();
    second.collect_and_accept();
    assert_eq!(second.accepted().len(), 1);
    first.collect();
    assert!(first.accepted().is_empty());
    assert_eq!(world.worker.counters().offers_retracted, 1);
    // The first still waits for one.
    world.peer.connect(world.now, port);
    world.settle();
    first.collect_and_accept();
    assert_eq!(first.accepted().len(), 1);
}

/// It does not say once more that it waits, as it has heard of nothing: so it keeps its place in the line.
#[test]
fn an_offer_that_was_never_told_costs_no_place_in_the_line() {
    let mut world = World::new();
    let mut first = world.attach(None);
    let (mut second, mut third) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut first);
    let [other, last] = [&mut second, &mut third].map(|host| world.join(host, &first));
    world.peer.connect(world.now, port);
    world.settle();
    let asks = |listener| Submission::Credit {
        listener,
        total: 8,
        waits: true,
    };
    // The second gets in this turn what the first was offered in it; the third asks then.
    first.submit(asks(listener));
    second.submit(asks(other));
    world.settle();
    second.collect_and_accept();
    third.submit(asks(last));
    world.settle();
    world.peer.connect(world.now, port);
    world.settle();
    first.collect_and_accept();
    third.collect_and_accept();
    let counts = [&first, &second, &third].map(|host| host.accepted().len());
    assert_eq!(counts, [1, 1, 0]);
}

/// A process that looks at an offer late finds it gone, though the place of that connection is by then a
/// new one's, which it is offered under the same number of a grant: or that would be nobody's.
#[test]
fn an_offer_that_is_over_is_not_taken_for_the_next_in_its_place() {
    let mut world = World::new();
    let (mut late, mut quick) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut late);
    let other = world.join(&mut quick, &late);
    let credit = |listener, total, waits| Submission::Credit {
        listener,
        total,
        waits,
    };
    late.submit(credit(listener, 32, true));
    world.settle();
    let client = world.peer.connect(world.now, port);
    world.settle();
    late.collect();
    let over = late.accepted()[0];
    let (grant, _) = late.grant(over).expect("offered");
    // Another takes it, and it ends.
    quick.submit(credit(other, 1, true));
    world.settle();
    quick.collect_and_accept();
    assert_eq!(quick.accepted(), [over]);
    quick.submit(Submission::Close {
        conn: over,
        abort: true,
        at: 0,
    });
    world.settle();
    world.peer.request(world.now, client, tcp::Request::Abort);
    world.settle();
    world.peer.connect(world.now, port);
    world.settle();
    // What it has been told since, the late one has not read.
    let word = late.region.positions.word(over.index).expect("a place");
    assert!(
        !position::accept(word, grant, over.generation),
        "it is over"
    );
    late.collect_and_accept();
    let new = late.accepted()[1];
    assert_eq!(new.index, over.index, "the same place");
    assert_eq!(
        late.grant(new).expect("offered").0,
        grant,
        "the same number"
    );
    late.send(new, b"served", 0);
    world.settle();
    assert_eq!(world.worker.counters().violations, 0);
    assert_eq!(world.worker.counters().host_sends, 1);
}

#[test]
fn who_asks_gets_what_others_were_offered_and_have_not_accepted() {
    let mut world = World::new();
    let (mut busy, mut idle) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut busy);
    let other = world.join(&mut idle, &busy);
    let credit = |listener, total, waits| Submission::Credit {
        listener,
        total,
        waits,
    };
    busy.submit(credit(listener, 32, true));
    world.settle();
    for _ in 0..3 {
        world.peer.connect(world.now, port);
        world.settle();
    }
    // It accepts one and works on it, for as long as it likes.
    busy.collect();
    let offered = busy.accepted();
    assert_eq!(offered.len(), 3);
    let grant = |host: &crate::world::Host, conn| host.grant(conn).expect("offered").0;
    let first = offered[0];
    let word = busy.region.positions.word(first.index).expect("a place");
    assert!(position::accept(
        word,
        grant(&busy, first),
        first.generation
    ));
    // The other one asks, finding nothing, again and again.
    for round in 1..=3 {
        idle.submit(credit(other, round, true));
        world.settle();
    }
    idle.collect_and_accept();
    assert_eq!(idle.accepted(), offered[1..], "what was not accepted");
    // Back at its listener, the busy one finds that they are gone, and is told.
    for &conn in &offered[1..] {
        let word = busy.region.positions.word(conn.index).expect("a place");
        assert!(!position::accept(word, grant(&busy, conn), conn.generation));
    }
    busy.collect();
    assert!(offered[1..].iter().all(|conn| busy.is_released(*conn)));
    assert!(!busy.is_released(first));
    busy.send(first, b"done", 0);
    world.settle();
    assert_eq!(world.worker.counters().violations, 0);
    assert_eq!(world.worker.counters().offers_retracted, 2);
}

#[test]
fn who_joins_gets_what_the_only_one_was_offered_before() {
    let mut world = World::new();
    let (mut first, mut second) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut first);
    first.submit(Submission::Credit {
        listener,
        total: 32,
        waits: true,
    });
    world.settle();
    world.peer.connect(world.now, port);
    world.settle();
    first.collect();
    assert_eq!(first.accepted().len(), 1);
    let other = world.join(&mut second, &first);
    second.submit(Submission::Credit {
        listener: other,
        total: 32,
        waits: true,
    });
    world.settle();
    second.collect_and_accept();
    assert_eq!(second.accepted(), first.accepted());
}

#[test]
fn who_asks_gets_what_came_first_though_another_was_offered_it() {
    let mut world = World::new();
    let mut parent = world.attach(None);
    let (port, listener) = world.listen(&mut parent);
    let credit = |listener, total, waits| Submission::Credit {
        listener,
        total,
        waits,
    };
    // It is offered two, and works on something else; a third waits in the queue.
    parent.submit(credit(listener, 2, false));
    world.settle();
    for _ in 0..3 {
        world.peer.connect(world.now, port);
        world.settle();
        world.now += Duration::from_millis(1);
    }
    parent.collect();
    let offered = parent.accepted();
    assert_eq!(offered.len(), 2);
    let mut child = world.attach(None);
    let other = world.join(&mut child, &parent);
    // Everybody works: it is looked at again and again, and stays in its order.
    for _ in 0..3 {
        world.now += Duration::from_millis(5);
        world.attend();
    }
    for round in 1..=3 {
        child.submit(credit(other, round, true));
        world.settle();
    }
    child.collect_and_accept();
    let accepted = child.accepted();
    assert_eq!(accepted.len(), 3);
    assert_eq!(accepted[..2], offered, "they came before the third");
}

#[test]
fn what_was_offered_just_now_is_left_to_its_process_while_another_waits_in_the_queue() {
    let mut world = World::new();
    let (mut first, mut second) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut first);
    let other = world.join(&mut second, &first);
    first.submit(Submission::Credit {
        listener,
        total: 1,
        waits: false,
    });
    world.settle();
    for _ in 0..2 {
        world.peer.connect(world.now, port);
        world.settle();
    }
    second.submit(Submission::Credit {
        listener: other,
        total: 1,
        waits: true,
    });
    world.settle();
    second.collect_and_accept();
    first.collect_and_accept();
    assert_eq!((first.accepted().len(), second.accepted().len()), (1, 1));
    assert_eq!(world.worker.counters().offers_retracted, 0);
}

#[test]
fn what_a_stopped_process_was_offered_goes_to_one_that_sleeps() {
    let mut world = World::new();
    let (mut stopped, mut sleeping) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut stopped);
    let other = world.join(&mut sleeping, &stopped);
    for (host, listener) in [(&mut stopped, listener), (&mut sleeping, other)] {
        host.submit(Submission::Credit {
            listener,
            total: 32,
            waits: true,
        });
        world.settle();
    }
    // Both sleep; the one that is stopped is asked first, and never wakes up.
    stopped.region.armed.arm(0);
    sleeping.region.armed.arm(0);
    world.peer.connect(world.now, port);
    world.settle();
    stopped.collect();
    assert_eq!(stopped.accepted().len(), 1);
    world.now += Duration::from_millis(5);
    world.attend();
    sleeping.collect_and_accept();
    assert_eq!(sleeping.accepted(), stopped.accepted());
    assert_eq!(world.worker.counters().offers_retracted, 1);
}

/// One sleeps, for whatever else; the other asks without waiting, and says once that it has found nothing.
#[test]
fn what_one_that_sleeps_leaves_lying_goes_to_one_that_has_asked() {
    let mut world = World::new();
    let (mut sleeping, mut asking) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut sleeping);
    let other = world.join(&mut asking, &sleeping);
    for (host, listener, waits) in [(&mut sleeping, listener, false), (&mut asking, other, true)] {
        host.submit(Submission::Credit {
            listener,
            total: 32,
            waits,
        });
        world.settle();
    }
    sleeping.region.armed.arm(0);
    world.peer.connect(world.now, port);
    world.settle();
    sleeping.collect();
    assert_eq!(sleeping.accepted().len(), 1, "it might have waited for it");
    world.now += Duration::from_millis(5);
    world.attend();
    asking.collect_and_accept();
    assert_eq!(asking.accepted(), sleeping.accepted());
    assert_eq!(world.worker.counters().offers_retracted, 1);
}
