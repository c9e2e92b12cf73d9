//! A desk in front of two workers, whose answers are the test's.

use std::collections::HashMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use queue_pair::control::{Channel, Farewell, Fds, KNOCK, Reply, Request, VERSION};
use queue_pair::doorbell;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};

use super::*;
use crate::config::Changes;
use crate::exchange::{self, Ask, FIRST_PAIR, Inherited, Listening, SessionKey, ToSlow, Told};
use crate::fast::connections::SessionId;
use crate::fast::session::Session;
use crate::network::NicId;
use crate::slow::control::{Chosen, Proof};

mod tickets;

/// A kernel without sockets, and listeners to which nothing has come.
struct Nothing;

impl KernelSockets for Nothing {
    fn listening(&mut self) -> Option<HashMap<u64, u32>> {
        None
    }

    fn connections(&mut self, _port: u16) -> usize {
        0
    }

    fn cookies_sent(&mut self) -> Option<u64> {
        Some(0)
    }
}

impl ReadLoads for Nothing {
    fn of_slot(&mut self, _slot: u16, _local: SocketAddr) -> Option<netdev::steering::Load> {
        None
    }
}

/// The desk, and the other ends of its queues.
struct Two {
    desk: Desk,
    workers: Vec<ToSlow>,
}

/// What is asked for, in a word, and by whom.
type Asked = (ClientKey, String);

impl Two {
    fn new() -> Self {
        let config = Config::default();
        let control = Control::without_socket(&config.limits).expect("descriptors");
        let pair = || exchange::pair(&config.limits).expect("descriptors");
        let (to_fast, workers): (Vec<_>, Vec<_>) = (0..2).map(|_| pair()).unzip();
        let namespace = std::net::UdpSocket::bind("127.0.0.1:0")
            .and_then(netdev::syscalls::netns_cookie)
            .expect("loopback");
        let facts = Facts::new(&config, [1], namespace);
        let desk = Desk::of_workers(facts, control, to_fast).expect("polled");
        let desk = desk.asking(Box::new(Nothing));
        let desk = desk.placing(config.placements(), Some(Box::new(Nothing)));
        Self { desk, workers }
    }

    fn dial(&mut self) -> Channel {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) = pair.expect("descriptors");
        self.desk.add_client(theirs).expect("room");
        Channel::new(ours)
    }

    fn asks(&mut self, channel: &mut Channel, request: &Request) {
        channel.send(request, Fds::new()).expect("sent");
        self.desk.attend();
    }

    /// What a worker is asked, nothing else being ordered.
    fn asked(&mut self, worker: usize) -> Vec<(ClientKey, Ask)> {
        let orders = std::iter::from_fn(|| self.workers[worker].order());
        let asked = orders.filter_map(|order| match order {
            Order::Ask { client, what, .. } => Some((client, what)),
            Order::FollowsProofs(_) => None,
            other => panic!("{other:?}"),
        });
        asked.collect()
    }

    /// The same, and only the words.
    fn words(&mut self, worker: usize) -> Vec<Asked> {
        let asked = self.asked(worker).into_iter();
        let word = |what: &Ask| {
            let text = format!("{what:?}");
            let end = text.find([' ', '(', '{']).unwrap_or(text.len());
            text[..end].to_owned()
        };
        asked.map(|(client, what)| (client, word(&what))).collect()
    }

    fn answers(&mut self, worker: usize, client: ClientKey, answer: exchange::Answer) {
        self.workers[worker].tell(Tale::Answer(client, answer));
        self.desk.attend();
    }

    /// A process at a worker forks a child that inherits these listeners. Returns the child's token and its end
    /// of the lifeline.
    fn fork(
        &mut self,
        parent: &mut Channel,
        worker: usize,
        inherits: Option<Vec<Inherited>>,
    ) -> (u64, OwnedFd) {
        self.asks(parent, &Request::Fork);
        let (client, _) = self.words(worker).pop().expect("asked");
        self.answers(worker, client, Ok(Told::Forked(inherits)));
        let received = parent.try_receive::<Reply>().expect("open");
        let (reply, mut lifeline) = received.expect("answered");
        let Reply::Forked { token } = reply else {
            panic!("{reply:?}");
        };
        (token, lifeline.pop().expect("a lifeline"))
    }

    /// A process that has attached, and the worker that it was given, with its session.
    fn attach(&mut self, fork_token: Option<u64>) -> (Channel, usize, Box<Session>) {
        let mut channel = self.dial();
        self.asks(&mut channel, &to_attach(fork_token));
        let (worker, (client, ask)) = (0..2)
            .find_map(|worker| Some((worker, self.asked(worker).pop()?)))
            .expect("one of them is asked");
        let Ask::Attach { session, .. } = ask else {
            panic!("{ask:?}");
        };
        let key = SessionKey {
            id: SessionId(0),
            number: session.number,
        };
        self.answers(worker, client, Ok(Told::Attached(key, Vec::new())));
        let reply = reply(&mut channel).expect("answered");
        assert!(matches!(reply, Reply::Attached { .. }), "{reply:?}");
        (channel, worker, session)
    }
}

