//! The programs that are kept, each a file.

use crate::program::Program;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The programs that agree: the gate's.
pub fn held() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/held")
}

/// The programs that are known not to agree yet.
pub fn open() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/open")
}

/// All programs of a directory with their names, in the order of these.
///
/// # Errors
/// A file cannot be read, or is no program.
pub fn all(directory: &Path) -> Result<Vec<(String, Program)>> {
    let mut programs = Vec::new();
    // None is kept there at present.
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Ok(programs);
    };
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            programs.push((name.into_owned(), read(&path)?));
        }
    }
    programs.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(programs)
}

/// The program in a file.
///
/// # Errors
/// It cannot be read, or is no program.
pub fn read(path: &Path) -> Result<Program> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Program::from_text(&text).with_context(|| format!("in {}", path.display()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn kept_programs_are_programs_and_say_what_they_show() {
        for directory in [super::held(), super::open()] {
            for (name, program) in super::all(&directory).unwrap() {
                assert!(!program.about.is_empty(), "{name}");
            }
        }
    }
}
