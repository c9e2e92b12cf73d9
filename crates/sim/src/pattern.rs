//! The bytes that are sent: each follows from its address, so that whoever receives one can tell
//! whether it is the right one, and nobody has to keep any.

use crate::rng::mix;

/// Fills `bytes` with what lies at `address` and after.
pub fn fill(address: u64, bytes: &mut [u8]) {
    let mut at = address;
    let mut rest = bytes;
    while !rest.is_empty() {
        let word = mix(at / 8 + 1).to_le_bytes();
        let word = &word[(at % 8) as usize..];
        let count = word.len().min(rest.len());
        let (front, back) = rest.split_at_mut(count);
        front.copy_from_slice(&word[..count]);
        at += count as u64;
        rest = back;
    }
}

/// The place in `bytes` of the first one that does not belong at `address` and after.
pub fn first_wrong(address: u64, bytes: &[u8]) -> Option<usize> {
    let mut expected = [0; 256];
    for (number, piece) in bytes.chunks(expected.len()).enumerate() {
        let before = number * expected.len();
        let expected = &mut expected[..piece.len()];
        fill(address + before as u64, expected);
        if let Some(at) = piece.iter().zip(&*expected).position(|(a, b)| a != b) {
            return Some(before + at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_those_of_the_whole() {
        let mut whole = [0; 600];
        fill(1 << 40, &mut whole);
        for (from, to) in [(0, 600), (3, 5), (7, 9), (8, 16), (1, 600), (255, 513)] {
            let mut piece = vec![0; to - from];
            fill((1 << 40) + from as u64, &mut piece);
            assert_eq!(piece, whole[from..to]);
            assert_eq!(first_wrong((1 << 40) + from as u64, &piece), None);
        }
        whole[300] ^= 1;
        assert_eq!(first_wrong(1 << 40, &whole), Some(300));
        assert_eq!(first_wrong(2 << 40, &whole[..8]), Some(0));
    }
}
