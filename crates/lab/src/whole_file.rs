//! Files of which there is all, or what was there before: for who reads one while it is written anew, and whenever who
//! writes it is cut short.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// What of a file's mode is whom it lets do what.
const RIGHTS: u32 = 0o777;
/// Those of a new file, of which the process's mask takes some.
const USUAL: u32 = 0o666;

/// Writes a file beside `path` and renames it into its place: who reads it never sees half of it. It belongs to whom
/// the one before belonged to, with the same rights, as far as that can be: root may write a user's file anew. Where its
/// group cannot be the same, that group may do what everybody may. A link is replaced, and where it leads to is not
/// looked at.
///
/// # Errors
/// It cannot be written, or `path` names no file.
pub fn write(path: &Path, text: &str) -> Result<()> {
    put(path, text, false)
}

/// As [`write()`], and it is there also if the machine goes down: the name does not outrun the content.
///
/// # Errors
/// As [`write()`].
pub fn keep(path: &Path, text: &str) -> Result<()> {
    put(path, text, true)
}

/// Finds out whether [`write()`] will do, and leaves what is there as it is.
///
/// # Errors
/// As [`write()`].
pub fn try_to_write(path: &Path) -> Result<()> {
    let aside = beside(path)?;
    make(&aside, USUAL)?;
    std::fs::remove_file(aside)?;
    match path.is_dir() {
        true => Err(ErrorKind::IsADirectory.into()),
        false => Ok(()),
    }
}

fn put(path: &Path, text: &str, outlasts: bool) -> Result<()> {
    let aside = beside(path)?;
    let before = std::fs::symlink_metadata(path).ok();
    let before = before.filter(std::fs::Metadata::is_file);
    // Nobody reads it who could not read the one before.
    let mut file = make(&aside, before.as_ref().map_or(USUAL, |_| 0o600))?;
    if let Some(before) = before {
        // Only root can give a file away; who cannot has it himself, and may be of its group.
        let (user, group) = (before.uid(), before.gid());
        let _ =
            fchown(&file, Some(user), Some(group)).or_else(|_| fchown(&file, None, Some(group)));
        let is_its_group = file.metadata()?.gid() == group;
        let rights = rights(before.mode(), is_its_group);
        file.set_permissions(std::fs::Permissions::from_mode(rights))?;
    }
    file.write_all(text.as_bytes())?;
    if outlasts {
        file.sync_all()?;
    }
    std::fs::rename(aside, path)
}

/// Those of a file like the one before: what its group was let do was for that group.
fn rights(before: u32, is_its_group: bool) -> u32 {
    const GROUP: u32 = 0o070;
    let everybody = (before & 0o007) << 3;
    match is_its_group {
        true => before & RIGHTS,
        false => before & RIGHTS & (!GROUP | everybody),
    }
}

