//! Frames whose next hop is being resolved. Few, and not for long: TCP sends again what is lost.

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

#[cfg(test)]
mod tests {
    use super::*;

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
