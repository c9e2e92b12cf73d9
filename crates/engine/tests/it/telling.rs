//! What the engine tells people of its sockets, over a simulated link.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use netdev::sim::LinkConfig;
use queue_pair::Profile;
use queue_pair::control::{Explanation, Fds, Reply, Request, SocketRow};

fn sockets(world: &mut World) -> Vec<SocketRow> {
    let mut channel = world.dial();
    let (reply, _) = world.ask(
        &mut channel,
        &Request::Sockets {
            after: None,
            filter: String::new(),
        },
        Fds::new(),
    );
    match reply {
        Reply::Sockets { rows, .. } => rows,
        other => panic!("{other:?}"),
    }
}

fn explained(world: &mut World) -> Vec<Explanation> {
    let mut channel = world.dial();
    let pid = std::process::id();
    match world.ask(&mut channel, &Request::Explain { pid }, Fds::new()) {
        (Reply::Explained(explanations), _) => explanations,
        (other, _) => panic!("{other:?}"),
    }
}

fn report(world: &mut World, host: &mut Host, fd: i32, kind: &str, reason: &str) {
    let request = Request::Report {
        fd,
        kind: kind.to_owned(),
        reason: reason.to_owned(),
    };
    host.channel.send(&request, Fds::new()).expect("sent");
    world.attend();
}

#[test]
fn every_socket_is_told_once_however_many_there_are() {
    let mut world = World::new();
    let (mut host, ..) = world.connected();
    let port = host.kernel[0].local_addr().unwrap().port();
    for _ in 0..49 {
        world.connect(&mut host, port);
    }
    let mut channel = world.dial();
    let (mut ports, mut listeners, mut after) = (Vec::new(), 0, None);
    loop {
        let (reply, _) = world.ask(
            &mut channel,
            &Request::Sockets {
                after,
                filter: String::new(),
            },
            Fds::new(),
        );
        let Reply::Sockets { rows, next } = reply else {
            panic!("{reply:?}");
        };
        listeners += rows.iter().filter(|row| row.peer.is_none()).count();
        ports.extend(
            rows.iter()
                .filter_map(|row| row.peer.map(|peer| peer.port())),
        );
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((listeners, ports.len()), (1, 50));
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 50);
}

#[test]
fn last_words_hold_once_their_connection_is_closed() {
    let mut world = World::new();
    let line = |kind: &str, reason: &str| Explanation {
        fd: Explanation::NO_DESCRIPTOR,
        kind: kind.to_owned(),
        reason: reason.to_owned(),
        detail: String::new(),
    };
    let executed = |reason| line(Explanation::EXECUTED, reason);
    let mut say = |said: &[&[Explanation]]| {
        let mut channel = world.dial();
        for lines in said {
            let request = Request::LastWords(lines.to_vec());
            channel.send(&request, Fds::new()).expect("sent");
        }
        world.attend();
        let before = explained(&mut world);
        drop(channel);
        world.attend();
        (before, explained(&mut world))
    };
    let first = [executed("first")];
    assert_eq!(say(&[&first]), (vec![], first.to_vec()));
    // An exec that failed.
    let second = [executed("second")];
    assert_eq!(say(&[&second, &[]]), (first.to_vec(), first.to_vec()));
    // What it has started stands beside what it is, until it is another program.
    let started = [line("started program", "third")];
    let both = [first, started].concat();
    assert_eq!(say(&[&both[1..]]).1, both);
    assert_eq!(say(&[&both[1..]]).1, both, "once");
    assert_eq!(say(&[&second]).1, second);
    // There is an end to it.
    let many: Vec<_> = (0..100)
        .map(|n| line("started program", &n.to_string()))
        .collect();
    for lines in many.chunks(10) {
        say(&[lines]);
    }
    let kept = say(&[&[]]).1;
    assert_eq!(kept.len(), 16);
    assert_eq!(kept[0], second[0]);
    // Who attaches is a program that the library is in.
    let _host = world.attach(None);
    assert_eq!(explained(&mut world), []);
}

#[test]
fn counts_of_sessions_stand_together_and_go_with_them() {
    let mut world = World::new();
    let (first, second) = (world.attach(None), world.attach(None));
    let mut channel = world.dial();
    let mut told = |world: &mut World| match world.ask(&mut channel, &Request::Stats, Fds::new()) {
        (Reply::Stats(metrics), _) => metrics,
        (other, _) => panic!("{other:?}"),
    };
    let names: Vec<String> = told(&mut world)
        .into_iter()
        .map(|metric| metric.name)
        .collect();
    let mut families = names.clone();
    families.dedup();
    let count = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(
        count,
        families.len(),
        "each name is in one place: {names:?}"
    );
    let of_sessions = |names: &[String]| names.iter().filter(|n| n.starts_with("session_")).count();
    assert_eq!(of_sessions(&names), 8);
    drop(first);
    world.attend();
    let names: Vec<String> = told(&mut world)
        .into_iter()
        .map(|metric| metric.name)
        .collect();
    assert_eq!(of_sessions(&names), 4);
    drop(second);
}

