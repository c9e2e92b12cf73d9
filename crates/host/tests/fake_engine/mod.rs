//! An engine that does only what a test tells it: it answers on a real control socket and shares a
//! real region, but it has no network. The test hands over connections, delivers and acknowledges
//! bytes, and looks at what the host submitted.

#![allow(dead_code, reason = "each test file uses its part")]

mod room;
pub mod waiting;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use host::{Listener, Session, Socket};
use queue_pair::control::{Carried, Channel, Fds, Reply, Request};
use queue_pair::doorbell::{self, Bell, Ringer};
use queue_pair::parked::{Found, News};
use queue_pair::region::{self, EngineSide};
use queue_pair::{Completion, ConnRef, Layout, Sizes, Submission, bells, parked, position};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Pid;

/// How long anything in a test may take before it counts as a hang.
pub const HANG: Duration = Duration::from_secs(60);

/// The engine. Dropping it is its death.
pub struct FakeEngine {
    pub path: PathBuf,
    inner: Arc<Mutex<Inner>>,
    stop: Arc<(AtomicBool, OwnedFd)>,
    thread: Option<JoinHandle<()>>,
}

/// What the engine has.
#[derive(Default)]
pub struct Inner {
    pub attached: Vec<Attached>,
    /// The requests so far, in their order.
    pub requests: Vec<Request>,
    /// The engine's ends of lifelines.
    pub lifelines: Vec<OwnedFd>,
    listeners: u32,
    sizes: Option<Sizes>,
    /// The version of the protocol that it speaks, if it is not the newest.
    pub version: Option<u32>,
    /// It opens connections to any address of this machine.
    pub local: bool,
    /// What becomes of those who would listen, if it takes no listeners.
    pub listening: Option<Refused>,
    /// The connection of a ticket, whichever is shown.
    pub ticketed: Option<ConnRef>,
    /// It has as many files as may be.
    pub full: bool,
    /// Its policy leaves files of 1000 to 5000 bytes to the program.
    pub leaves_files: bool,
}

/// What an engine does that takes no listeners.
#[derive(Clone, Copy)]
pub enum Refused {
    /// It says why.
    With(Errno),
    /// It hangs up, as one that is killed meanwhile.
    ByHangingUp,
}

/// Whether a descriptor is readable now, as whoever sleeps on it would see it.
pub fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
}

/// Whether a thread of this process sleeps.
pub fn is_asleep(thread: Pid) -> bool {
    let path = format!("/proc/self/task/{thread}/stat");
    let stat = std::fs::read_to_string(path).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('S')
}

/// One attached host.
pub struct Attached {
    pub side: EngineSide,
    bell: Bell,
    ringers: Vec<Ringer>,
    connections: HashMap<ConnRef, Connection>,
    /// Where the next bytes are put in the receive area.
    place: u64,
    next: u32,
    /// Submissions that were taken and not looked at.
    taken: Vec<Submission>,
    /// The bells by which listeners hear, where they have named one.
    listeners_bells: HashMap<u32, u8>,
    /// How often it has rung.
    pub rings: u64,
}

#[derive(Default)]
struct Connection {
    acked: u64,
    peer_closed: bool,
    /// All that the host has sent.
    sent: Vec<u8>,
}

impl FakeEngine {
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// With a region of other sizes than the default ones.
    pub fn start_with(sizes: Option<Sizes>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("outboard-fake-{}-{number}.sock", std::process::id());
        Self::start_at(std::env::temp_dir().join(name), sizes)
    }

