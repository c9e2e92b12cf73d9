//! An engine on a real interface, beside the kernel: a veth pair between two namespaces, AF_XDP, the
//! steering program, and hosts that speak the shared memory by hand.

#![allow(dead_code, reason = "each test binary uses its own part")]

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
use queue_pair::{Completion, ConnRef, ConnectBlock, HostSide, Submission, bells, region};
use rustix::event::{PollFd, PollFlags, poll};

/// After so long it hangs.
pub const LIMIT: Duration = Duration::from_secs(60);

/// An engine on a thread of this process, in the server's namespace.
pub struct Engine {
    thread: Option<JoinHandle<()>>,
    stop: UnixStream,
    outcome: mpsc::Receiver<Result<(), String>>,
    /// Where its control socket is.
    pub socket: PathBuf,
}

impl Engine {
    pub fn start(world: &World, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_to_reload(world, change, |_| ())
    }

    /// One that finds `changed` in its configuration when that is read again.
    pub fn start_to_reload(
        world: &World,
        change: impl FnOnce(&mut Config),
        changed: impl Fn(&mut Config) + Send + 'static,
    ) -> Self {
        let socket = world.scratch().join("engine.sock");
        let mut config = Config {
            interface: Side::Server.interface().into(),
            socket: Some(socket.clone()),
            drain_seconds: 1,
            ignore_netfilter: true,
            ..Config::default()
        };
        change(&mut config);
        let first = config.clone();
        let reread = move || {
            let mut config = first.clone();
            changed(&mut config);
            Ok(config)
        };
        let (stop, heard) = UnixStream::pair().expect("a pair");
        let (ready, is_ready) = mpsc::channel();
        let failed = ready.clone();
        std::thread::scope(|scope| {
            // Namespaces belong to threads, and the engine's thread is not ours to wait for.
            scope
                .spawn(move || {
                    world.enter(Side::Server).expect("the server's namespace");
                    let thread = std::thread::spawn(move || {
                        let run = engine::run(
                            config,
                            engine::opener::on_a_thread,
                            heard.as_fd(),
                            Box::new(reread),
                            || {
                                ready.send(Ok(())).expect("somebody waits");
                            },
                        );
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
                        outcome: is_ready,
                        socket,
                    }
                })
                .join()
                .expect("no panic")
        })
    }

    /// A program in the network of one side asks to attach.
    pub fn ask_to_attach(&self, world: &World, side: Side) -> (Channel, Reply, Fds) {
        let socket = &self.socket;
        let mut channel = on(world, side, || {
            Channel::connect(socket).expect("the engine listens")
        });
        let request = Request::Attach {
            version: VERSION,
            oldest: None,
            program: "test".to_owned(),
            fork_token: None,
        };
        let (reply, fds) = channel
            .request(&request, Fds::new(), LIMIT)
            .expect("answered");
        (channel, reply, fds)
    }

    pub fn attach(&self, world: &World) -> Host {
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

    /// A process attaches and listens: the kernel's socket with it, and where clients reach it.
    pub fn listening(&self, world: &World) -> (Host, TcpListener, SocketAddr) {
        let mut host = self.attach(world);
        let (kernel, address) = listener(world);
        host.listen(&kernel);
        (host, kernel, address)
    }

    /// Has it read its configuration again: the settings that have changed, and those that have not.
    pub fn reload(&self) -> (Vec<String>, Vec<String>) {
        let mut channel = Channel::connect(&self.socket).expect("the engine listens");
        let (reply, _) = channel
            .request(&Request::Reload, Fds::new(), LIMIT)
            .expect("answered");
        let Reply::Reloaded { changed, at_start } = reply else {
            panic!("{reply:?}");
        };
        (changed, at_start)
    }

    pub fn metrics(&self) -> Vec<Metric> {
        let mut channel = Channel::connect(&self.socket).expect("the engine listens");
        let (reply, _) = channel
            .request(&Request::Stats, Fds::new(), LIMIT)
            .expect("answered");
        let Reply::Stats(metrics) = reply else {
            panic!("{reply:?}");
        };
        metrics
    }

    pub fn metric(&self, name: &str) -> f64 {
        let of_name = |metric: &&Metric| metric.name == name;
        self.metrics()
            .iter()
            .filter(of_name)
            .map(|metric| metric.value)
            .sum()
    }

    /// What it has dropped for this reason.
    pub fn dropped(&self, reason: &str) -> f64 {
        let metrics = self.metrics();
        let of = metrics.iter().filter(|metric| {
            let mut labels = metric.labels.iter();
            labels.any(|(_, value)| value == reason)
        });
        of.map(|metric| metric.value).sum()
    }

    /// Why it ended by itself.
    pub fn failure(&self) -> String {
        let outcome = self.outcome.recv_timeout(LIMIT);
        outcome.expect("it ends").expect_err("by a failure")
    }

    pub fn signal_stop(&mut self) {
        self.stop.write_all(&[1]).expect("the engine hears");
    }

    pub fn wait(&mut self) {
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
pub struct Host {
    pub channel: Channel,
    pub region: HostSide,
    doorbell: queue_pair::doorbell::Ringer,
    bell: queue_pair::doorbell::Bell,
    pub completions: Vec<Completion>,
}

impl Host {
    pub fn submit(&mut self, submission: Submission) {
        assert!(self.try_submit(submission), "room in the ring");
    }

    /// Whether there was room for it.
    pub fn try_submit(&mut self, submission: Submission) -> bool {
        let posted = self.region.submissions.post(&submission).expect("honest");
        self.region.submissions.publish();
        if self.region.sleepers.take(bells::ALL) != 0 {
            self.doorbell.ring();
        }
        posted
    }

    /// Takes what the engine has posted.
    fn collect(&mut self) {
        while let Some(completion) = self.region.completions.take().expect("honest") {
            self.completions.push(completion);
        }
        self.region.completions.release();
    }

    /// Waits until a completion satisfies `wanted`.
    pub fn wait_for<T>(&mut self, mut wanted: impl FnMut(&Completion) -> Option<T>) -> T {
        let begin = Instant::now();
        let mut seen = 0;
        loop {
            self.region.armed.arm(0);
            self.collect();
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

    pub fn listen(&mut self, listener: &TcpListener) -> u32 {
        let reply = self.asks_to_listen(listener);
        let Reply::Listening { listener } = reply else {
            panic!("{reply:?}");
        };
        self.submit(Submission::Credit {
            listener,
            total: 8,
            waits: false,
        });
        listener
    }

    /// Shows a listener; what is answered.
    pub fn asks_to_listen(&mut self, listener: &TcpListener) -> Reply {
        let request = Request::Listen {
            addr: listener.local_addr().expect("bound"),
            v6only: false,
            backlog: 16,
            pinned: false,
        };
        let shown: OwnedFd = listener.try_clone().expect("descriptors").into();
        let fds = [shown].into_iter().collect();
        let answer = self.channel.request(&request, fds, LIMIT);
        answer.expect("answered").0
    }

    /// Whether a connection has been accepted, by now.
    pub fn has_accepted(&mut self) -> bool {
        self.collect();
        let mut all = self.completions.iter();
        all.any(|completion| matches!(completion, Completion::Accepted { .. }))
    }

    pub fn accepted(&mut self) -> ConnRef {
        self.wait_for(|completion| match completion {
            Completion::Accepted { conn, .. } => Some(*conn),
            _ => None,
        })
    }

    /// Asks for a connection, and waits until it is open; or why it is not.
    pub fn open(&mut self, block: &ConnectBlock, token: u64) -> Result<ConnRef, i32> {
        let bytes = block.encode();
        self.region.send.copy_in(0, &bytes).expect("inside");
        self.completions.clear();
        self.submit(Submission::Connect { token, addr: 0 });
        self.wait_for(|completion| match completion {
            Completion::Opened { token: t, conn, .. } if *t == token => Some(Ok(*conn)),
            Completion::OpenFailed { token: t, errno } if *t == token => Some(Err((*errno).into())),
            _ => None,
        })
    }

    pub fn receive(&mut self, conn: ConnRef) -> Vec<u8> {
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

    pub fn send(&mut self, conn: ConnRef, bytes: &[u8], consumed: u64) {
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

/// An `ip` command in the network of one side.
pub fn ip(world: &World, side: Side, what: &str) {
    world.ip(side, what).expect("it is done");
}

/// Does something in the network of one side.
pub fn on<T: Send>(world: &World, side: Side, what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            world.enter(side).expect("its namespace");
            what()
        });
        thread.join().expect("no panic")
    })
}

pub fn listener(world: &World) -> (TcpListener, SocketAddr) {
    let listener = on(world, Side::Server, || {
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port")
    });
    let port = listener.local_addr().expect("bound").port();
    (listener, SocketAddr::from((Side::Server.ipv4(), port)))
}

pub fn connect(world: &World, to: SocketAddr) -> TcpStream {
    on(world, Side::Client, || {
        let stream = TcpStream::connect_timeout(&to, LIMIT).expect("connects");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        stream
    })
}

pub fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).expect("the bytes come");
    bytes
}
