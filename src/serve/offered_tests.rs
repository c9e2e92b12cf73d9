//! Files that stay open, and are seen to be others.

use super::super::watches::{LASTS, MOST, is_local};
use super::*;
use native::Mode;
use std::fs::{create_dir_all, hard_link, remove_file, rename, write};
use std::io::Write;
use std::os::unix::fs::symlink;
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
        // No time passes but by `later`.
        self.1.look_again(self.1.doubted.get());
        self.find_still(path)
    }

    /// The same in one look with what was found before.
    fn find_still(&self, path: &str) -> Option<(Rc<File>, u64)> {
        match self.1.find(path.as_bytes()) {
            Found::File(info) => Some((info.file(), info.length())),
            _ => None,
        }
    }

    /// Asks for `path` as often as it takes for it to be watched. False, which is said: here nothing is, because of
    /// the file system of temporary files.
    fn watches(&self, path: &str) -> bool {
        for _ in 0..=OFTEN {
            self.find(path).unwrap();
        }
        if !self.is_watched(path) && !self.is_local() {
            let said = format!("SKIPPED (needs a file system of this machine): {path}\n");
            let _ = std::io::stderr().write_all(said.as_bytes());
            return false;
        }
        assert!(self.is_watched(path), "{path}");
        true
    }

    fn is_watched(&self, path: &str) -> bool {
        let open = self.1.open.borrow();
        let watched = open.get(path.as_bytes()).and_then(|open| open.watched);
        watched.is_some_and(|watched| self.1.watches.borrow().hold(watched))
    }

    fn is_local(&self) -> bool {
        is_local(self.1.directory.root())
    }

    /// The next time after which what is watched is doubted.
    fn later(&self) {
        self.1.look_again(self.1.doubted.get() + DOUBT);
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

/// A link at the end of a path is looked at each time, and takes no place of what can be watched.
#[test]
fn links_leave_room_for_files() {
    let place = Place::new("links-and-files");
    place.write("page", "abc");
    for number in 0..=MOST {
        symlink("page", place.0.join(format!("link-{number}"))).unwrap();
    }
    for number in 0..=MOST {
        for _ in 0..=OFTEN {
            assert!(place.find(&format!("link-{number}")).is_some());
        }
        assert!(!place.is_watched(&format!("link-{number}")));
    }
    place.watches("page");
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

/// What is at a path leads elsewhere in one of these ways.
type Change = (&'static str, fn(&Place));

const CHANGES: [Change; 9] = [
    ("written", |place| place.write("sub/page", "22")),
    ("written by another name", |place| {
        place.write("other/name", "22");
    }),
    ("cut", |place| place.write("sub/page", "")),
    ("replaced", |place| {
        rename(place.0.join("new"), place.0.join("sub/page")).unwrap();
    }),
    ("deleted", |place| {
        remove_file(place.0.join("sub/page")).unwrap()
    }),
    ("moved", |place| {
        rename(place.0.join("sub/page"), place.0.join("page")).unwrap();
    }),
    ("in a directory that is moved", |place| {
        rename(place.0.join("sub"), place.0.join("moved")).unwrap();
    }),
    ("in a directory that another takes the place of", |place| {
        rename(place.0.join("sub"), place.0.join("moved")).unwrap();
        rename(place.0.join("other"), place.0.join("sub")).unwrap();
    }),
    ("set to another time", |place| {
        let file = std::fs::File::open(place.0.join("sub/page")).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
    }),
];

#[test]
fn of_a_file_that_is_watched_each_change_is_seen_at_once() {
    for (number, (change, make)) in CHANGES.iter().enumerate() {
        let place = Place::new(&format!("watched-{number}"));
        create_dir_all(place.0.join("other")).unwrap();
        place.write("sub/page", "1");
        place.write("new", "333");
        hard_link(place.0.join("sub/page"), place.0.join("other/name")).unwrap();
        if !place.watches("sub/page") {
            return;
        }
        let (before, _) = place.find("sub/page").unwrap();
        make(&place);
        let after = place.find("sub/page");
        let is_another = after.is_none_or(|(after, _)| !Rc::ptr_eq(&before, &after));
        assert!(is_another, "{change}");
        assert!(!place.is_watched("sub/page"), "{change}");
    }
}

#[test]
fn a_file_that_is_watched_is_not_looked_at() {
    let place = Place::new("trusted");
    place.write("page", "1");
    place.write("other", "22");
    if !place.watches("page") {
        return;
    }
    // A state that it is not in stands for a change that nobody tells of.
    let other = place.1.directory.state(b"other").unwrap();
    for open in place.1.open.borrow_mut().values_mut() {
        open.state = other;
    }
    let (before, _) = place.find("page").unwrap();
    let (again, _) = place.find("page").unwrap();
    assert!(Rc::ptr_eq(&before, &again));
    // It is after a while.
    place.later();
    let (after, _) = place.find_still("page").unwrap();
    assert!(!Rc::ptr_eq(&before, &after));
}

#[test]
fn after_a_change_nothing_is_watched_for_a_while() {
    let place = Place::new("quiet");
    place.write("page", "1");
    if !place.watches("page") {
        return;
    }
    place.write("other", "2");
    place.find("page").unwrap();
    for _ in 0..2 * OFTEN {
        place.find("page").unwrap();
        assert!(!place.is_watched("page"));
    }
    place.later();
    for _ in 0..=OFTEN {
        place.find("page").unwrap();
    }
    assert!(place.is_watched("page"));
}

#[test]
fn what_leads_through_a_link_is_looked_at_each_time() {
    let place = Place::new("links");
    create_dir_all(place.0.join("other")).unwrap();
    place.write("sub/page", "1");
    place.write("other/page", "22");
    symlink("sub", place.0.join("way")).unwrap();
    symlink("sub/page", place.0.join("end")).unwrap();
    for path in ["way/page", "end"] {
        for _ in 0..2 * OFTEN {
            assert_eq!(place.find(path).unwrap().1, 1);
        }
        assert!(!place.is_watched(path), "{path}");
    }
    for (link, to) in [("way", "other"), ("end", "other/page")] {
        remove_file(place.0.join(link)).unwrap();
        symlink(to, place.0.join(link)).unwrap();
    }
    assert_eq!(place.find("way/page").unwrap().1, 2);
    assert_eq!(place.find("end").unwrap().1, 2);
}

#[test]
fn more_files_than_can_be_watched_are_looked_at() {
    let place = Place::new("crowd");
    let names: Vec<String> = (0..MOST + 8).map(|file| file.to_string()).collect();
    for name in &names {
        place.write(name, "1");
    }
    if !place.watches("0") {
        return;
    }
    let ask_all = || {
        for name in &names {
            for _ in 0..=OFTEN {
                place.find(name).unwrap();
            }
        }
    };
    ask_all();
    let watched = |name: &String| place.is_watched(name);
    let count = names.iter().filter(|name| watched(name)).count();
    assert_eq!(count, MOST - 1, "one is the directory");
    let left = names.iter().find(|name| !watched(name)).unwrap();
    place.write(left, "22");
    assert_eq!(place.find(left).unwrap().1, 2);
    // After a long while others are watched, for nobody may ask for these any more.
    for _ in 0..2 {
        for _ in 0..LASTS.max(LATER) {
            place.later();
        }
        for _ in 0..=OFTEN {
            place.find(left).unwrap();
        }
    }
    assert!(place.is_watched(left));
}

#[test]
fn who_has_nothing_open_watches_nothing() {
    let place = Place::new("resting");
    place.write("page", "1");
    if !place.watches("page") {
        return;
    }
    let watched = place.1.open.borrow()[b"page".as_slice()].watched.unwrap();
    let begin = Instant::now();
    place.1.forget_unused(begin);
    assert!(place.1.has_open() && place.is_watched("page"));
    place.1.forget_unused(begin + UNUSED);
    assert!(!place.1.has_open() && !place.1.watches.borrow().hold(watched));
    // It is no change: the file may be watched again at once.
    assert!(place.watches("page"));
}
