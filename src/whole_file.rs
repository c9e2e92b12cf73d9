//! Files that others read while they are written anew.

use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Writes a file beside `path` and renames it into its place: who reads it never sees half of it.
///
/// # Errors
/// It cannot be written, or `path` names no file.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let partial = beside(path)?;
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, path)
}

/// Finds out whether [`write()`] will do, and leaves what is there as it is.
///
/// # Errors
/// As [`write()`].
pub fn try_to_write(path: &Path) -> Result<()> {
    let partial = beside(path)?;
    std::fs::write(&partial, "")?;
    std::fs::remove_file(partial)?;
    match path.is_dir() {
        true => Err(ErrorKind::IsADirectory.into()),
        false => Ok(()),
    }
}

/// Where it is written first.
fn beside(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let mut partial = std::ffi::OsString::from(".");
    partial.push(name);
    partial.push(".partial");
    Ok(path.with_file_name(partial))
}
