//! A mark that a process has and the children that it forks have not, by whatever way they were made.
//!
//! A region is not inherited, and whoever goes on with its addresses in a child meets nothing, or
//! something else. Children that come by fork are told; those that a program makes by a system call of
//! its own are not. The kernel wipes this mark in each of them.

use core::sync::atomic::Ordering;
use std::io;

use crate::memory::Memory;
use crate::page::PAGE;

/// See the [module](self).
#[derive(Debug)]
pub struct BornHere(Memory);

impl BornHere {
    /// A mark of this process.
    ///
    /// # Errors
    /// The kernel's, when it has no memory to give.
    pub fn new() -> io::Result<Self> {
        let memory = Memory::anonymous(PAGE)?;
        memory.wipe_in_children()?;
        memory.u32_at(0).store(1, Ordering::Relaxed);
        Ok(Self(memory))
    }

    /// Whether the process is the one that made the mark.
    #[inline(always)]
    pub fn is_still(&self) -> bool {
        self.0.u32_at(0).load(Ordering::Relaxed) == 1
    }
}
