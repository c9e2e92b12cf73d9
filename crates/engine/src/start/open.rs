//! Opening the interface: where the steering program runs, and the queues that are received from.

use netdev::steering::{MAX_QUEUES, Placement, Steering};
use netdev::{Interface, Offloads, XdpDevice, xdp};

use super::{StartError, step};
use crate::config::Config;
use crate::slow::kernel::nature::{Nature, vlans_on};

/// Where the steering program is to run, if it can see there what it divides.
pub(super) fn placement(interface: &Interface) -> Result<Placement, StartError> {
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
        let master = std::net::UdpSocket::bind("127.0.0.1:0")
            .ok()
            .and_then(|socket| rustix::net::netdevice::index_to_name(socket, *index).ok());
        return Err(StartError::Port {
            interface: name.clone(),
            master: master.unwrap_or_else(|| format!("with the index {index}")),
            kind: kind.clone(),
        });
    }
    if interface.strips_vlan_tags() {
        let vlans = vlans_on(interface.index).map_err(step("ask the kernel for VLAN devices"))?;
        if !vlans.is_empty() {
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

/// Frames that can wait on a queue however many queues there are, if so many may wait at all.
const FRAMES_A_QUEUE: u32 = 1024;

/// Opens the queues, and what it takes to open those that may be added later; the steering leads to
/// them from now on.
pub(super) fn open_device(
    interface: &Interface,
    config: &Config,
    queues: &[u32],
    steering: &mut Steering,
) -> Result<XdpDevice, StartError> {
    let there = interface.receive_queues;
    let count = queues.len() as u32;
    let share = config.receive_frames / count.max(1);
    let mut device = XdpDevice::open(
        interface,
        xdp::Config {
            queue: queues.first().copied().unwrap_or(0),
            receive_frames: share.max(FRAMES_A_QUEUE.min(config.receive_frames)),
            offloads: offloads(config),
            ..xdp::Config::default()
        },
    )?;
    steering.connect_queue(device.queue(), &device)?;
    for &queue in queues.iter().skip(1) {
        let socket = device.open_queue(queue)?;
        steering.connect_queue(queue, socket)?;
    }
    if count < there {
        let name = &interface.name;
        let served: Vec<String> = queues.iter().map(u32::to_string).collect();
        tracing::warn!(
            interface = name,
            queues = there,
            served = served.join(","),
            "not all receive queues are served: new clients whose frames come to another one are \
             the kernel's, and so are all connections that programs open"
        );
    }
    // For queues that are added, or closed and opened again: what that takes is dropped after the start.
    let most = interface.most_receive_queues().min(MAX_QUEUES);
    device.reserve(most.saturating_sub(1))?;
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
