//! `outboard guard`: reloads a server gracefully before its memory runs out.
//!
//! | file | what |
//! | --- | --- |
//! | here | what is asked for, and the loop |
//! | `decide` | when to reload, by what was measured |
//! | `memory` | what is measured |
//! | `subject` | the server: started here, running, or a service |
//! | `family` | its processes, and how it is asked to reload |
//! | `signals` | what the guard hears and passes on |
//! | `report` | what it says to programs |
//! | `size` | amounts, as they are written |

mod decide;
mod family;
mod memory;
mod report;
mod signals;
mod size;
mod subject;

use crate::advice::duration;
use anyhow::{Result, bail};
use decide::{Decider, Kind, Measure, Rules, Verdict, Why};
use family::{Asked, Way};
use memory::{Places, Reading};
use report::{Counts, Event, Report};
use rustix::process::{Pid, Signal, kill_process};
use signals::Signals;
use size::{Size, written};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use subject::Subject;

/// How long a command that reloads a server may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Reload a server gracefully before its memory runs out
///
/// For a server that grows with what it has served. It is started here, or runs already. Each second its
/// memory is looked at, that of its cgroup, what the machine has left, and whether anybody waits for memory.
/// Where one of them passes its mark, the server is asked to reload: nginx, Apache and HAProxy by their own
/// signals, which lose no request; others by a command. A guard that ends by itself leaves the server as it is.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  outboard guard --max 200M -- outboard run -- nginx -g 'daemon off;'\n  \
    sudo outboard guard --min-available 51200K --pid $(pgrep -o nginx)\n  \
    sudo outboard guard --max 1G --unit haproxy"
)]
pub struct Args {
    /// The most memory that the server's processes may have; a cgroup's own limit counts, too
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    max: Option<u64>,
    /// Reload at this part of a limit: new workers need room beside the old ones
    #[arg(long, value_name = "PERCENT", value_parser = size::percent, default_value = "80%")]
    at: f64,
    /// Reload when the machine has less than this left for programs: an amount, or a part of all; 0 is never
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = size::size, default_value = "5%")]
    min_available: Size,
    /// Reload when somebody waits for memory for this part of ten seconds (PSI, some avg10); 0 is never
    #[arg(long, value_name = "PERCENT", value_parser = size::percent, default_value = "20%")]
    pressure: f64,
    /// How far below its mark each has to fall for a reload to have helped
    #[arg(long, value_name = "PERCENT", value_parser = size::percent, default_value = "10%")]
    hysteresis: f64,
    /// How often to look
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    interval: Duration,
    /// The least time between two reloads; twice as long after each that did not help, up to an hour
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pause: Duration,
    /// Reload also before the mark, if the limit would be reached within this time; 0 is never
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    ahead: Duration,
    /// Reload by this command, run by sh, with the server's process in OUTBOARD_GUARD_PID
    #[arg(long, value_name = "CMD")]
    reload_command: Option<String>,
    /// Append a line of JSON to this file for each thing that happens
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Keep metrics in this file, in OpenMetrics, for node_exporter's textfile collector and its like
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// How the log is written: text, json (an object a line), or journald (to systemd's journal)
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: crate::log::Format,
    /// Guard a process that runs already, and those below it
    #[arg(long, value_name = "PID", value_parser = crate::advice::process, conflicts_with_all = ["unit", "command"])]
    pid: Option<u32>,
    /// Guard a service of the system, over its restarts; it is reloaded by systemctl
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    unit: Option<String>,
    /// The server and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD",
        required_unless_present_any = ["pid", "unit"]
    )]
    command: Vec<OsString>,
}