fn reply(channel: &mut Channel) -> Option<Reply> {
    let reply = channel.try_receive::<Reply>().expect("open");
    reply.map(|(reply, _)| reply)
}

#[test]
fn a_process_belongs_to_the_worker_that_has_the_fewest() {
    let mut two = Two::new();
    let (mut first, at_first, session) = two.attach(None);
    let (mut second, at_second, _second) = two.attach(None);
    assert_eq!((at_first, at_second), (0, 1));
    // What it asks for goes there, and nowhere else.
    for (channel, home) in [(&mut first, 0), (&mut second, 1)] {
        two.asks(channel, &Request::Settle);
        let (client, word) = two.words(home).pop().expect("asked");
        assert_eq!(word, "Settle");
        assert!(two.words(1 - home).is_empty());
        two.answers(home, client, Ok(Told::Done));
        assert_eq!(reply(channel), Some(Reply::Done));
    }
    // A place that is free again is taken first.
    let (_third, at_third, _session) = two.attach(None);
    assert_eq!(at_third, 0);
    two.workers[0].tell(Tale::Spent(session));
    two.desk.attend();
    let (_fourth, at_fourth, _session) = two.attach(None);
    assert_eq!(at_fourth, 0);
    drop(second);
    two.desk.attend();
    assert!(matches!(two.workers[1].order(), Some(Order::End(..))));
    assert!(two.words(0).is_empty());
}

#[test]
fn the_child_of_a_fork_is_where_its_parent_is() {
    let mut two = Two::new();
    let (_first, _, _session) = two.attach(None);
    let (mut parent, home, _session) = two.attach(None);
    assert_eq!(home, 1);
    let (token, lifeline) = two.fork(&mut parent, 1, None);
    let (_child, at, _session) = two.attach(Some(token));
    assert_eq!(at, 1, "though the other has fewer");
    drop(lifeline);
}

#[test]
fn the_end_of_a_child_is_told_where_its_parent_is() {
    let mut two = Two::new();
    let (_first, _, _session) = two.attach(None);
    let (mut parent, home, _session) = two.attach(None);
    drop(two.fork(&mut parent, home, None));
    two.desk.attend();
    assert!(matches!(two.workers[1].order(), Some(Order::ChildEnded(_))));
    assert!(two.words(0).is_empty());
}

/// What a program asks first.
fn to_attach(fork_token: Option<u64>) -> Request {
    Request::Attach {
        version: VERSION,
        oldest: None,
        program: "test".to_owned(),
        fork_token,
    }
}

/// Brings these descriptors along with a message.
fn bring(socket: impl AsFd, message: &[u8], along: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(along));
    let message = [IoSlice::new(message)];
    rustix::net::sendmsg(socket, &message, &mut control, SendFlags::empty()).expect("room");
}

