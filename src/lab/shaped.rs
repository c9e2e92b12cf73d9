//! `outboard lab run`: the experiments that have the one shape.

use super::begun::{LOG, extent, go_on, replaced, settings};
use super::only::keep;
use super::options::{Options, whole};
use super::watch::{Place, Watch};
use ::lab::catalogue::{self, Entry, Setup};
use ::lab::experiment::directory::{Asked, Header};
use ::lab::experiment::group::Group;
use ::lab::experiment::surroundings::Here;
use ::lab::experiment::{Directory, End, Rules, Runner, report};
use anyhow::{Context, Error, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The experiments that replay an access log, and the one that can have it at its own rate.
const REPLAYS: [&str; 2] = [TRACE, "web-loads"];
const TRACE: &str = "trace";

/// Run experiments, keep every measurement, and write a report with plots
///
/// Measurements are interleaved in random order, and repeated until the intervals are narrow, or the
/// time is up. Ctrl-C ends a run and keeps what it has; --resume goes on with it. The directory then
/// has report.html and report.md, results.json and results.csv, the plots, and every measurement as
/// it came. A report says on top what makes its run doubtful: a client that was the limit, a machine
/// that stood still, rounds that disagree. Needs root.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sudo outboard lab run web --quick\n  \
    sudo outboard lab run tcp-servers --quick\n  \
    sudo outboard lab run all --quick --into first-impressions\n  \
    sudo outboard lab run rates --only file=missing --only subject=kernel\n  \
    sudo outboard lab run trace --log /var/log/nginx/access.log\n  \
    sudo outboard lab run trace --log access.log --speed 1 --speed 20 --seconds 60\n  \
    sudo outboard lab run --resume outboard-lab/web-1")]
pub struct Run {
    /// Which, by the names that `lab list` shows; tcp-servers: those of document 001 about programs that
    /// know of their engine; all: every one whose programs are installed
    #[arg(value_name = "NAME", required_unless_present = "resume")]
    pub names: Vec<String>,
    /// Go on with the run in this directory, or with what is left of a group
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "quick", "only", "rounds", "seconds", "precision", "log", "speeds", "seed"])]
    pub resume: Option<PathBuf>,
    /// Go on although outboard or the machine is not as it was; the report says so on top
    #[arg(long, requires = "resume")]
    pub anyway: bool,
    #[command(flatten)]
    pub options: Options,
}

/// The whole of document 001 about programs that know of their engine: as `lab run tcp-servers`
///
/// One directory has a report for each experiment (`lab list` names them), and a page for all. Needs root, and the
/// programs that are compared.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard lab tcp-servers --quick")]
pub struct TcpServers {
    #[command(flatten)]
    options: Options,
}

/// Every experiment whose programs are installed: as `lab run all`
///
/// One directory has a report for each experiment, and a page for all. Needs root.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard lab all --quick --into first-impressions")]
pub struct All {
    #[command(flatten)]
    options: Options,
}

impl TcpServers {
    /// Runs them.
    pub fn run(&self) -> Result<ExitCode> {
        let stop = stop_by_signals()?;
        start(&["tcp-servers"], &self.options, &stop)
    }
}

impl All {
    /// Runs them.
    pub fn run(&self) -> Result<ExitCode> {
        let stop = stop_by_signals()?;
        start(&[ALL], &self.options, &stop)
    }
}

/// Runs what is named, or goes on with a run.
pub fn run(args: &Run) -> Result<ExitCode> {
    let stop = stop_by_signals()?;
    if let Some(path) = &args.resume {
        let mut directory = Directory::resume(path)?;
        go_on(&mut directory, args.anyway)?;
        let entry = catalogue::find(&directory.header().experiment.name)?;
        check(&[entry])?;
        let began = Instant::now();
        let is_good = go(
            entry,
            &mut directory,
            args.options.limit,
            &stop,
            Place::ALONE,
        );
        went_on(path, entry.name, began.elapsed())?;
        return Ok(code(is_good?));
    }
    start(&args.names, &args.options, &stop)
}

/// The run in this directory went on for so long: the page of its group, if it is of one, says what it says.
fn went_on(path: &Path, name: &str, time: Duration) -> Result<()> {
    if let Some(above) = path.parent()
        && let Some(mut group) = Group::open(above)?
    {
        if group.experiments.iter().any(|known| known == name) {
            group.spend(name, time);
        }
        group.write(above)?;
    }
    Ok(())
}

