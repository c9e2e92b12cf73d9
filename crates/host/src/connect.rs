//! Opening connections.
//!
//! The engine opens what leaves by its interface. What stays on this machine never crosses an
//! interface and is the kernel's, and so is what the engine cannot do; the program, or whoever stands
//! in for it, then connects a socket of the kernel's.

use std::net::SocketAddr;
use std::sync::Arc;

use queue_pair::{CONNECT_BLOCK_LEN, ConnectBlock, OptionKind, Submission};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType};

use crate::lock::lock;
use crate::send_pool::Class;
use crate::session::SessionCore;
use crate::socket::{Options, Socket, SocketCore};

/// What to set on a connection before it is opened.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// The address and port to connect from; unspecified, or port 0, leaves it to the engine.
    pub local: Option<SocketAddr>,
    options: Options,
}

/// Why the engine does not open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// It is for the kernel to open, for the reason given.
    KernelsJob(&'static str),
    /// It cannot be opened at all.
    Failed(Errno),
}

impl From<Errno> for ConnectError {
    fn from(errno: Errno) -> Self {
        ConnectError::Failed(errno)
    }
}

impl ConnectOptions {
    /// Sets an option, as on a [`Socket`].
    ///
    /// # Errors
    /// `EINVAL`: the option cannot have that value.
    pub fn set_option(&mut self, option: OptionKind, value: u32) -> Result<(), Errno> {
        self.options.set(option, value).map(drop)
    }

    /// Sets the send buffer, as on a [`Socket`].
    pub fn set_send_buffer(&mut self, bytes: u64) {
        self.options.set_send_buffer(bytes);
    }

    /// Sets the low-water mark, as on a [`Socket`].
    pub fn set_receive_low(&mut self, bytes: u64) {
        self.options.set_receive_low(bytes);
    }
}

/// Begins to open a connection; see [`Session::connect`](crate::Session::connect).
pub(crate) fn connect(
    session: &Arc<SessionCore>,
    remote: SocketAddr,
    options: ConnectOptions,
) -> Result<Socket, ConnectError> {
    let source = source_address(remote, options.local)?;
    if source.ip() == remote.ip() || remote.ip().is_loopback() {
        return Err(ConnectError::KernelsJob("the address is of this machine"));
    }
    let Some(attachment) = session.attachment() else {
        return Err(ConnectError::KernelsJob("no engine is there"));
    };
    let mut block = ConnectBlock::new(remote);
    if let Some(local) = options.local {
        if local.is_ipv6() != remote.is_ipv6() {
            return Err(Errno::AFNOSUPPORT.into());
        }
        block.local = local;
    }
    options.options.fill(&mut block);
    let place = lock(&attachment.pool)
        .take(Class::Small)
        .ok_or(Errno::NOBUFS)?;
    let written = attachment.send.copy_in(place.addr, &block.encode());
    debug_assert!(written.is_ok() && place.len as usize >= CONNECT_BLOCK_LEN);

    let core = SocketCore::connecting(session, block.local, remote, options.options, place.addr);
    let token = attachment.know_connecting(Arc::clone(&core));
    attachment.post_surely(Submission::Connect {
        token,
        addr: place.addr,
    });
    Ok(Socket::new(core))
}

/// The address from which the kernel would send to `remote`: its routes are asked by connecting a
/// datagram socket, which sends nothing.
fn source_address(remote: SocketAddr, local: Option<SocketAddr>) -> Result<SocketAddr, Errno> {
    use rustix::net::AddressFamily;
    let family = if remote.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let probe = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    if let Some(local) = local.filter(|local| !local.ip().is_unspecified()) {
        // The port belongs to the connection, not to the probe.
        rustix::net::bind(&probe, &SocketAddr::new(local.ip(), 0))?;
    }
    rustix::net::connect(&probe, &remote)?;
    let source = rustix::net::getsockname(&probe)?;
    SocketAddr::try_from(source).map_err(|_| Errno::AFNOSUPPORT)
}
