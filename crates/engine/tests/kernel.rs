//! The engine on a real interface, beside the kernel: a veth pair between two namespaces, AF_XDP,
//! the steering program, the kernel's neighbours, and the kernel's TCP at the other end.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::config::Config;
use lab::{Side, World};
use queue_pair::control::{Channel, Fds, Metric, Reply, Request, VERSION};
use queue_pair::{Completion, ConnRef, ConnectBlock, HostSide, Submission, region};
use rustix::event::{PollFd, PollFlags, poll};

/// After so long it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// An engine on a thread of this process, in the server's namespace.
struct Engine {
    thread: Option<JoinHandle<()>>,
    stop: UnixStream,
    socket: PathBuf,
}

impl Engine {
    fn start(world: &World, change: impl FnOnce(&mut Config)) -> Self {
        let socket = world.scratch().join("engine.sock");
        let mut config = Config {
            interface: Side::Server.interface().to_owned(),
            socket: Some(socket.clone()),
            drain_seconds: 1,
            ignore_netfilter: true,
            ..Config::default()
        };
        change(&mut config);
        let (stop, heard) = UnixStream::pair().expect("a pair");
        let (ready, is_ready) = mpsc::channel();
        let failed = ready.clone();
        std::thread::scope(|scope| {
            // Namespaces belong to threads, and the engine's thread is not ours to wait for.
            scope
                .spawn(move || {
                    world.enter(Side::Server).expect("the server's namespace");
                    let thread = std::thread::spawn(move || {
                        let run = engine::run(config, heard.as_fd(), || {
                            ready.send(Ok(())).expect("somebody waits");
                        });
                        if let Err(error) = run {
                            let _ = failed.send(Err(error.to_string()));
                        }
                    });
                    is_ready
                        .recv_timeout(LIMIT)
                        .expect("starts or fails")
                        .expect("the engine starts");
                    Self {
                        thread: Some(thread),
                        stop,
                        socket,
                    }
                })
                .join()
                .expect("no panic")
        })
    }

    /// A program in the network of one side asks to attach.
    fn ask_to_attach(&self, world: &World, side: Side) -> (Channel, Reply, Fds) {
        let mut channel = on(world, side, || {
            Channel::connect(&self.socket).expect("the engine listens")
        });
        let request = Request::Attach {
            version: VERSION,
            program: "test".to_owned(),
            fork_token: None,
        };
        let (reply, fds) = channel
            .request(&request, Fds::new(), LIMIT)
            .expect("answered");
        (channel, reply, fds)
    }

    fn attach(&self, world: &World) -> Host {
        let (channel, reply, mut fds) = self.ask_to_attach(world, Side::Server);
        assert!(matches!(reply, Reply::Attached { .. }), "{reply:?}");
        let region = region::attach(fds.remove(0).as_fd()).expect("a region");
        let doorbell = fds.remove(0).into();
        let bell = fds.remove(0).into();
        Host {
            channel,
            region,
            doorbell,
            bell,
            completions: Vec::new(),
        }
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut channel = Channel::connect(&self.socket).expect("the engine listens");
        let (reply, _) = channel
            .request(&Request::Stats, Fds::new(), LIMIT)
            .expect("answered");
        let Reply::Stats(metrics) = reply else {
            panic!("{reply:?}");
        };
        metrics
    }

    fn metric(&self, name: &str) -> f64 {
        let of_name = |metric: &&Metric| metric.name == name;
        self.metrics()
            .iter()
            .filter(of_name)
            .map(|metric| metric.value)
            .sum()
    }

    fn signal_stop(&mut self) {
        self.stop.write_all(&[1]).expect("the engine hears");
    }

    fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.stop.write_all(&[1]);
        self.wait();
    }
}

/// An attached process, spoken for by the test; it sleeps as a program would.
struct Host {
    channel: Channel,
    region: HostSide,
    doorbell: queue_pair::doorbell::Ringer,
    bell: queue_pair::doorbell::Bell,
    completions: Vec<Completion>,
}

impl Host {
    fn submit(&mut self, submission: Submission) {
        assert!(self.region.submissions.post(&submission).expect("honest"));
        self.region.submissions.publish();
        if self.region.sleepers.take() != 0 {
            self.doorbell.ring();
        }
    }

