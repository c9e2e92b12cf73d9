//! A keyed walk through all pairs of source address and port, each once, in an order that looks
//! random.
//!
//! It is a permutation that is computed in both directions, so nothing has to be remembered: the
//! number of a connection gives its place (address and port), and the place in a segment that
//! arrives gives the number back. The construction is a Feistel network over two halves of unequal
//! size, added modulo their sizes instead of by exclusive or (Black and Rogaway, "Ciphers with
//! arbitrary finite domains", 2002); what falls outside the domain, hardly ever anything, is
//! walked on.

/// Rounds of the network. It has to spread load over queues and tables, not to keep secrets.
const ROUNDS: usize = 4;

/// Most places of a walk.
pub const MAX_PLACES: u64 = 1 << 48;

/// A permutation of the numbers below [`places`](Self::places).
#[derive(Debug, Clone)]
pub struct Walk {
    places: u64,
    /// Bits of the lower half.
    bits: u32,
    mask: u64,
    /// Size of the upper half.
    upper: u64,
    keys: [u64; ROUNDS],
}

impl Walk {
    /// A walk through `places` places, 1 to [`MAX_PLACES`] (clamped to that).
    pub fn new(places: u64, key: u64) -> Self {
        let places = places.clamp(1, MAX_PLACES);
        let bits = (u64::BITS - places.leading_zeros()) / 2;
        let mut state = key;
        Self {
            places,
            bits,
            mask: (1 << bits) - 1,
            upper: places.div_ceil(1 << bits),
            keys: std::array::from_fn(|_| {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                mix(state)
            }),
        }
    }

    /// How many places there are.
    pub const fn places(&self) -> u64 {
        self.places
    }

    /// The place at step `step` (modulo the number of places).
    #[inline]
    pub fn place(&self, step: u64) -> u64 {
        let mut at = step % self.places;
        loop {
            at = self.forwards(at);
            if at < self.places {
                return at;
            }
        }
    }

    /// The step, below the number of places, at which `place` is visited; `None` if there is no
    /// such place.
    #[inline]
    pub fn step(&self, place: u64) -> Option<u64> {
        if place >= self.places {
            return None;
        }
        let mut at = place;
        loop {
            at = self.backwards(at);
            if at < self.places {
                return Some(at);
            }
        }
    }

    #[inline]
    fn forwards(&self, at: u64) -> u64 {
        let (mut low, mut high) = (at & self.mask, at >> self.bits);
        for pair in self.keys.chunks_exact(2) {
            low = (low + round(pair[0], high)) & self.mask;
            high += scale(round(pair[1], low), self.upper);
            if high >= self.upper {
                high -= self.upper;
            }
        }
        high << self.bits | low
    }

    #[inline]
    fn backwards(&self, at: u64) -> u64 {
        let (mut low, mut high) = (at & self.mask, at >> self.bits);
        for pair in self.keys.chunks_exact(2).rev() {
            let back = scale(round(pair[1], low), self.upper);
            high = if high >= back {
                high - back
            } else {
                high + self.upper - back
            };
            low = low.wrapping_sub(round(pair[0], high)) & self.mask;
        }
        high << self.bits | low
    }
}

/// The round function: 32 bits that depend on all of the key and the half.
#[inline]
fn round(key: u64, half: u64) -> u64 {
    let product = (half ^ key).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (product ^ (product >> 32)).wrapping_mul(key | 1) >> 32
}

/// From 32 random bits to a number below `size`, which is less than 2^32.
#[inline]
fn scale(random: u64, size: u64) -> u64 {
    (random * size) >> 32
}

/// Spreads the bits of a number (the finalizer of SplitMix64).
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_place_is_visited_once() {
        for places in [1, 2, 3, 10, 255, 256, 257, 64_512, 100_003] {
            let walk = Walk::new(places, 42);
            let mut seen = vec![false; places as usize];
            for step in 0..places {
                let place = walk.place(step) as usize;
                assert!(!std::mem::replace(&mut seen[place], true), "{places}");
            }
        }
    }

    #[test]
    fn neighbours_in_time_are_not_neighbours_in_place() {
        let walk = Walk::new(64_512, 7);
        let near = (0..10_000_u64)
            .filter(|step| walk.place(*step).abs_diff(walk.place(step + 1)) < 64)
            .count();
        // By chance one in 500.
        assert!(near < 100, "{near} of 10000");
    }

    proptest! {
        #[test]
        fn a_place_gives_its_step_back(
            places in 1..=MAX_PLACES, key: u64, step: prop::sample::Index,
        ) {
            let walk = Walk::new(places, key);
            let step = step.index(usize::MAX) as u64 % places;
            prop_assert_eq!(walk.step(walk.place(step)), Some(step));
            prop_assert_eq!(walk.step(places), None);
            prop_assert_eq!(walk.place(step + places), walk.place(step));
        }
    }
}
