//! How a run goes on: a bar with the time left on a terminal, elsewhere a line a measurement.

use ::lab::experiment::runner::Progress;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};

pub struct Watch {
    name: &'static str,
    bar: Option<ProgressBar>,
}

impl Watch {
    pub fn new(name: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(name);
            bar
        });
        Self { name, bar }
    }

    /// Says what is being done.
    pub fn say(&mut self, doing: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(doing.to_owned()),
            None => self.line(doing),
        }
    }

    /// Shows what is measured now, and how long it goes on at least.
    pub fn show(&mut self, progress: &Progress) {
        let left = progress.left.map_or_else(String::new, |left| {
            format!(", {} left", HumanDuration(left))
        });
        let doing = format!("round {}: {}{left}", progress.round, progress.doing);
        match &self.bar {
            Some(bar) => {
                bar.set_length(progress.expected as u64);
                bar.set_position(progress.made as u64);
                bar.set_message(doing);
            }
            None => self.line(&format!("{}/{} {doing}", progress.made, progress.expected)),
        }
    }

    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        // Nobody misses it if it cannot be written.
        let _ = writeln!(std::io::stderr(), "{}: {text}", self.name);
    }
}
