//! A stretch of bytes that others may write at any time: a mapping of a memfd, or, for tests, miri
//! and engines without a host, heap memory of the same alignment.

use core::alloc::Layout as AllocLayout;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use rustix::fd::AsFd;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::alloc;
use std::io;

use crate::lost::{self, Watched};
use crate::page::PAGE;

/// Owned memory, reached only through atomics and raw copies.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: usize,
    backing: Backing,
    /// A page that is missing is replaced, and remembered here.
    watched: Option<Watched>,
}

#[derive(Debug)]
enum Backing {
    Mapping,
    Heap(AllocLayout),
}

// SAFETY: `Memory` owns its bytes as a box would; nothing in it depends on the thread.
unsafe impl Send for Memory {}
// SAFETY: shared access is through atomics, and through raw copies whose callers answer for what
// they race with (see `copy`).
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps the first `len` bytes of `fd`, shared. `len` is not zero.
    pub(crate) fn map(fd: impl AsFd, len: usize) -> io::Result<Self> {
        Self::map_from(fd, 0, len)
    }

    /// Maps `len` bytes of `fd`, shared, from `offset` on, which is a multiple of a page. `len` is not zero.
    pub(crate) fn map_from(fd: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nobody.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                offset,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            base,
            len,
            backing: Backing::Mapping,
            watched: None,
        })
    }

    /// From now on a page that the kernel cannot give when it is touched is one of zeros instead.
    pub(crate) fn survive_loss(mut self) -> io::Result<Self> {
        self.watched = Some(lost::watch(self.base.as_ptr(), self.len)?);
        Ok(self)
    }

    /// Whether there was such a page, so that what is read here is not what others write.
    pub(crate) fn is_lost(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::is_lost)
    }

    /// Private memory of this process, on pages of its own. `len` is not zero.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nobody.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            base,
            len,
            backing: Backing::Mapping,
            watched: None,
        })
    }

    /// Children have zeros here. For anonymous memory alone.
    pub(crate) fn wipe_in_children(&self) -> io::Result<()> {
        // SAFETY: the range is exactly our own mapping, and nothing changes in this process.
        unsafe {
            rustix::mm::madvise(
                self.base.as_ptr().cast::<c_void>(),
                self.len,
                Advice::LinuxWipeOnFork,
            )
        }?;
        Ok(())
    }

    /// Zeroed heap memory. `len` is not zero.
    pub(crate) fn heap(len: usize) -> Self {
        let layout = AllocLayout::from_size_align(len, PAGE).expect("a size that memory can have");
        Self::of_layout(layout).unwrap_or_else(|| alloc::handle_alloc_error(layout))
    }

    /// As [`heap`](Self::heap); `None`: there is not so much.
    pub(crate) fn try_heap(len: usize) -> Option<Self> {
        let layout = AllocLayout::from_size_align(len, PAGE).ok()?;
        Self::of_layout(layout)
    }

    fn of_layout(layout: AllocLayout) -> Option<Self> {
        assert!(layout.size() != 0, "memory without bytes");
        // SAFETY: the layout's size is not zero, as was just asserted.
        let base = unsafe { alloc::alloc_zeroed(layout) };
        Some(Self {
            base: NonNull::new(base)?,
            len: layout.size(),
            backing: Backing::Heap(layout),
            watched: None,
        })
    }

    /// Keeps the mapping out of children: after a fork, parent and child would both be the one
    /// producer of a ring. Heap memory is left alone.
    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        if matches!(self.backing, Backing::Heap(_)) {
            return Ok(());
        }
        // SAFETY: the range is exactly our own mapping, and the advice changes nothing about it in
        // this process.
        unsafe {
            rustix::mm::madvise(
                self.base.as_ptr().cast::<c_void>(),
                self.len,
                Advice::LinuxDontFork,
            )
        }?;
        Ok(())
    }

    /// Gives the pages from `offset` on back to the machine: the next touch finds zeros there, on a page of
    /// its own. Both are multiples of a page. Heap memory is kept.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` where a missing page was replaced.
    pub(crate) fn give_back(&self, offset: usize, len: usize) -> io::Result<()> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if !inside || !offset.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if matches!(self.backing, Backing::Heap(_)) || len == 0 {
            return Ok(());
        }
        // SAFETY: the range lies inside our own shared mapping, as was just checked. It stays mapped; its
        // bytes become zeros, as anybody who has the file may make them at any time.
        unsafe {
            let at = self.base.as_ptr().add(offset).cast::<c_void>();
            rustix::mm::madvise(at, len, Advice::LinuxRemove)
        }?;
        Ok(())
    }

    /// How many bytes of the pages from `offset` on are there, whoever has touched them. Both are multiples
    /// of a page. Asks the kernel once for each 4 MiB; it waits for nobody. Heap memory is all there.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn resident(&self, offset: usize, len: usize) -> io::Result<u64> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if !inside || !offset.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if matches!(self.backing, Backing::Heap(_)) {
            return Ok(len as u64);
        }
        let mut there = [0u8; 1024];
        let mut pages = 0;
        for at in (offset..offset + len).step_by(there.len() * PAGE) {
            let piece = (offset + len - at).min(there.len() * PAGE);
            // SAFETY: the range lies inside our own mapping, and there is a byte for each of its pages.
            let asked = unsafe {
                let begin = self.base.as_ptr().add(at).cast::<c_void>();
                libc::mincore(begin, piece, there.as_mut_ptr())
            };
            if asked != 0 {
                return Err(io::Error::last_os_error());
            }
            let answers = &there[..piece / PAGE];
            pages += answers.iter().filter(|answer| **answer & 1 != 0).count();
        }
        Ok((pages * PAGE) as u64)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes at `offset`, if they are inside.
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> Option<&[AtomicU8]> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: the range is inside our memory, which lives as long as `self`; an `AtomicU8` may
        // lie over any initialised byte, and both backings are initialised to zero.
        Some(unsafe {
            core::slice::from_raw_parts(self.base.as_ptr().add(offset).cast::<AtomicU8>(), len)
        })
    }

    /// The word at `offset`, which the layout vouches for.
    pub(crate) fn u32_at(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `word_at` has checked bounds and alignment; any bits are a valid `AtomicU32`.
        unsafe { self.word_at::<AtomicU32>(offset).as_ref() }
    }

    /// The word at `offset`, which the layout vouches for.
    pub(crate) fn u64_at(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `word_at` has checked bounds and alignment; any bits are a valid `AtomicU64`.
        unsafe { self.word_at::<AtomicU64>(offset).as_ref() }
    }

    /// A pointer to a `T` at `offset`: inside the memory and aligned, or a panic, since offsets of
    /// words come from our own layout and never from the other side.
    pub(crate) fn word_at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset.is_multiple_of(align_of::<T>()), "misaligned layout");
        assert!(
            offset + size_of::<T>() <= self.len,
            "layout larger than its memory"
        );
        // SAFETY: inside the allocation, as was just asserted.
        unsafe { self.base.add(offset) }.cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Before its addresses can be somebody else's.
        self.watched = None;
        match self.backing {
            // SAFETY: the mapping is ours, and nothing borrowed from `self` outlives it. It fails
            // only for arguments that `map` could not have produced.
            Backing::Mapping => unsafe {
                let _ = rustix::mm::munmap(self.base.as_ptr().cast::<c_void>(), self.len);
            },
            // SAFETY: allocated in `heap` with this very layout.
            Backing::Heap(layout) => unsafe { alloc::dealloc(self.base.as_ptr(), layout) },
        }
    }
}
