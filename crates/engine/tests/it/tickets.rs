//! Connections that are passed from one program to another by tickets, and what the engine makes of
//! tickets that are copied, lost, shown twice or not its own.

use std::time::Duration;

use crate::world::{Host, World};
use queue_pair::control::{Carried, Fds, Reply, Request};
use queue_pair::{ConnRef, Submission};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

fn carried() -> Carried {
    Carried {
        receive_low: 1,
        options: vec![(4, 77)],
        ..Carried::default()
    }
}

fn ask_for_ticket(world: &mut World, host: &mut Host, conn: ConnRef) -> Result<OwnedFd, i32> {
    let carried = carried();
    match world.request(host, &Request::Ticket { conn, carried }, Fds::new()) {
        (Reply::Ticket { .. }, mut fds) => Ok(fds.pop().expect("a ticket")),
        (Reply::Error { errno, .. }, _) => Err(errno),
        (reply, _) => panic!("{reply:?}"),
    }
}

fn ticket(world: &mut World, host: &mut Host, conn: ConnRef) -> OwnedFd {
    ask_for_ticket(world, host, conn).expect("a ticket")
}

fn claim(world: &mut World, host: &mut Host, ticket: &impl AsFd) -> Result<ConnRef, i32> {
    let shown = ticket.as_fd().try_clone_to_owned().expect("descriptors");
    match world.request(host, &Request::Claim, [shown].into_iter().collect()) {
        (
            Reply::Claimed {
                conn,
                carried: came,
                ..
            },
            _,
        ) => {
            assert_eq!(came, carried());
            Ok(conn)
        }
        (Reply::Error { errno, .. }, _) => Err(errno),
        (reply, _) => panic!("{reply:?}"),
    }
}

/// Gives up the claim before.
fn disclaim(world: &mut World, host: &mut Host) -> Result<(), i32> {
    match world.request(host, &Request::Disclaim, Fds::new()) {
        (Reply::Done, _) => Ok(()),
        (Reply::Error { errno, .. }, _) => Err(errno),
        (reply, _) => panic!("{reply:?}"),
    }
}

fn close(world: &mut World, host: &mut Host, conn: ConnRef) {
    host.close_at(conn, 1);
    world.settle();
}

fn kill(world: &mut World, host: Host) {
    drop(host);
    world.attend();
}

/// The last copy of a ticket is closed, and the engine hears of it.
fn lose(world: &mut World, ticket: OwnedFd) {
    drop(ticket);
    world.attend();
}

fn acquire(world: &mut World, host: &mut Host, conn: ConnRef) {
    host.submit(Submission::Acquire { conn });
    world.settle();
    host.collect();
}

#[test]
fn whoever_claims_it_goes_on_where_the_other_was() {
    let mut world = World::new();
    let (mut first, conn, peer) = world.connected();
    world.peer.send(world.now, peer, b"0123456789");
    world.settle();
    assert_eq!(first.read(conn, 0, 4).as_deref(), Some(&b"0123"[..]));
    first.send(conn, b"one ", 4);
    let ticket = ticket(&mut world, &mut first, conn);
    let mut second = world.attach(None);
    assert_eq!(claim(&mut world, &mut second, &ticket), Ok(conn));
    // It knows at once that something waits.
    assert_eq!(second.elsewhere(conn), Some((6, false)));
    close(&mut world, &mut first, conn);
    lose(&mut world, ticket);
    // The only one that is left reads, without having asked.
    second.collect();
    assert_eq!(second.grant(conn).map(|(_, at)| at), Some(4));
    assert_eq!(second.read(conn, 4, 9).as_deref(), Some(&b"456789"[..]));
    second.send_at(conn, b"two", 20);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"one two");
    assert!(!world.peer.conns[&peer].update.peer_closed);
    close(&mut world, &mut second, conn);
    world.pass(Duration::from_millis(100));
    assert!(world.peer.conns[&peer].update.peer_closed);
}

