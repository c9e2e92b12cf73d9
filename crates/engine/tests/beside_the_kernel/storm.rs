//! A storm over the control socket and over the kernel's tables, beside a connection that goes on: how long
//! the turns of the fast half were is printed, for who runs this on a machine that is quiet.
//!
//! `OUTBOARD_STORM` is how many connections there are that `ss` shows, and makes it long enough to measure:
//! `OUTBOARD_STORM=65000 cargo test --release -p outboard-engine --test beside_the_kernel storm -- --nocapture`. Each
//! takes a descriptor (`ulimit -n`). No turn is to have its core for more than 200 µs.
//!
//! What interrupts a thread (a timer, packets of others, a host that takes the core away) counts as its own time on
//! most kernels. With `OUTBOARD_STORM_IDLE` set a thread that does nothing but look at its own clock runs beside it, and
//! says how often that happens: what a turn took beyond that is the engine's, and is not to be much. It takes a core for
//! that.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect as connect_from, socket};
use rustix::time::{ClockId, clock_gettime};

use crate::beside::{Engine, LIMIT, listener, on, read};
use lab::{Side, World};
use queue_pair::Submission;
use queue_pair::control::{Channel, Fds, Metric, Reply, Request, VERSION};

/// Requests and answers on the connection meanwhile.
const EXCHANGES: u32 = 2_000;
/// Connections that `ss` shows, where nobody says how many.
const CONNECTIONS: usize = 200;
/// How long a storm is that is measured, at least.
const LONG: Duration = Duration::from_secs(20);
/// Connections from one address: there are hardly more ports.
const OF_ADDRESS: usize = 20_000;
/// What is counted as long: a limit of the histograms, and the next one above what is wanted of a turn.
const LONG_TURN: Duration = Duration::from_nanos(1 << 18);
/// So many turns in each second of the core may be long beside twice those that an idle thread has: it is interrupted
/// less than one that makes the kernel work.
const SPARE: f64 = 5.0;
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
            .request(&request, Fds::new(), LIMIT)
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

/// The addresses of so many clients, which the other end has from now on.
fn clients(world: &World, connections: usize) -> Vec<Ipv4Addr> {
    let [a, b, c, _] = Side::Client.ipv4().octets();
    let count = connections.div_ceil(OF_ADDRESS) as u8;
    let all = (0..count).map(|n| Ipv4Addr::new(a, b, c, 100 + n));
    all.inspect(|address| {
        let what = format!("address add {address}/24 dev {}", Side::Client.interface());
        crate::beside::ip(world, Side::Client, &what);
    })
    .collect()
}

/// A client with this address.
fn client(world: &World, from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    on(world, Side::Client, || {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a descriptor");
        bind(&socket, &SocketAddr::from((from, 0))).expect("a port");
        connect_from(&socket, &to).expect("somebody answers");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        stream
    })
}

/// The longest of what a histogram of the engine's counts since `before`, in microseconds.
fn longest(engine: &Engine, name: &str, before: &[(f64, u64)]) -> f64 {
    let then = |limit: f64| before.iter().find(|(other, _)| *other == limit);
    let now = buckets(engine, name);
    let mut came = now.iter().rev();
    let last = came.find(|(limit, count)| *count > then(*limit).map_or(0, |(_, count)| *count));
    last.map_or(0.0, |(limit, _)| limit * 1e6)
}

/// How many turns had their core for longer than this, and how many seconds all of them had it.
fn turns(engine: &Engine, limit: Duration) -> (u64, f64) {
    let named = |it: &Metric| it.name == "turn_core_seconds";
    let all = engine.metrics().into_iter().filter(named);
    let all = all.filter_map(|it| it.histogram).next();
    let all = all.expect("it is measured");
    let is_long = |(longest, _): &&(f64, u64)| *longest > 1.01 * limit.as_secs_f64();
    let long = all.buckets.iter().filter(is_long);
    (long.map(|(_, count)| count).sum(), all.sum)
}

/// How often, in each second, a thread that does nothing loses its core for longer than this without
/// being told, and for how long at most, in microseconds.
fn interruptions(over: &AtomicBool, limit: Duration) -> (f64, f64) {
    let own = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let begin = own();
    let (mut last, mut longest, mut count) = (begin, Duration::ZERO, 0);
    while !over.load(Ordering::Relaxed) {
        let now = own();
        let gap = now.saturating_sub(last);
        longest = longest.max(gap);
        count += u32::from(gap > limit);
        last = now;
    }
    let took = last.saturating_sub(begin).as_secs_f64();
    (f64::from(count) / took, longest.as_secs_f64() * 1e6)
}

