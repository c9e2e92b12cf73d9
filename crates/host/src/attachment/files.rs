//! Files that the engine sends from. A program shows each once, which takes some microseconds; the engine
//! keeps it open, and it is found again by its number on its device, which is nobody else's for that long.
//! So it does not matter through which descriptor, or how often, the program opens it.

use std::collections::HashMap;
use std::ops::RangeInclusive;
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
use super::left::Left;
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
/// How long a file that the engine took by its policy is sent from without being shown anew: by then the load, or the
/// policy, may be another one.
const GRANTED_NS: u64 = 10_000_000_000;
/// Files that are remembered, those that the engine did not take included.
const MOST: usize = 1024;

/// A device, and a number there.
type Place = (u64, u64);

/// What is known of files.
#[derive(Debug, Default)]
pub(super) struct Files {
    known: HashMap<Place, Known>,
    /// Names of files that are the program's to read now, and are still used.
    retired: Vec<(Place, u16, Arc<Run>)>,
    /// Those that the engine's policy leaves to the program.
    left: Left,
    /// When it was last looked which of them are used.
    swept_ns: u64,
    /// Until then it is not looked again for room: there was none.
    full_until_ns: u64,
}

/// What the engine says of a file that it is shown.
enum Answer {
    /// It has it, by this name, and whether its policy has decided that.
    Taken(u16, bool),
    /// Its policy leaves it to the program, and all of these sizes.
    Left(RangeInclusive<u64>),
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
        /// When it is shown anew, if the engine took it by its policy.
        again_ns: Option<u64>,
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
    /// When the engine is to be asked anew, if it took it by its policy.
    again_ns: Option<u64>,
}

/// A name of the engine's, who uses it, and when it is shown anew.
type Found = (u16, Arc<Run>, Option<u64>);

impl Files {
    fn find(&mut self, place: Place, now: u64) -> Option<Result<Found, Errno>> {
        match self.known.get_mut(&place)? {
            Known::Seen { .. } => None,
            Known::Shown {
                name,
                uses,
                used_ns,
                again_ns,
            } => {
                if again_ns.is_some_and(|again| again <= now) {
                    return None;
                }
                *used_ns = now;
                Some(Ok((*name, Arc::clone(uses), *again_ns)))
            }
            Known::Refused { errno, until_ns } => (now < *until_ns).then_some(Err(*errno)),
        }
    }

    /// Whether the engine need not be asked about a file of this size that it does not have.
    fn is_left(&self, place: Place, size: u64, now: u64) -> bool {
        !self.is_shown(place) && self.left.covers(place.0, size, now)
    }

    /// The engine leaves a file to the program, and with it those of these sizes. Returns what [`learn`](Self::learn)
    /// does.
    fn leave(&mut self, place: Place, sizes: RangeInclusive<u64>, now: u64) -> Option<u16> {
        self.left.note(place.0, sizes, now);
        self.learn(place, Err(Errno::AGAIN), now)
    }

    /// What the engine has said of a file that may have been shown before. It goes on with that one unless its policy
    /// is against it: that it has no room for another name now is nothing against the one that it has. Returns a name
    /// that is not needed: what is sent from for minutes would have one for each time that it was shown.
    fn learn(&mut self, place: Place, answer: Result<(u16, bool), Errno>, now: u64) -> Option<u16> {
        let mut unneeded = None;
        let known = match answer {
            Ok((name, by_policy)) => {
                let had = self.had(place);
                unneeded = had.is_some().then_some(name);
                let (name, uses) = had.unwrap_or_else(|| (name, Arc::new(Run::NONE)));
                Known::Shown {
                    name,
                    uses,
                    used_ns: now,
                    again_ns: by_policy.then_some(now + GRANTED_NS),
                }
            }
            Err(errno) => {
                if let Some(Known::Shown { again_ns, .. }) = self.known.get_mut(&place)
                    && errno != Errno::AGAIN
                {
                    *again_ns = Some(now + GRANTED_NS);
                    return None;
                }
                // That says nothing of the file.
                if matches!(errno, Errno::TIMEDOUT | Errno::CONNRESET) {
                    return None;
                }
                Known::Refused {
                    errno,
                    until_ns: now + REFUSED_NS,
                }
            }
        };
        if let Some(Known::Shown { name, uses, .. }) = self.known.insert(place, known) {
            self.retired.push((place, name, uses));
        }
        unneeded
    }

