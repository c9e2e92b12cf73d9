//! A file that a program shows to send from. The engine opens it once more for itself: what the program has
//! opened it can also change, such that reading waits for the disk (O_DIRECT). So a file is sent from if both
//! may read it.
//!
//! Nothing is asked that a file system in the hands of a program could answer late: what kind of one it is
//! on is found out from what the kernel has in memory.
//!
//! A memory file is sent from, too, if it is sealed against shrinking. The kernel does not read it by calls
//! that do not wait; but it is memory as the regions are, and what waiting there can be, for a page that the
//! machine has put out to its swap, there is for those.

use std::fs::read_to_string;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use queue_pair::memfd::least_size;
use rustix::fs::{
    Advice, AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, fadvise, fcntl_getfl, fstatfs,
    open, statx,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// File systems on block devices, by the numbers in linux/magic.h: what they have is on this machine, and they
/// can say that something is not in memory.
const LOCAL: [u64; 4] = [
    0xef53,      // ext4
    0x5846_5342, // XFS
    0xf2f5_2010, // F2FS
    0xe0f5_e1e2, // EROFS
];
/// The same without a device number of their own, by name.
const LOCAL_BY_NAME: [&str; 1] = ["btrfs"];

/// Why a file is not sent from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The kernel does not answer for it.
    #[error("the file that was shown cannot be asked: {0}")]
    Unusable(#[from] Errno),
    /// It is no regular file.
    #[error("what was shown is no regular file")]
    NotRegular,
    /// The program did not open it for reading.
    #[error("the file that was shown is not open for reading")]
    NotReadable,
    /// Reading it can take any time.
    #[error("the file is on a file system that may be another machine's, or a program's")]
    Elsewhere,
    /// The engine may not read it.
    #[error("the engine may not read the file: {0}")]
    Refused(Errno),
    /// It cannot be read without waiting.
    #[error("the file system cannot tell what of the file is in memory")]
    Waits,
}

impl Unfit {
    /// The errno to answer with.
    pub fn errno(self) -> Errno {
        match self {
            Self::Unusable(errno) => errno,
            Self::NotRegular | Self::NotReadable => Errno::BADF,
            Self::Refused(_) => Errno::ACCESS,
            Self::Elsewhere | Self::Waits => Errno::OPNOTSUPP,
        }
    }
}

/// A file that was shown, of which nothing is against it before it is opened.
#[derive(Debug)]
pub struct Shown<'a> {
    fd: BorrowedFd<'a>,
    /// It is a memory file, which is read by calls that may wait.
    pub is_memory: bool,
    /// Its size.
    pub bytes: u64,
}

/// Looks at a file that was shown.
///
/// # Errors
/// It is none to send from.
pub fn look_at(shown: BorrowedFd<'_>) -> Result<Shown<'_>, Unfit> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let asked = StatxFlags::TYPE | StatxFlags::MNT_ID | StatxFlags::SIZE;
    let facts = statx(shown, c"", flags, asked)?;
    if FileType::from_raw_mode(facts.stx_mode.into()) != FileType::RegularFile {
        return Err(Unfit::NotRegular);
    }
    let opened = fcntl_getfl(shown)?;
    let access = opened & OFlags::ACCMODE;
    if opened.contains(OFlags::PATH) || access != OFlags::RDONLY && access != OFlags::RDWR {
        return Err(Unfit::NotReadable);
    }
    let is_memory = facts.stx_dev_major == 0 && least_size(shown).is_ok();
    if !is_memory && !is_local(shown, &facts)? {
        return Err(Unfit::Elsewhere);
    }
    Ok(Shown {
        fd: shown,
        is_memory,
        bytes: facts.stx_size,
    })
}

impl Shown<'_> {
    /// Opens it once more, for the engine.
    ///
    /// # Errors
    /// It is none to send from.
    pub fn open(&self) -> Result<OwnedFd, Unfit> {
        let name = format!("/proc/thread-self/fd/{}", self.fd.as_raw_fd());
        // Whoever has a lease on it is not waited for either.
        let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // Where that is allowed no access times are written, which can take a while.
        let file = open(&*name, how | OFlags::NOATIME, Mode::empty());
        let file = file.or_else(|_| open(&*name, how, Mode::empty()));
        let file = file.map_err(Unfit::Refused)?;
        if self.is_memory {
            return Ok(file);
        }
        // Whoever reads it has no time for what the kernel would read beside that. It is no condition.
        let _ = fadvise(&file, 0, None, Advice::Random);
        match read_byte(file.as_fd()) {
            Ok(_) | Err(Errno::AGAIN) => Ok(file),
            Err(Errno::OPNOTSUPP) => Err(Unfit::Waits),
            Err(errno) => Err(Unfit::Refused(errno)),
        }
    }
}

