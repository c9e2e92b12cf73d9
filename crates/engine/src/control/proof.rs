//! A listener is admitted only if the kernel's own listening socket is shown: so a process can ask
//! the engine for no port that it could not bind, and none of another network namespace.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use netdev::syscalls::{bound_interface, netns_cookie, socket_cookie};
use rustix::io::Errno;
use rustix::net::sockopt::{
    ipv6_v6only, socket_acceptconn, socket_domain, socket_protocol, socket_type,
};
use rustix::net::{AddressFamily, SocketType, getsockname, ipproto};

/// What a listening socket has proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// It is for IPv6 alone.
    pub v6_only: bool,
    /// Its cookie (SO_COOKIE): the proof holds for as long as this socket listens.
    pub cookie: u64,
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
    /// Of another network namespace.
    #[error("the socket that was shown is of another network namespace")]
    OtherNamespace,
    /// Bound to another interface (SO_BINDTODEVICE).
    #[error("the socket that was shown is bound to another interface")]
    OtherInterface,
}

impl Refusal {
    /// The errno to answer with.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Unusable(errno) => *errno,
            Self::NotTcp => Errno::PROTOTYPE,
            Self::NotListening | Self::OtherAddress { .. } => Errno::INVAL,
            Self::OtherNamespace => Errno::PERM,
            Self::OtherInterface => Errno::OPNOTSUPP,
        }
    }
}

/// Checks that `socket` listens on `wanted` in the network namespace with the cookie `namespace`, and
/// on the interface of this index, if not on all.
///
/// # Errors
/// Why it proves nothing.
pub fn prove_listener(
    socket: BorrowedFd<'_>,
    wanted: SocketAddr,
    namespace: u64,
    interface: u32,
) -> Result<Proof, Refusal> {
    let domain = socket_domain(socket)?;
    let tcp = socket_type(socket)? == SocketType::STREAM
        && matches!(domain, AddressFamily::INET | AddressFamily::INET6)
        && socket_protocol(socket)? == Some(ipproto::TCP);
    if !tcp {
        return Err(Refusal::NotTcp);
    }
    if !socket_acceptconn(socket)? {
        return Err(Refusal::NotListening);
    }
    let bound = SocketAddr::try_from(getsockname(socket)?).map_err(|_| Refusal::NotTcp)?;
    if (bound.ip(), bound.port()) != (wanted.ip(), wanted.port()) {
        return Err(Refusal::OtherAddress { bound, wanted });
    }
    let unusable = |error: std::io::Error| {
        Refusal::Unusable(Errno::from_io_error(&error).unwrap_or(Errno::NOPROTOOPT))
    };
    if netns_cookie(socket).map_err(unusable)? != namespace {
        return Err(Refusal::OtherNamespace);
    }
    let bound = bound_interface(socket).map_err(unusable)?;
    if bound != 0 && bound != interface {
        return Err(Refusal::OtherInterface);
    }
    let cookie = socket_cookie(socket).map_err(unusable)?;
    Ok(Proof {
        v6_only: domain == AddressFamily::INET6 && ipv6_v6only(socket)?,
        cookie,
    })
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
        let prove = |wanted, namespace| prove_listener(listener.as_fd(), wanted, namespace, 1);
        let cookie = socket_cookie(&listener).expect("a cookie");
        let proof = Proof {
            v6_only: false,
            cookie,
        };
        assert_eq!(prove(local, own_namespace()), Ok(proof));
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
    }

    #[test]
    fn an_address_of_this_machine_is_no_proof_of_another() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut other = listener.local_addr().expect("bound");
        other.set_ip("127.0.0.2".parse().expect("an address"));
        let proof = prove_listener(listener.as_fd(), other, own_namespace(), 1);
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
        let prove = |interface| prove_listener(listener.as_fd(), local, own_namespace(), interface);
        assert!(prove(1).is_ok());
        assert_eq!(prove(2), Err(Refusal::OtherInterface));
    }

    #[test]
    fn other_sockets_are_no_proof() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let local = listener.local_addr().expect("bound");
        let stream = TcpStream::connect(local).expect("connects");
        let own = stream.local_addr().expect("bound");
        assert_eq!(
            prove_listener(stream.as_fd(), own, own_namespace(), 1),
            Err(Refusal::NotListening)
        );
        let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        assert_eq!(
            prove_listener(udp.as_fd(), local, own_namespace(), 1),
            Err(Refusal::NotTcp)
        );
        let file = std::fs::File::open("/dev/null").expect("readable");
        assert_eq!(
            prove_listener(file.as_fd(), local, own_namespace(), 1),
            Err(Refusal::Unusable(Errno::NOTSOCK))
        );
    }
}
