//! What the engine says, and whom it concerns.
//!
//! Any thread may pump: it takes what the engine has said and brings it to the sockets. Whoever finds
//! another thread pumping goes on, since that one does the work; only a thread that is about to sleep
//! waits for it, because it has to know that nothing is on its way to its sockets.
//!
//! The engine is trusted with the program's bytes, not with its life: what it cannot have meant ends
//! the attachment as its death would.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use queue_pair::control::{Carried, Reply};
use queue_pair::region::RingCells;
use queue_pair::ring::Consumer;
use queue_pair::{Completion, ConnRef, Submission, Violation};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::Attachment;
use super::connection::Connection;
use super::control::errno_from;
use super::life::{CONDEMNED, ENDED, LIVE};
use super::listens::Accepts;
use crate::clock::monotonic_ns;
use crate::connections::Connections;
use crate::lock::{lock, try_lock};

/// What the pumping thread needs.
pub(super) struct Pump<C> {
    pub(super) completions: Consumer<Completion, RingCells>,
    connections: Connections<C>,
    listeners: HashMap<u32, Arc<dyn Accepts<C>>>,
    connecting: HashMap<u64, Arc<C>>,
    next_token: u64,
    /// What the engine has said, while tickets are claimed, of connections that nobody knows: those of the tickets,
    /// perhaps.
    aside: Vec<(ConnRef, Completion)>,
}

/// So much is put aside at most.
const ASIDE: usize = 1 << 16;

impl<C> Pump<C> {
    pub(super) fn new(completions: Consumer<Completion, RingCells>) -> Self {
        Self {
            completions,
            connections: Connections::default(),
            listeners: HashMap::new(),
            connecting: HashMap::new(),
            next_token: 0,
            aside: Vec::new(),
        }
    }

    /// Puts aside what may be of a connection that is being claimed. False: it is of one that is known, or of none.
    fn puts_aside(&mut self, completion: Completion) -> Result<bool, Violation> {
        let Some(conn) = concerns(&completion) else {
            return Ok(false);
        };
        if self.connections.get(conn).is_some() {
            return Ok(false);
        }
        if self.aside.len() == ASIDE {
            return Err(Violation::UndefinedValue {
                field: "connection index",
                value: conn.index.into(),
            });
        }
        self.aside.push((conn, completion));
        Ok(true)
    }

    /// A claim is settled, maybe the last, and this is its connection. What was said of that comes back.
    fn is_settled(&mut self, conn: Option<ConnRef>, is_last: bool) -> Vec<Completion> {
        let of_it = self.aside.extract_if(.., |(other, _)| Some(*other) == conn);
        let of_it = of_it.map(|(_, completion)| completion).collect();
        if is_last {
            self.aside = Vec::new();
        }
        of_it
    }
}