fn start(names: &[impl AsRef<str>], options: &Options, stop: &AtomicBool) -> Result<ExitCode> {
    let planned = plan(names, options)?;
    let entries: Vec<&Entry> = planned.iter().map(|part| part.entry).collect();
    check(&entries)?;
    let is_planned = |name: &&str| planned.iter().any(|part| part.entry.name == *name);
    if options.log.is_some() && !REPLAYS.iter().any(is_planned) {
        bail!(
            "--log is of {}: outboard lab run {TRACE} --log FILE",
            REPLAYS.join(" and ")
        );
    }
    if !options.speeds.is_empty() && !is_planned(&TRACE) {
        bail!("--speed is of {TRACE}: outboard lab run {TRACE} --speed N");
    }
    let mut groups: Vec<(PathBuf, Group)> = Vec::new();
    let mut are_good = true;
    for (index, part) in planned.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let entry = part.entry;
        // The first of a group makes its directory.
        let mut group = None;
        if let Some(name) = &part.group {
            let known = groups.iter().position(|(_, group)| group.name == *name);
            group = Some(match known {
                Some(known) => known,
                None => {
                    let members = planned
                        .iter()
                        .filter(|part| part.group.as_ref() == Some(name));
                    let made = Group {
                        name: name.clone(),
                        experiments: members.map(|part| part.entry.name.to_owned()).collect(),
                        told: Some(options.told()?),
                        ..Group::default()
                    };
                    // Whatever becomes of the first, it is known what was to be run.
                    let path = free(&options.into, name)?;
                    made.write(&path)?;
                    groups.push((path, made));
                    groups.len() - 1
                }
            });
        }
        let path = match group {
            Some(group) => groups[group].0.join(entry.name),
            None => free(&options.into, entry.name)?,
        };
        let all = part.group.as_deref() == Some(ALL);
        let place = Place {
            number: index + 1,
            of: planned.len(),
            later: planned[index + 1..].iter().map(Planned::takes).sum(),
        };
        let began = Instant::now();
        let came = Came::of(entry.missing().filter(|_| all), || {
            let mut directory = Directory::create(&path, part.header.clone())?;
            go(entry, &mut directory, options.limit, stop, place)
        });
        if let Some((path, group)) = group.map(|group| &mut groups[group]) {
            came.note(group, entry.name, began.elapsed());
            group.write(path)?;
        }
        are_good &= came.told(entry.name, all)?;
    }
    for (path, group) in &groups {
        finish(path, group)?;
        if stop.load(Ordering::Relaxed) {
            println!(
                "Interrupted; to go on with what is left: outboard lab run --resume {}\n",
                path.display()
            );
        }
    }
    Ok(code(are_good))
}

/// What came of one of several.
pub(super) enum Came {
    /// It was run: whether something came of it, and nothing failed.
    Run(bool),
    /// This program is missing; of all there are, that is no failure.
    LeftOut(String),
    /// It could not be run.
    Failed(Error),
}

impl Came {
    /// Runs it, unless a program is missing.
    pub fn of(missing: Option<&str>, run: impl FnOnce() -> Result<bool>) -> Self {
        match missing {
            Some(missing) => Self::LeftOut(missing.into()),
            None => run().map_or_else(Self::Failed, Self::Run),
        }
    }

    /// Why it is not there, if it is not.
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Run(_) => None,
            Self::LeftOut(missing) => Some(format!("left out: {missing} is not installed")),
            Self::Failed(error) => Some(format!("{error:#}")),
        }
    }

    /// Notes in its group what came of it, and how long that took unless it was left out.
    pub fn note(&self, group: &mut Group, name: &str, time: Duration) {
        group.note(name, self.why());
        if !matches!(self, Self::LeftOut(_)) {
            group.spend(name, time);
        }
    }

    /// Tells whoever runs it of what is not there; whether all is as it should be. Of all there are, one that cannot be
    /// run does not take the others with it.
    pub fn told(self, name: &str, is_of_all: bool) -> Result<bool> {
        match self {
            Self::Run(is_good) => Ok(is_good),
            Self::Failed(error) if !is_of_all => Err(error),
            ref not_there => {
                println!("{name}: {}\n", not_there.why().unwrap_or_default());
                Ok(matches!(not_there, Self::LeftOut(_)))
            }
        }
    }
}

