//! A TUN or TAP device: the other end of it is this program, which gets the IP datagrams or Ethernet
//! frames that the kernel sends and makes up those that the kernel receives. For tests that talk to
//! the kernel's TCP, or are the wire themselves.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Moves the calling thread, and only this one, into a network namespace of its own. The namespace
/// goes when the last thread and socket in it have gone.
///
/// # Errors
/// `EPERM` without the right to.
pub fn enter_private_network() -> io::Result<()> {
    // SAFETY: file descriptors stay shared with the other threads; only the network changes.
    let left = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
    Ok(left?)
}

/// A TUN or TAP device of the namespace that it was opened in. It goes when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// Makes the device `name`: layer 3, no header before the datagrams, never blocking. It has no
    /// address and is down.
    ///
    /// # Errors
    /// What the system calls said; `EPERM` without the right to.
    pub fn open(name: &str) -> io::Result<Tun> {
        Self::make(name, libc::IFF_TUN)
    }

    /// The same of layer 2: a TAP device, whose datagrams are Ethernet frames.
    ///
    /// # Errors
    /// What the system calls said; `EPERM` without the right to.
    pub fn open_tap(name: &str) -> io::Result<Tun> {
        Self::make(name, libc::IFF_TAP)
    }

    fn make(name: &str, kind: libc::c_int) -> io::Result<Tun> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")?;
        // SAFETY: ifreq is plain data for which all zeros is a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF takes an ifreq, which is exclusively ours during the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Tun { file })
    }

    /// The next datagram that the kernel has sent, into `buffer`; its length, or `None` if there is
    /// none now. What is longer than the buffer is cut.
    ///
    /// # Errors
    /// What the system call said.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets the kernel receive a datagram.
    ///
    /// # Errors
    /// What the system call said.
    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        (&self.file).write_all(datagram)
    }
}

/// Readable when a datagram is there.
impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
