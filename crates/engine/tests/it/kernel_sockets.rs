//! What the kernel has on a port of the engine's: connections, and the sockets that were shown for it.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use engine::network::{Network, NicId, Shared, Steered};
use engine::slow::desk::ReadLoads;
use netdev::sim::LinkConfig;
use netdev::steering::Load;
use queue_pair::Submission;
use queue_pair::control::{Fds, Reply, Request};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use tcp::Failure;

fn how(world: &World) -> Steered {
    let network = world.worker.network();
    let [(address, port, how)] = network.steered[..] else {
        panic!("one port: {:?}", network.steered);
    };
    let is_noted = network.noted(address, port).is_some();
    match how {
        // The steering goes by what it has noted itself.
        Steered::Engine if is_noted => Steered::Mixed,
        how => how,
    }
}

/// A port that is free for now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

#[test]
fn a_port_is_mixed_for_as_long_as_the_kernel_has_connections_there() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    assert_eq!(how(&world), Steered::Engine, "the kernel has none");
    let request = Request::Unlisten { listener: 0 };
    assert_eq!(
        world.request(&mut host, &request, Fds::new()).0,
        Reply::Done
    );

    let shown = host.kernel[0].try_clone().expect("descriptors");
    world.kernel.set_connections(port, 2);
    world.show(&mut host, &shown);
    assert_eq!(how(&world), Steered::Mixed);
    world.kernel.set_connections(port, 1);
    world.attend();
    assert_eq!(how(&world), Steered::Mixed);
    world.kernel.set_connections(port, 0);
    world.attend();
    assert_eq!(how(&world), Steered::Engine);
}

/// The question was asked, and answered, before the kernel was left a new connection there.
#[test]
fn a_port_stays_mixed_where_the_kernel_was_left_something_meanwhile() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let kernel = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = kernel.local_addr().expect("bound").port();
    world.kernel.set_connections(port, 1);
    world.show(&mut host, &kernel);
    world.kernel.set_connections(port, 0);
    world.worker.network().leave_some();
    world.desk.attend();
    world.worker.attend(world.now);
    assert_eq!(how(&world), Steered::Mixed);
    world.attend();
    assert_eq!(how(&world), Steered::Engine, "it was asked again");
}

/// What is new for others at the port is the kernel's.
#[test]
fn the_steering_knows_the_sockets_that_listeners_have() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let known = |world: &World| world.worker.network().shown.clone();
    let (port, name) = world.listen(&mut host);
    let (_, other) = world.listen(&mut host);
    let both = cookies(&host);
    let first = BTreeSet::from([both[0]]);
    assert_eq!(known(&world), both.into_iter().collect());
    let unlisten = |listener| Request::Unlisten { listener };
    world.request(&mut host, &unlisten(other), Fds::new());
    assert_eq!(known(&world), first, "its program left the engine");
    // A second one shares the first one's port, and goes on when that is closed.
    let reused = host.kernel[0].try_clone().expect("descriptors");
    let mut sibling = world.attach(None);
    world.show(&mut sibling, &reused);
    world.request(&mut host, &unlisten(name), Fds::new());
    assert_eq!(known(&world), first, "another process has it");
    tell(&world, &[1]);
    world.attend();
    assert!(known(&world).is_empty(), "nobody has it");
    // One that is not taken leaves nothing.
    host.kernel.clear();
    drop(reused);
    let taken = TcpListener::bind(("0.0.0.0", port)).expect("free");
    let copy = taken.try_clone().expect("descriptors");
    let request = Request::Listen {
        addr: SocketAddr::from(([192, 0, 2, 7], port)),
        v6only: false,
        backlog: 1,
        pinned: false,
    };
    let shown = [copy.into()].into_iter().collect();
    let (reply, _) = world.request(&mut host, &request, shown);
    assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
    assert!(known(&world).is_empty());
}

