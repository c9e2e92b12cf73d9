//! Frames whose next hop is being resolved. Few, and not for long: TCP sends again what is lost. What
//! it sends again while the first is still here takes its place, so that one of them leaves.
//!
//! They wait for an address, as a neighbour keeps its number only for as long as anybody uses it.

use std::net::IpAddr;
use std::time::Duration;

use tcp::Instant;
use wire::ethernet::MacAddr;

/// How long a frame waits at most. The kernel gives up on a neighbour that does not answer three questions, one a
/// second, and on what waits for it.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// A frame in waiting.
#[derive(Debug)]
struct Held {
    waits_for: IpAddr,
    since: Instant,
    bytes: Box<[u8]>,
}

/// Frames in waiting, by the address of the neighbour that they wait for.
#[derive(Debug, Default)]
pub struct HeldFrames {
    frames: Vec<Held>,
    limit: usize,
}

impl HeldFrames {
    /// Holds at most `limit` frames.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            frames: Vec::new(),
            limit,
        }
    }

    /// Holds `frame` from now on; false if there is no room, and it is lost.
    #[must_use]
    pub fn hold(&mut self, now: Instant, neighbour: IpAddr, frame: &[u8]) -> bool {
        let again = |held: &&mut Held| held.waits_for == neighbour && is_again(&held.bytes, frame);
        if let Some(held) = self.frames.iter_mut().find(again) {
            held.bytes.copy_from_slice(frame);
            held.since = now;
            return true;
        }
        if self.is_full() {
            return false;
        }
        self.frames.push(Held {
            waits_for: neighbour,
            since: now,
            bytes: frame.into(),
        });
        true
    }

    /// Takes out the frames for `neighbour`, their destination now filled in.
    pub fn release(&mut self, neighbour: IpAddr, mac: MacAddr) -> Vec<Box<[u8]>> {
        let mut released = self.discard(neighbour);
        for frame in &mut released {
            if let Some(destination) = frame.first_chunk_mut::<6>() {
                *destination = mac.0;
            }
        }
        released
    }

    /// Takes out the frames for `neighbour`, which will not be resolved.
    pub fn discard(&mut self, neighbour: IpAddr) -> Vec<Box<[u8]>> {
        self.frames
            .extract_if(.., |held| held.waits_for == neighbour)
            .map(|held| held.bytes)
            .collect()
    }

    /// Drops those that have waited for [too long](PATIENCE); how many those were.
    pub fn drop_aged(&mut self, now: Instant) -> usize {
        let before = self.frames.len();
        let is_young = |held: &Held| now.saturating_duration_since(held.since) < PATIENCE;
        self.frames.retain(is_young);
        before - self.frames.len()
    }

    /// How many frames are held.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether no frame is held.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether there is no room for another one.
    pub fn is_full(&self) -> bool {
        self.frames.len() >= self.limit
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

    fn neighbour(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
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
        assert_eq!(held.release(neighbour(1), MacAddr([9; 6]))[0][61], 2);
    }

    #[test]
    fn frames_wait_for_their_neighbour_within_the_limit() {
        let mut held = HeldFrames::with_limit(2);
        assert!(held.hold(at(0), neighbour(1), &[0; 14]));
        assert!(held.hold(at(0), neighbour(2), &[0; 14]));
        assert!(!held.hold(at(0), neighbour(1), &[0; 14]));
        let frames = held.release(neighbour(2), MacAddr([9; 6]));
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0][..6], [9; 6]);
        assert_eq!(held.discard(neighbour(1)).len(), 1);
        assert!(held.is_empty());
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
        assert_eq!(held.release(neighbour(2), MacAddr([9; 6])).len(), 0);
        assert_eq!(held.drop_aged(at(5)), 0);
        assert_eq!(held.drop_aged(at(6)), 1);
        assert!(held.is_empty());
    }
}
