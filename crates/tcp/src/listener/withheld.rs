//! SYNs that were left unanswered, remembered in a filter of fixed size, so that a client that sends
//! its SYN again is told from a flood that never sends the same twice.

use core::time::Duration;

use wire::flow::{FlowHasher, FlowKey};

use crate::Instant;

/// How long a SYN is remembered for certain; after twice that it is forgotten. The first
/// retransmission comes after a second (RFC 6298 §2.1).
const SPAN: Duration = Duration::from_millis(1500);
/// Bits of each half: half a megabyte. A flood of 300,000 SYNs a second sets a fifth of them.
const BITS: usize = 1 << 22;

/// A Bloom filter of two bits a SYN, in two halves that take turns.
pub(crate) struct Withheld {
    hasher: FlowHasher,
    /// No memory before the first SYN is withheld.
    halves: [Vec<u64>; 2],
    current: usize,
    since: Instant,
}

impl Withheld {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self {
            hasher: FlowHasher::new(key),
            halves: [Vec::new(), Vec::new()],
            current: 0,
            since: Instant::ZERO,
        }
    }

    /// Remembers a flow; whether it was remembered before, or looks as if it was.
    pub(crate) fn remember(&mut self, now: Instant, key: &FlowKey) -> bool {
        self.turn(now);
        let hash = self.hasher.hash(key);
        let bits = [hash as usize % BITS, (hash >> 32) as usize % BITS];
        let holds = |half: &[u64]| bits.iter().all(|bit| half[bit / 64] >> (bit % 64) & 1 != 0);
        let known = self.halves.iter().any(|half| holds(half));
        for bit in bits {
            self.halves[self.current][bit / 64] |= 1 << (bit % 64);
        }
        known
    }

    fn turn(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.since);
        if self.halves[0].is_empty() || age >= SPAN * 2 {
            for half in &mut self.halves {
                half.clear();
                half.resize(BITS / 64, 0);
            }
            self.since = now;
        } else if age >= SPAN {
            self.current ^= 1;
            self.halves[self.current].fill(0);
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(number: u32) -> FlowKey {
        FlowKey {
            local: [192, 0, 2, 1].into(),
            remote: number.to_be_bytes().into(),
            local_port: 80,
            remote_port: 40_000,
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1_000_000 + millis)
    }

    #[test]
    fn a_retransmission_is_known_and_forgotten_in_time() {
        let mut w = Withheld::new([1; 16]);
        assert!(!w.remember(at(0), &flow(1)));
        assert!(!w.remember(at(1400), &flow(2)));
        assert!(w.remember(at(1600), &flow(1)));
        assert!(w.remember(at(2500), &flow(2)));
        assert!(!w.remember(at(9000), &flow(1)));
    }

    #[test]
    fn few_strangers_of_a_flood_are_taken_for_known() {
        let mut w = Withheld::new([1; 16]);
        let known = (0..900_000)
            .filter(|&n| w.remember(at(u64::from(n) / 300), &flow(n)))
            .count();
        assert!(known < 900_000 / 20, "{known}");
        assert!(w.remember(at(3000), &flow(899_999)));
    }
}
