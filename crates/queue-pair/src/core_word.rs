//! On which core the host last ran, and how it wants to be waited for: a word in the region that it writes
//! before it sleeps and when it rings, and that the engine reads to be where its host is. A wake-up on
//! one's own core costs a tenth of one on another.
//!
//! The word only advises. A host that never writes it is followed nowhere, and one that lies has an
//! engine that is far away from it, or that stays where it is.

use crate::armed::Word;
use crate::profile::Profile;
use crate::sync::Ordering;
use crate::words::RegionWord;

/// Cores are numbered below this; what is not is no core.
const MOST_CORES: u64 = 8192;
/// The core is in the lower half of the word, the profile in the other.
const PROFILE_AT: u32 = 32;

/// The word. Its lower half is the core's number plus one, its upper half is 1 for
/// [`Efficient`](Profile::Efficient), 2 for [`Balanced`](Profile::Balanced), 3 for
/// [`Latency`](Profile::Latency); 0 is what was not said.
#[derive(Debug)]
pub struct CoreWord(RegionWord);

impl CoreWord {
    pub(crate) fn new(word: RegionWord) -> Self {
        Self(word)
    }

    /// The host says that it runs on `core`, and how it wants to be served if it wants anything.
    pub fn tell(&self, core: usize, wanted: Option<Profile>) {
        let wanted = match wanted {
            None => 0,
            Some(Profile::Efficient) => 1,
            Some(Profile::Balanced) => 2,
            Some(Profile::Latency) => 3,
        };
        let said = u64::from((core as u32).saturating_add(1)) | wanted << PROFILE_AT;
        // Relaxed: nothing else is said by it. Unless it has moved, the line stays shared.
        if self.0.word().load(Ordering::Relaxed) != said {
            self.0.word().store(said, Ordering::Relaxed);
        }
    }

    /// The core that the host named last; `None` if it named none, or one that cannot be. Whether
    /// there is such a core here is for the engine to know.
    pub fn get(&self) -> Option<usize> {
        let said = self.0.word().load(Ordering::Relaxed) & u64::from(u32::MAX);
        let core = said.checked_sub(1).filter(|core| *core < MOST_CORES)?;
        usize::try_from(core).ok()
    }

    /// How the host wants to be served; `None` if it has not said, or what is no profile.
    pub fn wanted(&self) -> Option<Profile> {
        match self.0.word().load(Ordering::Relaxed) >> PROFILE_AT {
            1 => Some(Profile::Efficient),
            2 => Some(Profile::Balanced),
            3 => Some(Profile::Latency),
            _ => None,
        }
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
        assert_eq!(engine.core.wanted(), None, "nothing was said");
        for core in [0, 1, 8191] {
            for wanted in [None].into_iter().chain(Profile::ALL.map(Some)) {
                host.core.tell(core, wanted);
                assert_eq!(engine.core.get(), Some(core));
                assert_eq!(engine.core.wanted(), wanted);
            }
        }
        for absurd in [0, 8193, 0xffff_ffff, 4 << 32, u64::MAX] {
            host.core.0.word().store(absurd, Ordering::Relaxed);
            assert_eq!(engine.core.get(), None, "{absurd}");
            assert_eq!(engine.core.wanted(), None, "{absurd}");
        }
        host.core.tell(usize::MAX - 1, None);
        assert_eq!(engine.core.get(), None);
    }
}
