//! Which packets a capture takes: a small part of what users of tcpdump know.
//!
//! ```text
//! filter    = [ either ]                              nothing: every packet
//! either    = both { "or" both }
//! both      = term { [ "and" ] term }
//! term      = "not" term | "(" either ")" | primitive
//! primitive = [ "src" | "dst" ] "host" ADDRESS
//!           | [ "src" | "dst" ] "port" NUMBER
//!           | "in" | "out"                            to, from this machine
//!           | "dropped"                               dropped by the engine
//! ```
//!
//! `and` binds tighter than `or`. A packet so malformed that it has no address or port passes no
//! `host` or `port`.

use super::headers::Headers;
use super::{Direction, Frame};
use std::net::IpAddr;
use std::str::FromStr;

/// The longest filter in bytes.
const MAX_LEN: usize = 1024;
/// How deep parentheses and `not` may nest.
const MAX_DEPTH: usize = 32;
/// What a term can begin with, for messages.
const TERMS: &str = "host, port, src, dst, in, out, dropped, not or (";

/// Why a text is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// It is too long.
    #[error("it is longer than {MAX_LEN} bytes")]
    TooLong,
    /// It nests too deep.
    #[error("it nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// It ends too early.
    #[error("it ends where {0} should follow")]
    Ends(&'static str),
    /// A word is out of place.
    #[error("{found:?} stands where {expected} should")]
    Unexpected {
        /// The word.
        found: String,
        /// What could have stood there.
        expected: &'static str,
    },
}

/// Which packets a capture takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(Expression);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Expression {
    /// All of them hold; none: always.
    All(Vec<Expression>),
    /// One of them holds.
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Host(Ends, IpAddr),
    Port(Ends, u16),
    Direction(Direction),
    Dropped,
}

/// Which end of a packet is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Source,
    Destination,
    Either,
}

impl Filter {
    pub(super) fn passes(&self, frame: &Frame<'_>, headers: &Headers) -> bool {
        self.0.holds(frame, headers)
    }
}

impl Expression {
    fn holds(&self, frame: &Frame<'_>, headers: &Headers) -> bool {
        match self {
            Self::All(terms) => terms.iter().all(|term| term.holds(frame, headers)),
            Self::Any(terms) => terms.iter().any(|term| term.holds(frame, headers)),
            Self::Not(term) => !term.holds(frame, headers),
            Self::Host(ends, address) => ends.of(&headers.hosts).contains(&Some(*address)),
            Self::Port(ends, port) => ends.of(&headers.ports).contains(&Some(*port)),
            Self::Direction(direction) => frame.direction == *direction,
            Self::Dropped => frame.dropped.is_some(),
        }
    }
}

impl Ends {
    fn of<T>(self, both: &[T; 2]) -> &[T] {
        match self {
            Self::Source => &both[..1],
            Self::Destination => &both[1..],
            Self::Either => both,
        }
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        if text.len() > MAX_LEN {
            return Err(FilterError::TooLong);
        }
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let mut parser = Parser {
            words: spaced.split_whitespace().peekable(),
            depth: 0,
        };
        if parser.words.peek().is_none() {
            return Ok(Self(Expression::All(Vec::new())));
        }
        let expression = parser.either()?;
        match parser.words.next() {
            None => Ok(Self(expression)),
            Some(word) => Err(unexpected(word, "the end")),
        }
    }
}

/// A parser by recursive descent, a function for each rule.
struct Parser<'a> {
    words: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn either(&mut self) -> Result<Expression, FilterError> {
        let mut terms = vec![self.both()?];
        while self.words.next_if_eq(&"or").is_some() {
            terms.push(self.both()?);
        }
        Ok(one_or(terms, Expression::Any))
    }

    fn both(&mut self) -> Result<Expression, FilterError> {
        let mut terms = vec![self.term()?];
        loop {
            let is_joined = self.words.next_if_eq(&"and").is_some();
            if !is_joined && matches!(self.words.peek(), None | Some(&"or" | &")")) {
                return Ok(one_or(terms, Expression::All));
            }
            terms.push(self.term()?);
        }
    }

    fn term(&mut self) -> Result<Expression, FilterError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(FilterError::TooDeep);
        }
        let term = match self.word(TERMS)? {
            "not" => Expression::Not(Box::new(self.term()?)),
            "(" => {
                let inner = self.either()?;
                match self.word(")")? {
                    ")" => inner,
                    word => return Err(unexpected(word, ")")),
                }
            }
            "in" => Expression::Direction(Direction::In),
            "out" => Expression::Direction(Direction::Out),
            "dropped" => Expression::Dropped,
            "src" => {
                let what = self.word("host or port")?;
                self.end(Ends::Source, what, "host or port")?
            }
            "dst" => {
                let what = self.word("host or port")?;
                self.end(Ends::Destination, what, "host or port")?
            }
            what => self.end(Ends::Either, what, TERMS)?,
        };
        self.depth -= 1;
        Ok(term)
    }

    /// `host ADDRESS` or `port NUMBER`, of which `what` is the first word.
    fn end(
        &mut self,
        ends: Ends,
        what: &str,
        expected: &'static str,
    ) -> Result<Expression, FilterError> {
        match what {
            "host" => {
                let word = self.word("an address")?;
                let address = word.parse().map_err(|_| unexpected(word, "an address"))?;
                Ok(Expression::Host(ends, address))
            }
            "port" => {
                let word = self.word("a port")?;
                let port = word.parse().map_err(|_| unexpected(word, "a port"))?;
                Ok(Expression::Port(ends, port))
            }
            word => Err(unexpected(word, expected)),
        }
    }

    fn word(&mut self, expected: &'static str) -> Result<&'a str, FilterError> {
        self.words.next().ok_or(FilterError::Ends(expected))
    }
}

