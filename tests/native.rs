//! Programs on the native interface, a real engine, and clients that use the kernel's TCP on the
//! other side of a wire.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use host::{
    Accepted, ConnectError, ConnectOptions, Errno, Listener, Poller, Readiness, Session, Shutdown,
    Socket, Source,
};
use lab::outboard::Outboard;
use lab::{Process, Side, World};
use rustix::net::sockopt;

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const PORT: u16 = 7000;

struct Bench {
    world: World,
    outboard: Outboard,
    engine: Option<Process>,
}

impl Bench {
    fn new() -> Self {
        let world = World::new().expect("a private network");
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        let engine = outboard.start_engine(&world, None).expect("an engine");
        Self {
            world,
            outboard,
            engine: Some(engine),
        }
    }

    /// A session of this thread, which is on the server's side from now on.
    fn session(&self) -> Session {
        self.world.enter(Side::Server).expect("the server's side");
        Session::attach_at(self.outboard.socket(), "native test").expect("a session")
    }

    /// Runs a client on the other side.
    fn client<'scope, R: Send + 'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        client: impl FnOnce() -> R + Send + 'scope,
    ) -> std::thread::ScopedJoinHandle<'scope, R> {
        scope.spawn(move || {
            self.world.enter(Side::Client).expect("the client's side");
            client()
        })
    }
}

fn server() -> SocketAddr {
    (Side::Server.ipv4(), PORT).into()
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect_timeout(&server(), HANG).expect("a connection");
    stream.set_read_timeout(Some(HANG)).expect("a limit");
    stream.set_write_timeout(Some(HANG)).expect("a limit");
    stream
}

fn accept(listener: &Listener) -> Socket {
    loop {
        listener.wait(Some(HANG)).expect("a client");
        match listener.accept() {
            Ok(Accepted::Offloaded(socket)) => return socket,
            Ok(Accepted::Kernel(_)) => panic!("the kernel accepted what came over the wire"),
            Err(Errno::AGAIN) => {}
            Err(errno) => panic!("{errno}"),
        }
    }
}

/// Sends all of it, waiting as needed.
fn send_all(socket: &Socket, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match socket.send(bytes, false) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::AGAIN) => {
                socket.wait(Readiness::OUT, Some(HANG)).expect("room");
            }
            Err(errno) => panic!("{errno}"),
        }
    }
}

/// Reads until the end, or until `limit` bytes are there.
fn read_up_to(socket: &Socket, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while bytes.len() < limit {
        let room = buffer.len().min(limit - bytes.len());
        match socket.recv(&mut buffer[..room]) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(Errno::AGAIN) => {
                socket.wait(Readiness::IN, Some(HANG)).expect("bytes");
            }
            Err(errno) => panic!("{errno}"),
        }
    }
    bytes
}

/// Bytes that are where they are for a reason.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

/// Echoes to everyone until told to stop.
fn echo(session: &Session, listener: &Listener, stop: &AtomicBool) {
    let mut poller = Poller::new(session).expect("a poller");
    poller
        .add(Source::Listener(listener), 0, Readiness::IN)
        .expect("an interest");
    let mut sockets: Vec<Option<Socket>> = vec![None];
    let mut events = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while !stop.load(Ordering::Relaxed) {
        match poller.wait(&mut events, Some(Duration::from_millis(50))) {
            // Also of who is stopped and goes on (signal(7)).
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => panic!("{errno}"),
        }
        for event in &events {
            if event.key == 0 {
                while let Ok(Accepted::Offloaded(socket)) = listener.accept() {
                    let key = sockets.len() as u64;
                    poller
                        .add(Source::Socket(&socket), key, Readiness::IN)
                        .expect("an interest");
                    sockets.push(Some(socket));
                }
                continue;
            }
            let place = &mut sockets[event.key as usize];
            let Some(socket) = place else { continue };
            match socket.recv(&mut buffer) {
                Ok(0) | Err(Errno::CONNRESET) => *place = None,
                Ok(read) => send_all(socket, &buffer[..read]),
                Err(Errno::AGAIN) => {}
                Err(errno) => panic!("{errno}"),
            }
        }
    }
}

#[test]
fn clients_on_the_wire_are_echoed_by_the_engine() {
    if lab::skip_without_root("clients_on_the_wire_are_echoed_by_the_engine") {
        return;
    }
    let bench = Bench::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let session = bench.session();
        let listener = session.listen(server(), 128).expect("a listener");
        let clients: Vec<_> = (0..8u8)
            .map(|client| {
                bench.client(scope, move || {
                    let mut stream = connect();
                    let mut back = [0; 64];
                    for round in 0..200u8 {
                        let message = [client ^ round; 64];
                        stream.write_all(&message).expect("written");
                        stream.read_exact(&mut back).expect("read");
                        assert_eq!(back, message);
                    }
                    // A close in good order: nothing but the end follows.
                    stream.shutdown(std::net::Shutdown::Write).expect("shut");
                    assert_eq!(stream.read(&mut back).expect("the end"), 0);
                })
            })
            .collect();
        let stop = &stop;
        let waiter = scope.spawn(move || {
            let results: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            stop.store(true, Ordering::Relaxed);
            results
        });
        echo(&session, &listener, stop);
        for result in waiter.join().expect("the clients") {
            result.expect("a client");
        }
    });
}

