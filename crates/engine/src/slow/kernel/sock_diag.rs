//! What the kernel says of its TCP sockets (sock_diag(7)): how many connections it already has on a
//! port, which stay its own; and which sockets listen, as long as one does that was shown as proof. And how many it may
//! get of which no socket tells.

use std::collections::HashMap;

use super::netlink::{Netlink, RequestMessage, SOCK_DIAG, u32_at};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const IPPROTO_TCP: u8 = 6;
/// Length of `struct inet_diag_req_v2`.
const REQUEST_LEN: usize = 56;
/// Length of `struct inet_diag_msg`.
const ANSWER_LEN: usize = 72;
const TCP_LISTEN: u8 = 10;
const TCP_CLOSE: u8 = 7;
/// Every state but LISTEN and CLOSE: what receives segments on behalf of a peer. TIME-WAIT and
/// SYN-RECEIVED (TCP_NEW_SYN_RECV, 12) count: their peers may still send.
const STATES: u32 = 0x1fff & !(1 << TCP_LISTEN) & !(1 << TCP_CLOSE) & !1;

/// All sockets that listen in this network namespace: their cookies (SO_COOKIE), and the index of the interface
/// that each is bound to, 0 for none.
pub fn listening_sockets() -> rustix::io::Result<HashMap<u64, u32>> {
    let mut netlink = Netlink::open(SOCK_DIAG)?;
    let mut sockets = HashMap::new();
    for family in [2u8, 10] {
        let mut body = [0u8; REQUEST_LEN];
        body[0] = family;
        body[1] = IPPROTO_TCP;
        body[4..8].copy_from_slice(&(1u32 << TCP_LISTEN).to_ne_bytes());
        let mut request = RequestMessage::new(SOCK_DIAG_BY_FAMILY, &body);
        netlink.dump(&mut request, |message| {
            if let Some((answer, _)) = message.split::<ANSWER_LEN>() {
                // Two halves, the lower one first.
                let half = |at: usize| u32_at(answer, at).map_or(0, u64::from);
                let interface = u32_at(answer, 40).unwrap_or(0);
                sockets.insert(half(44) | half(48) << 32, interface);
            }
        })?;
    }
    Ok(sockets)
}

/// How many connections the kernel has whose local port is `port`, over both families.
pub fn kernel_connections(port: u16) -> rustix::io::Result<usize> {
    let mut netlink = Netlink::open(SOCK_DIAG)?;
    let mut count = 0;
    for family in [2u8, 10] {
        let mut body = [0u8; REQUEST_LEN];
        body[0] = family;
        body[1] = IPPROTO_TCP;
        body[4..8].copy_from_slice(&STATES.to_ne_bytes());
        // The socket id starts at 8; its first field is the local port, which the kernel filters
        // by when it dumps.
        body[8..10].copy_from_slice(&port.to_be_bytes());
        let mut request = RequestMessage::new(SOCK_DIAG_BY_FAMILY, &body);
        netlink.dump(&mut request, |message| {
            if let Some((answer, _)) = message.split::<ANSWER_LEN>() {
                let local = u16::from_be_bytes([answer[4], answer[5]]);
                let here = stays_here(family, &answer[8..24], &answer[24..40]);
                count += usize::from(local == port && !here);
            }
        })?;
    }
    Ok(count)
}

/// How many SYN cookies the kernel has sent in this network namespace; `None` if it does not say.
pub fn cookies_sent() -> Option<u64> {
    let said = std::fs::read_to_string("/proc/thread-self/net/netstat").ok()?;
    counter(&said, "TcpExt:", "SyncookiesSent")
}

/// A counter of /proc/net/netstat, which has a line of names and one of values for each group.
fn counter(said: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = said.lines().filter(|line| line.starts_with(group));
    let (mut names, mut values) = (lines.next()?.split(' '), lines.next()?.split(' '));
    let at = names.position(|its| its == name)?;
    values.nth(at)?.parse().ok()
}

/// Whether a connection never crosses an interface: from loopback, or from an address to itself.
fn stays_here(family: u8, local: &[u8], remote: &[u8]) -> bool {
    match family {
        2 => local[0] == 127 || local[..4] == remote[..4],
        _ => {
            let loopback = local[15] == 1 && local[..15].iter().all(|byte| *byte == 0);
            loopback || local == remote
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_listening_socket_is_known_by_its_cookie_until_it_is_closed() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let cookie = netdev::syscalls::socket_cookie(&listener).expect("a cookie");
            let known = || listening_sockets().expect("an answer").remove(&cookie);
            assert_eq!(known(), Some(0));
            // Loopback's index in every namespace; binding to it takes no privilege.
            let (socket, bind_to_index, index) = (1, 62, 1_i32.to_ne_bytes());
            netdev::syscalls::set_socket_option_bytes(&listener, socket, bind_to_index, &index)
                .expect("SO_BINDTOIFINDEX");
            assert_eq!(known(), Some(1));
            drop(listener);
            assert_eq!(known(), None);
        }
    }

    #[test]
    fn the_kernel_says_how_many_cookies_it_has_sent() {
        assert!(cookies_sent().is_some());
        let said = "TcpExt: A SyncookiesSent B\nTcpExt: 1 23 4\nIpExt: A\nIpExt: 7\n";
        assert_eq!(counter(said, "TcpExt:", "SyncookiesSent"), Some(23));
        assert_eq!(counter(said, "IpExt:", "A"), Some(7));
        assert_eq!(counter(said, "TcpExt:", "C"), None);
    }

    #[test]
    fn a_listener_alone_does_not_count() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
        let port = listener.local_addr().expect("bound").port();
        assert_eq!(kernel_connections(port), Ok(0));
        let _client = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        assert_eq!(
            kernel_connections(port),
            Ok(0),
            "loopback never crosses an interface"
        );
    }
}
