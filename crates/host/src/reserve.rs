//! Descriptors that are kept so that there are numbers when a process has used up all it may have.
//!
//! The kernel needs no descriptor to fork: the child has whatever its parent has. Here the engine gives one for the
//! child, and the child needs some to attach. So a process that is attached keeps a few in reserve, a child has
//! copies of them, and they are given up for the moment in which others are needed. Another thread of the program's
//! may be faster and take the number; a child, which has no other threads yet, keeps what its parent's session has
//! left it.
//!
//! A program may close any number by a system call of which nobody is told, and have it for a file of its own from
//! then on. So they all are one file that nothing else is, and whoever is about to close one of them, or to copy it,
//! asks first whether it is still that.

use std::os::fd::IntoRawFd;
use std::sync::Mutex;

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::lock::lock;
use crate::locks::Locks;
use crate::private_fds::{Private, lift};

/// What it takes to attach: the control socket, the memory, and two ends of doorbells.
pub(crate) const TO_ATTACH: usize = 4;

/// What is kept beyond that for a child that has not attached: its parent's control socket and doorbells become part
/// of it, and when it has attached and has doorbells of its own, as much is left as its parent had.
const OF_HEIR: usize = 2;

/// What is kept, whichever sessions there are: numbers are the process's.
static KEPT: Mutex<Kept> = Mutex::new(Kept {
    fds: Vec::new(),
    file: None,
    sessions: 0,
    heirs: 0,
});

struct Kept {
    /// All of them one socket that is connected to nothing.
    fds: Vec<Private<OwnedFd>>,
    /// Which one: its device and inode, which for a socket is nobody else's.
    file: Option<(u64, u64)>,
    /// For how many sessions, and for how many of these as of children that have not attached.
    sessions: usize,
    heirs: usize,
}

/// For what a session has descriptors kept. Dropping it gives them up, unless another session needs them.
#[derive(Default)]
pub(crate) struct Share(Use);

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Use {
    #[default]
    Nothing,
    /// It is attached, or was.
    Attached,
    /// It is the child of a fork, and has not attached.
    Heir,
}

impl Share {
    /// It is attached now, or may attach again: keeps as many as that takes, or as can be had.
    pub(crate) fn of_attached(&mut self) {
        self.is_for(Use::Attached);
    }

    /// It is a child's now, as long as that has not attached.
    pub(crate) fn of_heir(&mut self) {
        self.is_for(Use::Heir);
    }

    /// It has not attached. What was given up for that is kept again, and if it was a child's it is one no more.
    pub(crate) fn of_another_try(&mut self) {
        self.is_for(match self.0 {
            Use::Nothing => Use::Nothing,
            Use::Attached | Use::Heir => Use::Attached,
        });
    }

    fn is_for(&mut self, other: Use) {
        let mut kept = lock(&KEPT);
        let former = std::mem::replace(&mut self.0, other);
        kept.sessions += usize::from(other != Use::Nothing);
        kept.sessions -= usize::from(former != Use::Nothing);
        kept.heirs += usize::from(other == Use::Heir);
        kept.heirs -= usize::from(former == Use::Heir);
        kept.fill();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.is_for(Use::Nothing);
    }
}

impl Kept {
    fn wanted(&self) -> usize {
        match self.sessions {
            0 => 0,
            _ => TO_ATTACH + self.heirs * OF_HEIR,
        }
    }

    /// Keeps as many as are wanted, or as can be had.
    fn fill(&mut self) {
        self.leave_to_program();
        let wanted = self.wanted();
        self.fds.truncate(wanted);
        while self.fds.len() < wanted && self.add() {}
    }

    /// Keeps one more, if it can be had.
    fn add(&mut self) -> bool {
        let more = match self.fds.first() {
            Some(first) => rustix::io::fcntl_dupfd_cloexec(first, 0),
            None => self.begin(),
        };
        let Ok(more) = more else { return false };
        // Since the first was asked, another thread may have closed it, and have its number for a file of the
        // program's: a copy of that would keep it open.
        let is_ours = identity(&more).ok() == self.file;
        if is_ours {
            self.fds.push(Private::new(lift(more)));
        }
        is_ours
    }

    /// Makes the first.
    fn begin(&mut self) -> Result<OwnedFd, Errno> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let first = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        self.file = Some(identity(&first)?);
        Ok(first)
    }

    /// Takes so many from it, or as many as there are.
    fn take(&mut self, count: usize) -> usize {
        self.leave_to_program();
        let left = self.fds.len().saturating_sub(count);
        self.fds.drain(left..).count()
    }

    /// Forgets the numbers that the program has closed. What it may have them for now stays open.
    fn leave_to_program(&mut self) {
        let mut at = 0;
        while let Some(one) = self.fds.get(at) {
            if identity(one).ok() == self.file {
                at += 1;
            } else {
                let _ = self.fds.swap_remove(at).into_inner().into_raw_fd();
            }
        }
    }
}

