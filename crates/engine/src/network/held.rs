//! Frames whose next hop is being resolved. Few, and not for long: TCP sends again what is lost. What
//! it sends again while the first is still here takes its place, so that one of them leaves.
//!
//! They wait for an address, as a neighbour keeps its number only for as long as anybody uses it. When that is known
//! they wait for the device, which takes some in a turn.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use tcp::Instant;
use wire::ethernet::MacAddr;

use super::{NicId, OnLink};

/// How long a frame waits at most. The kernel gives up on a neighbour that does not answer three questions, one a
/// second, and on what waits for it.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// A frame in waiting.
#[derive(Debug)]
struct Held {
    since: Instant,
    bytes: Box<[u8]>,
}

/// Frames in waiting.
#[derive(Debug, Default)]
pub struct HeldFrames {
    /// By the neighbour that they wait for.
    waiting: BTreeMap<OnLink<IpAddr>, Vec<Held>>,
    /// Those whose neighbour is known by now, in the order in which they leave, and by which interface.
    released: VecDeque<(NicId, Held)>,
    /// How many they all are.
    count: usize,
    limit: usize,
}

impl HeldFrames {
    /// Holds at most `limit` frames.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Holds `frame` from now on; false if there is no room, and it is lost.
    #[must_use]
    pub fn hold(&mut self, now: Instant, neighbour: OnLink<IpAddr>, frame: &[u8]) -> bool {
        let mut others = self.waiting.get_mut(&neighbour).into_iter().flatten();
        if let Some(held) = others.find(|held| is_again(&held.bytes, frame)) {
            held.bytes.copy_from_slice(frame);
            held.since = now;
            return true;
        }
        if self.is_full() {
            return false;
        }
        self.waiting.entry(neighbour).or_default().push(Held {
            since: now,
            bytes: frame.into(),
        });
        self.count += 1;
        true
    }

    /// The frames for `neighbour` may leave: this is its hardware address.
    pub fn release(&mut self, neighbour: OnLink<IpAddr>, mac: MacAddr) {
        for mut held in self.waiting.remove(&neighbour).into_iter().flatten() {
            if let Some(destination) = held.bytes.first_chunk_mut::<6>() {
                *destination = mac.0;
            }
            self.released.push_back((neighbour.nic, held));
        }
    }

    /// The next frame that may leave, and by which interface.
    pub fn next_released(&self) -> Option<(NicId, &[u8])> {
        self.released
            .front()
            .map(|(nic, held)| (*nic, &*held.bytes))
    }

    /// It has left.
    pub fn pop_released(&mut self) {
        if self.released.pop_front().is_some() {
            self.count -= 1;
        }
    }

    /// Drops the frames for `neighbour`, which will not be resolved; how many those were.
    pub fn discard(&mut self, neighbour: OnLink<IpAddr>) -> usize {
        let dropped = self.waiting.remove(&neighbour).map_or(0, |all| all.len());
        self.count -= dropped;
        dropped
    }

    /// Drops those that have waited for [too long](PATIENCE); how many those were.
    pub fn drop_aged(&mut self, now: Instant) -> usize {
        let is_young = |held: &Held| now.saturating_duration_since(held.since) < PATIENCE;
        self.waiting.retain(|_, all| {
            all.retain(is_young);
            !all.is_empty()
        });
        self.released.retain(|(_, held)| is_young(held));
        let before = self.count;
        self.count = self.released.len() + self.waiting.values().map(Vec::len).sum::<usize>();
        before - self.count
    }

    /// How many frames are held.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no frame is held.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether there is no room for another one.
    pub fn is_full(&self) -> bool {
        self.count >= self.limit
    }
}

