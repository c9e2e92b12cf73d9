//! How many receive queues the interface has, and that it has got more or fewer (`ethtool -L`).
//!
//! The kernel tells of each queue as of any object that appears in sysfs, by a uevent to the
//! interface's network namespace.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netdev::interface::Interface;
use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// What the kernel sends itself; what udev passes on is another group.
const KERNEL: u32 = 1;
/// More than the kernel's largest.
const MESSAGE: usize = 4096;
/// Notifications that are read in one go.
const AT_ONCE: usize = 16;

/// The number of receive queues, kept true by the kernel's notifications.
#[derive(Debug)]
pub struct QueueCount {
    notifications: OwnedFd,
    known: u32,
    /// The number has not been asked for since the subscription.
    unasked: bool,
}

impl QueueCount {
    /// Of an interface as it was when it was looked up; what has changed since is to be asked for after the first
    /// [`update`](Self::update).
    pub fn of_interface(interface: &Interface) -> rustix::io::Result<Self> {
        let notifications = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(KOBJECT_UEVENT),
        )?;
        bind(&notifications, &SocketAddrNetlink::new(0, KERNEL))?;
        Ok(Self {
            notifications,
            known: interface.receive_queues,
            unasked: true,
        })
    }

    /// Reads what the kernel has announced; true if the number is to be asked for.
    pub fn update(&mut self) -> bool {
        let mut message = [0; MESSAGE];
        let mut ask = std::mem::take(&mut self.unasked);
        // As many in one go as must not keep the worker from its packets; what is left keeps the descriptor ready.
        for _ in 0..AT_ONCE {
            let length = match recv(&self.notifications, &mut message[..], RecvFlags::empty()) {
                Ok((length, _)) => length,
                Err(Errno::INTR) => continue,
                // Some were lost.
                Err(Errno::NOBUFS) => {
                    ask = true;
                    continue;
                }
                Err(_) => break,
            };
            ask |= message.get(..length).is_some_and(tells_of_queue);
        }
        ask
    }

    /// There are so many; true if that is another number than before.
    pub fn is_news(&mut self, count: u32) -> bool {
        std::mem::replace(&mut self.known, count) != count
    }
}

impl AsFd for QueueCount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

/// Whether a uevent tells of a receive queue that came or went, of whatever interface. It begins with
/// "ACTION@PATH", up to a zero byte.
fn tells_of_queue(message: &[u8]) -> bool {
    let head = message.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let path = head
        .strip_prefix(b"add@")
        .or_else(|| head.strip_prefix(b"remove@"));
    path.unwrap_or(&[])
        .windows(QUEUE.len())
        .any(|window| window == QUEUE)
}

const QUEUE: &[u8] = b"/queues/rx-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_that_come_and_go_are_told_from_everything_else() {
        let added = b"add@/devices/virtual/net/v0/queues/rx-2\0ACTION=add\0";
        assert!(tells_of_queue(added));
        let removed = b"remove@/devices/virtual/net/v0/queues/rx-2\0ACTION=remove\0";
        assert!(tells_of_queue(removed));
        for other in [
            &b"change@/devices/virtual/net/v0/queues/rx-2\0"[..],
            b"add@/devices/virtual/net/v0/queues/tx-2\0",
            b"add@/devices/virtual/net/v0\0/queues/rx-2",
            b"libudev\0\xfe\xed",
            b"",
        ] {
            assert!(!tells_of_queue(other), "{}", other.escape_ascii());
        }
    }

    #[test]
    fn what_has_changed_since_the_look_up_is_told_once() {
        let loopback = Interface::find("lo").expect("every namespace has a loopback");
        let mut queues = QueueCount::of_interface(&loopback).expect("netlink");
        assert!(queues.update(), "it is asked for once");
        assert!(!queues.is_news(loopback.receive_queues));
        assert!(queues.is_news(7));
        assert!(!queues.is_news(7));
    }
}
