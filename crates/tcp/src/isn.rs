//! Initial sequence numbers (ISN, RFC 6528) and timestamp offsets (RFC 7323 7.1), which nobody outside may
//! be able to guess.

use wire::flow::{FlowHasher, FlowKey};
use wire::seq::SeqNumber;

use crate::time::Instant;

/// Chooses initial sequence numbers: a clock of 4 µs plus a keyed hash of the flow. Nobody without
/// the key can tell the next one, and successive connections of one flow do not overlap.
#[derive(Clone, Debug)]
pub struct Isn {
    hasher: FlowHasher,
}

impl Isn {
    /// Chooses with this secret key.
    pub fn new(key: [u8; 16]) -> Isn {
        Isn {
            hasher: FlowHasher::new(key),
        }
    }

    /// The initial sequence number of `flow` at this time, ISN = M + F(flow, key), and the offset of its
    /// timestamps. F and the offset are the halves of one hash; neither reveals anything about the other.
    //= RFC 9293 MUST-8, MUST-9
    //= RFC 6528 §3
    pub fn begin(&self, now: Instant, flow: &FlowKey) -> (SeqNumber, u32) {
        let clock = (now.as_nanos() / 4_000) as u32;
        let hash = self.hasher.hash(flow);
        (SeqNumber(hash as u32) + clock, (hash >> 32) as u32)
    }

    /// The timestamp offset alone, which does not depend on the time.
    pub fn ts_offset(&self, flow: &FlowKey) -> u32 {
        (self.hasher.hash(flow) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(remote_port: u16) -> FlowKey {
        FlowKey {
            local: [10, 0, 0, 1].into(),
            remote: [10, 0, 0, 2].into(),
            local_port: 80,
            remote_port,
        }
    }

    //~ RFC 9293 MUST-8
    #[test]
    fn one_flow_counts_250_000_a_second() {
        let isn = Isn::new([1; 16]);
        let first = isn.begin(Instant::ZERO, &flow(1)).0;
        assert_eq!(
            isn.begin(Instant::from_secs(1), &flow(1)).0,
            first + 250_000
        );
        // The clock wraps after 4.77 hours and goes on.
        let late = isn.begin(Instant::from_secs(100_000), &flow(1)).0;
        assert_eq!(late, first + (100_000_u64 * 250_000) as u32);
    }

    //~ RFC 9293 MUST-9
    //~ RFC 6528 §3
    #[test]
    fn flows_and_keys_are_unrelated() {
        let isn = Isn::new([1; 16]);
        let first = isn.begin(Instant::ZERO, &flow(1)).0;
        assert!(
            isn.begin(Instant::ZERO, &flow(2))
                .0
                .distance_from(first)
                .abs()
                > 1_000_000
        );
        assert_ne!(Isn::new([2; 16]).begin(Instant::ZERO, &flow(1)).0, first);
    }
}
