//! What is known of the engine, and of the way to a destination.

use std::ffi::c_char;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use libc::{c_int, sockaddr, sockaddr_storage, socklen_t};
use native::{Errno, Neighbour};

use crate::context::ObContext;
use crate::{address, code, number};

/// `ob_engine`.
#[repr(C)]
pub struct ObEngine {
    attached: u32,
    protocol: u32,
    interface: u32,
    mtu: u32,
    local: u32,
    accept_backlog: u32,
    connections: u64,
    most_connections: u64,
    send_area: u64,
    send_free: u64,
    receive_area: u64,
    name: [c_char; 32],
    congestion: [c_char; 16],
}

// As outboard.h says.
const _: () = assert!(size_of::<ObEngine>() == 112);
const _: () = assert!(size_of::<ObWay>() == 272);

/// `ob_way`.
#[repr(C)]
pub struct ObWay {
    next_hop: sockaddr_storage,
    source: sockaddr_storage,
    state: u32,
    mtu: u32,
    hardware: [u8; 8],
}

/// A text as C has it: what fits, and a 0.
fn text<const N: usize>(from: &str) -> [c_char; N] {
    let mut text = [0; N];
    for (to, from) in text[..N - 1].iter_mut().zip(from.bytes()) {
        *to = from as c_char;
    }
    text
}

/// See outboard.h.
///
/// # Safety
/// `context` is NULL or a context, `out` NULL or room for the facts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_ctl(context: *const ObContext, out: *mut ObEngine) -> c_int {
    // SAFETY: as the caller promises.
    let Some(context) = (unsafe { context.as_ref() }).filter(|_| !out.is_null()) else {
        return number(Errno::INVAL);
    };
    code(context.0.engine().map(|engine| {
        let engine = engine.unwrap_or_default();
        let told = ObEngine {
            attached: engine.is_attached.into(),
            protocol: engine.protocol,
            interface: engine.interface,
            mtu: engine.facts.mtu,
            local: engine.local.into(),
            accept_backlog: engine.facts.accept_backlog,
            connections: engine.facts.connections,
            most_connections: engine.facts.most_connections,
            send_area: engine.send_area,
            send_free: engine.send_free,
            receive_area: engine.receive_area,
            name: text(&engine.facts.name),
            congestion: text(&engine.facts.congestion),
        };
        // SAFETY: `out` is room for the facts.
        unsafe { out.write(told) };
    }))
}

/// See outboard.h.
///
/// # Safety
/// `context` is NULL or a context, `address` NULL or points to `len` bytes, `out` NULL or room for a way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_neigh(
    context: *const ObContext,
    address: *const sockaddr,
    len: socklen_t,
    out: *mut ObWay,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { way(context, address, len, out, false) }
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_neigh`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_neigh_update(
    context: *const ObContext,
    address: *const sockaddr,
    len: socklen_t,
    out: *mut ObWay,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { way(context, address, len, out, true) }
}

/// Tells of a way, and has it looked at again.
///
/// # Safety
/// As for [`ob_neigh`].
unsafe fn way(
    context: *const ObContext,
    remote: *const sockaddr,
    len: socklen_t,
    out: *mut ObWay,
    doubted: bool,
) -> c_int {
    // SAFETY: as the caller promises.
    let (context, remote) = unsafe { (context.as_ref(), address::read(remote, len)) };
    let Some(context) = context.filter(|_| !out.is_null()) else {
        return number(Errno::INVAL);
    };
    code(remote.and_then(|remote| {
        let way = context.0.way(remote.ip(), doubted)?;
        let interface = match [way.next_hop, way.source].iter().any(is_of_link) {
            true => context.0.engine()?.unwrap_or_default().interface,
            false => 0,
        };
        let mut hardware = [0; 8];
        hardware[..6].copy_from_slice(&way.hardware.unwrap_or_default());
        // SAFETY: `out` is room for a way, whose bytes may be anything. All of it is written.
        unsafe {
            out.write_bytes(0, 1);
            write_address(&raw mut (*out).next_hop, on_link(way.next_hop, interface))?;
            write_address(&raw mut (*out).source, on_link(way.source, interface))?;
            (*out).state = match way.neighbour {
                Neighbour::Unknown => 0,
                Neighbour::Reachable => 1,
                Neighbour::Stale => 2,
                Neighbour::Failed => 3,
            };
            (*out).mtu = way.mtu;
            (*out).hardware = hardware;
        }
        Ok(())
    }))
}

/// Whether it holds on a link alone.
fn is_of_link(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// An address of the engine's as a program can use it: one that holds on a link alone is nobody's without it.
fn on_link(address: IpAddr, interface: u32) -> SocketAddr {
    match address {
        IpAddr::V6(v6) if is_of_link(&address) => SocketAddrV6::new(v6, 0, 0, interface).into(),
        _ => (address, 0).into(),
    }
}

/// Writes an address.
///
/// # Safety
/// `to` is room for one.
unsafe fn write_address(to: *mut sockaddr_storage, from: SocketAddr) -> Result<(), Errno> {
    let mut len = size_of::<sockaddr_storage>() as socklen_t;
    // SAFETY: there is room for as much as `len` says.
    unsafe { address::write(from, to.cast(), &raw mut len) }
}