    pub fn start_at(path: PathBuf, sizes: Option<Sizes>) -> Self {
        let _ = std::fs::remove_file(&path);
        let flags = SocketFlags::CLOEXEC;
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 16).unwrap();
        let inner = Arc::new(Mutex::new(Inner {
            sizes,
            ..Inner::default()
        }));
        let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let stop = Arc::new((AtomicBool::new(false), eventfd));
        let thread = {
            let (inner, stop) = (Arc::clone(&inner), Arc::clone(&stop));
            std::thread::spawn(move || answer(&listener, &inner, &stop))
        };
        Self {
            path,
            inner,
            stop,
            thread: Some(thread),
        }
    }

    /// A session on it.
    pub fn attach(&self) -> Session {
        Session::attach_at(&self.path, "test").unwrap()
    }

    /// A session on it that listens, and takes what it is offered.
    pub fn listening(&self) -> (Session, Listener) {
        let session = self.attach();
        let listener = session.listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        listener.want();
        (session, listener)
    }

    /// A connection that the first listener is handed, and accepts by `listener`.
    pub fn connection(&self, listener: &Listener) -> (ConnRef, Socket) {
        let conn = self.host(|host| host.hand(1));
        (conn, listener.accept_offloaded().unwrap())
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// The first attached host, on which most tests act.
    pub fn host<R>(&self, act: impl FnOnce(&mut Attached) -> R) -> R {
        act(&mut self.lock().attached[0])
    }

    /// Waits until `look` finds something.
    pub fn until<R>(&self, mut look: impl FnMut(&mut Inner) -> Option<R>) -> R {
        let start = Instant::now();
        loop {
            if let Some(found) = look(&mut self.lock()) {
                return found;
            }
            assert!(start.elapsed() < HANG, "nothing came");
            std::thread::yield_now();
        }
    }

    /// It dies: all that it had is closed.
    pub fn die(mut self) -> PathBuf {
        self.end();
        self.path.clone()
    }

    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop.0.store(true, Ordering::Relaxed);
            rustix::io::write(&self.stop.1, &1u64.to_ne_bytes()).unwrap();
            thread.join().unwrap();
            let _ = std::fs::remove_file(&self.path);
            self.lock().attached.clear();
        }
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread that answers on the control socket.
fn answer(listener: &OwnedFd, inner: &Mutex<Inner>, stop: &(AtomicBool, OwnedFd)) {
    let mut channels: Vec<Channel> = Vec::new();
    // The host that each channel attached.
    let mut hosts: Vec<Option<usize>> = Vec::new();
    loop {
        let mut polls = vec![
            PollFd::new(&stop.1, PollFlags::IN),
            PollFd::new(listener, PollFlags::IN),
        ];
        polls.extend(
            channels
                .iter()
                .map(|channel| PollFd::new(channel, PollFlags::IN)),
        );
        rustix::event::poll(&mut polls, None).unwrap();
        let ready: Vec<bool> = polls
            .iter()
            .map(|poll| !poll.revents().is_empty())
            .collect();
        if stop.0.load(Ordering::Relaxed) {
            return;
        }
        for at in (0..channels.len()).rev().filter(|at| ready[at + 2]) {
            match channels[at].try_receive() {
                Ok(Some((request, _fds))) => {
                    let inner = &mut inner.lock().unwrap();
                    let listens = matches!(request, Request::Listen { .. });
                    if let Some((reply, fds)) = reply(inner, &mut hosts[at], request) {
                        // Who has asked may have gone meanwhile.
                        let _ = channels[at].send(&reply, fds);
                    } else if listens {
                        drop(channels.swap_remove(at));
                        hosts.swap_remove(at);
                    }
                }
                Ok(None) => {}
                Err(_) => {
                    drop(channels.swap_remove(at));
                    hosts.swap_remove(at);
                }
            }
        }
        if ready[1] {
            channels.push(Channel::new(rustix::net::accept(listener).unwrap()));
            hosts.push(None);
        }
    }
}

