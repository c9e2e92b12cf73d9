//! Interfaces with several receive queues: frames of every one are the engine's, those of queues that
//! are not served do no harm, and queues that are added are served.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::beside::{Engine, Host, LIMIT, connect, listener, on, read};
use engine::config::{Queues, Workers};
use lab::{Side, World};
use queue_pair::{ConnRef, ConnectBlock, Opening, Submission};

/// So many connections leave none of four queues without one, but for one time in thousands; which
/// queue is the choice of the sender, and he is asked again until all have had a frame.
const CONNECTIONS: usize = 32;
/// Rounds of connections, after which it is not chance that a queue has none.
const ROUNDS: usize = 20;

/// A connection that the other end's kernel has as a stream.
struct Pair {
    conn: ConnRef,
    kernel: TcpStream,
    /// Bytes that the program has read.
    consumed: u64,
}

impl Pair {
    fn new(conn: ConnRef, kernel: TcpStream) -> Self {
        Self {
            conn,
            kernel,
            consumed: 0,
        }
    }

    /// Both directions work.
    fn exchange(&mut self, host: &mut Host) {
        host.completions.clear();
        self.kernel.write_all(b"there").expect("sent");
        assert_eq!(host.receive(self.conn), b"there");
        self.consumed += 5;
        host.send(self.conn, b"back", self.consumed);
        assert_eq!(read(&mut self.kernel, 4), b"back");
    }
}

/// A program that listens, and accepts as many as it likes.
struct Program {
    host: Host,
    listener: u32,
    accepted: u32,
    opened: u64,
    kernel: TcpListener,
    address: SocketAddr,
}

impl Program {
    fn on(world: &World, engine: &Engine) -> Self {
        let mut host = engine.attach(world);
        let (kernel, address) = listener(world);
        kernel.set_nonblocking(true).expect("a socket");
        let listener = host.listen(&kernel);
        Self {
            host,
            listener,
            accepted: 0,
            opened: 0,
            kernel,
            address,
        }
    }

    /// Connections of both kinds, over each of which something has gone.
    fn pairs(&mut self, world: &World, server: &TcpListener) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for _ in 0..CONNECTIONS / 2 {
            pairs.push(self.accept(world));
            pairs.push(self.open(server));
        }
        for pair in &mut pairs {
            pair.exchange(&mut self.host);
        }
        pairs
    }

    /// A client connects, and it is the engine's.
    fn accept(&mut self, world: &World) -> Pair {
        self.accepted += 1;
        self.host.submit(Submission::Credit {
            listener: self.listener,
            total: 8 + self.accepted,
            waits: false,
        });
        self.host.completions.clear();
        let kernel = connect(world, self.address);
        let conn = self.host.accepted();
        Pair::new(conn, kernel)
    }

    /// The program connects to a server at the other end.
    fn open(&mut self, server: &TcpListener) -> Pair {
        self.opened += 1;
        let token = self.opened;
        let remote = server.local_addr().expect("bound");
        let conn = self.host.open(&ConnectBlock::new(remote), token);
        let (kernel, _) = server.accept().expect("accepted");
        let conn = conn.expect("it opens");
        Pair::new(conn, kernel)
    }

    /// Why the engine does not open a connection.
    fn refused(&mut self, remote: SocketAddr) -> i32 {
        let opened = self.host.open(&ConnectBlock::new(remote), 1);
        opened.expect_err("it is not opened")
    }
}

fn server(world: &World) -> TcpListener {
    on(world, Side::Client, || {
        TcpListener::bind((Side::Client.ipv4(), 0)).expect("a port")
    })
}

/// `ethtool -L`, and whether the kernel does it.
fn set_queues(world: &World, side: Side, receive: u32, transmit: u32) -> bool {
    let status = Command::new("ip")
        .args(["netns", "exec", world.name(side), "ethtool", "-L"])
        .args([side.interface(), "rx", &receive.to_string()])
        .args(["tx", &transmit.to_string()])
        .output();
    status.expect("ethtool is there").status.success()
}

/// Frames by receive queue.
fn frames(engine: &Engine) -> Vec<f64> {
    let metrics = engine.metrics().into_iter();
    let of_queues = metrics.filter(|metric| metric.name == "queue_frames");
    of_queues.map(|metric| metric.value).collect()
}

