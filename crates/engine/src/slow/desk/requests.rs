//! Requests on the control socket: who may ask, what they show, and what goes with the order.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use netdev::steering::Endpoint;
use queue_pair::Versions;
use queue_pair::control::{
    AdmissionLimit, AdmissionPolicy, ChannelError, Explanation, Fds, Reply, Request, ticket,
};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::attach::{Heritage, NoSession};
use super::rates::cost;
use super::{Desk, doorbells};
use crate::capture::Capture;
use crate::exchange::{Ask, ClientKey, Order, Page, ROWS, SessionKey, Snapshot};
use crate::fast::session::Process;
use crate::network::NicId;
use crate::slow::control::{Issued, Pending, Proof, prove_bound, prove_listener};
use crate::sockets::SocketFilter;
use crate::stats::Drop;

/// Requests of one connection that are answered in one go.
const BUDGET: usize = 16;
/// How many times the fast half is asked for some sockets until one answer is sent.
const PAGES: u32 = 64;
/// The longest name of a program, or reason, that is kept.
const MAX_TEXT: usize = 256;

/// Why something is not done, with the errno for it.
pub(super) type Refusal = (Errno, String);

/// What the fast half is to do, and what waits for its answer.
pub(super) type Prepared = Result<(Ask, Pending), Refusal>;

pub(super) fn refuse<T>(errno: Errno, message: impl Into<String>) -> Result<T, Refusal> {
    Err((errno, message.into()))
}

/// What it costs to see to a request.
fn cost_of(request: &Request) -> u32 {
    match request {
        Request::Attach { .. } => cost::ATTACH,
        Request::Stats
        | Request::Metrics { .. }
        | Request::Sockets { .. }
        | Request::Explain { .. } => cost::FACTS,
        _ => cost::REQUEST,
    }
}

impl Desk {
    /// Reads what a connection asks, unless its user has to wait.
    pub(super) fn serve_in_time(&mut self, slot: u32, now: Instant) -> Result<(), ChannelError> {
        self.control.flush(slot)?;
        match self.control.client(slot).map(|client| client.uid) {
            Some(uid) if self.rates.is_late(uid, now) => self.delay(slot, uid),
            Some(_) => self.serve(slot, now),
            None => Ok(()),
        }
    }

    /// Reads what those connections ask whose time has come.
    pub(super) fn serve_the_late(&mut self, now: Instant) {
        while let Some(client) = self.rates.next_due(now) {
            if self.control.is_due(client)
                && let Err(error) = self.serve(client.slot, now)
            {
                self.failed(client.slot, &error);
            }
        }
    }

    fn delay(&mut self, slot: u32, uid: u32) -> Result<(), ChannelError> {
        if self.control.delay(slot)?
            && let Some(client) = self.key_of(slot)
        {
            self.rates.defer(uid, client);
            self.counters.drop(Drop::RequestsDelayed);
        }
        Ok(())
    }

    fn serve(&mut self, slot: u32, now: Instant) -> Result<(), ChannelError> {
        for _ in 0..BUDGET {
            let Some(client) = self.control.client(slot) else {
                return Ok(());
            };
            let uid = client.uid;
            if client.pending.is_some() {
                // What it asks next has to wait, unless it is not there any more.
                return self.control.mute(slot);
            }
            if self.closing.is_held_up_by(uid) {
                self.rates.hold(uid, now);
            }
            if self.rates.is_ahead(uid, now) {
                return self.delay(slot, uid);
            }
            let mut fds = Vec::new();
            let received = self.control.receive(slot, &mut fds);
            let served = match received {
                Ok(Some(request)) => {
                    self.rates.charge(uid, cost_of(&request), now);
                    self.serve_request(slot, request, &mut fds)
                }
                Ok(None) => return Ok(()),
                Err(error) => Err(error),
            };
            self.closing.close(uid, fds);
            served?;
        }
        Ok(())
    }

