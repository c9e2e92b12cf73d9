//! Faults on purpose: what happens to each frame of a link that loses, repeats, reorders and damages.
//!
//! A [`FaultPlan`] is drawn from a seed alone, so a run that fails can be run again. It decides
//! over frames, not over time: a reordered frame is held back until a number of later frames have
//! passed it. Whoever uses it and runs dry of later frames must release what is held
//! ([`Reorder::flush`]), or the last frame of a burst would wait for ever.

use std::collections::VecDeque;

/// How likely each fault is, per frame, from 0.0 to 1.0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// The frame is lost.
    pub loss: f64,
    /// The frame is delivered twice.
    pub duplication: f64,
    /// The frame is overtaken by 1 to [`Faults::reorder_distance`] later ones.
    pub reorder: f64,
    /// The most frames that may overtake one; at most [`MAX_REORDER_DISTANCE`].
    pub reorder_distance: u16,
    /// The frame is the first of a burst: it and up to [`Faults::burst_length`] - 1 after it are
    /// lost.
    pub burst: f64,
    /// The most frames lost in one burst.
    pub burst_length: u16,
    /// The frame is delivered with a bit turned over.
    pub corruption: f64,
}

/// The longest distance over which a frame can be reordered.
pub const MAX_REORDER_DISTANCE: u16 = 256;

impl Faults {
    /// No faults at all.
    pub const NONE: Self = Self {
        loss: 0.0,
        duplication: 0.0,
        reorder: 0.0,
        reorder_distance: 0,
        burst: 0.0,
        burst_length: 0,
        corruption: 0.0,
    };

    /// Loses this share of all frames, from 0.0 to 1.0: in bursts of up to so many, which have half as many on
    /// average, or one by one if that is one or none.
    pub fn losing(share: f64, longest: u16) -> Self {
        if longest > 1 {
            Self {
                burst: share / ((1.0 + f64::from(longest)) / 2.0),
                burst_length: longest,
                ..Self::NONE
            }
        } else {
            Self {
                loss: share,
                ..Self::NONE
            }
        }
    }
}

/// What is to happen to one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It goes on its way.
    Deliver,
    /// It is lost.
    Lose,
    /// It goes on its way twice.
    Duplicate,
    /// It goes on its way after this many of its successors.
    HoldBack(u16),
    /// It goes on its way with a bit turned over: which one follows from this number ([`damage`]).
    Damage(u64),
}

/// Turns over one bit of `frame`, behind the first `spared` bytes. Returns whether there was one.
pub fn damage(frame: &mut [u8], spared: usize, number: u64) -> bool {
    let bytes = frame.len().saturating_sub(spared) as u64;
    if bytes == 0 {
        return false;
    }
    let bit = number % (bytes * 8);
    frame[spared + (bit / 8) as usize] ^= 1 << (bit % 8);
    true
}

/// A reproducible sequence of fates.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    faults: Faults,
    random: SplitMix64,
    /// Frames that a burst still takes.
    burst_left: u16,
}

impl FaultPlan {
    /// The sequence that belongs to these faults and this seed.
    pub const fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            random: SplitMix64 { state: seed },
            burst_left: 0,
        }
    }

    /// The fate of the next frame.
    pub fn next_fate(&mut self) -> Fate {
        if self.burst_left > 0 {
            self.burst_left -= 1;
            return Fate::Lose;
        }
        // One draw decides which fault, so the likelihoods are of exclusive events.
        let draw = self.random.next_unit();
        let mut sum = 0.0;
        let mut within = |likelihood: f64| {
            sum += likelihood;
            draw < sum
        };
        let faults = self.faults;
        if within(faults.loss) {
            Fate::Lose
        } else if within(faults.duplication) {
            Fate::Duplicate
        } else if faults.reorder_distance > 0 && within(faults.reorder) {
            Fate::HoldBack(self.up_to(faults.reorder_distance.min(MAX_REORDER_DISTANCE)))
        } else if faults.burst_length > 0 && within(faults.burst) {
            self.burst_left = self.up_to(faults.burst_length) - 1;
            Fate::Lose
        } else if within(faults.corruption) {
            Fate::Damage(self.random.next_u64())
        } else {
            Fate::Deliver
        }
    }

    /// From 1 to `most`, which is at least that.
    fn up_to(&mut self, most: u16) -> u16 {
        let number = 1 + self.random.next_u64() % u64::from(most);
        u16::try_from(number).unwrap_or(most)
    }
}