fn identity(fd: impl AsFd) -> Result<(u64, u64), Errno> {
    rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino))
}

/// Gives up this many, so that their numbers can be had. Returns how many there were.
pub(crate) fn give_up(count: usize) -> usize {
    lock(&KEPT).take(count)
}

/// Keeps again what was given up, as far as there is room.
pub fn refill() {
    lock(&KEPT).fill();
}

/// Takes the lock, for a fork.
pub(crate) fn lock_all(locks: &mut Locks<'_>) {
    locks.take(&KEPT);
}

/// Makes so many descriptors, by numbers that were kept if there are no others. What was given up is kept again
/// after a [refill], or the next fork.
///
/// # Errors
/// Those of `make`.
pub fn spare<T>(count: usize, make: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match make() {
        Err(Errno::MFILE) if give_up(count) > 0 => make(),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private_fds;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::os::fd::AsRawFd;

    /// They are the process's: one test at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    fn numbers() -> Vec<i32> {
        lock(&KEPT).fds.iter().map(|one| one.as_raw_fd()).collect()
    }

    #[test]
    fn what_is_kept_is_hidden_and_its_numbers_are_free_when_it_is_given_up() {
        let _alone = lock(&ALONE);
        let mut share = Share::default();
        share.of_heir();
        assert_eq!(numbers().len(), TO_ATTACH + OF_HEIR);
        share.of_attached();
        let numbers = numbers();
        assert_eq!(numbers.len(), TO_ATTACH);
        assert!(numbers.iter().all(|fd| private_fds::contains(*fd)));
        assert_eq!(give_up(2), 2);
        assert!(!private_fds::contains(numbers[2]) && !private_fds::contains(numbers[3]));
        // Of those that are left others are made again.
        refill();
        assert_eq!(give_up(10), TO_ATTACH);
        assert_eq!(give_up(1), 0);
        let full = std::cell::Cell::new(true);
        let make = || {
            if full.take() {
                Err(Errno::MFILE)
            } else {
                Ok(7)
            }
        };
        assert_eq!(spare(1, make), Err(Errno::MFILE), "nothing is kept");
        refill();
        full.set(true);
        assert_eq!(spare(1, make), Ok(7));
        assert_eq!(give_up(10), TO_ATTACH - 1, "one was given up");
    }

    #[test]
    fn what_one_session_needs_stays_when_another_goes() {
        let _alone = lock(&ALONE);
        let [mut one, mut other] = [Share::default(), Share::default()];
        one.of_attached();
        let kept = numbers();
        other.of_attached();
        assert_eq!(numbers(), kept, "as many serve both");
        other.of_heir();
        drop(one);
        assert_eq!(numbers().len(), TO_ATTACH + OF_HEIR);
        drop(Share::default());
        assert_eq!(numbers().len(), TO_ATTACH + OF_HEIR);
        drop(other);
        assert!(numbers().is_empty());
        refill();
        assert!(numbers().is_empty(), "nobody needs any");
    }

    #[test]
    fn a_file_of_the_programs_is_not_copied() {
        let _alone = lock(&ALONE);
        let mut share = Share::default();
        share.of_attached();
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        {
            let mut kept = lock(&KEPT);
            // As if it had come there after the last look.
            kept.fds.truncate(1);
            kept.fds[0] = Private::new(writer);
            assert!(!kept.add());
            kept.fds.clear();
        }
        let mut ends = [PollFd::new(&reader, PollFlags::IN)];
        assert_eq!(poll(&mut ends, Some(&Timespec::default())), Ok(1));
        assert!(ends[0].revents().contains(PollFlags::HUP), "it is closed");
        refill();
        assert_eq!(numbers().len(), TO_ATTACH);
        drop(share);
    }

    /// A program that closes numbers without asking anybody has them for other files later.
    #[test]
    fn a_number_that_the_program_has_by_now_is_left_to_it() {
        let _alone = lock(&ALONE);
        let mut share = Share::default();
        share.of_attached();
        for wanted in [TO_ATTACH, 10] {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            let number = writer.as_raw_fd();
            {
                let mut kept = lock(&KEPT);
                // The first is the one that others are copied from.
                kept.fds[0] = Private::new(writer);
            }
            let is_open = || {
                let mut ends = [PollFd::new(&reader, PollFlags::IN)];
                poll(&mut ends, Some(&Timespec::default())).unwrap() == 0
            };
            if wanted == TO_ATTACH {
                refill();
                assert_eq!(numbers().len(), TO_ATTACH);
                assert!(!numbers().contains(&number));
            }
            assert!(give_up(wanted) < 10);
            assert!(is_open() && !private_fds::contains(number));
            refill();
        }
        drop(share);
    }
}