#[test]
fn a_session_is_small_again_after_a_burst() {
    const CLIENTS: usize = 100;
    const EACH: usize = 1 << 20;
    /// What may be received before anybody reads.
    const AT_FIRST: usize = 100_000;
    if lab::skip_without_root("a_session_is_small_again_after_a_burst") {
        return;
    }
    let bench = Bench::new();
    let (stop, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let session = bench.session();
        let listener = session.listen(server(), 128).expect("a listener");
        let written = &written;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                bench.client(scope, move || {
                    let mut stream = connect();
                    let bytes = pattern(EACH + client).split_off(client);
                    stream.write_all(&bytes[..AT_FIRST]).expect("written");
                    written.fetch_add(1, Ordering::Relaxed);
                    let mut writer = stream.try_clone().expect("a descriptor");
                    std::thread::scope(|scope| {
                        let rest = &bytes[AT_FIRST..];
                        scope.spawn(move || writer.write_all(rest).expect("written"));
                        let mut back = vec![0; EACH];
                        stream.read_exact(&mut back).expect("read");
                        assert!(back == bytes, "client {client}");
                    });
                    stream
                })
            })
            .collect();
        let (stop, outboard) = (&stop, &bench.outboard);
        let waiter = scope.spawn(move || {
            let streams: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            let begin = Instant::now();
            let held = loop {
                let counts = outboard.stats().expect("counts");
                let count = |name| lab::outboard::total(&counts, name);
                let held = count("receive_memory") + count("send_memory");
                let given = count("receive_memory_given_back");
                let is_small = held <= f64::from(1 << 20) && given > 0.0;
                if is_small || begin.elapsed() > 2 * HANG {
                    break (held, given, is_small);
                }
                std::thread::sleep(Duration::from_millis(100));
            };
            stop.store(true, Ordering::Relaxed);
            (streams, held)
        });
        let begin = Instant::now();
        while written.load(Ordering::Relaxed) < CLIENTS && begin.elapsed() < HANG {
            std::thread::sleep(Duration::from_millis(1));
        }
        echo(&session, &listener, stop);
        let (streams, (held, given, is_small)) = waiter.join().expect("the clients");
        for stream in streams {
            stream.expect("a client");
        }
        assert!(is_small, "{held} bytes are held, {given} were given back");
    });
}

#[test]
fn bulk_goes_both_ways_unharmed() {
    if lab::skip_without_root("bulk_goes_both_ways_unharmed") {
        return;
    }
    const BYTES: usize = 30 << 20;
    let bench = Bench::new();
    let sent = pattern(BYTES);
    std::thread::scope(|scope| {
        let session = bench.session();
        let listener = session.listen(server(), 16).expect("a listener");
        let sent = &sent;
        let client = bench.client(scope, move || {
            let mut stream = connect();
            stream.write_all(sent).expect("written");
            stream.shutdown(std::net::Shutdown::Write).expect("shut");
            let mut back = Vec::new();
            stream.read_to_end(&mut back).expect("read");
            assert!(back == *sent, "{} bytes came back changed", back.len());
        });
        let socket = accept(&listener);
        let received = read_up_to(&socket, usize::MAX);
        assert!(
            received == *sent,
            "{} bytes arrived changed",
            received.len()
        );
        send_all(&socket, &received);
        socket.shutdown(Shutdown::Write).expect("shut");
        client.join().expect("the client");
        let info = socket.info();
        assert!(info.is_ok() || info == Err(Errno::NOTCONN), "{info:?}");
    });
}

#[test]
fn the_engine_opens_connections() {
    if lab::skip_without_root("the_engine_opens_connections") {
        return;
    }
    let bench = Bench::new();
    std::thread::scope(|scope| {
        let (to_us, port) = std::sync::mpsc::channel();
        let peer = bench.client(scope, move || {
            let listener = TcpListener::bind((Side::Client.ipv4(), 0)).expect("a listener");
            // For accept: nothing may hang.
            sockopt::set_socket_timeout(&listener, sockopt::Timeout::Recv, Some(HANG))
                .expect("a limit");
            to_us
                .send(listener.local_addr().expect("bound"))
                .expect("told");
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(HANG)).expect("a limit");
            let mut request = Vec::new();
            stream.read_to_end(&mut request).expect("read");
            request.reverse();
            stream.write_all(&request).expect("written");
        });
        let session = bench.session();
        let remote = port.recv().expect("an address");
        let socket = session
            .connect(remote, ConnectOptions::default())
            .expect("begun");
        assert_eq!(socket.recv(&mut [0; 1]), Err(Errno::AGAIN));
        socket.wait(Readiness::OUT, Some(HANG)).expect("open");
        assert_eq!(socket.take_error(), None);
        assert_eq!(socket.local().ip(), Side::Server.ipv4());
        send_all(&socket, b"abcdef");
        socket.shutdown(Shutdown::Write).expect("shut");
        assert_eq!(read_up_to(&socket, usize::MAX), b"fedcba");
        peer.join().expect("the peer");

        // Nobody listens there any more.
        let socket = session
            .connect(remote, ConnectOptions::default())
            .expect("begun");
        socket.wait(Readiness::OUT, Some(HANG)).expect("an end");
        assert_eq!(socket.take_error(), Some(Errno::CONNREFUSED));

        // What is on this machine is the kernel's, and what is nowhere is nobody's.
        let own = session.connect(server(), ConnectOptions::default());
        assert!(matches!(own, Err(ConnectError::KernelsJob(_))));
        let nowhere = SocketAddr::from((Ipv4Addr::new(203, 0, 113, 1), 80));
        let nowhere = session.connect(nowhere, ConnectOptions::default());
        assert!(matches!(
            nowhere,
            Err(ConnectError::Failed(Errno::NETUNREACH))
        ));
    });
}