/// Frames that wait for their successors to pass.
#[derive(Debug)]
pub struct Reorder<T> {
    /// Each with the number of frames that must still pass it.
    held: VecDeque<(u16, T)>,
}

impl<T> Default for Reorder<T> {
    fn default() -> Self {
        Self {
            held: VecDeque::new(),
        }
    }
}

impl<T> Reorder<T> {
    /// Holds `frame` back until `distance` frames have [passed](Self::passed).
    pub fn hold(&mut self, distance: u16, frame: T) {
        self.held.push_back((distance, frame));
    }

    /// One frame went by: calls `release` with every held frame whose time has come.
    pub fn passed(&mut self, mut release: impl FnMut(T)) {
        if self.held.is_empty() {
            return;
        }
        for (left, _) in &mut self.held {
            *left = left.saturating_sub(1);
        }
        // Distances are bounded, so this queue is short; order among the due is arrival order.
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].0 == 0 {
                if let Some((_, frame)) = self.held.remove(index) {
                    release(frame);
                }
            } else {
                index += 1;
            }
        }
    }

    /// Releases everything: nothing is coming that could overtake it.
    pub fn flush(&mut self, mut release: impl FnMut(T)) {
        for (_, frame) in self.held.drain(..) {
            release(frame);
        }
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

/// Steele, Lea and Flood's SplitMix64: small, fast, and good enough to decide over frames.
#[derive(Debug, Clone)]
struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0.0 up to, not including, 1.0.
    fn next_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Faults = Faults {
        loss: 0.1,
        duplication: 0.2,
        reorder: 0.2,
        reorder_distance: 4,
        corruption: 0.1,
        ..Faults::NONE
    };

    #[test]
    fn a_seed_gives_the_same_fates_and_another_seed_others() {
        let fates = |seed| {
            let mut plan = FaultPlan::new(SOME, seed);
            (0..100).map(|_| plan.next_fate()).collect::<Vec<_>>()
        };
        assert_eq!(fates(7), fates(7));
        assert_ne!(fates(7), fates(8));
    }

    #[test]
    fn fates_come_as_often_as_asked_for() {
        let mut plan = FaultPlan::new(SOME, 1);
        let mut counts = [0u32; 5];
        for _ in 0..100_000 {
            match plan.next_fate() {
                Fate::Deliver => counts[0] += 1,
                Fate::Lose => counts[1] += 1,
                Fate::Duplicate => counts[2] += 1,
                Fate::HoldBack(distance) => {
                    assert!((1..=4).contains(&distance));
                    counts[3] += 1;
                }
                Fate::Damage(_) => counts[4] += 1,
            }
        }
        for (count, expected) in counts
            .into_iter()
            .zip([40_000u32, 10_000, 20_000, 20_000, 10_000])
        {
            assert!(count.abs_diff(expected) < 1_000, "{counts:?}");
        }
    }

    #[test]
    fn bursts_take_several_in_a_row() {
        let mut plan = FaultPlan::new(
            Faults {
                burst: 0.01,
                burst_length: 7,
                ..Faults::NONE
            },
            1,
        );
        let lost: Vec<bool> = (0..100_000)
            .map(|_| plan.next_fate() == Fate::Lose)
            .collect();
        let bursts: Vec<usize> = lost
            .chunk_by(|one, next| one == next)
            .filter(|run| run[0])
            .map(<[bool]>::len)
            .collect();
        // One in a hundred frames, of four on average; now and then two meet.
        assert!((900..1_050).contains(&bursts.len()), "{}", bursts.len());
        let sum: usize = bursts.iter().sum();
        assert!((3_600..4_300).contains(&sum), "{sum}");
    }

    #[test]
    fn damage_is_one_bit_behind_what_is_spared() {
        for number in 0..100 {
            let mut frame = [0; 20];
            assert!(damage(&mut frame, 14, number));
            assert_eq!(frame[..14], [0; 14]);
            assert_eq!(frame.map(u8::count_ones).iter().sum::<u32>(), 1);
        }
        assert!(!damage(&mut [0; 14], 14, 1));
    }

    #[test]
    fn held_frames_come_after_as_many_as_they_were_given() {
        let mut reorder = Reorder::default();
        let mut out = Vec::new();
        reorder.hold(2, 'a');
        for frame in ['b', 'c', 'd'] {
            out.push(frame);
            reorder.passed(|held| out.push(held));
        }
        assert_eq!(out, ['b', 'c', 'a', 'd']);
        reorder.hold(9, 'e');
        reorder.flush(|held| out.push(held));
        assert_eq!(out.last(), Some(&'e'));
        assert!(reorder.is_empty());
    }
}
