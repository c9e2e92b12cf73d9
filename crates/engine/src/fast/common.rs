//! What all workers of an engine have in common. It is made once, copied to each, and never written
//! again: no core waits for another by it.

use crate::clock::Clock;

/// The secrets and the time of an engine.
#[derive(Debug, Clone, Copy)]
pub struct Common {
    /// Makes sequence numbers, cookies and the places of flows in tables unpredictable. With one of its
    /// own a worker would not know the cookie (RFC 4987) that another has sent.
    pub seed: [u8; 32],
    /// Its zero is that of all times, in cookies and in what programs say.
    pub clock: Clock,
}

impl Common {
    /// With this seed, from now on.
    pub fn of(seed: [u8; 32]) -> Self {
        Self {
            seed,
            clock: Clock::start(),
        }
    }
}