fn reply(inner: &mut Inner, host: &mut Option<usize>, request: Request) -> Option<(Reply, Fds)> {
    let mut fds = Fds::new();
    inner.requests.push(request.clone());
    let reply = match request {
        Request::Attach { .. } => {
            let mut layout = Layout::new(inner.sizes.unwrap_or_default()).unwrap();
            if let Some(version) = inner.version {
                layout = layout.of_version(version);
            }
            let (region, side) = region::create(&layout).unwrap();
            let (to_engine, bell) = doorbell::pair().unwrap();
            let (ringer, waker) = doorbell::pair().unwrap();
            fds.extend([region, to_engine.into(), waker.into()]);
            *host = Some(inner.attached.len());
            inner.attached.push(Attached {
                side,
                bell,
                ringers: vec![ringer],
                connections: HashMap::new(),
                place: 0,
                next: 0,
                taken: Vec::new(),
                listeners_bells: HashMap::new(),
                rings: 0,
            });
            let engine = "fake".to_owned();
            // The tests' connections leave by no interface that there is.
            Reply::Attached {
                session: 1,
                engine,
                interface: 0,
                others: Vec::new(),
                local: inner.local,
                version: inner.version,
            }
        }
        Request::Listen { .. } => match inner.listening {
            None => {
                inner.listeners += 1;
                let listener = inner.listeners;
                Reply::Listening { listener }
            }
            Some(Refused::With(errno)) => Reply::Error {
                errno: errno.raw_os_error(),
                message: String::new(),
            },
            Some(Refused::ByHangingUp) => return None,
        },
        Request::AdoptListener { listener } => Reply::Listening { listener },
        Request::Waker => {
            let attached = &mut inner.attached[host.unwrap()];
            let (ringer, waker) = doorbell::pair().unwrap();
            attached.ringers.push(ringer);
            fds.push(waker.into());
            let waker = attached.ringers.len() as u32 - 1;
            Reply::Waker { waker }
        }
        Request::Fork => {
            let (ours, theirs) = rustix::net::socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )
            .unwrap();
            inner.lifelines.push(ours);
            fds.push(theirs);
            Reply::Forked { token: 7 }
        }
        Request::Claim => Reply::Claimed {
            conn: inner.ticketed.unwrap(),
            local: LOCAL.parse().unwrap(),
            peer: PEER.parse().unwrap(),
            carried: Carried::default(),
        },
        Request::File if inner.full => Reply::Error {
            errno: Errno::MFILE.raw_os_error(),
            message: "as many files are sent from as may be".to_owned(),
        },
        Request::File if inner.leaves_files => Reply::Left {
            first: 1000,
            last: 5000,
        },
        Request::File => Reply::File {
            file: 5,
            by_policy: false,
        },
        Request::Report { .. } | Request::LastWords(_) => return None,
        Request::Unlisten { .. }
        | Request::Disclaim
        | Request::Settle
        | Request::Admit { .. }
        | Request::Chosen { .. }
        | Request::Local { .. } => Reply::Done,
        other => Reply::Error {
            errno: 95,
            message: format!("{other:?} is not faked"),
        },
    };
    Some((reply, fds))
}

/// The number of the grant under which connections are handed over.
pub const GRANT: u16 = 3;

/// The ends of every connection that is handed over.
pub const PEER: &str = "192.0.2.9:40000";
pub const LOCAL: &str = "192.0.2.1:80";

/// The connection that it is about, and what news it is; `None`: whoever has asked hears of it.
fn concerns(completion: &Completion) -> Option<(ConnRef, News)> {
    match *completion {
        // The acknowledgement of a few bytes can wait for more.
        Completion::Update {
            conn,
            len: 0,
            peer_closed,
            ..
        } => Some((
            conn,
            if peer_closed {
                News::Urgent
            } else {
                News::Room
            },
        )),
        Completion::Update { conn, .. }
        | Completion::Placed { conn, .. }
        | Completion::Elsewhere { conn, .. }
        | Completion::Failed { conn, .. }
        | Completion::Shut { conn }
        | Completion::ReadShut { conn }
        | Completion::ErrorTaken { conn, yours: false } => Some((conn, News::Urgent)),
        Completion::Released { conn } => Some((conn, News::Room)),
        _ => None,
    }
}

/// What it says is acknowledged, if it is about that.
fn acked(completion: &Completion) -> Option<u64> {
    match *completion {
        Completion::Update { acked, .. }
        | Completion::Placed { acked, .. }
        | Completion::Elsewhere { acked, .. } => Some(acked),
        _ => None,
    }
}

impl Attached {
    /// Posts a completion, and wakes who sleeps: on its connection, or else by a bell.
    pub fn post(&mut self, completion: Completion) {
        self.post_as(completion, concerns(&completion));
    }

    fn post_as(&mut self, completion: Completion, concerns: Option<(ConnRef, News)>) {
        self.post_quietly(completion);
        if let Completion::Accepted { listener, .. } = completion
            && let Some(bell) = self.listeners_bells.get(&listener)
        {
            fence(Ordering::SeqCst);
            self.ring(1 << bell);
        } else {
            self.wake(concerns, acked(&completion));
        }
    }

