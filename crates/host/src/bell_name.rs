//! Names of doorbells, by which sets of sockets remember by which one their threads sleep.

use std::sync::atomic::{AtomicU32, Ordering};

/// A doorbell: the number of its attachment, and its own there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BellName {
    pub(crate) attachment: u32,
    pub(crate) index: u32,
}

impl BellName {
    /// A number for an attachment that no other of this process has.
    pub(crate) fn next_attachment() -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// As a word, which is 0 for none.
    pub(crate) fn to_word(name: Option<Self>) -> u64 {
        name.map_or(0, |name| {
            u64::from(name.attachment) << 32 | (u64::from(name.index) + 1)
        })
    }

    /// The inverse.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        let index = (word as u32).checked_sub(1)?;
        let attachment = (word >> 32) as u32;
        Some(Self { attachment, index })
    }
}

#[cfg(test)]
mod tests {
    use super::BellName;

    #[test]
    fn a_word_is_a_name_or_none() {
        let names = [(0, 0), (1, 63), (u32::MAX, 5)].map(|(attachment, index)| {
            let name = BellName { attachment, index };
            Some(name)
        });
        for name in names.into_iter().chain([None]) {
            assert_eq!(BellName::from_word(BellName::to_word(name)), name);
        }
        assert_eq!(BellName::to_word(None), 0);
    }
}
