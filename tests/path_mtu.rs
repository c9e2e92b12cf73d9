//! A router between server and client whose next link is smaller than ours: its ICMP errors reach
//! the engine, and what the client asked for reaches the client.
#![forbid(unsafe_code)]

use lab::nginx::Nginx;
use lab::outboard::{Outboard, total};
use lab::world::enter_namespace;
use lab::{Side, World, skip_without_root, tool};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

const SIZE: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// A namespace behind the client's, which becomes its router; gone when this is dropped.
struct Far(String);

impl Far {
    /// The link to it carries packets of at most `mtu` bytes, which only the router knows.
    fn behind(world: &World, mtu: u16) -> Self {
        let router = world.name(Side::Client);
        let far = Self(format!("{router}-far"));
        let name = &far.0;
        let interface = Side::Server.interface();
        for line in [
            format!("netns add {name}"),
            format!(
                "link add tofar0 netns {router} mtu {mtu} type veth peer name far0 netns {name}"
            ),
            format!("-n {router} addr add 10.78.0.1/24 dev tofar0"),
            format!("-n {router} addr add fd78::1/64 dev tofar0 nodad"),
            format!("-n {router} link set tofar0 up"),
            format!("-n {name} addr add 10.78.0.2/24 dev far0"),
            format!("-n {name} addr add fd78::2/64 dev far0 nodad"),
            format!("-n {name} link set far0 mtu 1500 up"),
            format!("-n {name} route add default via 10.78.0.1"),
            format!("-n {name} route add default via fd78::1"),
            format!(
                "-n {} route add 10.78.0.0/24 via {} dev {interface}",
                world.name(Side::Server),
                Side::Client.ipv4()
            ),
            format!(
                "-n {} route add fd78::/64 via {} dev {interface}",
                world.name(Side::Server),
                Side::Client.ipv6()
            ),
        ] {
            tool::run(&format!("ip {line}")).unwrap();
        }
        for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            world.sysctl(Side::Client, key, "1").unwrap();
        }
        far
    }

    /// Runs `work` there.
    fn on<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                enter_namespace(&self.0).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // The next world sweeps up what this leaves.
        let _ = tool::run(&format!("ip netns del {}", self.0));
    }
}

#[test]
fn a_smaller_link_behind_a_router_is_found_by_icmp() {
    if skip_without_root("a_smaller_link_behind_a_router_is_found_by_icmp") {
        return;
    }
    let world = World::new().unwrap();
    let far = Far::behind(&world, 1300);
    let site = world.site(&[("large", &vec![b'x'; SIZE])]).unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine_with(&world, "").unwrap();
    let addresses: [IpAddr; 2] = [Side::Server.ipv4().into(), Side::Server.ipv6().into()];
    let mut reductions = 0.0;
    for (i, address) in addresses.into_iter().enumerate() {
        let address = SocketAddr::new(address, Nginx::address().port() + i as u16);
        let _server = outboard.start_serve(&world, &site, address).unwrap();
        assert_eq!(far.on(|| fetch(address)).unwrap(), SIZE, "{address}");
        let stats = outboard.stats().unwrap();
        let before = std::mem::replace(&mut reductions, total(&stats, "tcp_path_mtu_reductions"));
        assert!(reductions > before, "{address}: nothing was learned");
    }
}

/// Fetches the large file; how many bytes of it came.
fn fetch(address: SocketAddr) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer
        .iter()
        .filter(|&&byte| byte == b'x')
        .count()
        .min(SIZE))
}
