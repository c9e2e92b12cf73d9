//! Of what the library is made, by which one is told from another.

use std::io;
use std::path::Path;

use object::elf;
use object::read::elf::{FileHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};

use super::Header;
use super::file::File;

/// Of what the library of this build is made, in hexadecimal digits: another one is made of something else, or
/// compiled otherwise.
pub const MADE_OF: &str = env!("OUTBOARD_LIBRARY_MADE_OF");

/// The section in which a library says it, as a note (elf(5)) of this name and kind.
pub const SECTION: &[u8] = b".note.outboard";
/// Who speaks in the note.
pub const OWNER: &[u8] = b"outboard";
/// That it is this which it says.
pub const KIND: u32 = 1;

/// Whether the library in this file is of this build. One that does not say is not.
///
/// # Errors
/// The file cannot be opened or read.
pub fn is_of_this_build(path: &Path) -> io::Result<bool> {
    Ok(made_of(path)?.as_deref() == Some(MADE_OF))
}

/// Of what the library in this file says that it is made, if it does.
fn made_of(path: &Path) -> io::Result<Option<String>> {
    let file = File::open(path)?;
    if !file.begin::<4>()?.starts_with(&elf::ELFMAG) {
        return Ok(None);
    }
    Ok(noted(&ReadCache::new(file)))
}

/// What stands in the note of a file of ELF.
fn noted<'data>(data: impl ReadRef<'data>) -> Option<String> {
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let (_, section) = sections.section_by_name(endian, SECTION)?;
    let mut notes = section.notes(endian, data).ok()??;
    while let Some(note) = notes.next().ok()? {
        if note.name() == OWNER && note.n_type(endian) == KIND {
            return String::from_utf8(note.desc().to_vec()).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{MADE_OF, made_of};
    use std::path::Path;

    #[test]
    fn what_is_not_the_library_says_nothing() {
        assert_eq!(MADE_OF.len(), 16);
        let this = std::env::current_exe().expect("a test has an executable");
        assert_eq!(made_of(&this).expect("to be read"), None);
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert_eq!(made_of(&manifest).expect("to be read"), None);
        assert!(made_of(Path::new("/nonexistent")).is_err());
    }
}
