//! One engine on two interfaces, as a proxy between two networks has it.

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::beside::{Engine, Host, LIMIT, connect, ip, listener, on, read};
use engine::config::{Config, Interfaces};
use lab::world::{SECOND_ADDRESSES, SECOND_INTERFACES};
use lab::{Side, World};
use netdev::Interface;
use netdev::diverter::Diverter;
use netdev::steering::{Placement, Steering};
use queue_pair::control::{Channel, Fds, Metric, Reply, Request, VERSION};
use queue_pair::{ConnRef, ConnectBlock, Submission};

/// Bytes of a transfer: some hundred segments.
const MUCH: usize = 200_000;

/// Two namespaces with two links between them.
fn two_links() -> World {
    two_links_with([1, 1])
}

/// The same with so many queues at each end of each.
fn two_links_with(queues: [u32; 2]) -> World {
    let world = World::with_queues(queues[0]).expect("namespaces");
    world.add_link(Some(queues[1])).expect("a second link");
    let sides = [Side::Server, Side::Client];
    for (side, interface) in sides.into_iter().zip(SECOND_INTERFACES) {
        // What comes by the one and goes by the other is no lie here.
        for of in ["all", side.interface(), interface] {
            let name = format!("net.ipv4.conf.{of}.rp_filter");
            world.sysctl(side, &name, "0").expect("set");
        }
    }
    world
}

fn both(config: &mut Config) {
    config.interface = Interfaces::of([Side::Server.interface(), SECOND_INTERFACES[0]]);
}

/// Connects to the listener by the second link.
fn second(address: SocketAddr) -> SocketAddr {
    SocketAddr::from((SECOND_ADDRESSES[0], address.port()))
}

/// A client by each link, and their connections in the engine.
fn clients(world: &World, host: &mut Host, address: SocketAddr) -> [(TcpStream, ConnRef); 2] {
    [address, second(address)].map(|to| {
        host.completions.clear();
        let mut client = connect(world, to);
        client.write_all(b"first").expect("sent");
        let conn = host.accepted();
        assert_eq!(host.receive(conn), b"first");
        (client, conn)
    })
}

/// Both directions work; so many bytes have come before.
fn exchange(host: &mut Host, conn: ConnRef, client: &mut TcpStream, before: u64) {
    host.completions.clear();
    client.write_all(b"still").expect("sent");
    assert_eq!(host.receive(conn), b"still");
    host.send(conn, b"there", before + 5);
    assert_eq!(read(client, 5), b"there");
}

/// Frames that came to an interface.
fn came_to(metrics: &[Metric], interface: &str) -> f64 {
    came_to_all(metrics, &[interface])
}

/// Frames that came to a queue with all these labels.
fn came_to_all(metrics: &[Metric], labels: &[&str]) -> f64 {
    let of = metrics.iter().filter(|metric| {
        let has = |label: &&str| metric.labels.iter().any(|(_, value)| value == label);
        metric.name == "queue_frames" && labels.iter().all(has)
    });
    of.map(|metric| metric.value).sum()
}

#[test]
fn a_server_has_clients_on_both() {
    if lab::skip_without_root("a_server_has_clients_on_both") {
        return;
    }
    let world = two_links();
    let engine = Engine::start(&world, both);
    let (mut host, _kernel, address) = engine.listening(&world);
    for (mut client, conn) in clients(&world, &mut host, address) {
        exchange(&mut host, conn, &mut client, 5);
        host.send(conn, &vec![7; MUCH], 10);
        assert_eq!(read(&mut client, MUCH), vec![7; MUCH]);
    }
    let metrics = engine.metrics();
    for interface in [Side::Server.interface(), SECOND_INTERFACES[0]] {
        assert!(came_to(&metrics, interface) > 0.0, "{interface}");
    }
    assert_eq!(engine.metric("mtu"), 1500.0);
}