#[test]
fn every_listener_and_session_is_told_of_in_as_many_answers_as_it_takes() {
    let mut world = World::new();
    let mut hosts: Vec<Host> = (0..30).map(|_| world.attach(None)).collect();
    let mut ports: Vec<u16> = (0..120).map(|_| world.listen(&mut hosts[0]).0).collect();
    let mut channel = world.dial();
    let (mut told, mut pages) = (Vec::new(), 0);
    loop {
        let more = pages > 0;
        match world.ask(&mut channel, &Request::Metrics { more }, Fds::new()) {
            (Reply::Metrics { metrics, more }, _) => {
                told.extend(metrics);
                pages += 1;
                if !more {
                    break;
                }
            }
            (other, _) => panic!("{other:?}"),
        }
    }
    assert!(pages > 1, "{} fit in one message", told.len());
    let of = |name: &str| {
        let meant = told.iter().filter(|metric| metric.name == name);
        meant
            .map(|metric| metric.labels[0].1.clone())
            .collect::<Vec<_>>()
    };
    let port_of = |local: String| local.rsplit(':').next().and_then(|port| port.parse().ok());
    let locals = of("listener_accepts").into_iter();
    let mut heard: Vec<u16> = locals.filter_map(port_of).collect();
    heard.sort_unstable();
    ports.sort_unstable();
    assert_eq!(heard, ports);
    assert_eq!(of("session_submissions").len(), hosts.len());
    let explained = told
        .iter()
        .filter(|metric| metric.name == "listener_accepts");
    let helps = explained.filter(|metric| !metric.help.is_empty()).count();
    assert_eq!(helps, 1, "what they count is said once");
    // There is no further page, and nobody else's.
    for channel in [&mut channel, &mut world.dial()] {
        match world.ask(channel, &Request::Metrics { more: true }, Fds::new()) {
            (Reply::Error { errno, .. }, _) => {
                assert_eq!(errno, rustix::io::Errno::AGAIN.raw_os_error())
            }
            (other, _) => panic!("{other:?}"),
        }
    }
    // A program of the version before is told what one message has room for.
    let Reply::Stats(some) = world.ask_once(&Request::Stats) else {
        panic!("no counters");
    };
    assert!(some.iter().any(|metric| metric.name == "connections"));
    assert!(some.len() < told.len());
}

/// The value of a metric with a label of this value; 0 if there is none.
fn metric(world: &mut World, name: &str, label: &str) -> f64 {
    let mut channel = world.dial();
    let (Reply::Stats(metrics), _) = world.ask(&mut channel, &Request::Stats, Fds::new()) else {
        panic!("no counters");
    };
    let meant = metrics.iter().find(|metric| {
        metric.name == name && metric.labels.iter().any(|(_, value)| value == label)
    });
    meant.map_or(0.0, |metric| metric.value)
}

#[test]
fn a_program_is_served_by_the_profile_that_it_wants_but_by_an_efficient_engine() {
    for own in Profile::ALL {
        let config = Config {
            profile: own,
            ..Config::default()
        };
        let mut world = World::with(config, LinkConfig::default());
        let (mut host, conn, _) = world.connected();
        assert_eq!(metric(&mut world, "worker_profile", own.name()), 1.0);
        for wanted in Profile::ALL {
            host.region.core.tell(1, Some(wanted));
            host.send(conn, b"x", 0);
            world.settle();
            let told = metric(&mut world, "session_core", wanted.name());
            assert_eq!(told, 1.0, "{own} {wanted}");
            let serving = own.serving(Some(wanted)).name();
            for profile in Profile::ALL {
                let told = metric(&mut world, "worker_profile", profile.name());
                let is = f64::from(u8::from(profile.name() == serving));
                assert_eq!(told, is, "{own} {wanted}: {profile}");
            }
            let rows = sockets(&mut world);
            assert!(
                rows.iter().all(|row| row.profile == Some(wanted)),
                "{rows:?}"
            );
        }
    }
}