    /// Wakes whom concerns what was published.
    fn wake(&mut self, concerns: Option<(ConnRef, News)>, acked: Option<u64>) {
        fence(Ordering::SeqCst);
        let mut bells = bells::ALL;
        if let Some((conn, news)) = concerns
            && let Some(word) = self.side.positions.sleeper(conn.index)
            && let Some(bell) = self.side.positions.bell(conn.index)
        {
            if parked::wake(word, news, acked) != Found::Nobody {
                return;
            }
            bells = bells::of(bell);
        }
        self.ring(bells);
    }

    fn ring(&mut self, bells: u64) {
        let sleepers = self.side.sleepers.take(bells);
        for (at, ringer) in self.ringers.iter().enumerate() {
            if sleepers & 1 << at != 0 {
                self.rings += 1;
                ringer.ring();
            }
        }
    }

    /// Posts a completion, and wakes nobody.
    fn post_quietly(&mut self, completion: Completion) {
        assert!(
            self.side.completions.post(&completion).unwrap(),
            "ring full"
        );
        self.side.completions.publish();
    }

    /// Reports an end of the peer's direction, and wakes nobody yet.
    pub fn peer_closes_quietly(&mut self, conn: ConnRef) {
        self.connections.get_mut(&conn).unwrap().peer_closed = true;
        self.post_quietly(Completion::Update {
            conn,
            addr: 0,
            len: 0,
            acked: 0,
            peer_closed: true,
        });
    }

    /// Refuses to have it read, as where the one who asked is rung and nobody else.
    pub fn refuses_quietly(&mut self, conn: ConnRef) {
        let errno = rustix::io::Errno::AGAIN.raw_os_error() as u16;
        self.post_quietly(Completion::NotGranted { conn, errno });
    }

    /// Whether a thread of the host sleeps by the word of this connection.
    pub fn is_parked(&self, conn: ConnRef) -> bool {
        let word = self.side.positions.sleeper(conn.index).unwrap();
        parked::is_asleep(word)
    }

    /// Whether a thread of the host sleeps by a bell.
    pub fn is_armed(&self) -> bool {
        self.side.sleepers.any_asleep()
    }

    /// Hands over a new connection of `listener`.
    pub fn hand(&mut self, listener: u32) -> ConnRef {
        let conn = ConnRef {
            index: self.next,
            generation: 1,
        };
        self.next += 1;
        self.offer(listener, conn);
        conn
    }

    /// Hands over a connection of `listener` by this name.
    pub fn offer(&mut self, listener: u32, conn: ConnRef) {
        self.take();
        self.connections.insert(conn, Connection::default());
        let word = self.side.positions.word(conn.index).unwrap();
        position::offer(word, GRANT, conn.generation);
        let (peer, local): (SocketAddr, SocketAddr) =
            (PEER.parse().unwrap(), LOCAL.parse().unwrap());
        self.post(Completion::Accepted {
            conn,
            grant: GRANT,
            listener,
            peer,
            local,
        });
    }

    /// Makes a connection known that was opened, or, in another process, that came through a fork.
    pub fn know(&mut self, conn: ConnRef) {
        self.connections.insert(conn, Connection::default());
        self.begin_grant(conn, GRANT, 0);
    }

    /// Begins a grant, of which a completion is to tell.
    pub fn begin_grant(&mut self, conn: ConnRef, grant: u16, offset: u64) {
        let word = self.side.positions.word(conn.index).unwrap();
        position::grant(word, grant, offset);
    }

    /// Ends the grant: how many bytes the host has read.
    pub fn revoke(&mut self, conn: ConnRef) -> u64 {
        position::revoke(self.side.positions.word(conn.index).unwrap()).offset(0)
    }

    /// Takes the offer of a connection back; false if it was accepted.
    pub fn retract(&mut self, conn: ConnRef) -> bool {
        let retracted = self.retract_untold(conn);
        if retracted {
            self.post(Completion::Released { conn });
        }
        retracted
    }

    /// As [`retract`](Self::retract), before it says so.
    pub fn retract_untold(&mut self, conn: ConnRef) -> bool {
        let word = self.side.positions.word(conn.index).unwrap();
        position::retract(word, GRANT, conn.generation)
    }