#[test]
fn a_connection_leaves_by_the_interface_that_its_route_names() {
    if lab::skip_without_root("a_connection_leaves_by_the_interface_that_its_route_names") {
        return;
    }
    let world = two_links();
    let engine = Engine::start(&world, both);
    let mut host = engine.attach(&world);
    // Beyond a router on the second link.
    let beyond = Ipv4Addr::new(10, 99, 0, 2);
    ip(
        &world,
        Side::Client,
        &format!("address add {beyond}/32 dev lo"),
    );
    let route = format!("route add {beyond}/32 via {}", SECOND_ADDRESSES[1]);
    ip(&world, Side::Server, &route);
    let ways = [
        (Side::Client.ipv4(), Side::Server.ipv4()),
        (SECOND_ADDRESSES[1], SECOND_ADDRESSES[0]),
        (beyond, SECOND_ADDRESSES[0]),
    ];
    for (token, (to, from)) in ways.into_iter().enumerate() {
        let target = on(&world, Side::Client, || {
            TcpListener::bind((to, 0)).expect("a port")
        });
        let block = ConnectBlock::new(target.local_addr().expect("bound"));
        let conn = host.open(&block, token as u64).expect("it opens");
        let (mut peer, who) = target.accept().expect("it has come");
        assert_eq!(who.ip(), IpAddr::from(from));
        exchange(&mut host, conn, &mut peer, 0);
    }
}

#[test]
fn segments_that_come_by_the_other_interface_reach_their_connection() {
    if lab::skip_without_root("segments_that_come_by_the_other_interface") {
        return;
    }
    let world = two_links();
    let engine = Engine::start(&world, both);
    let (mut host, _kernel, address) = engine.listening(&world);
    let [(mut client, conn), _] = clients(&world, &mut host, address);
    let route = format!(
        "route replace {} dev {} src {}",
        Side::Server.ipv4(),
        SECOND_INTERFACES[1],
        Side::Client.ipv4()
    );
    ip(&world, Side::Client, &route);
    let before = came_to(&engine.metrics(), SECOND_INTERFACES[0]);
    exchange(&mut host, conn, &mut client, 5);
    assert!(came_to(&engine.metrics(), SECOND_INTERFACES[0]) > before);
    // And so does one that begins like that.
    host.completions.clear();
    let mut new = connect(&world, address);
    new.write_all(b"first").expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), b"first");
    exchange(&mut host, conn, &mut new, 5);
}

#[test]
fn a_link_that_is_down_stops_its_own_connections_alone() {
    if lab::skip_without_root("a_link_that_is_down_stops_its_own_connections_alone") {
        return;
    }
    let world = two_links();
    let engine = Engine::start(&world, both);
    let (mut host, _kernel, address) = engine.listening(&world);
    let [(mut first, on_first), (mut second, on_second)] = clients(&world, &mut host, address);
    let client = Side::Client.interface();
    ip(&world, Side::Client, &format!("link set dev {client} down"));
    host.send(on_first, &vec![7; MUCH], 5);
    let begin = Instant::now();
    while engine.dropped("link_down") == 0.0 {
        assert!(begin.elapsed() < LIMIT, "what it is sent goes nowhere");
    }
    for turn in 0..20 {
        exchange(&mut host, on_second, &mut second, 5 + turn * 5);
    }
    host.send(on_second, &vec![8; MUCH], 105);
    assert_eq!(read(&mut second, MUCH), vec![8; MUCH]);
    ip(&world, Side::Client, &format!("link set dev {client} up"));
    assert_eq!(read(&mut first, 5).len(), 5, "it goes on");
}

#[test]
fn packets_fit_the_narrowest_of_both() {
    if lab::skip_without_root("packets_fit_the_narrowest_of_both") {
        return;
    }
    let world = two_links();
    let engine = Engine::start(&world, both);
    for (mtu, usable) in [(1200, 1200.0), (1400, 1400.0)] {
        let narrow = format!("link set dev {} mtu {mtu}", SECOND_INTERFACES[0]);
        ip(&world, Side::Server, &narrow);
        let begin = Instant::now();
        while engine.metric("mtu") != usable {
            assert!(begin.elapsed() < LIMIT, "the engine hears of it");
        }
    }
}

