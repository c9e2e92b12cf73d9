//! The ways to send that programs have which know of their engine.

use super::super::Extent;

/// The ways to send natively, as reports call them, and how a program is told of each. The source's baseline waits
/// until its engine has made the call.
pub const SYNCHRONOUS: (&str, &str) = ("synchronous", "synchronous");
pub const SYNCHRONOUS_REGISTERED: (&str, &str) =
    ("synchronous, registered", "synchronous-registered");
pub const ASYNCHRONOUS: (&str, &str) = ("asynchronous", "asynchronous");
pub const REGISTERED: (&str, &str) = ("asynchronous, registered", "asynchronous-registered");
/// What they are.
pub const SENDS: &str = "Synchronous is the source's baseline: a send returns when the engine has done it, which is when \
    it has handed the bytes to the wire. The source's engine had them copied by the send call of its own kernel then. \
    Asynchronous sends come back by cookies when the peer has acknowledged them. Both copy, unless they are from \
    registered memory.";

/// The subjects, of which a first impression has all but one.
pub fn subjects<'a>(
    extent: Extent,
    names: impl Iterator<Item = &'a str>,
    left_out: &str,
) -> Vec<String> {
    names
        .filter(|name| extent == Extent::Full || *name != left_out)
        .map(str::to_owned)
        .collect()
}
