//! The site that is a directory. The kernel keeps every request below it (`openat2` with
//! `RESOLVE_BENEATH`), symbolic links included.

use super::condition::{Validators, whole_seconds};
use super::exchange::{FileInfo, Found, Site};
use anyhow::Context;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, statat,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A directory that is served.
pub struct Directory {
    root: OwnedFd,
    /// Whether a directory without an index page is listed.
    list: bool,
}

/// Which file it is, and in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    file: (u64, u64),
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl FileState {
    /// By what the kernel says of it.
    pub fn of(facts: &Stat) -> Self {
        Self {
            file: (facts.st_dev, facts.st_ino),
            size: facts.st_size,
            modified: (facts.st_mtime, facts.st_mtime_nsec),
            changed: (facts.st_ctime, facts.st_ctime_nsec),
        }
    }
}

/// A file that was opened, and its state then.
pub struct Opened {
    /// The file.
    pub file: OwnedFd,
    /// Its state.
    pub state: FileState,
}

/// The page that stands for its directory.
pub const INDEX: &[u8] = b"index.html";

impl Directory {
    /// Opens `path`.
    pub fn open(path: &Path, list: bool) -> anyhow::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .with_context(|| format!("cannot serve {}", path.display()))?;
        Ok(Self { root, list })
    }

    /// The directory itself.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    fn open_below(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        // NONBLOCK: a FIFO must not hold the server up.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        loop {
            match openat2(&self.root, path, flags, Mode::empty(), resolve) {
                // A rename elsewhere made the kernel unsure: it asks to be asked again.
                Err(Errno::AGAIN | Errno::INTR) => {}
                outcome => return outcome,
            }
        }
    }

    /// What tells whether the file at `path` is still the one that was found there.
    pub fn state(&self, path: &[u8]) -> Option<FileState> {
        let facts = statat(&self.root, path, AtFlags::empty()).ok()?;
        Some(FileState::of(&facts))
    }

    fn look(&self, path: &[u8]) -> Result<Found<Opened>, Errno> {
        let file = self.open_below(path)?;
        let facts = fstat(&file)?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => {
                let length = u64::try_from(facts.st_size).unwrap_or(0);
                let state = FileState::of(&facts);
                let file = Opened { file, state };
                let (validators, kind) = (validators(&facts), content_type(path));
                Ok(Found::File(FileInfo::new(file, length, validators, kind)))
            }
            FileType::Directory if !path.is_empty() && !path.ends_with(b"/") => {
                Ok(Found::Directory)
            }
            FileType::Directory => {
                let index = [path, INDEX].concat();
                match self.look(&index) {
                    Err(Errno::NOENT) if self.list => list(&file).map(Found::Listing),
                    outcome => outcome,
                }
            }
            // Devices, sockets and pipes are nobody's business.
            _ => Err(Errno::NOENT),
        }
    }
}

impl Site for Directory {
    type File = Opened;

    fn find(&self, path: &[u8]) -> Found<Opened> {
        self.look(path).unwrap_or_else(|error| {
            Found::Refused(match error {
                Errno::ACCESS | Errno::PERM => 403,
                // XDEV: the path leads out of the directory; that looks like nothing there.
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::XDEV
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::NXIO => 404,
                Errno::MFILE | Errno::NFILE | Errno::NOMEM => 503,
                _ => 500,
            })
        })
    }
}

/// What identifies the state of a file.
pub fn validators(facts: &Stat) -> Validators {
    let length = u64::try_from(facts.st_size).unwrap_or(0);
    let changed =
        SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(facts.st_mtime).unwrap_or(0));
    let (seconds, nanoseconds) = (facts.st_mtime, facts.st_mtime_nsec);
    Validators {
        etag: format!("\"{seconds:x}.{nanoseconds:x}-{length:x}\""),
        modified: whole_seconds(changed),
    }
}

/// The media type that the name of a file suggests.
fn content_type(path: &[u8]) -> String {
    let name = String::from_utf8_lossy(path);
    let guess = mime_guess::from_path(name.as_ref()).first_or_octet_stream();
    if guess.type_() == "text" && guess.get_param("charset").is_none() {
        format!("{guess}; charset=utf-8")
    } else {
        guess.to_string()
    }
}

/// The names in a directory in order, hidden ones left out; those of directories end in a slash.
fn list(directory: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !name.starts_with(b".") {
            let slash = if entry.file_type() == FileType::Directory {
                "/"
            } else {
                ""
            };
            names.push(format!("{}{slash}", String::from_utf8_lossy(name)));
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::{Directory, Found, Opened, Site};
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    /// A directory to serve, beside a file that must stay secret.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let top =
                std::env::temp_dir().join(format!("outboard-serve-{name}-{}", std::process::id()));
            let root = top.join("root");
            std::fs::create_dir_all(root.join("sub/deep")).unwrap();
            std::fs::write(top.join("secret"), "secret").unwrap();
            std::fs::write(root.join("page.html"), "<p>").unwrap();
            std::fs::write(root.join("sub/index.html"), "index").unwrap();
            symlink("page.html", root.join("inside")).unwrap();
            symlink("../secret", root.join("outside")).unwrap();
            symlink("/etc/passwd", root.join("absolute")).unwrap();
            symlink("loop", root.join("loop")).unwrap();
            Self(top)
        }

        fn find(&self, path: &str, list: bool) -> Found<Opened> {
            let site = Directory::open(&self.0.join("root"), list).unwrap();
            site.find(path.as_bytes())
        }

        #[track_caller]
        fn refuses(&self, path: &str, status: u16) {
            match self.find(path, false) {
                Found::Refused(found) => assert_eq!(found, status, "{path}"),
                _ => panic!("{path} is served"),
            }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn nothing_leads_out_of_the_directory() {
        let place = Place::new("escape");
        for path in [
            "outside",
            "absolute",
            "../secret",
            "sub/../../secret",
            "loop",
            "none",
            "page.html/",
            "/etc/passwd",
        ] {
            place.refuses(path, 404);
        }
        place.refuses("sub/deep/", 404);
        assert!(matches!(place.find("inside", false), Found::File(file) if file.length() == 3));
    }

    #[test]
    fn directories_redirect_index_or_list() {
        let place = Place::new("directories");
        assert!(matches!(place.find("sub", false), Found::Directory));
        assert!(matches!(place.find("sub/", false), Found::File(file) if file.length() == 5));
        match place.find("", true) {
            Found::Listing(names) => {
                assert_eq!(
                    names,
                    ["absolute", "inside", "loop", "outside", "page.html", "sub/"]
                );
            }
            _ => panic!("no listing"),
        }
    }

    #[test]
    fn files_have_a_type_and_a_tag_that_changes_with_them() {
        let place = Place::new("tags");
        let look = || match place.find("page.html", false) {
            Found::File(file) => (file.content_type().to_owned(), file.etag().to_owned()),
            _ => panic!("no file"),
        };
        let (content_type, before) = look();
        assert_eq!(content_type, "text/html; charset=utf-8");
        std::fs::write(place.0.join("root/page.html"), "<p>more").unwrap();
        assert_ne!(look().1, before);
    }
}
