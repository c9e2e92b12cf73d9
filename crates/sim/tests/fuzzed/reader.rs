//! Packet scripts of any text: the reader says what is wrong and where, and does not panic.

use sim::script;

pub fn run(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else {
        return;
    };
    if let Err(error) = script::parse(text) {
        assert!(!error.to_string().is_empty());
    }
}
