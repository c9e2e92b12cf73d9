//! Random orders of what can happen, and the cases that matter.

use super::*;
use proptest::prelude::*;

#[test]
fn memory_is_for_what_is_outstanding_only() {
    let mut ledger = Ledger::new(8, 8);
    let memory = ledger.memory();
    for round in 0..1000 {
        while let Some(connection) = ledger.open(round) {
            assert_eq!(ledger.due(connection), round);
        }
        assert_eq!(ledger.outstanding(), 8);
        for connection in ledger.next() - 8..ledger.next() {
            ledger.close(connection);
            ledger.close(connection);
        }
        assert_eq!(ledger.outstanding(), 0);
    }
    assert_eq!((ledger.next(), ledger.memory()), (8000, memory));
}

#[test]
fn the_hand_finds_who_has_not_moved() {
    let mut ledger = Ledger::new(8, 8);
    for _ in 0..4 {
        ledger.open(5);
    }
    let mut stalled = Vec::new();
    ledger.sweep(4, |one| stalled.push(one.connection));
    assert!(stalled.is_empty(), "all have just begun");
    ledger.touch(1);
    ledger.advance(2, Stage::Waiting, 6);
    ledger.close(3);
    ledger.sweep(100, |one| stalled.push(one.connection));
    assert_eq!(stalled, [0]);
    assert!(ledger.was_retried(0) && !ledger.was_retried(1));
    let mut again = Vec::new();
    ledger.sweep(100, |one| again.push((one.connection, one.attempts)));
    assert_eq!(again, [(0, 1), (1, 0)]);
}

#[test]
fn who_stands_still_keeps_nobody_waiting() {
    let mut ledger = Ledger::new(8, 8);
    let lost = ledger.open(7).unwrap();
    for _ in 0..100 {
        let connection = ledger.open(1).expect("room");
        assert_ne!(connection % 8, lost % 8, "its place is still in use");
        assert_eq!(ledger.resolve(connection % 8), Some((connection, true)));
        ledger.close(connection);
    }
    assert_eq!((ledger.set_aside(), ledger.outstanding()), (1, 1));
    assert_eq!(ledger.resolve(0), Some((lost, true)));
    assert_eq!((ledger.stage(lost), ledger.due(lost)), (Stage::Opening, 7));
    let mut stalled = Vec::new();
    for _ in 0..2 {
        ledger.sweep(ledger.span(), |one| stalled.push(one.connection));
    }
    assert_eq!(stalled, [lost]);
    ledger.advance(lost, Stage::Asked, 9);
    assert_eq!(ledger.due(lost), 9);
    assert_eq!(ledger.live().count(), 1);
    ledger.close(lost);
    assert_eq!((ledger.set_aside(), ledger.outstanding()), (0, 0));
    let places: Vec<_> = (0..8).map(|_| ledger.open(0).unwrap() % 8).collect();
    assert!(places.contains(&(lost % 8)), "{places:?}");
    assert_eq!(ledger.open(0), None, "as many as there are places");
}

#[test]
fn what_is_set_aside_is_bounded() {
    let mut ledger = Ledger::new(1 << 16, 1 << 16);
    let mut opened = 0;
    // Every other connection stands still.
    while let Some(connection) = ledger.open(0) {
        opened += 1;
        if connection % 2 == 0 {
            ledger.close(connection);
        }
        assert!(opened < 1 << 20);
    }
    assert!(ledger.set_aside() <= aside::MOST);
    assert!(ledger.outstanding() <= (1 << 16) as u64);
}

proptest! {
    #[test]
    fn a_step_names_the_last_connection_there(
        opened in 1..500_u64, places in 16..64_u64, closed in 0..500_u64,
    ) {
        let mut ledger = Ledger::new(16, places);
        for connection in 0..opened {
            ledger.open(0);
            if connection + 1 < opened || closed % 2 == 0 {
                ledger.close(connection);
            }
        }
        for step in 0..places {
            let expected = (0..opened).rev().find(|connection| connection % places == step);
            let found = ledger.resolve(step);
            prop_assert_eq!(found.map(|(connection, _)| connection), expected);
            if let Some((connection, live)) = found {
                prop_assert_eq!(live, connection + 1 == opened && closed % 2 == 1);
            }
        }
    }
}