    /// Waits until a completion satisfies `wanted`.
    fn wait_for<T>(&mut self, mut wanted: impl FnMut(&Completion) -> Option<T>) -> T {
        let begin = Instant::now();
        let mut seen = 0;
        loop {
            self.region.armed.arm(0);
            while let Some(completion) = self.region.completions.take().expect("honest") {
                self.completions.push(completion);
            }
            self.region.completions.release();
            if let Some(found) = self.completions[seen..].iter().find_map(&mut wanted) {
                return found;
            }
            seen = self.completions.len();
            let left = LIMIT.checked_sub(begin.elapsed()).expect("in time");
            let left = left.try_into().expect("a short span");
            let _ = poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], Some(&left));
            let _ = self.bell.drain();
        }
    }

    fn listen(&mut self, listener: &TcpListener) -> u32 {
        let request = Request::Listen {
            addr: listener.local_addr().expect("bound"),
            v6only: false,
            backlog: 16,
        };
        let shown: OwnedFd = listener.try_clone().expect("descriptors").into();
        let fds = [shown].into_iter().collect();
        let (reply, _) = self
            .channel
            .request(&request, fds, LIMIT)
            .expect("answered");
        let Reply::Listening { listener } = reply else {
            panic!("{reply:?}");
        };
        self.submit(Submission::Credit { listener, total: 8 });
        listener
    }

    fn accepted(&mut self) -> ConnRef {
        self.wait_for(|completion| match completion {
            Completion::Accepted { conn, .. } => Some(*conn),
            _ => None,
        })
    }

    fn receive(&mut self, conn: ConnRef) -> Vec<u8> {
        let (addr, len) = self.wait_for(|completion| match completion {
            Completion::Update {
                conn: c,
                addr,
                len: 1..,
                ..
            } if *c == conn => {
                let Completion::Update { len, .. } = completion else {
                    return None;
                };
                Some((*addr, *len))
            }
            _ => None,
        });
        let mut bytes = vec![0; len as usize];
        self.region
            .receive
            .copy_out(addr, &mut bytes)
            .expect("inside");
        bytes
    }

    fn send(&mut self, conn: ConnRef, bytes: &[u8], consumed: u64) {
        self.region.send.copy_in(4096, bytes).expect("inside");
        self.submit(Submission::Send {
            conn,
            addr: 4096,
            len: bytes.len() as u32,
            more: false,
            consumed,
        });
    }
}

/// Does something in the network of one side.
fn on<T: Send>(world: &World, side: Side, what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            world.enter(side).expect("its namespace");
            what()
        });
        thread.join().expect("no panic")
    })
}

fn listener(world: &World) -> (TcpListener, SocketAddr) {
    let listener = on(world, Side::Server, || {
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port")
    });
    let port = listener.local_addr().expect("bound").port();
    (listener, SocketAddr::from((Side::Server.ipv4(), port)))
}

fn connect(world: &World, to: SocketAddr) -> TcpStream {
    on(world, Side::Client, || {
        let stream = TcpStream::connect_timeout(&to, LIMIT).expect("connects");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        stream
    })
}

fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).expect("the bytes come");
    bytes
}

#[test]
fn the_kernels_tcp_is_served_and_an_idle_engine_sleeps() {
    if lab::skip_without_root("the_kernels_tcp_is_served_and_an_idle_engine_sleeps") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let mut host = engine.attach(&world);
    let (kernel, address) = listener(&world);
    host.listen(&kernel);
    let mut client = connect(&world, address);
    client.write_all(b"from the kernel").expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), b"from the kernel");
    host.send(conn, b"from the engine", 15);
    assert_eq!(read(&mut client, 15), b"from the engine");
    assert_eq!(engine.metric("handed_over"), 1.0);

    // Its connection is idle, and so is it. Who looks for work all the time takes more turns in a
    // few milliseconds than it may take for being asked twice and for what is done each second.
    let before = engine.metric("turns");
    std::thread::sleep(Duration::from_secs(1));
    let turns = engine.metric("turns") - before;
    assert!(turns < 5_000.0, "{turns} turns");
}

#[test]
fn a_program_of_another_network_is_not_let_into_this_one() {
    if lab::skip_without_root("a_program_of_another_network_is_not_let_into_this_one") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let (_channel, reply, _) = engine.ask_to_attach(&world, Side::Client);
    let Reply::Error { message, .. } = reply else {
        panic!("{reply:?}");
    };
    assert!(message.contains("another network namespace"), "{message}");
    assert_eq!(engine.metric("sessions"), 0.0);
}