/// Whether it is on a file system of this machine's own.
fn is_local(shown: BorrowedFd<'_>, facts: &Statx) -> Result<bool, Errno> {
    if facts.stx_dev_major != 0 {
        // On a block device, and so mounted by root: who answers is the kernel, or a program of root's.
        let kind = fstatfs(shown)?.f_type;
        return Ok(u64::try_from(kind).is_ok_and(|kind| LOCAL.contains(&kind)));
    }
    // FUSE and the network are here, too, and are not to be asked.
    let mounts = read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    let kind = kind_of_mount(&mounts, facts.stx_mnt_id);
    Ok(kind.is_some_and(|kind| LOCAL_BY_NAME.contains(&kind)))
}

/// What kind of file system is mounted there, by the table of proc_pid_mountinfo(5).
fn kind_of_mount(mounts: &str, id: u64) -> Option<&str> {
    let of = |line: &&str| line.split(' ').next().and_then(|first| first.parse().ok()) == Some(id);
    let line = mounts.lines().find(of)?;
    line.split_once(" - ")?.1.split(' ').next()
}

fn read_byte(file: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    preadv2(file, &mut into, 0, ReadWriteFlags::NOWAIT)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Write;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    use super::*;

    fn open_shown(file: impl AsFd) -> Result<OwnedFd, Unfit> {
        look_at(file.as_fd())?.open()
    }

    fn unfit(file: impl AsFd) -> Unfit {
        open_shown(file).expect_err("unfit")
    }

    #[test]
    fn what_is_no_file_to_read_is_refused() {
        let path = std::env::temp_dir().join(format!("outboard-shown-{}", std::process::id()));
        std::fs::write(&path, b"some").expect("written");
        match open_shown(File::open(&path).expect("readable")) {
            Ok(_) => {}
            Err(Unfit::Waits | Unfit::Elsewhere) => {
                let said = format!("SKIPPED: {} is no place\n", path.display());
                let _ = std::io::stderr().write_all(said.as_bytes());
            }
            Err(other) => panic!("{other}"),
        }
        let writes = OpenOptions::new().write(true).open(&path);
        assert_eq!(unfit(writes.expect("writable")), Unfit::NotReadable);
        let only_named = open(&path, OFlags::PATH, Mode::empty()).expect("there");
        assert_eq!(unfit(only_named), Unfit::NotReadable);
        std::fs::remove_file(&path).expect("there");
        assert_eq!(
            unfit(File::open("/tmp").expect("a directory")),
            Unfit::NotRegular
        );
        assert_eq!(
            unfit(File::open("/dev/zero").expect("a device")),
            Unfit::NotRegular
        );
        let (reads, _writes) = rustix::pipe::pipe().expect("a pipe");
        assert_eq!(unfit(reads), Unfit::NotRegular);
        // A file of nobody's disk.
        assert_eq!(
            unfit(File::open("/proc/version").expect("readable")),
            Unfit::Elsewhere
        );
    }

    #[test]
    fn a_memory_file_is_sent_from_if_it_cannot_shrink() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = memfd_create("theirs", flags).expect("a memfd");
        assert_eq!(unfit(&memory), Unfit::Elsewhere);
        fcntl_add_seals(&memory, SealFlags::GROW).expect("sealed");
        assert_eq!(unfit(&memory), Unfit::Elsewhere);
        fcntl_add_seals(&memory, SealFlags::SHRINK).expect("sealed");
        assert!(open_shown(&memory).is_ok());
        let looked = look_at(memory.as_fd()).expect("one to send from");
        assert!(looked.is_memory);
        let only_named = open(
            format!("/proc/self/fd/{}", memory.as_raw_fd()),
            OFlags::PATH,
            Mode::empty(),
        );
        assert_eq!(unfit(only_named.expect("there")), Unfit::NotReadable);
    }

    #[test]
    fn the_kind_of_a_mount_is_found_by_its_number() {
        let mounts = "26 1 0:23 / /a\\040b rw shared:1 - btrfs /dev/vda1 rw\n\
                      126 26 0:51 / /mnt rw - fuse.sshfs me@there: rw\n";
        assert_eq!(kind_of_mount(mounts, 26), Some("btrfs"));
        assert_eq!(kind_of_mount(mounts, 126), Some("fuse.sshfs"));
        assert_eq!(kind_of_mount(mounts, 12), None);
        assert_eq!(kind_of_mount("", 0), None);
    }
}
