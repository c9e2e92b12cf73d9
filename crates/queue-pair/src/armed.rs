//! Armed words: how a side that goes to sleep asks to be woken, and the other learns that it must.
//!
//! An armed word is a bitmap, one bit a sleeper. The engine's word has one sleeper; the host's has
//! one for each [doorbell](crate::doorbell) it was given, since several of its threads can sleep at
//! once. While both sides are busy no bit is set and nobody makes a system call.
//!
//! # Why no wake-up is lost
//!
//! | sleeper | the other side |
//! | --- | --- |
//! | S1: sets its bit | W1: publishes work |
//! | S2: `fence(SeqCst)` | W2: `fence(SeqCst)` |
//! | S3: looks for work once more | W3: reads the armed word |
//! | S4: sleeps if there was none | W4: rings if a bit is set |
//!
//! Sequentially consistent fences are totally ordered. If S2 comes before W2, then S1 is visible
//! to W3, and the other side rings. If W2 comes before S2, then W1 is visible to S3, and the sleeper
//! does not sleep. There is no third case. Without the fences each side's store could still sit in
//! its store buffer while it reads the other's word: both would see nothing, and the sleeper would
//! sleep on work. Release and acquire do not help, since they order a store before later *stores*
//! and a load after earlier *loads*, and this is a store followed by a load of another word.
//!
//! The waking side clears the bits as it takes them, so that a burst of work rings once. The ring
//! itself is remembered by the doorbell, so a wake-up that comes between S3 and S4 ends the sleep
//! at once.
//!
//! A hostile side can clear the other's bits, and then its own work waits until the sleeper wakes
//! for another reason; or set them, and then it is rung for nothing. Both hurt only itself.
//!
//! The test `loom_armed` explores every interleaving of this very code and fails without either
//! fence.

use crate::sync::{AtomicU64, Ordering, fence};

/// Where an armed word lives.
pub trait Word {
    /// The word.
    fn word(&self) -> &AtomicU64;
}

/// The sleeping side's end of an armed word.
#[derive(Debug)]
pub struct Armed<W> {
    word: W,
}

/// The waking side's end of an armed word.
#[derive(Debug)]
pub struct Sleepers<W> {
    word: W,
}

impl<W: Word> Armed<W> {
    /// The number of sleepers that a word has room for.
    pub const SLEEPERS: u32 = u64::BITS;

    /// The sleeping end of `word`.
    pub fn new(word: W) -> Self {
        Self { word }
    }

    /// Says that `sleeper` (below [`SLEEPERS`](Self::SLEEPERS)) is about to sleep. The caller then
    /// looks for work once more and sleeps only if there is none.
    pub fn arm(&self, sleeper: u32) {
        // Relaxed: the fence orders it.
        self.word.word().fetch_or(bit(sleeper), Ordering::Relaxed);
        // Partner: the fence in `Sleepers::take`; the argument is in the module's documentation.
        fence(Ordering::SeqCst);
    }

    /// Says that `sleeper` is awake again. It may have been rung in the meantime.
    pub fn disarm(&self, sleeper: u32) {
        // A wake-up too many is harmless, so nothing needs ordering here, and the locked
        // instruction is spared when the other side has taken the bit.
        if self.word.word().load(Ordering::Relaxed) & bit(sleeper) != 0 {
            self.word.word().fetch_and(!bit(sleeper), Ordering::Relaxed);
        }
    }
}

impl<W: Word> Sleepers<W> {
    /// The waking end of `word`.
    pub fn new(word: W) -> Self {
        Self { word }
    }

    /// Whether anybody sleeps, or is about to. A hint: it may have changed by the time it is used.
    pub fn any_asleep(&self) -> bool {
        self.word.word().load(Ordering::Relaxed) != 0
    }

    /// Called after work was published that concerns the sleepers in `among`, a bitmap: those of them to
    /// ring, as a bitmap, which is cleared.
    #[must_use = "these sleepers are taken for rung"]
    pub fn take(&self, among: u64) -> u64 {
        // Partner: the fence in `Armed::arm`; the argument is in the module's documentation.
        fence(Ordering::SeqCst);
        // The load alone is what a busy pair pays: the line stays shared.
        if self.word.word().load(Ordering::Relaxed) & among == 0 {
            return 0;
        }
        self.word.word().fetch_and(!among, Ordering::Relaxed) & among
    }
}

fn bit(sleeper: u32) -> u64 {
    debug_assert!(sleeper < u64::BITS);
    1 << (sleeper % u64::BITS)
}
