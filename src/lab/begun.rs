//! What a run was begun with, and whether what goes on with it is the same: a run of two things says nothing of either.

use super::only::keep;
use ::lab::catalogue::{self, Extent};
use ::lab::experiment::Directory;
use ::lab::experiment::apart::apart;
use ::lab::experiment::directory::Header;
use ::lab::machine;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use siphasher::sip::SipHasher13;
use std::fs::File;
use std::hash::Hasher;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where a run remembers which access log it replays.
pub const LOG: &str = "access log";
/// What was in it.
const LOG_CONTENT: &str = "access log, content";
/// What is measured, by what is in it: of one commit there may be many builds.
const PROGRAM: &str = "outboard, content";
const LIBRARY: &str = "its library, content";

/// What is said of a run whose declaration cannot be held against that of now: how much of it it has is not known.
const UNCOMPARED: &str = "levels, subjects and measures were not compared with those that are declared now: what was \
    asked for was not noted by the version that began it";

/// Whether what measures now is what has measured, or may be something else.
pub fn go_on(directory: &mut Directory, anyway: bool) -> Result<()> {
    let header = directory.header();
    let mut found = changed(header)?;
    found.extend(declared_otherwise(header)?);
    if found.is_empty() {
        return Ok(());
    }
    if !anyway {
        bail!(
            "the run in {} was begun with something else: {}; --anyway goes on with it nevertheless, and \
             its report says so",
            directory.path().display(),
            found.join("; ")
        );
    }
    directory.change(format!("when it went on, {}", found.join("; ")))
}

/// What is not as it was when a run was begun: what measures, the machine, and the log.
pub fn changed(header: &Header) -> Result<Vec<String>> {
    let log = header.settings[LOG].as_str().map(PathBuf::from);
    let now = settings(log.as_deref())?;
    Ok(header.differences(env!("OUTBOARD_VERSION"), &now))
}

/// Where a run was begun with other levels, subjects or measures than would be measured now.
fn declared_otherwise(header: &Header) -> Result<Vec<String>> {
    let Some(asked) = &header.asked else {
        return Ok(vec![UNCOMPARED.into()]);
    };
    let entry = catalogue::find(&header.experiment.name)?;
    let mut now = entry.declare(extent(asked.quick));
    let log = header.settings[LOG].as_str().map(Path::new);
    catalogue::at_speeds(&mut now, log, &asked.speeds, header.rules.window)?;
    // What was asked for and is there no more, the run alone has.
    let is_there =
        |wanted: &&(String, String)| keep(&mut now.clone(), &[(*wanted).clone()]).is_ok();
    let only: Vec<(String, String)> = asked.only.iter().filter(is_there).cloned().collect();
    keep(&mut now, &only)?;
    let names = ["the run", "what is declared now"];
    let found = apart([&header.experiment, &now], names);
    Ok(found.into_iter().map(|apart| apart.what).collect())
}

/// How much of an experiment is run.
pub fn extent(is_quick: bool) -> Extent {
    match is_quick {
        true => Extent::Quick,
        false => Extent::Full,
    }
}

/// What measures, by what is in it. It is read once: who replaces it while it runs changes nothing of that.
pub fn build() -> &'static [(&'static str, String); 2] {
    static BUILD: OnceLock<[(&str, String); 2]> = OnceLock::new();
    BUILD.get_or_init(build_now)
}

