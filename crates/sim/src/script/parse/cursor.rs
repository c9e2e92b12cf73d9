//! Where the reader is in the text, and the smallest things it can read.

use core::time::Duration;

use crate::script::error::ParseError;

/// The latest time and the longest span that a script may name.
const MAX_SPAN: Duration = Duration::from_secs(24 * 3600);

/// What reading comes to.
pub(super) type Parsed<T> = Result<T, ParseError>;

pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The line that the next thing stands on, from 1.
    pub(super) fn line(&self) -> u32 {
        self.place(self.at).0
    }

    fn place(&self, at: usize) -> (u32, u32) {
        let before = &self.text[..at];
        let line = before.matches('\n').count();
        let column = before.chars().rev().take_while(|&c| c != '\n').count();
        let number = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
        (number(line), number(column))
    }

    /// An error about what comes next.
    pub(super) fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        self.error_at(self.at, message)
    }

    /// An error about what stands at a place that [`here`](Self::here) gave.
    pub(super) fn error_at<T>(&self, at: usize, message: impl Into<String>) -> Parsed<T> {
        let (line, column) = self.place(at);
        Err(ParseError {
            line,
            column,
            message: message.into(),
        })
    }

    pub(super) fn here(&self) -> usize {
        self.at
    }

    /// Moves over what `rest` begins with.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Skips blanks, ends of lines and comments.
    pub(super) fn skip(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => self.at += end + 2,
                    None => return self.error("this comment has no end"),
                }
            } else if blank == 0 || rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Skips blanks on this line.
    pub(super) fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    /// Reads `word` if it comes next, after blanks.
    pub(super) fn eat(&mut self, word: &str) -> Parsed<bool> {
        self.skip()?;
        let there = self.rest().starts_with(word);
        if there {
            self.at += word.len();
        }
        Ok(there)
    }

    /// Reads `word`, which must come next.
    pub(super) fn expect(&mut self, word: &str) -> Parsed<()> {
        if self.eat(word)? {
            Ok(())
        } else {
            self.error(format!("expected {word:?}, found {}", self.next_words()))
        }
    }

    /// The beginning of what comes next, for messages.
    pub(super) fn next_words(&self) -> String {
        let line = self.rest().lines().next().unwrap_or_default();
        let word: String = line.chars().take(16).collect();
        if self.rest().is_empty() {
            "the end".into()
        } else {
            format!("{word:?}")
        }
    }

    /// A word of letters, digits, and `_`; empty if there is none.
    pub(super) fn word(&mut self) -> Parsed<&'a str> {
        self.skip()?;
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        self.at += end;
        Ok(&rest[..end])
    }

    /// Reads the word `name` if it comes next, as a whole.
    pub(super) fn eat_word(&mut self, name: &str) -> Parsed<bool> {
        let before = self.at;
        let there = self.word()? == name;
        if !there {
            self.at = before;
        }
        Ok(there)
    }

    /// Whether a number could begin here.
    pub(super) fn at_digit(&mut self) -> Parsed<bool> {
        self.skip()?;
        Ok(self.peek().is_some_and(|c| c.is_ascii_digit()))
    }

    /// A whole number, decimal or `0x…`, of at most `max`.
    pub(super) fn number(&mut self, what: &str, max: u64) -> Parsed<u64> {
        self.skip()?;
        let start = self.at;
        let rest = self.rest();
        let (digits, radix, prefix) = match rest.strip_prefix("0x") {
            Some(hex) => (hex, 16, 2),
            None => (rest, 10, 0),
        };
        let end = digits
            .find(|c: char| !c.is_digit(radix))
            .unwrap_or(digits.len());
        if end == 0 {
            return self.error(format!("expected {what}, found {}", self.next_words()));
        }
        match u64::from_str_radix(&digits[..end], radix) {
            Ok(number) if number <= max => {
                self.at += prefix + end;
                Ok(number)
            }
            _ => self.error_at(start, format!("{what}: more than {max}")),
        }
    }

    /// Seconds with a fraction: `1`, `0.25`, `.1`.
    pub(super) fn seconds(&mut self) -> Parsed<Duration> {
        self.skip()?;
        let rest = self.rest();
        let digits = |text: &str| {
            text.find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len())
        };
        let whole = digits(rest);
        let after = &rest[whole..];
        // `0...1` is a range: its dots are no fraction's.
        let fraction = match after.strip_prefix('.') {
            Some(fraction) if !fraction.starts_with('.') => digits(fraction),
            _ => 0,
        };
        if whole + fraction == 0 {
            return self.error(format!("expected a time, found {}", self.next_words()));
        }
        if whole > 9 || fraction > 9 {
            return self.error("a time has too many digits");
        }
        let seconds: u64 = rest[..whole].parse().unwrap_or(0);
        let mut nanos = 0;
        let mut length = whole;
        if after.starts_with('.') && !after.starts_with("..") {
            length += 1 + fraction;
            for index in 0..9 {
                let digit = after.as_bytes().get(1 + index).filter(|_| index < fraction);
                nanos = nanos * 10 + digit.map_or(0, |d| u32::from(d - b'0'));
            }
        }
        let span = Duration::new(seconds, nanos);
        if span > MAX_SPAN {
            return self.error(format!("a time of more than {MAX_SPAN:?}"));
        }
        self.at += length;
        Ok(span)
    }

    /// Text up to `end`, which is read too.
    pub(super) fn until(&mut self, end: &str, what: &str) -> Parsed<&'a str> {
        let rest = self.rest();
        match rest.find(end) {
            Some(length) => {
                self.at += length + end.len();
                Ok(&rest[..length])
            }
            None => self.error(format!("{what} has no end: expected {end:?}")),
        }
    }
}