#[test]
fn a_listener_that_is_bound_to_one_of_them_is_the_kernels() {
    if lab::skip_without_root("a_listener_that_is_bound_to_one_of_them_is_the_kernels") {
        return;
    }
    let world = two_links();
    let engine = Engine::start(&world, both);
    let mut host = engine.attach(&world);
    let (kernel, _) = listener(&world);
    let index = on(&world, Side::Server, || {
        netdev::Interface::find(SECOND_INTERFACES[0])
            .expect("it is there")
            .index
    });
    let (socket, bind_to_index) = (1, 62);
    let value = index.to_ne_bytes();
    netdev::syscalls::set_socket_option_bytes(kernel.as_fd(), socket, bind_to_index, &value)
        .expect("SO_BINDTOIFINDEX");
    let reply = host.asks_to_listen(&kernel);
    let Reply::Error { errno, message } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(errno, libc::EXDEV);
    assert!(message.contains("the engine has several"), "{message}");
}

/// Here nobody asks for each packet by which interface it came.
#[test]
fn what_the_rules_do_not_say_alike_of_both_is_the_kernels() {
    if lab::skip_without(
        "what_the_rules_do_not_say_alike_of_both_is_the_kernels",
        &["nft"],
    ) {
        return;
    }
    let world = two_links();
    let nft = |rule: &str| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", world.name(Side::Server), "nft", rule]);
        assert!(command.status().expect("it runs").success(), "{rule}");
    };
    nft("add table ip t");
    nft("add chain ip t c { type filter hook input priority 0; }");
    let engine = Engine::start(&world, |config| {
        both(config);
        config.ignore_netfilter = false;
    });
    let mut host = engine.attach(&world);
    let (kernel, address) = listener(&world);
    let listener = host.listen(&kernel);
    kernel.set_nonblocking(true).expect("a socket");
    clients(&world, &mut host, address);
    let mut credit = 8;
    let mut is_engines = || {
        host.completions.clear();
        let _client = connect(&world, second(address));
        // Whoever has it, it is there soon.
        let begin = Instant::now();
        loop {
            match (host.has_accepted(), kernel.accept().is_ok()) {
                (true, _) => break,
                (_, true) => return false,
                _ => assert!(begin.elapsed() < LIMIT, "somebody has it"),
            }
        }
        // However many come to the engine before it has heard of a rule, they are taken: what nobody takes fills its
        // queue, and a full one answers no SYN.
        credit += 1;
        host.submit(Submission::Credit {
            listener,
            total: credit,
            waits: false,
        });
        true
    };
    // Of nobody who is there, but who knows.
    let refused = format!("iifname {} ip saddr 192.0.2.1 drop", SECOND_INTERFACES[0]);
    nft(&format!("add rule ip t c {refused}"));
    let begin = Instant::now();
    while is_engines() {
        assert!(begin.elapsed() < LIMIT, "new connections are the kernel's");
    }
    // As soon as they say the same the engine takes them again.
    let other = Side::Server.interface();
    nft(&format!(
        "add rule ip t c {}",
        refused.replace(SECOND_INTERFACES[0], other)
    ));
    let begin = Instant::now();
    while !is_engines() {
        assert!(begin.elapsed() < LIMIT, "new connections are the engine's");
    }
}

/// As firewalld has it, unless it is told otherwise.
#[test]
fn a_rule_about_the_way_back_of_ipv6_leaves_ipv4_to_the_engine() {
    let test = "a_rule_about_the_way_back_of_ipv6_leaves_ipv4_to_the_engine";
    if lab::skip_without(test, &["nft"]) {
        return;
    }
    let world = two_links();
    for rule in [
        "add table inet t",
        "add chain inet t c { type filter hook prerouting priority 10; }",
        "add rule inet t c meta nfproto ipv6 fib saddr . iif oif missing drop",
    ] {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", world.name(Side::Server), "nft", rule]);
        assert!(command.status().expect("it runs").success(), "{rule}");
    }
    let engine = Engine::start(&world, |config| {
        both(config);
        config.ignore_netfilter = false;
    });
    let mut host = engine.attach(&world);
    let kernel = on(&world, Side::Server, || {
        TcpListener::bind("[::]:0").expect("a port")
    });
    host.listen(&kernel);
    kernel.set_nonblocking(true).expect("a socket");
    let port = kernel.local_addr().expect("bound").port();
    clients(&world, &mut host, (Side::Server.ipv4(), port).into());
    host.completions.clear();
    let _client = connect(&world, (Side::Server.ipv6(), port).into());
    let begin = Instant::now();
    while kernel.accept().is_err() {
        assert!(
            !host.has_accepted() && begin.elapsed() < LIMIT,
            "the kernel has it"
        );
    }
    let target = on(&world, Side::Client, || {
        TcpListener::bind("[::]:0").expect("a port")
    });
    let port = target.local_addr().expect("bound").port();
    for (token, to, opens) in [
        (1, IpAddr::from(Side::Client.ipv4()), true),
        (2, IpAddr::from(Side::Client.ipv6()), false),
    ] {
        let block = ConnectBlock::new(SocketAddr::new(to, port));
        let opened = host.open(&block, token);
        assert_eq!(opened.is_ok(), opens, "{to}: {opened:?}");
    }
}

