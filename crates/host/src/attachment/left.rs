//! Files that an engine's policy leaves to the program without being asked for each.

use std::ops::RangeInclusive;

use arrayvec::ArrayVec;

/// For how long that holds, in nanoseconds: by then the load, or the policy, may be another one.
pub(super) const LEFT_NS: u64 = 10_000_000_000;
/// Devices of which that is remembered: few programs send from more.
const MOST: usize = 8;

/// Files of which sizes are the program's to read, by device: those of another one may be no files that a policy
/// decides about.
#[derive(Debug, Default)]
pub(super) struct Left(ArrayVec<OfDevice, MOST>);

#[derive(Debug)]
struct OfDevice {
    device: u64,
    /// The first and the last.
    sizes: RangeInclusive<u64>,
    until_ns: u64,
}

impl Left {
    /// Whether a file of this size is one of them.
    pub(super) fn covers(&self, device: u64, size: u64, now: u64) -> bool {
        let covers =
            |it: &OfDevice| it.device == device && now < it.until_ns && it.sizes.contains(&size);
        self.0.iter().any(covers)
    }

    /// Files of these sizes are from now on. What was said of that device before is past.
    pub(super) fn note(&mut self, device: u64, sizes: RangeInclusive<u64>, now: u64) {
        self.0.retain(|it| it.device != device && now < it.until_ns);
        if self.0.is_full() {
            // The oldest.
            self.0.remove(0);
        }
        self.0.push(OfDevice {
            device,
            sizes,
            until_ns: now + LEFT_NS,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_remembered_for_each_of_some_devices() {
        let mut left = Left::default();
        left.note(1, 10..=20, 5);
        left.note(2, 0..=9, 6);
        assert!(left.covers(1, 10, 7) && left.covers(2, 9, 7));
        assert!(!left.covers(1, 9, 7) && !left.covers(2, 10, 7));
        // The load is another one by then.
        left.note(1, 0..=5, 8);
        assert!(!left.covers(1, 10, 9) && left.covers(1, 5, 9));
        assert!(left.covers(2, 9, 5 + LEFT_NS) && !left.covers(2, 9, 6 + LEFT_NS));
        // The oldest makes room.
        for device in 3..3 + MOST as u64 - 1 {
            left.note(device, 0..=9, 9);
        }
        assert!(!left.covers(2, 5, 10) && left.covers(1, 5, 10) && left.covers(3, 5, 10));
    }
}