/// Guards until the server ends, or a signal.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.interval < Duration::from_millis(10) {
        bail!("--interval: at least 10ms, or looking is all the guard does");
    }
    if args.max == Some(0) || args.at == 0.0 {
        bail!("--max and --at have to leave the server some memory");
    }
    let _log = crate::log::start("info", args.log_format)?;
    let report = Report::new(args.report.as_deref(), args.metrics.clone())?;
    let mut signals = Signals::hear()?;
    let mut way = match &args.reload_command {
        Some(line) => Way::Command(line.clone()),
        None => Way::Signal,
    };
    let subject = match (&args.unit, args.pid) {
        (Some(unit), _) => {
            let command = subject::reload_of(unit)?;
            if way == Way::Signal {
                way = Way::Command(command);
            }
            Subject::unit(unit)
        }
        (None, Some(pid)) => Subject::running(pid)?,
        (None, None) => Subject::start(&args.command)?,
    };
    let rules = Rules {
        pause_ns: nanos(args.pause),
        hysteresis: args.hysteresis / 100.0,
        ahead_ns: nanos(args.ahead),
    };
    let places = Places::here();
    if let Subject::Running { .. } = subject {
        // Better now than when memory is short.
        way.check(&places.proc, &subject.processes(&places.proc, None))?;
    }
    let interval = args.interval;
    let mut guard = Guard {
        args,
        places,
        subject,
        way,
        decider: Decider::new(rules),
        report,
        counts: Counts::default(),
        killed_before: None,
        command: None,
        began: Instant::now(),
    };
    let mut due = Instant::now();
    loop {
        for signal in signals.wait(due.saturating_duration_since(Instant::now())) {
            let passed = guard.subject.pass(&guard.places.proc, signal);
            if !passed && [Signal::TERM, Signal::INT].contains(&signal) {
                return Ok(ExitCode::SUCCESS);
            }
        }
        if let Some(code) = guard.reap() {
            return Ok(code);
        }
        if due <= Instant::now() {
            guard.look();
            due = Instant::now() + interval;
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A command that was started to reload the server.
struct Running {
    pid: u32,
    since: Instant,
}

struct Guard {
    args: Args,
    places: Places,
    subject: Subject,
    way: Way,
    decider: Decider,
    report: Report,
    counts: Counts,
    /// Kills for want of memory before the guard began.
    killed_before: Option<u64>,
    command: Option<Running>,
    began: Instant,
}

impl Guard {
    /// Measures, decides and acts.
    fn look(&mut self) {
        let besides = self.command.as_ref().map(|running| running.pid);
        let pids = self.subject.processes(&self.places.proc, besides);
        if pids.is_empty() {
            return;
        }
        let reading = self.places.read(&pids);
        self.counts.most = self.counts.most.max(reading.server);
        self.count_kills(&reading);
        let measures = measures(&reading, &self.args);
        match self.decider.decide(nanos(self.began.elapsed()), &measures) {
            Verdict::Nothing => {}
            Verdict::Reload { why, in_vain } => self.reload(&pids, why, in_vain, &reading),
            Verdict::Held { why, left_ns } => {
                let left_ms = left_ns / 1_000_000;
                tracing::warn!(
                    because = because(why),
                    left_ms,
                    server = written(reading.server),
                    "it should be reloaded again, and has just been: --pause may be too long for it"
                );
                self.tell(&Event::Held { why, left_ms }, &reading);
            }
            Verdict::Recovered { after_ns } => {
                let after_ms = after_ns / 1_000_000;
                tracing::info!(
                    after_ms,
                    server = written(reading.server),
                    "memory is low again"
                );
                self.tell(&Event::Recovered { after_ms }, &reading);
            }
        }
        if let Err(error) = self.report.state(&reading, &self.counts) {
            tracing::warn!(%error, "cannot write the metrics");
        }
    }

    fn count_kills(&mut self, reading: &Reading) {
        let Some(killed) = reading.killed else { return };
        let before = *self.killed_before.get_or_insert(killed);
        let times = killed.saturating_sub(before);
        if times > self.counts.killed {
            self.counts.killed = times;
            tracing::error!(times, "the kernel has killed for want of memory");
            self.tell(&Event::Killed { times }, reading);
        }
    }

    fn reload(&mut self, pids: &[u32], why: Why, in_vain: u32, reading: &Reading) {
        if self.command.is_some() {
            return self.fail("the command of the reload before still runs", reading);
        }
        match self.way.ask(&self.places.proc, pids) {
            Err(error) => return self.fail(&format!("{error:#}"), reading),
            Ok(Asked::Started(child)) => {
                let (pid, since) = (child.id(), Instant::now());
                self.command = Some(Running { pid, since });
            }
            Ok(Asked::Signalled {
                program,
                pid,
                signal,
            }) => {
                tracing::debug!(program, pid, signal = signal.as_raw(), "signalled");
            }
        }
        self.counts.reloads += 1;
        let number = self.counts.reloads;
        let cgroup = reading
            .cgroup
            .map(|group| format!("{} of {}", written(group.used), written(group.limit)));
        tracing::info!(
            number,
            because = because(why),
            server = written(reading.server),
            cgroup,
            available = reading.available.map(written),
            pressure_percent = reading.pressure,
            "reloading"
        );
        if in_vain > 0 {
            self.counts.in_vain += 1;
            tracing::warn!(
                in_vain,
                "the reload before did not help: either the memory is another's, or the server did not take its \
                 configuration (nginx -t and its like check it), or old workers wait for long connections"
            );
        }
        let event = Event::Reload {
            number,
            why,
            in_vain,
        };
        self.tell(&event, reading);
    }

    fn fail(&mut self, error: &str, reading: &Reading) {
        self.counts.failed += 1;
        tracing::error!(error, "cannot reload the server");
        let error = error.to_owned();
        self.tell(&Event::Failed { error }, reading);
    }

    fn tell(&mut self, event: &Event, reading: &Reading) {
        if let Err(error) = self.report.tell(event, reading) {
            tracing::warn!(%error, "cannot write the report");
        }
    }

    /// Takes note of children that have ended; the status if the server is gone.
    fn reap(&mut self) -> Option<ExitCode> {
        let of_command = self.command.as_ref().map(|running| running.pid);
        let mut failed = None;
        let command = &mut self.command;
        let ended = self.subject.reap(of_command, |code| {
            *command = None;
            failed = (code != 0).then_some(code);
        });
        if let Some(code) = failed {
            let error = format!("the command that reloads it ended with status {code}");
            self.fail(&error, &Reading::default());
        }
        if let Some(running) = &self.command
            && running.since.elapsed() > COMMAND_LIMIT
            && let Some(pid) = Pid::from_raw(running.pid.cast_signed())
        {
            tracing::warn!("the command that reloads the server takes too long, and is killed");
            // Its end is noticed next time.
            let _ = kill_process(pid, Signal::KILL);
        }
        ended
    }
}

/// How near each is to its mark.
fn measures(reading: &Reading, args: &Args) -> Vec<Measure> {
    let part = args.at / 100.0;
    let of_limit = |kind, used: u64, limit: u64| Measure {
        kind,
        level: used as f64 / (limit as f64 * part).max(1.0),
        limit: Some(1.0 / part),
    };
    let mut all = Vec::new();
    all.extend(
        args.max
            .map(|max| of_limit(Kind::Server, reading.server, max)),
    );
    all.extend(
        reading
            .cgroup
            .map(|group| of_limit(Kind::Cgroup, group.used, group.limit)),
    );
    if let (Some(available), Some(total)) = (reading.available, reading.total) {
        let least = args.min_available.of(total);
        all.push(Measure {
            kind: Kind::Machine,
            level: least as f64 / available.max(1) as f64,
            limit: None,
        });
    }
    if let Some(pressure) = reading.pressure.filter(|_| args.pressure > 0.0) {
        all.push(Measure {
            kind: Kind::Pressure,
            level: pressure / args.pressure,
            limit: None,
        });
    }
    all
}

fn because(why: Why) -> &'static str {
    match (why.measure, why.foreseen) {
        (Kind::Server, false) => "its processes have passed their mark",
        (Kind::Server, true) => "its processes would soon be at their limit",
        (Kind::Cgroup, false) => "its cgroup has passed its mark",
        (Kind::Cgroup, true) => "its cgroup would soon be at its limit",
        (Kind::Machine, _) => "the machine has little memory left",
        (Kind::Pressure, _) => "programs wait for memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use memory::Limited;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Result<Args, clap::Error> {
        let all = ["guard"].iter().chain(words);
        Line::try_parse_from(all).map(|line| line.args)
    }

    #[test]
    fn a_server_is_named_in_one_way() {
        for words in [
            ["--max", "1M", "--", "nginx"].as_slice(),
            &["nginx", "-g", "daemon off;"],
            &["--pid", "7"],
            &["--unit", "nginx"],
        ] {
            assert!(args(words).is_ok(), "{words:?}");
        }
        for words in [
            [].as_slice(),
            &["--pid", "7", "nginx"],
            &["--pid", "7", "--unit", "nginx"],
            &["--unit", "nginx", "nginx"],
            &["--max", "1X", "nginx"],
        ] {
            assert!(args(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn levels_are_one_at_the_marks() {
        let args = args(&["--max", "1000", "--min-available", "10%", "--pid", "7"]).expect("right");
        let (used, limit) = (1_600, 2_000);
        let reading = Reading {
            server: 800,
            cgroup: Some(Limited { used, limit }),
            available: Some(100),
            total: Some(1_000),
            pressure: Some(20.0),
            killed: None,
        };
        let all = measures(&reading, &args);
        let seen: Vec<_> = all
            .iter()
            .map(|one| (one.kind, one.level, one.limit))
            .collect();
        let expected = [
            (Kind::Server, 1.0, Some(1.25)),
            (Kind::Cgroup, 1.0, Some(1.25)),
            (Kind::Machine, 1.0, None),
            (Kind::Pressure, 1.0, None),
        ];
        assert_eq!(seen, expected);
        let silent = ["--min-available", "0", "--pressure", "0", "--pid", "7"];
        let args = super::tests::args(&silent).expect("right");
        let all = measures(
            &Reading {
                cgroup: None,
                ..reading
            },
            &args,
        );
        assert!(all.iter().all(|one| one.level == 0.0), "{all:?}");
    }
}
