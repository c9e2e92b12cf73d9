//! Sending segments that are larger than the MTU.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU8;

use wire::ethernet::HEADER_LEN;
use wire::segment::MAX_HEADERS_LEN;

use super::options::{bind, new_socket, only_send, set_option};
use crate::interface::Interface;
use crate::{Counters, LargeSend, SendError};

/// Bytes of the largest IP packet: its length field has sixteen bits.
pub const LARGE_MAX: usize = 65_535;

/// Most pieces of payload in one send.
pub const PIECES_MAX: usize = 64;

const VIRTIO_NET_HDR_F_NEEDS_CSUM: u8 = 1;
const VIRTIO_NET_HDR_GSO_NONE: u8 = 0;
const VIRTIO_NET_HDR_GSO_TCPV4: u8 = 1;
const VIRTIO_NET_HDR_GSO_TCPV6: u8 = 4;

/// `struct virtio_net_hdr`, of this machine's byte order as AF_PACKET takes it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct VirtioNetHeader {
    flags: u8,
    gso_type: u8,
    header_length: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

/// An AF_PACKET socket that sends and never receives.
#[derive(Debug)]
pub struct LargeSender {
    fd: OwnedFd,
    blocked: bool,
}

impl LargeSender {
    /// Opens one on an interface.
    ///
    /// # Errors
    /// What the system call said; needs CAP_NET_RAW.
    pub fn open(interface: &Interface) -> io::Result<Self> {
        let fd = new_socket()?;
        only_send(&fd)?;
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        // Room for some dozens of the largest; not worth failing for.
        let _ = set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4 << 20);
        // Protocol 0: no frame is ever delivered to this socket, so none is cloned for it.
        bind(&fd, interface, 0)?;
        Ok(Self { fd, blocked: false })
    }

    /// Hands frames to the driver without passing the interface's queueing discipline.
    ///
    /// # Errors
    /// What the system call said.
    pub fn set_queue_bypass(&self, on: bool) -> io::Result<()> {
        set_option(
            &self.fd,
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            i32::from(on),
        )
    }

    /// Whether the last send found no room; then the descriptor becomes writable when there is.
    pub const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Sends one segment, as [`Device::send_large`](crate::Device::send_large) does.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent then.
    pub fn send(
        &mut self,
        header: &[u8],
        payload: &[&[AtomicU8]],
        how: LargeSend,
        counters: &mut Counters,
    ) -> Result<(), SendError> {
        let payload_length: usize = payload.iter().map(|piece| piece.len()).sum();
        if payload.len() > PIECES_MAX
            || header.len() > MAX_HEADERS_LEN
            || header.len() + payload_length > LARGE_MAX + HEADER_LEN
        {
            return Err(SendError::TooLarge);
        }
        let virtio = VirtioNetHeader {
            flags: VIRTIO_NET_HDR_F_NEEDS_CSUM,
            gso_type: match (how.segment_size, how.ipv6) {
                (0, _) => VIRTIO_NET_HDR_GSO_NONE,
                (_, false) => VIRTIO_NET_HDR_GSO_TCPV4,
                (_, true) => VIRTIO_NET_HDR_GSO_TCPV6,
            },
            header_length: header.len() as u16,
            gso_size: how.segment_size,
            checksum_start: how.checksum.start,
            checksum_offset: how.checksum.offset,
        };
        match self.send_pieces(&virtio, header, payload) {
            Ok(()) => {
                self.blocked = false;
                counters.large_sends += 1;
                counters.large_bytes += payload_length as u64;
                Ok(())
            }
            Err(error) => match error.raw_os_error().unwrap_or(libc::EIO) {
                libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR => {
                    self.blocked = true;
                    counters.large_busy += 1;
                    Err(SendError::Busy)
                }
                errno => {
                    counters.large_refused += 1;
                    Err(SendError::Refused(errno))
                }
            },
        }
    }

    fn send_pieces(
        &self,
        virtio: &VirtioNetHeader,
        header: &[u8],
        payload: &[&[AtomicU8]],
    ) -> io::Result<()> {
        const EMPTY: libc::iovec = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut pieces = [EMPTY; 2 + PIECES_MAX];
        pieces[0] = libc::iovec {
            iov_base: (&raw const *virtio).cast_mut().cast(),
            iov_len: size_of::<VirtioNetHeader>(),
        };
        pieces[1] = libc::iovec {
            iov_base: header.as_ptr().cast_mut().cast(),
            iov_len: header.len(),
        };
        for (to, piece) in pieces[2..].iter_mut().zip(payload) {
            *to = libc::iovec {
                iov_base: piece.as_ptr().cast_mut().cast(),
                iov_len: piece.len(),
            };
        }
        // SAFETY: msghdr is plain data for which all zeros is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = pieces.as_mut_ptr();
        message.msg_iovlen = 2 + payload.len();
        // SAFETY: every piece describes memory that is borrowed until this function returns, and
        // the kernel only reads it. Another process may write to the payload meanwhile: that is
        // between it and the kernel, which copies with its own accesses; this program makes no
        // reference to plain bytes out of it. `send` holds the pieces to PIECES_MAX.
        let result = unsafe {
            libc::sendmsg(
                self.fd.as_raw_fd(),
                &raw const message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl AsFd for LargeSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
