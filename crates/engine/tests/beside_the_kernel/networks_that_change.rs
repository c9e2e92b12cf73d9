//! What the engine works on changes under it: its interface, the addresses on it, its link.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use crate::beside::{Engine, Host, LIMIT, connect, ip, on, read};
use lab::{Side, World};
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, ConnRef, ConnectBlock};

/// Bytes of a transfer: some hundred segments.
const MUCH: usize = 200_000;

/// An engine, a host on it, and a connection from the kernel at the other end.
fn connected(world: &World) -> (Engine, Host, TcpListener, TcpStream, ConnRef) {
    let engine = Engine::start(world, |_| ());
    let (mut host, kernel, address) = engine.listening(world);
    let mut client = connect(world, address);
    client.write_all(b"first").expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), b"first");
    (engine, host, kernel, client, conn)
}

/// Both directions work.
fn exchange(host: &mut Host, conn: ConnRef, client: &mut TcpStream) {
    host.completions.clear();
    client.write_all(b"still").expect("sent");
    assert_eq!(host.receive(conn), b"still");
    host.send(conn, b"there", 10);
    assert_eq!(read(client, 5), b"there");
}

#[test]
fn a_connection_lives_through_another_hardware_address() {
    if lab::skip_without_root("a_connection_lives_through_another_hardware_address") {
        return;
    }
    let world = World::new().expect("namespaces");
    let (_engine, mut host, _, mut client, conn) = connected(&world);
    let interface = Side::Server.interface();
    let set = format!("link set dev {interface} address 02:aa:bb:cc:dd:ee");
    ip(&world, Side::Server, &set);
    // The neighbour asks again, as it would after a while.
    ip(&world, Side::Client, "neigh flush all");
    exchange(&mut host, conn, &mut client);
}

#[test]
fn a_connection_lives_through_a_link_that_was_down() {
    if lab::skip_without_root("a_connection_lives_through_a_link_that_was_down") {
        return;
    }
    for side in [Side::Client, Side::Server] {
        let world = World::new().expect("namespaces");
        let (_engine, mut host, _, mut client, conn) = connected(&world);
        let interface = side.interface();
        ip(&world, side, &format!("link set dev {interface} down"));
        ip(&world, side, &format!("link set dev {interface} up"));
        exchange(&mut host, conn, &mut client);
    }
}

#[test]
fn segments_fit_a_link_that_carries_less() {
    if lab::skip_without_root("segments_fit_a_link_that_carries_less") {
        return;
    }
    let world = World::new().expect("namespaces");
    let (engine, mut host, _, mut client, conn) = connected(&world);
    assert_eq!(engine.metric("mtu"), 1500.0);
    for side in [Side::Client, Side::Server] {
        let interface = side.interface();
        ip(&world, side, &format!("link set dev {interface} mtu 1200"));
    }
    let begin = Instant::now();
    while engine.metric("mtu") != 1200.0 {
        assert!(begin.elapsed() < LIMIT, "the engine hears of it");
    }
    host.send(conn, &vec![7; MUCH], 5);
    assert_eq!(read(&mut client, MUCH), vec![7; MUCH]);
    // Nothing had to be found out.
    assert_eq!(engine.metric("tcp_path_mtu_black_holes"), 0.0);
}

#[test]
fn an_engine_whose_interface_is_gone_ends_and_says_so() {
    if lab::skip_without_root("an_engine_whose_interface_is_gone_ends_and_says_so") {
        return;
    }
    let world = World::new().expect("namespaces");
    let (mut engine, ..) = connected(&world);
    let interface = Side::Server.interface();
    ip(&world, Side::Server, &format!("link del dev {interface}"));
    let failure = engine.failure();
    assert!(
        failure.contains(&format!("{interface} is gone")),
        "{failure}"
    );
    engine.wait();
    assert!(!engine.socket.exists(), "nothing is left behind");
}

#[test]
fn connections_of_an_address_that_left_end_and_new_ones_begin_when_it_is_back() {
    if lab::skip_without_root("connections_of_an_address_that_left_end") {
        return;
    }
    let world = World::new().expect("namespaces");
    let (_engine, mut host, kernel, mut client, conn) = connected(&world);
    kernel.set_nonblocking(true).expect("a socket");
    let port = kernel.local_addr().expect("bound").port();
    let virtual_address = Ipv4Addr::new(10, 77, 0, 200);
    let interface = Side::Server.interface();
    let add = format!("address add {virtual_address}/24 dev {interface}");
    let moved = SocketAddr::from((virtual_address, port));
    for _ in 0..2 {
        host.completions.clear();
        ip(&world, Side::Server, &add);
        // The kernel serves it until the engine has heard.
        let begin = Instant::now();
        let _there = loop {
            let client = connect(&world, moved);
            match kernel.accept() {
                Ok(_) => assert!(begin.elapsed() < LIMIT, "new connections are the engine's"),
                Err(_) => break client,
            }
        };
        let on_it = host.accepted();
        ip(&world, Side::Server, &add.replace("add ", "del "));
        host.wait_for(|completion| match completion {
            Completion::Failed { conn, .. } if *conn == on_it => Some(()),
            _ => None,
        });
    }
    // Nobody else has noticed.
    exchange(&mut host, conn, &mut client);
}

