//! Files of results, of which there is all or what was there before, whenever a run is cut short.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Writes a file beside `path` and renames it into its place.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, text: &str) -> Result<()> {
    put(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let mut aside = OsString::from(".");
    aside.push(name);
    aside.push(".partial");
    let aside = path.with_file_name(aside);
    let mut file = File::create(&aside)?;
    file.write_all(text.as_bytes())?;
    // The name must not outrun the content, should the machine go down.
    file.sync_all()?;
    std::fs::rename(aside, path)
}

#[cfg(test)]
mod tests {
    use super::write;

    /// Who has the file that was there has it whole: it was not written over.
    #[test]
    fn what_was_there_is_replaced_and_not_written_over() {
        let name = format!("lab-whole-file-{}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&scratch).unwrap();
        let [file, same] = ["file", "same"].map(|name| scratch.join(name));
        let read = |path| std::fs::read_to_string(path).unwrap();
        write(&file, "one").unwrap();
        std::fs::hard_link(&file, &same).unwrap();
        write(&file, "another").unwrap();
        assert_eq!((read(&file), read(&same)), ("another".into(), "one".into()));
        assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 2);
        let error = write(&scratch.join("no/file"), "").unwrap_err().to_string();
        assert!(error.contains("no/file"), "{error}");
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}