/// Brings these descriptors along with a knock.
fn knock(lifeline: &OwnedFd, along: &[BorrowedFd<'_>]) {
    bring(lifeline, &KNOCK, along);
}

/// Knows whether what was brought along is open.
struct Brought(OwnedFd);

impl Brought {
    fn with(message: &[u8], socket: impl AsFd) -> Self {
        let (it, writer) = Self::new();
        bring(socket, message, &[writer.as_fd()]);
        it
    }

    fn new() -> (Self, OwnedFd) {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (reader, writer) = pipe_with(flags).expect("descriptors");
        (Self(reader), writer)
    }

    fn is_open(&self) -> bool {
        rustix::io::read(&self.0, &mut [0]) == Err(Errno::AGAIN)
    }
}

impl Two {
    /// Whether all of these are open, and closed as soon as the desk closes what may wait.
    fn leaves(&mut self, brought: &[Brought]) -> bool {
        let before = brought.iter().all(Brought::is_open);
        self.desk.close_here();
        before && !brought.iter().any(Brought::is_open)
    }
}

#[test]
fn what_a_process_has_sent_on_its_doorbells_is_left_to_who_closes() {
    let mut two = Two::new();
    let (_channel, home, mut session) = two.attach(None);
    let pair = || doorbell::pair().expect("descriptors");
    let ((ringer, bell), (waker, hears)) = (pair(), pair());
    session.bell = bell;
    session.wakers.push(waker);
    let brought = [Brought::with(&[1], &ringer), Brought::with(&[1], &hears)];
    two.workers[home].tell(Tale::Spent(session));
    two.desk.hear().expect("works");
    assert!(two.leaves(&brought));
}

/// What one had not taken when it ended, and what it is ordered after that.
#[test]
fn what_a_worker_that_has_ended_was_to_have_is_left_to_who_closes() {
    let mut two = Two::new();
    let ended = WorkerId(1);
    let order = |desk: &mut Desk| {
        let (brought, socket) = Brought::new();
        let what = Ask::Bound {
            local: "10.0.0.1:80".parse().expect("an address"),
            socket,
            uid: 1000,
        };
        let client = ClientKey { slot: 7, serial: 9 };
        let order = Order::Ask {
            client,
            session: None,
            what,
        };
        desk.crew.order(ended, order);
        brought
    };
    let mut brought = vec![order(&mut two.desk)];
    two.workers.pop();
    brought.push(order(&mut two.desk));
    two.desk.hear().expect("one works");
    brought.push(order(&mut two.desk));
    two.desk.see_to(&[]).expect("one works");
    assert!(two.leaves(&brought));
}

/// It counts as nothing that cannot be closed, however many sessions of a user end at once.
#[test]
fn doorbells_on_which_nothing_can_have_been_sent_are_closed_at_once() {
    let mut two = Two::new();
    let (_channel, home, mut session) = two.attach(None);
    let (ringer, mut bell) = doorbell::pair().expect("descriptors");
    let brought = Brought::with(&[1], &ringer);
    bell.expect_no_rights();
    session.bell = bell;
    two.workers[home].tell(Tale::Spent(session));
    two.desk.hear().expect("works");
    assert!(!brought.is_open());
}

/// A program that closes it then finds its port free.
#[test]
fn who_has_shown_a_listener_is_answered_when_nobody_here_has_it() {
    let mut two = Two::new();
    let (mut channel, home, _session) = two.attach(None);
    let shown = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let addr = shown.local_addr().expect("bound");
    let request = Request::Chosen { listener: 1, addr };
    let fds = [OwnedFd::from(shown)].into_iter().collect();
    channel.send(&request, fds).expect("sent");
    two.desk.control.resume();
    let ready = two.desk.control.poller.ready();
    two.desk.see_to(&ready).expect("works");
    let (client, _) = two.words(home).pop().expect("asked");
    two.workers[home].tell(Tale::Answer(client, Ok(Told::Done)));
    two.desk.hear().expect("works");
    assert!(reply(&mut channel).is_none(), "it is not closed yet");
    assert!(std::net::TcpListener::bind(addr).is_err());
    two.desk.attend();
    assert!(matches!(reply(&mut channel), Some(Reply::Done)));
    std::net::TcpListener::bind(addr).expect("its port is free");
}

#[test]
fn what_comes_with_the_end_of_a_lifeline_is_left_to_who_closes() {
    let mut two = Two::new();
    let (mut parent, home, _session) = two.attach(None);
    let (_, lifeline) = two.fork(&mut parent, home, None);
    // The first of them is heard.
    let brought = [b"", &KNOCK[..], b""].map(|message| Brought::with(message, &lifeline));
    two.desk.see_to(&[Source::Lifeline(0)]).expect("works");
    assert!(two.leaves(&brought));
    assert!(matches!(
        two.workers[home].order(),
        Some(Order::ChildEnded(_))
    ));
    assert!(!two.desk.attend(), "nobody listens to it");
}

#[test]
fn what_is_unheard_on_a_lifeline_is_left_to_who_closes() {
    let mut two = Two::new();
    let (mut parent, home, _session) = two.attach(None);
    let (token, lifeline) = two.fork(&mut parent, home, None);
    let brought = [Brought::with(&KNOCK, &lifeline)];
    two.desk.control.forget_lifeline(token);
    assert!(two.leaves(&brought));
}

#[test]
fn what_is_no_connection_is_left_to_who_closes() {
    let mut two = Two::new();
    let (brought, writer) = Brought::new();
    assert_eq!(two.desk.add_client(writer), Err(Errno::NOTSOCK));
    assert!(two.leaves(&[brought]));
}

#[test]
fn a_child_that_cannot_reach_the_control_socket_knocks_on_its_lifeline() {
    let mut two = Two::new();
    let (mut parent, home, _session) = two.attach(None);
    let (token, lifeline) = two.fork(&mut parent, home, None);
    let pair = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("descriptors")
    };
    // None, and more than one, are no connection.
    let (ours, theirs) = pair();
    let two_fds = [theirs.as_fd(), theirs.as_fd()];
    for along in [&[][..], &two_fds[..]] {
        knock(&lifeline, along);
        two.desk.attend();
    }
    drop(theirs);
    two.desk.attend();
    let mut refused = Channel::new(ours);
    assert!(refused.try_receive::<Reply>().is_err(), "it was closed");

    let (ours, theirs) = pair();
    knock(&lifeline, &[theirs.as_fd()]);
    drop(theirs);
    two.desk.attend();
    let mut child = Channel::new(ours);
    two.asks(&mut child, &to_attach(Some(token)));
    let (_, ask) = two.asked(home).pop().expect("its parent's worker is asked");
    let Ask::Attach { fork_token, .. } = ask else {
        panic!("{ask:?}");
    };
    assert_eq!(fork_token, Some(token));
}

