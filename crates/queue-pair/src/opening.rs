//! Whether the engine opens connections just now: a word in the region that it writes and its host
//! reads before each connect, so that what the engine cannot open is the kernel's from the beginning.
//!
//! The word only advises. A connect that crosses a change of it may still be refused.

use crate::armed::Word;
use crate::sync::Ordering;
use crate::words::RegionWord;

/// Who opens connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Opening {
    /// The engine.
    #[default]
    Engine,
    /// The kernel: the ports that the engine has leased are in use, or were a moment ago.
    NoPorts,
    /// The kernel: answers may come to a receive queue that the engine does not serve.
    UnservedQueue,
    /// The kernel: the engine is being stopped.
    Stopping,
    /// The kernel: the program's user has as many of the engine's connections as its share.
    Enough,
}

impl Opening {
    const ALL: [Self; 5] = [
        Self::Engine,
        Self::NoPorts,
        Self::UnservedQueue,
        Self::Stopping,
        Self::Enough,
    ];
}

/// The word.
#[derive(Debug)]
pub struct OpeningWord(RegionWord);

impl OpeningWord {
    pub(crate) fn new(word: RegionWord) -> Self {
        Self(word)
    }

    /// The engine says who opens connections from now on.
    pub fn set(&self, opening: Opening) {
        // Relaxed: nothing else is said by it.
        self.0.word().store(opening as u64, Ordering::Relaxed);
    }

    /// What the engine said last. A word that it cannot have written is taken for the engine.
    pub fn get(&self) -> Opening {
        let word = self.0.word().load(Ordering::Relaxed);
        let index = usize::try_from(word).unwrap_or(usize::MAX);
        Opening::ALL.get(index).copied().unwrap_or_default()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Layout, Sizes, region};

    #[test]
    fn what_the_engine_says_is_what_the_host_reads() {
        let sizes = Sizes {
            send_len: 4096,
            receive_len: 4096,
            ..Sizes::default()
        };
        let layout = Layout::new(sizes).expect("possible");
        let (engine, host) = region::on_heap(&layout).expect("a region");
        assert_eq!(host.opening.get(), Opening::Engine);
        for opening in Opening::ALL {
            engine.opening.set(opening);
            assert_eq!(host.opening.get(), opening);
        }
        engine.opening.0.word().store(u64::MAX, Ordering::Relaxed);
        assert_eq!(host.opening.get(), Opening::Engine);
    }
}
