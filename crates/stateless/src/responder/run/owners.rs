//! Who listens on a port: the kernel's list of listening sockets, and whose they are.
//!
//! What an engine serves has a listening socket of the kernel's as well, so it is found here, too.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::options::covers;
use super::{Listen, StartError, step};

/// A listening socket.
#[derive(Debug, PartialEq, Eq)]
struct Listener {
    address: SocketAddr,
    inode: u64,
}

/// Refuses what somebody listens on.
///
/// # Errors
/// [`StartError::Taken`], with who it is.
pub fn refuse_taken(listen: &[Listen]) -> Result<(), StartError> {
    for file in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"] {
        let table = match fs::read_to_string(file) {
            // A kernel without IPv6.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            table => table.map_err(step("list the kernel's listeners"))?,
        };
        for listener in table.lines().skip(1).filter_map(parse) {
            let (ip, port) = (listener.address.ip(), listener.address.port());
            let taken = |listen: &Listen| {
                listen.ports.contains(&port) && covers(listen.address, ip.to_canonical())
            };
            // The loopback's addresses are nobody's on another interface.
            let elsewhere = |listen: &Listen| listen.address.is_none() && ip.is_loopback();
            if listen
                .iter()
                .any(|listen| taken(listen) && !elsewhere(listen))
            {
                return Err(StartError::Taken {
                    port,
                    address: listener.address,
                    owner: owner(listener.inode),
                });
            }
        }
    }
    Ok(())
}

/// A line of the table, if it is of a socket that listens.
fn parse(line: &str) -> Option<Listener> {
    let mut words = line.split_whitespace().skip(1);
    let (address, port) = words.next()?.split_once(':')?;
    let state = words.nth(1)?;
    if state != "0A" {
        return None;
    }
    let inode = words.nth(5)?.parse().ok()?;
    // Words of 32 bits, each as the machine has it.
    let word = |index: usize| {
        let digits = address.get(index * 8..index * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok()
    };
    let ip: IpAddr = if address.len() == 8 {
        Ipv4Addr::from(word(0)?.to_ne_bytes()).into()
    } else {
        let mut bytes = [0; 16];
        for index in 0..4 {
            bytes[index * 4..index * 4 + 4].copy_from_slice(&word(index)?.to_ne_bytes());
        }
        Ipv6Addr::from(bytes).into()
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(Listener {
        address: SocketAddr::new(ip, port),
        inode,
    })
}

/// The process that has a socket open: its name and number.
fn owner(inode: u64) -> String {
    let wanted = format!("socket:[{inode}]");
    let has = |pid: &str| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        descriptors
            .flatten()
            .any(|entry| fs::read_link(entry.path()).is_ok_and(|link| *link == *wanted))
            .then_some(())
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let pid = process.file_name().to_string_lossy().into_owned();
        if pid.bytes().all(|byte| byte.is_ascii_digit()) && has(&pid).is_some() {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            return format!("{} (process {pid})", name.trim());
        }
    }
    "a process that cannot be seen from here".into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_is_found_with_its_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let on = |address: Option<IpAddr>, port| {
            refuse_taken(&[Listen {
                address,
                ports: port..=port,
            }])
        };
        let error = on(Some(address.ip()), address.port()).expect_err("taken");
        let said = error.to_string();
        assert!(
            said.contains(&format!("process {}", std::process::id())),
            "{said}"
        );
        assert!(said.contains(&address.to_string()), "{said}");
        // Another address of the same port is free.
        let other = Ipv4Addr::new(192, 0, 2, 1).into();
        on(Some(other), address.port()).expect("free");
        drop(listener);
        on(Some(address.ip()), address.port()).expect("free again");
    }

    #[test]
    fn lines_that_are_none_are_passed_over() {
        for line in [
            "",
            "0: x",
            "0: 0100007F:1F90 00000000:0000 01",
            "0: 01:1 0:0 0A",
        ] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }
}