#[test]
fn a_child_with_listeners_alone_goes_to_the_worker_that_has_fewer() {
    let mut two = Two::new();
    let (mut parent, home, _session) = two.attach(None);
    let (_first, _, _session) = two.attach(None);
    let (_second, _, _session) = two.attach(None);
    assert_eq!(home, 0);
    let listener = |name| Inherited {
        name,
        local: "10.0.0.1:80".parse().expect("an address"),
        proof: Proof {
            v6_only: false,
            cookie: 7,
            owner: 0,
            chosen: Chosen::default(),
        },
        backlog: 8,
    };
    let inherits = vec![listener(1), listener(2)];
    let (token, lifeline) = two.fork(&mut parent, 0, Some(inherits));
    // What it has closed before it attaches it does not bring along.
    let closed = Farewell::Listener(2).encode();
    rustix::net::send(&lifeline, &closed, SendFlags::empty()).expect("room");
    let mut child = two.dial();
    two.asks(&mut child, &to_attach(Some(token)));
    let (client, ask) = two.asked(1).pop().expect("the other one is asked");
    let Ask::Attach {
        session,
        fork_token,
        inherits,
    } = ask
    else {
        panic!("{ask:?}");
    };
    assert_eq!((fork_token, &inherits[..]), (None, &[listener(1)][..]));
    // What the parent's worker holds for it, it holds until the child has it.
    let before: Vec<_> = std::iter::from_fn(|| two.workers[0].order()).collect();
    assert!(
        matches!(before[..], [Order::ChildClosed { .. }]),
        "{before:?}"
    );
    let key = SessionKey {
        id: SessionId(0),
        number: session.number,
    };
    two.answers(1, client, Ok(Told::Attached(key, vec![listener(1).local])));
    let after: Vec<_> = std::iter::from_fn(|| two.workers[0].order()).collect();
    assert!(
        matches!(after[..], [Order::ChildEnded(of)] if of == token),
        "{after:?}"
    );
    drop(lifeline);
    two.desk.attend();
    assert!(
        two.workers[0].order().is_none(),
        "nobody hears its lifeline"
    );
}