/// The connection that it is about, if it makes none.
fn concerns(completion: &Completion) -> Option<ConnRef> {
    match *completion {
        Completion::Update { conn, .. }
        | Completion::Placed { conn, .. }
        | Completion::Failed { conn, .. }
        | Completion::Released { conn }
        | Completion::Granted { conn, .. }
        | Completion::Shut { conn }
        | Completion::ReadShut { conn }
        | Completion::NonBlocking { conn, .. }
        | Completion::ErrorTaken { conn, .. }
        | Completion::NotGranted { conn, .. }
        | Completion::Elsewhere { conn, .. }
        | Completion::SendBuffer { conn, .. }
        | Completion::Departed { conn, .. } => Some(conn),
        Completion::Accepted { .. }
        | Completion::Opened { .. }
        | Completion::Local { .. }
        | Completion::Syn { .. }
        | Completion::OpenFailed { .. } => None,
    }
}

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// Brings what the engine has said to the sockets, unless another thread does. Returns whether
    /// the attachment still works.
    pub(crate) fn pump(self: &Arc<Self>) -> bool {
        match try_lock(&self.pump) {
            Some(pump) => self.pump_locked(pump),
            None => self.is_live(),
        }
    }

    /// As [`pump`](Self::pump), but waits for another thread to be done: afterwards nothing that the
    /// engine had said before is still on its way to a socket.
    pub(crate) fn pump_surely(self: &Arc<Self>) -> bool {
        self.pump_locked(lock(&self.pump))
    }

    fn pump_locked(self: &Arc<Self>, mut pump: MutexGuard<'_, Pump<C>>) -> bool {
        match self.state.load(Ordering::Relaxed) {
            LIVE => {}
            CONDEMNED => {
                self.end(&mut pump);
                return false;
            }
            _ => return false,
        }
        let mut taken = 0;
        let mut unfinished = false;
        loop {
            let completion = match pump.completions.take() {
                Ok(Some(completion)) => completion,
                Ok(None) => break,
                Err(_violation) => {
                    self.end(&mut pump);
                    return false;
                }
            };
            taken += 1;
            if self.deliver(&mut pump, completion).is_err() {
                self.end(&mut pump);
                return false;
            }
            // Others may want the lock, and the engine its slots.
            if taken == pump.completions.capacity() / 2 {
                unfinished = true;
                break;
            }
        }
        if taken > 0 {
            pump.completions.release();
            if taken >= pump.completions.capacity() / 4 {
                // The engine may have gone to sleep for want of room.
                self.ring_if_asleep();
            }
        }
        self.unfinished.store(unfinished, Ordering::Relaxed);
        self.has_read(taken, !unfinished);
        drop(pump);
        self.post_deferred();
        self.announce_many();
        self.ring_owed();
        self.feed_starved();
        self.tell_of_refused();
        self.let_refused_ask();
        if self.keeps_still() {
            // Its answer is for a child.
            self.catch_up();
        }
        true
    }

    fn deliver(
        self: &Arc<Self>,
        pump: &mut Pump<C>,
        completion: Completion,
    ) -> Result<(), Violation> {
        if self.claims() && pump.puts_aside(completion)? {
            return Ok(());
        }
        match completion {
            Completion::Update {
                conn,
                addr,
                len,
                acked,
                peer_closed,
            } => {
                // One that is not ours any more was reset here while this was on its way.
                match pump.connections.get(conn) {
                    Some(socket) => socket.updated(self, (addr, len), acked, peer_closed),
                    None => Ok(()),
                }
            }
            Completion::Placed {
                conn,
                addr,
                len,
                acked,
                peer_closed,
            } => match pump.connections.get(conn) {
                Some(socket) => socket.placed(self, (addr, len), acked, peer_closed),
                None => Ok(()),
            },
            Completion::Failed { conn, errno } => {
                if let Some(socket) = pump.connections.get(conn) {
                    socket.ended(self, errno_from(errno));
                }
                Ok(())
            }
            Completion::Released { conn } => {
                if let Some(socket) = pump.connections.get(conn).map(Arc::clone) {
                    pump.connections.remove(conn);
                    if socket.released(self) {
                        // Nobody had accepted it: another process does.
                        for listener in pump.listeners.values() {
                            listener.offers_withdrawn();
                        }
                    }
                }
                Ok(())
            }
            Completion::Granted {
                conn,
                grant,
                consumed,
                alone_since,
            } => {
                if let Some(socket) = pump.connections.get(conn) {
                    socket.granted(self, grant, consumed, alone_since);
                }
                Ok(())
            }
            Completion::Shut { conn } => {
                if let Some(socket) = pump.connections.get(conn) {
                    socket.shut_elsewhere();
                }
                Ok(())
            }
            Completion::ReadShut { conn } => {
                if let Some(socket) = pump.connections.get(conn) {
                    socket.read_shut_elsewhere();
                }
                Ok(())
            }
            Completion::NonBlocking { conn, on } => {
                if let Some(socket) = pump.connections.get(conn) {
                    socket.set_nonblocking(on);
                }
                Ok(())
            }
            Completion::ErrorTaken { conn, yours } => {
                if let Some(socket) = pump.connections.get(conn) {
                    socket.error_taken(yours);
                }
                Ok(())
            }
            Completion::NotGranted { conn, errno } => {
                if let Some(socket) = pump.connections.get(conn) {
                    socket.not_granted(errno_from(errno).unwrap_or(Errno::AGAIN));
                    self.refuses(socket);
                }
                Ok(())
            }
            Completion::Elsewhere {
                conn,
                unread,
                received,
                acked,
                peer_closed,
            } => match pump.connections.get(conn) {
                Some(socket) => {
                    socket.read_elsewhere(self, (unread.into(), received), acked, peer_closed)
                }
                None => Ok(()),
            },
            Completion::SendBuffer { conn, bytes } => {
                if let Some(socket) = pump.connections.get(conn) {
                    socket.advised(bytes);
                }
                Ok(())
            }
            Completion::Departed { conn, total } => match pump.connections.get(conn) {
                Some(socket) => socket.departed(total),
                None => Ok(()),
            },
            Completion::Accepted {
                conn,
                grant,
                listener,
                peer,
                local,
            } => {
                let Some(listener) = pump.listeners.get(&listener).map(Arc::clone) else {
                    self.post_surely(Submission::GiveBack { conn });
                    return Ok(());
                };
                let socket = C::accepted(&self.nudges, self, (conn, grant), [local, peer]);
                self.admit(pump, conn, Arc::clone(&socket))?;
                listener.handed(socket)
            }
            Completion::Opened {
                token,
                conn,
                grant,
                local,
            } => {
                let grant = (grant != Completion::NO_GRANT).then_some(grant);
                if let Some(socket) = pump.connections.get(conn) {
                    // It was known before: to the parent of this process, or because its SYN waited.
                    if socket.is_opening() {
                        Arc::clone(socket).opened(self, conn, grant, local);
                    }
                    return Ok(());
                }
                let Some(socket) = pump.connecting.remove(&token) else {
                    self.post_surely(Submission::Close {
                        conn,
                        abort: true,
                        at: monotonic_ns(),
                    });
                    return Ok(());
                };
                self.admit(pump, conn, Arc::clone(&socket))?;
                socket.opened(self, conn, grant, local);
                Ok(())
            }
            Completion::Local { token, local } => {
                if let Some(socket) = pump.connecting.get(&token) {
                    socket.opens_from(local);
                }
                Ok(())
            }
            Completion::Syn { token, conn, room } => {
                if room == 0 {
                    if let Some(socket) = pump.connecting.get(&token) {
                        socket.syn_leaves();
                    }
                } else if let Some(socket) = pump.connecting.remove(&token) {
                    // From now on it is known by its name.
                    self.admit(pump, conn, Arc::clone(&socket))?;
                    socket.syn_waits(self, conn, room);
                }
                Ok(())
            }
            Completion::OpenFailed { token, errno } => {
                if let Some(socket) = pump.connecting.remove(&token) {
                    socket.ended(self, errno_from(errno).or(Some(Errno::CONNREFUSED)));
                }
                Ok(())
            }
        }
    }

    /// Claims a ticket. What the engine says meanwhile of a connection that nobody knows is put aside until it is
    /// known which is the ticket's.
    pub(crate) fn claim(self: &Arc<Self>, ticket: OwnedFd) -> Result<(Arc<C>, Carried), Errno> {
        {
            let _pump = lock(&self.pump);
            self.claims.fetch_add(1, Ordering::Relaxed);
        }
        let shown = self.show_ticket(ticket);
        let mut pump = lock(&self.pump);
        let (conn, ends, carried) = match shown {
            Ok(Reply::Claimed {
                conn,
                local,
                peer,
                carried,
            }) => (conn, [local, peer], carried),
            other => {
                let is_last = self.claims.fetch_sub(1, Ordering::Relaxed) == 1;
                pump.is_settled(None, is_last);
                return Err(other.err().unwrap_or(Errno::PROTO));
            }
        };
        let settled = self.settle_claim(&mut pump, (conn, ends), &carried);
        let is_last = self.claims.fetch_sub(1, Ordering::Relaxed) == 1;
        let said = pump.is_settled(Some(conn), is_last);
        let socket = settled?;
        for completion in said {
            if self.deliver(&mut pump, completion).is_err() {
                self.condemn();
                return Err(Errno::PROTO);
            }
        }
        drop(pump);
        self.tell_of_refused();
        Ok((socket, carried))
    }

    /// The socket of a connection that was claimed.
    fn settle_claim(
        self: &Arc<Self>,
        pump: &mut Pump<C>,
        (conn, ends): (ConnRef, [SocketAddr; 2]),
        carried: &Carried,
    ) -> Result<Arc<C>, Errno> {
        while let Some(known) = pump.connections.get(conn) {
            if known.share_handle() {
                return Ok(Arc::clone(known));
            }
            // This process has had it, and closed it. What the engine has still said of that ends with
            // its release, which is here by now.
            let Ok(Some(completion)) = pump.completions.take() else {
                self.post_surely(Submission::Close {
                    conn,
                    abort: false,
                    at: monotonic_ns(),
                });
                return Err(Errno::BUSY);
            };
            if self.deliver(pump, completion).is_err() {
                self.condemn();
                return Err(Errno::PROTO);
            }
            pump.completions.release();
        }
        let socket = C::claimed(&self.nudges, self, conn, ends, carried);
        if self.admit(pump, conn, Arc::clone(&socket)).is_err() {
            self.condemn();
            return Err(Errno::PROTO);
        }
        Ok(socket)
    }

    /// Whether a ticket is being claimed, whose connection is the engine's to give and not yet here. That changes under
    /// the pump's lock.
    pub(crate) fn claims(&self) -> bool {
        self.claims.load(Ordering::Relaxed) > 0
    }

    /// Whether this process has this connection.
    pub(super) fn has(&self, conn: ConnRef) -> bool {
        lock(&self.pump).connections.get(conn).is_some()
    }

    fn admit(&self, pump: &mut Pump<C>, conn: ConnRef, socket: Arc<C>) -> Result<(), Violation> {
        match pump.connections.insert(conn, socket) {
            Ok(None) => Ok(()),
            Ok(Some(former)) => {
                former.ended(self, Some(Errno::CONNRESET));
                Ok(())
            }
            Err(conn) => Err(Violation::UndefinedValue {
                field: "connection index",
                value: conn.index.into(),
            }),
        }
    }

    /// The end: every connection fails, and nobody sleeps on.
    fn end(&self, pump: &mut Pump<C>) {
        self.state.store(ENDED, Ordering::Relaxed);
        self.forget_promises();
        for socket in pump.connections.drain() {
            socket.ended(self, Some(Errno::CONNRESET));
        }
        for (_, socket) in pump.connecting.drain() {
            socket.ended(self, Some(Errno::CONNRESET));
        }
        for (_, listener) in pump.listeners.drain() {
            listener.lost_engine();
        }
        self.hunger.end();
        self.refused.end();
        lock(&self.unannounced).clear();
        self.nudges.nudge_all();
        self.wake_all_parked();
    }

    /// Ends the attachment of a session that nobody uses any more.
    pub(crate) fn close(&self) {
        if self.is_parents() {
            return;
        }
        self.end(&mut lock(&self.pump));
    }

    /// Completions of `listener` go to this listener from now on.
    pub(crate) fn know_listener(&self, listener: u32, core: Arc<dyn Accepts<C>>) {
        lock(&self.pump).listeners.insert(listener, core);
    }

    /// The inverse of [`know_listener`](Self::know_listener).
    pub(crate) fn forget_listener(&self, listener: u32) {
        lock(&self.pump).listeners.remove(&listener);
    }

    /// The answer to a request to open a connection goes to this socket: the token to ask with.
    pub(crate) fn know_connecting(&self, socket: Arc<C>) -> u64 {
        let mut pump = lock(&self.pump);
        let token = pump.next_token;
        pump.next_token += 1;
        pump.connecting.insert(token, socket);
        token
    }

    /// The sockets of all connections, those that are being opened too.
    pub(crate) fn sockets(&self) -> Vec<Arc<C>> {
        let pump = lock(&self.pump);
        let connecting = pump.connecting.values();
        pump.connections
            .iter()
            .chain(connecting)
            .map(Arc::clone)
            .collect()
    }

    /// The child of a fork has attached: its connections are those of this attachment, its parent's.
    pub(crate) fn bequeath(&self, heir: &Arc<Self>) {
        let (sockets, connecting, next_token) = self.take_all();
        let mut pump = lock(&heir.pump);
        pump.next_token = next_token;
        for (conn, socket) in sockets {
            if socket.inherit(heir, Some(conn)) {
                // The engine vouches for its own numbers.
                let _ = heir.admit(&mut pump, conn, socket);
            }
        }
        for (token, socket) in connecting {
            socket.inherit(heir, None);
            pump.connecting.insert(token, socket);
        }
    }

    /// The child of a fork cannot attach: it has none of its parent's connections.
    pub(crate) fn disinherit(&self) {
        let (sockets, connecting, _) = self.take_all();
        let sockets = sockets.into_iter().map(|(_, socket)| socket);
        for socket in sockets.chain(connecting.into_iter().map(|(_, socket)| socket)) {
            socket.disinherited();
        }
    }

    fn take_all(&self) -> All<C> {
        let mut pump = lock(&self.pump);
        pump.listeners.clear();
        (
            pump.connections.drain_named(),
            pump.connecting.drain().collect(),
            pump.next_token,
        )
    }
}

/// Connections, those being opened by their token, and the next token.
type All<C> = (Vec<(ConnRef, Arc<C>)>, Vec<(u64, Arc<C>)>, u64);
