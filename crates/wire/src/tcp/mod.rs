//! TCP headers (RFC 9293 section 3.1).

mod fast_open;
mod flags;
mod options;

pub use fast_open::FastOpenCookie;
pub use flags::Flags;
pub use options::{MAX_OPTIONS_LEN, MAX_WINDOW_SCALE, Options, SackBlock, SackBlocks, Timestamps};

use crate::bytes::{u16_at, u32_at};
use crate::seq::SeqNumber;

/// Length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Length of the longest header, in bytes.
pub const MAX_HEADER_LEN: usize = 60;
/// Where the checksum stands in the header.
pub const CHECKSUM_OFFSET: usize = 16;

/// Why a header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The segment is shorter than a header, or than its data offset says.
    Truncated,
    /// The data offset lies within the fixed header.
    DataOffset,
}

/// A segment whose lengths have been checked: a view of its header and payload.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> Header<'a> {
    /// Checks the lengths of the segment that `bytes` holds.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, Error> {
        if bytes.len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let header_len = usize::from(bytes[12] >> 4) * 4;
        if header_len < HEADER_LEN {
            return Err(Error::DataOffset);
        }
        if header_len > bytes.len() {
            return Err(Error::Truncated);
        }
        Ok(Header { bytes, header_len })
    }

    /// The header and payload together.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What the segment carries.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }

    /// The checksum as it stands in the header.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes, CHECKSUM_OFFSET)
    }

    /// The header's fields.
    #[inline]
    pub fn repr(&self) -> Repr {
        let flags = Flags::from_bits(self.bytes[13]);
        Repr {
            src_port: u16_at(self.bytes, 0),
            dst_port: u16_at(self.bytes, 2),
            seq: SeqNumber(u32_at(self.bytes, 4)),
            ack: flags
                .contains(Flags::ACK)
                .then(|| SeqNumber(u32_at(self.bytes, 8))),
            flags,
            window: u16_at(self.bytes, 14),
            options: Options::parse(&self.bytes[HEADER_LEN..self.header_len]),
        }
    }
}

/// A header. The urgent pointer is not kept: urgent data is ordinary data here (RFC 6093), and
/// never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The sender's port.
    pub src_port: u16,
    /// The receiver's port.
    pub dst_port: u16,
    /// The number of the first payload byte, or of SYN or FIN where there is none.
    pub seq: SeqNumber,
    /// The next number that the sender expects, if the segment acknowledges at all.
    pub ack: Option<SeqNumber>,
    /// The flags. [`Flags::ACK`] is set by parsing when there is an `ack`; emitting derives it
    /// from `ack` and ignores it here.
    pub flags: Flags,
    /// The window as it stands in the header, not yet scaled.
    pub window: u16,
    /// The options.
    pub options: Options,
}

impl Repr {
    /// The header's length with its options, in bytes: a multiple of four, at most 60.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// How many sequence numbers a segment with this header and `payload_len` bytes occupies.
    #[inline]
    pub fn sequence_len(&self, payload_len: u32) -> u32 {
        payload_len
            .wrapping_add(u32::from(self.flags.contains(Flags::SYN)))
            .wrapping_add(u32::from(self.flags.contains(Flags::FIN)))
    }

    /// Writes the header to the front of `buffer`, with zero where the checksum goes; returns its
    /// length.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::header_len`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let len = self.header_len();
        let header = &mut buffer[..len];
        header[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        header[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        header[8..12].copy_from_slice(&self.ack.unwrap_or_default().0.to_be_bytes());
        header[12] = ((len / 4) as u8) << 4;
        header[13] = self.flags.with(Flags::ACK, self.ack.is_some()).bits();
        header[14..16].copy_from_slice(&self.window.to_be_bytes());
        // Checksum and urgent pointer.
        header[16..20].fill(0);
        self.options.emit(&mut header[HEADER_LEN..]);
        len
    }
}

#[cfg(test)]
mod tests;