    /// The inverse of [`know`](Self::know).
    pub fn forget(&mut self, conn: ConnRef) {
        self.connections.remove(&conn);
    }

    /// Puts bytes into the receive area and reports them.
    pub fn deliver(&mut self, conn: ConnRef, bytes: &[u8]) {
        if self.place + bytes.len() as u64 > self.side.receive.len() {
            self.place = 0;
        }
        let addr = self.place;
        self.side.receive.copy_in(addr, bytes).unwrap();
        self.place += bytes.len() as u64;
        self.update(conn, addr, bytes.len() as u32);
    }

    pub fn update(&mut self, conn: ConnRef, addr: u64, len: u32) {
        let Connection {
            acked, peer_closed, ..
        } = self.connections[&conn];
        self.post(Completion::Update {
            conn,
            addr,
            len,
            acked,
            peer_closed,
        });
    }

    /// Reports bytes and an acknowledgement in one completion.
    pub fn deliver_acknowledging(&mut self, conn: ConnRef, bytes: &[u8], acked: u64) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.acked = acked;
        }
        self.deliver(conn, bytes);
    }

    /// Keeps no record of what was sent so far.
    pub fn forget_sent(&mut self) {
        self.connections
            .values_mut()
            .for_each(|connection| connection.sent.clear());
    }

    /// The peer acknowledges `acked` bytes in all.
    pub fn acknowledge(&mut self, conn: ConnRef, acked: u64) {
        self.connections.get_mut(&conn).unwrap().acked = acked;
        self.update(conn, 0, 0);
    }

    /// The peer ends its direction.
    pub fn peer_closes(&mut self, conn: ConnRef) {
        self.connections.get_mut(&conn).unwrap().peer_closed = true;
        self.update(conn, 0, 0);
    }

    /// Takes what the host has submitted since the last call.
    pub fn submissions(&mut self) -> Vec<Submission> {
        self.take();
        std::mem::take(&mut self.taken)
    }

    fn take(&mut self) {
        while let Some(submission) = self.side.submissions.take().unwrap() {
            if let Submission::Send {
                conn, addr, len, ..
            }
            | Submission::SendAt {
                conn, addr, len, ..
            } = submission
            {
                let mut bytes = vec![0; len as usize];
                self.side.send.copy_out(addr, &mut bytes).unwrap();
                self.connections.get_mut(&conn).unwrap().sent.extend(bytes);
            }
            if let Submission::NameListenersBell { listener, bell } = submission {
                let before = match bell {
                    Some(bell) => self.listeners_bells.insert(listener, bell),
                    None => self.listeners_bells.remove(&listener),
                };
                if before.is_some_and(|before| Some(before) != bell) {
                    self.ring(bells::ALL);
                }
            }
            self.taken.push(submission);
        }
        self.side.submissions.release();
    }

    /// What the host has submitted, without a look at what it names.
    pub fn side_submissions(&mut self) -> Vec<Submission> {
        let mut taken = Vec::new();
        while let Some(submission) = self.side.submissions.take().unwrap() {
            taken.push(submission);
        }
        self.side.submissions.release();
        taken
    }

    /// All that the host has sent on a connection.
    pub fn sent(&mut self, conn: ConnRef) -> Vec<u8> {
        self.take();
        self.connections[&conn].sent.clone()
    }

    /// Sleeps until the host rings, at most `limit`.
    pub fn sleep(&mut self, limit: Duration) {
        self.side.armed.arm(0);
        if self.side.submissions.is_empty().unwrap() {
            let timeout = Timespec::try_from(limit).unwrap();
            let mut polls = [PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN)];
            rustix::event::poll(&mut polls, Some(&timeout)).unwrap();
        }
        self.side.armed.disarm(0);
        self.bell.drain();
    }

    /// It sleeps from now on: the host has to ring.
    pub fn falls_asleep(&mut self) {
        self.bell.drain();
        self.side.armed.arm(0);
    }

    /// Whether the host has rung since it was last asked.
    pub fn was_rung(&mut self) -> bool {
        self.bell.drain() == doorbell::Rung::Yes
    }
}
