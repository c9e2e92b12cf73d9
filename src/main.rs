//! outboard: a TCP offload engine for Linux servers, in software.
fn main() {}
