use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// As good as random, and the same in every run.
fn hash(n: u32) -> Hash {
    let mut x = u64::from(n).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Hash::new(x ^ (x >> 31))
}

/// What the longest step moved in which `step` was done for each number.
fn longest(
    table: &mut Index<u32>,
    numbers: core::ops::Range<u32>,
    mut step: impl FnMut(&mut Index<u32>, u32),
) -> u64 {
    let steps = numbers.map(|n| {
        let before = table.moved();
        step(table, n);
        table.moved() - before
    });
    steps.max().unwrap_or(0)
}

#[test]
fn no_step_moves_more_than_a_piece_however_much_there_is() {
    const MANY: u32 = 1_000_000;
    let mut table = Index::with_capacity(0, 0);
    let put = longest(&mut table, 0..MANY, |table, n| {
        assert_eq!(table.insert(n, hash(n), n), None);
    });
    assert!(put <= PIECE as u64, "{put} entries were moved for one");
    assert!(table.slots() < 4 * MANY as usize);
    assert!((0..MANY).all(|n| table.get(&n, hash(n)) == Some(n)));
    let taken = longest(&mut table, 0..MANY, |table, n| {
        assert_eq!(table.remove(&n, hash(n)), Some(n));
    });
    assert!(taken <= PIECE as u64, "{taken} entries were moved for one");
    assert_eq!((table.len(), table.slots()), (0, LEAST));
    assert_eq!((table.depth, table.directory.len()), (0, 1));
}

#[test]
fn it_does_not_shrink_below_its_capacity() {
    let mut table = Index::with_capacity(10_000, 0);
    let slots = table.slots();
    for n in 0..100_000 {
        table.insert(n, hash(n), n);
    }
    assert!(table.slots() > slots);
    for n in 0..100_000 {
        table.remove(&n, hash(n));
    }
    assert_eq!(table.slots(), slots);
}

#[test]
fn keys_whose_hashes_are_all_alike_are_found() {
    let mut table = Index::with_capacity(0, 0);
    let alike = Hash::new(0x1234_5678);
    for n in 0..2_000 {
        table.insert(n, alike, n);
    }
    assert!((0..2_000).all(|n| table.get(&n, alike) == Some(n)));
    for n in 0..2_000 {
        assert_eq!(table.remove(&n, alike), Some(n));
    }
    assert_eq!((table.len(), table.slots()), (0, LEAST));
}

proptest! {
    /// Few keys and pieces that are small, so that runs meet, wrap around and are torn apart; and many at
    /// once, so that pieces are split and joined.
    #[test]
    fn it_behaves_like_a_map(
        capacity in prop_oneof![Just(0_usize), Just(3_000)],
        steps in proptest::collection::vec((0..3_u8, 0..40_u32, prop_oneof![9 => Just(1_u32), 1 => Just(3_000)]), 0..60),
    ) {
        let mut table = Index::with_capacity(capacity, 7);
        let mut map = HashMap::new();
        for (step, (what, first, count)) in steps.into_iter().enumerate() {
            for n in first..first + count {
                let value = step as u32;
                match what {
                    0 => prop_assert_eq!(table.insert(n, hash(n), value), map.insert(n, value)),
                    1 => prop_assert_eq!(table.remove(&n, hash(n)), map.remove(&n)),
                    _ => prop_assert_eq!(table.get(&n, hash(n)), map.get(&n).copied()),
                }
            }
            prop_assert_eq!(table.len(), map.len());
        }
        for n in 0..3_040 {
            prop_assert_eq!(table.get(&n, hash(n)), map.get(&n).copied());
        }
    }
}
