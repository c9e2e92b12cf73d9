//! On which core the host last ran: a word in the region that it writes before it sleeps and when it
//! rings, and that the engine reads to be where its host is. A wake-up on one's own core costs a tenth
//! of one on another.
//!
//! The word only advises. A host that never writes it is followed nowhere, and one that lies has an
//! engine that is far away from it, or that stays where it is.

use crate::armed::Word;
use crate::region::RegionWord;
use crate::sync::Ordering;

/// Cores are numbered below this; what is not is no core.
const MOST_CORES: u64 = 8192;

/// The word: the core's number plus one, and 0 as long as nothing was said.
#[derive(Debug)]
pub struct CoreWord(RegionWord);

impl CoreWord {
    pub(crate) fn new(word: RegionWord) -> Self {
        Self(word)
    }

    /// The host says that it runs on `core`.
    pub fn tell(&self, core: usize) {
        let said = core as u64 + 1;
        // Relaxed: nothing else is said by it. Unless it has moved, the line stays shared.
        if self.0.word().load(Ordering::Relaxed) != said {
            self.0.word().store(said, Ordering::Relaxed);
        }
    }

    /// The core that the host named last; `None` if it named none, or one that cannot be. Whether
    /// there is such a core here is for the engine to know.
    pub fn get(&self) -> Option<usize> {
        let said = self.0.word().load(Ordering::Relaxed);
        let core = said.checked_sub(1).filter(|core| *core < MOST_CORES)?;
        usize::try_from(core).ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Layout, Sizes, region};

    #[test]
    fn a_core_is_read_as_it_was_told_and_what_cannot_be_one_is_none() {
        let sizes = Sizes {
            send_len: 4096,
            receive_len: 4096,
            ..Sizes::default()
        };
        let layout = Layout::new(sizes).expect("possible");
        let (engine, host) = region::on_heap(&layout).expect("a region");
        assert_eq!(engine.core.get(), None, "nothing was said");
        for core in [0, 1, 8191] {
            host.core.tell(core);
            assert_eq!(engine.core.get(), Some(core));
        }
        for absurd in [0, 8193, 1 << 32, u64::MAX] {
            host.core.0.word().store(absurd, Ordering::Relaxed);
            assert_eq!(engine.core.get(), None, "{absurd}");
        }
        host.core.tell(usize::MAX - 1);
        assert_eq!(engine.core.get(), None);
    }
}
