//! What is done about neighbours for whoever asks, on a real link: nobody who may ask can say who an address is.

use std::net::{IpAddr, Ipv4Addr};

use engine::opener::Opener;
use lab::{Side, World};
use netdev::Interface;
use rustix::io::Errno;
use wire::ethernet::MacAddr;

/// Of whoever asks.
const ANOTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x66]);
/// What the kernel has.
const ITS: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

/// An address on the link that nobody has.
fn nobody(last: u8) -> Ipv4Addr {
    let [a, b, c, _] = Side::Client.ipv4().octets();
    Ipv4Addr::new(a, b, c, last)
}

#[test]
fn who_asks_for_everything_changes_no_neighbour() {
    if lab::skip_without("who_asks_for_everything_changes_no_neighbour", &["ip"]) {
        return;
    }
    let world = World::new().expect("a private network");
    world.enter(Side::Server).expect("the server's side");
    let device = Side::Server.interface();
    let index = Interface::find(device).expect("it is there").index;
    let opener = Opener::here(&[index]).expect("netlink");
    let ip = |words: &str| {
        let ip = world.program(Side::Server, "ip").args(words.split(' '));
        ip.output().expect("ip")
    };
    let known = |address: Ipv4Addr| ip(&format!("neigh show {address} dev {device}"));
    let probe = |address| opener.probe(index, IpAddr::V4(address));
    let confirm = |address, mac| opener.confirm(index, IpAddr::V4(address), mac);

    // One of which nothing is known, that is asked for and confirmed at once.
    let silent = nobody(77);
    assert_eq!(confirm(silent, ANOTHER), Err(Errno::ACCESS));
    assert_eq!(known(silent).trim(), "", "no entry is made");
    probe(silent).expect("it is asked for");
    assert_eq!(confirm(silent, ANOTHER), Err(Errno::ACCESS));
    assert!(!known(silent).contains("lladdr"), "{}", known(silent));

    // One that an administrator has set.
    let fixed = nobody(78);
    ip(&format!(
        "neigh replace {fixed} lladdr 02:00:00:00:00:07 nud permanent dev {device}"
    ));
    probe(fixed).expect("nothing is to be done");
    confirm(fixed, ITS).expect("nothing is to be done");
    assert_eq!(confirm(fixed, ANOTHER), Err(Errno::ACCESS));
    let says = known(fixed);
    assert!(says.contains("02:00:00:00:00:07 PERMANENT"), "{says}");

    // One that has not been heard of for a while.
    let stale = nobody(79);
    ip(&format!(
        "neigh replace {stale} lladdr 02:00:00:00:00:07 nud stale dev {device}"
    ));
    assert_eq!(confirm(stale, ANOTHER), Err(Errno::ACCESS));
    let says = known(stale);
    assert!(says.contains("02:00:00:00:00:07 STALE"), "{says}");
    confirm(stale, ITS).expect("it was heard of");
    let says = known(stale);
    assert!(says.contains("02:00:00:00:00:07 REACHABLE"), "{says}");
}
