//! Interfaces that are no hardware: told apart, served where that is possible, refused in words where
//! it is not.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::beside::{Engine, connect, ip as ip_at, on, read};
use engine::config::Config;
use lab::{Side, World};
use std::os::fd::AsFd;

/// An `ip` command in the server's network.
fn ip(world: &World, what: &str) {
    ip_at(world, Side::Server, what);
}

/// Has the tags of VLANs travel in the frames, as on a wire to a device that leaves them on.
fn leave_tags_on(world: &World) {
    for (side, what) in [(Side::Client, "txvlan"), (Side::Server, "rxvlan")] {
        let status = Command::new("ip")
            .args(["netns", "exec", world.name(side), "ethtool", "-K"])
            .args([side.interface(), what, "off"])
            .status();
        assert!(status.expect("ethtool is there").success(), "{what} off");
    }
}

/// An engine on this interface takes bytes of the kernel's client, and sends some back.
fn serves(world: &World, interface: &str, bytes: &[u8]) {
    let engine = Engine::start(world, |config| config.interface = interface.into());
    let (mut host, _kernel, address) = engine.listening(world);
    let mut client = connect(world, address);
    client.write_all(bytes).expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), bytes);
    host.send(conn, b"and back", bytes.len() as u64);
    assert_eq!(read(&mut client, 8), b"and back");
}

