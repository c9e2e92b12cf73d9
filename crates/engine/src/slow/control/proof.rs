//! A listener is admitted only if the kernel's own listening socket is shown, and a connection from
//! a port of the program's own choice if its bound socket is: so a process can ask the engine for no
//! port that it could not bind, and none of another network namespace.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use netdev::syscalls::{bound_interface, netns_cookie, socket_cookie, socket_option_bytes};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::sockopt::{
    ipv6_v6only, socket_acceptconn, socket_domain, socket_protocol, socket_type,
};
use rustix::net::{AddressFamily, SocketType, getsockname, ipproto};

/// The protocol's number.
const IPPROTO_TCP: i32 = 6;

/// What the kernel says of a socket of TCP's.
const TCP_INFO: i32 = 11;

/// What a listening socket has proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// It is for IPv6 alone.
    pub v6_only: bool,
    /// Its cookie (SO_COOKIE): the proof holds for as long as this socket listens.
    pub cookie: u64,
    /// The user whose it is: sockets of two users never listen at one place.
    pub owner: u32,
    /// What its program has set on it.
    pub chosen: Chosen,
}

/// What a program has set on a listening socket, as far as it matters from the SYN on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The largest segment (TCP_MAXSEG), in bytes.
    pub max_segment: Option<u16>,
    /// Connections that may be open by their SYN alone at a time (TCP_FASTOPEN); 0: none.
    pub fast_open: u32,
    /// How many times a SYN-ACK is to wait for more than an acknowledgement (TCP_DEFER_ACCEPT).
    pub defer_accept: u8,
    /// How many connections may wait to be accepted, as the kernel has it of the last listen(2). `None`: it has not said.
    pub backlog: Option<u32>,
}

/// Why a socket proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The kernel does not answer for it.
    #[error("the socket that was shown cannot be asked: {0}")]
    Unusable(#[from] Errno),
    /// Not a TCP socket.
    #[error("the socket that was shown is not a TCP socket")]
    NotTcp,
    /// It does not listen.
    #[error("the socket that was shown does not listen")]
    NotListening,
    /// Bound to something else.
    #[error("the socket that was shown is bound to {bound}, not to {wanted}")]
    OtherAddress {
        /// What it is bound to.
        bound: SocketAddr,
        /// What was asked for.
        wanted: SocketAddr,
    },
    /// It is connected, or being connected.
    #[error("the socket that was shown is the kernel's connection by now")]
    Connected,
    /// Of another network namespace.
    #[error("the socket that was shown is of another network namespace")]
    OtherNamespace,
    /// Bound to another interface (SO_BINDTODEVICE).
    #[error("the socket that was shown is bound to another interface")]
    OtherInterface,
    /// Bound to one of the engine's interfaces, which has several.
    #[error(
        "the socket that was shown is bound to one interface, and the engine has several: what comes to such a \
         socket is the kernel's"
    )]
    OneOfSeveral,
}

impl Refusal {
    /// The errno to answer with.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Unusable(errno) => *errno,
            Self::NotTcp => Errno::PROTOTYPE,
            Self::NotListening | Self::OtherAddress { .. } | Self::Connected => Errno::INVAL,
            Self::OtherNamespace => Errno::PERM,
            Self::OtherInterface => Errno::OPNOTSUPP,
            Self::OneOfSeveral => Errno::XDEV,
        }
    }
}

/// Checks that `socket` listens on `wanted` in the network namespace with the cookie `namespace`, and
/// on the only interface of the engine's, if not on all.
///
/// # Errors
/// Why it proves nothing.
pub fn prove_listener(
    socket: BorrowedFd<'_>,
    wanted: SocketAddr,
    namespace: u64,
    interfaces: &[u32],
) -> Result<Proof, Refusal> {
    let domain = tcp_domain(socket)?;
    if !socket_acceptconn(socket)? {
        return Err(Refusal::NotListening);
    }
    let bound = bound_to(socket)?;
    if (bound.ip(), bound.port()) != (wanted.ip(), wanted.port()) {
        return Err(Refusal::OtherAddress { bound, wanted });
    }
    check_network(socket, namespace, interfaces)?;
    Ok(Proof {
        v6_only: domain == AddressFamily::INET6 && ipv6_v6only(socket)?,
        cookie: socket_cookie(socket).map_err(unusable)?,
        owner: fstat(socket)?.st_uid,
        chosen: Chosen {
            max_segment: max_segment(socket),
            fast_open: fast_open(socket),
            defer_accept: defer_accept(socket),
            backlog: backlog(socket),
        },
    })
}

