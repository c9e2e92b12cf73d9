//! What all AF_PACKET sockets have in common.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::interface::Interface;
use crate::syscalls::set_socket_option;

/// A non-blocking socket for whole frames. It receives nothing until it is bound to a protocol.
pub(super) fn new_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made and that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to an interface, and to frames of a protocol: an EtherType, `ETH_P_ALL`, or 0 for none.
pub(super) fn bind(fd: &OwnedFd, interface: &Interface, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data for which all zeros is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface.index as i32;
    // SAFETY: the address is a sockaddr_ll of the length given, alive during the call.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Has a socket receive nothing ever again, whatever it is bound to: the kernel asks for no privilege when one that is
/// open is bound to another interface. What it sends is not filtered.
pub(super) fn only_send(fd: &OwnedFd) -> io::Result<()> {
    // SO_ATTACH_FILTER: of each frame no byte is accepted.
    let mut nothing = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut nothing,
    };
    set_socket_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1)
}

/// Sets an integer option.
pub(super) fn set_option(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: i32,
) -> io::Result<()> {
    set_socket_option(fd, level, option, &value)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::Duration;

    use super::*;

    fn received(fd: &OwnedFd) -> Result<usize, io::ErrorKind> {
        let mut file = File::from(fd.try_clone().expect("a descriptor"));
        file.read(&mut [0; 64]).map_err(|error| error.kind())
    }

    #[test]
    fn what_only_sends_hears_nothing_wherever_it_is_bound() {
        let (Ok(hears), Ok(sends)) = (new_socket(), new_socket()) else {
            eprintln!("skipped: needs CAP_NET_RAW");
            return;
        };
        only_send(&sends).expect("a filter");
        let loopback = Interface::find("lo").expect("every namespace has a loopback");
        for fd in [&hears, &sends] {
            bind(fd, &loopback, libc::ETH_P_ALL as u16).expect("bound");
        }
        let by = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let to = by.local_addr().expect("it is bound");
        by.send_to(b"word", to).expect("sent");
        // Loopback may deliver a little later. What hears shows that both have been asked.
        let heard = (0..5_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            received(&hears).is_ok()
        });
        assert!(heard);
        assert_eq!(received(&sends), Err(io::ErrorKind::WouldBlock));
        let detached = set_option(&sends, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0);
        let refused = detached.expect_err("it is locked").kind();
        assert_eq!(refused, io::ErrorKind::PermissionDenied);
    }
}
