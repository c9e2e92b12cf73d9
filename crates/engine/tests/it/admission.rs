//! Who may connect to a listener, as its program says by the control socket.

use std::time::Duration;

use crate::world::{Host, World};
use queue_pair::control::{AdmissionCounts, AdmissionLimit, AdmissionPolicy, Fds, Reply, Request};

fn most(in_flight: u32) -> AdmissionPolicy {
    AdmissionPolicy {
        all: AdmissionLimit {
            in_flight,
            ..AdmissionLimit::default()
        },
        bits_v4: 32,
        bits_v6: 64,
        reset: true,
        ..AdmissionPolicy::default()
    }
}

fn admit(world: &mut World, host: &mut Host, listener: u32, policy: AdmissionPolicy) -> Reply {
    let request = Request::Admit { listener, policy };
    world.request(host, &request, Fds::new()).0
}

fn admitted(world: &mut World, host: &mut Host, listener: u32) -> AdmissionCounts {
    let request = Request::Admitted { listener };
    match world.request(host, &request, Fds::new()).0 {
        Reply::Admitted(counts) => counts,
        reply => panic!("{reply:?}"),
    }
}

fn bad_descriptor(reply: &Reply) -> bool {
    let bad = rustix::io::Errno::BADF.raw_os_error();
    matches!(reply, Reply::Error { errno, .. } if *errno == bad)
}

#[test]
fn the_engine_refuses_the_syn_of_one_too_many() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen_with_credit(&mut host);
    assert_eq!(admit(&mut world, &mut host, listener, most(1)), Reply::Done);
    let (conn, first) = world.connect(&mut host, port);
    let second = world.peer.connect(world.now, port);
    world.settle();
    let failed = world.peer.conns[&second].update.failed;
    assert_eq!(failed, Some(tcp::Failure::Refused));
    let expected = AdmissionCounts {
        accepts: 1,
        in_flight: 1,
        refused_by_count: 1,
        ..AdmissionCounts::default()
    };
    assert_eq!(admitted(&mut world, &mut host, listener), expected);
    // The metrics tell of it, too.
    let Reply::Stats(metrics) = world.ask_once(&Request::Stats) else {
        panic!("no metrics");
    };
    let label = ("reason".to_owned(), "admission_in_flight".to_owned());
    let told = metrics
        .iter()
        .find(|metric| metric.name == "listener_dropped" && metric.labels.contains(&label));
    assert_eq!(told.expect("a metric").value, 1.0);
    // Both ends close: there is room again.
    host.close(conn);
    world.peer.request(world.now, first, tcp::Request::Close);
    world.pass(Duration::from_millis(20));
    world.connect(&mut host, port);
    // And without a policy for everybody.
    let open = AdmissionPolicy::default();
    assert_eq!(admit(&mut world, &mut host, listener, open), Reply::Done);
    world.connect(&mut host, port);
    assert_eq!(admitted(&mut world, &mut host, listener).in_flight, 0);
}

#[test]
fn a_listener_of_another_process_is_not_ones_own() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (_, listener) = world.listen(&mut host);
    let mut other = world.attach(None);
    let reply = admit(&mut world, &mut other, listener, most(1));
    assert!(bad_descriptor(&reply), "{reply:?}");
    let request = Request::Admitted { listener };
    let (reply, _) = world.request(&mut other, &request, Fds::new());
    assert!(bad_descriptor(&reply), "{reply:?}");
    let reply = admit(&mut world, &mut host, listener + 7, most(1));
    assert!(bad_descriptor(&reply), "{reply:?}");
}
