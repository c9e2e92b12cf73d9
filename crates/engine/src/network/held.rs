//! Frames whose next hop is being resolved. Few, and not for long: TCP sends again what is lost. What
//! it sends again while the first is still here takes its place, so that one of them leaves.

use wire::ethernet::MacAddr;

/// Frames in waiting, by the number of the neighbour that they wait for.
#[derive(Debug, Default)]
pub struct HeldFrames {
    frames: Vec<(u32, Box<[u8]>)>,
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

    /// Holds `frame`; false if there is no room, and it is lost.
    #[must_use]
    pub fn hold(&mut self, neighbour: u32, frame: &[u8]) -> bool {
        let again = |held: &&mut (u32, Box<[u8]>)| held.0 == neighbour && is_again(&held.1, frame);
        if let Some((_, held)) = self.frames.iter_mut().find(again) {
            held.copy_from_slice(frame);
            return true;
        }
        if self.frames.len() >= self.limit {
            return false;
        }
        self.frames.push((neighbour, frame.into()));
        true
    }

    /// Takes out the frames for `neighbour`, their destination now filled in.
    pub fn release(&mut self, neighbour: u32, mac: MacAddr) -> Vec<Box<[u8]>> {
        let mut released = self.discard(neighbour);
        for frame in &mut released {
            if let Some(destination) = frame.first_chunk_mut::<6>() {
                *destination = mac.0;
            }
        }
        released
    }

    /// Takes out the frames for `neighbour`, which will not be resolved.
    pub fn discard(&mut self, neighbour: u32) -> Vec<Box<[u8]>> {
        self.frames
            .extract_if(.., |(waits_for, _)| *waits_for == neighbour)
            .map(|(_, frame)| frame)
            .collect()
    }

    /// How many frames are held.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether no frame is held.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
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

    #[test]
    fn what_is_sent_again_takes_the_place_of_the_first() {
        let mut segment = [0; 74];
        segment[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        // Source port, sequence number, SYN, timestamp.
        (segment[35], segment[41], segment[47], segment[61]) = (1, 2, 2, 1);
        let mut held = HeldFrames::with_limit(4);
        assert!(held.hold(1, &segment));
        segment[61] = 2;
        assert!(held.hold(1, &segment));
        assert_eq!(held.len(), 1);
        for changed in [35, 41, 47] {
            let mut other = segment;
            other[changed] += 1;
            assert!(held.hold(1, &other));
        }
        assert_eq!(held.release(1, MacAddr([9; 6]))[0][61], 2);
    }

    #[test]
    fn frames_wait_for_their_neighbour_within_the_limit() {
        let mut held = HeldFrames::with_limit(2);
        assert!(held.hold(1, &[0; 14]));
        assert!(held.hold(2, &[0; 14]));
        assert!(!held.hold(1, &[0; 14]));
        let frames = held.release(2, MacAddr([9; 6]));
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0][..6], [9; 6]);
        assert_eq!(held.discard(1).len(), 1);
        assert!(held.is_empty());
    }
}