    /// Sees to one request. Of its descriptors those are taken that are needed for longer.
    fn serve_request(
        &mut self,
        slot: u32,
        request: Request,
        fds: &mut Vec<OwnedFd>,
    ) -> Result<(), ChannelError> {
        match request {
            Request::Report { fd, kind, reason } => {
                self.report(slot, fd, kind, reason);
                return Ok(());
            }
            Request::LastWords(lines) => {
                self.last_words(slot, lines);
                return Ok(());
            }
            Request::File => return self.file_asked(slot, fds),
            Request::Diverter => {
                let reply = Reply::Diverted(self.diverter.clone());
                return self.control.reply(slot, &reply, Fds::new());
            }
            // Of what was kept the rest is here.
            Request::Traced if self.has_traced(slot) => {
                let reply = self.more_traced(slot);
                return self.control.reply(slot, &reply, Fds::new());
            }
            _ => {}
        }
        let Some(client) = self.key_of(slot) else {
            return Ok(());
        };
        if let Request::Metrics { more: true } = request {
            return self.more_metrics(client);
        }
        match self.prepare(client, request, fds) {
            Ok((what, pending)) => self.ask(client, what, pending),
            Err((errno, message)) => {
                let errno = errno.raw_os_error();
                let reply = Reply::Error { errno, message };
                self.control.reply(slot, &reply, Fds::new())?;
            }
        }
        Ok(())
    }