#[test]
fn what_concerns_all_is_asked_of_all_and_added_up() {
    let mut two = Two::new();
    let mut channel = two.dial();
    two.asks(&mut channel, &Request::Stats);
    let counts = [(3, 5, 1), (4, 7, 9)];
    for (worker, (frames, connections, core)) in counts.into_iter().enumerate() {
        assert_eq!(reply(&mut channel), None, "not before both have answered");
        let (client, ask) = two.asked(worker).pop().expect("asked");
        let Ask::Stats(mut snapshot) = ask else {
            panic!("{ask:?}");
        };
        (snapshot.worker.frames, snapshot.connections) = (frames, connections);
        (snapshot.core, snapshot.listeners) = (core, 1);
        snapshot.worker.drop(Drop::HeldFull);
        snapshot.worker.turn_times.record(1000);
        snapshot.tcp.segments_in = frames;
        snapshot.device.received_frames = frames;
        let listening = (local(80), 100 + core as u32, tcp::ListenerCounts::default());
        snapshot.listening.push(listening);
        let queue = (NicId::default(), worker as u32);
        let other = (queue, netdev::Counters::default());
        snapshot.queues.push(other);
        two.answers(worker, client, Ok(Told::Stats(snapshot)));
    }
    let Some(Reply::Stats(metrics)) = reply(&mut channel) else {
        panic!("counts");
    };
    let value = |name: &str| {
        let named = metrics.iter().filter(|metric| metric.name == name);
        named.map(|metric| metric.value).collect::<Vec<_>>()
    };
    assert_eq!(value("connections"), [12.0]);
    assert_eq!(value("listeners"), [1.0], "one, at both");
    assert_eq!(value("queue_frames"), [0.0, 0.0]);
    let told = format!("{metrics:?}");
    let find = |part: &str| {
        let of = metrics.iter().filter(|metric| {
            metric.name.contains(part) || metric.labels.iter().any(|(_, value)| value == part)
        });
        of.map(|metric| metric.value).collect::<Vec<_>>()
    };
    assert_eq!(find("held_full"), [2.0], "{told}");
    assert_eq!(find("received_frames"), [7.0], "{told}");
}

#[test]
fn a_listener_is_placed_anew_before_the_reload_is_answered() {
    let mut two = Two::new();
    let reread = || Config::parse("x", "placement = \"kernel\"\n").map_err(|e| e.to_string());
    two.desk = two.desk.reloading(Box::new(reread));
    two.desk
        .listens(WorkerId(1), local(80), false, Instant::now());
    let mut channel = two.dial();
    two.asks(&mut channel, &Request::Reload);
    for worker in 0..2 {
        // What a worker is told first it has done when it answers.
        let order = two.workers[worker].order();
        let Some(Order::Place { shared, .. }) = &order else {
            panic!("worker {worker}: {order:?}");
        };
        assert_eq!(shared.as_ref().map(|shared| shared.share), Some(0));
        let words = two.words(worker).into_iter().map(|(_, word)| word);
        assert_eq!(words.collect::<Vec<_>>(), ["Reload"]);
    }
    assert_eq!(reply(&mut channel), None);
}

