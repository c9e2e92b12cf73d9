//! What many connections hold. In a process of its own: whatever another test has held and let go of,
//! the allocator still has, in pieces.

mod common;

use common::many::{many, resident};

#[test]
fn an_idle_connection_takes_637_bytes_at_most() {
    const CONNECTIONS: u32 = 100_000;
    let before = resident();
    let b = many(CONNECTIONS);
    let each = resident().saturating_sub(before) / CONNECTIONS as usize;
    println!("{each} bytes a connection");
    // 637 before segments were predicted and buffers tuned themselves, 630 since.
    assert!(each <= 637, "{each} bytes a connection");
    assert_eq!(b.stack.flow_count(), CONNECTIONS as usize);
}