/// Adds a device to the server's network, if this kernel has such; says so if not.
fn adds(test: &str, world: &World, kind: &str, device: &str) -> bool {
    let made = Command::new("ip")
        .args(["-n", world.name(Side::Server), "link", "add"])
        .args(device.split(' '))
        .output();
    let made = made.expect("iproute2 is there").status.success();
    if !made {
        let line = format!("SKIPPED (this kernel has no {kind}): {test}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    made
}

/// Whether this kernel has VLAN devices; says so if not. (`cargo xtask machines` tries them on others.)
fn has_vlans(test: &str, world: &World) -> bool {
    let device = format!(
        "link {} name tried0 type vlan id 9",
        Side::Server.interface()
    );
    let made = adds(test, world, "VLAN devices", &device);
    if made {
        ip(world, "link del tried0");
    }
    made
}

/// A VLAN device on each side's interface, with no addresses yet.
fn make_vlans(world: &World) {
    for side in [Side::Client, Side::Server] {
        let below = side.interface();
        ip_at(
            world,
            side,
            &format!("link add link {below} name tagged0 type vlan id 7"),
        );
        ip_at(world, side, "link set tagged0 up");
    }
}

/// Why no engine starts on an interface.
fn refusal(world: &World, interface: &str) -> String {
    let config = Config {
        interface: interface.into(),
        socket: Some(world.scratch().join("refused.sock")),
        ignore_netfilter: true,
        ..Config::default()
    };
    let (_stop, heard) = UnixStream::pair().expect("a pair");
    let refused = on(world, Side::Server, || {
        let unread = Box::new(|| Err("it is not read again".to_owned()));
        engine::run(
            config,
            engine::opener::on_a_thread,
            heard.as_fd(),
            unread,
            || panic!("it starts"),
        )
    });
    refused.expect_err("it does not start").to_string()
}

#[test]
fn a_bridge_is_served_and_its_port_is_not() {
    if lab::skip_without_root("a_bridge_is_served_and_its_port_is_not") {
        return;
    }
    let world = World::new().expect("namespaces");
    let (port, address) = (Side::Server.interface(), Side::Server.ipv4());
    ip(&world, "link add br0 type bridge");
    ip(&world, &format!("link set {port} master br0"));
    ip(&world, &format!("address del {address}/24 dev {port}"));
    ip(&world, &format!("address add {address}/24 dev br0"));
    ip(&world, "link set br0 up");
    let expected = format!("{port} is a port of the bridge br0, which has the addresses: name br0");
    assert_eq!(refusal(&world, port), expected);

    serves(&world, "br0", b"by a bridge");
}

#[test]
fn a_bond_is_served_and_its_member_is_not() {
    let test = "a_bond_is_served_and_its_member_is_not";
    if lab::skip_without_root(test) {
        return;
    }
    let world = World::new().expect("namespaces");
    let (member, address) = (Side::Server.interface(), Side::Server.ipv4());
    let bond = "bond0 type bond mode active-backup miimon 100";
    if !adds(test, &world, "bonds", bond) {
        return;
    }
    // Only what is down can become a member; its hardware address becomes the bond's.
    ip(&world, &format!("address flush dev {member}"));
    ip(&world, &format!("link set {member} down"));
    ip(&world, &format!("link set {member} master bond0"));
    ip(&world, &format!("address add {address}/24 dev bond0"));
    ip(&world, "link set bond0 up");
    let expected =
        format!("{member} is a port of the bond bond0, which has the addresses: name bond0");
    assert_eq!(refusal(&world, member), expected);

    serves(&world, "bond0", b"by a bond");
}

#[test]
fn a_tunnel_is_refused_in_words() {
    if lab::skip_without_root("a_tunnel_is_refused_in_words") {
        return;
    }
    let world = World::new().expect("namespaces");
    ip(&world, "tuntap add dev wire0 mode tun");
    ip(&world, "link set wire0 up");
    let message = refusal(&world, "wire0");
    assert!(
        message.starts_with("wire0 is a tunnel (tun): "),
        "{message}"
    );
}

#[test]
fn what_stands_on_a_veth_is_served_though_checksums_are_partial_on_it() {
    if lab::skip_without_root("what_stands_on_a_veth_is_served_though_checksums_are_partial_on_it")
    {
        return;
    }
    let world = World::new().expect("namespaces");
    let (below, address) = (Side::Server.interface(), Side::Server.ipv4());
    // The interface below must not answer for an address that stands above it.
    let set = world.sysctl(Side::Server, "net.ipv4.conf.all.arp_ignore", "1");
    set.expect("arp_ignore");
    ip(
        &world,
        &format!("link add link {below} name above0 type macvlan mode bridge"),
    );
    ip(&world, &format!("address del {address}/24 dev {below}"));
    ip(&world, "link set above0 up");
    ip(&world, &format!("address add {address}/24 dev above0"));
    serves(&world, "above0", b"unsummed");
}

#[test]
fn a_vlan_is_served_by_its_own_device() {
    if lab::skip_without_root("a_vlan_is_served_by_its_own_device") {
        return;
    }
    for tags_stay_on in [false, true] {
        let world = World::new().expect("namespaces");
        if !has_vlans("a_vlan_is_served_by_its_own_device", &world) {
            return;
        }
        if tags_stay_on {
            leave_tags_on(&world);
        }
        make_vlans(&world);
        // The addresses are those of the VLAN.
        for side in [Side::Client, Side::Server] {
            let (below, address) = (side.interface(), side.ipv4());
            ip_at(
                &world,
                side,
                &format!("address del {address}/24 dev {below}"),
            );
            ip_at(
                &world,
                side,
                &format!("address add {address}/24 dev tagged0"),
            );
        }
        serves(&world, "tagged0", b"by a VLAN");
    }
}

#[test]
fn an_interface_that_hides_which_vlan_a_frame_is_of_is_refused_in_words() {
    if lab::skip_without_root(
        "an_interface_that_hides_which_vlan_a_frame_is_of_is_refused_in_words",
    ) {
        return;
    }
    let world = World::new().expect("namespaces");
    if !has_vlans(
        "an_interface_that_hides_which_vlan_a_frame_is_of_is_refused_in_words",
        &world,
    ) {
        return;
    }
    make_vlans(&world);
    let message = refusal(&world, Side::Server.interface());
    assert!(
        message.contains("has VLAN devices on it (tagged0)") && message.contains("rxvlan off"),
        "{message}"
    );
    // What it advises helps: what comes by the VLAN is none of the engine's.
    leave_tags_on(&world);
    let engine = Engine::start(&world, |_| ());
    let (_host, kernel, address) = engine.listening(&world);
    let by_vlan = "198.18.0.2";
    ip_at(
        &world,
        Side::Client,
        &format!("address add {by_vlan}/24 dev tagged0"),
    );
    ip_at(
        &world,
        Side::Client,
        &format!("route add {}/32 dev tagged0", address.ip()),
    );
    ip(&world, "address add 198.18.0.1/24 dev tagged0");
    // The other end asks for the address on the VLAN, where the kernel answers for all that it has.
    let mut client = connect(&world, address);
    client.write_all(b"tagged").expect("sent");
    kernel.set_nonblocking(false).expect("set");
    let (mut accepted, peer) = kernel.accept().expect("by the kernel");
    assert_eq!(peer.ip().to_string(), by_vlan);
    assert_eq!(read(&mut accepted, 6), b"tagged");
    assert_eq!(
        engine.metric("rx_frames"),
        0.0,
        "none of them came to the engine"
    );
}