/// TCP_MAXSEG of a socket that is not connected, if it was set: RFC 9293 has 536 where it was not.
fn max_segment(socket: BorrowedFd<'_>) -> Option<u16> {
    const TCP_MAXSEG: i32 = 2;
    const NOT_SET: u32 = 536;
    let bytes = tcp_option(socket, TCP_MAXSEG).filter(|bytes| *bytes != NOT_SET)?;
    u16::try_from(bytes).ok()
}

/// TCP_FASTOPEN of a socket that listens.
fn fast_open(socket: BorrowedFd<'_>) -> u32 {
    const TCP_FASTOPEN: i32 = 23;
    tcp_option(socket, TCP_FASTOPEN).unwrap_or(0)
}

const TCP_DEFER_ACCEPT: i32 = 9;

/// TCP_DEFER_ACCEPT of a socket that listens. The kernel tells it in seconds, of which one goes by until the
/// first SYN-ACK is sent again, and twice as many each time after that, up to two minutes.
fn defer_accept(socket: BorrowedFd<'_>) -> u8 {
    let seconds = tcp_option(socket, TCP_DEFER_ACCEPT).unwrap_or(0);
    // 1, 3, 7, 15 and so on.
    (u32::BITS - seconds.leading_zeros()) as u8
}

/// The backlog of a socket that listens. The kernel tells it as what else is the number of segments that were
/// acknowledged selectively (TCP_INFO, tcpi_sacked). `None`: it listens no longer, or the kernel does not say.
fn backlog(socket: BorrowedFd<'_>) -> Option<u32> {
    const SACKED: usize = 28;
    const LISTEN: u8 = 10;
    let mut info = [0; SACKED + size_of::<u32>()];
    let length = socket_option_bytes(socket, IPPROTO_TCP, TCP_INFO, &mut info).ok()?;
    let backlog = info[..length].get(SACKED..)?.try_into().ok()?;
    // The first byte is the state.
    (info[0] == LISTEN).then(|| u32::from_ne_bytes(backlog))
}

/// An option of TCP that is a number and not negative.
fn tcp_option(socket: BorrowedFd<'_>, name: i32) -> Option<u32> {
    let mut value = [0; size_of::<i32>()];
    socket_option_bytes(socket, IPPROTO_TCP, name, &mut value).ok()?;
    u32::try_from(i32::from_ne_bytes(value)).ok()
}

/// Checks that `socket` is bound to `wanted` in the network namespace with the cookie `namespace`, and
/// to the only interface of the engine's, if to any. A socket of IPv6 is bound for IPv4 too: its address may
/// be the mapped one, or unspecified.
///
/// # Errors
/// Why it proves nothing.
pub fn prove_bound(
    socket: BorrowedFd<'_>,
    wanted: SocketAddr,
    namespace: u64,
    interfaces: &[u32],
) -> Result<(), Refusal> {
    let domain = tcp_domain(socket)?;
    let bound = bound_to(socket)?;
    let both = domain == AddressFamily::INET6 && !ipv6_v6only(socket)?;
    let same = bound.ip().to_canonical() == wanted.ip();
    let any = bound.ip().is_unspecified()
        && wanted.ip().is_unspecified()
        && (both || bound.is_ipv4() == wanted.is_ipv4());
    if !(same || any) || bound.port() != wanted.port() {
        return Err(Refusal::OtherAddress { bound, wanted });
    }
    if !is_unconnected(socket) {
        return Err(Refusal::Connected);
    }
    check_network(socket, namespace, interfaces)
}