#[test]
fn what_has_a_route_of_its_own_by_its_source_is_sent_along_that() {
    if lab::skip_without_root("what_has_a_route_of_its_own_by_its_source") {
        return;
    }
    let world = World::new().expect("namespaces");
    let (ours, theirs) = (Ipv4Addr::new(10, 77, 0, 11), Ipv4Addr::new(10, 99, 0, 2));
    let (server, gateway) = (Side::Server.interface(), Side::Client.ipv4());
    let gateway_interface = Side::Client.interface();
    ip(
        &world,
        Side::Client,
        &format!("address add {theirs}/32 dev lo"),
    );
    let route = format!("route add {ours}/32 dev {gateway_interface} src {theirs}");
    ip(&world, Side::Client, &route);
    ip(
        &world,
        Side::Server,
        &format!("address add {ours}/24 dev {server}"),
    );
    // Nobody is there.
    ip(&world, Side::Server, "route add default via 10.77.0.253");
    let own = format!("route add default via {gateway} table 100");
    ip(&world, Side::Server, &own);
    ip(
        &world,
        Side::Server,
        &format!("rule add from {ours} lookup 100"),
    );
    let engine = Engine::start(&world, |_| ());
    let (mut host, _kernel, address) = engine.listening(&world);
    // As accepted ...
    let to = SocketAddr::from((ours, address.port()));
    let mut client = connect(&world, to);
    assert_eq!(client.local_addr().expect("a socket").ip(), theirs);
    client.write_all(b"first").expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), b"first");
    host.send(conn, b"there", 5);
    assert_eq!(read(&mut client, 5), b"there");
    // ... and as opened from there.
    let target = on(&world, Side::Client, || {
        TcpListener::bind((theirs, 0)).expect("a port")
    });
    let mut block = ConnectBlock::new(target.local_addr().expect("bound"));
    block.local = SocketAddr::from((ours, 0));
    host.open(&block, 1).expect("it opens");
}

#[test]
fn connections_are_opened_from_an_address_that_comes_later() {
    if lab::skip_without_root("connections_are_opened_from_an_address_that_comes_later") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let mut host = engine.attach(&world);
    let target = on(&world, Side::Client, || {
        TcpListener::bind((Side::Client.ipv4(), 0)).expect("a port")
    });
    let mut open = |from: Ipv4Addr| {
        let mut block = ConnectBlock::new(target.local_addr().expect("bound"));
        block.local = SocketAddr::from((from, 0));
        host.open(&block, 1).map(drop)
    };
    // A port is leased, on the addresses that there are.
    assert_eq!(open(Side::Server.ipv4()), Ok(()));
    let (later, interface) = (Ipv4Addr::new(10, 77, 0, 12), Side::Server.interface());
    let add = format!("address add {later}/24 dev {interface}");
    ip(&world, Side::Server, &add);
    let begin = Instant::now();
    while let Err(errno) = open(later) {
        assert_eq!(errno, libc::EOPNOTSUPP, "until its ports are steered");
        assert!(begin.elapsed() < LIMIT, "the engine opens from it");
    }
    let (_, from) = on(&world, Side::Client, || {
        target.accept().expect("the first");
        target.accept().expect("the second")
    });
    assert_eq!(from.ip(), later);
}

/// Two routers to who is behind them.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 21);
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 22);
const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

/// A connection with who is behind two routers goes on when the first is gone and this was done, which stands for a
/// daemon of routes that fail over. `before` has the server's routes lead by the first one.
fn goes_on_by_another_router(before: &[&str], then: &str) {
    let world = World::new().expect("namespaces");
    let (server, client) = (Side::Server.interface(), Side::Client.interface());
    for what in [
        format!("address add {BEHIND}/32 dev lo"),
        format!("address add {FIRST}/24 dev {client}"),
        format!("address add {SECOND}/24 dev {client}"),
        format!(
            "route replace {} dev {client} src {BEHIND}",
            Side::Server.ipv4()
        ),
    ] {
        ip(&world, Side::Client, &what);
    }
    // Addresses that become usable while this goes on would have all routes asked for again; and the kernel would tell of
    // all routes whose next hop changes.
    for (name, value) in [
        ("net.ipv6.conf.all.disable_ipv6", "1"),
        ("net.ipv4.nexthop_compat_mode", "0"),
    ] {
        let set = world.sysctl(Side::Server, name, value);
        set.expect("a setting of the namespace");
    }
    for what in before {
        ip(&world, Side::Server, &what.replace("DEVICE", server));
    }
    let (_engine, mut host, _, mut client_end, conn) = connected(&world);
    assert_eq!(client_end.local_addr().expect("a socket").ip(), BEHIND);
    exchange(&mut host, conn, &mut client_end);
    // Nobody answers for the first one any more.
    ip(
        &world,
        Side::Client,
        &format!("address del {FIRST}/24 dev {client}"),
    );
    let neighbour = format!("neigh replace {FIRST} lladdr 02:00:00:00:00:99 dev {server}");
    ip(&world, Side::Server, &neighbour);
    host.send(conn, b"later", 10);
    client_end
        .set_read_timeout(Some(std::time::Duration::from_millis(300)))
        .expect("set");
    let read_now = std::io::Read::read(&mut client_end, &mut [0; 1]);
    assert!(read_now.is_err(), "it is on its way to nobody");
    client_end.set_read_timeout(Some(LIMIT)).expect("set");
    ip(&world, Side::Server, &then.replace("DEVICE", server));
    assert_eq!(read(&mut client_end, 5), b"later");
}

