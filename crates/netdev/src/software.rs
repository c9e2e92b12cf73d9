//! What a NIC does with checksums and large segments, done in software.
//!
//! This is what the simulated device has in place of hardware.

use std::sync::atomic::{AtomicU8, Ordering};

use wire::checksum::Sum;
use wire::ethernet;

use crate::{LargeSend, PartialChecksum};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
/// Where the flags are in a TCP header.
const FLAGS_AT: usize = 13;

/// Completes a checksum whose field holds the sum of the pseudo-header.
///
/// # Panics
/// If the field is not within the frame.
pub(crate) fn complete_checksum(frame: &mut [u8], checksum: PartialChecksum) {
    let start = usize::from(checksum.start);
    let field = start + usize::from(checksum.offset);
    let sum = Sum::of(&frame[start..]).finish();
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Cuts a large segment, and hands out the frames it makes. `false` if the header is not one of
/// an IP packet with TCP where `how` says.
pub(crate) fn cut(
    header: &[u8],
    payload: &[&[AtomicU8]],
    how: LargeSend,
    mut each: impl FnMut(Vec<u8>),
) -> bool {
    let Ok((link, ip)) = ethernet::Header::parse(header) else {
        return false;
    };
    let network = link.header_len();
    let transport = usize::from(how.checksum.start);
    let smallest = if how.ipv6 { 40 } else { 20 };
    if transport < network + smallest || header.len() < transport + 20 {
        return false;
    }
    if ip[0] >> 4 != if how.ipv6 { 6 } else { 4 } {
        return false;
    }
    let total: usize = payload.iter().map(|piece| piece.len()).sum();
    let size = match how.segment_size {
        0 => total.max(1),
        size => usize::from(size),
    };
    let mut bytes = payload
        .iter()
        .flat_map(|piece| piece.iter())
        .map(|byte| byte.load(Ordering::Relaxed));
    let mut sent = 0;
    let mut number = 0;
    loop {
        let length = size.min(total - sent);
        let mut frame = header.to_vec();
        frame.extend(bytes.by_ref().take(length));
        let place = Place {
            number,
            offset: sent,
            last: sent + length == total,
        };
        fix_ip(&mut frame, network, transport, place, how.ipv6);
        fix_tcp(&mut frame, transport, place, total - length);
        complete_checksum(&mut frame, how.checksum);
        each(frame);
        sent += length;
        number += 1;
        if place.last {
            return true;
        }
    }
}

/// Where in the large segment a piece of it lies.
#[derive(Clone, Copy)]
struct Place {
    number: u16,
    offset: usize,
    last: bool,
}

fn fix_ip(frame: &mut [u8], network: usize, transport: usize, place: Place, ipv6: bool) {
    if ipv6 {
        let length = (frame.len() - network - 40) as u16;
        frame[network + 4..network + 6].copy_from_slice(&length.to_be_bytes());
        return;
    }
    let length = (frame.len() - network) as u16;
    let id = u16_at(frame, network + 4).wrapping_add(place.number);
    frame[network + 2..network + 4].copy_from_slice(&length.to_be_bytes());
    frame[network + 4..network + 6].copy_from_slice(&id.to_be_bytes());
    frame[network + 10..network + 12].fill(0);
    let sum = Sum::of(&frame[network..transport]).finish();
    frame[network + 10..network + 12].copy_from_slice(&sum.to_be_bytes());
}

/// `absent` is how much of the payload is in other pieces.
fn fix_tcp(frame: &mut [u8], transport: usize, place: Place, absent: usize) {
    let tcp = &mut frame[transport..];
    let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    let seq = seq.wrapping_add(place.offset as u32);
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    if !place.last {
        tcp[FLAGS_AT] &= !(FIN | PSH);
    }
    if place.number > 0 {
        tcp[FLAGS_AT] &= !CWR;
    }
    // The pseudo-header holds the length: subtract, in ones complement, what is not here.
    let mut pseudo = Sum::from_folded(u16_at(tcp, 16), 0);
    pseudo.add_u16(!(absent as u16));
    tcp[16..18].copy_from_slice(&pseudo.fold().to_be_bytes());
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