#[test]
fn one_exchange_rings_once() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    let pid = std::process::id().to_string();
    let rung = |world: &mut World| metric(world, "session_doorbells", &pid);
    let before = rung(&mut world);
    for exchange in 1..=10_u32 {
        // The program sleeps; what the network brings wakes it, and no more.
        host.region.armed.arm(0);
        world.peer.send(world.now, peer, b"?");
        world.settle();
        assert_eq!(rung(&mut world) - before, f64::from(exchange));
        host.region.armed.disarm(0);
        host.collect();
        // It answers, and is awake: nobody rings.
        host.send(conn, b"!", exchange.into());
        world.settle();
        host.collect();
        assert_eq!(rung(&mut world) - before, f64::from(exchange));
    }
}

#[test]
fn a_connection_grows_old() {
    let mut world = World::new();
    let (_host, _, _) = world.connected();
    world.pass(Duration::from_millis(70));
    let rows = sockets(&mut world);
    let ages: Vec<u64> = rows
        .iter()
        .filter_map(|row| row.info.as_ref().map(|info| info.age_ns))
        .collect();
    assert_eq!(ages.len(), 1, "{rows:?}");
    assert!((70_000_000..75_000_000).contains(&ages[0]), "{ages:?}");
}

#[test]
fn a_listener_is_explained_once_and_only_while_it_is_there() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    let at = |port| Explanation::listener(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    let nameless = explained(&mut world);
    assert_eq!(nameless.len(), 1, "{nameless:?}");
    assert_eq!(nameless[0].fd, Explanation::NO_DESCRIPTOR);

    report(&mut world, &mut host, 6, &at(port), "");
    // One that was closed since.
    report(&mut world, &mut host, 9, &at(port ^ 1), "");
    report(&mut world, &mut host, 7, "listener 127.0.0.1:80", "because");
    let all = explained(&mut world);
    let seen: Vec<(i32, &str)> = all.iter().map(|e| (e.fd, e.kind.as_str())).collect();
    assert_eq!(seen, [(6, at(port).as_str()), (7, "listener 127.0.0.1:80")]);
}

/// Without tcp_diag, say.
#[test]
fn a_kernel_that_does_not_say_which_sockets_it_has_is_told_of() {
    let mut world = World::new();
    let mut host = world.attach(None);
    for known in [None, Some(HashMap::from([(1, 0)]))] {
        let unknown = known.is_none();
        *world.kernel.listening.lock().expect("no panic") = known;
        world.listen(&mut host);
        let lines = explained(&mut world);
        let says = |line: &Explanation| line.detail.contains("tcp_diag");
        assert!(lines.iter().all(|line| says(line) == unknown), "{lines:?}");
        let Reply::Stats(metrics) = world.ask_once(&Request::Stats) else {
            panic!("counted");
        };
        let mut metrics = metrics.iter();
        let gauge = metrics.find(|metric| metric.name == "sockets_unknown");
        let value = gauge.map(|metric| metric.value);
        assert_eq!(value, Some(f64::from(u8::from(unknown))));
    }
}

#[test]
fn calls_that_are_not_supported_do_not_hide_each_other() {
    let mut world = World::new();
    let mut host = world.attach(None);
    for what in ["one thing", "another thing", "one thing"] {
        report(&mut world, &mut host, -1, "call", what);
    }
    let all = explained(&mut world);
    let reasons: Vec<&str> = all.iter().map(|e| e.reason.as_str()).collect();
    assert_eq!(reasons, ["one thing", "another thing"]);
}

/// Also from the first: what the program asked for the kernel has bounded.
#[test]
fn a_listener_has_the_backlog_that_its_socket_has() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let kernel = TcpListener::bind("0.0.0.0:0").expect("a port");
    rustix::net::listen(&kernel, 7).expect("it listens");
    world.show(&mut host, &kernel);
    assert_eq!(sockets(&mut world)[0].send_queue, 7);
}

/// As in the kernel, from the moment at which listen(2) is called again.
#[test]
fn a_listener_has_the_backlog_of_the_last_call() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (_, listener) = world.listen(&mut host);
    let backlog = |world: &mut World| sockets(world)[0].send_queue;
    assert_eq!(backlog(&mut world), 128);
    let addr = host.kernel[0].local_addr().expect("bound");
    for wanted in [300, 5] {
        rustix::net::listen(&host.kernel[0], wanted).expect("it listens");
        let shown = host.kernel[0].try_clone().expect("descriptors").into();
        let request = Request::Chosen { listener, addr };
        let (reply, _) = world.request(&mut host, &request, [shown].into_iter().collect());
        assert_eq!(reply, Reply::Done);
        assert_eq!(backlog(&mut world), wanted as u64);
    }
}
