//! Opening the interface: where the steering program runs, and the queues that are received from.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netdev::steering::{Placement, Steering};
use netdev::{Interface, Offloads, XdpDevice, xdp};

use super::{StartError, step};
use crate::config::Config;
use crate::slow::kernel::nature::{Nature, vlans_on};
use crate::slow::kernel::opener::Opener;

/// The name of the interface with this index.
fn named(index: u32) -> String {
    let name = std::net::UdpSocket::bind("127.0.0.1:0")
        .ok()
        .and_then(|socket| rustix::net::netdevice::index_to_name(socket, index).ok());
    name.unwrap_or_else(|| format!("with the index {index}"))
}

/// Several interfaces are in one network. Routes are asked for without an interface then, which is to say not in the
/// table of a VRF, and what is sent would leave by whichever other network has one.
pub(super) fn check_vrfs(interfaces: &[Interface]) -> Result<(), StartError> {
    for interface in interfaces.iter().filter(|_| interfaces.len() > 1) {
        let nature = Nature::of_interface(interface.index)
            .map_err(step("ask the kernel what the interface is"))?;
        check_vrf(&interface.name, &nature)?;
    }
    Ok(())
}

fn check_vrf(interface: &str, nature: &Nature) -> Result<(), StartError> {
    match &nature.master {
        Some((index, kind)) if kind == "vrf" => Err(StartError::InVrf {
            interface: interface.to_owned(),
            vrf: named(*index),
        }),
        _ => Ok(()),
    }
}

/// Where the steering program is to run, if it can see there what it divides, and nobody else's is there.
pub(super) fn placement(interface: &Interface) -> Result<Placement, StartError> {
    Steering::check_free(interface)?;
    let nature = Nature::of_interface(interface.index)
        .map_err(step("ask the kernel what the interface is"))?;
    let name = &interface.name;
    if !nature.has_ethernet {
        return Err(StartError::Tunnel {
            interface: name.clone(),
            kind: nature.kind,
        });
    }
    // What a VRF has keeps its addresses.
    if let Some((index, kind)) = &nature.master
        && kind != "vrf"
    {
        return Err(StartError::Port {
            interface: name.clone(),
            master: named(*index),
            kind: kind.clone(),
        });
    }
    if interface.strips_vlan_tags() {
        let vlans = vlans_on(interface.index).map_err(step("ask the kernel for VLAN devices"))?;
        if vlans.is_empty() {
            tracing::info!(
                interface = name,
                "the device takes the tags of VLANs off: it has to let no frames through of VLANs that nobody here has \
                 (rx-vlan-filter on), or to leave the tags on (rxvlan off)"
            );
        } else if interface.has_vlan_tags_as_its_peer_says() {
            let interface = name.clone();
            return Err(StartError::VlanTags { interface, vlans });
        }
    }
    if nature.gathers() {
        let kind = nature.kind.unwrap_or_default();
        tracing::warn!(
            interface = name,
            kind,
            "frames are taken where the kernel has gathered them (the generic hook), which is slower \
             than in a driver"
        );
        return Ok(Placement::Generic);
    }
    if let Some(kind) = nature.kind {
        tracing::info!(interface = name, kind, "not hardware of its own");
    }
    Ok(Placement::Auto)
}

/// Switches what the device of the interface with this index does with the tags of VLANs.
type Strip = Box<dyn Fn(u32, bool) -> io::Result<()>>;

/// Interfaces whose devices take the tags of VLANs off, and leave them on for this engine. They take them off again when
/// this goes, unless that is somebody else's to see to.
pub(super) struct TagsLeftOn {
    strip: Strip,
    /// Their indices and names.
    left_on: Vec<(u32, String)>,
}

impl TagsLeftOn {
    /// None yet. By whoever may switch devices, also when this process may do so no longer.
    pub fn by(opener: Opener) -> Self {
        Self::switching(Box::new(move |index, on| {
            Ok(opener.strip_vlan_tags(index, on)?)
        }))
    }

    fn switching(strip: Strip) -> Self {
        Self {
            strip,
            left_on: Vec::new(),
        }
    }

    /// Has the devices of all of these leave them on, if there are VLAN devices on them.
    pub fn see_to_all(&mut self, interfaces: &[Interface]) -> Result<(), StartError> {
        for interface in interfaces {
            self.see_to(interface)?;
        }
        Ok(())
    }

    fn see_to(&mut self, interface: &Interface) -> Result<(), StartError> {
        if !interface.strips_vlan_tags() {
            return Ok(());
        }
        let vlans = vlans_on(interface.index).map_err(step("ask the kernel for VLAN devices"))?;
        if vlans.is_empty() {
            return Ok(());
        }
        let name = interface.name.clone();
        let done = self.leave_on(interface.index, &name);
        if done.is_err() || interface.strips_vlan_tags() {
            let interface = name;
            return Err(StartError::VlanTags { interface, vlans });
        }
        tracing::warn!(
            interface = name,
            names = vlans.join(", "),
            "has VLAN devices on it: the device leaves the tags of VLANs on (rxvlan off) until the engine ends"
        );
        Ok(())
    }