#[test]
fn a_connection_goes_on_by_another_router_when_its_own_is_gone() {
    if lab::skip_without_root("a_connection_goes_on_by_another_router_when_its_own_is_gone") {
        return;
    }
    let default = |by: Ipv4Addr| format!("route replace default via {by} dev DEVICE");
    goes_on_by_another_router(&[&default(FIRST)], &default(SECOND));
}

#[test]
fn a_connection_goes_on_by_the_table_that_a_later_rule_names() {
    if lab::skip_without_root("a_connection_goes_on_by_the_table_that_a_later_rule_names") {
        return;
    }
    let before = [
        format!("route add default via {FIRST} dev DEVICE"),
        format!("route add default via {SECOND} dev DEVICE table 100"),
    ];
    let before = before.each_ref().map(String::as_str);
    goes_on_by_another_router(&before, &format!("rule add to {BEHIND} lookup 100"));
}

#[test]
fn a_connection_goes_on_by_what_the_next_hop_of_its_route_has_become() {
    let test = "a_connection_goes_on_by_what_the_next_hop_of_its_route_has_become";
    if lab::skip_without_root(test) {
        return;
    }
    let before = [
        format!("nexthop add id 7 via {FIRST} dev DEVICE"),
        "route add default nhid 7".to_owned(),
    ];
    let before = before.each_ref().map(String::as_str);
    let then = format!("nexthop replace id 7 via {SECOND} dev DEVICE");
    goes_on_by_another_router(&before, &then);
}

#[test]
fn segments_fit_a_route_that_carries_less() {
    if lab::skip_without_root("segments_fit_a_route_that_carries_less") {
        return;
    }
    let world = World::new().expect("namespaces");
    let interface = Side::Server.interface();
    let route = format!(
        "route add {}/32 dev {interface} mtu 1000",
        Side::Client.ipv4()
    );
    ip(&world, Side::Server, &route);
    let (engine, mut host, _, mut client, conn) = connected(&world);
    host.send(conn, &vec![7; MUCH], 5);
    assert_eq!(read(&mut client, MUCH), vec![7; MUCH]);
    // Nothing had to be found out.
    assert_eq!(engine.metric("tcp_path_mtu_black_holes"), 0.0);
    assert_eq!(path_mtus(&mut host), [1000]);
}

/// The largest packets of all connections, as the engine says.
fn path_mtus(host: &mut Host) -> Vec<u32> {
    let everything = Request::Sockets {
        after: None,
        filter: String::new(),
    };
    let (reply, _) = host
        .channel
        .request(&everything, Fds::new(), LIMIT)
        .expect("answered");
    let Reply::Sockets { rows, .. } = reply else {
        panic!("{reply:?}");
    };
    let infos = rows.iter().filter_map(|row| row.info.as_ref());
    infos.map(|info| info.path_mtu).collect()
}

#[test]
fn segments_fit_a_route_that_comes_to_carry_less() {
    if lab::skip_without_root("segments_fit_a_route_that_comes_to_carry_less") {
        return;
    }
    let world = World::new().expect("namespaces");
    let (engine, mut host, _, mut client, conn) = connected(&world);
    exchange(&mut host, conn, &mut client);
    assert_eq!(path_mtus(&mut host), [1500]);
    let (interface, to) = (Side::Server.interface(), Side::Client.ipv4());
    let route = format!("route add {to}/32 dev {interface} mtu 1000");
    ip(&world, Side::Server, &route);
    let begin = Instant::now();
    while path_mtus(&mut host) != [1000] {
        assert!(begin.elapsed() < LIMIT, "the engine hears of it");
        host.send(conn, &[7; 2_000], 10);
        assert_eq!(read(&mut client, 2_000), [7; 2_000]);
    }
    host.send(conn, &vec![7; MUCH], 10);
    assert_eq!(read(&mut client, MUCH), vec![7; MUCH]);
    assert_eq!(engine.metric("tcp_path_mtu_black_holes"), 0.0);
}