/// Writes the page of a group, and says where it is and how long each took.
pub(super) fn finish(path: &Path, group: &Group) -> Result<()> {
    let page = group.write(path)?.with_extension("html");
    println!(
        "All of {}: {}\n{}",
        group.name,
        page.display(),
        times(group)
    );
    Ok(())
}

/// How long each of a group took, and all, a line each.
fn times(group: &Group) -> String {
    let times = group.times().into_iter();
    times
        .map(|(name, time)| format!("  {name}: {time}\n"))
        .collect()
}

/// Refuses a library of another build, if programs are run with it in one of these.
pub(super) fn check(entries: &[&Entry]) -> Result<()> {
    match entries
        .iter()
        .any(|entry| catalogue::is_with_library(entry))
    {
        true => crate::run::library::check(),
        false => Ok(()),
    }
}

/// The group of everything.
pub(super) const ALL: &str = "all";

/// One that is to be run.
struct Planned {
    entry: &'static Entry,
    /// The group by whose name it was meant, if it was by one.
    group: Option<String>,
    header: Header,
}

impl Planned {
    /// How long it takes at least, as a rule.
    fn takes(&self) -> Duration {
        takes(self.entry, &self.header)
    }
}

/// How long one takes at least, as a rule.
pub(super) fn takes(entry: &Entry, header: &Header) -> Duration {
    let (experiment, rules) = (&header.experiment, &header.rules);
    match entry.missing() {
        Some(_) => Duration::ZERO,
        None => entry.takes(experiment, rules, rules.least_rounds),
    }
}

/// What is to be run, each once: whoever names a group and one of it means it once.
fn plan(names: &[impl AsRef<str>], options: &Options) -> Result<Vec<Planned>> {
    let mut planned: Vec<Planned> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        let meant = catalogue::meant(name)?;
        let group = catalogue::is_group(name).then(|| name.to_owned());
        for entry in meant {
            if planned.iter().all(|known| known.entry.name != entry.name) {
                planned.push(Planned {
                    entry,
                    group: group.clone(),
                    header: header(options, entry)?,
                });
            }
        }
    }
    Ok(planned)
}