#[test]
fn who_has_not_waited_for_the_answer_has_it_no_more() {
    let mut world = World::new();
    let (mut first, conn, peer) = world.connected();
    let ticket = ticket(&mut world, &mut first, conn);
    let mut second = world.attach(None);
    let nothing = Err(Errno::NOTCONN.raw_os_error());
    assert_eq!(disclaim(&mut world, &mut second), nothing);
    assert_eq!(claim(&mut world, &mut second, &ticket), Ok(conn));
    assert_eq!(disclaim(&mut world, &mut second), Ok(()));
    assert_eq!(disclaim(&mut world, &mut second), nothing);
    // The ticket is as good as before. Who has the connection by another claim keeps it.
    for given_up in [Ok(()), nothing] {
        assert_eq!(claim(&mut world, &mut second, &ticket), Ok(conn));
        if given_up == nothing {
            assert_eq!(claim(&mut world, &mut second, &ticket), Ok(conn));
        }
        assert_eq!(disclaim(&mut world, &mut second), given_up);
    }
    // Nor does it go by a claim that is refused.
    let copy =
        rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("descriptors");
    assert_eq!(
        claim(&mut world, &mut second, &copy),
        nothing.map(|()| conn)
    );
    assert_eq!(disclaim(&mut world, &mut second), nothing);
    // What it never had is not released: it would take that to be of what it has claimed since.
    second.collect();
    assert!(!second.is_released(conn));
    close(&mut world, &mut first, conn);
    lose(&mut world, ticket);
    second.collect();
    second.send_at(conn, b"here", 20);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"here");
    assert!(!world.peer.conns[&peer].update.peer_closed);
    close(&mut world, &mut second, conn);
    world.pass(Duration::from_millis(100));
    assert!(world.peer.conns[&peer].update.peer_closed);
}

#[test]
fn it_ends_where_the_only_one_who_claims_it_has_not_waited() {
    let mut world = World::new();
    let (mut first, conn, peer) = world.connected();
    let ticket = ticket(&mut world, &mut first, conn);
    close(&mut world, &mut first, conn);
    let mut second = world.attach(None);
    assert_eq!(claim(&mut world, &mut second, &ticket), Ok(conn));
    lose(&mut world, ticket);
    world.pass(Duration::from_millis(100));
    assert!(!world.peer.conns[&peer].update.peer_closed);
    // By now it is its own.
    assert_eq!(disclaim(&mut world, &mut second), Ok(()));
    world.pass(Duration::from_millis(100));
    assert!(world.peer.conns[&peer].update.peer_closed);
}

#[test]
fn it_waits_in_a_ticket_for_whoever_comes() {
    let mut world = World::new();
    let (mut first, conn, peer) = world.connected();
    let ticket = ticket(&mut world, &mut first, conn);
    // Who has passed it dies before anybody has claimed it, and data arrives meanwhile.
    kill(&mut world, first);
    world.peer.send(world.now, peer, b"data");
    world.pass(Duration::from_millis(100));
    assert!(
        !world.peer.conns[&peer].update.peer_closed,
        "there is a copy"
    );
    let mut second = world.attach(None);
    assert_eq!(claim(&mut world, &mut second, &ticket), Ok(conn));
    lose(&mut world, ticket);
    second.collect();
    assert_eq!(second.read(conn, 0, 9).as_deref(), Some(&b"data"[..]));
    kill(&mut world, second);
    world.pass(Duration::from_millis(100));
    assert!(world.peer.conns[&peer].update.peer_closed);
}

#[test]
fn it_ends_with_the_last_copy_that_nobody_claims() {
    let mut world = World::new();
    let (mut first, conn, peer) = world.connected();
    let ticket = ticket(&mut world, &mut first, conn);
    let copy = ticket.try_clone().expect("descriptors");
    close(&mut world, &mut first, conn);
    lose(&mut world, ticket);
    world.pass(Duration::from_millis(100));
    assert!(
        !world.peer.conns[&peer].update.peer_closed,
        "there is a copy"
    );
    lose(&mut world, copy);
    world.pass(Duration::from_millis(100));
    assert!(world.peer.conns[&peer].update.peer_closed);
    assert_eq!(world.desk.counters().tickets_unclaimed, 1);
}