    fn prepare(&mut self, client: ClientKey, request: Request, fds: &mut Vec<OwnedFd>) -> Prepared {
        let slot = client.slot;
        Ok(match request {
            Request::Attach {
                version,
                oldest,
                program,
                fork_token,
            } => {
                let versions = Versions {
                    oldest: oldest.unwrap_or(version),
                    newest: version,
                };
                let tell = oldest.is_some();
                self.prepare_attach(client, (versions, tell), program, fork_token)?
            }
            Request::Listen {
                addr,
                backlog,
                pinned,
                ..
            } => {
                self.session_of(slot)?;
                let proof = self.prove(fds, addr)?;
                let local = addr;
                self.follow_proof(proof.cookie, addr.port());
                self.follow_netfilter(Some(addr));
                let ask = Ask::Listen {
                    local,
                    proof,
                    backlog,
                };
                (ask, Pending::Listen { local, pinned })
            }
            Request::Chosen { listener, addr } => {
                self.session_of(slot)?;
                let proof = self.prove(fds, addr)?;
                (Ask::Chosen { listener, proof }, Pending::Listener(listener))
            }
            Request::Admit { listener, policy } => {
                self.session_of(slot)?;
                let admission = admission(&policy)
                    .map_err(|errno| (errno, "no policy can be made".to_owned()))?;
                let ask = Ask::Admit {
                    listener,
                    admission,
                };
                (ask, Pending::Listener(listener))
            }
            Request::Admitted { listener } => {
                self.session_of(slot)?;
                (Ask::Admitted(listener), Pending::Listener(listener))
            }
            Request::Bound { local } => {
                self.session_of(slot)?;
                let namespace = self.facts.namespace;
                if let Some(shown) = fds.last() {
                    prove_bound(shown.as_fd(), local, namespace, &self.facts.indices)
                        .map_err(|refusal| (refusal.errno(), refusal.to_string()))?;
                }
                let Some(socket) = fds.pop() else {
                    return refuse(Errno::INVAL, "show the kernel's bound socket");
                };
                let uid = self.control.client(slot).map_or(0, |client| client.uid);
                let ask = Ask::Bound { local, socket, uid };
                (ask, Pending::Bound(local))
            }
            Request::Local { remote } => {
                self.session_of(slot)?;
                (Ask::Local(remote), Pending::Local)
            }
            Request::Unlisten { listener } => {
                self.session_of(slot)?;
                self.proofs_may_end();
                (Ask::Unlisten(listener), Pending::Unlisten(listener))
            }
            Request::Waker => {
                self.session_of(slot)?;
                let made = doorbells::rung();
                let (ringer, hears) =
                    made.map_err(|error| (errno_of(&error), "no further waker".to_owned()))?;
                (Ask::Waker(ringer), Pending::Waker(hears.into()))
            }
            Request::Fork => {
                self.session_of(slot)?;
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
                if let Ok((_, ours)) = &pair {
                    // Who says something there; without that nobody's own connection is taken on.
                    let _ = set_socket_passcred(ours, true);
                }
                let token = self.next_token();
                (
                    Ask::Fork(pair.is_ok().then_some(token)),
                    Pending::Fork {
                        token,
                        ends: pair.ok(),
                    },
                )
            }
            Request::Ticket { conn, carried } => {
                self.session_of(slot)?;
                if !carried.is_bounded() {
                    return refuse(Errno::INVAL, "more options than there are");
                }
                let token = self.next_token();
                let made = ticket::make(token).and_then(|ends| {
                    let identity = ticket::identity(&ends.0)?;
                    Ok((ends, identity))
                });
                let (ends, identity) =
                    made.map_err(|errno| (errno, "no ticket can be made".to_owned()))?;
                let issued = Issued {
                    identity,
                    carried,
                    pid: self.control.client(slot).map_or(0, |client| client.pid),
                    claimed: false,
                };
                let pending = Pending::Ticket {
                    token,
                    ends,
                    issued,
                };
                (Ask::Ticket { conn, token }, pending)
            }
            Request::Claim => {
                self.session_of(slot)?;
                let own = self.control.client(slot).map(|client| {
                    client.claimed = None;
                    client.home
                });
                let known = fds.last().and_then(|shown| {
                    let (token, home, issued) = self.control.ticket(shown.as_fd())?;
                    let here = own == Some(home);
                    issued.claimed |= here;
                    Some((here.then_some(token), issued.carried.clone()))
                });
                let Some((token, carried)) = known else {
                    return refuse(Errno::NOTCONN, "this is no ticket of this engine");
                };
                let Some(token) = token else {
                    return refuse(
                        Errno::NOTCONN,
                        "the connection is at another worker than this program: only programs of \
                         that one can have it",
                    );
                };
                (Ask::Claim(token), Pending::Claim(carried))
            }
            Request::Disclaim => {
                self.session_of(slot)?;
                let client = self.control.client(slot);
                let given_up = client.and_then(|client| Some((client.claimed.take()?, client.pid)));
                let Some((conn, pid)) = given_up else {
                    return refuse(Errno::NOTCONN, "there is no such claim");
                };
                tracing::warn!(
                    pid,
                    "a program has not waited for a connection that was passed to it while this engine did not run"
                );
                (Ask::Disclaim(conn), Pending::Facts)
            }
            Request::AdoptListener { listener } => {
                self.session_of(slot)?;
                (Ask::AdoptListener(listener), Pending::Adopt(listener))
            }
            Request::Settle => {
                self.session_of(slot)?;
                (Ask::Settle, Pending::Facts)
            }
            Request::Info { conn } => {
                self.session_of(slot)?;
                let conn = tcp::ConnId {
                    index: conn.index,
                    generation: conn.generation,
                };
                let room = Box::default();
                (Ask::Info { conn, room }, Pending::Info)
            }
            Request::Engine => {
                self.session_of(slot)?;
                (Ask::Engine, Pending::Facts)
            }
            Request::Way { remote, doubted } => {
                self.session_of(slot)?;
                (Ask::Way { remote, doubted }, Pending::Facts)
            }
            Request::Stats => {
                let pending = Pending::Stats { all: false };
                (Ask::Stats(Snapshot::with_room()), pending)
            }
            Request::Metrics { .. } => {
                let pending = Pending::Stats { all: true };
                (Ask::Stats(Snapshot::with_room()), pending)
            }
            Request::Sockets { after, filter } => {
                let filter = SocketFilter::parse(&filter)
                    .map_err(|error| (Errno::INVAL, format!("filter: {error}")))?;
                let page = Page::with_room(ROWS);
                let pending = Pending::Sockets {
                    filter,
                    rows: Vec::with_capacity(ROWS),
                    left: PAGES,
                };
                (Ask::Sockets { after, page }, pending)
            }
            Request::Explain { pid } => {
                let listeners = Vec::with_capacity(ROWS);
                (Ask::Explain { pid, listeners }, Pending::Explain(pid))
            }
            Request::Capture { filter } => {
                self.privileged(slot)?;
                if self.crew.working().len() > 1 {
                    // One stream has one writer.
                    return refuse(
                        Errno::OPNOTSUPP,
                        "several workers cannot be captured at once",
                    );
                }
                // What is left there is closed by who has time for that.
                let filter = fds.last().map(|socket| Capture::check(&filter, socket));
                let filter = filter
                    .transpose()
                    .map_err(|error| (Errno::INVAL, error.to_string()))?;
                let (Some(filter), Some(socket)) = (filter, fds.pop()) else {
                    return refuse(Errno::INVAL, "send the end of a stream socket along");
                };
                let uid = self.control.client(slot).map_or(0, |client| client.uid);
                let capture = Capture::new(filter, socket, self.facts.interface.names(), uid);
                (Ask::Capture(Box::new(capture)), Pending::Facts)
            }
            Request::Trace { sends } => {
                self.privileged(slot)?;
                self.prepare_trace(sends)?
            }
            Request::Traced => {
                self.privileged(slot)?;
                (Ask::Trace(None), Pending::Traced)
            }
            Request::Respond {
                interface,
                endpoints,
            } => {
                self.privileged(slot)?;
                let program = fds.pop();
                let responds = self.control.client(slot).is_some_and(|c| c.responds);
                if !responds && self.control.has_responder() {
                    return refuse(Errno::BUSY, "another responder is there already");
                }
                if !responds && program.is_none() {
                    return refuse(Errno::INVAL, "send the responder's program along");
                }
                if let Some(client) = self.control.client(slot) {
                    client.responds = true;
                }
                let endpoint = |(address, port, vlan)| Endpoint {
                    vlan,
                    ..Endpoint::new(address, port)
                };
                let ask = Ask::Respond {
                    interface,
                    program,
                    endpoints: endpoints.into_iter().map(endpoint).collect(),
                };
                (ask, Pending::Respond)
            }
            Request::Divert {
                interface,
                name,
                program: id,
            } => {
                self.privileged(slot)?;
                let Some(program) = fds.pop() else {
                    return refuse(Errno::INVAL, "send the program along");
                };
                let mut indices = self.facts.indices.iter();
                let Some(place) = indices.position(|index| *index == interface) else {
                    let own = &self.facts.interface;
                    return refuse(Errno::INVAL, format!("this engine works on {own}"));
                };
                let now = Some((shortened(name), id));
                (
                    Ask::Divert(Some((NicId::at(place), program))),
                    Pending::Divert(now),
                )
            }
            Request::Undivert => {
                self.privileged(slot)?;
                if self.diverter.is_none() {
                    return refuse(Errno::NOENT, "no program is loaded");
                }
                (Ask::Divert(None), Pending::Divert(None))
            }
            Request::Reload => {
                self.privileged(slot)?;
                let new = self.reread().map_err(|error| (Errno::INVAL, error))?;
                // The workers hear of it before they are asked: what is answered holds.
                self.place_by(new.placements(), Instant::now());
                (Ask::Reload(Box::new(new)), Pending::Facts)
            }
            Request::Shutdown => {
                self.privileged(slot)?;
                (Ask::Stop, Pending::Facts)
            }
            // Answered already.
            Request::Report { .. } | Request::LastWords(_) | Request::File | Request::Diverter => {
                return refuse(Errno::INVAL, "it wants no answer");
            }
        })
    }

