//! A storm over the control socket and over the kernel's tables, beside a connection that goes on: how long
//! the turns of the fast half were is printed, for who runs this on a machine that is quiet.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::beside::{Engine, connect, listener, on, read};
use lab::{Side, World};
use queue_pair::Submission;
use queue_pair::control::{Channel, Fds, Reply, Request, VERSION};

/// Requests and answers on the connection meanwhile.
const EXCHANGES: u32 = 2_000;
/// Connections that `ss` shows.
const CONNECTIONS: usize = 200;
/// Routes that come and go in one go.
const ROUTES: u32 = 200;

/// Does something again and again until the storm is over; how often.
fn again(over: &AtomicBool, mut what: impl FnMut()) -> u32 {
    let mut count = 0;
    while !over.load(Ordering::Relaxed) {
        what();
        count += 1;
    }
    count
}

/// Many commands of ip(8) in one go, in the engine's network.
fn ip(world: &World, commands: &str) {
    let mut ip = Command::new("ip")
        .args(["-n", world.name(Side::Server), "-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("iproute2 is there");
    let mut to = ip.stdin.take().expect("a pipe");
    to.write_all(commands.as_bytes()).expect("it reads");
    drop(to);
    assert!(ip.wait().expect("it ends").success(), "{commands}");
}

/// Asks for all sockets, a page after the other; how many there are.
fn sockets(channel: &mut Channel) -> usize {
    let (mut after, mut count) = (None, 0);
    loop {
        let request = Request::Sockets {
            after,
            filter: String::new(),
        };
        let (reply, _) = channel
            .request(&request, Fds::new(), crate::beside::LIMIT)
            .expect("answered");
        let Reply::Sockets { rows, next } = reply else {
            panic!("{reply:?}");
        };
        count += rows.len();
        after = next;
        if after.is_none() {
            return count;
        }
    }
}

#[test]
fn a_connection_goes_on_through_a_storm() {
    if lab::skip_without_root("a_connection_goes_on_through_a_storm") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |config| {
        config.limits.requests_per_second = 1_000_000;
    });
    let mut host = engine.attach(&world);
    let (kernel, address) = listener(&world);
    let listener = host.listen(&kernel);
    host.submit(Submission::Credit {
        listener,
        total: 2 * CONNECTIONS as u32,
        waits: false,
    });
    let mut client = connect(&world, address);
    client.write_all(b"first").expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), b"first");
    let many: Vec<_> = (0..CONNECTIONS).map(|_| connect(&world, address)).collect();
    let mut channel = Channel::connect(&engine.socket).expect("the engine listens");
    while sockets(&mut channel) <= many.len() {
        std::thread::yield_now();
    }
    let routes = |what: &str| -> String {
        let one = |n| format!("route {what} 10.99.{}.{}/32 dev lo\n", n / 200, n % 200);
        (0..ROUTES).map(one).collect()
    };
    let (add, remove) = (routes("add"), routes("del"));
    let (over, attached) = (AtomicBool::new(false), AtomicU32::new(0));
    let socket = &engine.socket;
    let counts = std::thread::scope(|scope| {
        let storm = [
            scope.spawn(|| {
                again(&over, || {
                    let dial = || Channel::connect(socket).expect("the engine listens");
                    let mut channel = on(&world, Side::Server, dial);
                    let attach = Request::Attach {
                        version: VERSION,
                        oldest: None,
                        program: "storm".to_owned(),
                        fork_token: None,
                    };
                    let answer = channel.request(&attach, Fds::new(), crate::beside::LIMIT);
                    let (reply, _) = answer.expect("answered");
                    assert!(matches!(reply, Reply::Attached { .. }), "{reply:?}");
                    attached.fetch_add(1, Ordering::Relaxed);
                })
            }),
            scope.spawn(|| {
                let mut channel = Channel::connect(socket).expect("the engine listens");
                again(&over, || assert!(sockets(&mut channel) > CONNECTIONS))
            }),
            scope.spawn(|| {
                again(&over, || {
                    ip(&world, &add);
                    ip(&world, &remove);
                })
            }),
        ];
        let mut exchanges = 0;
        while exchanges < EXCHANGES || attached.load(Ordering::Relaxed) < 20 {
            host.completions.clear();
            client.write_all(b"still").expect("sent");
            assert_eq!(host.receive(conn), b"still");
            exchanges += 1;
            host.send(conn, b"there", 5 * u64::from(exchanges + 1));
            assert_eq!(read(&mut client, 5), b"there");
        }
        over.store(true, Ordering::Relaxed);
        storm.map(|one| one.join().expect("no panic"))
    });
    let longest = engine.metric("longest_turn_seconds") * 1e6;
    let [attaches, listings, flaps] = counts;
    eprintln!(
        "{attaches} attachments, {listings} listings of {CONNECTIONS} connections, {flaps} times \
         {ROUTES} routes; the longest turn took {longest:.0} µs, with what the core was taken away for"
    );
    assert!(attaches >= 20 && listings > 0 && flaps > 0);
}
