//! What clients store: files below a directory, complete or not at all. A file has no name before it is
//! complete (`O_TMPFILE`), so that nothing is left of one that is not, however the server ends.

use super::condition::{self, Verdict};
use super::directory::validators;
use super::exchange::Stored;
use super::path;
use super::request::{Method, Request};
use anyhow::{Context, bail};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, linkat, openat, openat2, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicU8;
use std::time::SystemTime;

/// So many names of the server's making are tried before it gives up.
const NAMES: usize = 16;

/// A directory that clients store files in.
pub struct Uploads {
    root: OwnedFd,
    /// The largest file, in bytes.
    limit: u64,
}

/// A file on its way in.
pub struct Upload {
    file: OwnedFd,
    /// The directory that it goes to.
    parent: OwnedFd,
    /// That directory's path, empty or with a slash at its end.
    folder: Vec<u8>,
    place: Place,
    left: u64,
    failed: Option<u16>,
}

/// Under which name a file is stored.
enum Place {
    /// This one, if what is there meets the conditions.
    Named {
        name: Vec<u8>,
        conditions: Option<Box<Request>>,
    },
    /// One of the server's making.
    New,
}

impl Uploads {
    /// Opens `path` for files of at most `megabytes`.
    pub fn open(path: &Path, megabytes: u64) -> anyhow::Result<Self> {
        let shown = path.display();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .with_context(|| format!("--uploads: cannot open {shown}"))?;
        match nameless(&root) {
            Ok(_) => {}
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => bail!(
                "--uploads: the file system of {shown} has no files without a name (O_TMPFILE); \
                 take a directory on ext4, XFS, Btrfs or tmpfs"
            ),
            Err(error) => bail!("--uploads: cannot store in {shown}: {error}"),
        }
        let Some(limit) = megabytes.checked_mul(1_000_000).filter(|&limit| limit > 0) else {
            bail!("--upload-limit: {megabytes} megabytes cannot be; leave it out for 1024");
        };
        Ok(Self { root, limit })
    }

    /// The largest file that is stored, in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Begins to store the body of a request; an error is the status that says why not.
    pub fn begin(&self, request: &Request) -> Result<Upload, u16> {
        let path = path::resolve(&request.target).map_err(|_| 400_u16)?;
        if path
            .split(|&byte| byte == b'/')
            .any(|part| part.starts_with(b"."))
        {
            return Err(403);
        }
        let split = path
            .iter()
            .rposition(|&byte| byte == b'/')
            .map_or(0, |at| at + 1);
        let (folder, name) = path.split_at(split);
        if (request.method == Method::Put) == name.is_empty() {
            return Err(409);
        }
        let parent = self.folder(folder).map_err(status)?;
        let place = if name.is_empty() {
            Place::New
        } else {
            let conditions = request.conditions_of_storing().map(Box::new);
            may_be_stored(conditions.as_deref(), &parent, name)?;
            Place::Named {
                name: name.to_vec(),
                conditions,
            }
        };
        Ok(Upload {
            file: nameless(&parent).map_err(status)?,
            parent,
            folder: folder.to_vec(),
            place,
            left: request.body,
            failed: None,
        })
    }

    /// A directory below this one; no symbolic link leads there.
    fn folder(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        loop {
            match openat2(&self.root, path, flags, Mode::empty(), resolve) {
                // A rename elsewhere made the kernel unsure: it asks to be asked again.
                Err(Errno::AGAIN | Errno::INTR) => {}
                outcome => return outcome,
            }
        }
    }
}

