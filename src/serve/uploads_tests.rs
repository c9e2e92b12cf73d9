//! What may be stored where, and that it is there in whole or not at all.

use super::{Method, Request, Stored, Upload, Uploads, rest};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

/// A directory to store in, beside another that must stay as it is.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let top =
            std::env::temp_dir().join(format!("outboard-uploads-{name}-{}", std::process::id()));
        std::fs::create_dir_all(top.join("root/sub")).unwrap();
        std::fs::create_dir_all(top.join("other")).unwrap();
        std::fs::write(top.join("other/file"), "other").unwrap();
        let root = top.join("root");
        symlink("../other", root.join("out")).unwrap();
        symlink("sub", root.join("in")).unwrap();
        symlink("../other/file", root.join("link")).unwrap();
        Self(top)
    }

    fn begin(
        &self,
        method: Method,
        target: &str,
        set: impl FnOnce(&mut Request),
    ) -> Result<Upload, u16> {
        let uploads = Uploads::open(&self.0.join("root"), 1).unwrap();
        let mut request = Request {
            method,
            target: target.into(),
            body: 6,
            ..Request::default()
        };
        set(&mut request);
        uploads.begin(&request)
    }

    fn put(&self, target: &str, set: impl FnOnce(&mut Request)) -> Stored {
        match self.begin(Method::Put, target, set) {
            Ok(mut upload) => {
                upload.write(b"abc");
                let (two, one) = ([b'd'.into(), b'e'.into()], [b'f'.into()]);
                upload.write_shared(&mut [&two, &one]);
                assert_eq!((upload.left(), upload.has_failed()), (0, false));
                upload.finish()
            }
            Err(status) => Stored::Refused(status),
        }
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(path)).ok()
    }

    /// How many names there are in the directory, hidden ones among them.
    fn names(&self) -> usize {
        std::fs::read_dir(self.0.join("root")).unwrap().count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_is_made_and_then_replaced_and_leaves_nothing_beside_it() {
    let place = Place::new("made");
    let created = Stored::Created(b"sub/a b".to_vec());
    assert_eq!(place.put("/sub/a%20b?x", |_| {}), created);
    assert_eq!(place.read("root/sub/a b").as_deref(), Some("abcdef"));
    std::fs::write(place.0.join("root/a"), "longer than it").unwrap();
    let names = place.names();
    assert_eq!(place.put("/a", |_| {}), Stored::Replaced);
    assert_eq!(place.read("root/a").as_deref(), Some("abcdef"));
    assert_eq!(place.names(), names);
}

#[test]
fn what_is_not_complete_has_no_name() {
    let place = Place::new("partial");
    let names = place.names();
    let mut upload = place.begin(Method::Put, "/a", |_| {}).ok().unwrap();
    upload.write(b"abc");
    assert_eq!((upload.left(), place.names()), (3, names));
    drop(upload);
    assert_eq!(place.names(), names);
}

#[test]
fn nothing_is_stored_outside_over_links_or_under_hidden_names() {
    let place = Place::new("outside");
    let names = place.names();
    for (target, status) in [
        ("/../other/x", 400),
        ("/%2e%2e/other/x", 400),
        ("/out/x", 403),
        ("/in/x", 403),
        ("/link", 403),
        ("/.profile", 403),
        ("/sub/.ssh/keys", 403),
        ("/a%00", 400),
        ("/none/x", 409),
        ("/sub", 409),
        ("/sub/", 409),
        ("/", 409),
    ] {
        assert_eq!(
            place.put(target, |_| {}),
            Stored::Refused(status),
            "{target}"
        );
    }
    assert_eq!(place.names(), names);
    assert_eq!(std::fs::read_dir(place.0.join("other")).unwrap().count(), 1);
    assert_eq!(place.read("other/file").as_deref(), Some("other"));
}

#[test]
fn a_link_that_comes_meanwhile_is_replaced_and_not_followed() {
    let place = Place::new("meanwhile");
    let mut upload = place.begin(Method::Put, "/a", |_| {}).ok().unwrap();
    upload.write(b"abcdef");
    symlink("../other/file", place.0.join("root/a")).unwrap();
    assert_eq!(upload.finish(), Stored::Replaced);
    assert_eq!(place.read("other/file").as_deref(), Some("other"));
    assert_eq!(place.read("root/a").as_deref(), Some("abcdef"));
}

#[test]
fn conditions_keep_what_is_there() {
    let place = Place::new("conditions");
    let none = |request: &mut Request| request.if_none_match = Some("*".into());
    let matching = |request: &mut Request| request.if_match = Some("\"x\"".into());
    assert_eq!(place.put("/a", matching), Stored::Refused(412));
    assert_eq!(place.put("/a", none), Stored::Created(b"a".to_vec()));
    assert_eq!(place.put("/a", none), Stored::Refused(412));
    assert_eq!(place.put("/a", matching), Stored::Refused(412));
    // Two at once: the second comes too late, although there was nothing when it began.
    let begin = || place.begin(Method::Put, "/b", none).ok().unwrap();
    let (first, second) = (begin(), begin());
    assert_eq!(first.finish(), Stored::Created(b"b".to_vec()));
    assert_eq!(second.finish(), Stored::Refused(412));
}

/// What one of two clients has read the other has replaced meanwhile.
#[test]
fn of_two_that_change_the_same_file_one_is_told() {
    let place = Place::new("lost-update");
    assert_eq!(place.put("/a", |_| {}), Stored::Created(b"a".to_vec()));
    let facts = rustix::fs::stat(place.0.join("root/a")).unwrap();
    let etag = super::validators(&facts).etag;
    let begin = || {
        let matching = |request: &mut Request| request.if_match = Some(etag.clone());
        place.begin(Method::Put, "/a", matching).ok().unwrap()
    };
    let (mut first, mut second) = (begin(), begin());
    first.write(b"of the first");
    second.write(b"of the second one");
    assert_eq!(first.finish(), Stored::Replaced);
    assert_eq!(second.finish(), Stored::Refused(412));
    // That is for GET and HEAD.
    let since = |request: &mut Request| {
        request.if_modified_since = Some("Sat, 01 Jan 2050 00:00:00 GMT".into());
    };
    assert_eq!(place.put("/a", since), Stored::Replaced);
    // It has none of these tags, and may be replaced.
    let none = |request: &mut Request| request.if_none_match = Some("\"other\"".into());
    assert_eq!(place.put("/a", none), Stored::Replaced);
}

#[test]
fn post_makes_a_file_with_a_name_of_its_own_each_time() {
    let place = Place::new("post");
    let paths: Vec<String> = (0..2)
        .map(|_| {
            let mut upload = place.begin(Method::Post, "/sub/", |_| {}).ok().unwrap();
            upload.write(b"abcdef");
            match upload.finish() {
                Stored::Created(path) => String::from_utf8(path).unwrap(),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_ne!(paths[0], paths[1]);
    for path in paths {
        assert!(path.starts_with("sub/upload-"), "{path}");
        assert_eq!(
            place.read(&format!("root/{path}")).as_deref(),
            Some("abcdef")
        );
    }
    assert_eq!(place.begin(Method::Post, "/sub", |_| {}).err(), Some(409));
}

/// However much of them the kernel takes at once.
#[test]
fn what_is_left_of_stretches_begins_where_writing_ended() {
    let letters = |text: &str| -> Vec<AtomicU8> { text.bytes().map(AtomicU8::new).collect() };
    let parts = ["ab", "c", "def"].map(letters);
    for (bytes, left) in ["abcdef", "bcdef", "cdef", "def", "ef", "f", ""]
        .iter()
        .enumerate()
    {
        let mut stretches: Vec<&[AtomicU8]> = parts.iter().map(Vec::as_slice).collect();
        let found: Vec<u8> = rest(&mut stretches, bytes)
            .iter()
            .flat_map(|stretch| stretch.iter().map(|byte| byte.load(Ordering::Relaxed)))
            .collect();
        assert_eq!(found, left.as_bytes(), "{bytes}");
    }
}