#[test]
fn an_answer_to_an_older_question_does_not_count() {
    let port = free_port();
    let denying = format!("[access]\ndeny = [{{ ports = \"{port}\" }}]\n");
    let denying = Config::parse("engine.toml", &denying).expect("valid");
    let mut files = vec![Config::default(), denying];
    let mut world = World::new();
    world.desk = world.desk.reloading(Box::new(move || {
        files.pop().ok_or_else(|| "no more".to_owned())
    }));
    let mut host = world.attach(None);
    world.kernel.set_connections(port, 1);
    world.listen_at(&mut host, port);
    assert_eq!(how(&world), Steered::Mixed);
    for then in [Steered::Closing, Steered::Mixed] {
        let reply = world.ask_once(&Request::Reload);
        assert!(matches!(reply, Reply::Reloaded { .. }), "{reply:?}");
        assert_eq!(how(&world), then);
    }
    // The question is from before: the kernel was given new connections since.
    world.kernel.set_connections(port, 0);
    world.desk.attend();
    world.worker.attend(world.now);
    assert_eq!(how(&world), Steered::Mixed);
    world.attend();
    assert_eq!(how(&world), Steered::Engine);
}

/// Longer than the steering waits.
const AWAY: Duration = Duration::from_secs(1);

/// A port that is mixed, of which it is asked now, and answered that the kernel has no connections there.
fn answered(world: &mut World) -> Host {
    let mut host = world.attach(None);
    let port = free_port();
    world.kernel.set_connections(port, 1);
    world.listen_at(&mut host, port);
    assert_eq!(how(world), Steered::Mixed);
    world.kernel.set_connections(port, 0);
    world.desk.attend();
    host
}

#[test]
fn an_answer_from_before_the_engine_was_away_does_not_count() {
    let mut world = World::new();
    let _host = answered(&mut world);
    world.worker.network_mut().waiting = AWAY;
    world.worker.attend(world.now);
    assert_eq!(how(&world), Steered::Mixed);
    // Nor twice.
    world.desk.attend();
    world.worker.network_mut().waiting = AWAY;
    world.worker.turn(world.now);
    world.worker.attend(world.now);
    assert_eq!(how(&world), Steered::Mixed);
    world.attend();
    assert_eq!(how(&world), Steered::Engine);
    world.worker.network_mut().waiting = AWAY;
    world.worker.turn(world.now);
    assert_eq!(how(&world), Steered::Mixed);
    world.attend();
    assert_eq!(how(&world), Steered::Engine, "it is asked again");
}

/// A new connection may be left to the kernel for many reasons, of which most are nobody's absence.
#[test]
fn a_port_at_which_the_kernel_was_left_something_is_asked_about() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    assert_eq!(how(&world), Steered::Engine);
    world.kernel.set_connections(port, 1);
    world.worker.network().leave_some();
    assert_eq!(how(&world), Steered::Mixed);
    world.attend();
    assert_eq!(how(&world), Steered::Mixed, "it has a connection");
    world.kernel.set_connections(port, 0);
    world.attend();
    assert_eq!(how(&world), Steered::Engine);
}

/// New connections that came to its queue are the kernel's, whichever worker has the listener.
#[test]
fn an_answer_from_before_another_worker_was_away_does_not_count() {
    let mut world = World::new();
    let _host = answered(&mut world);
    world.worker.network().leave_some();
    world.worker.network_mut().absences += 1;
    world.worker.attend(world.now);
    assert_eq!(how(&world), Steered::Mixed);
    world.attend();
    assert_eq!(how(&world), Steered::Engine);
    world.worker.network().leave_some();
    world.worker.network_mut().absences += 1;
    world.worker.turn(world.now);
    assert_eq!(how(&world), Steered::Mixed);
    world.attend();
    assert_eq!(how(&world), Steered::Engine, "it is asked again");
}

/// Says nothing of any load.
struct Silent;

impl ReadLoads for Silent {
    fn of_slot(&mut self, _: u16, _: SocketAddr) -> Option<Load> {
        None
    }
}

