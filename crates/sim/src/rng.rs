//! The only source of chance in a simulation.
//!
//! A generator of our own, because a seed in a bug report must mean the same run for as long as the
//! code that it reports on exists: no library promises that its stream never changes.

use core::time::Duration;

/// A seeded generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A generator of its own, so that what draws from it does not disturb what draws from this.
    pub fn fork(&mut self) -> Rng {
        Rng(self.next_u64())
    }

    /// A number below `bound`; zero if that is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1))
    }

    /// A number from 0 to `max` of which every order of magnitude is equally likely.
    pub fn magnitude(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(64 - max.leading_zeros()) + 1) as u32;
        let ceiling = 1_u64
            .checked_shl(bits)
            .map_or(max, |ceiling| ceiling.min(max));
        self.between(0, ceiling)
    }

    /// A span from zero to `max`.
    pub fn span(&mut self, max: Duration) -> Duration {
        Duration::from_nanos(self.between(0, max.as_nanos() as u64))
    }

    /// Whether something happens.
    pub fn happens(&mut self, chance: Chance) -> bool {
        chance.0 > 0 && self.below(1_000_000) < u64::from(chance.0)
    }

    /// One of `choices`, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// How likely something is, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance(u32);

impl Chance {
    /// Never.
    pub const NEVER: Chance = Chance(0);
    /// Always.
    pub const ALWAYS: Chance = Chance(1_000_000);

    /// So many times in a million.
    pub const fn per_million(times: u32) -> Chance {
        Chance(times)
    }

    /// So many times in a hundred.
    pub const fn percent(times: u32) -> Chance {
        Chance(times * 10_000)
    }
}

/// Scatters the bits of `value` (the finaliser of SplitMix64).
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_forever() {
        let mut rng = Rng::new(1);
        assert_eq!(rng.next_u64(), 0x910a_2dec_8902_5cc1);
        assert_eq!(rng.next_u64(), 0xbeeb_8da1_658e_ec67);
    }

    #[test]
    fn numbers_stay_in_their_bounds() {
        let mut rng = Rng::new(7);
        for _ in 0..1_000 {
            assert!(rng.below(3) < 3);
            assert!((5..=9).contains(&rng.between(5, 9)));
            assert!(rng.magnitude(1_000) <= 1_000);
            assert!(rng.happens(Chance::ALWAYS) && !rng.happens(Chance::NEVER));
        }
        assert_eq!((rng.below(0), rng.magnitude(0)), (0, 0));
        let half = (0..10_000)
            .filter(|_| rng.happens(Chance::percent(50)))
            .count();
        assert!((4_800..5_200).contains(&half), "{half}");
    }
}