/// Whether `frame` is the TCP segment `held` once more: of the same flow and sequence number, with the
/// same flags and as long. (The engine sends no IP options and no extension headers.)
fn is_again(held: &[u8], frame: &[u8]) -> bool {
    let same = |range: core::ops::Range<usize>| {
        let (held, frame) = (held.get(range.clone()), frame.get(range));
        held.is_some() && held == frame
    };
    // Addresses, and where TCP begins.
    let (addresses, tcp) = match (held.get(12..14), held.get(14)) {
        (Some([0x08, 0x00]), Some(0x45)) => (26..34, 34),
        (Some([0x86, 0xdd]), Some(_)) => (22..54, 54),
        _ => return false,
    };
    held.len() == frame.len()
        && same(12..15)
        && same(addresses)
        && same(tcp..tcp + 8)
        && same(tcp + 13..tcp + 14)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(last: u8) -> OnLink<IpAddr> {
        OnLink {
            nic: NicId::default(),
            address: IpAddr::from([192, 0, 2, last]),
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// A segment; its source port, sequence number, flags and timestamp are each a byte of it.
    fn segment() -> [u8; 74] {
        let mut segment = [0; 74];
        segment[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        (segment[35], segment[41], segment[47], segment[61]) = (1, 2, 2, 1);
        segment
    }

    #[test]
    fn what_is_sent_again_takes_the_place_of_the_first() {
        let mut segment = segment();
        let mut held = HeldFrames::with_limit(4);
        assert!(held.hold(at(0), neighbour(1), &segment));
        segment[61] = 2;
        assert!(held.hold(at(0), neighbour(1), &segment));
        assert_eq!(held.len(), 1);
        for changed in [35, 41, 47] {
            let mut other = segment;
            other[changed] += 1;
            assert!(held.hold(at(0), neighbour(1), &other));
        }
        held.release(neighbour(1), MacAddr([9; 6]));
        let released = held.next_released();
        assert_eq!(released.map(|(_, frame)| frame[61]), Some(2));
    }

    #[test]
    fn frames_wait_for_their_neighbour_within_the_limit() {
        let mut held = HeldFrames::with_limit(2);
        assert!(held.hold(at(0), neighbour(1), &[0; 14]));
        assert!(held.hold(at(0), neighbour(2), &[0; 14]));
        assert!(!held.hold(at(0), neighbour(1), &[0; 14]));
        held.release(neighbour(2), MacAddr([9; 6]));
        let (_, frame) = held.next_released().expect("its neighbour is known");
        assert_eq!(frame[..6], [9; 6]);
        assert!(held.is_full(), "it has not left");
        held.pop_released();
        assert!(held.next_released().is_none());
        assert_eq!(held.discard(neighbour(1)), 1);
        assert!(held.is_empty());
    }

    #[test]
    fn who_has_the_same_address_on_another_link_is_another() {
        let other = |last| OnLink {
            nic: NicId::at(1),
            ..neighbour(last)
        };
        let mut held = HeldFrames::with_limit(4);
        assert!(held.hold(at(0), neighbour(1), &segment()));
        assert!(held.hold(at(0), other(1), &segment()));
        assert_eq!(held.len(), 2);
        held.release(other(1), MacAddr([9; 6]));
        let (nic, _) = held.next_released().expect("its neighbour is known");
        assert_eq!(nic, NicId::at(1));
        held.pop_released();
        assert!(held.next_released().is_none());
        assert_eq!(held.discard(neighbour(1)), 1);
    }

    #[test]
    fn nothing_waits_for_longer_than_it_is_true() {
        let mut held = HeldFrames::with_limit(2);
        assert!(held.hold(at(0), neighbour(1), &segment()));
        assert!(held.hold(at(1), neighbour(2), &[0; 14]));
        assert_eq!(held.drop_aged(at(2)), 0);
        // Sent again, it is as young as that.
        assert!(held.hold(at(3), neighbour(1), &segment()));
        assert_eq!(held.drop_aged(at(4)), 1);
        held.release(neighbour(2), MacAddr([9; 6]));
        assert!(held.next_released().is_none());
        assert_eq!(held.drop_aged(at(5)), 0);
        // Nor for a device without frames.
        held.release(neighbour(1), MacAddr([9; 6]));
        assert_eq!(held.drop_aged(at(6)), 1);
        held.pop_released();
        assert!(held.is_empty());
    }
}
