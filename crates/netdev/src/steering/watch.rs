//! Whether the engine takes what is given to it. The program notes when the first frame was given
//! that the engine has not come back for, in a word that both see; while that is too long ago, new
//! connections are the kernel's, whatever keeps the engine: a signal, a debugger, a defect.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aya::maps::{Map, MapData, MapError};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};

use super::SteeringError;

/// `STALE_NS`: what waits longer waits for an engine that does not run. Less than a client waits
/// before it sends its first SYN again, so that the second one is answered.
pub const STALE: Duration = Duration::from_millis(500);

/// `WAITS_NONE`: nothing was given since.
const NONE: u64 = 0;
/// `WAITS_NOBODY`: the engine has never come, and is not expected to.
const NOBODY: u64 = 1;

/// Bytes of the mapping: the kernel's pages, of which the word is the beginning of the first.
const LENGTH: usize = 4096;

/// Takes the map out as what has a descriptor.
pub(super) fn of_map(map: Map) -> Result<MapData, MapError> {
    match map {
        Map::Array(data) => Ok(data),
        _ => Err(MapError::InvalidMapType { map_type: 0 }),
    }
}

/// The word, mapped.
#[derive(Debug)]
pub(super) struct Watch {
    word: NonNull<AtomicU64>,
    /// Keeps the map for as long as it is mapped.
    _map: MapData,
}

// SAFETY: the mapping belongs to this value alone, and its word is only accessed as atomic.
unsafe impl Send for Watch {}

impl Watch {
    pub fn new(map: MapData) -> Result<Self, SteeringError> {
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let page = unsafe {
            mmap(
                ptr::null_mut(),
                LENGTH,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                map.fd().as_fd(),
                0,
            )
        };
        let page = page.map_err(|error| SteeringError::Watch(error.into()))?;
        let word = NonNull::new(page.cast())
            .ok_or_else(|| SteeringError::Watch(io::ErrorKind::OutOfMemory.into()))?;
        let watch = Self { word, _map: map };
        watch.word().store(NOBODY, Ordering::Relaxed);
        Ok(watch)
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: a whole page is mapped for as long as self lives, aligned, and both sides access
        // the word as one.
        unsafe { self.word.as_ref() }
    }

    /// For how long the first frame has waited that was given since the last [`beat`](Self::beat).
    #[inline]
    pub fn waiting(&self) -> Duration {
        match self.word().load(Ordering::Relaxed) {
            NONE | NOBODY => Duration::ZERO,
            since => Duration::from_nanos(now_ns().saturating_sub(since)),
        }
    }

    /// The engine takes what there is, from now on.
    #[inline]
    pub fn beat(&self) {
        // The line stays where it is while nothing comes.
        if self.word().load(Ordering::Relaxed) != NONE {
            self.word().store(NONE, Ordering::Relaxed);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no reference into it outlives self.
        let unmapped = unsafe { munmap(self.word.as_ptr().cast(), LENGTH) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

/// As `bpf_ktime_get_ns`.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The monotonic clock begins at boot and is never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
