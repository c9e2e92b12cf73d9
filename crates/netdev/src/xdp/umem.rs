//! The UMEM: the memory that frames of an AF_XDP socket live in.
//!
//! It is cut into chunks of one size. The first `receive_chunks` of them go round between the fill
//! ring, the kernel and the receive ring. The rest are transmit frames of one or more adjacent
//! chunks: a frame larger than a chunk is written in one piece and described to the kernel as
//! several buffers, each within its chunk, as the kernel demands.

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What the kernel keeps free in front of every received frame (`XDP_PACKET_HEADROOM`).
const RECEIVE_HEADROOM: usize = 256;

/// How a UMEM is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a chunk: a power of two, 2048 or 4096.
    pub(super) chunk_size: u32,
    /// Chunks for received frames: a power of two.
    pub(super) receive_chunks: u32,
    /// Transmit frames: a power of two.
    pub(super) transmit_frames: u32,
    /// Adjacent chunks of a transmit frame: a power of two.
    pub(super) chunks_per_frame: u32,
}

impl Layout {
    /// The layout for frames of up to `frame` bytes, of which the first `metadata` bytes of a
    /// transmit frame are not the frame's.
    pub(super) fn new(frame: usize, metadata: usize, receive: u32, transmit: u32) -> Self {
        // Small chunks waste less cache; but a frame in one piece is cheaper than one in two.
        let chunk_size: u32 = if frame + RECEIVE_HEADROOM <= 2048 {
            2048
        } else {
            4096
        };
        let chunks = (frame + metadata).div_ceil(chunk_size as usize);
        Self {
            chunk_size,
            receive_chunks: receive.next_power_of_two(),
            transmit_frames: transmit.next_power_of_two(),
            chunks_per_frame: (chunks as u32).next_power_of_two(),
        }
    }

    /// Chunks of all transmit frames together: a power of two.
    pub(super) const fn transmit_chunks(&self) -> u32 {
        self.transmit_frames * self.chunks_per_frame
    }

    /// Bytes of a received frame that one chunk takes.
    pub(super) const fn received_in_one(&self) -> usize {
        self.chunk_size as usize - RECEIVE_HEADROOM
    }

    /// Bytes of a transmit frame.
    pub(super) const fn transmit_frame_size(&self) -> usize {
        self.chunk_size as usize * self.chunks_per_frame as usize
    }

    /// Bytes of the whole.
    pub(super) const fn size(&self) -> usize {
        (self.receive_chunks as usize + self.transmit_chunks() as usize) * self.chunk_size as usize
    }

    /// The address of a transmit frame.
    pub(super) const fn transmit_address(&self, frame: u32) -> u64 {
        self.receive_chunks as u64 * self.chunk_size as u64
            + frame as u64 * self.transmit_frame_size() as u64
    }

    /// The transmit frame that an address lies in, if it lies in one.
    pub(super) fn transmit_frame_of(&self, address: u64) -> Option<u32> {
        let first = self.transmit_address(0);
        let frame = address.checked_sub(first)? / self.transmit_frame_size() as u64;
        u32::try_from(frame)
            .ok()
            .filter(|frame| *frame < self.transmit_frames)
    }

    /// The chunk that a received frame lies in, if it is one of those.
    pub(super) fn receive_chunk_of(&self, address: u64) -> Option<u64> {
        let chunk = address & !(u64::from(self.chunk_size) - 1);
        (chunk < self.transmit_address(0)).then_some(chunk)
    }
}

/// The memory itself: anonymous, private to this process, populated.
#[derive(Debug)]
pub(super) struct Umem {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone; nothing in it is bound to a thread.
unsafe impl Send for Umem {}

impl Umem {
    pub(super) fn new(layout: Layout) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                layout.size(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, layout })
    }

    pub(super) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where it begins, to tell the kernel.
    pub(super) fn base_address(&self) -> u64 {
        self.base.as_ptr().expose_provenance() as u64
    }

    /// The bytes of a received buffer; `None` if it is not within the receive chunks.
    ///
    /// # Safety
    /// The buffer must have come out of the receive ring, and not have been put into the fill ring
    /// again while the slice lives.
    pub(super) unsafe fn received(&self, address: u64, length: u32) -> Option<&[u8]> {
        let end = address.checked_add(u64::from(length))?;
        if end > self.layout.transmit_address(0) {
            return None;
        }
        // SAFETY: inside the mapping, which was initialised with zeros; the caller promises that
        // the kernel does not write to it.
        Some(unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().add(address as usize), length as usize)
        })
    }

    /// The bytes of a transmit frame; `None` if there is no frame of that number.
    ///
    /// # Safety
    /// The frame must not be in the transmit ring, nor under way and not yet completed.
    pub(super) unsafe fn transmit_frame(&mut self, frame: u32) -> Option<&mut [u8]> {
        if frame >= self.layout.transmit_frames {
            return None;
        }
        let offset = self.layout.transmit_address(frame) as usize;
        // SAFETY: inside the mapping; `&mut self` keeps other slices away, and the caller promises
        // that the kernel neither reads nor writes it.
        Some(unsafe {
            std::slice::from_raw_parts_mut(
                self.base.as_ptr().add(offset),
                self.layout.transmit_frame_size(),
            )
        })
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no slice of it outlives self. The kernel
        // holds its own reference on the pages until the socket is closed.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.layout.size()) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_frames_take_one_small_chunk_and_jumbo_frames_several() {
        let ordinary = Layout::new(1522, 24, 1000, 500);
        assert_eq!(
            ordinary,
            Layout {
                chunk_size: 2048,
                receive_chunks: 1024,
                transmit_frames: 512,
                chunks_per_frame: 1
            }
        );
        let jumbo = Layout::new(9022, 24, 1024, 512);
        assert_eq!((jumbo.chunk_size, jumbo.chunks_per_frame), (4096, 4));
    }

    #[test]
    fn addresses_belong_to_one_side_only() {
        let layout = Layout::new(9022, 24, 4, 2);
        assert_eq!(layout.receive_chunk_of(4096 + 256), Some(4096));
        assert_eq!(layout.transmit_frame_of(4096 + 256), None);
        let second = layout.transmit_address(1);
        assert_eq!(layout.transmit_frame_of(second + 4096), Some(1));
        assert_eq!(layout.receive_chunk_of(second), None);
        assert_eq!(layout.transmit_frame_of(layout.size() as u64), None);
        assert_eq!(layout.receive_chunk_of(u64::MAX), None);
    }

    #[test]
    fn nothing_outside_is_handed_out() {
        let mut umem = Umem::new(Layout::new(1522, 24, 2, 2)).expect("memory");
        // SAFETY: no kernel has this memory.
        unsafe {
            assert_eq!(umem.received(2048, 2048).map(<[u8]>::len), Some(2048));
            assert!(umem.received(2048, 2049).is_none());
            assert!(umem.received(u64::MAX, 2).is_none());
            assert_eq!(umem.transmit_frame(1).map(|frame| frame.len()), Some(2048));
            assert!(umem.transmit_frame(2).is_none());
        }
    }
}
