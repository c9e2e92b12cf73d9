//! Of what this library is made, for whoever is about to start a program with it: in a note of its file, which is
//! read without loading it, and stays when symbols are stripped.

use enterable::made;

/// A note, as elf(5) has it: lengths of the name, with its zero byte, and of what it says.
#[repr(C)]
struct Note {
    name_length: u32,
    length: u32,
    kind: u32,
    /// To a multiple of four bytes.
    name: [u8; 12],
    says: [u8; 16],
}

const NAME: &[u8] = made::OWNER;

#[used]
#[unsafe(link_section = ".note.outboard")]
static MADE_OF: Note = Note {
    name_length: NAME.len() as u32 + 1,
    length: 16,
    kind: made::KIND,
    name: padded(NAME),
    says: padded(made::MADE_OF.as_bytes()),
};

/// These bytes, and zeros behind them. What has no room stops the compiler.
const fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    let mut at = 0;
    while at < bytes.len() {
        all[at] = bytes[at];
        at += 1;
    }
    all
}
