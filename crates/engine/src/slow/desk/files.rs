//! Files that programs send from: who may have one more, and what of them is brought into memory.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use netdev::syscalls::FileWindow;
use queue_pair::control::{ChannelError, Fds, Reply};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::Desk;
use super::readers::Reader;
use super::requests::Refusal;
use crate::config::shares;
use crate::exchange::{Ask, Fetch, Fetched, Order, WorkerId};
use crate::fast::memory::OpenFile;
use crate::slow::control::{Governed, Pending, Unfit, look_at};
use crate::slow::errands::Errand;
use crate::stats::Drop;

/// Of what the engine may have open, one in so many may be such a file.
const OF_DESCRIPTORS: u64 = 4;

/// The first version of the protocol in which a host shows anew what a policy has decided about.
const POLICED_SINCE: u32 = 15;

/// Where the files of each user count: as often as the place is held beside this.
#[derive(Debug, Default)]
pub(super) struct Places(HashMap<u32, Arc<u32>>);

impl Places {
    /// A place for one more file of a user, if there is one within `limit`.
    fn take(&mut self, uid: u32, limit: usize) -> Option<Arc<u32>> {
        self.0.retain(|_, place| Arc::strong_count(place) > 1);
        let held = |(uid, place): (&u32, &Arc<u32>)| {
            std::iter::repeat_n(*uid, Arc::strong_count(place) - 1)
        };
        let room = shares::has_room(limit, uid, self.0.iter().flat_map(held));
        room.then(|| Arc::clone(self.0.entry(uid).or_insert_with(|| Arc::new(uid))))
    }
}

/// Part of a file that is to be brought into memory, and the worker that says so.
pub(super) struct FetchOf {
    worker: WorkerId,
    number: u64,
    uid: u32,
    window: FileWindow,
    is_ahead: bool,
    outcome: Fetched,
}

impl Errand for FetchOf {
    fn uid(&self) -> u32 {
        self.uid
    }

    fn run(&mut self) {
        // The kernel reads no more than this, and marks nothing at which whoever reads is to go on for it.
        self.window.begin();
        if self.is_ahead {
            self.outcome = Fetched::There;
            return;
        }
        // A file that has become shorter may still have what is asked for.
        let there = self.window.fetch().or_else(|_| self.window.fetch_page());
        self.outcome = match there {
            Ok(()) => Fetched::There,
            Err(_) => Fetched::Gone,
        };
    }
}

/// What becomes of a file that is shown.
enum Answer {
    /// It is open for the engine.
    Taken(Arc<OpenFile>, Governed),
    /// Those of these sizes are the program's to read.
    Left(u64, u64),
}

impl Desk {
    /// A program shows a file to send from.
    pub(super) fn file_asked(&mut self, slot: u32, fds: &[OwnedFd]) -> Result<(), ChannelError> {
        let Some(client) = self.key_of(slot) else {
            return Ok(());
        };
        let reply = match self.file_shown(slot, fds) {
            Ok(Answer::Taken(file, governed)) => {
                let pending = Pending::File(Arc::clone(&file), governed);
                self.ask(client, Ask::File(file), pending);
                return Ok(());
            }
            Ok(Answer::Left(first, last)) => Reply::Left { first, last },
            Err((errno, message)) => Reply::Error {
                errno: errno.raw_os_error(),
                message,
            },
        };
        self.control.reply(slot, &reply, Fds::new())
    }

    fn file_shown(&mut self, slot: u32, fds: &[OwnedFd]) -> Result<Answer, Refusal> {
        self.session_of(slot)?;
        let Some(shown) = fds.last() else {
            return Err((Errno::INVAL, "send the file along".to_owned()));
        };
        let (client, placing) = (self.control.client(slot), &self.placing);
        let (uid, is_governed) = client.map_or((0, false), |client| {
            // Others would not ask again when the load has changed.
            let asks_again = client.version >= POLICED_SINCE;
            (client.uid, asks_again && placing.governs(&client.listens))
        });
        let unfit = |unfit: Unfit| (unfit.errno(), unfit.to_string());
        let shown = look_at(shown.as_fd()).map_err(unfit)?;
        // Memory that a program has registered is not to be copied, whatever its size.
        let governed = match shown.is_memory {
            true => Governed::No,
            false => match self.let_read(shown.bytes, is_governed) {
                Reader::Engine(governed) => governed,
                Reader::Program { first, last } => return Ok(Answer::Left(first, last)),
            },
        };
        let may_open = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / OF_DESCRIPTORS;
        let limit = u64::from(self.facts.limits.files).min(may_open);
        let Some(place) = self
            .places
            .take(uid, usize::try_from(limit).unwrap_or(usize::MAX))
        else {
            self.counters.drop(Drop::FilesFull);
            return Err((
                Errno::MFILE,
                "as many files are sent from as may be".to_owned(),
            ));
        };
        let opened = shown.open().map_err(unfit)?;
        let file = OpenFile::new(opened, shown.is_memory, place);
        let file = file.closed_by(self.closing.of_files());
        Ok(Answer::Taken(Arc::new(file), governed))
    }

    /// Part of a file is to be brought into memory.
    pub(super) fn fetch(&mut self, worker: WorkerId, fetch: &Fetch) {
        let len = fetch.part.end.saturating_sub(fetch.part.start);
        match FileWindow::map(&*fetch.file, fetch.part.start, len) {
            Ok(window) => {
                let fetched = (worker, fetch.number);
                self.fetched.insert(fetched, Arc::clone(&fetch.file));
                self.fetches.add(FetchOf {
                    worker,
                    number: fetch.number,
                    uid: fetch.uid,
                    window,
                    is_ahead: fetch.is_ahead,
                    outcome: Fetched::NotNow,
                });
            }
            Err(_) => self
                .crew
                .order(worker, Order::Fetched(fetch.number, Fetched::Gone)),
        }
    }

    /// Sends for what is to be fetched, and tells the workers of what is.
    pub(super) fn see_to_fetches(&mut self, now: Instant) {
        for done in self.fetches.attend(now) {
            self.is_fetched(done);
        }
    }

    /// Fetches everything here, and waits for as long as that takes.
    pub(super) fn fetch_here(&mut self) {
        while let Some(done) = self.fetches.run_here() {
            self.is_fetched(done);
        }
    }

    fn is_fetched(&mut self, done: FetchOf) {
        let (worker, number) = (done.worker, done.number);
        self.crew
            .order(worker, Order::Fetched(number, done.outcome));
        // A mapping keeps its file open, too. It goes first, so that it is never the last that does.
        drop(done);
        self.fetched.remove(&(worker, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_when_its_file_is_closed() {
        let mut places = Places::default();
        let taken: Vec<_> = std::iter::from_fn(|| places.take(1000, 16)).collect();
        assert_eq!(taken.len(), 8, "half of them");
        assert!(places.take(1001, 16).is_some());
        drop(taken);
        assert!(places.take(1000, 16).is_some());
        assert!(places.0.len() <= 2);
        assert!(places.take(shares::ROOT, 0).is_none());
    }
}
