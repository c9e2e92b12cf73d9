//! How a run goes on: a bar with the time left on a terminal, elsewhere a line a measurement.

use ::lab::experiment::runner::Progress;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Which of how many a run is, and how long those take that follow it.
#[derive(Clone, Copy)]
pub struct Place {
    pub number: usize,
    pub of: usize,
    pub later: Duration,
}

impl Place {
    /// The only one.
    pub const ALONE: Self = Self {
        number: 1,
        of: 1,
        later: Duration::ZERO,
    };

    /// What a person is told of it, and of the time until all is over.
    fn say(self, left: Option<Duration>) -> String {
        let this = left.map(|left| format!(", {} left", HumanDuration(left)));
        let this = this.unwrap_or_default();
        if self.of == 1 {
            return this;
        }
        let all = left.unwrap_or_default() + self.later;
        format!(
            "{this} ({} of {}, {} in all)",
            self.number,
            self.of,
            HumanDuration(all)
        )
    }
}

pub struct Watch {
    name: &'static str,
    place: Place,
    bar: Option<ProgressBar>,
}

impl Watch {
    pub fn new(name: &'static str, place: Place) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(name);
            bar
        });
        Self { name, place, bar }
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
        let left = self.place.say(progress.left);
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

#[cfg(test)]
mod tests {
    use super::Place;
    use std::time::Duration;

    #[test]
    fn one_of_several_says_how_long_all_of_them_take() {
        let (left, later) = (Some(Duration::from_secs(60)), Duration::from_secs(60));
        assert_eq!(Place::ALONE.say(left), ", 60 seconds left");
        let (number, of) = (2, 9);
        let place = Place { number, of, later };
        assert_eq!(
            place.say(left),
            ", 60 seconds left (2 of 9, 2 minutes in all)"
        );
        assert_eq!(place.say(None), " (2 of 9, 60 seconds in all)");
    }
}
