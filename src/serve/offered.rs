//! The site as connections send it: a file is named to them, not read for them. Files stay open for a while: to
//! open one costs several times what it costs to see that it is still the one that was open, and to see that costs
//! a tenth of all that a small request does. So that is done once for all requests that were there at one time; and
//! files that are asked for often are watched, so that it needs not be done at all.

use super::directory::{Directory, FileState, INDEX, Opened};
use super::exchange::{FileInfo, Found, Site};
use super::watches::{Watched, Watches};
use native::{Context, File};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Files that stay open, at most.
const OPEN: usize = 1_024;
/// One that nobody has asked for so long is closed: whoever deletes a file wants its space back.
const UNUSED: Duration = Duration::from_secs(5);
/// One that was looked at so often is watched: to begin costs as much as that.
const OFTEN: u32 = 16;
/// How often a file that is watched is looked at nevertheless, since there are changes of which nobody tells; and how
/// long none is watched after something was told, since there may be more to come.
const DOUBT: Duration = Duration::from_secs(1);
/// For so many doubts what could not be watched is not tried again.
const LATER: u64 = 60;

/// A directory whose files are sent by name.
pub struct Offered {
    directory: Directory,
    context: Context,
    open: RefCell<HashMap<Vec<u8>, Open>>,
    /// Counts how often it was to be looked again.
    looks: Cell<u64>,
    /// Counts the times after which what is watched is doubted, and when the last one was.
    doubts: Cell<u64>,
    doubted: Cell<Instant>,
    watches: RefCell<Watches>,
}

/// A file that was sent from.
struct Open {
    state: FileState,
    info: FileInfo<Rc<File>>,
    /// The look in which it was seen to be the one that is there.
    seen: u64,
    /// The doubts that there had been when it was last looked at, and how often it was.
    asked: u64,
    times: u32,
    watched: Option<Watched>,
    /// The doubts after which it may be watched.
    not_before: u64,
    used: bool,
    /// When it was last seen to be used.
    since: Option<Instant>,
}

impl Offered {
    /// The files of `directory`, for the connections of `context`.
    pub fn new(directory: Directory, context: Context) -> Self {
        Self {
            directory,
            context,
            open: RefCell::default(),
            looks: Cell::new(1),
            doubts: Cell::new(1),
            doubted: Cell::new(Instant::now()),
            watches: RefCell::default(),
        }
    }

    /// From `now` on what is there is looked at anew. To be called before the requests that came at one time are
    /// answered, and after each change that is this server's own.
    pub fn look_again(&self, now: Instant) {
        self.looks.set(self.looks.get() + 1);
        if now.saturating_duration_since(self.doubted.get()) >= DOUBT {
            self.doubted.set(now);
            self.doubts.set(self.doubts.get() + 1);
        }
    }

    /// Closes what nobody has asked for in the last seconds. To be called now and then.
    pub fn forget_unused(&self, now: Instant) {
        self.open.borrow_mut().retain(|_, open| {
            if std::mem::take(&mut open.used) {
                open.since = Some(now);
            }
            let since = *open.since.get_or_insert(now);
            now.saturating_duration_since(since) < UNUSED
        });
        if !self.has_open() {
            self.watches.borrow_mut().end();
        }
    }

    /// Whether there is anything to be [closed](Self::forget_unused) some time.
    pub fn has_open(&self) -> bool {
        !self.open.borrow().is_empty()
    }

    /// The file at `path`, if it is open and the one that is there now. Where it leads to then was below the
    /// directory when it was opened: the kernel has seen to that.
    fn still_open(&self, path: &[u8]) -> Option<FileInfo<Rc<File>>> {
        let mut all = self.open.borrow_mut();
        let open = all.get_mut(path)?;
        let look = self.looks.get();
        if open.seen != look && !self.is_still_there(path, open) {
            all.remove(path);
            return None;
        }
        open.seen = look;
        open.used = true;
        Some(open.info.clone())
    }

    /// Whether a file is still the one at its path: by what is told of it, or by a look.
    fn is_still_there(&self, path: &[u8], open: &mut Open) -> bool {
        let mut watches = self.watches.borrow_mut();
        let doubts = self.doubts.get();
        watches.look(self.looks.get(), doubts);
        let is_watched = open.watched.is_some_and(|since| watches.hold(since));
        if is_watched && open.asked == doubts {
            return true;
        }
        if self.directory.state(path) != Some(open.state) {
            return false;
        }
        open.asked = doubts;
        open.times = open.times.saturating_add(1);
        let may_begin = doubts >= open.not_before && watches.may_begin(doubts);
        if !is_watched && open.times >= OFTEN && may_begin {
            open.times = 0;
            let begun = watches.begin(self.directory.root(), path, doubts);
            // Its path may lead through a link, which is another state.
            let begun = begun.ok().filter(|(_, state)| *state == open.state);
            open.watched = begun.map(|(watched, _)| watched);
            if open.watched.is_none() {
                open.not_before = doubts + LATER;
            }
        }
        true
    }

    /// Shows a file that was opened to the connections, and keeps it open.
    fn take(&self, path: &[u8], found: FileInfo<Opened>) -> FileInfo<Rc<File>> {
        let mut state = None;
        let info = found.map(|opened| {
            state = Some(opened.state);
            Rc::new(self.context.file(opened.file))
        });
        let mut all = self.open.borrow_mut();
        if let Some(state) = state
            && all.len() < OPEN
        {
            let open = Open {
                state,
                info: info.clone(),
                seen: self.looks.get(),
                asked: self.doubts.get(),
                times: 0,
                watched: None,
                not_before: 0,
                used: true,
                since: None,
            };
            all.insert(path.to_vec(), open);
        }
        info
    }
}

impl Site for Offered {
    type File = Rc<File>;

    fn find(&self, path: &[u8]) -> Found<Rc<File>> {
        let is_directory = path.is_empty() || path.ends_with(b"/");
        let file = match is_directory {
            true => Cow::Owned([path, INDEX].concat()),
            false => Cow::Borrowed(path),
        };
        if let Some(info) = self.still_open(&file) {
            return Found::File(info);
        }
        match self.directory.find(path) {
            Found::File(found) => Found::File(self.take(&file, found)),
            Found::Directory => Found::Directory,
            Found::Listing(names) => Found::Listing(names),
            Found::Refused(status) => Found::Refused(status),
        }
    }
}

#[cfg(test)]
#[path = "offered_tests.rs"]
mod tests;
