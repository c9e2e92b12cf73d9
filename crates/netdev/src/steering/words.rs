//! Words that the program and this process both write.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use aya::maps::{Map, MapData, MapError};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};

use super::SteeringError;

/// Takes the map out as what has a descriptor.
pub(super) fn of_map(map: Map) -> Result<MapData, MapError> {
    match map {
        Map::Array(data) => Ok(data),
        _ => Err(MapError::InvalidMapType { map_type: 0 }),
    }
}

/// The first words of the elements of an array, mapped.
#[derive(Debug)]
pub(super) struct Words {
    first: NonNull<AtomicU64>,
    count: u32,
    stride: usize,
    /// Keeps the map for as long as it is mapped.
    _map: MapData,
}

// SAFETY: the mapping lives as long as this value, and its words are only accessed as atomic.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Of a map (BPF_F_MMAPABLE) of `count` elements that take `stride` bytes each, a multiple of a word.
    ///
    /// # Errors
    /// [`SteeringError::Watch`] with what the kernel said.
    pub fn map(map: MapData, count: u32, stride: usize) -> Result<Self, SteeringError> {
        debug_assert!(count > 0 && stride.is_multiple_of(size_of::<AtomicU64>()));
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let page = unsafe {
            mmap(
                ptr::null_mut(),
                count as usize * stride,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                map.fd().as_fd(),
                0,
            )
        };
        let page = page.map_err(|error| SteeringError::Watch(error.into()))?;
        let first = NonNull::new(page.cast())
            .ok_or_else(|| SteeringError::Watch(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self {
            first,
            count,
            stride,
            _map: map,
        })
    }

    /// The word of the element with this number, below the count of them.
    pub fn of(&self, number: u32) -> &AtomicU64 {
        let at = (number % self.count) as usize * self.stride;
        // SAFETY: `at` lies in the mapping, which lives as long as self, and is a multiple of the word's
        // alignment; both sides access the word as one.
        unsafe { self.first.byte_add(at).as_ref() }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let length = self.count as usize * self.stride;
        // SAFETY: exactly the mapping made in `map`; no reference into it outlives self.
        let unmapped = unsafe { munmap(self.first.as_ptr().cast(), length) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

/// The time by which the program notes when something was: as `bpf_ktime_get_ns`, in nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The monotonic clock begins at boot and is never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
