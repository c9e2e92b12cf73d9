//! Which connections the kernel already has on a port (sock_diag(7)): while there are any, the
//! port is steered as a mixed one and those connections stay the kernel's.

use super::netlink::{Netlink, Request, SOCK_DIAG};

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
        let mut request = Request::new(SOCK_DIAG_BY_FAMILY, &body);
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
