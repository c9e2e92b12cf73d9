//! What the person before the terminal wants to see, and the keys that say so.

use super::served::{By, Sort};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::Duration;

/// The keys, and what they do.
pub const KEYS: [(&str, &str); 10] = [
    ("q, Ctrl-C", "end"),
    ("s, S", "sort by the next column, or the one before"),
    ("r", "reverse the order"),
    ("l", "by listener, or by program"),
    (
        "/",
        "filter by name, process or address; Enter keeps it, Esc clears it",
    ),
    ("up, down", "go through the rows"),
    ("space, p", "stand still, and go on"),
    ("+, -", "look twice as often, or half as often"),
    ("h, ?", "this, until the next key"),
    ("Esc", "clear the filter"),
];

/// The shortest and the longest time between two looks.
pub const INTERVALS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(3600)];

/// What is to be seen.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    pub by: By,
    pub sort: Sort,
    pub reverse: bool,
    pub filter: String,
    /// The filter is being written.
    pub writes: bool,
    pub paused: bool,
    pub help: bool,
    /// Rows that are passed over.
    pub skipped: usize,
    pub interval: Duration,
    pub ends: bool,
}

impl View {
    /// What a key changes.
    pub fn press(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            // The terminal does not make a signal of it while it is ours.
            self.ends |= matches!(key.code, KeyCode::Char('c' | 'd'));
        } else if self.writes {
            self.write(key.code);
        } else if self.help {
            self.help = false;
        } else {
            self.command(key.code);
        }
    }

    fn write(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.writes = false,
            KeyCode::Esc => {
                self.writes = false;
                self.filter.clear();
            }
            _ => {}
        }
        self.skipped = 0;
    }

    fn command(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('q') => self.ends = true,
            KeyCode::Char('s') => self.sort = self.other_sort(1),
            KeyCode::Char('S') => self.sort = self.other_sort(Sort::ALL.len() - 1),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char('l') => {
                self.by = match self.by {
                    By::Program => By::Listener,
                    By::Listener => By::Program,
                };
                self.skipped = 0;
            }
            KeyCode::Char('/') => self.writes = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('+') => self.interval = (self.interval / 2).max(INTERVALS[0]),
            KeyCode::Char('-') => self.interval = (self.interval * 2).min(INTERVALS[1]),
            KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Down => self.skipped += 1,
            KeyCode::Up => self.skipped = self.skipped.saturating_sub(1),
            _ => {}
        }
    }

    fn other_sort(&self, steps: usize) -> Sort {
        let now = Sort::ALL.iter().position(|sort| *sort == self.sort);
        Sort::ALL[(now.unwrap_or(0) + steps) % Sort::ALL.len()]
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn view() -> View {
        View {
            by: By::Program,
            sort: Sort::Bytes,
            reverse: false,
            filter: String::new(),
            writes: false,
            paused: false,
            help: false,
            skipped: 0,
            interval: Duration::from_secs(1),
            ends: false,
        }
    }

    fn typed(text: &str) -> View {
        let mut view = view();
        for letter in text.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\x08' => KeyCode::Backspace,
                letter => KeyCode::Char(letter),
            };
            view.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        view
    }

    #[test]
    fn keys_do_what_the_help_says() {
        assert_eq!(typed("s").sort, Sort::Conns);
        assert_eq!(typed("S").sort, Sort::Name);
        assert_eq!(typed("ssssss"), view());
        assert!(typed("r").reverse && typed("p").paused && !typed("p ").paused);
        assert_eq!(typed("l").by, By::Listener);
        assert_eq!(typed("+").interval, Duration::from_millis(500));
        assert_eq!(typed("-").interval, Duration::from_secs(2));
        assert_eq!(typed("++++++++").interval, INTERVALS[0]);
        // Any key leaves the help, and does nothing else.
        assert!(typed("?").help && typed("?q") == view());
        assert!(typed("q").ends);
    }

    #[test]
    fn a_filter_is_written_letter_by_letter() {
        let written = typed("/nginq\x08x");
        assert!(written.writes && !written.ends && written.filter == "nginx");
        let kept = typed("/ng\nr");
        assert!(!kept.writes && kept.reverse && kept.filter == "ng");
        for cleared in ["/ng\x1b", "/ng\n\x1b"] {
            assert_eq!(typed(cleared), view());
        }
    }

    #[test]
    fn control_c_ends_whatever_is_done() {
        let mut view = typed("/q");
        view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(view.ends);
    }
}