#[test]
fn a_refusal_of_one_is_the_answer_and_one_that_ends_holds_nobody_up() {
    let mut two = Two::new();
    let mut channel = two.dial();
    let changes = || {
        let limits = Config::default().limits;
        Box::new((Changes::default(), limits))
    };
    let explain = Request::Explain { pid: 7 };
    two.asks(&mut channel, &explain);
    let (client, _) = two.words(0).pop().expect("asked");
    two.answers(0, client, Err(Errno::INVAL.into()));
    assert_eq!(reply(&mut channel), None);
    two.answers(1, client, Ok(Told::Reloaded(changes())));
    assert!(matches!(reply(&mut channel), Some(Reply::Error { .. })));
    // Both have listeners.
    two.words(1);
    two.asks(&mut channel, &explain);
    for worker in 0..2 {
        assert_eq!(two.words(worker), [(client, "Explain".to_owned())]);
        let listening = |port| Listening {
            local: local(port),
            waiting: 1,
            backlog: 10,
            credit: 4,
            enough: false,
            confined: false,
        };
        let told = Told::Explained {
            listeners: vec![listening(80), listening(81 + worker as u16)],
            connections: [2, 0],
        };
        two.answers(worker, client, Ok(told));
    }
    let Some(Reply::Explained(lines)) = reply(&mut channel) else {
        panic!("explained");
    };
    let details: Vec<&str> = lines.iter().map(|line| &*line.detail).collect();
    let of_one = "1 of 10 wait to be accepted, credit for 4";
    let of_both = "2 of 10 wait to be accepted, credit for 8";
    assert_eq!(details[..3], [of_both, of_one, of_one], "{lines:?}");
    assert_eq!(lines[3].kind, "4 connections");
    // One is gone in the middle, and then not asked any more.
    two.asks(&mut channel, &Request::Stats);
    two.answers(0, client, Ok(Told::Stats(Default::default())));
    assert_eq!(reply(&mut channel), None);
    two.workers.pop();
    two.desk.attend();
    assert!(matches!(reply(&mut channel), Some(Reply::Stats(_))));
    two.words(0);
    two.asks(&mut channel, &Request::Stats);
    two.answers(0, client, Ok(Told::Stats(Default::default())));
    assert!(matches!(reply(&mut channel), Some(Reply::Stats(_))));
}

#[test]
fn sockets_are_told_worker_after_worker() {
    let mut two = Two::new();
    let mut channel = two.dial();
    let request = |after| Request::Sockets {
        after,
        filter: String::new(),
    };
    two.asks(&mut channel, &request(None));
    let mut places = Vec::new();
    // Each has something half-way, and then no more.
    for (worker, next) in [(0, Some(FIRST_PAIR)), (0, None), (1, Some(7)), (1, None)] {
        assert_eq!(reply(&mut channel), None);
        let (client, ask) = two.asked(worker).pop().expect("asked");
        let Ask::Sockets { after, mut page } = ask else {
            panic!("{ask:?}");
        };
        places.push(after);
        page.next = next;
        two.answers(worker, client, Ok(Told::Sockets(page)));
    }
    assert_eq!(places, [None, Some(FIRST_PAIR), Some(0), Some(7)]);
    let end = Reply::Sockets {
        rows: Vec::new(),
        next: None,
    };
    assert_eq!(reply(&mut channel), Some(end));
    // A place that there is not is one of the last's.
    two.asks(&mut channel, &request(Some(u64::MAX)));
    assert!(two.words(0).is_empty());
    assert_eq!(two.words(1).len(), 1);
}

#[test]
fn each_worker_hears_what_is_for_all_and_its_own_answers() {
    let mut two = Two::new();
    let (one, other) = (WorkerId(0), WorkerId(1));
    two.desk.mixed(other, 80, 3);
    two.desk.look_at_new_ports();
    let told = |two: &mut Two| {
        let orders = |worker: &mut ToSlow| {
            let orders = std::iter::from_fn(|| worker.order());
            orders.map(|order| format!("{order:?}")).collect()
        };
        let told: Vec<Vec<String>> = two.workers.iter_mut().map(orders).collect();
        told
    };
    let said = told(&mut two);
    assert!(said[0].is_empty(), "{said:?}");
    assert_eq!(
        said[1],
        ["OnlyOurs { port: 80, question: 3, cookies: false }"]
    );
    // A listener of both is gone when it is gone at both.
    let now = Instant::now();
    let configured = Config::parse("x", "placement = \"kernel\"\n").expect("valid");
    two.desk.place_by(configured.placements(), now);
    two.desk.listens(one, local(80), false, now);
    assert_eq!(told(&mut two).concat().len(), 2, "both hear");
    two.desk.listens(other, local(80), false, now);
    let said = told(&mut two);
    assert_eq!((said[0].len(), said[1].len()), (0, 1), "{said:?}");
    two.desk.listens_no_longer(one, local(80));
    assert!(two.desk.placed(local(80)).is_some());
    two.desk.listens_no_longer(other, local(80));
    assert!(two.desk.placed(local(80)).is_none());
}

fn local(port: u16) -> SocketAddr {
    ([0, 0, 0, 0], port).into()
}
