//! Whether the engine's workers take what is given to them. The program notes when the first frame was
//! given to a worker that it has not come back for, in a word that both see; while that is too long ago,
//! new connections by its queues are the kernel's, whatever keeps it: a signal, a debugger, a defect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aya::maps::MapData;

use super::SteeringError;
use super::words::{Words, now_ns};

/// `STALE_NS`: what waits longer waits for an engine that does not run. Less than a client waits
/// before it sends its first SYN again, so that the second one is answered.
pub const STALE: Duration = Duration::from_millis(500);

/// `WAITS_NONE`: nothing was given since.
const NONE: u64 = 0;
/// `WAITS_NOBODY`: the engine has never come, and is not expected to.
const NOBODY: u64 = 1;

/// `MAX_WORKERS`: there is a word for each.
pub const MAX_WORKERS: u32 = 64;
/// `WAITS_LATE`: the word that has a bit for each of them.
const LATE: u32 = MAX_WORKERS;

/// Bytes from one word to the next: a cache line.
const STRIDE: usize = 64;

/// What is seen of one worker.
#[derive(Debug, Clone)]
pub struct Watch {
    words: Arc<Words>,
    worker: u32,
}

impl Watch {
    /// Of the first worker; nobody has come yet.
    pub(super) fn new(map: MapData) -> Result<Self, SteeringError> {
        let words = Words::map(map, MAX_WORKERS + 1, STRIDE)?;
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

    /// This worker has left waiting for [`STALE`] what another has handed to it, which the program does not see: new
    /// connections are the kernel's, by whichever queue they come, until it [comes](Self::beat).
    pub fn note_late(&self) {
        self.words
            .of(LATE)
            .fetch_or(self.late_bit(), Ordering::Relaxed);
    }

    fn late_bit(&self) -> u64 {
        1 << (self.worker % MAX_WORKERS)
    }

    /// The worker takes what there is, from now on: for how long the first of it has waited. Who says so once must go
    /// on: until then nobody is waited for.
    ///
    /// What the program takes for stale is so by this as well: it looked before the word was taken back.
    #[inline]
    pub fn beat(&self) -> Duration {
        let late = self.words.of(LATE);
        // The lines stay where they are while nothing comes.
        let was_late = late.load(Ordering::Relaxed) & self.late_bit() != 0;
        if was_late {
            late.fetch_and(!self.late_bit(), Ordering::Relaxed);
        }
        let least = if was_late { STALE } else { Duration::ZERO };
        if self.word().load(Ordering::Relaxed) == NONE {
            return least;
        }
        match self.word().swap(NONE, Ordering::Relaxed) {
            NONE | NOBODY => least,
            since => Duration::from_nanos(now_ns().saturating_sub(since)).max(least),
        }
    }
}
