//! Whether the engine's workers take what is given to them. The program notes when the first frame was
//! given to a worker that it has not come back for, in a word that both see; while that is too long ago,
//! new connections by its queues are the kernel's, whatever keeps it: a signal, a debugger, a defect.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
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

/// `MAX_WORKERS`: there is a word for each.
pub const MAX_WORKERS: u32 = 64;

/// Bytes from one word to the next: a cache line.
const STRIDE: usize = 64;

/// Bytes of the mapping.
const LENGTH: usize = MAX_WORKERS as usize * STRIDE;

/// Takes the map out as what has a descriptor.
pub(super) fn of_map(map: Map) -> Result<MapData, MapError> {
    match map {
        Map::Array(data) => Ok(data),
        _ => Err(MapError::InvalidMapType { map_type: 0 }),
    }
}

/// The words, mapped.
#[derive(Debug)]
struct Words {
    first: NonNull<AtomicU64>,
    /// Keeps the map for as long as it is mapped.
    _map: MapData,
}

// SAFETY: the mapping lives as long as this value, and its words are only accessed as atomic.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    fn map(map: MapData) -> Result<Self, SteeringError> {
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
        let first = NonNull::new(page.cast())
            .ok_or_else(|| SteeringError::Watch(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self { first, _map: map })
    }

    fn of(&self, worker: u32) -> &AtomicU64 {
        let at = (worker % MAX_WORKERS) as usize * STRIDE;
        // SAFETY: `at` lies in the mapping, which lives as long as self, and is a multiple of the word's
        // alignment; both sides access the word as one.
        unsafe { self.first.byte_add(at).as_ref() }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; no reference into it outlives self.
        let unmapped = unsafe { munmap(self.first.as_ptr().cast(), LENGTH) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

/// What is seen of one worker.
#[derive(Debug, Clone)]
pub struct Watch {
    words: Arc<Words>,
    worker: u32,
}

impl Watch {
    /// Of the first worker; nobody has come yet.
    pub(super) fn new(map: MapData) -> Result<Self, SteeringError> {
        let words = Words::map(map)?;
        for worker in 0..MAX_WORKERS {
            words.of(worker).store(NOBODY, Ordering::Relaxed);
        }
        Ok(Self {
            words: Arc::new(words),
            worker: 0,
        })
    }

    /// The same of another worker, one of [`MAX_WORKERS`].
    #[must_use]
    pub fn of(&self, worker: u32) -> Self {
        Self {
            words: Arc::clone(&self.words),
            worker,
        }
    }

    fn word(&self) -> &AtomicU64 {
        self.words.of(self.worker)
    }

    /// For how long the first frame has waited that was given to the worker since the last
    /// [`beat`](Self::beat).
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> Duration {
        match self.word().load(Ordering::Relaxed) {
            NONE | NOBODY => Duration::ZERO,
            since => Duration::from_nanos(now_ns().saturating_sub(since)),
        }
    }

    /// The worker takes what there is, from now on: for how long the first of it has waited. Who says so once must go
    /// on: until then nobody is waited for.
    ///
    /// What the program takes for stale is so by this as well: it looked before the word was taken back.
    #[inline]
    pub fn beat(&self) -> Duration {
        // The line stays where it is while nothing comes.
        if self.word().load(Ordering::Relaxed) == NONE {
            return Duration::ZERO;
        }
        match self.word().swap(NONE, Ordering::Relaxed) {
            NONE | NOBODY => Duration::ZERO,
            since => Duration::from_nanos(now_ns().saturating_sub(since)),
        }
    }
}

/// As `bpf_ktime_get_ns`.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The monotonic clock begins at boot and is never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
