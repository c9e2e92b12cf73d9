//! A random number for each byte of an answer that is computed, as WebStone 2 has it.

/// The next byte (xorshift). The state is not to be 0.
pub fn random(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 32) as u8
}

/// What it may begin with.
pub const BEGINNING: u64 = 0x9e37_79b9_7f4a_7c15;