#[test]
fn a_listener_stays_placed_whatever_becomes_of_it_between() {
    let port = free_port();
    let placed = |further: &str| {
        let text = format!("placement = \"kernel\"\n{further}");
        Config::parse("engine.toml", &text).expect("valid")
    };
    let denying = placed(&format!("[access]\ndeny = [{{ ports = \"{port}\" }}]\n"));
    let mut files = vec![Config::default(), placed(""), denying];
    let mut world = World::new();
    let desk = world.desk.reloading(Box::new(move || {
        files.pop().ok_or_else(|| "no more".to_owned())
    }));
    world.desk = desk.placing(placed("").placements(), Some(Box::new(Silent)));
    let mut host = world.attach(None);
    let (_, listener) = world.listen_at(&mut host, port);
    world.attend();
    let kernels = Steered::Shared(Shared { share: 0, slot: 0 });
    assert_eq!(how(&world), kernels);
    let reload = |world: &mut World| {
        let reply = world.ask_once(&Request::Reload);
        assert!(matches!(reply, Reply::Reloaded { .. }), "{reply:?}");
        world.attend();
    };
    reload(&mut world);
    assert_eq!(how(&world), Steered::Closing);
    reload(&mut world);
    assert_eq!(how(&world), kernels);
    // The next one has the number that this one had.
    let request = Request::Unlisten { listener };
    world.request(&mut host, &request, Fds::new());
    world.attend();
    world.listen(&mut host);
    world.attend();
    assert_eq!(how(&world), kernels);
    reload(&mut world);
    assert_eq!(how(&world), Steered::Engine);
}

/// The cookies of the sockets that a host has shown.
fn cookies(host: &Host) -> Vec<u64> {
    let cookie = |kernel| netdev::syscalls::socket_cookie(kernel).expect("a cookie");
    host.kernel.iter().map(cookie).collect()
}

/// The first of them.
fn cookie(host: &Host) -> u64 {
    cookies(host)[0]
}

/// These sockets listen in the kernel.
fn tell(world: &World, cookies: &[u64]) {
    bound(world, cookies, 0);
}

/// They are bound to this interface.
fn bound(world: &World, cookies: &[u64], interface: u32) {
    let told = cookies.iter().map(|cookie| (*cookie, interface)).collect();
    *world.kernel.listening.lock().expect("no panic") = Some(told);
}

#[test]
fn who_was_not_accepted_ends_with_the_last_proof() {
    let mut world = World::new();
    let (mut host, mut other) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut host);
    let copy = world.join(&mut other, &host);
    let cookie = cookie(&host);
    tell(&world, &[cookie, 1]);
    world.attend();
    let credit = |listener, total| Submission::Credit {
        listener,
        total,
        waits: false,
    };
    host.submit(credit(listener, 2));
    let (accepted, client) = world.connect(&mut host, port);
    // One more is offered to the process, one to the other, and one waits.
    let mut clients = Vec::new();
    clients.push(world.peer.connect(world.now, port));
    world.settle();
    other.submit(credit(copy, 1));
    world.settle();
    for _ in 0..2 {
        clients.push(world.peer.connect(world.now, port));
        world.settle();
    }
    host.collect();
    other.collect();
    assert_eq!((host.accepted().len(), other.accepted().len()), (2, 1));
    tell(&world, &[1]);
    world.attend();
    world.settle();
    for client in &clients {
        assert_eq!(world.peer.conns[client].update.failed, Some(Failure::Reset));
    }
    // The one that was accepted goes on, and who asks for another gets none.
    world.peer.send(world.now, client, b"still");
    other.submit(Submission::Credit {
        listener: copy,
        total: 9,
        waits: true,
    });
    world.settle();
    host.collect();
    assert_eq!(host.received(accepted), b"still");
    assert!(host.is_released(host.accepted()[1]));
    other.collect();
    assert!(other.is_released(other.accepted()[0]));
    let request = Request::Unlisten { listener: copy };
    let (reply, _) = world.request(&mut other, &request, Fds::new());
    assert_eq!(reply, Reply::Done);
}

