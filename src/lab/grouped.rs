//! A group that goes on: those of its experiments that were cut short, and those that had not begun.

use super::begun;
use super::options::Options;
use super::shaped::{
    self, ALL, Came, Run, check, code, finish, go, header, stop_by_signals, takes,
};
use super::watch::Place;
use ::lab::catalogue::{self, Entry};
use ::lab::experiment::directory::Header;
use ::lab::experiment::group::Group;
use ::lab::experiment::{Directory, End};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An experiment of a group that is left to be run.
struct Left {
    entry: &'static Entry,
    /// What it is to begin with; none, if it has begun and goes on.
    header: Option<Box<Header>>,
}

impl Left {
    /// How long it takes at least, as a rule. Of what has begun that is not looked up.
    fn takes(&self) -> Duration {
        let header = self.header.as_deref();
        header.map_or(Duration::ZERO, |header| takes(self.entry, header))
    }

    fn directory(&self, path: &Path, anyway: bool) -> Result<Directory> {
        let path = path.join(self.entry.name);
        if let Some(header) = &self.header {
            return Directory::create(&path, (**header).clone());
        }
        let mut directory = Directory::resume(&path)?;
        begun::go_on(&mut directory, anyway)?;
        Ok(directory)
    }
}

/// Runs what is named, or goes on with a run, or with what is left of a group.
pub fn run(args: &Run) -> Result<ExitCode> {
    let path = args.resume.as_deref();
    let group = path.map(Group::open).transpose()?.flatten();
    match path.zip(group) {
        Some((path, group)) => {
            let stop = stop_by_signals()?;
            go_on(path, group, args.options.limit, args.anyway, &stop)
        }
        None => shaped::run(args),
    }
}

/// Goes on with what is left of a group, each experiment told what all of them were told. `limit`: in minutes, for each,
/// instead of theirs.
fn go_on(
    path: &Path,
    mut group: Group,
    limit: Option<u64>,
    anyway: bool,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let left = left(path, &group, limit)?;
    if left.is_empty() {
        println!("Of {} nothing is left to be run.", path.display());
    }
    let entries: Vec<&Entry> = left.iter().map(|left| left.entry).collect();
    check(&entries)?;
    if !left.is_empty()
        && let Some(changed) = changed(path, &group, anyway)?
        && !group.changes.contains(&changed)
    {
        group.changes.push(changed);
    }
    let (is_of_all, mut are_good) = (group.name == ALL, true);
    for (index, one) in left.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let place = Place {
            number: index + 1,
            of: left.len(),
            later: left[index + 1..].iter().map(Left::takes).sum(),
        };
        let missing = one.entry.missing().filter(|_| is_of_all);
        let began = Instant::now();
        let came = Came::of(missing, || {
            let mut directory = one.directory(path, anyway)?;
            go(one.entry, &mut directory, limit, stop, place)
        });
        came.note(&mut group, one.entry.name, began.elapsed());
        group.write(path)?;
        are_good &= came.told(one.entry.name, is_of_all)?;
    }
    finish(path, &group)?;
    Ok(code(are_good))
}

/// What is left of a group: those that were cut short, by whoever or whatever, and those that had not begun.
fn left(path: &Path, group: &Group, limit: Option<u64>) -> Result<Vec<Left>> {
    let mut left = Vec::new();
    for name in &group.experiments {
        let (entry, directory) = (catalogue::find(name)?, path.join(name));
        if Directory::is_there(&directory) {
            if let None | Some(End::Interrupted) = Directory::open(&directory)?.end() {
                left.push(Left {
                    entry,
                    header: None,
                });
            }
            continue;
        }
        let told = group.told.as_ref().with_context(|| {
            format!(
                "{name} has not begun, and {} was made by a version that did not note how it was to be run",
                path.display()
            )
        })?;
        let header = header(&Options::of(told, limit), entry)?;
        left.push(Left {
            entry,
            header: Some(Box::new(header)),
        });
    }
    Ok(left)
}

