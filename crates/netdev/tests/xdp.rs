//! AF_XDP and large sends over a veth pair, with the kernel at the other end.

mod common;

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU8;
use std::time::{Duration, Instant};

use common::{ACK, Frame, SYN};
use lab::{Side, World};
use netdev::interface::{Interface, XdpMode};
use netdev::steering::{Endpoint, Placement, Reason, Share, Steering, SteeringError};
use netdev::xdp::{Bind, Config, OpenError};
use netdev::{Device, LargeSend, Limits, Offloads, PartialChecksum, SendError, XdpDevice};
use rustix::event::{Timespec, poll};
use wire::checksum::{Sum, pseudo_header};

const PORT: u16 = 8080;
/// After so long it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test in the server's network, on a thread that ends with it.
fn in_world(test: impl FnOnce(&World) + Send) {
    let world = World::new().expect("a private network");
    std::thread::scope(|scope| {
        let world = &world;
        let outcome = scope.spawn(move || {
            world.enter(Side::Server).expect("enter");
            test(world);
        });
        if let Err(panic) = outcome.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs `client` in the client's network while `server` runs here.
fn beside<T: Send>(world: &World, client: impl FnOnce() -> T + Send, server: impl FnOnce()) -> T {
    std::thread::scope(|scope| {
        let client = scope.spawn(move || {
            world.enter(Side::Client).expect("enter");
            client()
        });
        server();
        match client.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn server_interface() -> Interface {
    Interface::find(Side::Server.interface()).expect("interface")
}

/// A steered device on the server's interface.
fn open(config: Config) -> (XdpDevice, Steering) {
    let interface = server_interface();
    let device = XdpDevice::open(&interface, config).expect("device");
    let mut steering = Steering::attach(&interface, Placement::Native).expect("steering");
    steering.connect_queue(0, &device).expect("connect");
    for address in addresses(Side::Server) {
        let endpoint = Endpoint::new(address, PORT);
        steering.add_port(endpoint, Share::All).expect("add_port");
    }
    (device, steering)
}

fn addresses(side: Side) -> [IpAddr; 2] {
    [side.ipv4().into(), side.ipv6().into()]
}

/// Receives until `done` says so of a frame, sleeping in poll between.
fn receive_until(device: &mut XdpDevice, mut done: impl FnMut(&[u8]) -> bool) {
    let deadline = Instant::now() + LIMIT;
    let mut finished = false;
    while !finished {
        assert!(Instant::now() < deadline, "nothing came");
        if device.receive(64, |frame| finished |= done(frame)) == 0 {
            let mut set = Vec::new();
            device.poll_fds(&mut set);
            let second = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            poll(&mut set, Some(&second)).expect("poll");
        }
    }
}

fn u16_at(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

fn u32_at(frame: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|index| frame[at + index]))
}

/// Where the TCP header of an untagged frame begins.
fn tcp_start(frame: &[u8]) -> usize {
    if u16_at(frame, 12) == 0x0800 { 34 } else { 54 }
}

#[test]
fn a_steered_port_arrives_and_the_others_stay_the_kernels() {
    if lab::skip_without_root("a_steered_port_arrives_and_the_others_stay_the_kernels") {
        return;
    }
    in_world(|world| {
        let (mut device, steering) = open(Config::default());
        assert_eq!(steering.mode(), Some(XdpMode::Native));
        for address in addresses(Side::Server) {
            let kernel = TcpListener::bind((address, 0)).expect("listen");
            let kernel_address = kernel.local_addr().expect("address");
            beside(
                world,
                || {
                    // Nobody answers the steered port: what counts is that its SYN arrives.
                    let steered = SocketAddr::new(address, PORT);
                    let refused = TcpStream::connect_timeout(&steered, Duration::from_millis(50));
                    assert!(refused.is_err());
                    TcpStream::connect_timeout(&kernel_address, LIMIT).expect("kernel's port");
                },
                || {
                    receive_until(&mut device, |frame| {
                        let tcp = tcp_start(frame);
                        assert_eq!(u16_at(frame, tcp + 2), PORT);
                        frame[tcp + 13] == SYN && (tcp == 34) == address.is_ipv4()
                    });
                },
            );
        }
        let counts = steering.counts().expect("counts");
        assert!(counts.get(Reason::Engine) >= 2);
        assert!(counts.get(Reason::NotSteered) >= 4);
        // A SYN that was sent again may still be in the ring.
        while device.receive(64, |_| ()) > 0 {}
        let counters = device.counters();
        assert_eq!(counters.received_frames, counts.get(Reason::Engine));
        assert_eq!(counters.receive_dropped_ring_full, 0);
    });
}

/// A SYN-ACK by us, data by us, in answer to the kernel's connect.
fn handshake(device: &mut XdpDevice) -> Frame {
    let mut answer = None;
    receive_until(device, |frame| {
        let tcp = tcp_start(frame);
        if frame[tcp + 13] != SYN {
            return false;
        }
        let (src, dst): (IpAddr, IpAddr) = if tcp == 34 {
            let at = |at: usize| -> [u8; 4] { std::array::from_fn(|index| frame[at + index]) };
            (at(26).into(), at(30).into())
        } else {
            let at = |at: usize| -> [u8; 16] { std::array::from_fn(|index| frame[at + index]) };
            (at(22).into(), at(38).into())
        };
        let mut reply = Frame::new(dst, src, u16_at(frame, tcp));
        reply.dst_mac.copy_from_slice(&frame[6..12]);
        reply.src_mac.copy_from_slice(&frame[0..6]);
        reply.src_port = u16_at(frame, tcp + 2);
        reply.tcp_flags = SYN | ACK;
        reply.ack = u32_at(frame, tcp + 4).wrapping_add(1);
        reply.seq = 1000;
        answer = Some(reply);
        true
    });
    answer.expect("receive_until saw a SYN")
}

fn transmit(device: &mut XdpDevice, bytes: &[u8], checksum: Option<PartialChecksum>) {
    let frame = device.frame().expect("a free frame");
    frame[..bytes.len()].copy_from_slice(bytes);
    device.submit(bytes.len(), checksum);
}

/// Turns a finished checksum into the sum of the pseudo-header that covers `payload` more bytes.
fn leave_checksum_to_device(frame: &mut [u8], payload: usize) -> PartialChecksum {
    let tcp = tcp_start(frame);
    let address = |at: usize| -> IpAddr {
        if tcp == 34 {
            let bytes: [u8; 4] = std::array::from_fn(|index| frame[at + index]);
            bytes.into()
        } else {
            let bytes: [u8; 16] = std::array::from_fn(|index| frame[at + index]);
            bytes.into()
        }
    };
    let (src, dst) = if tcp == 34 {
        (address(26), address(30))
    } else {
        (address(22), address(38))
    };
    let length = frame.len() - tcp + payload;
    let pseudo = pseudo_header(src, dst, 6, length).expect("one family");
    frame[tcp + 16..tcp + 18].copy_from_slice(&pseudo.fold().to_be_bytes());
    PartialChecksum::tcp(tcp as u16)
}

/// Announces `payload` more bytes in the IP header.
fn lengthen(frame: &mut [u8], payload: usize) {
    if tcp_start(frame) == 34 {
        let total = (frame.len() - 14 + payload) as u16;
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        frame[24..26].fill(0);
        let sum = Sum::of(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        let length = (frame.len() - 54 + payload) as u16;
        frame[18..20].copy_from_slice(&length.to_be_bytes());
    }
}

/// Bytes that show it when pieces are swapped.
fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

/// The client reads `total` bytes of the steered port; the server sends them with `send`.
fn kernel_reads(
    world: &World,
    address: IpAddr,
    total: usize,
    device: &mut XdpDevice,
    send: impl FnOnce(&mut XdpDevice, Frame),
) {
    let received = beside(
        world,
        || {
            let server = SocketAddr::new(address, PORT);
            let mut stream = TcpStream::connect_timeout(&server, LIMIT).expect("connect");
            stream.set_read_timeout(Some(LIMIT)).expect("timeout");
            let mut received = vec![0; total];
            stream.read_exact(&mut received).expect("read");
            received
        },
        || {
            let mut frame = handshake(device);
            transmit(device, &frame.build(), None);
            assert_eq!(device.flush(), 0);
            receive_until(device, |frame| frame[tcp_start(frame) + 13] & ACK != 0);
            frame.tcp_flags = ACK;
            frame.seq += 1;
            send(device, frame);
        },
    );
    assert!(received == pattern(total), "the data is not what was sent");
}

#[test]
fn small_sends_arrive_with_both_kinds_of_checksum() {
    if lab::skip_without_root("small_sends_arrive_with_both_kinds_of_checksum") {
        return;
    }
    in_world(|world| {
        let (mut device, _steering) = open(Config::default());
        assert!(device.offloads().transmit_checksum);
        // More frames than one system call moves.
        const FRAMES: usize = 100;
        for address in addresses(Side::Server) {
            for offloaded in [false, true] {
                let data = pattern(FRAMES * 100);
                kernel_reads(world, address, data.len(), &mut device, |device, frame| {
                    for (index, chunk) in data.chunks(100).enumerate() {
                        let mut segment = frame
                            .clone()
                            .with(|frame| {
                                frame.seq += (index * 100) as u32;
                                frame.payload = chunk.to_vec();
                            })
                            .build();
                        let checksum = offloaded.then(|| leave_checksum_to_device(&mut segment, 0));
                        transmit(device, &segment, checksum);
                    }
                    assert_eq!(device.flush(), 0);
                });
            }
        }
        let counters = device.counters();
        assert_eq!(counters.sent_frames, 4 * (FRAMES as u64 + 1));
        assert_eq!(counters.send_invalid_descriptors, 0);
    });
}

#[test]
fn a_large_send_arrives_whole() {
    if lab::skip_without_root("a_large_send_arrives_whole") {
        return;
    }
    in_world(|world| {
        let (mut device, _steering) = open(Config::default());
        // Not a multiple of the segment size, in pieces of odd sizes, beside a small send before.
        const FIRST: usize = 33;
        const LARGE: usize = 60_001;
        for address in addresses(Side::Server) {
            let data = pattern(FIRST + LARGE);
            kernel_reads(world, address, data.len(), &mut device, |device, frame| {
                let first = frame.clone().with(|f| f.payload = data[..FIRST].to_vec());
                transmit(device, &first.build(), None);
                let shared: Vec<AtomicU8> =
                    data[FIRST..].iter().copied().map(AtomicU8::new).collect();
                let pieces: Vec<&[AtomicU8]> = shared.chunks(7_777).collect();
                let mut header = frame.with(|frame| frame.seq += FIRST as u32).build();
                lengthen(&mut header, LARGE);
                let how = LargeSend {
                    segment_size: 1400,
                    ipv6: address.is_ipv6(),
                    checksum: leave_checksum_to_device(&mut header, LARGE),
                };
                device.send_large(&header, &pieces, how).expect("send");
            });
        }
        let counters = device.counters();
        assert_eq!(counters.large_sends, 2);
        assert_eq!(counters.large_bytes, 2 * LARGE as u64);
    });
}

#[test]
fn a_large_send_beyond_the_limits_is_refused() {
    if lab::skip_without_root("a_large_send_beyond_the_limits_is_refused") {
        return;
    }
    in_world(|_| {
        let (mut device, _steering) = open(Config::default());
        let Limits { large, pieces, .. } = device.limits();
        let header = Frame::new(Side::Server.ipv4(), Side::Client.ipv4(), 1).build();
        let how = LargeSend {
            segment_size: 1400,
            ipv6: false,
            checksum: PartialChecksum::tcp(34),
        };
        let byte = [const { AtomicU8::new(0) }];
        let many: Vec<&[AtomicU8]> = vec![&byte; pieces + 1];
        assert_eq!(
            device.send_large(&header, &many, how),
            Err(SendError::TooLarge)
        );
        let long: Vec<AtomicU8> = (0..large - 39).map(|_| AtomicU8::new(0)).collect();
        assert_eq!(
            device.send_large(&header, &[&long], how),
            Err(SendError::TooLarge)
        );
        device.set_offloads(Offloads::NONE);
        assert_eq!(
            device.send_large(&header, &[&byte], how),
            Err(SendError::Unsupported)
        );
        assert_eq!(device.offloads(), Offloads::NONE);
    });
}

/// MTU 9000: frames arrive in several buffers, and leave in several.
#[test]
fn jumbo_frames_are_put_together_and_taken_apart() {
    if lab::skip_without_root("jumbo_frames_are_put_together_and_taken_apart") {
        return;
    }
    in_world(|world| {
        for side in [Side::Server, Side::Client] {
            let name = world.name(side);
            let interface = side.interface();
            lab::tool::run(&format!("ip -n {name} link set {interface} mtu 9000"))
                .expect("ip link set mtu");
        }
        let (mut device, _steering) = open(Config {
            receive_frames: 64,
            transmit_frames: 8,
            ..Config::default()
        });
        assert!(device.offloads().scatter_gather);
        let sizes = [1000, 3000, 3900, 4096, 5000, 8900];
        let total: usize = sizes.iter().sum();
        let server = Side::Server.ipv4();
        // Out: in order of the sizes. The segments are within the peer's MSS of 8960.
        kernel_reads(world, server.into(), total, &mut device, |device, frame| {
            let data = pattern(total);
            let mut sent = 0;
            for size in sizes {
                let segment = frame.clone().with(|frame| {
                    frame.seq += sent as u32;
                    frame.payload = data[sent..sent + size].to_vec();
                });
                transmit(device, &segment.build(), None);
                sent += size;
            }
            assert_eq!(device.flush(), 0);
        });
        // In: the same sizes by a raw socket of the client's, many times, so that every buffer
        // goes round.
        const ROUNDS: usize = 50;
        let server_mac = server_interface().mac;
        let (mut frames, mut bytes) = (0, 0);
        // A round fits the ring; the next one waits for it, so that none is lost.
        let (seen, next) = std::sync::mpsc::channel();
        beside(
            world,
            move || {
                let interface = Interface::find(Side::Client.interface()).expect("interface");
                let socket = netdev::packet::RawSocket::open(&interface).expect("raw socket");
                for _ in 0..ROUNDS {
                    for size in sizes {
                        let frame = Frame::new(Side::Client.ipv4(), server, PORT)
                            .with(|frame| {
                                frame.dst_mac = server_mac;
                                frame.payload = pattern(size);
                            })
                            .build();
                        socket.send(&frame).expect("send");
                    }
                    next.recv().expect("the receiver is there");
                }
            },
            || {
                receive_until(&mut device, |frame| {
                    if u16_at(frame, 34) == 40_000 {
                        let payload = &frame[54..];
                        assert!(payload == pattern(payload.len()), "{}", payload.len());
                        frames += 1;
                        bytes += payload.len();
                        if frames % sizes.len() == 0 {
                            seen.send(()).expect("the sender is there");
                        }
                    }
                    frames == ROUNDS * sizes.len()
                });
            },
        );
        assert_eq!(bytes, ROUNDS * total);
        let counters = device.counters();
        assert!(counters.received_multi_buffer >= (ROUNDS * 3) as u64);
        assert_eq!(counters.receive_dropped_oversize, 0);
    });
}

/// A peer sends what the limit lets it: without scatter-gather all of that has to fit one buffer.
#[test]
fn without_scatter_gather_the_limit_is_what_one_buffer_takes() {
    if lab::skip_without_root("without_scatter_gather_the_limit_is_what_one_buffer_takes") {
        return;
    }
    in_world(|world| {
        for side in [Side::Server, Side::Client] {
            let (name, interface) = (world.name(side), side.interface());
            lab::tool::run(&format!("ip -n {name} link set {interface} mtu 9000"))
                .expect("ip link set mtu");
        }
        let (mut device, _steering) = open(Config {
            offloads: Offloads {
                scatter_gather: false,
                ..Offloads::ALL
            },
            ..Config::default()
        });
        let mtu = device.limits().mtu;
        assert!((1_500..4_096).contains(&mtu), "{mtu}");
        // Headers of IP and TCP without options.
        let payload = mtu - 40;
        let server_mac = server_interface().mac;
        beside(
            world,
            move || {
                let interface = Interface::find(Side::Client.interface()).expect("interface");
                let socket = netdev::packet::RawSocket::open(&interface).expect("raw socket");
                let frame = Frame::new(Side::Client.ipv4(), Side::Server.ipv4(), PORT)
                    .with(|frame| {
                        frame.dst_mac = server_mac;
                        frame.payload = pattern(payload);
                    })
                    .build();
                socket.send(&frame).expect("send");
            },
            || receive_until(&mut device, |frame| frame.len() == 54 + payload),
        );
        assert_eq!(device.counters().receive_dropped_oversize, 0);
        device.set_offloads(Offloads::ALL);
        assert_eq!(device.limits().mtu, 9_000);
    });
}

#[test]
fn a_full_device_says_so_and_recovers() {
    if lab::skip_without_root("a_full_device_says_so_and_recovers") {
        return;
    }
    in_world(|_| {
        let (mut device, _steering) = open(Config {
            transmit_frames: 4,
            ..Config::default()
        });
        let frame = Frame::new(Side::Server.ipv4(), Side::Client.ipv4(), 1).build();
        // It flushes by itself when it runs out, and a veth takes everything at once.
        for _ in 0..1000 {
            transmit(&mut device, &frame, None);
        }
        assert_eq!(device.flush(), 0);
        lab::tool::run("ip link set server0 down").expect("ip link set down");
        let mut queued = 0;
        while device.frame().is_some() {
            device.submit(frame.len(), None);
            queued += 1;
            assert!(queued <= 1000, "frames come from nowhere");
        }
        let counters = device.counters();
        assert!(counters.send_no_frame > 0);
        assert!(counters.send_wakeups_failed > 0);
        lab::tool::run("ip link set server0 up").expect("ip link set up");
        transmit_after_recovery(&mut device, &frame);
    });
}

fn transmit_after_recovery(device: &mut XdpDevice, frame: &[u8]) {
    let deadline = Instant::now() + LIMIT;
    while device.frame().is_none() || device.flush() > 0 {
        assert!(Instant::now() < deadline, "the device never recovered");
        std::thread::yield_now();
    }
    transmit(device, frame, None);
    assert_eq!(device.flush(), 0);
}

#[test]
fn refusals_say_what_to_do() {
    if lab::skip_without_root("refusals_say_what_to_do") {
        return;
    }
    in_world(|_| {
        let (_device, steering) = open(Config::default());
        let interface = server_interface();
        let message = |config: Config| {
            XdpDevice::open(&interface, config)
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(
            message(Config::default()),
            "another AF_XDP socket is bound to queue 0 of server0: stop its owner, or use another queue"
        );
        assert_eq!(
            message(Config {
                queue: 7,
                ..Config::default()
            }),
            "server0 has no receive queue 7: it has 1, numbered from 0"
        );
        assert_eq!(
            message(Config {
                receive_frames: 0,
                ..Config::default()
            }),
            "0 frames: must be from 1 to 65536"
        );
        let occupied = Steering::attach(&interface, Placement::Auto).expect_err("occupied");
        let text = occupied.to_string();
        assert!(matches!(occupied, SteeringError::Occupied { .. }), "{text}");
        let id = interface
            .attached_program()
            .expect("netlink")
            .expect("ours")
            .id;
        assert!(text.contains(&format!("id {id}")), "{text}");
        let process = std::process::id();
        assert!(text.contains(&format!("(process {process})")), "{text}");
        assert!(text.ends_with(&format!("stop process {process}")), "{text}");
        drop(steering);
        assert_eq!(interface.attached_program().expect("netlink"), None);
        assert!(matches!(
            XdpDevice::open(
                &Interface::find("lo").expect("loopback"),
                Config {
                    bind: Bind::ZeroCopy,
                    ..Config::default()
                }
            ),
            Err(OpenError::NoZeroCopy { .. })
        ));
    });
}

/// The generic hook, on an interface whose driver has no native one.
#[test]
fn an_interface_without_native_xdp_is_steered_by_the_generic_hook() {
    if lab::skip_without_root("an_interface_without_native_xdp_is_steered_by_the_generic_hook") {
        return;
    }
    in_world(|_| {
        lab::tool::run("ip link set lo up").expect("ip link set up");
        let loopback = Interface::find("lo").expect("loopback");
        let native = Steering::attach(&loopback, Placement::Native).expect_err("no native XDP");
        assert!(
            native.to_string().ends_with("use the generic hook"),
            "{native}"
        );
        let mut device = XdpDevice::open(&loopback, Config::default()).expect("device");
        let mut steering = Steering::attach(&loopback, Placement::Auto).expect("steering");
        assert_eq!(steering.mode(), Some(XdpMode::Generic));
        steering.connect_queue(0, &device).expect("connect");
        let local = Ipv4Addr::LOCALHOST;
        steering
            .add_port(Endpoint::new(local.into(), PORT), Share::All)
            .expect("add_port");
        let to = SocketAddr::new(local.into(), PORT);
        assert!(TcpStream::connect_timeout(&to, Duration::from_millis(50)).is_err());
        receive_until(&mut device, |frame| frame[tcp_start(frame) + 13] == SYN);
    });
}

/// What a child of the next test does: asks for more memory than it may lock.
#[test]
#[ignore = "only run by a_limit_on_locked_memory_is_explained"]
fn open_beyond_the_limit() {
    if std::env::var_os("OUTBOARD_TEST_LIMIT").is_none() {
        return;
    }
    let error = XdpDevice::open(&server_interface(), Config::default()).expect_err("too much");
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("12288 KiB of packet memory exceed"),
        "{text}"
    );
    assert!(text.contains("grant CAP_IPC_LOCK"), "{text}");
}

#[test]
fn a_limit_on_locked_memory_is_explained() {
    if lab::skip_without_root("a_limit_on_locked_memory_is_explained") {
        return;
    }
    in_world(|_| {
        let status = std::process::Command::new("setpriv")
            .args(["--bounding-set=-ipc_lock", "sh", "-c"])
            .arg("ulimit -l 64 && exec \"$0\" \"$@\"")
            .arg(std::env::current_exe().expect("ourselves"))
            .args(["--ignored", "--exact", "open_beyond_the_limit"])
            .env("OUTBOARD_TEST_LIMIT", "1")
            .stdout(std::process::Stdio::null())
            .status()
            .expect("setpriv, of util-linux");
        assert!(status.success(), "see above");
    });
}

/// What a child of the next test does: holds a steered device until it is killed.
#[test]
#[ignore = "only run by a_killed_owner_leaves_no_program_behind"]
fn hold_a_device() {
    if std::env::var_os("OUTBOARD_TEST_HOLD").is_none() {
        return;
    }
    let _held = open(Config::default());
    // Until the test has gone, if it kills nobody.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_killed_owner_leaves_no_program_behind() {
    if lab::skip_without_root("a_killed_owner_leaves_no_program_behind") {
        return;
    }
    in_world(|_| {
        let interface = server_interface();
        let mut owner = std::process::Command::new(std::env::current_exe().expect("ourselves"))
            .args(["--ignored", "--exact", "hold_a_device"])
            .env("OUTBOARD_TEST_HOLD", "1")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("spawn");
        let deadline = Instant::now() + LIMIT;
        let wait_until = |attached: bool, what: &str| {
            while interface.attached_program().expect("netlink").is_some() != attached {
                assert!(Instant::now() < deadline, "{what}");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        wait_until(true, "the owner never attached its program");
        owner.kill().expect("SIGKILL");
        owner.wait().expect("wait");
        wait_until(false, "the program outlived its owner");
        // And all of it can be had again.
        drop(open(Config::default()));
    });
}
