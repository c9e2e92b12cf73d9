//! Interfaces that are no hardware: told apart, served where that is possible, refused in words where
//! it is not.

mod beside;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;

use beside::{Engine, connect, listener, on, read};
use engine::config::Config;
use lab::{Side, World};
use std::os::fd::AsFd;

/// An `ip` command in the server's network.
fn ip(world: &World, what: &str) {
    let status = Command::new("ip")
        .args(["-n", world.name(Side::Server)])
        .args(what.split(' '))
        .status();
    assert!(status.expect("iproute2 is there").success(), "ip {what}");
}

/// Why no engine starts on an interface.
fn refusal(world: &World, interface: &str) -> String {
    let config = Config {
        interface: interface.to_owned(),
        socket: Some(world.scratch().join("refused.sock")),
        ignore_netfilter: true,
        ..Config::default()
    };
    let (_stop, heard) = UnixStream::pair().expect("a pair");
    let refused = on(world, Side::Server, || {
        let unread = Box::new(|| Err("it is not read again".to_owned()));
        engine::run(config, heard.as_fd(), unread, || panic!("it starts"))
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

    let engine = Engine::start(&world, |config| config.interface = "br0".to_owned());
    let mut host = engine.attach(&world);
    let (kernel, address) = listener(&world);
    host.listen(&kernel);
    let mut client = connect(&world, address);
    client.write_all(b"by a bridge").expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), b"by a bridge");
    host.send(conn, b"and back", 11);
    assert_eq!(read(&mut client, 8), b"and back");
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