/// What those that are there were begun with that is not so now, if it goes on nevertheless: what is left would be of
/// something else than they are.
fn changed(path: &Path, group: &Group, anyway: bool) -> Result<Option<String>> {
    let mut all: Vec<String> = Vec::new();
    for name in &group.experiments {
        let directory = path.join(name);
        if !Directory::is_there(&directory) {
            continue;
        }
        for found in begun::changed(Directory::open(&directory)?.header())? {
            if !all.contains(&found) {
                all.push(found);
            }
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    let all = all.join("; ");
    if !anyway {
        bail!(
            "{} was begun with something else: {all}; --anyway goes on with it nevertheless, and its page says so",
            path.display()
        );
    }
    Ok(Some(format!("when the group went on, {all}")))
}

#[cfg(test)]
mod tests {
    use super::super::shaped::tests::{header, options};
    use super::{changed, left};
    use ::lab::experiment::group::Group;
    use ::lab::experiment::{Directory, End};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory that goes with its test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            static MADE: AtomicU32 = AtomicU32::new(0);
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let name = format!("lab-group-{}-{number}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const NAMES: [&str; 5] = ["web", "echo", "rates", "classes", "model"];
    const WORDS: [&str; 5] = ["--quick", "--rounds", "4", "--seed", "9"];

    /// A group of [`NAMES`] of which the first has ended, the second was interrupted, the third was killed, and the
    /// others have not begun.
    fn cut_short(scratch: &Scratch) -> Group {
        for (name, end) in [
            ("web", Some(End::Rounds)),
            ("echo", Some(End::Interrupted)),
            ("rates", None),
        ] {
            let header = header(&[&["run", name][..], &WORDS].concat());
            let mut directory = Directory::create(&scratch.0.join(name), header).unwrap();
            if let Some(end) = end {
                directory.finish(end).unwrap();
            }
        }
        let group = Group {
            name: "some".into(),
            experiments: NAMES.map(String::from).to_vec(),
            told: Some(
                options(&[&["run", "all"][..], &WORDS].concat())
                    .told()
                    .unwrap(),
            ),
            ..Group::default()
        };
        group.write(&scratch.0).unwrap();
        Group::open(&scratch.0).unwrap().unwrap()
    }

    #[test]
    fn what_was_cut_short_goes_on_and_what_had_not_begun_begins_as_it_was_told() {
        let scratch = Scratch::new();
        let group = cut_short(&scratch);
        let found = left(&scratch.0, &group, None).unwrap();
        let names: Vec<(&str, bool)> = found
            .iter()
            .map(|left| (left.entry.name, left.header.is_some()))
            .collect();
        let expected = [
            ("echo", false),
            ("rates", false),
            ("classes", true),
            ("model", true),
        ];
        assert_eq!(names, expected);
        let begun = found[2].header.as_deref().unwrap();
        assert_eq!(*begun, header(&[&["run", "classes"][..], &WORDS].concat()));
        assert_eq!((begun.rules.most_rounds, begun.rules.seed), (4, 9));
        let directory = found[2].directory(&scratch.0, false).unwrap();
        assert_eq!(directory.header(), begun);
        drop(directory);
        let found = left(&scratch.0, &group, Some(3)).unwrap();
        assert_eq!(found.len(), 4);
        assert!(found[2].header.is_none(), "it has begun now");
        let rules = found[3].header.as_deref().unwrap().rules;
        assert_eq!(rules.limit.as_secs(), 180);
        assert_eq!(
            found[0].directory(&scratch.0, false).unwrap().end(),
            Some(End::Interrupted)
        );
    }

    #[test]
    fn how_the_others_were_to_be_run_is_not_guessed() {
        let scratch = Scratch::new();
        let mut group = cut_short(&scratch);
        group.told = None;
        let error = left(&scratch.0, &group, None).err().unwrap().to_string();
        assert!(error.contains("classes has not begun"), "{error}");
        group.experiments.truncate(3);
        assert_eq!(left(&scratch.0, &group, None).unwrap().len(), 2);
    }

    /// Also where all that goes on has not begun: beside those that have ended it would be of something else.
    #[test]
    fn a_group_of_something_else_says_so() {
        let scratch = Scratch::new();
        let group = cut_short(&scratch);
        assert_eq!(changed(&scratch.0, &group, false).unwrap(), None);
        let run = scratch.0.join("web/run.json");
        let text = std::fs::read_to_string(&run).unwrap();
        let version = format!("\"version\": \"{}\"", env!("OUTBOARD_VERSION"));
        assert!(text.contains(&version), "{text}");
        std::fs::write(&run, text.replace(&version, "\"version\": \"0.0.1\"")).unwrap();
        let error = changed(&scratch.0, &group, false).unwrap_err().to_string();
        assert!(error.contains("outboard: 0.0.1, then"), "{error}");
        let said = changed(&scratch.0, &group, true).unwrap().unwrap();
        assert!(
            said.starts_with("when the group went on, outboard: 0.0.1"),
            "{said}"
        );
    }
}
