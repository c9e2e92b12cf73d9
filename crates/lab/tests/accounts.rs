//! What an experiment says of who used the cores, besides what it measures: by process, on the kernel.
#![forbid(unsafe_code)]

mod first_levels;

use first_levels::{at, levels, setup};
use lab::catalogue::{Extent, find};
use lab::sampler::account::Watched;
use lab::sampler::listeners::Refused;
use lab::{Side, World, skip_without, skip_without_root};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The lab itself is the client and, where there is one, the wire: they are told apart.
#[test]
fn what_each_used_is_known() {
    let test = "what_each_used_is_known";
    for (name, subject, needs, others) in [
        ("respond", "nginx", &["nginx", "wrk"][..], &[][..]),
        ("syn-answers", "kernel", &["nginx"], &[]),
        ("goodput", "kernel CUBIC", &["nginx", "ethtool"], &["wire"]),
        (
            "fairness",
            "kernel CUBIC",
            &["nginx", "ethtool"],
            &["wire", "server beside"],
        ),
        (
            "lossy-objects",
            "nginx",
            &["nginx", "ethtool", "taskset"],
            &["path"],
        ),
    ] {
        if skip_without(test, needs) {
            continue;
        }
        let entry = find(name).unwrap();
        let experiment = entry.declare(Extent::Full);
        let mut bench = entry.open(&setup(subject)).unwrap();
        let levels = levels(&experiment);
        let at = at(&experiment, subject, &levels, 1);
        bench.prepare(&at).unwrap();
        let sample = bench.measure(&at).unwrap();
        let used = sample.used.as_ref().expect(name);
        assert!(used.passed >= 1.0, "{name}: {used:?}");
        for who in ["client", "server"].iter().chain(others) {
            assert!(used.processes.contains_key(*who), "{name}: {used:?}");
        }
        // A SYN is answered before any program hears of it: the server has its own timers to see to, if anything.
        if name != "syn-answers" {
            assert!(used.processes["server"] > 0.0, "{name}: {used:?}");
        }
        assert_eq!(used.engine, None, "{name}");
        // Of a client that is a thread or has a core it is known what more it could have done.
        let is_known = !["respond", "syn-answers"].contains(&name);
        assert_eq!(sample.client.is_known(), is_known, "{name}");
    }
}

/// A listener that nobody accepts from, with room for one that waits, of which the kernel makes two.
fn full_at_two(world: &World) -> (OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
    let address = SocketAddr::from((Side::Server.ipv4(), 80));
    let listener = world.on(Side::Server, || {
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&listener, &address)?;
        listen(&listener, 1)?;
        Ok(listener)
    });
    (listener.unwrap(), address)
}

/// Of the network namespace in which the server is, and of no other.
#[test]
fn what_an_accept_queue_has_no_room_for_is_counted_around_a_window() {
    let test = "what_an_accept_queue_has_no_room_for_is_counted_around_a_window";
    if skip_without_root(test) || skip_without(test, &["sleep"]) {
        return;
    }
    let world = World::new().unwrap();
    let (_listener, address) = full_at_two(&world);
    let there = |side| world.program(side, "sleep").arg("600").start().unwrap();
    let (server, client) = (there(Side::Server), there(Side::Client));
    let watched = Watched {
        processes: vec![("server", server.id())],
        families: vec![("server", server.id())],
        engine: None,
    };
    let come = |times: usize| {
        world.on(Side::Client, || {
            let one = |_| TcpStream::connect_timeout(&address, Duration::from_millis(100));
            Ok((0..times).filter_map(|at| one(at).ok()).collect::<Vec<_>>())
        })
    };
    let (one, spent) = watched.during(|_| come(1)).unwrap();
    assert_eq!(one.len(), 1);
    assert_eq!(spent.refused, Refused::default());
    // Of five more there is room for one: the SYNs of the others, or their last ACKs, come in vain.
    let (_five, spent) = watched
        .during(|_| {
            let five = come(5)?;
            let began = Instant::now();
            while Refused::around([server.id()]).overflowed < 4 {
                assert!(began.elapsed() < Duration::from_secs(60), "no overflow");
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(five)
        })
        .unwrap();
    let Refused {
        overflowed,
        dropped,
    } = spent.refused;
    // A namespace in which there are two counts once.
    let counted = Refused::around([server.id(), server.id()]);
    assert!(overflowed >= 4 && overflowed <= counted.overflowed);
    assert!(dropped >= overflowed, "{:?}", spent.refused);
    assert!(Refused::around([client.id()]).is_none());
}
