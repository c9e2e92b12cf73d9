//! Files that the engine sends from. A program shows each once, which takes some microseconds; the engine
//! keeps it open, and it is found again by its number on its device, which is nobody else's for that long.
//! So it does not matter through which descriptor, or how often, the program opens it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use queue_pair::Submission;
use queue_pair::control::{Fds, Reply, Request};
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::Attachment;
use super::connection::Connection;
use super::control::RUNS_WITHIN;
use crate::clock::monotonic_ns;
use crate::lock::lock;
use crate::send_pool::Run;

/// The first version of the protocol in which an engine sends from files.
const SINCE: u32 = 8;
/// How long a file is kept that nobody sends from, in nanoseconds: whoever has removed it, or wants to
/// unmount what it is on, does not wait for long.
const KEPT_NS: u64 = 5_000_000_000;
/// How often it is looked which are used, in nanoseconds.
const SWEPT_NS: u64 = 1_000_000_000;
/// How long no file is shown that the engine did not take.
const REFUSED_NS: u64 = 10_000_000_000;
/// Files that are remembered, those that the engine did not take included.
const MOST: usize = 1024;

/// A device, and a number there.
type Place = (u64, u64);

/// What is known of files.
#[derive(Debug, Default)]
pub(super) struct Files {
    known: HashMap<Place, Known>,
    /// When it was last looked which of them are used.
    swept_ns: u64,
}

#[derive(Debug)]
enum Known {
    /// The engine has it.
    Shown {
        name: u16,
        /// Held by whoever may send from it, and by what was sent and is not acknowledged.
        uses: Arc<Run>,
        /// When it was last asked for, or seen to be used.
        used_ns: u64,
    },
    /// The engine did not take it.
    Refused { errno: Errno, until_ns: u64 },
    /// It was sent from once, then.
    Seen { at_ns: u64 },
}

/// Whether a file is worth being shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// It is, whatever it is for.
    Shown,
    /// If it is sent from again soon.
    ShownIfSeen,
}

/// A file that the engine sends from.
pub struct RegisteredFile {
    /// The number of the attachment whose engine it is.
    attachment: u32,
    pub(crate) name: u16,
    pub(crate) uses: Arc<Run>,
}

impl Files {
    fn find(&mut self, place: Place, now: u64) -> Option<Result<(u16, Arc<Run>), Errno>> {
        match self.known.get_mut(&place)? {
            Known::Seen { .. } => None,
            Known::Shown {
                name,
                uses,
                used_ns,
            } => {
                *used_ns = now;
                Some(Ok((*name, Arc::clone(uses))))
            }
            Known::Refused { errno, until_ns } => (now < *until_ns).then_some(Err(*errno)),
        }
    }

    /// Takes out what is not needed any more; names of the engine's.
    fn sweep(&mut self, now: u64) -> Vec<u16> {
        self.swept_ns = now;
        let mut names = Vec::new();
        self.known.retain(|_, known| match known {
            Known::Shown {
                name,
                uses,
                used_ns,
            } => {
                if Arc::strong_count(uses) > 1 {
                    *used_ns = now;
                }
                let kept = now.saturating_sub(*used_ns) < KEPT_NS;
                if !kept {
                    names.push(*name);
                }
                kept
            }
            Known::Refused { until_ns, .. } => now < *until_ns,
            Known::Seen { at_ns } => now.saturating_sub(*at_ns) < KEPT_NS,
        });
        names
    }

