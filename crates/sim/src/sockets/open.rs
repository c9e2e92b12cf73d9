//! The calls that open and close.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tcp::{ConnectError, ListenError, ListenSpec, Request, RequestError};

use super::{Attempt, Connection, Fd, Refusal, Role, Socket, Sockets};
use crate::script::Errno;
use crate::script::call::constant::{SHUT_RD, SHUT_RDWR, SHUT_WR};

impl Sockets {
    /// Opens a TCP socket.
    pub fn open(&mut self, v6: bool, non_blocking: bool) -> Fd {
        self.add(Socket {
            v6,
            non_blocking,
            bound: None,
            role: Role::Fresh,
            options: self.defaults,
            v6_only: false,
            linger: None,
            send_buffer: self.send_buffer,
            remembered: BTreeMap::new(),
        })
    }

    /// `bind`
    ///
    /// # Errors
    /// The call's.
    pub fn bind(&mut self, fd: Fd, address: SocketAddr) -> Attempt<()> {
        let free = self.free_port();
        let known = address.ip().is_unspecified() || self.addresses.contains(&address.ip());
        let taken = self.table.iter().any(|(other, socket)| {
            *other != fd
                && matches!(socket.role, Role::Listener(_) | Role::Fresh)
                && socket
                    .bound
                    .is_some_and(|bound| bound.port() == address.port())
                && address.port() != 0
        });
        let socket = self.socket(fd)?;
        if socket.bound.is_some() || address.is_ipv6() != socket.v6 {
            return Err(Errno::EINVAL.into());
        }
        if !known {
            return Err(Errno::EADDRNOTAVAIL.into());
        }
        if taken {
            return Err(Errno::EADDRINUSE.into());
        }
        let port = Some(address.port()).filter(|&port| port != 0);
        socket.bound = Some(SocketAddr::new(address.ip(), port.unwrap_or(free)));
        Ok(())
    }

    /// A port that no socket of ours is bound to.
    fn free_port(&mut self) -> u16 {
        loop {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(32_768);
            let taken = |socket: &Socket| socket.bound.is_some_and(|bound| bound.port() == port);
            if !self.table.values().any(taken) {
                return port;
            }
        }
    }

    /// `listen`
    ///
    /// # Errors
    /// The call's.
    pub fn listen(&mut self, fd: Fd, backlog: i32) -> Attempt<()> {
        let backlog = u32::try_from(backlog)
            .unwrap_or(u32::MAX)
            .min(self.somaxconn);
        let max_half_open = self.max_half_open;
        let port = self.free_port();
        let socket = self.socket(fd)?;
        match socket.role {
            Role::Listener(id) => {
                self.stack().set_backlog(id, backlog);
                return Ok(());
            }
            Role::Connection(_) => return Err(Errno::EINVAL.into()),
            Role::Fresh => {}
        }
        let any = if socket.v6 {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        } else {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        };
        let bound = *socket.bound.get_or_insert(SocketAddr::new(any, port));
        let spec = ListenSpec {
            addr: Some(bound.ip()),
            port: bound.port(),
            backlog,
            // As Linux: as many half-open connections as may wait complete, and one.
            max_half_open: max_half_open.min(backlog.saturating_add(1)),
            v6_only: socket.v6_only,
            options: socket.options,
        };
        let id = self.stack().listen(spec).map_err(|error| match error {
            ListenError::AddressInUse => Errno::EADDRINUSE,
            ListenError::TooManyListeners => Errno::ENOBUFS,
            ListenError::BadAddress => Errno::EADDRNOTAVAIL,
        })?;
        self.socket(fd)?.role = Role::Listener(id);
        Ok(())
    }

    /// `accept`: the new socket, and the peer's address.
    ///
    /// # Errors
    /// The call's.
    pub fn accept(&mut self, fd: Fd) -> Attempt<(Fd, SocketAddr)> {
        let socket = self.socket(fd)?;
        let Role::Listener(listener) = socket.role else {
            return Err(Errno::EINVAL.into());
        };
        let (v6, v6_only, non_blocking) = (socket.v6, socket.v6_only, socket.non_blocking);
        let (linger, options, send_buffer) = (socket.linger, socket.options, socket.send_buffer);
        let remembered = socket.remembered.clone();
        let now = self.now;
        let Some(id) = self.stack().accept(listener) else {
            return Err(wait_or(non_blocking, Errno::EAGAIN));
        };
        let info = self.stack().info(now, id).ok_or(Errno::ECONNABORTED)?;
        let mut connection = Connection::new(id, info.remote);
        connection.told = true;
        let new = self.add(Socket {
            v6,
            non_blocking: false,
            bound: Some(info.local),
            role: Role::Connection(connection),
            options,
            v6_only,
            linger,
            send_buffer,
            remembered,
        });
        self.connections.insert(id, new);
        self.classify(new)?;
        self.settle();
        Ok((new, info.remote))
    }