    fn prepare_attach(
        &mut self,
        key: ClientKey,
        (versions, tell): (Versions, bool),
        program: String,
        fork_token: Option<u64>,
    ) -> Prepared {
        let Some(client) = self.control.client(key.slot) else {
            return refuse(Errno::BADF, "the connection is gone");
        };
        if client.session.is_some() {
            return refuse(Errno::ALREADY, "attached already");
        }
        if client.namespace != self.facts.namespace {
            // What its own kernel sockets would not reach it must not reach through the engine.
            self.counters.drop(Drop::OtherNamespace);
            return refuse(Errno::PERM, "the program is in another network namespace");
        }
        let process = Process {
            pid: client.pid,
            uid: client.uid,
            program: shortened(program).into(),
        };
        let version = self.agree(process.pid, &process.program, versions)?;
        let lifeline = fork_token.and_then(|token| self.control.lifeline_of(token));
        if let Some(token) = fork_token {
            // What the child has closed before it attached it does not have.
            self.listen_to_lifeline(token);
        }
        let parents = lifeline.map(|lifeline| self.control.home_of_lifeline(lifeline));
        let heritage = self.heritage(fork_token, lifeline);
        let home = heritage.home;
        let listens = lifeline.map(|lifeline| self.control.listens_inherited(lifeline));
        if let Some(client) = self.control.client(key.slot) {
            client.listens = listens.unwrap_or_default();
            client.home = home;
            client.version = version;
        }
        if let Some(token) = fork_token {
            self.control.forget_lifeline(token);
        }
        let pid = process.pid;
        self.make_session(key, process, (version, tell), heritage)
            .map_err(|error| {
                if let Some(token) = fork_token {
                    // Nobody hears its lifeline any more.
                    let parents = parents.unwrap_or(home);
                    self.crew.order(parents, Order::ChildEnded(token));
                }
                if matches!(error, NoSession::Kernel(_)) {
                    tracing::warn!(pid, %error, "a program is left to the kernel");
                }
                // It tries again, and is told of until it succeeds.
                self.strangers.remember(pid, error.to_string());
                (error.errno(), error.to_string())
            })
    }