/// To be on an inner network only, say.
#[test]
fn a_listener_that_is_bound_to_an_interface_by_now_is_the_kernels() {
    const ELSEWHERE: u32 = 7;
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    let shown = cookies(&host);
    tell(&world, &shown);
    world.attend();
    let client = world.peer.connect(world.now, port);
    world.settle();
    bound(&world, &shown, ELSEWHERE);
    world.attend();
    assert_eq!(how(&world), Steered::Closing);
    // Who came before is accepted, as in the kernel.
    world.settle();
    assert_eq!(world.peer.conns[&client].update.failed, None);
    // Showing it anew would be refused; another that shares its port changes nothing.
    let mut other = world.attach(None);
    world.join(&mut other, &host);
    world.attend();
    assert_eq!(how(&world), Steered::Closing);
    tell(&world, &shown);
    world.attend();
    assert_eq!(how(&world), Steered::Engine);
    // The engine's only one is all that it has.
    let only = world.worker.network().index(NicId::default());
    bound(&world, &shown, only);
    world.attend();
    assert_eq!(how(&world), Steered::Engine);
}

/// By this reason a process hears that a listener is the kernel's; none if it is the engine's.
fn reason(world: &mut World) -> String {
    let pid = std::process::id();
    let Reply::Explained(lines) = world.ask_once(&Request::Explain { pid }) else {
        panic!("explained");
    };
    let listener = lines.iter().find(|line| line.kind.starts_with("listener"));
    listener.expect("it has one").reason.clone()
}

#[test]
fn a_listener_that_is_left_to_the_kernel_so_says_why() {
    let mut world = World::new();
    let mut host = world.attach(None);
    world.listen(&mut host);
    let shown = cookies(&host);
    tell(&world, &shown);
    world.attend();
    assert_eq!(reason(&mut world), "");
    bound(&world, &shown, 7);
    world.attend();
    let why = reason(&mut world);
    assert!(why.contains("is bound to an interface by now"), "{why}");
    tell(&world, &shown);
    world.attend();
    assert_eq!(reason(&mut world), "");
}

/// Nobody shows its socket there.
#[test]
fn so_it_is_at_another_worker_to_which_a_child_comes() {
    let mut world = World::of_workers(2);
    let mut parent = world.attach(None);
    let (_, name) = world.listen(&mut parent);
    let shown = cookies(&parent);
    tell(&world, &shown);
    world.attend();
    bound(&world, &shown, 7);
    world.attend();
    assert_eq!(how(&world), Steered::Closing);
    let (reply, _lifeline) = world.request(&mut parent, &Request::Fork, Fds::new());
    let Reply::Forked { token } = reply else {
        panic!("{reply:?}");
    };
    let mut child = world.attach(Some(token));
    let adopt = Request::AdoptListener { listener: name };
    let (reply, _) = world.request(&mut child, &adopt, Fds::new());
    assert!(matches!(reply, Reply::Listening { .. }), "{reply:?}");
    let steered = &world.others[0].network().steered;
    let there: Vec<_> = steered.iter().map(|(_, _, how)| *how).collect();
    assert_eq!(there, [Steered::Closing]);
}

#[test]
fn one_of_several_interfaces_is_not_all_of_them() {
    let mut world = World::of_links([LinkConfig::default(); 2]);
    let mut host = world.attach(None);
    world.listen(&mut host);
    let shown = cookies(&host);
    bound(&world, &shown, 1);
    world.attend();
    let all = world.worker.network().steered.iter();
    let how: Vec<_> = all.map(|(_, _, how)| *how).collect();
    assert!(!how.is_empty());
    assert!(how.iter().all(|how| *how == Steered::Closing), "{how:?}");
}