fn build_now() -> [(&'static str, String); 2] {
    let told = |file: Result<PathBuf>| {
        let content = file.and_then(|file| Ok(content(&file)?));
        content.unwrap_or_else(|error| format!("unknown: {error:#}"))
    };
    let program = std::env::current_exe().map_err(Into::into);
    let library = crate::run::library::find();
    [(PROGRAM, told(program)), (LIBRARY, told(library))]
}

/// What is to be said if the program or its library is another one now than when this one began: engines and programs
/// are started by their names, all the time.
pub fn replaced() -> Option<String> {
    (build_now() != *build()).then(|| {
        "outboard or its library was built or installed anew while this was measured, so part of it is of one \
         build and part of another"
            .to_owned()
    })
}

/// What measures, and which log it is given. A log may have grown since.
pub fn settings(log: Option<&Path>) -> Result<Value> {
    let mut settings = machine::settings();
    for (name, content) in build() {
        settings[*name] = content.as_str().into();
    }
    if let Some(log) = log {
        let content = content(log).with_context(|| format!("cannot read {}", log.display()))?;
        settings[LOG] = log.to_string_lossy().into();
        settings[LOG_CONTENT] = content.into();
    }
    Ok(settings)
}

/// What tells the content of a file from others.
fn content(file: &Path) -> std::io::Result<String> {
    let mut file = File::open(file)?;
    let mut hasher = SipHasher13::new();
    let mut buffer = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(format!("{length} bytes, {:016x}", hasher.finish()));
        }
        length += read;
        hasher.write(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::shaped::tests::header;
    use super::{PROGRAM, go_on, replaced};
    use ::lab::experiment::Directory;
    use ::lab::experiment::directory::Header;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A run that goes on is of the same outboard, machine and log, or says that it is not.
    #[test]
    fn a_run_goes_on_with_what_it_was_begun_with() {
        let name = format!("lab-resumed-{}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        let log = scratch.join("access.log");
        std::fs::create_dir_all(&scratch).unwrap();
        std::fs::write(&log, "one line").unwrap();
        let words = ["run", "trace", "--quick", "--log", log.to_str().unwrap()];
        let mut directory = Directory::create(&scratch.join("run"), header(&words)).unwrap();
        go_on(&mut directory, false).unwrap();
        std::fs::write(&log, "another line").unwrap();
        let error = go_on(&mut directory, false).unwrap_err().to_string();
        assert!(error.contains("access log, content"), "{error}");
        assert!(directory.changes().is_empty());
        go_on(&mut directory, true).unwrap();
        assert_eq!(directory.changes().len(), 1);
        assert_eq!(replaced(), None);
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    /// What is said when a quick run, with what else it is told, goes on after its header is changed.
    fn gone_on(words: &[&str], change: impl FnOnce(&mut Header)) -> Result<(), String> {
        gone_on_with(&[&["run", "web", "--quick"], words].concat(), change)
    }

    fn gone_on_with(words: &[&str], change: impl FnOnce(&mut Header)) -> Result<(), String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("lab-gone-on-{}-{number}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        let mut header = header(words);
        change(&mut header);
        let mut directory = Directory::create(&scratch, header).unwrap();
        let said = go_on(&mut directory, false).map_err(|error| error.to_string());
        std::fs::remove_dir_all(&scratch).unwrap();
        said
    }

    /// Of one commit there are builds of what is not committed.
    #[test]
    fn a_run_of_another_build_of_the_same_version_says_so() {
        assert_eq!(gone_on(&[], |_| ()), Ok(()));
        let change = |header: &mut Header| {
            let known = header.settings[PROGRAM].as_str().unwrap().to_owned();
            assert!(known.contains(" bytes, "), "{known}");
            header.settings[PROGRAM] = "1 bytes, 0".into();
        };
        let said = gone_on(&[], change).unwrap_err();
        assert!(said.contains("outboard, content: \"1 bytes"), "{said}");
    }

    /// The loads that a log is replayed at, besides those that are declared, are in both.
    #[test]
    fn a_log_goes_on_at_the_speeds_that_it_was_told() {
        let words = ["run", "trace", "--quick", "--speed", "300"];
        assert_eq!(gone_on_with(&words, |_| ()), Ok(()));
        let forget = |header: &mut Header| header.asked.as_mut().unwrap().speeds.clear();
        let said = gone_on_with(&words, forget).unwrap_err();
        assert!(
            said.contains("300 × the log's req/s only in the run"),
            "{said}"
        );
    }

    #[test]
    fn a_run_of_which_it_is_not_known_what_was_asked_for_says_so() {
        let said = gone_on(&[], |header| header.asked = None).unwrap_err();
        assert!(said.contains("were not compared"), "{said}");
    }

    #[test]
    fn a_run_of_what_was_declared_otherwise_says_so() {
        let only = ["close, 64 B", "keep-alive, 64 B"].map(|level| format!("request={level}"));
        let only = ["--only", &only[0], "--only", &only[1]];
        assert_eq!(gone_on(&only, |_| ()), Ok(()));
        let said = gone_on(&only, |header| {
            header.experiment.axes[0].levels[0].name = "close, 65 B".into();
            header.asked.as_mut().unwrap().only[1].1 = "close, 65 B".into();
        });
        let said = said.unwrap_err();
        assert!(said.contains("close, 65 B only in the run"), "{said}");
        let said = gone_on(&[], |header| {
            header.experiment.subjects.pop();
            header.experiment.measures[0].unit = "1/h".into();
        });
        let said = said.unwrap_err();
        assert!(said.contains("engine only in what is declared"), "{said}");
        assert!(said.contains("(1/h) only in the run"), "{said}");
    }
}
