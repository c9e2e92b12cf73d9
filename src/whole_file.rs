//! Files that others read while they are written anew.

use std::io::{ErrorKind, Result};
use std::path::Path;

/// Writes a file beside `path` and renames it into its place: who reads it never sees half of it.
///
/// # Errors
/// It cannot be written, or `path` names no file.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let mut partial = std::ffi::OsString::from(".");
    partial.push(name);
    partial.push(".partial");
    let partial = path.with_file_name(partial);
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, path)
}
