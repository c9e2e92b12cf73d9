//! Connections that hosts want opened.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use netdev::Device;
use queue_pair::control::Reply;
use queue_pair::{Completion, ConnectBlock, FastOpen, Opening, position};
use rustix::io::Errno;
use tcp::{ConnId, ConnOptions, ConnectError, Request};

use super::Worker;
use crate::config::shares;
use crate::fast::connections::{PoolId, SessionId};
use crate::fast::session::{EndReason, conn_ref};
use crate::network::{Network, NicId, is_link_local};
use crate::stats::Drop;

/// Leased ports that are tried for a connection before one more is leased.
const TRIES: usize = 8;
/// How long a port rests before it is used again, while others can be leased: as long as a peer
/// usually remembers a connection that it has closed.
const REST: Duration = Duration::from_secs(60);
/// Ports that a program needs a privilege to bind; the engine does not lend it its own.
const PRIVILEGED: u16 = 1024;

impl<D: Device, N: Network> Worker<D, N> {
    /// A process wants a connection opened.
    pub(super) fn connect(
        &mut self,
        id: SessionId,
        token: u64,
        addr: u64,
    ) -> Result<(), EndReason> {
        let Some(session) = self.sessions.get(id) else {
            return Ok(());
        };
        let block = session.region.connect_block(addr)?;
        // Whatever comes of it, it was lent for this one.
        let lent = self.lent.take(id, block.local);
        let opened = self.open(id, &block, lent.is_some());
        if opened.is_err() {
            self.give_back_lent(lent);
        }
        self.tell_opening();
        match opened {
            Ok(conn_id) => {
                let (conn, new) = self.connections.enter(conn_id);
                if !new {
                    debug_assert!(false, "the stack has just named it");
                    return Ok(());
                }
                conn.pool = PoolId::of(id);
                conn.owner = Some(id);
                conn.dscp = block.traffic_class >> 2;
                conn.flags.taken = true;
                let room = self.stack.syn_room(self.now, conn_id);
                conn.flags.named = room > 0;
                self.memory.expect_stream(PoolId::of(id));
                if let Some(session) = self.sessions.get_mut(id) {
                    session.held += 1;
                    session.connections.insert(conn_id);
                    if block.fast_open == FastOpen::Hold {
                        session.tell_its_own(Completion::Syn {
                            token,
                            conn: conn_ref(conn_id),
                            room,
                        });
                    }
                    if let Some(word) = session.region.positions.word(conn_id.index) {
                        position::grant(word, conn.grant, 0);
                    }
                }
                self.connections.opens(conn_id, id, token);
            }
            Err(errno) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.tell_its_own(Completion::OpenFailed {
                        token,
                        errno: errno.raw_os_error() as u16,
                    });
                }
            }
        }
        Ok(())
    }

    /// A process does not want a connection any more that it is opening. One that others have, too, is opened all
    /// the same, and so is one whose name the process knows: that is closed by it.
    pub(super) fn cancel(&mut self, id: SessionId, token: u64) {
        let Some(conn_id) = self.connections.opening_as(id, token) else {
            return;
        };
        if let Some(conn) = self.connections.get_mut(conn_id)
            && conn.owner == Some(id)
            && conn.family.is_none()
            && !conn.flags.named
        {
            conn.failure = Errno::CANCELED.raw_os_error() as u16;
            self.open_failed(conn_id);
        }
    }

    /// A process asks from where a connection is being opened.
    pub(super) fn ask_local(&mut self, id: SessionId, token: u64) {
        let conn_id = self.connections.opening_as(id, token);
        let Some(info) = conn_id.and_then(|conn_id| self.stack.info(self.now, conn_id)) else {
            return;
        };
        let (local, _) = self.ends(info.local, info.remote);
        if let Some(session) = self.sessions.get_mut(id) {
            session.tell_its_own(Completion::Local { token, local });
        }
    }

    /// The SYN of a connection waits no longer for data: its program sends nothing with it, or several
    /// processes have it from now on.
    pub(super) fn let_syn_go(&mut self, id: ConnId) {
        let conn = self.connections.get(id);
        if conn.is_some_and(|conn| conn.flags.active && !conn.flags.connected) {
            // Refused only where it has failed, or is closed.
            let _ = self.stack.on_request(self.now, id, Request::Open);
        }
    }

    /// Who opens connections now.
    pub(super) fn opening(&self) -> Opening {
        if self.stopping {
            Opening::Stopping
        } else if !self.nics.serve_all_queues() {
            Opening::UnservedQueue
        } else if self.network.ports_are_scarce(self.now) {
            Opening::NoPorts
        } else {
            Opening::Engine
        }
    }

    /// Tells every program if that has changed: what the engine could not open is then opened by the
    /// kernel.
    pub(super) fn tell_opening(&mut self) {
        let opening = self.opening();
        if opening == self.told_opening {
            return;
        }
        self.told_opening = opening;
        if opening == Opening::NoPorts {
            self.counters.drop(Drop::PortsScarce);
        }
        for (_, session) in self.sessions.iter() {
            let opening = self.opening_for(session.process.uid);
            session.region.opening.set(opening);
        }
    }

    fn open(&mut self, id: SessionId, block: &ConnectBlock, lent: bool) -> Result<ConnId, Errno> {
        let remote = block.remote;
        // Answers may come to any queue.
        let reached = self.nics.serve_all_queues() || self.is_here(remote.ip());
        if self.stopping || !reached {
            return Err(Errno::OPNOTSUPP);
        }
        if self.has_too_many(id) {
            self.counters.drop(Drop::ConnectionsOfUser);
            return Err(Errno::NOBUFS);
        }
        if !self.config.access.admits_peer(remote.ip(), remote.port())
            || !self
                .netfilter
                .admits_connection(block.local.port(), remote.ip())
        {
            return Err(Errno::OPNOTSUPP);
        }
        if !self.is_on_our_link(remote) {
            // Another link's, or nobody has said which: the kernel knows what to answer.
            return Err(Errno::OPNOTSUPP);
        }
        let source = if self.is_here(remote.ip()) {
            if !self.listens_here(remote) {
                // It did when the program asked.
                return Err(Errno::CONNREFUSED);
            }
            self.local_source(block.local.ip(), remote.ip())?
        } else {
            let source = self.source(block.local.ip(), remote)?;
            self.leaves_as_known(id, source, remote.ip())?;
            source
        };
        if (source, block.local.port()) == (remote.ip(), remote.port()) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let mut options = ConnOptions {
            user_timeout: (block.user_timeout != 0)
                .then(|| Duration::from_millis(block.user_timeout.into())),
            max_segment: (block.max_segment != 0).then_some(block.max_segment),
            fast_open: (block.fast_open != FastOpen::No).into(),
            hold_syn: block.fast_open == FastOpen::Hold,
            ..self.connection_options()
        };
        if block.receive_buffer != 0 {
            let limit = self.config.tcp.most_receive_buffer();
            options.receive_buffer = block.receive_buffer.clamp(4096.min(limit), limit);
            options.tune_receive_buffer = false;
        }
        if block.local.port() != 0 {
            let port = block.local.port();
            if lent {
                self.steer_lent(port, source)?;
            } else {
                self.name_port(id, port, source)?;
            }
            return self
                .try_open(SocketAddr::new(source, port), remote, &options)
                .map_err(|_| Errno::ADDRNOTAVAIL);
        }
        // Ports that have rested; then more of them; then any that are free.
        for _ in 0..TRIES {
            let Some(port) = self.network.reuse_port(self.now, REST) else {
                break;
            };
            match self.try_open(SocketAddr::new(source, port), remote, &options) {
                Err(ConnectError::AddressInUse) => {}
                other => return other.map_err(connect_errno),
            }
        }
        if let Ok(port) = self.network.lease_port(self.now, None) {
            return self
                .try_open(SocketAddr::new(source, port), remote, &options)
                .map_err(connect_errno);
        }
        for _ in 0..self.network.leased_ports() {
            let Some(port) = self.network.reuse_port(self.now, Duration::ZERO) else {
                break;
            };
            match self.try_open(SocketAddr::new(source, port), remote, &options) {
                Err(ConnectError::AddressInUse) => {}
                other => return other.map_err(connect_errno),
            }
        }
        self.counters.drop(Drop::PortsFull);
        Err(Errno::ADDRNOTAVAIL)
    }

    /// Whether an address, if it is link-local, is one of our links.
    pub(super) fn is_on_our_link(&self, address: SocketAddr) -> bool {
        match address {
            SocketAddr::V6(v6) => {
                !is_link_local(address.ip()) || self.network.nic_at(v6.scope_id()).is_some()
            }
            SocketAddr::V4(_) => true,
        }
    }

    //= RFC 9293 MUST-44
    fn source(&mut self, wanted: IpAddr, remote: SocketAddr) -> Result<IpAddr, Errno> {
        let scope = match remote {
            SocketAddr::V6(v6) => v6.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        if wanted.is_unspecified() {
            return self.network.source_for(remote.ip(), scope, None);
        }
        if !self.network.addresses().contains(&wanted) {
            return Err(Errno::OPNOTSUPP);
        }
        self.network.source_for(remote.ip(), scope, Some(wanted))
    }

    /// A program of a version that knows of one interface may have bound its socket to that, which it then says to
    /// nobody. So what leaves by another is the kernel's.
    fn leaves_as_known(
        &mut self,
        id: SessionId,
        source: IpAddr,
        destination: IpAddr,
    ) -> Result<(), Errno> {
        let session = self.sessions.get(id).ok_or(Errno::BADF)?;
        let version = session.region.layout.version;
        if self.nics.is_one() || version >= Reply::SEVERAL_INTERFACES_SINCE {
            return Ok(());
        }
        match self.network.next_hop(source, destination) {
            Ok(hop) if hop.neighbour.nic == NicId::default() => Ok(()),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// A process wants a connection from a port that it has not lent. For as long as the port is used it is held for
    /// its user, as if it were lent.
    fn name_port(&mut self, id: SessionId, port: u16, source: IpAddr) -> Result<(), Errno> {
        let session = self.sessions.get(id).ok_or(Errno::BADF)?;
        let uid = session.process.uid;
        if port < PRIVILEGED && uid != shares::ROOT {
            return Err(Errno::ACCESS);
        }
        if self.network.has_leased(port) {
            return self.network.lease_port(self.now, Some(port)).map(drop);
        }
        self.hold_port(uid, port)?;
        self.steer_lent(port, source)
    }

    fn try_open(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        options: &ConnOptions,
    ) -> Result<ConnId, ConnectError> {
        self.stack.connect(self.now, local, remote, options)
    }
}

fn connect_errno(error: ConnectError) -> Errno {
    match error {
        ConnectError::AddressInUse => Errno::ADDRNOTAVAIL,
        ConnectError::TooManyConnections => Errno::NOBUFS,
        ConnectError::BadAddress => Errno::INVAL,
    }
}
