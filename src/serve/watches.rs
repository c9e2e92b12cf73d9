//! Being told of changes by the kernel (inotify), which costs less than asking for them: one look at what was told
//! stands for all files that are watched.
//!
//! Of a file everything is watched that its path leads through, and the file itself. What a path leads to next is
//! opened when that before it is watched, so nothing can be put in its place unnoticed. Whatever is told, all is
//! forgotten: which change it was, and whether it was told in full, does not matter then.
//!
//! What is not told of: what leads through a symbolic link, and what is on a file system that others change, over a
//! network or from below; neither is watched. And writing through a mapping, a file system that is mounted over a
//! directory, and some rare calls: so whoever relies on this still looks from time to time.

use super::directory::FileState;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FileType, Mode, OFlags, fstat, fstatfs, openat};
use rustix::io::{Errno, read};
use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Files and directories that are watched, at most. It takes a millisecond to forget so many.
pub const MOST: usize = 512;
/// When there are so many, for so many periods no others are watched in their place.
pub const LASTS: u64 = 60;
/// So many bytes of what was told are taken out at once: at least one event with the longest of names.
const EVENTS: usize = 512;
/// So much is thrown away of what was told of what is not watched any more, then others have their turn: what is left
/// does no harm. The kernel keeps some thousand events.
const READS: usize = 64;
const THROWN: usize = 16 * 1024;
/// File systems that are changed through this kernel only (statfs(2)): bcachefs, Btrfs, ext2 to ext4, F2FS, ramfs,
/// tmpfs, XFS.
const LOCAL: [u32; 7] = [
    0xca45_1a4e,
    0x9123_683e,
    0xef53,
    0xf2f5_2010,
    0x8584_58f6,
    0x0102_1994,
    0x5846_5342,
];

/// What of a directory leads elsewhere afterwards, or nowhere.
const OF_DIRECTORY: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::ONLYDIR);
/// What of a file makes it another.
const OF_FILE: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Files that are watched, until something is told. Time is counted in periods of who uses it.
#[derive(Debug, Default)]
pub struct Watches {
    events: Option<OwnedFd>,
    /// What the kernel calls them: one for each file and directory, by however many names.
    all: HashSet<i32>,
    /// How often all was forgotten, and in which period that was last.
    forgotten: u64,
    forgotten_in: u64,
    /// The last look in which was asked for it.
    look: u64,
    /// Why something cannot be watched, as far as it was said.
    said: HashSet<i32>,
}

/// A file is watched, until something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched(u64);

impl Watches {
    /// In this look, takes in what was told. It costs a system call the first time, if anything is watched.
    pub fn look(&mut self, look: u64, period: u64) {
        if self.look == look {
            return;
        }
        self.look = look;
        let Some(events) = self.events.as_ref().filter(|_| !self.all.is_empty()) else {
            return;
        };
        if read(events, &mut [0; EVENTS]) != Err(Errno::AGAIN) {
            self.forget(period);
        }
    }

    /// Whether nothing was told since then.
    pub fn hold(&self, since: Watched) -> bool {
        since.0 == self.forgotten
    }

    /// Whether nothing was told in this period: there may be more to come.
    pub fn may_begin(&self, period: u64) -> bool {
        self.forgotten_in != period
    }

    /// From now on nothing is watched, until the period is over.
    fn forget(&mut self, period: u64) {
        self.forgotten_in = period;
        self.end();
    }

    /// From now on nothing is watched.
    pub fn end(&mut self) {
        if self.all.is_empty() {
            return;
        }
        self.forgotten += 1;
        let watches = self.all.drain();
        if let Some(events) = &self.events {
            for watch in watches {
                // One may be gone with what it watched.
                let _ = inotify::remove_watch(events, watch);
            }
            // Each of them was told of, too.
            for _ in 0..READS {
                if read(events, &mut [0; THROWN]).is_err() {
                    break;
                }
            }
        }
    }

    /// Watches what is at `path` below `root`; in which state it is, now that it is watched.
    ///
    /// # Errors
    /// It cannot be watched, which will not be otherwise soon.
    pub fn begin(
        &mut self,
        root: BorrowedFd<'_>,
        path: &[u8],
        period: u64,
    ) -> Result<(Watched, FileState), Errno> {
        let state = self.watch(root, path);
        if state == Err(Errno::NOBUFS) && period >= self.forgotten_in + LASTS {
            // Among them there are some that nobody asks for any more.
            self.forget(period);
        }
        if let Err(error) = state
            && let Some(why) = why_not(error)
            && self.said.insert(error.raw_os_error())
        {
            crate::closed_pipe::remark(format_args!(
                "outboard: files are looked at for each request, since they cannot be watched: {why}"
            ));
        }
        Ok((Watched(self.forgotten), state?))
    }

    fn watch(&mut self, root: BorrowedFd<'_>, path: &[u8]) -> Result<FileState, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.add(root, OF_DIRECTORY)?;
        let mut way: Option<OwnedFd> = None;
        let mut rest = path;
        while let Some(slash) = rest.iter().position(|&byte| byte == b'/') {
            let here = way.as_ref().map_or(root, OwnedFd::as_fd);
            let next = openat(
                here,
                &rest[..slash],
                flags | OFlags::DIRECTORY,
                Mode::empty(),
            )?;
            self.add(next.as_fd(), OF_DIRECTORY)?;
            way = Some(next);
            rest = &rest[slash + 1..];
        }
        let here = way.as_ref().map_or(root, OwnedFd::as_fd);
        let file = openat(here, rest, flags, Mode::empty())?;
        let kind = fstat(&file)?.st_mode;
        // A link at the end is no file, and takes no place of one.
        if FileType::from_raw_mode(kind) != FileType::RegularFile {
            return Err(Errno::LOOP);
        }
        self.add(file.as_fd(), OF_FILE)?;
        Ok(FileState::of(&fstat(&file)?))
    }

    fn add(&mut self, what: BorrowedFd<'_>, of: WatchFlags) -> Result<(), Errno> {
        if !is_local(what) {
            return Err(Errno::OPNOTSUPP);
        }
        if self.all.len() >= MOST {
            return Err(Errno::NOBUFS);
        }
        if self.events.is_none() {
            let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
            self.events = Some(inotify::init(flags)?);
        }
        let Some(events) = &self.events else {
            return Err(Errno::BADF);
        };
        let name = format!("/proc/self/fd/{}", what.as_raw_fd());
        self.all.insert(inotify::add_watch(events, name, of)?);
        Ok(())
    }
}

/// Whether it is on a file system that nobody changes but by this kernel.
pub fn is_local(what: BorrowedFd<'_>) -> bool {
    let facts = fstatfs(what).ok();
    let kind = facts.and_then(|facts| u32::try_from(facts.f_type).ok());
    kind.is_some_and(|kind| LOCAL.contains(&kind))
}

/// Why files cannot be watched, if that is worth being said.
fn why_not(error: Errno) -> Option<String> {
    match error {
        Errno::OPNOTSUPP => Some("others may change the file system that they are on".into()),
        Errno::NOSPC => Some("all watches are in use (sysctl fs.inotify.max_user_watches)".into()),
        Errno::ACCESS => Some("this user may not read them, or a directory on the way".into()),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSYS => Some(format!("{error}")),
        _ => None,
    }
}
