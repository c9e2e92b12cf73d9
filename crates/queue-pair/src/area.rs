//! An area: payload memory that both sides see and one side allocates from.

use crate::Violation;
use crate::copy;
use crate::memory::Memory;
use crate::page::PAGE;
use crate::sum;
use core::sync::atomic::AtomicU8;
use rustix::fd::AsFd;
use std::io;
use std::sync::Arc;

/// A bounds-checked window on payload memory. Offsets count from the beginning of the area. Clones
/// are the same memory.
#[derive(Debug, Clone)]
pub struct Area {
    name: &'static str,
    memory: Arc<Memory>,
    /// Where the area begins in its memory.
    at: usize,
    len: usize,
}

impl Area {
    /// An area inside `memory`, as its layout says.
    pub(crate) fn new(name: &'static str, memory: &Arc<Memory>, at: u64, len: u64) -> Self {
        let at = usize::try_from(at).expect("a layout that fits its memory");
        let len = usize::try_from(len).expect("a layout that fits its memory");
        assert!(
            memory.bytes(at, len).is_some(),
            "layout larger than its memory"
        );
        Self {
            name,
            memory: Arc::clone(memory),
            at,
            len,
        }
    }

    /// An area that is `len` bytes of a memory file, from `offset` on; `len` is not zero. Whoever else has the
    /// file may write there at any time. That it does not end before the area does is the caller's to see
    /// to: [`least_size`](crate::memfd::least_size).
    ///
    /// # Errors
    /// The kernel's: `EACCES`: it is not open for reading and writing. `EPERM`: it is sealed against writing.
    pub fn of_file(name: &'static str, fd: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        let at = (offset % PAGE as u64) as usize;
        let all = len.checked_add(at).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            name,
            memory: Arc::new(Memory::map_from(fd, offset - at as u64, all)?),
            at,
            len,
        })
    }

    /// An area of private heap memory, with the same operations; `len` is not zero. `name` shows
    /// in violations.
    pub fn private(name: &'static str, len: usize) -> Self {
        Self {
            name,
            memory: Arc::new(Memory::heap(len)),
            at: 0,
            len,
        }
    }

    /// As [`private`](Self::private), of a length that others choose; `None`: there is not so much memory.
    pub fn try_private(name: &'static str, len: usize) -> Option<Self> {
        Some(Self {
            name,
            memory: Arc::new(Memory::try_heap(len)?),
            at: 0,
            len,
        })
    }

    /// The size of the area in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an area is never empty")]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// The bytes at `offset`, if all of them are inside. They can change at any time.
    ///
    /// # Errors
    /// They are not all inside the area.
    pub fn slice(&self, offset: u64, len: usize) -> Result<&[AtomicU8], Violation> {
        self.check(offset, len)
            .and_then(|at| self.memory.bytes(at, len))
            .ok_or(Violation::OutOfArea {
                area: self.name,
                offset,
                len: len as u64,
                size: self.len as u64,
            })
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// They would not all lie inside the area; nothing is copied.
    pub fn copy_in(&self, offset: u64, bytes: &[u8]) -> Result<(), Violation> {
        copy::copy_in(self.slice(offset, bytes.len())?, bytes);
        Ok(())
    }

    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// The bytes are not all inside the area; nothing is copied.
    pub fn copy_out(&self, offset: u64, out: &mut [u8]) -> Result<(), Violation> {
        copy::copy_out(self.slice(offset, out.len())?, out);
        Ok(())
    }

    /// Fills `out` from `offset` and returns the sum of what it copied; see
    /// [`copy_out_sum`](sum::copy_out_sum).
    ///
    /// # Errors
    /// The bytes are not all inside the area; nothing is copied.
    pub fn copy_out_sum(&self, offset: u64, out: &mut [u8]) -> Result<u16, Violation> {
        Ok(sum::copy_out_sum(self.slice(offset, out.len())?, out))
    }

    /// Gives the memory of `len` bytes at `offset` back to the machine; both are multiples of 4,096. What is
    /// read there next is zeros. The kernel may have to wait for whoever else has the file of the region, for
    /// as long as that one likes: never call this where others wait. Private memory is kept.
    ///
    /// # Errors
    /// They are no whole pages of the area, or the kernel's.
    pub fn give_back(&self, offset: u64, len: usize) -> io::Result<()> {
        let at = self.check_io(offset, len)?;
        self.memory.give_back(at, len)
    }

    /// How many bytes of the area take memory of the machine now, whichever side has touched them. Private
    /// memory is taken for all touched. Looks at each page.
    ///
    /// # Errors
    /// The kernel's.
    pub fn resident(&self) -> io::Result<u64> {
        self.memory.resident(self.at, self.len)
    }

    fn check_io(&self, offset: u64, len: usize) -> io::Result<usize> {
        self.check(offset, len)
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    fn check(&self, offset: u64, len: usize) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(len)? > self.len {
            return None;
        }
        Some(self.at + offset)
    }
}