    /// To which worker a process goes that attaches, and what it brings there from the fork that it came
    /// out of. What it has inherited is where its parent is; listeners alone it can have anywhere.
    fn heritage(&mut self, fork_token: Option<u64>, lifeline: Option<u32>) -> Heritage {
        let idlest = self.crew.idlest();
        let (Some(token), Some(lifeline)) = (fork_token, lifeline) else {
            return Heritage::none(fork_token, idlest);
        };
        let parents = self.control.home_of_lifeline(lifeline);
        match self.control.inherited(lifeline) {
            Some(inherits) if idlest != parents => Heritage {
                home: idlest,
                fork_token: None,
                inherits: inherits.to_vec(),
                held_at: Some((parents, token)),
            },
            _ => Heritage::none(fork_token, parents),
        }
    }

    fn report(&mut self, slot: u32, fd: i32, kind: String, reason: String) {
        let Some(client) = self.control.client(slot) else {
            return;
        };
        let explanation = Explanation {
            fd,
            kind: shortened(kind),
            reason: shortened(reason),
            detail: String::new(),
        };
        let pid = client.pid;
        if !self.control.report(pid, explanation) {
            self.counters.drop(Drop::ReportsFull);
        }
    }

    /// What the kernel's listening socket proves that came along.
    fn prove(&self, fds: &[OwnedFd], addr: SocketAddr) -> Result<Proof, Refusal> {
        let Some(shown) = fds.last() else {
            return refuse(Errno::INVAL, "show the kernel's listening socket");
        };
        let namespace = self.facts.namespace;
        prove_listener(shown.as_fd(), addr, namespace, &self.facts.indices)
            .map_err(|refusal| (refusal.errno(), refusal.to_string()))
    }

    pub(super) fn session_of(&mut self, slot: u32) -> Result<SessionKey, Refusal> {
        let session = self.control.client(slot).and_then(|client| client.session);
        session.ok_or_else(|| (Errno::NOTCONN, "attach first".to_owned()))
    }

    /// Refuses who is neither root nor the engine's own user.
    fn privileged(&mut self, slot: u32) -> Result<(), Refusal> {
        let own = rustix::process::geteuid().as_raw();
        match self.control.client(slot) {
            Some(client) if client.uid == 0 || client.uid == own => Ok(()),
            _ => refuse(
                Errno::PERM,
                "this is for root and the engine's own user; use sudo",
            ),
        }
    }
}

/// What a program has said of a listener; `None` if it limits nothing.
fn admission(policy: &AdmissionPolicy) -> Result<Option<Box<tcp::Admission>>, Errno> {
    if policy.is_open() {
        return Ok(None);
    }
    let mut key = [0; 16];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    let limit = |limit: AdmissionLimit| tcp::AdmissionLimit {
        per_second: limit.per_second,
        burst: limit.burst,
        in_flight: limit.in_flight,
    };
    let policy = tcp::AdmissionPolicy {
        all: limit(policy.all),
        each: limit(policy.each),
        bits_v4: policy.bits_v4,
        bits_v6: policy.bits_v6,
        reset: policy.reset,
    };
    Ok(Some(Box::new(tcp::Admission::new(policy, key))))
}

pub(super) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::NOMEM)
}

/// As much of a text as is kept.
pub(super) fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
    text
}