    fn leave_on(&mut self, index: u32, name: &str) -> io::Result<()> {
        (self.strip)(index, false)?;
        self.left_on.push((index, name.to_owned()));
        Ok(())
    }

    /// The indices of those interfaces.
    pub fn indices(&self) -> Vec<u32> {
        self.left_on.iter().map(|(index, _)| *index).collect()
    }

    /// Somebody else sees to them from now on.
    pub fn hand_over(mut self) {
        self.left_on.clear();
    }
}

impl Drop for TagsLeftOn {
    fn drop(&mut self) {
        for (index, interface) in &self.left_on {
            // The engine does not start, and says why.
            if let Err(error) = (self.strip)(*index, true) {
                tracing::error!(
                    interface,
                    %error,
                    "the device goes on leaving the tags of VLANs on (ethtool -K IF rxvlan on)"
                );
            }
        }
    }
}

/// Frames that can wait on a queue however many queues there are, if so many may wait at all.
const FRAMES_A_QUEUE: u32 = 1024;

/// Opens the queues of each worker; the steering leads to them from now on.
pub(super) fn open_devices(
    interface: &Interface,
    config: &Config,
    shares: &[Vec<u32>],
    steering: &mut Steering,
) -> Result<Vec<XdpDevice>, StartError> {
    let there = interface.receive_queues;
    let count: usize = shares.iter().map(Vec::len).sum();
    let mut devices = Vec::with_capacity(shares.len());
    for (worker, queues) in shares.iter().enumerate() {
        let device = open_device(interface, config, (queues, count), |queue, socket| {
            Ok(steering.connect_queue_to(queue, socket, worker as u32)?)
        })?;
        devices.push(device);
    }
    if count < there as usize {
        let name = &interface.name;
        let served = shares.iter().flatten().map(u32::to_string);
        let served: Vec<String> = served.collect();
        tracing::warn!(
            interface = name,
            queues = there,
            served = served.join(","),
            "not all receive queues are served: new clients whose frames come to another one are \
             the kernel's, and so are all connections that programs open"
        );
    }
    Ok(devices)
}

/// Opens the queues of one worker, of `count` in all, each of which is connected as it is open.
fn open_device(
    interface: &Interface,
    config: &Config,
    (queues, count): (&[u32], usize),
    mut connect: impl FnMut(u32, BorrowedFd<'_>) -> Result<(), StartError>,
) -> Result<XdpDevice, StartError> {
    // The interfaces share the frames, and its queues share those of each.
    let interfaces = config.interface.names().len().max(1);
    let share = config.receive_frames / ((count * interfaces) as u32).max(1);
    let mut device = XdpDevice::open(
        interface,
        xdp::Config {
            queue: queues.first().copied().unwrap_or(0),
            receive_frames: share.max(FRAMES_A_QUEUE.min(config.receive_frames)),
            offloads: offloads(config),
            ..xdp::Config::default()
        },
    )?;
    connect(device.queue(), device.as_fd())?;
    for &queue in queues.iter().skip(1) {
        let socket = device.open_queue(queue)?;
        connect(queue, socket)?;
    }
    Ok(device)
}

fn offloads(config: &Config) -> Offloads {
    Offloads {
        transmit_checksum: config.offload.transmit_checksum,
        receive_partial_checksum: config.offload.receive_checksum,
        segmentation: config.offload.segmentation,
        scatter_gather: config.offload.scatter_gather,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Who is started again every second would take the link of some devices down as often.
    #[test]
    fn tags_are_taken_off_again_by_a_device_unless_somebody_else_sees_to_that() {
        for handed in [false, true] {
            let switched: Arc<Mutex<Vec<(u32, bool)>>> = Arc::default();
            let log = Arc::clone(&switched);
            let mut tags = TagsLeftOn::switching(Box::new(move |index, on| {
                // The third can do nothing else.
                if index == 3 {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                log.lock().expect("no panic").push((index, on));
                Ok(())
            }));
            for index in [1, 2] {
                tags.leave_on(index, "near").expect("it can");
            }
            tags.leave_on(3, "far").expect_err("it cannot");
            assert_eq!(tags.indices(), [1, 2]);
            match handed {
                true => tags.hand_over(),
                false => drop(tags),
            }
            let mut expected = vec![(1, false), (2, false)];
            expected.extend([(1, true), (2, true)].iter().filter(|_| !handed));
            assert_eq!(*switched.lock().expect("no panic"), expected);
        }
    }

    /// Not every kernel can make a VRF.
    #[test]
    fn what_is_in_a_vrf_is_refused_in_words() {
        // Loopback's index in every namespace.
        let in_a = |kind: &str| Nature {
            master: Some((1, kind.to_owned())),
            ..Nature::default()
        };
        let refused = check_vrf("eth1", &in_a("vrf")).expect_err("refused");
        let refused = refused.to_string();
        assert!(refused.starts_with("eth1 is in the VRF lo, "), "{refused}");
        // Of a port of a bridge something else is said.
        for nature in [Nature::default(), in_a("bridge")] {
            check_vrf("eth1", &nature).expect("its routes are in the main table");
        }
    }
}
