//! The three blocks of pcapng that a capture consists of: section header, interface description and
//! enhanced packets (draft-ietf-opsawg-pcapng). Why they are written by hand: see
//! docs/decisions/pcapng-by-hand.md.
//!
//! Every block is its type, its length, a body padded to 32 bits, and its length again, in the byte
//! order of the machine, which the section header tells. Options are a code, a length and a value,
//! padded likewise.

use super::{Direction, Frame};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;

const OPTION_COMMENT: u16 = 1;
const SECTION_USER_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_TIME_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const PACKET_DROP_COUNT: u16 = 4;

/// Writes what stands before the first packet.
pub(super) fn begin(out: &mut Vec<u8>, interfaces: &[String]) {
    block(out, SECTION_HEADER, |out| {
        out.extend(BYTE_ORDER_MAGIC.to_ne_bytes());
        // Version 1.0.
        out.extend([1u16.to_ne_bytes(), 0u16.to_ne_bytes()].concat());
        // The section's length is not known.
        out.extend(u64::MAX.to_ne_bytes());
        option(out, SECTION_USER_APPLICATION, b"outboard");
        end_of_options(out);
    });
    for interface in interfaces {
        block(out, INTERFACE, |out| {
            out.extend([LINKTYPE_ETHERNET.to_ne_bytes(), [0; 2]].concat());
            // Frames are not cut short.
            out.extend(0u32.to_ne_bytes());
            option(out, INTERFACE_NAME, interface.as_bytes());
            // Nanoseconds: 10⁻⁹.
            option(out, INTERFACE_TIME_RESOLUTION, &[9]);
            end_of_options(out);
        });
    }
}

/// An enhanced packet block.
pub(super) struct Packet<'a> {
    /// Nanoseconds since 1970.
    pub(super) time: u64,
    pub(super) frame: &'a Frame<'a>,
    /// Frames that were left out just before this one.
    pub(super) lost: u64,
}

impl Packet<'_> {
    /// No less than what [`write`](Self::write) writes, in bytes.
    pub(super) fn len(&self) -> usize {
        // The fixed parts of the block and of all options, and their padding.
        const REST: usize = 96;
        REST + self.frame_len() + self.frame.dropped.map_or(0, str::len)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        block(out, PACKET, |out| {
            // A frame is never longer than an IP packet and its Ethernet header.
            let len = self.frame_len() as u32;
            out.extend(u32::from(self.frame.nic.0).to_ne_bytes());
            out.extend(((self.time >> 32) as u32).to_ne_bytes());
            out.extend((self.time as u32).to_ne_bytes());
            // What was captured, and what it was.
            out.extend(len.to_ne_bytes());
            out.extend(len.to_ne_bytes());
            out.extend_from_slice(self.frame.head);
            for piece in self.frame.payload {
                let at = out.len();
                out.resize(at + piece.len(), 0);
                queue_pair::copy_out(piece, &mut out[at..]);
            }
            pad(out);
            self.write_options(out);
        });
    }

    fn write_options(&self, out: &mut Vec<u8>) {
        let direction: u32 = match self.frame.direction {
            Direction::In => 1,
            Direction::Out => 2,
        };
        option(out, PACKET_FLAGS, &direction.to_ne_bytes());
        if self.lost != 0 {
            option(out, PACKET_DROP_COUNT, &self.lost.to_ne_bytes());
        }
        if let Some(reason) = self.frame.dropped {
            option(
                out,
                OPTION_COMMENT,
                &[b"dropped: ", reason.as_bytes()].concat(),
            );
        }
        end_of_options(out);
    }

    fn frame_len(&self) -> usize {
        let payload: usize = self.frame.payload.iter().map(|piece| piece.len()).sum();
        self.frame.head.len() + payload
    }
}

/// A block around what `body` writes, which is padded.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_ne_bytes());
    out.extend([0; 4]);
    body(out);
    // A block is at most a frame and some options long.
    let len = ((out.len() - start + 4) as u32).to_ne_bytes();
    out[start + 4..start + 8].copy_from_slice(&len);
    out.extend(len);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_ne_bytes());
    // Values are names, numbers and reasons.
    out.extend((value.len() as u16).to_ne_bytes());
    out.extend_from_slice(value);
    pad(out);
}

fn end_of_options(out: &mut Vec<u8>) {
    out.extend([0; 4]);
}

/// Pads to 32 bits; all blocks begin at a multiple of that.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}
