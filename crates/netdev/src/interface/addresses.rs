//! The IP addresses of an interface, by getifaddrs(3).

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// The kernel takes up an address within this time, or never.
const TAKEN_UP: Duration = Duration::from_secs(60);

/// Waits until the calling thread's network takes what comes for an address of IPv6. The address is
/// listed as soon as it is added, but a worker of the kernel's makes the route to it, once the link
/// is up and the worker has had its turn: without, it can neither be bound nor reached.
///
/// # Errors
/// `TimedOut` after a minute; what reading the routes said.
pub fn await_ipv6(address: Ipv6Addr) -> io::Result<()> {
    let route = format!("{:032x} 80 ", address.to_bits());
    let began = Instant::now();
    while !std::fs::read_to_string("/proc/thread-self/net/ipv6_route")?.contains(&route) {
        if began.elapsed() > TAKEN_UP {
            let said = format!("the kernel does not take up {address}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, said));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The kernel's list, which is freed with this.
struct List(*mut libc::ifaddrs);

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: it came from getifaddrs and is freed once.
        unsafe { libc::freeifaddrs(self.0) };
    }
}

pub(super) fn of_interface(name: &str) -> io::Result<Vec<IpAddr>> {
    each(name, |entry| entry.ifa_addr)
}

/// Its broadcast addresses. A point-to-point link has its peer's address in their place.
pub(super) fn broadcasts(name: &str) -> io::Result<Vec<Ipv4Addr>> {
    let broadcast = libc::IFF_BROADCAST as libc::c_uint;
    let all = each(name, |entry| match entry.ifa_flags & broadcast {
        0 => std::ptr::null_mut(),
        _ => entry.ifa_ifu,
    })?;
    let ipv4 = |address| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    };
    Ok(all.into_iter().filter_map(ipv4).collect())
}

/// One of the addresses of each entry of an interface; `which` names a field of the entry.
fn each(
    name: &str,
    which: impl Fn(&libc::ifaddrs) -> *mut libc::sockaddr,
) -> io::Result<Vec<IpAddr>> {
    let mut list = List(std::ptr::null_mut());
    // SAFETY: the pointer is written, and nothing else.
    if unsafe { libc::getifaddrs(&raw mut list.0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut addresses = Vec::new();
    let mut at = list.0;
    while !at.is_null() {
        // SAFETY: an entry of the list, which lives until the end of this function.
        let entry = unsafe { &*at };
        // SAFETY: every entry has a name that ends in a zero byte.
        let of = unsafe { CStr::from_ptr(entry.ifa_name) };
        if of.to_bytes() == name.as_bytes() {
            // SAFETY: the address is null or one of the list's.
            addresses.extend(unsafe { address(which(entry)) });
        }
        at = entry.ifa_next;
    }
    Ok(addresses)
}

/// # Safety
/// The pointer is null, or to an address whose length is that of its family.
unsafe fn address(at: *const libc::sockaddr) -> Option<IpAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: every address begins with its family.
    match libc::c_int::from(unsafe { (*at).sa_family }) {
        libc::AF_INET => {
            // SAFETY: of this family, it is this long; the list is aligned for all of them.
            let address = unsafe { &*at.cast::<libc::sockaddr_in>() };
            let host = u32::from_be(address.sin_addr.s_addr);
            Some(Ipv4Addr::from(host).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { &*at.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_its_address() {
        let addresses = of_interface("lo").expect("a list");
        assert!(
            addresses.contains(&Ipv4Addr::LOCALHOST.into()),
            "{addresses:?}"
        );
        assert!(of_interface("no-such-iface").expect("a list").is_empty());
    }
}