/// Whether nobody has begun to connect it. A program that waited for the engine in vain has the kernel
/// connect the socket that it has shown.
fn is_unconnected(socket: BorrowedFd<'_>) -> bool {
    // The first byte of TCP_INFO is the state; 7 is TCP_CLOSE.
    let mut state = [0];
    socket_option_bytes(socket, IPPROTO_TCP, TCP_INFO, &mut state).is_ok() && state == [7]
}

fn tcp_domain(socket: BorrowedFd<'_>) -> Result<AddressFamily, Refusal> {
    let domain = socket_domain(socket)?;
    let tcp = socket_type(socket)? == SocketType::STREAM
        && matches!(domain, AddressFamily::INET | AddressFamily::INET6)
        && socket_protocol(socket)? == Some(ipproto::TCP);
    if tcp {
        Ok(domain)
    } else {
        Err(Refusal::NotTcp)
    }
}

fn bound_to(socket: BorrowedFd<'_>) -> Result<SocketAddr, Refusal> {
    SocketAddr::try_from(getsockname(socket)?).map_err(|_| Refusal::NotTcp)
}

fn check_network(
    socket: BorrowedFd<'_>,
    namespace: u64,
    interfaces: &[u32],
) -> Result<(), Refusal> {
    if netns_cookie(socket).map_err(unusable)? != namespace {
        return Err(Refusal::OtherNamespace);
    }
    let bound = bound_interface(socket).map_err(unusable)?;
    match interfaces {
        all if listens_on_all_of(all, bound) => Ok(()),
        several if several.contains(&bound) => Err(Refusal::OneOfSeveral),
        _ => Err(Refusal::OtherInterface),
    }
}

/// Whether a socket that is `bound` to an interface, or to none if that is 0, gets what comes to any of these.
pub fn listens_on_all_of(interfaces: &[u32], bound: u32) -> bool {
    bound == 0 || interfaces == [bound]
}

