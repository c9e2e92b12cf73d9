//! Whether the kernel completes the checksums that it is asked to complete, on this interface.
//!
//! That it takes metadata in front of frames says nothing: where a driver wants its frames in
//! pieces (virtio-net does), Linux 6.12 sends what it is given and never looks at the metadata, and
//! the peer gets the sum of the pseudo-header alone. So it is tried once, when the device opens, by a
//! request that cannot be met: a checksum outside its frame. A kernel that looks refuses it, and
//! from then on does on this path what it does for its own TCP; one that does not look sends the
//! frame, which is addressed to the interface itself and of no protocol.

use std::io;

use super::ring::Descriptor;
use super::socket::{Socket, TX_METADATA_SIZE};

/// "Local experimental" (IEEE 802): nobody takes it for anything.
const EXPERIMENTAL: u16 = 0x88b5;
/// Bytes of the smallest frame.
const LENGTH: usize = 60;
/// How often the kernel is asked when it says that it has no room just now.
const TRIES: usize = 64;

/// What the transmit frame that is used for the proof became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The kernel looks at requests, and so completes checksums. The frame is under way.
    Honoured,
    /// It sends the frame as it is, or does not say. The frame is under way.
    Ignored,
}

/// Tries it with transmit frame 0, which must be free.
pub(super) fn checksum_requests(socket: &mut Socket, mac: [u8; 6]) -> Proof {
    write_frame(socket, mac, u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM));
    let pushed = socket.transmit.push(Descriptor {
        address: socket.umem.layout().transmit_address(0) + TX_METADATA_SIZE as u64,
        length: LENGTH as u32,
        options: libc::XDP_TX_METADATA,
    });
    debug_assert!(pushed, "the ring is empty");
    socket.transmit.publish();
    let honoured = matches!(kick(socket), Err(error) if error.raw_os_error() == Some(libc::EINVAL));
    if !honoured {
        return Proof::Ignored;
    }
    // It stays in the ring until it can be met: now nothing is asked any more.
    write_frame(socket, mac, 0);
    let _ = kick(socket);
    Proof::Honoured
}

/// Has the kernel look at the ring until it says something or there is nothing left in it.
fn kick(socket: &mut Socket) -> io::Result<()> {
    for _ in 0..TRIES {
        match socket.kick_transmit() {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {}
            Ok(()) if socket.transmit.outstanding() > 0 => {}
            result => return result,
        }
    }
    Ok(())
}

fn write_frame(socket: &mut Socket, [a, b, c, d, e, f]: [u8; 6], flags: u64) {
    // SAFETY: the kernel does not read the frame: it is not in the ring yet, or what is in the ring
    // was refused and is looked at again only when it is asked to.
    let Some(bytes) = (unsafe { socket.umem.transmit_frame(0) }) else {
        return;
    };
    let (metadata, frame) = bytes.split_at_mut(TX_METADATA_SIZE);
    metadata.fill(0);
    metadata[0..8].copy_from_slice(&flags.to_ne_bytes());
    // Both ends of the sum, far outside.
    metadata[8..12].fill(0xff);
    frame[..LENGTH].fill(0);
    frame[..12].copy_from_slice(&[a, b, c, d, e, f, a, b, c, d, e, f]);
    frame[12..14].copy_from_slice(&EXPERIMENTAL.to_be_bytes());
}
