//! The four rings of an AF_XDP socket: memory of the kernel's, mapped into this process.
//!
//! Each is a single-producer, single-consumer ring of a power of two of entries, with free-running
//! 32-bit indices. One side is the kernel. Its index is loaded with Acquire, which pairs with the
//! kernel's release store after it wrote (or read) the entries; ours is stored with Release after
//! we wrote (or read) them, which pairs with the kernel's acquire load. Both sides keep the other's
//! index cached and look again only when the cached one does not suffice.

use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Plain data that the kernel and this process exchange through a ring.
///
/// # Safety
/// Every bit pattern must be a valid value: the kernel writes it.
pub(super) unsafe trait Entry: Copy {}

// SAFETY: any eight bytes are a u64.
unsafe impl Entry for u64 {}

/// A frame, or a part of one, in the UMEM (`struct xdp_desc`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// Byte offset into the UMEM.
    pub(super) address: u64,
    /// Bytes.
    pub(super) length: u32,
    /// `XDP_PKT_CONTD` and `XDP_TX_METADATA`.
    pub(super) options: u32,
}

// SAFETY: a structure of integers without padding.
unsafe impl Entry for Descriptor {}

/// Which ring of a socket.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Receive,
    Transmit,
    Fill,
    Completion,
}

impl Kind {
    const fn page_offset(self) -> u64 {
        match self {
            Self::Receive => libc::XDP_PGOFF_RX_RING as u64,
            Self::Transmit => libc::XDP_PGOFF_TX_RING as u64,
            Self::Fill => libc::XDP_UMEM_PGOFF_FILL_RING,
            Self::Completion => libc::XDP_UMEM_PGOFF_COMPLETION_RING,
        }
    }
}

/// The mapping of a ring, and where in it things are.
#[derive(Debug)]
struct Map<T> {
    base: NonNull<c_void>,
    length: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
}

// SAFETY: the mapping belongs to this value alone; nothing in it is bound to a thread.
unsafe impl<T: Entry> Send for Map<T> {}

impl<T: Entry> Map<T> {
    /// Maps a ring that was created with `size` entries.
    fn new(
        socket: BorrowedFd<'_>,
        kind: Kind,
        size: u32,
        offsets: &libc::xdp_ring_offset,
    ) -> io::Result<Self> {
        debug_assert!(size.is_power_of_two());
        let length = offsets.desc as usize + size as usize * size_of::<T>();
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                socket,
                kind.page_offset(),
            )?
        };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the kernel says where in the mapping the indices, the flags and the entries are;
        // all of them are before `length`, and aligned.
        let at = |offset: u64| unsafe { base.byte_add(offset as usize) };
        Ok(Self {
            base,
            length,
            producer: at(offsets.producer).cast(),
            consumer: at(offsets.consumer).cast(),
            flags: at(offsets.flags).cast(),
            entries: at(offsets.desc).cast(),
            mask: size - 1,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned, alive as long as self, and only accessed as atomic.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.flags.as_ref() }
    }

    /// Where the entry of a free-running index is; always inside the ring.
    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: the mask keeps the index below the number of entries that were mapped.
        unsafe { self.entries.as_ptr().add((index & self.mask) as usize) }
    }
}

impl<T> Drop for Map<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no reference into it outlives self.
        let unmapped = unsafe { munmap(self.base.as_ptr(), self.length) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

/// A ring into which this process puts entries for the kernel.
#[derive(Debug)]
pub(super) struct Producer<T: Entry> {
    map: Map<T>,
    /// Ours: entries before it are written, perhaps not yet published.
    next: u32,
    /// The kernel's index, as last seen.
    consumed: u32,
    _entries: PhantomData<T>,
}

impl<T: Entry> Producer<T> {
    /// Maps the ring of `kind`, created with `size` entries.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        kind: Kind,
        size: u32,
        offsets: &libc::xdp_ring_offset,
    ) -> io::Result<Self> {
        let map = Map::new(socket, kind, size, offsets)?;
        let next = map.producer().load(Ordering::Relaxed);
        let consumed = map.consumer().load(Ordering::Acquire);
        Ok(Self {
            map,
            next,
            consumed,
            _entries: PhantomData,
        })
    }

    /// Writes an entry, to be published later. `false`: the ring is full.
    #[must_use]
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.next.wrapping_sub(self.consumed) > self.map.mask {
            self.consumed = self.map.consumer().load(Ordering::Acquire);
            if self.next.wrapping_sub(self.consumed) > self.map.mask {
                return false;
            }
        }
        // SAFETY: inside the ring, and the kernel does not read it before it is published: it
        // consumed this slot's last entry, as the check above saw with Acquire.
        unsafe { self.map.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the kernel everything that was pushed.
    pub(super) fn publish(&mut self) {
        self.map.producer().store(self.next, Ordering::Release);
    }

    /// How many entries the kernel has not taken yet.
    pub(super) fn outstanding(&mut self) -> u32 {
        self.consumed = self.map.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.consumed)
    }

    /// The same without looking at the kernel's index again.
    pub(super) fn outstanding_as_last_seen(&self) -> u32 {
        self.next.wrapping_sub(self.consumed)
    }

    /// Whether the kernel waits for a system call before it looks at the ring again.
    ///
    /// The caller has put a full fence between `publish` and this: the kernel sets the flag and
    /// then looks at the producer index once more, so one of the two sides sees the other.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.map.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring from which this process takes what the kernel put there.
#[derive(Debug)]
pub(super) struct Consumer<T: Entry> {
    map: Map<T>,
    /// Ours: entries before it are done with.
    next: u32,
    /// The kernel's index, as last seen.
    produced: u32,
    _entries: PhantomData<T>,
}

impl<T: Entry> Consumer<T> {
    /// Maps the ring of `kind`, created with `size` entries.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        kind: Kind,
        size: u32,
        offsets: &libc::xdp_ring_offset,
    ) -> io::Result<Self> {
        let map = Map::new(socket, kind, size, offsets)?;
        let next = map.consumer().load(Ordering::Relaxed);
        Ok(Self {
            map,
            next,
            produced: next,
            _entries: PhantomData,
        })
    }

    /// How many entries are there; looks at the kernel's index.
    pub(super) fn available(&mut self) -> u32 {
        self.produced = self.map.producer().load(Ordering::Acquire);
        self.produced.wrapping_sub(self.next)
    }

    /// The entry `ahead` of the next one, if `available` said that it is there.
    pub(super) fn peek(&self, ahead: u32) -> Option<T> {
        if ahead >= self.produced.wrapping_sub(self.next) {
            return None;
        }
        // SAFETY: inside the ring, and written by the kernel before it published the index that
        // `available` loaded with Acquire; every bit pattern is valid.
        Some(unsafe { self.map.entry(self.next.wrapping_add(ahead)).read() })
    }

    /// Gives the first `count` entries back to the kernel.
    pub(super) fn release(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.map.consumer().store(self.next, Ordering::Release);
    }
}
