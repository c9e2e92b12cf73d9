//! What many connections hold. In a process of its own: whatever another test has held and let go of,
//! the allocator still has, in pieces.

mod common;

use common::many::{many, resident};

#[test]
fn a_hundred_thousand_connections_fit_in_64_megabytes() {
    let before = resident();
    let b = many(100_000);
    let held = resident().saturating_sub(before);
    println!("{} bytes a connection", held / 100_000);
    assert!(held < 64 << 20, "{held} bytes");
    assert_eq!(b.stack.flow_count(), 100_000);
}