/// What an administrator has said of a neighbour stays as it is.
#[test]
fn a_permanent_neighbour_is_asked_nothing() {
    if lab::skip_without("a_permanent_neighbour_is_asked_nothing", &["ip"]) {
        return;
    }
    let bench = Bench::new();
    let ip = |side, words: &str| {
        let ip = bench.world.program(side, "ip").args(words.split(' '));
        ip.output().expect("ip")
    };
    let (client, near) = (Side::Client.ipv4(), Side::Server.interface());
    let link = ip(
        Side::Client,
        &format!("link show dev {}", Side::Client.interface()),
    );
    let mut words = link.split_whitespace();
    words
        .find(|word| *word == "link/ether")
        .expect("an interface");
    let mac = words.next().expect("its address");
    ip(
        Side::Server,
        &format!("neigh replace {client} lladdr {mac} dev {near} nud permanent"),
    );
    std::thread::scope(|scope| {
        let (to_us, told) = std::sync::mpsc::channel();
        let peer = bench.client(scope, move || {
            let listener = TcpListener::bind((client, 0)).expect("a listener");
            to_us
                .send(listener.local_addr().expect("bound"))
                .expect("told");
            // It waits in the queue of the listener.
            listener
        });
        let session = bench.session();
        let remote = told.recv().expect("an address");
        let _listener = peer.join().expect("the peer");
        for _ in 0..3 {
            let socket = session.connect(remote, ConnectOptions::default());
            let socket = socket.expect("begun");
            socket.wait(Readiness::OUT, Some(HANG)).expect("open");
            assert_eq!(socket.take_error(), None);
            // Who doubts the way does not change that.
            session.way(remote.ip(), true).expect("a way");
        }
        let kept = ip(Side::Server, &format!("neigh show to {client}"));
        assert!(kept.contains(mac) && kept.contains("PERMANENT"), "{kept}");
    });
}

#[test]
fn clients_on_this_machine_are_the_kernels() {
    if lab::skip_without_root("clients_on_this_machine_are_the_kernels") {
        return;
    }
    let bench = Bench::new();
    let session = bench.session();
    let listener = session.listen(server(), 16).expect("a listener");
    let client = connect();
    listener.wait(Some(HANG)).expect("a client");
    assert!(matches!(listener.accept(), Ok(Accepted::Kernel(_))));
    drop(client);
}

#[test]
fn a_killed_engine_resets_and_the_kernel_serves_on() {
    if lab::skip_without_root("a_killed_engine_resets_and_the_kernel_serves_on") {
        return;
    }
    let mut bench = Bench::new();
    let session = bench.session();
    let listener = session.listen(server(), 16).expect("a listener");
    // The client stays: once it had closed, the error would be EPIPE.
    let (socket, _client) = std::thread::scope(|scope| {
        let client = bench.client(scope, connect);
        let socket = accept(&listener);
        (socket, client.join().expect("the client"))
    });
    let engine = bench.engine.take().expect("an engine");
    engine.kill().expect("killed");
    socket.wait(Readiness::ERR, Some(HANG)).expect("an error");
    assert_eq!(socket.take_error(), Some(Errno::CONNRESET));

    std::thread::scope(|scope| {
        let client = bench.client(scope, connect);
        listener.wait(Some(HANG)).expect("a client");
        assert!(matches!(listener.accept(), Ok(Accepted::Kernel(_))));
        client.join().expect("the client");
    });

    let engine = bench.outboard.start_engine(&bench.world, None);
    bench.engine = Some(engine.expect("another engine"));
    let started = Instant::now();
    while !listener.is_offloaded() {
        assert!(started.elapsed() < HANG, "the port is not taken up");
        let _ = listener.wait(Some(Duration::from_millis(50)));
    }
    std::thread::scope(|scope| {
        let client = bench.client(scope, connect);
        accept(&listener);
        client.join().expect("the client");
    });
}