pub(super) fn code(is_good: bool) -> ExitCode {
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs one, or goes on with it, and reports; whether something came of it, and nothing failed.
pub(super) fn go(
    entry: &Entry,
    directory: &mut Directory,
    limit: Option<u64>,
    stop: &AtomicBool,
    place: Place,
) -> Result<bool> {
    let setup = Setup {
        binary: std::env::current_exe()?,
        log: directory.header().settings[LOG].as_str().map(PathBuf::from),
        kept: directory.path().to_owned(),
        subjects: directory.header().experiment.subjects.clone(),
    };
    let wrong = match catalogue::is_with_library(entry) {
        true => crate::run::library::wrong()?,
        false => None,
    };
    let mut watch = Watch::new(entry.name, place);
    watch.say("starting what is measured");
    let mut bench = entry.open(&setup)?;
    let mut here = Here::new();
    if let Some(minutes) = limit {
        directory.limit(Duration::from_secs(60 * minutes));
    }
    let end = Runner {
        directory,
        surroundings: &mut here,
        stop,
    }
    .run(bench.as_mut(), |progress| watch.show(progress))?;
    drop(bench);
    watch.finish();
    if let Some(replaced) = replaced() {
        directory.change(replaced)?;
    }
    if let Some(wrong) = wrong
        && !directory.changes().contains(&wrong)
    {
        directory.change(wrong)?;
    }
    let (analysis, file) = report::write(directory)?;
    print!("{}", report::summary(directory, &analysis));
    if end == End::Interrupted {
        println!(
            "\nInterrupted; to go on: outboard lab run --resume {}",
            directory.path().display()
        );
    }
    println!("\nReport: {}\n", file.with_extension("html").display());
    let failed = directory.failed();
    if let Some(failed) = &failed {
        crate::closed_pipe::remark(format_args!("outboard: {}: {failed}", entry.name));
    }
    Ok(failed.is_none() && !analysis.found.is_empty())
}

pub(super) fn header(options: &Options, entry: &Entry) -> Result<Header> {
    let extent = extent(options.quick);
    let mut experiment = entry.declare(extent);
    let rules = entry.rules(extent);
    let window = options.seconds.map_or(rules.window, Duration::from_secs);
    let log = options.log.as_ref();
    let log = log.filter(|_| REPLAYS.contains(&entry.name));
    let log = log.map(|log| whole(log)).transpose()?;
    let speeds = match entry.name == TRACE {
        true => options.speeds.clone(),
        false => Vec::new(),
    };
    catalogue::at_speeds(&mut experiment, log.as_deref(), &speeds, window)?;
    keep(&mut experiment, &options.only)?;
    let settings = settings(log.as_deref())?;
    let most_rounds = options.rounds.unwrap_or(rules.most_rounds);
    let least_rounds = rules.least_rounds.min(most_rounds);
    let limit = match options.limit {
        Some(minutes) => Duration::from_secs(60 * minutes),
        None => entry.limit(extent, &experiment, window, least_rounds),
    };
    Ok(Header {
        experiment,
        rules: Rules {
            least_rounds,
            most_rounds,
            precision: options.precision / 100.0,
            limit,
            window,
            seed: options.seed,
        },
        version: env!("OUTBOARD_VERSION").into(),
        settings,
        asked: Some(Asked {
            quick: options.quick,
            only: options.only.clone(),
            speeds,
        }),
    })
}

/// A directory for a run that is not there yet.
fn free(into: &Path, name: &str) -> Result<PathBuf> {
    (1..10_000)
        .map(|number| into.join(format!("{name}-{number}")))
        .find(|path| !path.exists())
        .with_context(|| format!("{} is full", into.display()))
}

/// Is set by the first SIGINT or SIGTERM; the second ends the process.
pub(super) fn stop_by_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

#[cfg(test)]
pub mod tests {
    use super::{All, Came, Options, Run, TcpServers, plan, times, went_on};
    use ::lab::catalogue;
    use ::lab::experiment::directory::Header;
    use ::lab::experiment::group::Group;
    use clap::Parser;
    use std::time::Duration;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        run: Run,
    }

    /// Of the first that these words run.
    pub fn header(words: &[&str]) -> Header {
        let run = Words::parse_from(words).run;
        plan(&run.names, &run.options).unwrap().remove(0).header
    }

    /// What these words tell of how it is to be run.
    pub fn options(words: &[&str]) -> Options {
        Words::parse_from(words).run.options
    }

    fn told(names: &[impl AsRef<str>], options: &Options) -> Vec<(Option<String>, &'static str)> {
        let each = plan(names, options).unwrap().into_iter();
        each.map(|part| (part.group, part.entry.name)).collect()
    }

    fn planned(names: &str) -> Vec<(Option<String>, &'static str)> {
        let words = ["run", "--quick"].into_iter().chain(names.split(' '));
        let run = Words::parse_from(words).run;
        told(&run.names, &run.options)
    }

    /// A group is a command of its own, and is told how to run as `run` is.
    #[test]
    fn groups_are_run_by_their_names() {
        #[derive(Parser)]
        enum Commands {
            TcpServers(TcpServers),
            All(All),
        }
        let words = ["--quick", "--rounds", "2", "--only", "subject=kernel"];
        for name in ["tcp-servers", "all"] {
            let parsed = Commands::parse_from(["lab", name].into_iter().chain(words));
            let options = match &parsed {
                Commands::TcpServers(args) => &args.options,
                Commands::All(args) => &args.options,
            };
            assert!(options.quick && options.rounds == Some(2));
            assert_eq!(options.only, [("subject".into(), "kernel".into())]);
        }
    }

    #[test]
    fn what_is_named_twice_is_run_once_where_it_was_named_first() {
        let [one, both] = ["ttcp", "tcp-servers"];
        let group = |name: &Option<String>| name.as_deref() == Some(both);
        let found = planned(&format!("{one} {both} web"));
        assert_eq!(found[0], (None, one));
        assert_eq!(found.last().unwrap(), &(None, "web"));
        let all = catalogue::meant(both).unwrap().len();
        assert_eq!(
            found.iter().filter(|(name, _)| group(name)).count(),
            all - 1
        );
        assert!(planned(both).iter().all(|(name, _)| group(name)));
    }

    /// How experiments are run is the same when what has not begun is begun later.
    #[test]
    fn what_a_group_was_told_is_known_later() {
        let words = [
            "run",
            "all",
            "--quick",
            "--only",
            "subject=kernel",
            "--rounds",
            "3",
            "--seconds",
            "2",
            "--limit",
            "9",
            "--precision",
            "2.5",
            "--log",
            "/proc/self/../version",
            "--speed",
            "2",
            "--seed",
            "4",
        ];
        let told = options(&words).told().unwrap();
        assert_eq!(told.log.as_deref(), Some("/proc/version".as_ref()));
        assert_eq!(Options::of(&told, None).told().unwrap(), told);
        let limited = Options::of(&told, Some(1)).told().unwrap();
        assert_eq!((limited.limit, told.limit), (Some(1), Some(9)));
    }

    /// Of a log that is replayed at its own rate there is one level more, of `trace` alone.
    #[test]
    fn a_log_is_replayed_at_speeds_that_are_told() {
        let words = ["run", "trace", "--quick", "--speed", "300"];
        let found = header(&words);
        let told = found.asked.as_ref().unwrap();
        assert_eq!(told.speeds, [300.0]);
        let names = |header: &Header| {
            let levels = header.experiment.axes[0].levels.iter();
            levels.map(|level| level.name.clone()).collect::<Vec<_>>()
        };
        let before = names(&header(&["run", "trace", "--quick"]));
        assert_eq!(names(&found).len(), before.len() + 1);
        let level = "offered load=300 × the log's";
        let alone = header(&[&words[..], &["--only", level]].concat());
        assert_eq!(names(&alone), ["300 × the log's"]);
        let other = header(&["run", "web", "--quick", "--speed", "300"]);
        assert!(other.asked.unwrap().speeds.is_empty());
        for wrong in ["0", "-1", "inf", "fast"] {
            let words = ["run", "trace", &format!("--speed={wrong}")].map(String::from);
            assert!(Words::try_parse_from(words).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_installed_is_left_out_aloud_and_is_no_failure() {
        let left_out = Came::of(Some("httperf"), || panic!("it is not run"));
        let why = "left out: httperf is not installed";
        assert_eq!(left_out.why().as_deref(), Some(why));
        assert!(left_out.told("rates", true).unwrap());
        let fails = || Came::of(None, || anyhow::bail!("no room"));
        assert_eq!(fails().why().as_deref(), Some("no room"));
        assert!(!fails().told("rates", true).unwrap());
        assert!(fails().told("rates", false).is_err());
        let run = Came::of(None, || Ok(false));
        assert_eq!(run.why(), None);
        let mut group = Group::default();
        let left_out = Came::of(Some("httperf"), || panic!("it is not run"));
        for (came, name) in [(&left_out, "rates"), (&run, "web"), (&fails(), "echo")] {
            came.note(&mut group, name, Duration::from_secs(5));
        }
        assert_eq!(
            times(&group),
            "  web: 5 s\n  echo: 5 s\n  all of it: 10 s\n"
        );
        assert!(!run.told("rates", false).unwrap());
    }

    /// One that goes on by itself is of its group still.
    #[test]
    fn what_one_took_when_it_went_on_is_time_of_its_group() {
        let name = format!("outboard-lab-went-on-{}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        let (all, alone) = (scratch.join("all-1"), scratch.join("web-1"));
        let mut group = Group {
            name: "all".into(),
            experiments: vec!["web".into(), "echo".into()],
            ..Group::default()
        };
        group.spend("web", Duration::from_secs(5));
        group.spend("echo", Duration::from_secs(5));
        group.write(&all).unwrap();
        for name in ["web", "rates"] {
            went_on(&all.join(name), name, Duration::from_secs(7)).unwrap();
        }
        // Nor does it need to be of one.
        went_on(&alone, "web", Duration::from_secs(7)).unwrap();
        let group = Group::open(&all).unwrap().unwrap();
        let page = std::fs::read_to_string(all.join("index.md")).unwrap();
        std::fs::remove_dir_all(&scratch).unwrap();
        assert_eq!(
            times(&group),
            "  web: 12 s\n  echo: 5 s\n  all of it: 17 s\n"
        );
        assert!(page.contains("17 s"), "{page}");
    }

    /// The time of those to come is told: of more it is longer, and of none nothing.
    #[test]
    fn what_is_to_come_takes_its_time() {
        let run = Words::parse_from(["run", "web", "echo", "--quick"]).run;
        let planned = plan(&run.names, &run.options).unwrap();
        let entry = planned[1].entry;
        let (experiment, rules) = (&planned[1].header.experiment, &planned[1].header.rules);
        // Two cores, kernel and engine, a second and a half more around it, three rounds.
        assert_eq!(
            entry.takes(experiment, rules, rules.least_rounds).as_secs(),
            30
        );
    }
}
