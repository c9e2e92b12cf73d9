//! The few questions and switches of ethtool that are needed here.
//!
//! The structures are those of `linux/ethtool.h`, which never change.

use std::io;
use std::os::fd::OwnedFd;

use super::request::InterfaceRequest;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
/// `ETH_FLAG_RXVLAN`.
const STRIPS_VLAN_TAGS: u32 = 1 << 8;
const ETH_SS_STATS: u32 = 1;
/// Counters of a driver that are looked at; one with more is not asked.
const MAX_COUNTERS: usize = 1024;
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// An offload of an interface that can be switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Checksums of received frames are taken as verified.
    ReceiveChecksum,
    /// Checksums of sent frames are left to the device.
    TransmitChecksum,
    /// Frames are sent from several buffers; segmentation needs it.
    ScatterGather,
    /// TCP segmentation.
    TcpSegmentation,
    /// Generic segmentation in the kernel.
    GenericSegmentation,
    /// Generic receive coalescing in the kernel.
    GenericReceive,
}

impl Feature {
    const fn set_command(self) -> u32 {
        match self {
            Self::ReceiveChecksum => 0x15,
            Self::TransmitChecksum => 0x17,
            Self::ScatterGather => 0x19,
            Self::TcpSegmentation => 0x1f,
            Self::GenericSegmentation => 0x24,
            Self::GenericReceive => 0x2c,
        }
    }
}

#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    /// Versions, addresses and lengths, which nobody asked for.
    rest: [u8; 160],
}

#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

pub(super) fn driver(control: &OwnedFd, name: &str) -> io::Result<String> {
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    call(control, name, &mut info)?;
    let text = info.driver.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let _ = info.rest;
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// Receive queues of an interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceiveQueues {
    pub(super) now: u32,
    pub(super) most: u32,
}

pub(super) fn channels(control: &OwnedFd, name: &str) -> io::Result<ReceiveQueues> {
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    call(control, name, &mut channels)?;
    Ok(ReceiveQueues {
        now: channels.rx.saturating_add(channels.combined),
        most: channels.max_rx.saturating_add(channels.max_combined),
    })
}

pub(super) fn set_feature(
    control: &OwnedFd,
    name: &str,
    feature: Feature,
    on: bool,
) -> io::Result<()> {
    let mut value = Value {
        command: feature.set_command(),
        data: u32::from(on),
    };
    call(control, name, &mut value)?;
    let _ = value.data;
    Ok(())
}

pub(super) fn strips_vlan_tags(control: &OwnedFd, name: &str) -> io::Result<bool> {
    Ok(flags(control, name)? & STRIPS_VLAN_TAGS != 0)
}

pub(super) fn strip_vlan_tags(control: &OwnedFd, name: &str, on: bool) -> io::Result<()> {
    let others = flags(control, name)? & !STRIPS_VLAN_TAGS;
    let mut flags = Value {
        command: ETHTOOL_SFLAGS,
        data: others | if on { STRIPS_VLAN_TAGS } else { 0 },
    };
    call(control, name, &mut flags)
}

fn flags(control: &OwnedFd, name: &str) -> io::Result<u32> {
    let mut flags = Value {
        command: ETHTOOL_GFLAGS,
        data: 0,
    };
    call(control, name, &mut flags)?;
    Ok(flags.data)
}

/// The answer that says how many counters there are.
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    mask: u64,
    count: u32,
}

#[repr(C)]
struct Names {
    command: u32,
    set: u32,
    count: u32,
    names: [[u8; 32]; MAX_COUNTERS],
}

#[repr(C)]
struct Values {
    command: u32,
    count: u32,
    values: [u64; MAX_COUNTERS],
}

pub(super) fn counter(control: &OwnedFd, name: &str, suffix: &str) -> io::Result<u64> {
    let mut info = SetInfo {
        command: 0x37, // ETHTOOL_GSSET_INFO
        reserved: 0,
        mask: 1 << ETH_SS_STATS,
        count: 0,
    };
    call(control, name, &mut info)?;
    // The kernel writes as many as there are, whatever room is said to be.
    let count = info.count as usize;
    if count == 0 || count > MAX_COUNTERS {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut names = Box::new(Names {
        command: ETHTOOL_GSTRINGS,
        set: ETH_SS_STATS,
        count: info.count,
        names: [[0; 32]; MAX_COUNTERS],
    });
    call(control, name, &mut *names)?;
    let mut values = Box::new(Values {
        command: ETHTOOL_GSTATS,
        count: info.count,
        values: [0; MAX_COUNTERS],
    });
    call(control, name, &mut *values)?;
    let pairs = names.names.iter().zip(values.values).take(count);
    let of_name = pairs.filter(|(name, _)| {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(32);
        name[..end].ends_with(suffix.as_bytes())
    });
    Ok(of_name.map(|(_, value)| value).sum())
}

fn call<T>(control: &OwnedFd, name: &str, argument: &mut T) -> io::Result<()> {
    let mut request = InterfaceRequest::new(name)?;
    // `argument` is borrowed until this function returns, so it outlives the ioctl.
    request.set_data((&raw mut *argument).cast());
    request.ioctl(control, SIOCETHTOOL)
}