/// What came with version 17 would make an older library give up.
#[test]
fn a_program_hears_of_as_many_as_it_can_understand() {
    if lab::skip_without_root("a_program_hears_of_as_many_as_it_can_understand") {
        return;
    }
    let world = two_links();
    let engine = Engine::start(&world, both);
    let indices = indices(&world);
    for (version, expected) in [(16, vec![]), (VERSION, vec![indices[1]])] {
        let mut channel = on(&world, Side::Server, || {
            Channel::connect(&engine.socket).expect("the engine listens")
        });
        let request = Request::Attach {
            version,
            oldest: None,
            program: "test".to_owned(),
            fork_token: None,
        };
        let answer = channel.request(&request, Fds::new(), LIMIT);
        let Ok((
            Reply::Attached {
                interface, others, ..
            },
            _,
        )) = answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!((interface, others), (indices[0], expected));
    }
}

#[test]
fn several_workers_have_queues_of_each() {
    if lab::skip_without_root("several_workers_have_queues_of_each") {
        return;
    }
    let world = two_links_with([2, 2]);
    let engine = Engine::start(&world, |config| {
        both(config);
        config.workers = "2".parse().expect("a number");
    });
    let mut host = engine.attach(&world);
    let (kernel, address) = listener(&world);
    let listener = host.listen(&kernel);
    // With other ports they come to other queues, until something has come to each.
    let begin = Instant::now();
    let mut total = 0;
    loop {
        total += 2;
        host.submit(Submission::Credit {
            listener,
            total: 8 + total,
            waits: false,
        });
        for (mut client, conn) in clients(&world, &mut host, address) {
            exchange(&mut host, conn, &mut client, 5);
        }
        let metrics = engine.metrics();
        let names = [Side::Server.interface(), SECOND_INTERFACES[0]];
        let mut all = names.iter().flat_map(|name| [(name, "0"), (name, "1")]);
        if all.all(|(name, queue)| came_to_all(&metrics, &[name, queue]) > 0.0) {
            break;
        }
        assert!(begin.elapsed() < LIMIT, "each queue of each: {metrics:?}");
    }
    for (token, to) in [Side::Client.ipv4(), SECOND_ADDRESSES[1]]
        .into_iter()
        .enumerate()
    {
        let target = on(&world, Side::Client, || {
            TcpListener::bind((to, 0)).expect("a port")
        });
        let block = ConnectBlock::new(target.local_addr().expect("bound"));
        let conn = host.open(&block, token as u64).expect("it opens");
        let (mut peer, _) = target.accept().expect("it has come");
        exchange(&mut host, conn, &mut peer, 0);
    }
}

#[test]
fn each_worker_needs_a_queue_of_each() {
    if lab::skip_without_root("each_worker_needs_a_queue_of_each") {
        return;
    }
    let world = two_links_with([2, 1]);
    let refused = on(&world, Side::Server, || {
        let mut config = Config::default();
        both(&mut config);
        config.workers = "2".parse().expect("a number");
        engine::find(&config).expect_err("refused").to_string()
    });
    let named = format!("for 1 receive queue of {}:", SECOND_INTERFACES[0]);
    assert!(refused.contains(&named), "{refused}");
}

#[test]
fn an_engine_does_not_start_if_one_of_them_cannot_be_used() {
    if lab::skip_without_root("an_engine_does_not_start_if_one_of_them_cannot_be_used") {
        return;
    }
    let world = two_links();
    let refused = |second: &str| {
        on(&world, Side::Server, || {
            let config = Config {
                interface: Interfaces::of([Side::Server.interface(), second]),
                ..Config::default()
            };
            engine::find(&config).expect_err("refused").to_string()
        })
    };
    let missing = refused("nobody0");
    assert!(missing.starts_with("nobody0: "), "{missing}");
    let twice = refused(Side::Server.interface());
    assert!(twice.contains("is named twice"), "{twice}");
}