    /// `connect`
    ///
    /// # Errors
    /// The call's.
    pub fn connect(&mut self, fd: Fd, remote: SocketAddr) -> Attempt<()> {
        let socket = self.socket(fd)?;
        let non_blocking = socket.non_blocking;
        match &mut socket.role {
            Role::Connection(connection) => {
                if let Some(error) = connection.error.take() {
                    return Err(error.into());
                }
                if connection.update.failed.is_some() {
                    return Err(Errno::ECONNABORTED.into());
                }
                if connection.update.connected {
                    let told = std::mem::replace(&mut connection.told, true);
                    return if told {
                        Err(Errno::EISCONN.into())
                    } else {
                        Ok(())
                    };
                }
                return Err(wait_or(non_blocking, Errno::EALREADY));
            }
            Role::Listener(_) => return Err(Errno::EISCONN.into()),
            Role::Fresh => {}
        }
        if remote.is_ipv6() != socket.v6 {
            return Err(Errno::EAFNOSUPPORT.into());
        }
        let (bound, options) = (socket.bound, socket.options);
        let port = bound.map_or_else(|| self.free_port(), |bound| bound.port());
        let same = |address: &&IpAddr| address.is_ipv6() == remote.is_ipv6();
        let ip = bound
            .map(|bound| bound.ip())
            .filter(|ip| !ip.is_unspecified())
            .or_else(|| self.addresses.iter().find(same).copied())
            .ok_or(Errno::EADDRNOTAVAIL)?;
        let local = SocketAddr::new(ip, port);
        let now = self.now;
        let id =
            self.stack()
                .connect(now, local, remote, &options)
                .map_err(|error| match error {
                    ConnectError::AddressInUse => Errno::EADDRNOTAVAIL,
                    ConnectError::TooManyConnections => Errno::ENOBUFS,
                    ConnectError::BadAddress => Errno::EINVAL,
                })?;
        let socket = self.socket(fd)?;
        socket.bound = Some(local);
        socket.role = Role::Connection(Connection::new(id, remote));
        self.connections.insert(id, fd);
        self.classify(fd)?;
        self.settle();
        Err(wait_or(non_blocking, Errno::EINPROGRESS))
    }

    /// `shutdown`
    ///
    /// # Errors
    /// The call's.
    pub fn shutdown(&mut self, fd: Fd, how: i32) -> Attempt<()> {
        let socket = self.socket(fd)?;
        if !(SHUT_RD..=SHUT_RDWR).contains(&how) {
            return Err(Errno::EINVAL.into());
        }
        let Role::Connection(connection) = &mut socket.role else {
            return Err(Errno::ENOTCONN.into());
        };
        if connection.update.failed.is_some() {
            return Err(Errno::ENOTCONN.into());
        }
        let (reads, writes) = (how != SHUT_WR, how != SHUT_RD);
        connection.shut_read |= reads;
        connection.shut_write |= writes;
        let (id, now) = (connection.id, self.now);
        let requests = [
            reads.then_some(Request::ShutdownRead),
            writes.then_some(Request::ShutdownWrite),
        ];
        for request in requests.into_iter().flatten() {
            if self.stack().on_request(now, id, request) == Err(RequestError::Failed) {
                return Err(Errno::ENOTCONN.into());
            }
        }
        self.settle();
        Ok(())
    }

    /// `close`
    ///
    /// # Errors
    /// The call's.
    pub fn close(&mut self, fd: Fd) -> Attempt<()> {
        let socket = self.table.remove(&fd).ok_or(Errno::EBADF)?;
        let now = self.now;
        match socket.role {
            Role::Fresh => {}
            Role::Listener(id) => self.stack().unlisten(now, id),
            Role::Connection(connection) => {
                let hard = socket.linger.is_some_and(|linger| linger.is_zero());
                let request = if hard { Request::Abort } else { Request::Close };
                // A connection that the stack has forgotten is closed.
                let _ = self.stack().on_request(now, connection.id, request);
                self.connections.remove(&connection.id);
            }
        }
        self.settle();
        Ok(())
    }

    /// O_NONBLOCK.
    ///
    /// # Errors
    /// The call's.
    pub fn non_blocking(&mut self, fd: Fd) -> Attempt<&mut bool> {
        Ok(&mut self.socket(fd)?.non_blocking)
    }

    /// Where a socket is bound, and its peer.
    ///
    /// # Errors
    /// The call's.
    pub fn names(&mut self, fd: Fd) -> Attempt<(Option<SocketAddr>, Option<SocketAddr>)> {
        let socket = self.socket(fd)?;
        let remote = match &socket.role {
            Role::Connection(connection) => Some(connection.remote),
            _ => None,
        };
        Ok((socket.bound, remote))
    }
}

/// What a call says that cannot be done at once.
pub(super) fn wait_or(non_blocking: bool, errno: Errno) -> Refusal {
    if non_blocking {
        Refusal::Error(errno)
    } else {
        Refusal::Wait
    }
}