#[test]
fn frames_of_every_queue_are_the_engines_in_both_directions() {
    if lab::skip_without_root("frames_of_every_queue_are_the_engines_in_both_directions") {
        return;
    }
    let world = World::with_queues(4).expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let mut program = Program::on(&world, &engine);
    let server = server(&world);
    let mut pairs = Vec::new();
    for _ in 0..ROUNDS {
        for _ in 0..CONNECTIONS / 2 {
            pairs.push(program.accept(&world));
            pairs.push(program.open(&server));
        }
        for pair in &mut pairs {
            pair.exchange(&mut program.host);
        }
        let counted = frames(&engine);
        assert_eq!(counted.len(), 4);
        if counted.iter().all(|frames| *frames > 0.0) {
            break;
        }
        pairs.clear();
    }
    let counted = frames(&engine);
    assert!(counted.iter().all(|frames| *frames > 0.0), "{counted:?}");
    assert_eq!(counted.iter().sum::<f64>(), engine.metric("rx_frames"));
    assert!(program.kernel.accept().is_err(), "none is the kernel's");
}

#[test]
fn a_queue_that_is_not_served_is_the_kernels_and_nothing_fails() {
    if lab::skip_without_root("a_queue_that_is_not_served_is_the_kernels_and_nothing_fails") {
        return;
    }
    let world = World::with_queues(4).expect("namespaces");
    let engine = Engine::start(&world, |config| {
        config.queues = Queues::These(vec![1, 2]);
    });
    let program = &mut Program::on(&world, &engine);
    let server = server(&world);
    // Answers could come to any queue, so the kernel is to open it.
    let unsupported = rustix::io::Errno::OPNOTSUPP.raw_os_error();
    let remote = server.local_addr().expect("bound");
    assert_eq!(program.refused(remote), unsupported);
    assert_eq!(program.host.region.opening.get(), Opening::UnservedQueue);
    // Whoever a client belongs to, it is served by that from its first segment to its last.
    let (mut of_engine, mut of_kernel) = (0, 0);
    for _ in 0..ROUNDS * CONNECTIONS {
        program.accepted += 1;
        program.host.submit(Submission::Credit {
            listener: program.listener,
            total: 8 + program.accepted,
            waits: false,
        });
        let handed = engine.metric("handed_over");
        program.host.completions.clear();
        let mut client = connect(&world, program.address);
        // The handshake's last segment may still be on its way.
        let mut stream = loop {
            match program.kernel.accept() {
                Ok((stream, _)) => break Some(stream),
                Err(_) if engine.metric("handed_over") > handed => break None,
                Err(_) => {}
            }
        };
        client.write_all(b"there").expect("sent");
        match &mut stream {
            Some(stream) => {
                stream.set_nonblocking(false).expect("a socket");
                assert_eq!(read(stream, 5), b"there");
                of_kernel += 1;
            }
            None => {
                let conn = program.host.accepted();
                assert_eq!(program.host.receive(conn), b"there");
                of_engine += 1;
            }
        }
        if of_engine >= 4 && of_kernel >= 4 {
            return;
        }
    }
    panic!("{of_engine} connections are the engine's, {of_kernel} the kernel's");
}

#[test]
fn queues_that_are_added_are_served_and_no_connection_is_lost() {
    if lab::skip_without_root("queues_that_are_added_are_served_and_no_connection_is_lost") {
        return;
    }
    queues_are_added(1);
}

/// What comes to the other worker than before is handed over.
#[test]
fn queues_that_are_added_to_two_workers_are_served_and_no_connection_is_lost() {
    let test = "queues_that_are_added_to_two_workers_are_served_and_no_connection_is_lost";
    if lab::skip_without_root(test) {
        return;
    }
    queues_are_added(2);
}

/// To an engine with so many workers, each of which has one first.
fn queues_are_added(workers: u16) {
    let world = World::with_queues(4).expect("namespaces");
    let first = u32::from(workers);
    // The sender's first: it may not have more queues than there are to receive from.
    assert!(set_queues(&world, Side::Client, 4, 1));
    // As many to send by: the kernel takes a queue without one for gone, whatever comes to it, and refuses that
    // while a socket is bound to it.
    assert!(set_queues(&world, Side::Server, first, first));
    let engine = Engine::start(&world, |config| config.workers = Workers::Count(workers));
    let program = &mut Program::on(&world, &engine);
    let server = server(&world);
    let mut pairs = program.pairs(&world, &server);
    assert_eq!(frames(&engine).len(), first as usize);
    // From now on the connections come to other queues than before.
    assert!(set_queues(&world, Side::Server, 4, first));
    // Drivers steer what comes to a new queue from its beginning; this one when it is told to.
    let begin = Instant::now();
    while frames(&engine).len() < 4 {
        assert!(begin.elapsed() < LIMIT, "the engine hears of them");
    }
    assert!(set_queues(&world, Side::Client, 4, 4));
    for pair in &mut pairs {
        pair.exchange(&mut program.host);
    }
    for _ in 0..ROUNDS {
        for _ in 0..CONNECTIONS / 2 {
            program.accept(&world).exchange(&mut program.host);
            program.open(&server).exchange(&mut program.host);
        }
        if frames(&engine).iter().all(|frames| *frames > 0.0) {
            break;
        }
    }
    let counted = frames(&engine);
    assert_eq!(counted.len(), 4);
    assert!(counted.iter().all(|frames| *frames > 0.0), "{counted:?}");
    // Fewer would leave frames to queues that are gone.
    assert!(set_queues(&world, Side::Client, 4, 1));
    assert!(!set_queues(&world, Side::Server, first, first));
    for pair in &mut pairs {
        pair.exchange(&mut program.host);
    }
}