#[test]
fn many_who_were_not_accepted_end_in_many_turns() {
    const OFFERED: u32 = 200;
    const WAITING: u32 = 120;
    // Of those that were offered, and of those that waited when the turn began, and by then.
    const IN_A_TURN: u32 = 3 * 64;
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    let (other_port, other) = world.listen(&mut host);
    let cookies = cookies(&host);
    tell(&world, &cookies);
    world.attend();
    for (listener, total) in [(listener, OFFERED), (other, 9)] {
        host.submit(Submission::Credit {
            listener,
            total,
            waits: false,
        });
    }
    // What another listener offers stays, accepted or not.
    let (accepted, client) = world.connect(&mut host, other_port);
    let kept = world.peer.connect(world.now, other_port);
    for _ in 0..OFFERED + WAITING {
        world.peer.connect(world.now, port);
        world.settle();
        host.collect();
    }
    let connections = |world: &World| world.worker.stack().connection_count();
    assert_eq!(connections(&world), OFFERED + WAITING + 2);
    tell(&world, &cookies[1..]);
    world.desk.attend();
    world.worker.attend(world.now);
    let (mut before, mut turns) = (connections(&world), 0);
    while before > 2 {
        world.worker.turn(world.now);
        let now = connections(&world);
        assert!(before - now <= IN_A_TURN, "{before}, {now}");
        (before, turns) = (now, turns + 1);
        assert!(turns < 100, "{before} are left");
    }
    assert!(turns >= 2, "{turns}");
    world.settle();
    assert!(world.peer.conns[&kept].update.failed.is_none());
    world.peer.send(world.now, client, b"still");
    world.settle();
    host.collect();
    assert_eq!(host.received(accepted), b"still");
}

#[test]
fn what_a_listener_that_ends_has_offered_goes_to_nobody_else() {
    // More than are ended in a turn.
    const OFFERED: u32 = 100;
    let mut world = World::new();
    let (mut host, mut other) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut host);
    let copy = world.join(&mut other, &host);
    let cookie = cookie(&host);
    tell(&world, &[cookie, 1]);
    world.attend();
    let credit = |listener, waits| Submission::Credit {
        listener,
        total: 2 * OFFERED,
        waits,
    };
    host.submit(credit(listener, false));
    for _ in 0..OFFERED {
        world.offer(&mut host, port);
    }
    // The other is willing, and sleeps: it would be woken for what lies untouched.
    other.submit(credit(copy, false));
    world.settle();
    other.region.armed.arm(0);
    tell(&world, &[1]);
    world.desk.attend();
    world.worker.attend(world.now);
    // What is given back ends at once, and does not wait behind all others.
    let given = *host.accepted().last().expect("offered");
    host.submit(Submission::GiveBack { conn: given });
    let before = world.worker.stack().connection_count();
    world.now += Duration::from_millis(5);
    world.worker.attend(world.now);
    // What a turn ends last is gone with the next.
    world.worker.turn(world.now);
    world.worker.turn(world.now);
    assert_eq!(before - world.worker.stack().connection_count(), 65);
    world.now += Duration::from_millis(5);
    world.attend();
    world.settle();
    other.collect();
    assert!(other.accepted().is_empty());
    assert_eq!(world.worker.stack().connection_count(), 0);
}

#[test]
fn two_listeners_of_a_process_end_together_and_all_that_they_offered() {
    // More than are looked at in a turn.
    const OFFERED: u32 = 100;
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    let (other_port, other) = world.listen(&mut host);
    let (third_port, third) = world.listen(&mut host);
    let cookies = cookies(&host);
    tell(&world, &cookies);
    world.attend();
    for listener in [listener, other, third] {
        host.submit(Submission::Credit {
            listener,
            total: 2 * OFFERED,
            waits: false,
        });
    }
    let mut kept = Vec::new();
    for count in 0..OFFERED {
        world.peer.connect(world.now, port);
        world.peer.connect(world.now, other_port);
        if count % 10 == 0 {
            kept.push(world.peer.connect(world.now, third_port));
        }
        world.settle();
        host.collect();
    }
    tell(&world, &cookies[2..]);
    world.desk.attend();
    world.worker.attend(world.now);
    // What is offered meanwhile stays as well, and does not hide what is to be ended.
    for _ in 0..5 {
        kept.push(world.peer.connect(world.now, third_port));
        world.worker.turn(world.now);
        world.peer.turn(world.now);
    }
    world.settle();
    assert_eq!(
        world.worker.stack().connection_count() as usize,
        kept.len(),
        "all others have ended"
    );
    assert!(world.worker.offers_remembered() <= 2 * kept.len());
    for client in kept {
        assert!(world.peer.conns[&client].update.failed.is_none());
    }
}

