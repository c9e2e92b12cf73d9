//! The steering program in the kernel's test run, with a receiver on queue 0.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use netdev::steering::{Endpoint, Reason, Share, Steering, Verdict};
use netdev::syscalls::socket_cookie;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::common::Frame;

#[allow(dead_code, reason = "not every test binary steers this")]
pub const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
#[allow(dead_code, reason = "not every test binary steers this")]
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
        }
    }

    /// A listening socket of the kernel's is shown.
    #[allow(dead_code, reason = "not every test binary has listeners")]
    pub fn show(&mut self, socket: impl AsFd) {
        let cookie = socket_cookie(socket).expect("a cookie");
        self.steering.show_socket(cookie).expect("room");
    }

    /// A socket of the kernel's listens on [`PORT`] of all addresses, in a network that is this thread's alone, and
    /// is shown.
    #[allow(dead_code, reason = "not every test binary shares endpoints")]
    pub fn listen(&mut self) {
        thread_local! {
            static LISTENER: TcpListener = {
                // SAFETY: that a network namespace is another one concerns no memory.
                let alone = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
                alone.expect("a private network");
                TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)).expect("free")
            };
        }
        LISTENER.with(|listener| self.show(listener));
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

    #[allow(dead_code, reason = "not every test binary steers this")]
    pub fn expect(&self, what: &str, frame: &Frame, verdict: Verdict, reason: Reason) {
        assert_eq!(self.run(&frame.build()), (verdict, reason), "{what}");
    }
}

/// A SYN to what is steered.
#[allow(dead_code, reason = "not every test binary steers this")]
pub fn v4() -> Frame {
    Frame::new(PEER, OURS, PORT)
}