#[test]
fn several_may_claim_one_ticket_and_one_may_do_so_twice() {
    let mut world = World::new();
    let (mut first, conn, peer) = world.connected();
    let ticket = ticket(&mut world, &mut first, conn);
    let mut second = world.attach(None);
    let mut third = world.attach(None);
    for host in [&mut second, &mut third] {
        assert_eq!(claim(&mut world, host, &ticket), Ok(conn));
    }
    // Also the one that has passed it.
    assert_eq!(claim(&mut world, &mut first, &ticket), Ok(conn));
    assert_eq!(claim(&mut world, &mut third, &ticket), Ok(conn));
    lose(&mut world, ticket);
    world.peer.send(world.now, peer, b"abcdef");
    world.settle();
    for (host, at, byte) in [
        (&mut second, 0, b"a"),
        (&mut third, 1, b"b"),
        (&mut first, 2, b"c"),
    ] {
        acquire(&mut world, host, conn);
        assert_eq!(host.read(conn, at, 1).as_deref(), Some(&byte[..]));
    }
    close(&mut world, &mut second, conn);
    kill(&mut world, third);
    assert!(!world.peer.conns[&peer].update.peer_closed);
    acquire(&mut world, &mut first, conn);
    assert_eq!(first.read(conn, 3, 9).as_deref(), Some(&b"def"[..]));
    close(&mut world, &mut first, conn);
    world.pass(Duration::from_millis(100));
    assert!(world.peer.conns[&peer].update.peer_closed);
}

#[test]
fn who_has_closed_it_gets_it_again_by_a_ticket() {
    let mut world = World::new();
    let (mut first, conn, peer) = world.connected();
    let ticket = ticket(&mut world, &mut first, conn);
    first.send_at(conn, b"before", 10);
    first.close_at(conn, 11);
    // Nothing has left yet, and what was sent is counted as its.
    assert_eq!(
        claim(&mut world, &mut first, &ticket),
        Err(Errno::BUSY.raw_os_error())
    );
    world.pass(Duration::from_millis(100));
    assert_eq!(claim(&mut world, &mut first, &ticket), Ok(conn));
    first.send_at(conn, b" after", 20);
    lose(&mut world, ticket);
    kill(&mut world, first);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"before after");
}

#[test]
fn what_is_no_ticket_gives_nothing() {
    let mut world = World::new();
    let (mut first, conn, _) = world.connected();
    let mut second = world.attach(None);
    let not_known = Err(Errno::NOTCONN.raw_os_error());
    // One of another engine's, by its name.
    let (forged, _end) = queue_pair::control::ticket::make(7).expect("descriptors");
    assert_eq!(claim(&mut world, &mut second, &forged), not_known);
    let kernel = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    assert_eq!(claim(&mut world, &mut second, &kernel), not_known);
    let file = std::fs::File::open("/dev/null").expect("it is there");
    assert_eq!(claim(&mut world, &mut second, &file), not_known);
    let (reply, _) = world.request(&mut second, &Request::Claim, Fds::new());
    assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
    // Nobody passes what is another's.
    let refused = ask_for_ticket(&mut world, &mut second, conn).err();
    assert_eq!(refused, Some(Errno::NOTCONN.raw_os_error()));
    // Nor more than there can be.
    let carried = Carried {
        options: vec![(1, 1); Carried::MOST + 1],
        ..carried()
    };
    let request = Request::Ticket { conn, carried };
    let (reply, _) = world.request(&mut first, &request, Fds::new());
    assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
}

#[test]
fn whoever_accepts_from_a_ticket_has_thrown_it_away() {
    let mut world = World::new();
    let (mut first, conn, peer) = world.connected();
    let ticket = ticket(&mut world, &mut first, conn);
    close(&mut world, &mut first, conn);
    // What is said on it is nobody's business.
    let end = rustix::net::accept(&ticket).expect("the engine's end waits");
    rustix::io::write(&end, &[1; 16]).expect("room");
    world.attend();
    assert!(!world.peer.conns[&peer].update.peer_closed);
    drop(end);
    world.attend();
    world.pass(Duration::from_millis(100));
    assert!(world.peer.conns[&peer].update.peer_closed);
}

#[test]
fn there_are_so_many_tickets_and_no_more() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    let mut tickets = Vec::new();
    let refused = loop {
        match ask_for_ticket(&mut world, &mut host, conn) {
            Ok(ticket) => tickets.push(ticket),
            Err(errno) => break errno,
        }
        assert!(tickets.len() <= 4096, "no end");
    };
    assert_eq!(refused, Errno::TOOMANYREFS.raw_os_error());
    assert!(tickets.len() >= 2048, "{}", tickets.len());
    // One that is gone makes room for another, and the connection is as it was when all are.
    tickets.pop();
    world.attend();
    drop(ticket(&mut world, &mut host, conn));
    tickets.clear();
    world.attend();
    host.collect();
    world.peer.send(world.now, peer, b"still here");
    world.settle();
    host.collect();
    assert_eq!(host.read(conn, 0, 99).as_deref(), Some(&b"still here"[..]));
}