/// The numbers of both in the kernel.
fn indices(world: &World) -> [u32; 2] {
    on(world, Side::Server, || {
        [Side::Server.interface(), SECOND_INTERFACES[0]]
            .map(|name| Interface::find(name).expect("it is there").index)
    })
}

#[test]
fn an_engine_that_does_not_get_the_second_has_nothing_of_the_first() {
    if lab::skip_without_root("an_engine_that_does_not_get_the_second_has_nothing_of_the_first") {
        return;
    }
    let world = two_links();
    on(&world, Side::Server, || {
        let [first, second] = [Side::Server.interface(), SECOND_INTERFACES[0]]
            .map(|name| Interface::find(name).expect("it is there"));
        let taken = Steering::attach(&second, Placement::Auto).expect("nobody has it");
        let mut config = Config {
            socket: Some(world.scratch().join("refused.sock")),
            ignore_netfilter: true,
            ..Config::default()
        };
        both(&mut config);
        let (_stop, heard) = UnixStream::pair().expect("a pair");
        let unread = Box::new(|| Err("it is not read again".to_owned()));
        let refused = engine::run(
            config,
            engine::opener::on_a_thread,
            heard.as_fd(),
            unread,
            || panic!("it starts"),
        );
        let refused = refused.expect_err("it does not start").to_string();
        let occupied = format!("{} already has an XDP program", second.name);
        assert!(refused.starts_with(&occupied), "{refused}");
        drop(taken);
        Steering::attach(&first, Placement::Auto).expect("nobody has it any more");
    });
}

