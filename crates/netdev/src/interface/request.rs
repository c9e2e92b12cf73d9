//! Asking the kernel about an interface by name.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Longest interface name, without its terminating zero.
pub const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// The argument of the ioctls that take an interface by name.
pub(super) struct InterfaceRequest(libc::ifreq);

impl InterfaceRequest {
    pub(super) fn new(name: &str) -> io::Result<Self> {
        if name.len() > NAME_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: ifreq is plain data for which all zeros is a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Self(request))
    }

    pub(super) fn ioctl(&mut self, control: &OwnedFd, command: libc::Ioctl) -> io::Result<()> {
        // SAFETY: all commands used here take an ifreq, which is exclusively ours; where one
        // carries a pointer (SIOCETHTOOL), its owner keeps it alive across this call.
        let result = unsafe { libc::ioctl(control.as_raw_fd(), command, &raw mut self.0) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    pub(super) fn integer(&self) -> i32 {
        // SAFETY: every bit pattern of the union is a valid integer.
        unsafe { self.0.ifr_ifru.ifru_mtu }
    }

    pub(super) fn hardware_address(&self) -> [u8; 6] {
        // SAFETY: every bit pattern of the union is a valid sockaddr.
        let address = unsafe { self.0.ifr_ifru.ifru_hwaddr };
        std::array::from_fn(|index| address.sa_data[index] as u8)
    }

    pub(super) fn set_data(&mut self, data: *mut libc::c_void) {
        self.0.ifr_ifru.ifru_data = data.cast();
    }
}