fn unusable(error: std::io::Error) -> Refusal {
    Refusal::Unusable(Errno::from_io_error(&error).unwrap_or(Errno::NOPROTOOPT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    fn own_namespace() -> u64 {
        netns_cookie(UdpSocket::bind("127.0.0.1:0").expect("loopback")).expect("a cookie")
    }

    #[test]
    fn a_listening_socket_is_proof_of_its_own_address_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let local = listener.local_addr().expect("bound");
        let prove = |wanted, namespace| prove_listener(listener.as_fd(), wanted, namespace, &[1]);
        let cookie = socket_cookie(&listener).expect("a cookie");
        let proof = Proof {
            v6_only: false,
            cookie,
            owner: rustix::process::geteuid().as_raw(),
            chosen: Chosen {
                backlog: Some(5),
                ..Chosen::default()
            },
        };
        rustix::net::listen(&listener, 5).expect("it listens");
        assert_eq!(prove(local, own_namespace()), Ok(proof));
        assert_eq!(backlog(listener.as_fd()), Some(5));
        let mut other = local;
        other.set_port(local.port() ^ 1);
        assert!(matches!(
            prove(other, own_namespace()),
            Err(Refusal::OtherAddress { .. })
        ));
        assert_eq!(
            prove(local, own_namespace() + 1),
            Err(Refusal::OtherNamespace)
        );
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both)
            .expect("it listens no longer");
        assert_eq!(backlog(listener.as_fd()), None);
    }

    #[test]
    fn seconds_of_deferral_are_counted_in_syn_acks() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        for (seconds, times) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 2),
            (4, 3),
            (31, 5),
            (100_000, 6),
        ] {
            let value = i32::to_ne_bytes(seconds);
            netdev::syscalls::set_socket_option_bytes(
                &listener,
                IPPROTO_TCP,
                TCP_DEFER_ACCEPT,
                &value,
            )
            .expect("TCP_DEFER_ACCEPT");
            let counted = defer_accept(listener.as_fd());
            assert_eq!(counted.min(6), times, "{seconds}");
        }
    }

    #[test]
    fn an_address_of_this_machine_is_no_proof_of_another() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut other = listener.local_addr().expect("bound");
        other.set_ip("127.0.0.2".parse().expect("an address"));
        let proof = prove_listener(listener.as_fd(), other, own_namespace(), &[1]);
        assert!(
            matches!(proof, Err(Refusal::OtherAddress { .. })),
            "{proof:?}"
        );
    }

    #[test]
    fn a_socket_of_another_interface_is_no_proof() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let local = listener.local_addr().expect("bound");
        // Every namespace has a loopback, with this number; binding to it takes no privilege.
        let index = 1i32.to_ne_bytes();
        let (socket, option) = (1, 62);
        netdev::syscalls::set_socket_option_bytes(&listener, socket, option, &index)
            .expect("SO_BINDTOIFINDEX");
        let prove = |interfaces: &[u32]| {
            prove_listener(listener.as_fd(), local, own_namespace(), interfaces)
        };
        assert!(prove(&[1]).is_ok());
        assert_eq!(prove(&[2]), Err(Refusal::OtherInterface));
        assert_eq!(prove(&[2, 3]), Err(Refusal::OtherInterface));
        assert_eq!(prove(&[2, 1]), Err(Refusal::OneOfSeveral));
    }

    #[test]
    fn a_bound_socket_is_proof_of_its_own_port_alone() {
        let bind = |address: &str, v6_only| {
            let address: SocketAddr = address.parse().expect("an address");
            let family = if address.is_ipv6() {
                AddressFamily::INET6
            } else {
                AddressFamily::INET
            };
            let socket = rustix::net::socket(family, SocketType::STREAM, None).expect("a socket");
            if address.is_ipv6() {
                rustix::net::sockopt::set_ipv6_v6only(&socket, v6_only).expect("it is IPv6");
            }
            rustix::net::bind(&socket, &address).expect("the kernel has ports");
            let port = bound_to(socket.as_fd()).expect("bound").port();
            (socket, port)
        };
        let proves = |socket: &std::os::fd::OwnedFd, ip: &str, port| {
            let wanted = SocketAddr::new(ip.parse().expect("an address"), port);
            prove_bound(socket.as_fd(), wanted, own_namespace(), &[1]).is_ok()
        };
        let (v4, port) = bind("127.0.0.1:0", false);
        assert!(proves(&v4, "127.0.0.1", port));
        assert!(!proves(&v4, "127.0.0.2", port));
        assert!(!proves(&v4, "0.0.0.0", port));
        assert!(!proves(&v4, "127.0.0.1", port ^ 1));
        let (mapped, port) = bind("[::ffff:127.0.0.1]:0", false);
        assert!(proves(&mapped, "127.0.0.1", port));
        let (any, port) = bind("[::]:0", false);
        assert!(proves(&any, "0.0.0.0", port) && proves(&any, "::", port));
        let (only, port) = bind("[::]:0", true);
        assert!(!proves(&only, "0.0.0.0", port) && proves(&only, "::", port));
    }

    #[test]
    fn a_socket_that_the_kernel_connects_is_no_proof() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let own = stream.local_addr().expect("bound");
        let proof = prove_bound(stream.as_fd(), own, own_namespace(), &[1]);
        assert_eq!(proof, Err(Refusal::Connected));
    }

    #[test]
    fn other_sockets_are_no_proof() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let local = listener.local_addr().expect("bound");
        let stream = TcpStream::connect(local).expect("connects");
        let own = stream.local_addr().expect("bound");
        assert_eq!(
            prove_listener(stream.as_fd(), own, own_namespace(), &[1]),
            Err(Refusal::NotListening)
        );
        let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        assert_eq!(
            prove_listener(udp.as_fd(), local, own_namespace(), &[1]),
            Err(Refusal::NotTcp)
        );
        let file = std::fs::File::open("/dev/null").expect("readable");
        assert_eq!(
            prove_listener(file.as_fd(), local, own_namespace(), &[1]),
            Err(Refusal::Unusable(Errno::NOTSOCK))
        );
    }
}