fn buckets(engine: &Engine, name: &str) -> Vec<(f64, u64)> {
    let metrics = engine.metrics().into_iter();
    let named = metrics.filter(|metric| metric.name == name);
    let mut histograms = named.filter_map(|metric| metric.histogram);
    histograms.next().map_or(Vec::new(), |it| it.buckets)
}

#[test]
fn a_connection_goes_on_through_a_storm() {
    if lab::skip_without_root("a_connection_goes_on_through_a_storm") {
        return;
    }
    let said = std::env::var("OUTBOARD_STORM").ok();
    let said: Option<usize> = said.map(|count| count.parse().expect("a number"));
    let connections = said.unwrap_or(CONNECTIONS);
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |config| {
        config.limits.requests_per_second = 1_000_000;
        config.limits.connections = config.limits.connections.max(2 * connections as u32);
        config.measure_turns = true;
    });
    let mut host = engine.attach(&world);
    let (kernel, address) = listener(&world);
    let listener = host.listen(&kernel);
    host.submit(Submission::Credit {
        listener,
        total: 2 * connections as u32,
        waits: false,
    });
    let froms = clients(&world, connections);
    let mut client = client(&world, froms[0], address);
    client.write_all(b"first").expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), b"first");
    let mut many = Vec::with_capacity(connections);
    for n in 0..connections {
        host.completions.clear();
        many.push(self::client(&world, froms[n / OF_ADDRESS], address));
        host.accepted();
    }
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
    let names = ["turn_seconds", "turn_core_seconds", "flush_core_seconds"];
    let before = names.map(|name| buckets(&engine, name));
    let turns_before = turns(&engine, LONG_TURN);
    let begin = Instant::now();
    let (counts, interrupted) = std::thread::scope(|scope| {
        let wanted = std::env::var_os("OUTBOARD_STORM_IDLE").is_some();
        let idle = wanted.then(|| scope.spawn(|| interruptions(&over, LONG_TURN)));
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
                    let answer = channel.request(&attach, Fds::new(), LIMIT);
                    let (reply, _) = answer.expect("answered");
                    assert!(matches!(reply, Reply::Attached { .. }), "{reply:?}");
                    attached.fetch_add(1, Ordering::Relaxed);
                })
            }),
            scope.spawn(|| {
                let mut channel = Channel::connect(socket).expect("the engine listens");
                again(&over, || assert!(sockets(&mut channel) > connections))
            }),
            scope.spawn(|| {
                again(&over, || {
                    ip(&world, &add);
                    ip(&world, &remove);
                })
            }),
        ];
        let mut exchanges = 0;
        while exchanges < EXCHANGES
            || attached.load(Ordering::Relaxed) < 20
            || (said.is_some() && begin.elapsed() < LONG)
        {
            host.completions.clear();
            client.write_all(b"still").expect("sent");
            assert_eq!(host.receive(conn), b"still");
            exchanges += 1;
            host.send(conn, b"there", 5 * u64::from(exchanges + 1));
            assert_eq!(read(&mut client, 5), b"there");
        }
        over.store(true, Ordering::Relaxed);
        let counts = storm.map(|one| one.join().expect("no panic"));
        (counts, idle.map(|idle| idle.join().expect("no panic")))
    });
    let took = begin.elapsed().as_secs_f64();
    let [clock, core, sending] = [0, 1, 2].map(|at| longest(&engine, names[at], &before[at]));
    let [attaches, listings, flaps] = counts;
    eprintln!(
        "{:.0} attachments a second, {listings} listings of {connections} connections, {flaps} times {ROUTES} \
         routes in {took:.1} s; the longest turn had its core for {core:.0} µs (calls that send, on a veth with the \
         peer's receiving: {sending:.0} µs), and took {clock:.0} µs by the clock",
        f64::from(attaches) / took
    );
    let (long, all) = turns(&engine, LONG_TURN);
    let often_long = (long - turns_before.0) as f64 / (all - turns_before.1);
    eprintln!(
        "longer than {:.0} µs were {often_long:.1} turns in each second of its core",
        LONG_TURN.as_secs_f64() * 1e6,
    );
    if let Some((often, longest)) = interrupted {
        eprintln!(
            "a thread that did nothing was interrupted {often:.1} times in each second of its own for as long, and \
             once for {longest:.0} µs"
        );
        assert!(
            often_long <= 2.0 * often + SPARE,
            "{often_long:.1} and {often:.1}"
        );
    }
    assert!(attaches >= 20 && listings > 0 && flaps > 0);
}
