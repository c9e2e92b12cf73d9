//! Opening connections.
//!
//! The engine opens what leaves by its interface, and, if it is set to, what goes to a listener of its
//! own on this machine. Everything else is the kernel's: the program, or whoever stands in for it, then
//! connects a socket of the kernel's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use queue_pair::control::{Reply, Request};
use queue_pair::{CONNECT_BLOCK_LEN, ConnectBlock, FastOpen, Opening, OptionKind, Submission};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType};

use crate::attachment::RUNS_WITHIN;
use crate::lock::lock;
use crate::route::{self, Way};
use crate::send_pool::Class;
use crate::session::{Session, SessionCore};
use crate::socket::{Attachment, Options, Socket, SocketCore};

impl Session {
    /// Begins to open a connection and returns at once: the socket becomes writable when it is open,
    /// and has an error if it will not be.
    ///
    /// # Errors
    /// It is known now that the engine cannot open it.
    pub fn connect(
        &self,
        remote: std::net::SocketAddr,
        options: ConnectOptions,
    ) -> Result<Socket, ConnectError> {
        connect(self.core(), remote, options)
    }

    /// Whether the engine would be asked to open a connection to `remote`. It costs two questions to
    /// the kernel; the engine itself may still refuse.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect): the reason why not.
    pub fn can_offload(
        &self,
        remote: std::net::SocketAddr,
        options: &ConnectOptions,
    ) -> Result<(), ConnectError> {
        judge(self.core(), remote, options).map(drop)
    }
}

/// What to set on a connection before it is opened.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// The address and port to connect from; unspecified, or port 0, leaves it to the engine.
    pub local: Option<SocketAddr>,
    /// The kernel's socket that is bound to [`local`](Self::local), if there is one: the engine uses
    /// its port. Without it the engine asks the kernel for the port, which refuses if it is taken.
    pub bound: Option<Arc<OwnedFd>>,
    /// The index of the interface by which it must leave (`SO_BINDTOIFINDEX`), 0 for any.
    pub interface: u32,
    /// TCP Fast Open, where the engine is set to it and has it: its SYN may wait for the first data, and carry
    /// it, if the engine knows a cookie of the other end; [`Socket::await_syn`] says whether it does.
    pub fast_open: FastOpen,
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

/// Who would open a connection to `remote`: the engine, or else why it does not.
///
/// # Errors
/// It is the kernel's to open, or cannot be opened at all.
pub(crate) fn judge(
    session: &Arc<SessionCore>,
    remote: SocketAddr,
    options: &ConnectOptions,
) -> Result<Arc<Attachment>, ConnectError> {
    let remote = specified(remote, options.local);
    let mut here = remote.ip().is_loopback();
    let by = match route::to(remote, options.local, options.interface) {
        Ok(Way::Here) => {
            here = true;
            None
        }
        Ok(Way::By(interface)) => Some(interface),
        Err(errno @ (Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ACCESS)) => {
            return Err(errno.into());
        }
        Err(Errno::INVAL) => {
            return Err(ConnectError::KernelsJob(
                "the kernel has no such route from the address that it is bound to",
            ));
        }
        // The program may not ask: a sandbox. The source tells at least what stays here.
        Err(_) => {
            here = here || source_address(remote, options.local)?.ip() == remote.ip();
            None
        }
    };
    let attachment = session.attachment();
    if here {
        // A program that insists on an interface means the kernel's.
        let offloaded = options.interface == 0
            && attachment
                .as_ref()
                .is_some_and(|attachment| attachment.listens_here(remote));
        if !offloaded {
            return Err(ConnectError::KernelsJob(HERE));
        }
    }
    let Some(attachment) = attachment else {
        return Err(ConnectError::KernelsJob("no engine is there"));
    };
    attachment.catch_up();
    if attachment.is_unanswered() {
        return Err(ConnectError::KernelsJob("the engine does not run just now"));
    }
    if by.is_some_and(|by| attachment.interface != 0 && !attachment.interfaces().any(|it| it == by))
    {
        return Err(ConnectError::KernelsJob(
            "the way there is not by the engine's interface",
        ));
    }
    if options.interface != 0 && attachment.has_several_interfaces() {
        // Nor is there a connection of the engine's that keeps to one of them.
        return Err(ConnectError::KernelsJob(
            "it is bound to an interface, and the engine has several",
        ));
    }
    let names_port = options.local.is_some_and(|local| local.port() != 0);
    if let Some(reason) = not_opened(attachment.opening.get(), here, names_port) {
        return Err(ConnectError::KernelsJob(reason));
    }
    // One that is bound is shown to the engine, which answers whether it has the address.
    let own = options.local.filter(|_| options.bound.is_none() && !here);
    if let Some(own) = own.filter(|own| !own.ip().is_unspecified())
        && attachment.interface != 0
        && attachment
            .interfaces()
            .all(|it| route::has(it, own.ip().to_canonical()) == Ok(false))
    {
        return Err(ConnectError::KernelsJob(
            "the address that it is from is not one of the engine's interface",
        ));
    }
    Ok(attachment)
}

