//! The atomics that rings and armed words are made of: the processor's, or loom's when it checks
//! them (`RUSTFLAGS="--cfg loom"`).

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