impl Upload {
    /// Bytes that are still missing.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether nothing will come of it.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Takes the next bytes, at most those that are missing.
    pub fn write(&mut self, mut bytes: &[u8]) {
        self.left = self.left.saturating_sub(bytes.len() as u64);
        while !bytes.is_empty() && self.failed.is_none() {
            match rustix::io::write(&self.file, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR) => {}
                Err(error) => self.failed = Some(status(error)),
            }
        }
    }

    /// As [`write`](Self::write), from stretches of memory that the engine may write.
    pub fn write_shared(&mut self, mut stretches: &mut [&[AtomicU8]]) {
        let bytes: usize = stretches.iter().map(|stretch| stretch.len()).sum();
        self.left = self.left.saturating_sub(bytes as u64);
        while !stretches.is_empty() && self.failed.is_none() {
            match queue_pair::write_out(stretches, &self.file) {
                Ok(written) => stretches = rest(stretches, written),
                Err(Errno::INTR) => {}
                Err(error) => self.failed = Some(status(error)),
            }
        }
    }

    /// Gives the complete file its name.
    pub fn finish(self) -> Stored {
        if let Some(status) = self.failed {
            return Stored::Refused(status);
        }
        let named = match &self.place {
            Place::Named { name, conditions } => {
                let conditions = conditions.as_deref();
                // Another upload may have come before: the conditions are to hold of what is replaced. One thread
                // finishes all uploads of a server; what others change in the directory in this moment is not seen.
                if conditions.is_some()
                    && let Err(status) = may_be_stored(conditions, &self.parent, name)
                {
                    return Stored::Refused(status);
                }
                let only_new =
                    conditions.is_some_and(|it| it.if_none_match.as_deref() == Some("*"));
                match self.link(name) {
                    Err(Errno::EXIST) if only_new => return Stored::Refused(412),
                    Err(Errno::EXIST) => self.replace(name).map(|()| Stored::Replaced),
                    linked => linked.map(|()| self.created(name)),
                }
            }
            Place::New => (0..NAMES)
                .map(|_| new_name())
                .find_map(|name| match self.link(&name) {
                    Err(Errno::EXIST) => None,
                    linked => Some(linked.map(|()| self.created(&name))),
                })
                .unwrap_or(Err(Errno::EXIST)),
        };
        named.unwrap_or_else(|error| Stored::Refused(status(error)))
    }

    fn created(&self, name: &[u8]) -> Stored {
        Stored::Created([&self.folder, name].concat())
    }

    /// Gives the file a name that is free.
    fn link(&self, name: &[u8]) -> Result<(), Errno> {
        // The way that needs no privilege (open(2), O_TMPFILE).
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(CWD, own, &self.parent, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// Puts the file in the place of another, in one step.
    fn replace(&self, name: &[u8]) -> Result<(), Errno> {
        let beside = [b".".as_slice(), &new_name()].concat();
        self.link(&beside)?;
        renameat(&self.parent, &beside, &self.parent, name).inspect_err(|_| {
            // Should that fail, too, there is one hidden file more.
            let _ = unlinkat(&self.parent, &beside, AtFlags::empty());
        })
    }
}

/// What is left of these stretches after so many bytes.
fn rest<'a, 'b>(stretches: &'a mut [&'b [AtomicU8]], mut bytes: usize) -> &'a mut [&'b [AtomicU8]] {
    let is_over = |stretch: &&&[AtomicU8]| {
        let is_over = stretch.len() <= bytes;
        if is_over {
            bytes -= stretch.len();
        }
        is_over
    };
    let over = stretches.iter().take_while(is_over).count();
    let rest = &mut stretches[over..];
    if let Some(first) = rest.first_mut() {
        *first = &first[bytes..];
    }
    rest
}

/// Whether a file may be stored under this name: its conditions hold of what is there, if it has any, and that is a
/// file or nothing.
fn may_be_stored(conditions: Option<&Request>, parent: &OwnedFd, name: &[u8]) -> Result<(), u16> {
    let facts = match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) => facts,
        Err(Errno::NOENT) if conditions.is_some_and(|it| it.if_match.is_some()) => return Err(412),
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(status(error)),
    };
    match FileType::from_raw_mode(facts.st_mode) {
        FileType::RegularFile => {
            let verdict = conditions.map(|it| condition::evaluate(it, &validators(&facts)));
            match verdict {
                None | Some(Verdict::Proceed { .. }) => Ok(()),
                Some(Verdict::NotModified | Verdict::Failed) => Err(412),
            }
        }
        FileType::Directory => Err(409),
        _ => Err(403),
    }
}

/// A file without a name in a directory.
fn nameless(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(directory, ".", flags, Mode::from_raw_mode(0o666))
}

/// A name that nobody guesses.
fn new_name() -> Vec<u8> {
    let seconds = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let random = RandomState::new().hash_one(seconds);
    format!("upload-{seconds}-{random:016x}").into_bytes()
}

/// What a client is told of an error.
fn status(error: Errno) -> u16 {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::NAMETOOLONG => 409,
        // XDEV and LOOP: the path leads out of the directory, or over a symbolic link.
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::XDEV | Errno::LOOP => 403,
        Errno::FBIG => 413,
        Errno::NOSPC | Errno::DQUOT => 507,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => 503,
        _ => 500,
    }
}

#[cfg(test)]
#[path = "uploads_tests.rs"]
mod tests;
