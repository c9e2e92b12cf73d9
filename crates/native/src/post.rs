//! A buffer of the program's own to receive into.

use std::sync::atomic::AtomicU8;

use host::Errno;

use crate::memory::Memory;

/// A buffer that the library fills.
pub(crate) struct Post {
    pub(crate) memory: Memory,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) filled: usize,
    pub(crate) told: usize,
    pub(crate) cookie: u64,
}

impl Post {
    pub(crate) fn rest(&self) -> Result<&[AtomicU8], Errno> {
        Ok(&self.memory.bytes()?[self.offset + self.filled..self.offset + self.len])
    }
}
