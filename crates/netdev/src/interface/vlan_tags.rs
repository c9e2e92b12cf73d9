//! What an interface's device does with the tags of VLANs: it takes them off, or leaves them on.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netdevice::index_to_name;

use super::{Interface, control_socket, ethtool};

/// A switch for that, for who can open no socket later on.
#[derive(Debug)]
pub struct VlanTags {
    control: OwnedFd,
    /// Its name may be another's by now.
    index: u32,
    driver: String,
}

impl VlanTags {
    /// Of the interface with this index.
    ///
    /// # Errors
    /// What the system call said.
    pub fn of_index(index: u32) -> io::Result<Self> {
        let control = control_socket()?;
        let name = index_to_name(&control, index)?;
        let driver = ethtool::driver(&control, &name).unwrap_or_default();
        Ok(Self {
            control,
            index,
            driver,
        })
    }

    /// Has them taken off, or left on the frames (needs CAP_NET_ADMIN).
    ///
    /// # Errors
    /// What the system call said, if the driver cannot do otherwise; `Unsupported` of a veth, whose frames have
    /// their tags beside them or not as the other end has it.
    pub fn strip(&self, on: bool) -> io::Result<()> {
        if is_for_the_peer(&self.driver) {
            let message = "of a veth, its other end decides (txvlan off there)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let name = index_to_name(&self.control, self.index)?;
        ethtool::strip_vlan_tags(&self.control, &name, on)
    }
}

impl Interface {
    /// Whether its device takes the tags of VLANs off before anybody sees a frame (`rxvlan`): XDP then sees
    /// frames of VLANs as if they had none. False if the driver does not say.
    pub fn strips_vlan_tags(&self) -> bool {
        control_socket()
            .and_then(|control| ethtool::strips_vlan_tags(&control, &self.name))
            .unwrap_or(false)
    }

    /// Whether that is for its other end to say.
    pub fn has_vlan_tags_as_its_peer_says(&self) -> bool {
        is_for_the_peer(&self.driver)
    }

    /// As [`VlanTags::strip`].
    ///
    /// # Errors
    /// As there.
    pub fn strip_vlan_tags(&self, on: bool) -> io::Result<()> {
        VlanTags::of_index(self.index)?.strip(on)
    }
}

fn is_for_the_peer(driver: &str) -> bool {
    driver == "veth"
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::{Side, World};

    #[test]
    fn it_is_the_interface_whatever_its_name_is_by_now() {
        if lab::skip_without_root("it_is_the_interface_whatever_its_name_is_by_now") {
            return;
        }
        let world = World::new().expect("a private network");
        let tags = world.on(Side::Server, || {
            let loopback = Interface::find("lo")?;
            Ok(VlanTags::of_index(loopback.index)?)
        });
        let tags = tags.expect("every namespace has a loopback");
        for what in ["down", "name renamed0"] {
            let set = world.ip(Side::Server, &format!("link set lo {what}"));
            set.expect("it is nobody else's");
        }
        // It leaves them on in any case.
        tags.strip(false).expect("nothing is changed");
    }
}