    fn has_shown(&self) -> bool {
        let mut all = self.known.values();
        all.any(|known| matches!(known, Known::Shown { .. }))
    }
}

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// A file to send from, which may have been shown before.
    ///
    /// # Errors
    /// `EINVAL`: it is no regular file. `EOPNOTSUPP`: the engine does not send from this one, or from none.
    /// `EACCES`: it may not read it. `EMFILE`: there are as many as may be. `EAGAIN`: it is not worth it yet,
    /// or not to the engine's policy. Otherwise the kernel's.
    pub(crate) fn file(
        self: &Arc<Self>,
        file: BorrowedFd<'_>,
        facts: &Stat,
        worth: Worth,
    ) -> Result<RegisteredFile, Errno> {
        if !self.speaks(SINCE) || self.is_parents() {
            return Err(Errno::OPNOTSUPP);
        }
        if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        let place = (facts.st_dev, facts.st_ino);
        let now = monotonic_ns();
        let registered = |(name, uses)| RegisteredFile {
            attachment: self.number,
            name,
            uses,
        };
        if let Some(known) = lock(&self.files).find(place, now) {
            return known.map(registered);
        }
        self.forget_files();
        {
            let mut files = lock(&self.files);
            let seen = files.known.get(&place);
            let again = matches!(seen, Some(Known::Seen { at_ns }) if now - at_ns < KEPT_NS);
            if files.known.len() >= MOST && !again {
                return Err(Errno::MFILE);
            }
            if worth == Worth::ShownIfSeen && !again {
                files.known.insert(place, Known::Seen { at_ns: now });
                return Err(Errno::AGAIN);
            }
        }
        let shown = self.show_file(file);
        let mut files = lock(&self.files);
        let known = match shown {
            Ok(name) => {
                if let Some(Ok(first)) = files.find(place, now) {
                    // Another thread was faster.
                    drop(files);
                    self.post_surely(Submission::ForgetFile { file: name });
                    return Ok(registered(first));
                }
                Known::Shown {
                    name,
                    uses: Arc::new(Run::NONE),
                    used_ns: now,
                }
            }
            // It says nothing of the file.
            Err(Errno::TIMEDOUT | Errno::CONNRESET) => return Err(Errno::OPNOTSUPP),
            Err(errno) => Known::Refused {
                errno,
                until_ns: now + REFUSED_NS,
            },
        };
        files.known.insert(place, known);
        let found = files.find(place, now);
        found.unwrap_or(Err(Errno::OPNOTSUPP)).map(registered)
    }

    fn show_file(&self, file: BorrowedFd<'_>) -> Result<u16, Errno> {
        let mut fds = Fds::new();
        fds.push(rustix::io::fcntl_dupfd_cloexec(file, 0)?);
        match self.request(&Request::File, fds, RUNS_WITHIN)? {
            (Reply::File { file }, _) => Ok(file),
            _ => Err(Errno::PROTO),
        }
    }

    /// Lets go of files that nobody has sent from for a while. Returns when to look again, if there are
    /// others.
    pub(super) fn forget_files(&self) -> Option<Duration> {
        let mut files = lock(&self.files);
        if files.known.is_empty() {
            return None;
        }
        let now = monotonic_ns();
        let names = match now.saturating_sub(files.swept_ns) < SWEPT_NS {
            true => Vec::new(),
            false => files.sweep(now),
        };
        let left = files.has_shown();
        drop(files);
        for file in names {
            self.post_surely(Submission::ForgetFile { file });
        }
        left.then_some(Duration::from_nanos(KEPT_NS))
    }
}

impl RegisteredFile {
    /// Whether the engine that has it is the one that has a connection.
    pub(crate) fn is_of<C: Connection<Attachment<C>>>(&self, attachment: &Attachment<C>) -> bool {
        self.attachment == attachment.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_forgotten_when_nobody_has_sent_from_it_for_a_while() {
        let mut files = Files::default();
        let shown = |name| Known::Shown {
            name,
            uses: Arc::new(Run::NONE),
            used_ns: 0,
        };
        files.known.insert((1, 1), shown(7));
        files.known.insert((1, 2), shown(8));
        let refused = Known::Refused {
            errno: Errno::ACCESS,
            until_ns: REFUSED_NS,
        };
        files.known.insert((1, 3), refused);
        let refused = files.find((1, 3), REFUSED_NS - 1).map(Result::err);
        assert_eq!(refused, Some(Some(Errno::ACCESS)));
        let again = files.find((1, 3), REFUSED_NS).is_none();
        assert!(again, "it is tried again");
        assert!(files.sweep(KEPT_NS - 1).is_empty());
        let (name, uses) = files.find((1, 1), KEPT_NS).expect("known").expect("shown");
        assert_eq!(name, 7);
        // The one is in use, the other one is not.
        assert_eq!(files.sweep(2 * KEPT_NS), [8]);
        assert!(files.find((1, 2), 2 * KEPT_NS).is_none());
        drop(uses);
        assert!(files.sweep(3 * KEPT_NS - 1).is_empty());
        assert_eq!(files.sweep(3 * KEPT_NS), [7]);
        assert!(!files.has_shown());
    }
}
