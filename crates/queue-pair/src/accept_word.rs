//! When the host last accepted a connection: a word in the region that it writes before it accepts, and that
//! the engine reads to know how long connections wait for that, though it may look late.
//!
//! The word only advises. Of a host that never writes it the engine knows when it has noticed, and one that
//! lies spoils figures of its own.

use crate::armed::Word;
use crate::sync::Ordering;
use crate::words::RegionWord;

/// The word: nanoseconds of the monotonic clock, and 0 as long as nothing was said.
#[derive(Debug)]
pub struct AcceptWord(RegionWord);

impl AcceptWord {
    pub(crate) fn new(word: RegionWord) -> Self {
        Self(word)
    }

    /// The host is about to accept, at `now_ns` of the monotonic clock.
    pub fn tell(&self, now_ns: u64) {
        // Relaxed: what is accepted is accepted by a release, which comes after this.
        self.0.word().store(now_ns, Ordering::Relaxed);
    }

    /// When the host last accepted, in nanoseconds of the monotonic clock, as it says.
    pub fn last_ns(&self) -> Option<u64> {
        let said = self.0.word().load(Ordering::Relaxed);
        (said != 0).then_some(said)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{Layout, Sizes, region};

    #[test]
    fn a_time_is_read_as_it_was_told() {
        let sizes = Sizes {
            send_len: 4096,
            receive_len: 4096,
            ..Sizes::default()
        };
        let layout = Layout::new(sizes).expect("possible");
        let (engine, host) = region::on_heap(&layout).expect("a region");
        assert_eq!(engine.accepted.last_ns(), None, "nothing was said");
        host.accepted.tell(77);
        assert_eq!(engine.accepted.last_ns(), Some(77));
        assert_eq!(engine.core.get(), None, "a word of its own");
    }
}