/// A device that spreads by another table than before (`ethtool -X`): the frames of each connection come to another
/// queue, and to the other worker. A veth has no such table; its other end chooses the queue, and chooses anew when
/// it has more of them to send by, or fewer.
#[test]
fn connections_that_come_to_other_queues_of_two_workers_go_on() {
    if lab::skip_without_root("connections_that_come_to_other_queues_of_two_workers_go_on") {
        return;
    }
    let world = World::with_queues(4).expect("namespaces");
    let engine = Engine::start(&world, |config| config.workers = Workers::Count(2));
    let program = &mut Program::on(&world, &engine);
    let server = server(&world);
    let mut pairs = program.pairs(&world, &server);
    for spread in [1, 4, 2, 3, 1, 4] {
        assert!(set_queues(&world, Side::Client, 4, spread));
        for pair in &mut pairs {
            pair.exchange(&mut program.host);
        }
        program.accept(&world).exchange(&mut program.host);
        program.open(&server).exchange(&mut program.host);
    }
    assert!(engine.metric("frames_handed") > 0.0, "they came to both");
    assert!(program.kernel.accept().is_err(), "none is the kernel's");
}

#[test]
fn queues_that_are_left_out_can_go_and_no_connection_is_lost() {
    if lab::skip_without_root("queues_that_are_left_out_can_go_and_no_connection_is_lost") {
        return;
    }
    let world = World::with_queues(4).expect("namespaces");
    let fewer = |config: &mut engine::Config| config.queues = Queues::These(vec![0]);
    let engine = Engine::start_to_reload(&world, |_| (), fewer);
    let program = &mut Program::on(&world, &engine);
    let server = server(&world);
    let mut pairs = program.pairs(&world, &server);
    let before = engine.metric("rx_frames");
    // The other end first: it may not have more queues than there are to receive from.
    assert!(set_queues(&world, Side::Client, 4, 1));
    assert!(!set_queues(&world, Side::Server, 1, 1), "they are bound");
    assert_eq!(engine.reload(), (vec!["queues".to_owned()], vec![]));
    assert_eq!(frames(&engine).len(), 1);
    assert!(engine.metric("rx_frames") >= before, "what was counted is");
    // The kernel lets go of a closed socket's queue a moment later.
    let begin = Instant::now();
    while !set_queues(&world, Side::Server, 1, 1) {
        assert!(begin.elapsed() < LIMIT, "nothing is bound to them");
    }
    for pair in &mut pairs {
        pair.exchange(&mut program.host);
    }
    // All that there are by now are served, so programs may open connections again.
    let begin = Instant::now();
    while program.host.region.opening.get() != Opening::Engine {
        assert!(begin.elapsed() < LIMIT, "it hears that they are gone");
    }
    program.open(&server).exchange(&mut program.host);
    program.accept(&world).exchange(&mut program.host);
}

#[test]
fn queues_that_go_and_come_back_are_served_each_time() {
    if lab::skip_without_root("queues_that_go_and_come_back_are_served_each_time") {
        return;
    }
    let world = World::with_queues(4).expect("namespaces");
    let read = AtomicUsize::new(0);
    let one_or_all = move |config: &mut engine::Config| {
        config.queues = match read.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Queues::These(vec![0]),
            _ => Queues::All,
        };
    };
    let engine = Engine::start_to_reload(&world, |_| (), one_or_all);
    let program = &mut Program::on(&world, &engine);
    let server = server(&world);
    let mut pairs = program.pairs(&world, &server);
    for _ in 0..4 {
        // What came to a queue that is closed would be the kernel's.
        assert!(set_queues(&world, Side::Client, 4, 1));
        engine.reload();
        assert_eq!(frames(&engine).len(), 1);
        // The kernel may not have let go of them when they are asked for again.
        engine.reload();
        let begin = Instant::now();
        while program.host.region.opening.get() != Opening::Engine {
            assert!(begin.elapsed() < LIMIT, "all are served again");
        }
        assert_eq!(frames(&engine).len(), 4);
        assert!(set_queues(&world, Side::Client, 4, 4));
        for pair in &mut pairs {
            pair.exchange(&mut program.host);
        }
        program.open(&server).exchange(&mut program.host);
    }
}
