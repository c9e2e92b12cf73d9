//! A mark that a process has and the children that it forks have not, by whatever way they were made.
//!
//! A region is not inherited, and whoever goes on with its addresses in a child meets nothing, or
//! something else. Children that come by fork are told; those that a program makes by a system call of
//! its own are not. The kernel wipes this mark in each of them. One that was told makes it [its own](BornHere::inherit)
//! then: of the children that it makes so itself nobody may take one for it.

use core::sync::atomic::Ordering;
use std::io;

use crate::memory::Memory;
use crate::page::PAGE;

/// What stands there in the process that made it, and in a child that was told of it. In all others it is 0.
const MAKERS: u32 = 1;
const HEIRS: u32 = 2;

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
        memory.u32_at(0).store(MAKERS, Ordering::Relaxed);
        Ok(Self(memory))
    }

    /// Whether the process is the one that made the mark.
    #[inline(always)]
    pub fn is_still(&self) -> bool {
        self.0.u32_at(0).load(Ordering::Relaxed) == MAKERS
    }

    /// In a child of that process: from now on it is known from its own children.
    pub fn inherit(&self) {
        self.0.u32_at(0).store(HEIRS, Ordering::Relaxed);
    }

    /// Whether the process is the child that has [inherited](Self::inherit) the mark.
    pub fn is_heirs(&self) -> bool {
        self.0.u32_at(0).load(Ordering::Relaxed) == HEIRS
    }
}