/// Begins to open a connection; see [`Session::connect`](crate::Session::connect).
pub(crate) fn connect(
    session: &Arc<SessionCore>,
    remote: SocketAddr,
    options: ConnectOptions,
) -> Result<Socket, ConnectError> {
    let attachment = judge(session, remote, &options)?;
    let remote = specified(remote, options.local);
    let mut block = ConnectBlock::new(remote);
    if let Some(local) = options.local {
        if local.is_ipv6() != remote.is_ipv6() {
            return Err(Errno::AFNOSUPPORT.into());
        }
        block.local = local;
        if let Some(bound) = &options.bound {
            lend(Instant::now, || show_bound(&attachment, local, bound))?;
        }
    }
    options.options.fill(&mut block);
    if attachment.speaks(options.fast_open.since()) {
        block.fast_open = options.fast_open;
    }
    let place = lock(&attachment.pool)
        .take(Class::Small)
        .ok_or(Errno::NOBUFS)?;
    let written = attachment.send.copy_in(place.addr, &block.encode());
    debug_assert!(written.is_ok() && place.len as usize >= CONNECT_BLOCK_LEN);

    let core = SocketCore::connecting(
        &session.nudges,
        block.local,
        remote,
        options.options,
        (&attachment, place.addr),
        block.fast_open == FastOpen::Hold,
    );
    let token = attachment.know_connecting(Arc::clone(&core));
    core.is_asked_for(&attachment, token);
    attachment.post_surely(Submission::Connect {
        token,
        addr: place.addr,
    });
    Ok(Socket::new(core, session))
}

/// Why what stays on this machine is the kernel's.
const HERE: &str = "the address is of this machine";

/// Why the engine opens no connection just now: one that stays on this machine, or from a port that the
/// program names, does not need all that others need.
fn not_opened(opening: Opening, here: bool, names_port: bool) -> Option<&'static str> {
    match opening {
        Opening::NoPorts if !names_port => Some(
            "the engine has too few ports for so many connections a second (limits.leased_ports)",
        ),
        Opening::UnservedQueue if !here => {
            Some("the engine does not serve every receive queue, and answers may come to any")
        }
        Opening::Stopping => Some("the engine is being stopped"),
        Opening::Enough => Some(
            "its user has as many connections as its share of what the engine has (limits.connections)",
        ),
        _ => None,
    }
}

/// Whom the kernel takes an unspecified address for: this machine, by the address that the program is
/// bound to, or by loopback.
fn specified(remote: SocketAddr, local: Option<SocketAddr>) -> SocketAddr {
    if !remote.ip().is_unspecified() {
        return remote;
    }
    let bound = local.map(|local| local.ip());
    let bound = bound.filter(|ip| !ip.is_unspecified() && ip.is_ipv4() == remote.is_ipv4());
    let loopback: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(bound.unwrap_or(loopback), remote.port())
}

/// How old what was lent may be when it is asked for: less than half of the time for which the engine keeps it.
const FRESH: Duration = Duration::from_secs(2);
/// How often it is lent, where the program stands still each time.
const LOANS: usize = 3;

/// Has `show` show the engine the socket that holds the port to connect from, and shows it again if that took so
/// long, because this program stood still, that the engine may have given it back.
fn lend(
    mut clock: impl FnMut() -> Instant,
    mut show: impl FnMut() -> Result<(), ConnectError>,
) -> Result<(), ConnectError> {
    for _ in 0..LOANS {
        let begin = clock();
        show()?;
        if clock().saturating_duration_since(begin) < FRESH {
            return Ok(());
        }
    }
    Err(ConnectError::KernelsJob(
        "the program stood still while it lent its port",
    ))
}

/// Shows the engine the socket that holds the port to connect from.
fn show_bound(
    attachment: &Attachment,
    local: SocketAddr,
    bound: &OwnedFd,
) -> Result<(), ConnectError> {
    let duplicate = rustix::io::fcntl_dupfd_cloexec(bound, 0)?;
    let request = Request::Bound { local };
    match attachment.request(&request, [duplicate].into_iter().collect(), RUNS_WITHIN) {
        Ok((Reply::Done, _)) => Ok(()),
        Err(Errno::TIMEDOUT) => Err(ConnectError::KernelsJob("the engine does not run just now")),
        Err(Errno::OPNOTSUPP) => Err(ConnectError::KernelsJob(
            "it is bound to an address that is not one of the engine's interface",
        )),
        Err(Errno::NOBUFS) => Err(ConnectError::KernelsJob(
            "the engine holds as many ports as its limit leased_ports allows",
        )),
        _ => Err(ConnectError::KernelsJob(
            "the engine does not take the port that it is bound to",
        )),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it is shown, by a program that stands still for so many seconds each time.
    fn shown(stalls: &[u64]) -> (usize, Result<(), ConnectError>) {
        let zero = Instant::now();
        let now = core::cell::Cell::new(zero);
        let mut stalls = stalls.iter();
        let mut shown = 0;
        let show = || {
            shown += 1;
            let stall = stalls.next().copied().unwrap_or(0);
            now.set(now.get() + Duration::from_secs(stall));
            Ok(())
        };
        let lent = lend(|| now.get(), show);
        (shown, lent)
    }

    #[test]
    fn a_program_that_stood_still_lends_its_port_again() {
        assert_eq!(shown(&[0]), (1, Ok(())));
        assert_eq!(shown(&[6]), (2, Ok(())));
        assert_eq!(shown(&[6, 60]), (3, Ok(())));
        let (times, lent) = shown(&[6, 6, 6, 0]);
        assert_eq!(times, LOANS);
        assert!(matches!(lent, Err(ConnectError::KernelsJob(_))), "{lent:?}");
        let refused = lend(Instant::now, || Err(Errno::BADF.into()));
        assert_eq!(refused, Err(ConnectError::Failed(Errno::BADF)));
    }
}