/// A single term as itself, several under what joins them.
fn one_or(mut terms: Vec<Expression>, join: fn(Vec<Expression>) -> Expression) -> Expression {
    match terms.pop() {
        Some(only) if terms.is_empty() => only,
        last => {
            terms.extend(last);
            join(terms)
        }
    }
}

fn unexpected(found: &str, expected: &'static str) -> FilterError {
    FilterError::Unexpected {
        found: found.to_owned(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NicId;

    /// Whether `filter` passes a packet from 10.0.0.1 port 1000 to 10.0.0.2 port 80.
    fn passes(filter: &str, direction: Direction, dropped: Option<&str>) -> bool {
        let host = |last| Some(IpAddr::from([10, 0, 0, last]));
        let headers = Headers {
            hosts: [host(1), host(2)],
            ports: [Some(1000), Some(80)],
        };
        let frame = Frame {
            direction,
            nic: NicId::default(),
            head: &[],
            payload: &[],
            dropped,
        };
        let filter: Filter = filter
            .parse()
            .unwrap_or_else(|error| panic!("{filter}: {error}"));
        filter.passes(&frame, &headers)
    }

    #[test]
    fn filters_mean_what_they_say() {
        for (filter, expected) in [
            ("", true),
            ("  ", true),
            ("port 80", true),
            ("port 1000", true),
            ("port 81", false),
            ("src port 80", false),
            ("dst port 80", true),
            ("host 10.0.0.1", true),
            ("src host 10.0.0.1 dst host 10.0.0.2", true),
            ("src host 10.0.0.2", false),
            ("host ::1", false),
            ("in", true),
            ("out", false),
            ("dropped", false),
            ("not dropped", true),
            ("not not in", true),
            ("port 81 or port 80", true),
            // `and` binds tighter, and adjacency is `and`.
            ("port 80 or port 81 and port 82", true),
            ("(port 80 or port 81) and port 82", false),
            ("(port 80 or port 81)not(port 82)", true),
            ("in port 80 host 10.0.0.2", true),
            ("out or dropped or (in and not port 1)", true),
        ] {
            assert_eq!(passes(filter, Direction::In, None), expected, "{filter}");
        }
        assert!(passes("out dropped", Direction::Out, Some("bad_checksum")));
    }

    #[test]
    fn a_packet_without_addresses_passes_only_what_needs_none() {
        let frame = Frame {
            direction: Direction::In,
            nic: NicId::default(),
            head: &[],
            payload: &[],
            dropped: Some("truncated"),
        };
        let passes = |filter: &str| {
            let filter: Filter = filter.parse().expect("a filter");
            filter.passes(&frame, &Headers::default())
        };
        assert!(passes("") && passes("dropped in") && passes("not port 80"));
        assert!(!passes("port 80") && !passes("host 10.0.0.1 or out"));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |filter: &str| filter.parse::<Filter>().expect_err(filter).to_string();
        assert_eq!(error("port"), "it ends where a port should follow");
        assert_eq!(
            error("port 80 and"),
            format!("it ends where {TERMS} should follow")
        );
        assert_eq!(error("port http"), r#""http" stands where a port should"#);
        assert_eq!(error("port 65536"), r#""65536" stands where a port should"#);
        assert_eq!(
            error("host example.org"),
            r#""example.org" stands where an address should"#
        );
        assert_eq!(
            error("prot 80"),
            format!(r#""prot" stands where {TERMS} should"#)
        );
        assert_eq!(error("src in"), r#""in" stands where host or port should"#);
        assert_eq!(error("(in"), "it ends where ) should follow");
        assert_eq!(error("in)"), r#"")" stands where the end should"#);
        assert_eq!(error(&"not ".repeat(100)), "it nests deeper than 32 levels");
        assert_eq!(error(&"(".repeat(100)), "it nests deeper than 32 levels");
        assert_eq!(error(&"in ".repeat(400)), "it is longer than 1024 bytes");
    }
}
