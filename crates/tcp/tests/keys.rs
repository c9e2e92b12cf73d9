//! Secret keys, of which a stack makes several from one seed.

use tcp::key_for;

/// A seed whose bytes are all different.
fn seed() -> [u8; 32] {
    core::array::from_fn(|at| at as u8)
}

#[test]
fn each_purpose_has_a_key_of_its_own() {
    let keys: Vec<_> = (0..64).map(|purpose| key_for(&seed(), purpose)).collect();
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(*key, key_for(&seed(), at as u64), "the same again");
        assert!(!keys[..at].contains(key), "purpose {at}");
        // The halves come from different secrets, so they say nothing of each other.
        assert_ne!(key[..8], key[8..]);
    }
}

#[test]
fn each_byte_of_the_seed_counts() {
    let key = key_for(&seed(), 0);
    for at in 0..32 {
        let mut other = seed();
        other[at] ^= 1;
        assert_ne!(key_for(&other, 0), key, "byte {at}");
    }
}
