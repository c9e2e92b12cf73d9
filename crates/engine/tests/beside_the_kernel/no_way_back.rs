//! Clients that come in by the engine's interface although every route to them leads by another one.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};

use crate::beside::{Engine, connect, ip, on, read};
use lab::{Side, World};

#[test]
fn they_are_answered_by_the_router_that_they_came_by() {
    if lab::skip_without_root("they_are_answered_by_the_router_that_they_came_by") {
        return;
    }
    let world = World::new().expect("namespaces");
    let theirs = ["10.99.0.2", "fd99::2"].map(|own| own.parse::<IpAddr>().expect("an address"));
    let client = Side::Client.interface();
    // The server's default route is by another interface.
    for what in [
        "link add name other type veth peer name beyond",
        "link set dev beyond up",
        "link set dev other up",
        "route add default dev other",
        "-6 route add default dev other",
    ] {
        ip(&world, Side::Server, what);
    }
    // The client is beyond a router, which answers for nobody but itself.
    on(&world, Side::Client, || {
        std::fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1").expect("written");
    });
    let engine = Engine::start(&world, |_| ());
    let mut host = engine.attach(&world);
    for own in theirs {
        let (family, to): (_, IpAddr) = match own {
            IpAddr::V4(_) => ("-4", Side::Server.ipv4().into()),
            IpAddr::V6(_) => ("-6", Side::Server.ipv6().into()),
        };
        ip(&world, Side::Client, &format!("address add {own} dev lo"));
        let route = format!("{family} route replace {to} dev {client} src {own}");
        ip(&world, Side::Client, &route);
        let listener = on(&world, Side::Server, || {
            TcpListener::bind((to, 0)).expect("a port")
        });
        let port = listener.local_addr().expect("bound").port();
        host.listen(&listener);
        // Segments to the first one go nowhere until it sends its request again; then all is known.
        let mut lost = Vec::new();
        for _ in 0..3 {
            let mut peer = connect(&world, SocketAddr::new(to, port));
            assert_eq!(peer.local_addr().expect("a socket").ip(), own);
            peer.write_all(b"first").expect("sent");
            let conn = host.accepted();
            assert_eq!(host.receive(conn), b"first");
            host.send(conn, b"there", 5);
            assert_eq!(read(&mut peer, 5), b"there");
            host.completions.clear();
            lost.push(engine.dropped("unreachable"));
        }
        assert!(lost[0] > 0.0, "there is no route");
        assert_eq!(lost[0], lost[2]);
    }
}
