//! What the kernel says about a network interface.

mod addresses;
mod below;
mod ethtool;
mod netlink;
mod request;
mod vlan_tags;
mod xdp;

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

pub use addresses::await_ipv6;
pub use ethtool::Feature;
pub use request::NAME_MAX;
pub use vlan_tags::VlanTags;
pub use xdp::{AttachedProgram, XdpMode};

use request::InterfaceRequest;

/// A network interface of the caller's network namespace, as it was when it was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its link-layer address.
    pub mac: [u8; 6],
    /// Bytes of the largest IP packet it carries.
    pub mtu: usize,
    /// The name of its driver (`veth`, `virtio_net`, ...); empty if it has none.
    pub driver: String,
    /// Receive queues, at least 1.
    pub receive_queues: u32,
}

impl Interface {
    /// Looks an interface up by name.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name; otherwise what the system call said.
    pub fn find(name: &str) -> io::Result<Self> {
        let control = control_socket()?;
        let index = index_of(name)?;
        let mut request = InterfaceRequest::new(name)?;
        request.ioctl(&control, libc::SIOCGIFMTU)?;
        let mtu = request.integer();
        request.ioctl(&control, libc::SIOCGIFHWADDR)?;
        let mac = request.hardware_address();
        Ok(Self {
            name: name.to_owned(),
            index,
            mac,
            mtu: usize::try_from(mtu).unwrap_or(0),
            driver: ethtool::driver(&control, name).unwrap_or_default(),
            receive_queues: ethtool::channels(&control, name).map_or(1, |c| c.now.max(1)),
        })
    }

    /// Whether frames can arrive on it with only a partial checksum.
    ///
    /// Such frames were never on a wire: the other end is a kernel on this machine, which left the
    /// checksum to a device that never was; or one beside this virtual machine, whose host passes them on as
    /// they are. A bridge passes them on from its ports, and what stands on such an interface (a VLAN's device,
    /// a bond) has them from there. A driver with an XDP program in it has its host complete them.
    pub fn delivers_partial_checksums(&self) -> bool {
        match self.driver.as_str() {
            "veth" | "tun" | "bridge" => true,
            // The latter is Xen's.
            "virtio_net" | "vif" => !self.has_native_program(),
            _ => self.stands_on_partial_checksums(),
        }
    }

    fn has_native_program(&self) -> bool {
        let attached = self.attached_program().ok().flatten();
        attached.is_some_and(|program| program.mode == Some(XdpMode::Native))
    }

    /// Whether it is the loopback.
    pub fn is_loopback(&self) -> bool {
        self.driver.is_empty() && self.name == "lo"
    }

    /// How many receive queues it has now.
    ///
    /// # Errors
    /// What the system call said; `EOPNOTSUPP` if the driver does not say.
    pub fn count_receive_queues(&self) -> io::Result<u32> {
        let channels = ethtool::channels(&control_socket()?, &self.name)?;
        Ok(channels.now)
    }

    /// How many receive queues it can have (`ethtool -L`); as many as it has if the driver does not
    /// say.
    pub fn most_receive_queues(&self) -> u32 {
        let channels = control_socket().and_then(|control| ethtool::channels(&control, &self.name));
        let most = channels.map_or(0, |channels| channels.most);
        most.max(self.receive_queues)
    }

    /// Its IP addresses, as they are now.
    ///
    /// # Errors
    /// What the system call said.
    pub fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        addresses::of_interface(&self.name)
    }

    /// Its broadcast addresses, as they are now.
    ///
    /// # Errors
    /// What the system call said.
    pub fn broadcasts(&self) -> io::Result<Vec<Ipv4Addr>> {
        addresses::broadcasts(&self.name)
    }

    /// A counter of its driver, summed over queues: all those whose names end in `suffix`. 0 if
    /// there is none.
    ///
    /// # Errors
    /// What the system call said; `EOPNOTSUPP` if the driver has no counters.
    pub fn driver_counter(&self, suffix: &str) -> io::Result<u64> {
        ethtool::counter(&control_socket()?, &self.name, suffix)
    }

    /// The XDP program that is attached to it.
    ///
    /// # Errors
    /// What netlink said.
    pub fn attached_program(&self) -> io::Result<Option<AttachedProgram>> {
        xdp::attached_program(self.index)
    }

    /// Switches an offload of the interface on or off (needs CAP_NET_ADMIN).
    ///
    /// # Errors
    /// What the system call said; `EOPNOTSUPP` if the driver has no such switch.
    pub fn set_feature(&self, feature: Feature, on: bool) -> io::Result<()> {
        ethtool::set_feature(&control_socket()?, &self.name, feature, on)
    }
}

fn control_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        flags,
        None,
    )?)
}

fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the argument is a string that ends in a zero byte and lives during the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::ENODEV) {
                let message = "there is no such interface here; `ip link` lists those that are";
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            }
            Err(error)
        }
        index => Ok(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_nonsense_is_not() {
        let loopback = Interface::find("lo").expect("every namespace has a loopback");
        assert_eq!(loopback.mac, [0; 6]);
        assert!(loopback.mtu >= 1500);
        assert_eq!(loopback.receive_queues, 1);
        assert!(loopback.attached_program().expect("netlink").is_none());
        for name in ["", "no-such-iface", "a-name-that-is-much-too-long", "nul\0"] {
            assert!(Interface::find(name).is_err(), "{name:?}");
        }
        let error = Interface::find("no-such-iface").expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
