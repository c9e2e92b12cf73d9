//! Requests on the control socket.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use netdev::Device;
use netdev::steering::Endpoint;
use queue_pair::control::{self, ChannelError, Explanation, Fds, Reply, Request};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Worker;
use super::sessions::NoSession;
use crate::capture::CaptureError;
use crate::config::Changes;
use crate::fast::connections::SessionId;
use crate::fast::session::{EndReason, Process};
use crate::network::Network;
use crate::slow::control::{Accepted, Heard, Source, prove_bound, prove_listener};
use crate::sockets::SocketFilter;
use crate::stats::Drop;

/// Requests of one connection that are answered in one go.
const BUDGET: usize = 16;
/// Connections that are accepted in one go.
const ACCEPT_BUDGET: usize = 64;
/// Farewells of a child that are heard when it attaches: more than its lifeline holds.
const FAREWELLS: usize = 1 << 16;
/// The longest name of a program, or reason, that is kept.
const MAX_TEXT: usize = 256;

/// An answer, with what comes along.
type Answer = Result<(Reply, Fds), (Errno, String)>;

fn done() -> Answer {
    Ok((Reply::Done, Fds::new()))
}

fn refuse(errno: Errno, message: impl Into<String>) -> Answer {
    Err((errno, message.into()))
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Accepts the control connections that wait.
    pub(super) fn accept_clients(&mut self) {
        for _ in 0..ACCEPT_BUDGET {
            match self.control.accept() {
                Ok(Accepted::Client) => {}
                Ok(Accepted::Nobody) => return,
                Ok(Accepted::BeyondLimit) => self.counters.drop(Drop::ControlFull),
                Ok(Accepted::NoDescriptor) => self.counters.drop(Drop::NoDescriptor),
                Err(error) => {
                    tracing::warn!(%error, "the control socket does not accept for a second");
                    return;
                }
            }
        }
    }

    /// Answers what a control connection asks; ends it, and its session, if it is over.
    pub(super) fn serve_client(&mut self, slot: u32) {
        let served = self.serve(slot);
        if let Err(error) = served {
            if !matches!(error, ChannelError::Closed) {
                tracing::warn!(%error, "control connection closed");
            }
            let reason = match error {
                ChannelError::Violation(violation) => EndReason::Violation(violation),
                _ => EndReason::Gone,
            };
            let responds = self.control.client(slot).is_some_and(|c| c.responds);
            if let Some(session) = self.control.close(slot) {
                self.end_session(session, reason);
            }
            if responds {
                self.network.end_responding();
            }
        }
    }

    fn serve(&mut self, slot: u32) -> Result<(), ChannelError> {
        self.control.flush(slot)?;
        for _ in 0..BUDGET {
            let Some((request, fds)) = self.control.receive(slot)? else {
                break;
            };
            let wants_reply = request.wants_reply();
            let answer = self.answer(slot, request, fds);
            if wants_reply {
                let (reply, fds) = answer.unwrap_or_else(|(errno, message)| {
                    let errno = errno.raw_os_error();
                    (Reply::Error { errno, message }, Fds::new())
                });
                self.control.reply(slot, &reply, fds)?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, slot: u32, request: Request, mut fds: Fds) -> Answer {
        // Submissions that were made before the request may be seen only after it. They come first:
        // a connection that was accepted would be taken for one that was not.
        if let Some(session) = self.control.client(slot).and_then(|client| client.session)
            && let Err(reason) = self.drain(session, true)
        {
            self.breaches.push((session, reason));
            return refuse(Errno::CONNRESET, reason.to_string());
        }
        match request {
            Request::Attach {
                version,
                program,
                fork_token,
            } => self.answer_attach(slot, version, program, fork_token),
            Request::Listen { addr, backlog, .. } => {
                let session = self.session_of(slot)?;
                let Some(shown) = fds.pop() else {
                    return refuse(Errno::INVAL, "show the kernel's listening socket");
                };
                let proof =
                    prove_listener(shown.as_fd(), addr, self.namespace, self.network.index())
                        .map_err(|refusal| (refusal.errno(), refusal.to_string()))?;
                let listener = self
                    .listen(session, addr, proof, backlog)
                    .map_err(|errno| (errno, format!("{addr} is not offloaded: {errno}")))?;
                Ok((Reply::Listening { listener }, Fds::new()))
            }
            Request::Bound { local } => {
                let session = self.session_of(slot)?;
                let Some(shown) = fds.pop() else {
                    return refuse(Errno::INVAL, "show the kernel's bound socket");
                };
                prove_bound(shown.as_fd(), local, self.namespace, self.network.index())
                    .map_err(|refusal| (refusal.errno(), refusal.to_string()))?;
                self.lend_port(session, local, shown)
                    .map_err(|errno| (errno, format!("{local} is not used: {errno}")))?;
                done()
            }
            Request::Local { remote } => {
                self.session_of(slot)?;
                if self.listens_here(remote) {
                    done()
                } else {
                    refuse(Errno::OPNOTSUPP, "nothing on the engine listens there")
                }
            }
            Request::Unlisten { listener } => {
                let session = self.session_of(slot)?;
                let known = self.unlisten(session, listener);
                known.map_err(|errno| (errno, format!("listener {listener} is not yours")))?;
                done()
            }
            Request::Waker => {
                let session = self.session_of(slot)?;
                let (waker, fd) = self
                    .add_waker(session)
                    .map_err(|errno| (errno, "no further waker".to_owned()))?;
                Ok((Reply::Waker { waker }, [fd].into_iter().collect()))
            }
            Request::Fork => self.answer_fork(slot),
            Request::AdoptListener { listener } => {
                let session = self.session_of(slot)?;
                let adopted = self.adopt_listener(session, listener);
                let listener = adopted
                    .map_err(|e| (e, "the listener did not come through a fork".to_owned()))?;
                Ok((Reply::Listening { listener }, Fds::new()))
            }
            Request::Info { conn } => {
                let session = self.session_of(slot)?;
                let id = tcp::ConnId {
                    index: conn.index,
                    generation: conn.generation,
                };
                let own = self.named(session, conn).is_ok();
                match self.stack.info(self.now, id).filter(|_| own) {
                    Some(info) => {
                        let info = crate::stats::conn_info(&info, self.age(id));
                        Ok((Reply::Info(Box::new(info)), Fds::new()))
                    }
                    None => refuse(Errno::NOTCONN, "no such connection of yours"),
                }
            }
            Request::Report { fd, kind, reason } => {
                self.report(slot, fd, kind, reason);
                done()
            }
            Request::Stats => Ok((Reply::Stats(self.metrics()), Fds::new())),
            Request::Sockets { after, filter } => {
                let filter = SocketFilter::parse(&filter)
                    .map_err(|error| (Errno::INVAL, format!("filter: {error}")))?;
                let (rows, next) = self.socket_rows(after, &filter);
                Ok((Reply::Sockets { rows, next }, Fds::new()))
            }
            Request::Explain { pid } => Ok((Reply::Explained(self.explanations(pid)), Fds::new())),
            Request::Capture { filter } => self.answer_capture(slot, &filter, fds),
            Request::Respond {
                interface,
                endpoints,
            } => self.answer_respond(slot, interface, &endpoints, fds),
            Request::Reload => {
                self.privileged(slot)?;
                let Changes { live, at_start } =
                    self.reload().map_err(|error| (Errno::INVAL, error))?;
                let reply = Reply::Reloaded {
                    changed: live,
                    at_start,
                };
                Ok((reply, Fds::new()))
            }
            Request::Shutdown => {
                self.privileged(slot)?;
                tracing::info!("asked to stop by the control socket");
                self.begin_stop();
                done()
            }
        }
    }

    fn answer_attach(
        &mut self,
        slot: u32,
        version: u32,
        program: String,
        fork_token: Option<u64>,
    ) -> Answer {
        if version != control::VERSION {
            let own = control::VERSION;
            let message = format!("the engine speaks version {own}, the program {version}");
            return refuse(Errno::PROTONOSUPPORT, message);
        }
        let Some(client) = self.control.client(slot) else {
            return refuse(Errno::BADF, "the connection is gone");
        };
        if client.session.is_some() {
            return refuse(Errno::ALREADY, "attached already");
        }
        if client.namespace != self.namespace {
            // What its own kernel sockets would not reach it must not reach through the engine.
            self.counters.drop(Drop::OtherNamespace);
            return refuse(Errno::PERM, "the program is in another network namespace");
        }
        let process = Process {
            pid: client.pid,
            uid: client.uid,
            program: shortened(program),
        };
        let pidfd = self.process_descriptor(slot, process.pid);
        if let Some(token) = fork_token {
            // What the child has closed before it attached it does not have.
            self.listen_to_lifeline(token);
            self.control.forget_lifeline(token);
        }
        let pid = process.pid;
        let attachment = match self.attach(process, pidfd, fork_token) {
            Ok(attachment) => attachment,
            Err(error) => {
                if let Some(token) = fork_token {
                    // Nobody hears its lifeline any more.
                    self.forget_fork(token);
                }
                if matches!(error, NoSession::Kernel(_)) {
                    tracing::warn!(pid, %error, "a program is left to the kernel");
                }
                return refuse(error.errno(), error.to_string());
            }
        };
        let id = attachment.id;
        if let Some(client) = self.control.client(slot) {
            client.session = Some(id);
        }
        self.watch_session(id);
        let reply = Reply::Attached {
            session: attachment.number,
            engine: self.config.name.clone(),
            interface: self.network.index(),
            local: self.local.is_some(),
        };
        let fds = [attachment.region, attachment.doorbell, attachment.waker];
        Ok((reply, fds.into_iter().collect()))
    }

    /// A descriptor of the process at the other end: from the socket itself, or, on kernels that
    /// cannot say, by its number.
    fn process_descriptor(&mut self, slot: u32, pid: u32) -> Option<OwnedFd> {
        let fd = self.control.client_fd(slot)?;
        netdev::syscalls::peer_pidfd(fd).ok().or_else(|| {
            let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
            pidfd_open(pid, PidfdFlags::empty()).ok()
        })
    }

    fn watch_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let poller = &self.control.poller;
        let mut watched = poller.add(session.bell.as_fd(), Source::Bell(id));
        if let Some(pidfd) = &session.pidfd {
            watched = watched.and(poller.add(pidfd.as_fd(), Source::Process(id)));
        }
        if let Err(error) = watched {
            tracing::warn!(%error, "a session cannot be polled");
        }
    }

    fn answer_fork(&mut self, slot: u32) -> Answer {
        let session = self.session_of(slot)?;
        // The process counts it too, whatever comes of it.
        if let Some(session) = self.sessions.get_mut(session) {
            session.forks = session.forks.wrapping_add(1);
        }
        let failed = |errno: Errno| (errno, "the fork cannot be followed".to_owned());
        let (theirs, ours) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK,
            None,
        )
        .map_err(failed)?;
        let token = self.next_token();
        self.fork(session, token).map_err(failed)?;
        if let Err(errno) = self.control.watch_lifeline(token, ours) {
            self.forget_fork(token);
            return Err(failed(errno));
        }
        Ok((Reply::Forked { token }, [theirs].into_iter().collect()))
    }

    /// Takes what the child of a fork has said before it attaches.
    fn listen_to_lifeline(&mut self, token: u64) {
        let Some(slot) = self.control.lifeline_of(token) else {
            return;
        };
        for _ in 0..FAREWELLS {
            match self.control.hear_lifeline(slot) {
                Heard::Said(said) => self.child_closed(token, said),
                Heard::Quiet | Heard::Ended(_) => return,
            }
        }
    }

    /// A lifeline is readable: the child of a fork has closed something, or ended.
    pub(super) fn lifeline_readable(&mut self, slot: u32) {
        for _ in 0..BUDGET {
            let Some(token) = self.control.token_of_lifeline(slot) else {
                return;
            };
            match self.control.hear_lifeline(slot) {
                Heard::Said(said) => self.child_closed(token, said),
                Heard::Quiet => return,
                Heard::Ended(token) => {
                    self.forget_fork(token);
                    return;
                }
            }
        }
    }

    fn answer_capture(&mut self, slot: u32, filter: &str, mut fds: Fds) -> Answer {
        self.privileged(slot)?;
        let Some(socket) = fds.pop() else {
            return refuse(Errno::INVAL, "send the end of a stream socket along");
        };
        let interface = &self.config.interface;
        match self.captures.begin(filter, socket, interface, self.now) {
            Ok(()) => done(),
            Err(error @ CaptureError::TooMany) => refuse(Errno::BUSY, error.to_string()),
            Err(error) => refuse(Errno::INVAL, error.to_string()),
        }
    }

    /// Takes a responder's program, and endpoints for it.
    fn answer_respond(
        &mut self,
        slot: u32,
        interface: u32,
        endpoints: &[(IpAddr, u16, [u16; 2])],
        mut fds: Fds,
    ) -> Answer {
        self.privileged(slot)?;
        let program = fds.pop();
        let responds = self.control.client(slot).is_some_and(|c| c.responds);
        if !responds && self.control.has_responder() {
            return refuse(Errno::BUSY, "another responder is there already");
        }
        if !responds && program.is_none() {
            return refuse(Errno::INVAL, "send the responder's program along");
        }
        let endpoints: Vec<Endpoint> = endpoints
            .iter()
            .map(|(address, port, vlan)| Endpoint {
                vlan: *vlan,
                ..Endpoint::new(*address, *port)
            })
            .collect();
        if let Some(client) = self.control.client(slot) {
            client.responds = true;
        }
        let program = program.as_ref().map(AsFd::as_fd);
        match self.network.respond(interface, program, &endpoints) {
            Ok(()) => done(),
            Err(error) => {
                self.network.end_responding();
                if let Some(client) = self.control.client(slot) {
                    client.responds = false;
                }
                refuse(Errno::INVAL, error.to_string())
            }
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
        };
        let pid = client.pid;
        if !self.control.report(pid, explanation) {
            self.counters.drop(Drop::ReportsFull);
        }
    }

    fn session_of(&mut self, slot: u32) -> Result<SessionId, (Errno, String)> {
        let session = self.control.client(slot).and_then(|client| client.session);
        session.ok_or_else(|| (Errno::NOTCONN, "attach first".to_owned()))
    }

    /// Refuses who is neither root nor the engine's own user.
    fn privileged(&mut self, slot: u32) -> Result<(), (Errno, String)> {
        let own = rustix::process::geteuid().as_raw();
        match self.control.client(slot) {
            Some(client) if client.uid == 0 || client.uid == own => Ok(()),
            _ => Err((Errno::PERM, "for root and the engine's own user".to_owned())),
        }
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
    text
}
