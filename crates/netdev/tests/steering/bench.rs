//! The steering program in the kernel's test run, with a receiver on queue 0.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use netdev::steering::{Endpoint, Reason, Share, Steering, Verdict};

use crate::common::Frame;

pub const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub const PORT: u16 = 80;

/// The loopback's index in every namespace.
const LOOPBACK: u32 = 1;

/// An AF_XDP socket that is bound to nothing: enough of a receiver for a test run.
pub fn unbound_socket() -> OwnedFd {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    const XDP: AddressFamily = AddressFamily::from_raw(44);
    socket_with(XDP, SocketType::RAW, SocketFlags::CLOEXEC, None).expect("AF_XDP socket")
}

/// A program with a receiver on queue 0.
pub struct Bench {
    pub steering: Steering,
    _socket: OwnedFd,
    /// The kernel's socket, where one listens.
    listener: Option<OwnedFd>,
}

impl Bench {
    /// One that steers [`PORT`] of these addresses.
    pub fn of(addresses: &[IpAddr]) -> Self {
        let mut bench = Self::with(Steering::load().expect("the program loads"));
        for address in addresses {
            bench
                .steering
                .add_port(Endpoint::new(*address, PORT), Share::All)
                .expect("add_port");
        }
        bench
    }

    /// One that steers nothing, and remembers so many connections.
    #[allow(dead_code, reason = "not every test binary shares endpoints")]
    pub fn remembering(flows: u32) -> Self {
        Self::with(Steering::load_remembering(flows).expect("the program loads"))
    }

    fn with(mut steering: Steering) -> Self {
        let socket = unbound_socket();
        steering.connect_queue(0, &socket).expect("connect");
        Self {
            steering,
            _socket: socket,
            listener: None,
        }
    }

    /// A socket of the kernel's listens on [`PORT`] of all addresses, beside those of other tests.
    #[allow(dead_code, reason = "not every test binary shares endpoints")]
    pub fn listen(&mut self) {
        use rustix::net::{AddressFamily, SocketType, sockopt};
        let socket = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, None);
        let socket = socket.expect("socket");
        sockopt::set_socket_reuseport(&socket, true).expect("reuseport");
        sockopt::set_ipv6_v6only(&socket, false).expect("both");
        // Where another program has the port, that one listens.
        let bound = rustix::net::bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)));
        if bound.and_then(|()| rustix::net::listen(&socket, 1)).is_ok() {
            self.listener = Some(socket);
        }
    }

    /// Runs one frame; the verdict, and the one reason that was counted.
    pub fn run(&self, frame: &[u8]) -> (Verdict, Reason) {
        let before = self.steering.counts().expect("counts");
        let verdict = self
            .steering
            .test_run(frame, LOOPBACK, 0)
            .expect("test run");
        let counted = self.steering.counts().expect("counts").since(&before);
        let reasons: Vec<_> = counted.iter().filter(|(_, count)| *count != 0).collect();
        let [(reason, 1)] = reasons[..] else {
            panic!("counted {reasons:?} for one frame");
        };
        (verdict, reason)
    }

    pub fn expect(&self, what: &str, frame: &Frame, verdict: Verdict, reason: Reason) {
        assert_eq!(self.run(&frame.build()), (verdict, reason), "{what}");
    }
}

/// A SYN to what is steered.
pub fn v4() -> Frame {
    Frame::new(PEER, OURS, PORT)
}
