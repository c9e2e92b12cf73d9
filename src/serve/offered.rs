//! The site as connections send it: a file is named to them, not read for them. Files stay open for a while: to
//! open one costs several times what it costs to see that it is still the one that was open, and to see that costs
//! a fifth of all that a small request does. So that is done once for all requests that were there at one time.

use super::directory::{Directory, FileState, INDEX, Opened};
use super::exchange::{FileInfo, Found, Site};
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

/// A directory whose files are sent by name.
pub struct Offered {
    directory: Directory,
    context: Context,
    open: RefCell<HashMap<Vec<u8>, Open>>,
    /// Counts how often it was to be looked again.
    looks: Cell<u64>,
}

/// A file that was sent from.
struct Open {
    state: FileState,
    info: FileInfo<Rc<File>>,
    /// The look in which it was seen to be the one that is there.
    seen: u64,
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
            looks: Cell::new(0),
        }
    }

    /// From now on what is there is looked at anew. To be called before the requests that came at one time are
    /// answered, and after each change that is this server's own.
    pub fn look_again(&self) {
        self.looks.set(self.looks.get() + 1);
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
    }

    /// The file at `path`, if it is open and the one that is there now. Where it leads to then was below the
    /// directory when it was opened: the kernel has seen to that.
    fn still_open(&self, path: &[u8]) -> Option<FileInfo<Rc<File>>> {
        let mut all = self.open.borrow_mut();
        let open = all.get_mut(path)?;
        let look = self.looks.get();
        if open.seen != look && self.directory.state(path) != Some(open.state) {
            all.remove(path);
            return None;
        }
        open.seen = look;
        open.used = true;
        Some(open.info.clone())
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
mod tests {
    use super::*;
    use native::Mode;
    use std::fs::{create_dir_all, rename, write};
    use std::path::PathBuf;

    struct Place(PathBuf, Offered);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("outboard-offered-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(name);
            create_dir_all(root.join("sub")).unwrap();
            let directory = Directory::open(&root, false).unwrap();
            let nowhere = root.join("no-engine");
            let context = Context::attach_at(&nowhere, "test", Mode::Any).unwrap();
            Self(root, Offered::new(directory, context))
        }

        fn write(&self, path: &str, text: &str) {
            write(self.0.join(path), text).unwrap();
        }

        /// The file at `path`, and its length.
        fn find(&self, path: &str) -> Option<(Rc<File>, u64)> {
            self.1.look_again();
            self.find_still(path)
        }

        /// The same in one look with what was found before.
        fn find_still(&self, path: &str) -> Option<(Rc<File>, u64)> {
            match self.1.find(path.as_bytes()) {
                Found::File(info) => Some((info.file(), info.length())),
                _ => None,
            }
        }

        fn is_open(&self, path: &str) -> bool {
            self.1.open.borrow().contains_key(path.as_bytes())
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_stays_open_while_it_is_the_one_that_is_there() {
        let place = Place::new("same");
        place.write("page", "1");
        place.write("sub/index.html", "22");
        for path in ["page", "sub/"] {
            let (first, length) = place.find(path).unwrap();
            let (again, _) = place.find(path).unwrap();
            assert!(Rc::ptr_eq(&first, &again), "{path}");
            assert_eq!(length, if path == "page" { 1 } else { 2 });
        }
        let (index, _) = place.find("sub/index.html").unwrap();
        assert!(Rc::ptr_eq(&index, &place.find("sub/").unwrap().0));
    }

    #[test]
    fn what_was_changed_replaced_or_deleted_is_seen_at_once() {
        let place = Place::new("other");
        place.write("page", "1");
        let (first, _) = place.find("page").unwrap();
        place.write("page", "22");
        let (changed, length) = place.find("page").unwrap();
        assert!(length == 2 && !Rc::ptr_eq(&first, &changed));
        place.write("new", "33");
        rename(place.0.join("new"), place.0.join("page")).unwrap();
        let (replaced, _) = place.find("page").unwrap();
        assert!(!Rc::ptr_eq(&changed, &replaced));
        std::fs::remove_file(place.0.join("page")).unwrap();
        assert!(place.find("page").is_none() && !place.is_open("page"));
    }

    #[test]
    fn requests_of_one_time_look_once() {
        let place = Place::new("once");
        place.write("page", "1");
        let (first, _) = place.find("page").unwrap();
        let (again, _) = place.find("page").unwrap();
        place.write("page", "22");
        let (still, length) = place.find_still("page").unwrap();
        assert!(length == 1 && Rc::ptr_eq(&first, &again) && Rc::ptr_eq(&first, &still));
        assert_eq!(place.find("page").unwrap().1, 2);
    }

    #[test]
    fn a_link_that_leads_out_later_leads_nowhere() {
        let place = Place::new("link");
        place.write("page", "1");
        std::os::unix::fs::symlink("page", place.0.join("link")).unwrap();
        assert!(place.find("link").is_some());
        std::fs::remove_file(place.0.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", place.0.join("link")).unwrap();
        assert!(place.find("link").is_none());
    }

    #[test]
    fn what_nobody_asks_for_is_closed_after_a_while() {
        let place = Place::new("unused");
        place.write("page", "1");
        place.write("other", "2");
        let begin = Instant::now();
        let later = |seconds| place.1.forget_unused(begin + Duration::from_secs(seconds));
        place.find("page").unwrap();
        place.find("other").unwrap();
        later(0);
        later(4);
        place.find("other").unwrap();
        later(5);
        assert!(!place.is_open("page") && place.is_open("other"));
        later(10);
        assert!(!place.is_open("other"));
    }

    #[test]
    fn no_more_than_so_many_stay_open() {
        let place = Place::new("many");
        for file in 0..OPEN + 2 {
            place.write(&file.to_string(), "");
            place.find(&file.to_string()).unwrap();
        }
        assert_eq!(place.1.open.borrow().len(), OPEN);
    }
}
