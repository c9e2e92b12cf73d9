//! The unit in which memory is shared.

/// The alignment of every memory: a page.
pub(crate) const PAGE: usize = 4096;