#[test]
fn a_vrf_beside_another_network_is_refused_in_words() {
    let test = "a_vrf_beside_another_network_is_refused_in_words";
    if lab::skip_without_root(test) {
        return;
    }
    let world = two_links();
    let made = Command::new("ip")
        .args(["-n", world.name(Side::Server)])
        .args(["link", "add", "red", "type", "vrf", "table", "10"])
        .output();
    if !made.expect("iproute2 is there").status.success() {
        let line = format!("SKIPPED (this kernel has no VRFs): {test}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    }
    let named = |config: &Config| on(&world, Side::Server, || engine::find(config));
    let mut config = Config::default();
    both(&mut config);
    named(&config).expect("both are in one network");
    let name = SECOND_INTERFACES[0];
    ip(&world, Side::Server, &format!("link set {name} master red"));
    let refused = named(&config).expect_err("refused").to_string();
    let expected = format!("{name} is in the VRF red, ");
    assert!(refused.starts_with(&expected), "{refused}");
    // Alone it is asked for by its name.
    config.interface = name.into();
    named(&config).expect("it can be used");
}

/// Next hops to such a destination are asked for on the link of the source.
#[test]
fn a_link_local_destination_is_not_opened_from_another_link() {
    if lab::skip_without_root("a_link_local_destination_is_not_opened_from_another_link") {
        return;
    }
    let world = two_links();
    let to = "fe80::2";
    for (side, interface, address) in [
        (Side::Client, Side::Client.interface(), to),
        (Side::Client, SECOND_INTERFACES[1], to),
        (Side::Server, Side::Server.interface(), "fe80::1"),
        (Side::Server, SECOND_INTERFACES[0], "fe80::11"),
    ] {
        let address = format!("address add {address}/64 dev {interface} nodad");
        ip(&world, side, &address);
    }
    let engine = Engine::start(&world, both);
    let mut host = engine.attach(&world);
    let target = on(&world, Side::Client, || {
        TcpListener::bind("[::]:0").expect("a port")
    });
    let port = target.local_addr().expect("bound").port();
    let [first, second] = indices(&world);
    let to = to.parse().expect("an address");
    let global = IpAddr::from(Side::Server.ipv6());
    for (token, (scope, opens)) in [(first, true), (second, false)].into_iter().enumerate() {
        let block = ConnectBlock {
            local: SocketAddr::new(global, 20_000 + token as u16),
            ..ConnectBlock::new(SocketAddrV6::new(to, port, 0, scope).into())
        };
        let opened = host.open(&block, token as u64);
        match opens {
            true => assert!(opened.is_ok(), "{opened:?}"),
            false => assert_eq!(opened, Err(libc::EOPNOTSUPP)),
        }
    }
}

/// It is steered where it is the engine's, which is on one link alone.
#[test]
fn a_link_local_address_of_both_is_the_others_when_one_loses_it() {
    if lab::skip_without_root("a_link_local_address_of_both_is_the_others_when_one_loses_it") {
        return;
    }
    let world = two_links();
    let own = "fe80::1".parse().expect("an address");
    let add = |side, address: &str, interface: &str| {
        let address = format!("address add {address}/64 dev {interface} nodad");
        ip(&world, side, &address);
    };
    add(Side::Client, "fe80::12", SECOND_INTERFACES[1]);
    for interface in [Side::Server.interface(), SECOND_INTERFACES[0]] {
        add(Side::Server, "fe80::1", interface);
    }
    let engine = Engine::start(&world, both);
    let mut host = engine.attach(&world);
    let kernel = on(&world, Side::Server, || {
        TcpListener::bind("[::]:0").expect("a port")
    });
    host.listen(&kernel);
    kernel.set_nonblocking(true).expect("a socket");
    let port = kernel.local_addr().expect("bound").port();
    let scope = on(&world, Side::Client, || {
        let second = Interface::find(SECOND_INTERFACES[1]);
        second.expect("it is there").index
    });
    let to = SocketAddrV6::new(own, port, 0, scope).into();
    let lost = format!("address del fe80::1/64 dev {}", Side::Server.interface());
    ip(&world, Side::Server, &lost);
    let begin = Instant::now();
    while !host.has_accepted() {
        let _client = connect(&world, to);
        // The engine may not have heard yet.
        while !host.has_accepted() && kernel.accept().is_err() {
            assert!(begin.elapsed() < LIMIT, "somebody has it");
        }
        assert!(begin.elapsed() < LIMIT, "it is the engine's some time");
    }
}

#[test]
fn a_diverter_that_is_not_taken_leaves_the_one_that_is_there() {
    let test = "a_diverter_that_is_not_taken_leaves_the_one_that_is_there";
    if lab::skip_without(test, &["clang"]) {
        return;
    }
    let world = two_links();
    let object = world.scratch().join("echo.o");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/divert");
    let made = Command::new("clang")
        .args(["--target=bpf", "-mcpu=v3", "-O2", "-g", "-isystem"])
        .arg(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH))
        .arg("-c")
        .arg(examples.join("icmp_echo.bpf.c"))
        .arg("-o")
        .arg(&object)
        .status();
    assert!(made.expect("it runs").success());
    let engine = Engine::start(&world, both);
    let loaded = Diverter::load(&object, None).expect("the kernel takes it");
    let nothing = File::open("/dev/null").expect("it is there");
    let mut channel = on(&world, Side::Server, || {
        Channel::connect(&engine.socket).expect("the engine listens")
    });
    let mut divert = |interface, program: OwnedFd| {
        let request = Request::Divert {
            interface,
            name: "echo".to_owned(),
            program: 1,
        };
        let fds = [program].into_iter().collect();
        let (reply, _) = channel.request(&request, fds, LIMIT).expect("answered");
        reply
    };
    let [first, second] = indices(&world);
    let program = loaded.program.as_fd().try_clone_to_owned();
    let reply = divert(first, program.expect("descriptors"));
    assert!(matches!(reply, Reply::Done), "{reply:?}");
    let reply = divert(second, nothing.into());
    assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
    // What is nobody's still goes to the one that is there.
    let before = engine.dropped("diverter");
    let at_server = on(&world, Side::Server, || {
        UdpSocket::bind((Side::Server.ipv4(), 0)).expect("a port")
    });
    at_server.set_read_timeout(Some(LIMIT)).expect("a socket");
    let at_client = on(&world, Side::Client, || {
        UdpSocket::bind((Side::Client.ipv4(), 0)).expect("a port")
    });
    let to = at_server.local_addr().expect("bound");
    at_client.send_to(b"anybody", to).expect("sent");
    at_server.recv(&mut [0; 16]).expect("it passes");
    assert!(engine.dropped("diverter") > before);
}
