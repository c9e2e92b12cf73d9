//! The steering program against frames that a script of bytes has bent: whatever arrives, the
//! program ends, counts one reason, and agrees with the engine's own reader on what is the engine's.
//! Run by a test with random scripts and the committed corpus, and by the fuzz target `steering`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use netdev::steering::{Endpoint, Share, Steering, Verdict};
use wire::segment::{self, ChecksumPolicy};

use super::common::{ACK, Frame};

const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const OURS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const PORT: u16 = 80;
/// The loopback's index in every namespace.
const LOOPBACK: u32 = 1;
/// What the kernel runs a program on at least: an Ethernet header.
const LEAST: usize = 14;

/// The program, steering port 80 of an address of each family.
pub struct Program {
    steering: Steering,
    _socket: OwnedFd,
}

impl Program {
    pub fn load() -> Program {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
        const XDP: AddressFamily = AddressFamily::from_raw(44);
        let socket = socket_with(XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
        let socket = socket.expect("an AF_XDP socket, bound to nothing");
        let mut steering = Steering::load().expect("the program loads");
        steering.connect_queue(0, &socket).expect("connect");
        for address in [IpAddr::V4(OURS), IpAddr::V6(OURS6)] {
            let endpoint = Endpoint::new(address, PORT);
            steering.add_port(endpoint, Share::All).expect("add_port");
        }
        Program {
            steering,
            _socket: socket,
        }
    }

    /// Runs the frame that a script describes.
    pub fn run(&self, script: &[u8]) {
        let frame = bent(script);
        let before = self.steering.counts().expect("counts");
        let verdict = self
            .steering
            .test_run(&frame, LOOPBACK, 0)
            .expect("test run");
        let counted = self.steering.counts().expect("counts").since(&before);
        let count: u64 = counted.iter().map(|(_, count)| count).sum();
        assert_eq!(count, 1, "reasons counted for {frame:02x?}");
        // A tag that names a network makes another endpoint of the same address.
        if let Ok(segment) = segment::parse(&frame, ChecksumPolicy::Ignore)
            && segment.link.vlan == Default::default()
        {
            let address = segment.dst == IpAddr::V4(OURS) || segment.dst == IpAddr::V6(OURS6);
            let ours = address && segment.tcp.dst_port == PORT;
            // What was sent to a group of stations is no business of TCP.
            let group = frame[0] & 1 == 1;
            let redirected = verdict == Verdict::Redirect;
            assert_eq!(redirected, ours && !group, "{verdict:?} of {frame:02x?}");
        }
    }
}

/// A good frame, with some of its bytes changed and its end cut off.
fn bent(script: &[u8]) -> Vec<u8> {
    let (&kind, script) = script.split_first().unwrap_or((&0, &[]));
    let v4 = || Frame::new(PEER, OURS, PORT);
    let v6 = || Frame::new(PEER6, OURS6, PORT);
    let options = |next: u8| (next, vec![0, 1, 4, 0, 0, 0, 0]);
    let mut frame = match kind & 0x0f {
        0 | 1 => v4().build(),
        2 | 3 => v6().build(),
        4 => v4().with(|f| f.ip_options = vec![1; 8]).build(),
        5 => v6().with(|f| f.extensions = vec![options(0)]).build(),
        6 => v6()
            .with(|f| f.extensions = vec![options(0), options(60)])
            .build(),
        7 => v4().with(|f| f.tags = vec![(0x8100, 0)]).build(),
        8 => v6()
            .with(|f| f.tags = vec![(0x88a8, 0), (0x8100, 0)])
            .build(),
        9 => v4().with(|f| f.tags = vec![(0x8100, 5)]).build(),
        10 => v4()
            .with(|f| (f.tcp_flags, f.payload) = (ACK, vec![7; 100]))
            .build(),
        11 => v4().with(|f| f.fragment = 0x2000).build(),
        12 => Frame::new(OURS, PEER, 40_000)
            .with(|f| f.src_port = PORT)
            .icmp_error(PEER, 3, 4, 1_400)
            .build(),
        13 => Frame::new(OURS6, PEER6, 40_000)
            .with(|f| f.src_port = PORT)
            .icmp_error(PEER6, 2, 0, 1_400)
            .build(),
        // Anything at all.
        _ => script.to_vec(),
    };
    if kind & 0x0f < 14 {
        for change in script.chunks_exact(2) {
            let at = usize::from(change[0]) % frame.len();
            frame[at] = change[1];
        }
        if kind & 0x80 != 0 {
            frame.truncate(LEAST.max(usize::from(kind & 0x70) + script.len() % 16));
        }
    }
    frame.resize(frame.len().max(LEAST), 0);
    frame
}
