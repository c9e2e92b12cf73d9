//! `outboard top`: who is served, how much, and what it costs, again and again.
//!
//! | file | what |
//! | --- | --- |
//! | here | options, and the loops |
//! | `sample` | what the engine said at two moments, and what happened between them |
//! | `served` | who is served: programs, or listeners |
//! | `cores` | where the engine's threads ran |
//! | `history` | how it was some time back |
//! | `line` | what happened, as a line |
//! | `view` | what the person before the terminal wants to see, and the keys that say so |
//! | `page` | what happened, as a page |

mod cores;
mod history;
mod line;
mod page;
mod sample;
mod served;
mod view;

use crate::control::{Control, Engine, out_of_place};
use anyhow::Result;
use cores::Threads;
use history::History;
use page::Page;
use queue_pair::control::{Reply, Request};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use sample::{Between, Sample};
use served::{By, Sort};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use view::{INTERVALS, View};

/// Show who is served by the engine, how much, and what it costs
///
/// A page on a terminal, until q; the keys are told by h. Elsewhere a line each time, for logs and
/// scripts. Rates of programs and listeners are of the connections that they have; the lines above
/// count all. Accept, Unread and Unacked are what waits: connections to be accepted, bytes to be read
/// by the program, and bytes to be acknowledged by the peer. What a program opened itself came to no
/// listener.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  outboard top\n  outboard top --filter nginx --sort retrans\n  \
    outboard top --by listener --filter :443\n  \
    outboard top -n 10 --interval 5s | tee load.log"
)]
pub struct Args {
    #[command(flatten)]
    engine: Engine,
    /// How often it is looked at
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// End after so many times
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print lines, also on a terminal
    #[arg(short, long)]
    batch: bool,
    /// What stands in a row
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    by: By,
    /// Who stands first
    #[arg(long, value_enum, default_value_t, value_name = "BY")]
    sort: Sort,
    /// The other way round
    #[arg(short, long)]
    reverse: bool,
    /// Show those only with this in their program's name or in an address that they listen on, or
    /// the process of this number
    #[arg(
        short,
        long,
        alias = "program",
        value_name = "TEXT",
        default_value = ""
    )]
    filter: String,
}

fn interval(text: &str) -> Result<Duration, String> {
    let wrong = "write a time such as 500ms or 2s";
    let (number, scale) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').ok_or(wrong)?, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number)
            if (INTERVALS[0].as_secs_f64()..=INTERVALS[1].as_secs_f64())
                .contains(&(number * scale)) =>
        {
            Ok(Duration::from_secs_f64(number * scale))
        }
        _ => Err(wrong.into()),
    }
}

/// Looks until told to stop.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut control = args.engine.connect()?;
    if args.batch || !std::io::stdout().is_terminal() {
        lines(&args, &mut control)?;
    } else {
        // Before the terminal is ours: these must put it back.
        let stop = crate::stop::signals()?;
        stop.set_nonblocking(true)?;
        let mut terminal = ratatui::try_init()?;
        let ended = pages(&args, control, &mut terminal, &stop);
        ratatui::restore();
        ended?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line each time.
fn lines(args: &Args, control: &mut Control) -> Result<()> {
    let mut before = take(control)?;
    for number in 0..args.count.unwrap_or(u64::MAX) {
        std::thread::sleep(args.interval);
        let now = take(control)?;
        let between = Between::of(&before, &now);
        before = now;
        let served = between.served(args.by, args.sort, args.reverse, &args.filter);
        let text = line::line(&between, &served, number);
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

/// How long a key or a signal may wait.
const ATTENTION: Duration = Duration::from_millis(100);

/// A page, drawn anew each time and after each key.
fn pages(
    args: &Args,
    control: Control,
    terminal: &mut DefaultTerminal,
    stop: &UnixStream,
) -> Result<()> {
    let mut view = args.view();
    let mut control = Some(control);
    let (mut before, mut trouble) = (None, None);
    let (mut between, mut history) = (Between::default(), History::default());
    let (mut looked, mut due) = (0, Instant::now());
    let name = args.engine.name();
    while !view.ends && !stopped(stop) {
        if due <= Instant::now() {
            match look(args, &mut control) {
                Ok(now) => {
                    trouble = None;
                    let since = before.replace(now).zip(before.as_ref());
                    if let Some((since, now)) = since.filter(|_| !view.paused) {
                        between = Between::of(&since, now);
                        history.add(&between);
                        looked += 1;
                    }
                }
                // It may be started again.
                Err(error) => (control, before, trouble) = (None, None, Some(error.to_string())),
            }
            due = Instant::now() + view.interval;
        }
        let page = Page {
            engine: &name,
            between: &between,
            history: &history,
            view: &view,
            trouble: trouble.as_deref(),
        };
        terminal.draw(|frame| page.draw(frame))?;
        if args.count.is_some_and(|count| looked >= count) {
            break;
        }
        let left = due.saturating_duration_since(Instant::now());
        if event::poll(left.min(ATTENTION))?
            && let Event::Key(key) = event::read()?
        {
            view.press(key);
            due = due.min(Instant::now() + view.interval);
        }
    }
    Ok(())
}

impl Args {
    fn view(&self) -> View {
        View {
            by: self.by,
            sort: self.sort,
            reverse: self.reverse,
            filter: self.filter.clone(),
            writes: false,
            paused: false,
            help: false,
            skipped: 0,
            interval: self.interval,
            ends: false,
        }
    }
}

fn stopped(mut stop: &UnixStream) -> bool {
    matches!(stop.read(&mut [0]), Ok(1))
}

/// Asks the engine, and looks for it if it was gone.
fn look(args: &Args, control: &mut Option<Control>) -> Result<Sample> {
    let asked = match control {
        Some(control) => control,
        None => control.insert(args.engine.connect()?),
    };
    take(asked)
}

/// Asks the engine for all that is shown.
fn take(control: &mut Control) -> Result<Sample> {
    let threads = control.engine_process().map(Threads::read);
    let threads = threads.unwrap_or_default();
    let metrics = control.metrics()?;
    let mut sample = Sample::new(Instant::now(), &metrics, threads);
    let mut after = None;
    loop {
        match control.ask(&Request::Sockets {
            after,
            // What has no connection yet, or none any more, is nobody's.
            filter: "exclude syn-recv exclude time-wait".into(),
        })? {
            Reply::Sockets { rows, next } => {
                rows.iter().for_each(|row| sample.add(row));
                after = next;
            }
            other => return Err(out_of_place(&other)),
        }
        if after.is_none() {
            return Ok(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_a_unit_and_a_measure() {
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["2", "0s", "1ms", "-1s", "2h", "s"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