#[test]
fn a_port_is_its_programs_only_while_the_kernels_socket_listens() {
    if lab::skip_without_root("a_port_is_its_programs_only_while_the_kernels_socket_listens") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let mut first = engine.attach(&world);
    let (kernel, address) = listener(&world);
    first.listen(&kernel);
    let _client = connect(&world, address);
    first.accepted();
    // It closes its socket and stays attached, and the port becomes another program's.
    drop(kernel);
    let again = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).expect("it is free");
    let other = on(&world, Side::Server, again);
    other.set_nonblocking(true).expect("a socket");
    let begin = Instant::now();
    loop {
        let _client = connect(&world, address);
        match other.accept() {
            Ok(_) => break,
            Err(_) => assert!(
                begin.elapsed() < LIMIT,
                "its clients reach who closed the port"
            ),
        }
    }
    // If that attaches, too, its clients are its own, and those of nobody else.
    let mut second = engine.attach(&world);
    second.listen(&other);
    let handed = engine.metric("handed_over");
    let mut client = connect(&world, address);
    client.write_all(b"for the second").expect("sent");
    let conn = second.accepted();
    assert_eq!(second.receive(conn), b"for the second");
    assert_eq!(engine.metric("handed_over"), handed + 1.0);
}

#[test]
fn connections_that_the_kernel_has_stay_the_kernels() {
    if lab::skip_without_root("connections_that_the_kernel_has_stay_the_kernels") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let mut host = engine.attach(&world);
    let (kernel, address) = listener(&world);
    let mut old = connect(&world, address);
    let (mut old_server, _) = kernel.accept().expect("the kernel's own");
    host.listen(&kernel);
    old.write_all(b"still").expect("sent");
    assert_eq!(read(&mut old_server, 5), b"still");
    old_server.write_all(b"here!").expect("sent");
    assert_eq!(read(&mut old, 5), b"here!");
    // New ones are the engine's, on the same port at the same time.
    let mut new = connect(&world, address);
    new.write_all(b"new").expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), b"new");
}

#[test]
fn a_stopping_engine_leaves_new_connections_to_the_kernel_and_ends_its_own() {
    if lab::skip_without_root("a_stopping_engine_leaves_new_connections_to_the_kernel") {
        return;
    }
    let world = World::new().expect("namespaces");
    let mut engine = Engine::start(&world, |_| ());
    let mut host = engine.attach(&world);
    let (kernel, address) = listener(&world);
    host.listen(&kernel);
    let mut client = connect(&world, address);
    let conn = host.accepted();
    // The program has accepted it: an untouched one would end by RST, as in the kernel.
    host.submit(Submission::Consumed { conn, total: 0 });
    let begin = Instant::now();
    engine.signal_stop();
    // The kernel's queue gets the next one, as soon as the engine has heard.
    kernel.set_nonblocking(true).expect("a socket");
    loop {
        let _new = connect(&world, address);
        match kernel.accept() {
            Ok(_) => break,
            Err(_) => assert!(begin.elapsed() < LIMIT, "the kernel takes over"),
        }
    }
    // After the time to drain, the old one ends in good order.
    assert_eq!(client.read(&mut [0; 1]).expect("no reset"), 0);
    drop(client);
    engine.wait();
    assert!(!engine.socket.exists(), "nothing is left behind");
}

#[test]
fn a_next_hop_is_resolved_by_the_kernel_and_a_missing_one_is_said() {
    if lab::skip_without_root("a_next_hop_is_resolved_by_the_kernel") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let mut host = engine.attach(&world);
    let target = on(&world, Side::Client, || {
        TcpListener::bind((Side::Client.ipv4(), 0)).expect("a port")
    });
    let remote = target.local_addr().expect("bound");
    // Nothing has crossed the link yet: the SYN waits until the kernel has asked who that is.
    host.region
        .send
        .copy_in(0, &ConnectBlock::new(remote).encode())
        .expect("inside");
    host.submit(Submission::Connect { token: 1, addr: 0 });
    let conn = host.wait_for(|completion| match completion {
        Completion::Opened { token: 1, conn, .. } => Some(*conn),
        _ => None,
    });
    let (mut accepted, peer) = target.accept().expect("accepted");
    assert_eq!(peer.ip(), Side::Server.ipv4());
    host.send(conn, b"hello", 0);
    assert_eq!(read(&mut accepted, 5), b"hello");

    let nobody = SocketAddr::from((Ipv4Addr::new(10, 77, 0, 99), 80));
    host.region
        .send
        .copy_in(64, &ConnectBlock::new(nobody).encode())
        .expect("inside");
    host.submit(Submission::Connect { token: 2, addr: 64 });
    let errno = host.wait_for(|completion| match completion {
        Completion::OpenFailed { token: 2, errno } => Some(*errno),
        _ => None,
    });
    let unreachable = rustix::io::Errno::HOSTUNREACH.raw_os_error();
    assert_eq!(i32::from(errno), unreachable);
}