#[test]
fn a_listener_goes_with_its_last_proof() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    let cookie = cookie(&host);
    tell(&world, &[cookie, 1]);
    world.attend();
    assert_eq!(how(&world), Steered::Engine);
    *world.kernel.listening.lock().expect("no panic") = None;
    world.attend();
    assert_eq!(how(&world), Steered::Engine, "it is not known");
    tell(&world, &[1]);
    world.attend();
    assert_eq!(how(&world), Steered::Closing);
    // Whoever binds the port now and shows that is somebody else.
    host.kernel.clear();
    *world.kernel.listening.lock().expect("no panic") = None;
    let mut other = world.attach(None);
    let (_, listener) = world.listen_at(&mut other, port);
    assert_eq!(how(&world), Steered::Engine);
    other.submit(Submission::Credit {
        listener,
        total: 8,
        waits: true,
    });
    let client = world.peer.connect(world.now, port);
    world.settle();
    other.collect();
    host.collect();
    assert_eq!((host.accepted().len(), other.accepted().len()), (0, 1));
    assert!(world.peer.conns[&client].update.failed.is_none());
}

/// A socket of this user's that listens there, which only root can make.
fn socket_as(uid: u32, port: u16) -> TcpListener {
    // Whose a socket is, the kernel notes as it is made; and user ids are a thread's.
    let made = std::thread::spawn(move || {
        let uid = Uid::from_raw(uid);
        set_thread_res_uid(uid, uid, uid).expect("root may");
        TcpListener::bind(("0.0.0.0", port)).expect("a port")
    });
    made.join().expect("no panic")
}

/// A host listens by this socket, and is willing to be handed connections.
fn listen_by(world: &mut World, host: &mut Host, kernel: TcpListener) {
    let listener = world.show(host, &kernel);
    host.kernel.push(kernel);
    host.submit(Submission::Credit {
        listener,
        total: 64,
        waits: true,
    });
}

#[test]
fn a_port_that_another_user_has_bound_since_is_that_ones() {
    const PORT: u16 = 20_811;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root makes sockets of other users");
        return;
    }
    // Whether the kernel says which sockets listen.
    for told in [true, false] {
        let mut world = World::new();
        let (mut host, mut other) = (world.attach_as(1000), world.attach_as(1001));
        let known = |world: &World, kernel: &TcpListener| {
            if told {
                let cookie = netdev::syscalls::socket_cookie(kernel).expect("a cookie");
                tell(world, &[cookie]);
            }
        };
        let kernel = socket_as(1000, PORT);
        known(&world, &kernel);
        listen_by(&mut world, &mut host, kernel);
        let client = world.peer.connect(world.now, PORT);
        world.settle();
        host.collect_and_accept();
        assert_eq!(host.accepted().len(), 1);
        // It stays, without its socket.
        host.kernel.clear();
        let kernel = socket_as(1001, PORT);
        known(&world, &kernel);
        listen_by(&mut world, &mut other, kernel);
        for _ in 0..4 {
            world.peer.connect(world.now, PORT);
            world.settle();
        }
        host.collect();
        other.collect();
        let accepted = (host.accepted().len(), other.accepted().len());
        assert_eq!(accepted, (1, 4), "told: {told}");
        world.peer.send(world.now, client, b"still");
        world.settle();
        host.collect();
        assert_eq!(host.received(host.accepted()[0]), b"still");
    }
}
