//! Writing the headers of a segment; the payload follows from wherever it lies.

use core::fmt;
use core::net::IpAddr;

use super::Link;
use crate::checksum::{self, Sum};
use crate::ethernet::{self, EtherType};
use crate::ip::{Ecn, PROTOCOL_TCP};
use crate::{ipv4, ipv6, tcp};

/// Where the TCP checksum comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpChecksum {
    /// It is completed here: this is the sum of the payload.
    Complete(Sum),
    /// The device completes it: only the pseudo-header's sum is written.
    Partial,
}

/// Why headers cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// The buffer is shorter than [`Headers::len`].
    BufferTooSmall,
    /// The packet would be longer than IP can say.
    TooLong,
    /// One address is IPv4, the other IPv6.
    MixedFamilies,
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EmitError::BufferTooSmall => "the buffer is too small for the headers",
            EmitError::TooLong => "the packet is longer than IP allows",
            EmitError::MixedFamilies => "source and destination are of different families",
        })
    }
}

impl core::error::Error for EmitError {}

/// All headers of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Where it goes on its link.
    pub link: Link,
    /// The sender's address.
    pub src: IpAddr,
    /// The receiver's address; of the same family.
    pub dst: IpAddr,
    /// How many hops it may take.
    pub hop_limit: u8,
    /// The differentiated services codepoint: the upper six bits of the traffic class, which IPv4
    /// calls the type of service (RFC 2474).
    pub dscp: u8,
    /// Explicit congestion notification: the lower two.
    pub ecn: Ecn,
    /// The TCP header.
    pub tcp: tcp::Repr,
}

impl Headers {
    /// Where the IP header begins, in bytes from the start of the frame.
    #[inline]
    pub const fn ip_offset(&self) -> usize {
        ethernet::HEADER_LEN + self.link.vlan.len()
    }

    /// Where the TCP header begins, in bytes from the start of the frame.
    #[inline]
    pub const fn tcp_offset(&self) -> usize {
        self.ip_offset()
            + match self.dst {
                IpAddr::V4(_) => ipv4::HEADER_LEN,
                IpAddr::V6(_) => ipv6::HEADER_LEN,
            }
    }

    /// The length of all headers, in bytes; where the payload begins.
    #[inline]
    pub fn len(&self) -> usize {
        self.tcp_offset() + self.tcp.header_len()
    }

    /// Headers are never empty.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the headers of a segment with `payload_len` bytes of payload to the front of
    /// `frame`; returns their length. The packet may not be fragmented on its way.
    ///
    /// A segment that a device is going to cut into several is written as one; then the checksum
    /// is [`TcpChecksum::Partial`].
    ///
    /// # Errors
    /// If the headers do not fit `frame`, the packet does not fit IP, or the families differ.
    /// `frame` may then be written in part.
    #[inline]
    pub fn emit(
        &self,
        payload_len: usize,
        checksum: TcpChecksum,
        frame: &mut [u8],
    ) -> Result<usize, EmitError> {
        let len = self.len();
        let frame = frame.get_mut(..len).ok_or(EmitError::BufferTooSmall)?;
        let (ip_at, tcp_at) = (self.ip_offset(), self.tcp_offset());
        let segment_len = self.tcp.header_len() + payload_len;
        let pseudo = self.emit_ip(segment_len, &mut frame[ip_at..])?;
        let ether_type = if self.dst.is_ipv4() {
            EtherType::IPV4
        } else {
            EtherType::IPV6
        };
        let Link { src, dst, vlan } = self.link;
        ethernet::Header {
            src,
            dst,
            vlan,
            ether_type,
        }
        .emit(frame);

        let header = &mut frame[tcp_at..];
        self.tcp.emit(header);
        //= RFC 9293 MUST-2
        let field = match checksum {
            TcpChecksum::Complete(payload) => {
                pseudo.combine(Sum::of(header)).combine(payload).finish()
            }
            TcpChecksum::Partial => pseudo.fold(),
        };
        header[tcp::CHECKSUM_OFFSET..tcp::CHECKSUM_OFFSET + 2]
            .copy_from_slice(&field.to_be_bytes());
        Ok(len)
    }

    /// Writes the IP header; returns the pseudo-header's sum.
    #[inline]
    fn emit_ip(&self, segment_len: usize, buffer: &mut [u8]) -> Result<Sum, EmitError> {
        let payload_len = u16::try_from(segment_len).map_err(|_| EmitError::TooLong)?;
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                if usize::from(payload_len) + ipv4::HEADER_LEN > usize::from(u16::MAX) {
                    return Err(EmitError::TooLong);
                }
                ipv4::Repr {
                    src,
                    dst,
                    protocol: PROTOCOL_TCP,
                    hop_limit: self.hop_limit,
                    dscp: self.dscp & 0x3f,
                    ecn: self.ecn,
                    identification: 0,
                    dont_fragment: true,
                    payload_len,
                }
                .emit(buffer);
                Ok(checksum::pseudo_header_v4(
                    src,
                    dst,
                    PROTOCOL_TCP,
                    payload_len,
                ))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                ipv6::Repr {
                    src,
                    dst,
                    protocol: PROTOCOL_TCP,
                    hop_limit: self.hop_limit,
                    dscp: self.dscp & 0x3f,
                    ecn: self.ecn,
                    flow_label: 0,
                    payload_len,
                }
                .emit(buffer);
                Ok(checksum::pseudo_header_v6(
                    src,
                    dst,
                    PROTOCOL_TCP,
                    payload_len.into(),
                ))
            }
            _ => Err(EmitError::MixedFamilies),
        }
    }
}