/// Makes a file anew: in a directory of somebody else's a link may lie in its place.
fn make(aside: &Path, mode: u32) -> Result<File> {
    match std::fs::remove_file(aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut how = OpenOptions::new();
    how.write(true).create_new(true).mode(mode).open(aside)
}

/// Where it is written first.
fn beside(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let mut aside = std::ffi::OsString::from(".");
    aside.push(name);
    aside.push(".partial");
    Ok(path.with_file_name(aside))
}

#[cfg(test)]
mod tests {
    use super::{keep, try_to_write, write};
    use crate::{is_root, skip_without_root};
    use rustix::process::getgid;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    /// A directory of a test's own.
    fn scratch(name: &str) -> PathBuf {
        let scratch = std::env::temp_dir().join(format!("lab-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&scratch);
        std::fs::create_dir_all(&scratch).unwrap();
        scratch
    }

    /// Who has the file that was there has it whole: it was not written over.
    #[test]
    fn what_was_there_is_replaced_and_not_written_over() {
        let scratch = scratch("whole-file");
        let [file, same] = ["file", "same"].map(|name| scratch.join(name));
        let read = |path| std::fs::read_to_string(path).unwrap();
        for put in [write, keep] {
            let _ = std::fs::remove_file(&same);
            put(&file, "one").unwrap();
            std::fs::hard_link(&file, &same).unwrap();
            put(&file, "another").unwrap();
            assert_eq!((read(&file), read(&same)), ("another".into(), "one".into()));
        }
        try_to_write(&file).unwrap();
        assert_eq!(read(&file), "another");
        assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 2);
        assert!(write(&scratch.join("no/file"), "").is_err());
        assert!(try_to_write(&scratch).is_err());
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn rights_stay_as_they_were() {
        let scratch = scratch("rights");
        let file = scratch.join("file");
        let mode = || std::fs::metadata(&file).unwrap().mode() & 0o777;
        for rights in [0o600, 0o664] {
            std::fs::write(&file, "one").unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(rights)).unwrap();
            write(&file, "another").unwrap();
            assert_eq!(mode(), rights);
        }
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    /// Results are a user's who has given himself their directory, also when root reports of them anew.
    #[test]
    fn a_file_stays_whose_it_was() {
        if skip_without_root("a_file_stays_whose_it_was") {
            return;
        }
        let scratch = scratch("owner");
        let file = scratch.join("file");
        std::fs::write(&file, "one").unwrap();
        chown(&file, Some(12_345), Some(23_456)).unwrap();
        keep(&file, "another").unwrap();
        let now = std::fs::metadata(&file).unwrap();
        assert_eq!((now.uid(), now.gid()), (12_345, 23_456));
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    /// Without the right to give files away, as users have none.
    #[test]
    fn a_file_that_cannot_be_given_to_its_group_is_for_no_other() {
        if skip_without_root("a_file_that_cannot_be_given_to_its_group_is_for_no_other") {
            return;
        }
        let scratch = scratch("group");
        let file = scratch.join("file");
        std::fs::write(&file, "one").unwrap();
        chown(&file, Some(12_345), Some(23_456)).unwrap();
        for (before, after) in [(0o640, 0o600), (0o664, 0o644), (0o604, 0o604)] {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(before)).unwrap();
            chown(&file, Some(12_345), Some(23_456)).unwrap();
            // Of this thread only.
            let written = std::thread::scope(|scope| {
                let writes = || {
                    let mut sets = capabilities(None).unwrap();
                    sets.effective.remove(CapabilitySet::CHOWN);
                    set_capabilities(None, sets).unwrap();
                    write(&file, "another")
                };
                scope.spawn(writes).join().unwrap()
            });
            written.unwrap();
            let now = std::fs::metadata(&file).unwrap();
            assert_eq!((now.gid(), now.mode() & 0o777), (getgid().as_raw(), after));
        }
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn a_link_is_replaced_and_nothing_is_taken_from_where_it_leads() {
        let scratch = scratch("replaced");
        let [file, other, usual] = ["file", "other", "usual"].map(|name| scratch.join(name));
        std::fs::write(&other, "untouched").unwrap();
        std::fs::set_permissions(&other, PermissionsExt::from_mode(0o606)).unwrap();
        if is_root() {
            chown(&other, Some(12_345), Some(23_456)).unwrap();
        }
        symlink(&other, &file).unwrap();
        write(&file, "one").unwrap();
        write(&usual, "one").unwrap();
        let facts = |path| {
            let facts = std::fs::symlink_metadata(path).unwrap();
            (facts.is_file(), facts.uid(), facts.gid(), facts.mode())
        };
        assert_eq!(facts(&file), facts(&usual));
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "untouched");
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    /// What root writes beside a user's file does not go where that user likes.
    #[test]
    fn a_link_where_it_is_written_first_is_not_followed() {
        let scratch = scratch("link");
        let [file, other] = ["file", "other"].map(|name| scratch.join(name));
        std::fs::write(&other, "untouched").unwrap();
        symlink(&other, scratch.join(".file.partial")).unwrap();
        write(&file, "one").unwrap();
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!(
            (read(&file), read(&other)),
            ("one".into(), "untouched".into())
        );
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}