    /// The name by which the engine has a file already, perhaps from before its policy left it to the program.
    fn had(&mut self, place: Place) -> Option<(u16, Arc<Run>)> {
        if self.is_shown(place)
            && let Some(Known::Shown { name, uses, .. }) = self.known.remove(&place)
        {
            return Some((name, uses));
        }
        let at = self.retired.iter().position(|(of, ..)| *of == place)?;
        let (_, name, uses) = self.retired.swap_remove(at);
        Some((name, uses))
    }

    /// Whether there is room for one more, if need be in place of the file that the policy leaves to the program and
    /// that is asked about next. Without any it is not looked for one at each send.
    fn has_room(&mut self, now: u64) -> bool {
        if self.known.len() < MOST {
            return true;
        }
        if now < self.full_until_ns {
            return false;
        }
        let left = self.known.iter().filter_map(|(place, known)| match known {
            Known::Refused { errno, until_ns } if *errno == Errno::AGAIN => {
                Some((*until_ns, *place))
            }
            _ => None,
        });
        let Some((_, place)) = left.min() else {
            self.full_until_ns = now + SWEPT_NS;
            return false;
        };
        self.known.remove(&place);
        true
    }

    /// Takes out what is not needed any more; names of the engine's.
    fn sweep(&mut self, now: u64) -> Vec<u16> {
        self.swept_ns = now;
        let mut names = Vec::new();
        self.retired.retain(|(_, name, uses)| {
            let used = Arc::strong_count(uses) > 1;
            if !used {
                names.push(*name);
            }
            used
        });
        self.known.retain(|_, known| match known {
            Known::Shown {
                name,
                uses,
                used_ns,
                ..
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

    fn is_shown(&self, place: Place) -> bool {
        matches!(self.known.get(&place), Some(Known::Shown { .. }))
    }

    fn has_shown(&self) -> bool {
        let mut all = self.known.values();
        !self.retired.is_empty() || all.any(|known| matches!(known, Known::Shown { .. }))
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
        let registered = |(name, uses, again_ns)| RegisteredFile {
            attachment: self.number,
            name,
            uses,
            again_ns,
        };
        {
            let mut files = lock(&self.files);
            if let Some(known) = files.find(place, now) {
                return known.map(registered);
            }
            if files.is_left(place, u64::try_from(facts.st_size).unwrap_or(0), now) {
                return Err(Errno::AGAIN);
            }
        }
        self.forget_files();
        {
            let mut files = lock(&self.files);
            let seen = files.known.get(&place);
            let again = match seen {
                Some(Known::Seen { at_ns }) => now - at_ns < KEPT_NS,
                Some(Known::Shown { .. }) => true,
                _ => false,
            };
            if !again && !files.has_room(now) {
                return Err(Errno::MFILE);
            }
            if worth == Worth::ShownIfSeen && !again {
                files.known.insert(place, Known::Seen { at_ns: now });
                return Err(Errno::AGAIN);
            }
        }
        let shown = self.show_file(file);
        let mut files = lock(&self.files);
        // Another thread may have been faster, too.
        let unneeded = match shown {
            Ok(Answer::Taken(name, by_policy)) => files.learn(place, Ok((name, by_policy)), now),
            Ok(Answer::Left(sizes)) => files.leave(place, sizes, now),
            Err(errno) => files.learn(place, Err(errno), now),
        };
        let found = files.find(place, now);
        drop(files);
        if let Some(file) = unneeded {
            self.post_surely(Submission::ForgetFile { file });
        }
        found.unwrap_or(Err(Errno::OPNOTSUPP)).map(registered)
    }

    fn show_file(&self, file: BorrowedFd<'_>) -> Result<Answer, Errno> {
        let mut fds = Fds::new();
        fds.push(rustix::io::fcntl_dupfd_cloexec(file, 0)?);
        match self.request(&Request::File, fds, RUNS_WITHIN)? {
            (Reply::File { file, by_policy }, _) => Ok(Answer::Taken(file, by_policy)),
            (Reply::Left { first, last }, _) => Ok(Answer::Left(first..=last)),
            _ => Err(Errno::PROTO),
        }
    }

    /// Lets go of files that nobody has sent from for a while. Returns when to look again, if there are
    /// others.
    pub(super) fn forget_files(&self) -> Option<Duration> {
        let mut files = lock(&self.files);
        if files.known.is_empty() && files.retired.is_empty() {
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

    /// Whether it is time to [show](crate::Session::register_file) it anew: the engine took it by its policy, some
    /// seconds ago.
    pub fn is_due(&self) -> bool {
        self.again_ns.is_some_and(|again| again <= monotonic_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::left::LEFT_NS;

    #[test]
    fn a_file_is_forgotten_when_nobody_has_sent_from_it_for_a_while() {
        let mut files = Files::default();
        let shown = |name| Known::Shown {
            name,
            uses: Arc::new(Run::NONE),
            used_ns: 0,
            again_ns: None,
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
        let (name, uses, _) = files.find((1, 1), KEPT_NS).expect("known").expect("shown");
        assert_eq!(name, 7);
        // The one is in use, the other one is not.
        assert_eq!(files.sweep(2 * KEPT_NS), [8]);
        assert!(files.find((1, 2), 2 * KEPT_NS).is_none());
        drop(uses);
        assert!(files.sweep(3 * KEPT_NS - 1).is_empty());
        assert_eq!(files.sweep(3 * KEPT_NS), [7]);
        assert!(!files.has_shown());
    }

    #[test]
    fn what_was_taken_by_a_policy_is_shown_anew_and_its_name_kept_while_it_is_used() {
        let mut files = Files::default();
        let place = (1, 1);
        files.learn(place, Ok((7, true)), 0);
        let (name, uses, again) = files
            .find(place, GRANTED_NS - 1)
            .expect("known")
            .expect("shown");
        assert_eq!((name, again), (7, Some(GRANTED_NS)));
        assert!(files.find(place, GRANTED_NS).is_none(), "it is asked about");
        // No room for a second name says nothing of the first.
        files.learn(place, Err(Errno::MFILE), GRANTED_NS);
        assert!(
            files
                .find(place, GRANTED_NS)
                .is_some_and(|found| found.is_ok())
        );
        // Nor does an engine that does not answer.
        files.learn(place, Err(Errno::TIMEDOUT), 2 * GRANTED_NS);
        assert!(
            files
                .find(place, 2 * GRANTED_NS)
                .is_some_and(|found| found.is_ok())
        );
        files.learn((1, 2), Err(Errno::TIMEDOUT), 2 * GRANTED_NS);
        assert!(files.find((1, 2), 2 * GRANTED_NS).is_none());
        files.learn(place, Err(Errno::AGAIN), 2 * GRANTED_NS);
        let found = files.find(place, 2 * GRANTED_NS).map(Result::err);
        assert_eq!(found, Some(Some(Errno::AGAIN)));
        assert!(files.sweep(2 * GRANTED_NS).is_empty(), "it is sent from");
        assert!(files.has_shown());
        drop(uses);
        assert_eq!(files.sweep(2 * GRANTED_NS), [7]);
    }

    #[test]
    fn what_is_shown_again_and_again_keeps_its_first_name() {
        let mut files = Files::default();
        let place = (1, 1);
        assert_eq!(files.learn(place, Ok((7, true)), 0), None);
        let (_, uses, _) = files.find(place, 0).expect("known").expect("shown");
        for times in 1..=30_u16 {
            let now = u64::from(times) * GRANTED_NS;
            assert!(files.find(place, now).is_none(), "it is asked about");
            let unneeded = files.learn(place, Ok((7 + times, true)), now);
            assert_eq!(unneeded, Some(7 + times));
            let (name, _, again) = files.find(place, now).expect("known").expect("shown");
            assert_eq!((name, again), (7, Some(now + GRANTED_NS)));
            assert!(files.retired.is_empty());
        }
        // Where no policy decides any more nothing is asked twice.
        files.learn(place, Ok((40, false)), 31 * GRANTED_NS);
        let found = files.find(place, 99 * GRANTED_NS).and_then(Result::ok);
        assert_eq!(found.map(|(name, _, again)| (name, again)), Some((7, None)));
        // What was left to the program meanwhile has it, too, while it is sent from.
        for times in 50..60 {
            files.leave(place, 0..=9, 99 * GRANTED_NS);
            assert_eq!(files.retired.len(), 1);
            let unneeded = files.learn(place, Ok((times, true)), 99 * GRANTED_NS);
            assert_eq!((unneeded, files.retired.len()), (Some(times), 0));
        }
        drop(uses);
        files.leave(place, 0..=9, 99 * GRANTED_NS);
        assert_eq!(files.sweep(99 * GRANTED_NS), [7]);
        assert_eq!(files.learn(place, Ok((60, true)), 99 * GRANTED_NS), None);
    }

    #[test]
    fn what_is_as_large_as_a_file_that_was_left_is_not_asked_about_for_a_while() {
        let mut files = Files::default();
        files.learn((1, 1), Ok((7, true)), 0);
        files.leave((1, 2), 10..=20, 5);
        assert!(files.is_left((1, 3), 10, 6) && files.is_left((1, 3), 20, 6));
        assert!(!files.is_left((1, 3), 9, 6) && !files.is_left((1, 3), 21, 6));
        assert!(!files.is_left((2, 3), 10, 6), "memory is on another device");
        assert!(!files.is_left((1, 1), 10, 6), "the engine has it");
        assert!(
            !files.is_left((1, 3), 10, 5 + LEFT_NS),
            "it may be another load"
        );
        files.leave((1, 1), 10..=20, 6);
        assert!(files.is_left((1, 1), 10, 7), "it has it no more");
        assert_eq!(files.sweep(7), [7]);
    }

    #[test]
    fn files_that_a_policy_leaves_take_no_room_of_others() {
        let mut files = Files::default();
        for number in 0..MOST as u64 {
            let errno = if number < 2 {
                Errno::AGAIN
            } else {
                Errno::ACCESS
            };
            assert!(files.has_room(0));
            files.learn((1, number), Err(errno), number);
        }
        assert!(files.has_room(0));
        assert!(
            !files.known.contains_key(&(1, 0)),
            "the one that is asked about next"
        );
        files.learn((2, 0), Ok((7, false)), 0);
        assert!(files.has_room(0));
        files.learn((2, 1), Ok((8, false)), 0);
        assert!(!files.has_room(0), "what was refused for good stays");
        // It is not looked for again at once, but where there is room there is.
        files.learn((1, 2), Err(Errno::AGAIN), 1);
        assert!(!files.has_room(SWEPT_NS - 1) && files.known.len() == MOST);
        assert!(files.has_room(SWEPT_NS));
        files.learn((2, 2), Err(Errno::ACCESS), SWEPT_NS);
        assert!(!files.has_room(SWEPT_NS));
        files.known.remove(&(1, 3));
        assert!(files.has_room(SWEPT_NS));
    }
}
