//! Which sockets are wanted, in the words of ss(8): `state established sport = :80 or dst 10.0.0.0/8`.
//!
//! ```text
//! or   = and { ("or" | "|" | "||") and }
//! and  = not { ["and" | "&" | "&&"] not }
//! not  = ("not" | "!") not | "(" or ")" | test
//! test = ("state" | "exclude") STATE
//!      | ("sport" | "dport") [OP] [":"] PORT
//!      | ("src" | "dst") ["="] (ADDRESS["/" BITS] | "*")[":" PORT]
//! ```
//! States that follow each other, as in `state time-wait state closing`, are wanted all.

use queue_pair::control::SocketRow;
use std::net::{IpAddr, SocketAddr};

/// Bytes and words of a filter: whoever asks, a row is looked at in bounded time, and no nesting is
/// deeper than there are words.
const MOST_BYTES: usize = 4096;
const MOST_WORDS: usize = 200;

/// A condition on a socket.
#[derive(Debug, Clone, PartialEq)]
pub enum SocketFilter {
    /// Nothing is left out.
    All,
    /// In one of these states.
    State(Vec<&'static str>),
    /// The port of an end.
    Port(End, Order, u16),
    /// The address of an end: its first bits, and its port if one is named.
    Address(End, IpAddr, u8, Option<u16>),
    /// Not so.
    Not(Box<SocketFilter>),
    /// Both.
    And(Box<SocketFilter>, Box<SocketFilter>),
    /// Either.
    Or(Box<SocketFilter>, Box<SocketFilter>),
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// This machine's.
    Local,
    /// The other.
    Peer,
}

/// How a port has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// The states by their names here; those that `ss` calls otherwise have both.
const STATES: [(&str, &str); 11] = [
    ("established", "established"),
    ("syn-sent", "syn-sent"),
    ("syn-recv", "syn-received"),
    ("fin-wait-1", "fin-wait-1"),
    ("fin-wait-2", "fin-wait-2"),
    ("time-wait", "time-wait"),
    ("closed", "closed"),
    ("close-wait", "close-wait"),
    ("last-ack", "last-ack"),
    ("listening", "listen"),
    ("closing", "closing"),
];

impl SocketFilter {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, and what can be written.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MOST_BYTES {
            return Err(format!("more than {MOST_BYTES} bytes"));
        }
        let text = text.replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return Ok(Self::All);
        }
        if words.len() > MOST_WORDS {
            return Err(format!("more than {MOST_WORDS} words"));
        }
        let mut reader = Reader { words, at: 0 };
        let filter = reader.or()?;
        match reader.next() {
            None => Ok(filter),
            Some(word) => Err(format!("{word:?} follows what was whole before it")),
        }
    }

    /// Whether it speaks of states: then nothing is left out for its state otherwise.
    pub fn names_states(&self) -> bool {
        match self {
            Self::State(_) => true,
            Self::Not(one) => one.names_states(),
            Self::And(one, other) | Self::Or(one, other) => {
                one.names_states() || other.names_states()
            }
            _ => false,
        }
    }

    /// Whether only sockets of one state can be wanted, whatever else they have to be.
    pub fn names_one_state(&self) -> bool {
        match self {
            Self::State(states) => states.len() == 1,
            Self::And(one, other) => one.names_one_state() || other.names_one_state(),
            _ => false,
        }
    }

    /// Whether a socket in this state, such as `TIME-WAIT`, can be wanted.
    pub fn may_want(&self, state: &str) -> bool {
        self.in_state(&state.to_lowercase()).0
    }

    /// Whether some sockets in this state are wanted, and whether all are, as far as can be said without
    /// knowing their ends.
    fn in_state(&self, state: &str) -> (bool, bool) {
        match self {
            Self::All => (true, true),
            Self::State(states) => {
                let is_one = states.contains(&state);
                (is_one, is_one)
            }
            Self::Port(..) | Self::Address(..) => (true, false),
            Self::Not(one) => {
                let (some, all) = one.in_state(state);
                (!all, !some)
            }
            Self::And(one, other) => {
                let (one, other) = (one.in_state(state), other.in_state(state));
                (one.0 && other.0, one.1 && other.1)
            }
            Self::Or(one, other) => {
                let (one, other) = (one.in_state(state), other.in_state(state));
                (one.0 || other.0, one.1 || other.1)
            }
        }
    }

    /// Whether a socket is wanted.
    pub fn wants(&self, row: &SocketRow) -> bool {
        let end = |end: End| match end {
            End::Local => Some(row.local),
            End::Peer => row.peer,
        };
        match self {
            Self::All => true,
            Self::State(states) => states.contains(&row.state.to_lowercase().as_str()),
            // A listener has no peer: nothing is so of that.
            Self::Port(of, order, port) => {
                end(*of).is_some_and(|address| order.holds(address.port(), *port))
            }
            Self::Address(of, prefix, bits, port) => end(*of).is_some_and(|address| {
                within(address.ip().to_canonical(), *prefix, *bits)
                    && port.is_none_or(|port| address.port() == port)
            }),
            Self::Not(one) => !one.wants(row),
            Self::And(one, other) => one.wants(row) && other.wants(row),
            Self::Or(one, other) => one.wants(row) || other.wants(row),
        }
    }
}

impl Order {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "=" | "==" | "eq" => Self::Equal,
            "!=" | "ne" | "neq" => Self::Unequal,
            "<" | "lt" => Self::Below,
            "<=" | "le" | "leq" => Self::AtMost,
            ">" | "gt" => Self::Above,
            ">=" | "ge" | "geq" => Self::AtLeast,
            _ => return None,
        })
    }

    fn holds(self, port: u16, bound: u16) -> bool {
        match self {
            Self::Equal => port == bound,
            Self::Unequal => port != bound,
            Self::Below => port < bound,
            Self::AtMost => port <= bound,
            Self::Above => port > bound,
            Self::AtLeast => port >= bound,
        }
    }
}

/// Whether the first `bits` of two addresses are the same.
fn within(address: IpAddr, prefix: IpAddr, bits: u8) -> bool {
    let same = |difference: u128, length: u8| difference.checked_shr((length - bits).into());
    match (address, prefix) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            same((one.to_bits() ^ other.to_bits()).into(), 32).unwrap_or(0) == 0
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            same(one.to_bits() ^ other.to_bits(), 128).unwrap_or(0) == 0
        }
        _ => false,
    }
}

struct Reader<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.at += usize::from(word.is_some());
        word
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        let is_there = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(is_there);
        is_there
    }

    fn or(&mut self) -> Result<SocketFilter, String> {
        let mut one = self.and()?;
        while self.takes(&["or", "|", "||"]) {
            one = SocketFilter::Or(Box::new(one), Box::new(self.and()?));
        }
        Ok(one)
    }

    fn and(&mut self) -> Result<SocketFilter, String> {
        let mut one = self.not()?;
        loop {
            let named = self.takes(&["and", "&", "&&"]);
            let ends = matches!(self.peek(), None | Some(")" | "or" | "|" | "||"));
            if ends && !named {
                return Ok(one);
            }
            let other = self.not()?;
            one = match (one, other) {
                (SocketFilter::State(mut states), SocketFilter::State(more)) if !named => {
                    states.extend(more);
                    SocketFilter::State(states)
                }
                (one, other) => SocketFilter::And(Box::new(one), Box::new(other)),
            };
        }
    }

    fn not(&mut self) -> Result<SocketFilter, String> {
        if self.takes(&["not", "!"]) {
            return Ok(SocketFilter::Not(Box::new(self.not()?)));
        }
        if self.takes(&["("]) {
            let one = self.or()?;
            return if self.takes(&[")"]) {
                Ok(one)
            } else {
                Err("a parenthesis is not closed".into())
            };
        }
        self.test()
    }

    fn test(&mut self) -> Result<SocketFilter, String> {
        let Some(word) = self.next() else {
            return Err("something is missing at the end".into());
        };
        match word {
            "state" => Ok(SocketFilter::State(states(self.next())?)),
            "exclude" => Ok(SocketFilter::Not(Box::new(SocketFilter::State(states(
                self.next(),
            )?)))),
            "sport" => self.port(End::Local),
            "dport" => self.port(End::Peer),
            "src" => self.address(End::Local),
            "dst" => self.address(End::Peer),
            other => Err(format!(
                "{other:?} is no filter: write state, exclude, sport, dport, src or dst, such as: \
                 state established sport = :80"
            )),
        }
    }

    fn port(&mut self, end: End) -> Result<SocketFilter, String> {
        let example = "write a port as in: sport = :80";
        let order = self.peek().and_then(Order::parse);
        self.at += usize::from(order.is_some());
        let order = order.unwrap_or(Order::Equal);
        let port = self
            .next()
            .and_then(|word| word.trim_start_matches(':').parse().ok());
        Ok(SocketFilter::Port(end, order, port.ok_or(example)?))
    }

    fn address(&mut self, end: End) -> Result<SocketFilter, String> {
        self.takes(&["=", "==", "eq"]);
        let wrong = "write an address as in: dst 10.0.0.0/8, src 10.0.0.1:80, dst [fd00::1]:80";
        let word = self.next().ok_or(wrong)?;
        if let Ok(address) = word.parse::<SocketAddr>() {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            return Ok(SocketFilter::Address(
                end,
                address.ip(),
                bits,
                Some(address.port()),
            ));
        }
        let (rest, port) = split_port(word).ok_or(wrong)?;
        if let ("" | "*", Some(port)) = (rest, port) {
            return Ok(SocketFilter::Port(end, Order::Equal, port));
        }
        let (address, bits) = match rest.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (rest, None),
        };
        let address = address.trim_start_matches('[').trim_end_matches(']');
        let address: IpAddr = address.parse().map_err(|_| wrong)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong)?;
        if bits > most {
            return Err(wrong.into());
        }
        Ok(SocketFilter::Address(end, address, bits, port))
    }
}

/// An address and the port behind it. That of an IPv6 address stands behind brackets or bits, since
/// a colon can be of the address. Nothing if what should be a port is none.
fn split_port(word: &str) -> Option<(&str, Option<u16>)> {
    let Some((address, port)) = word.rsplit_once(':') else {
        return Some((word, None));
    };
    let is_of_address = address.contains(':') && !address.contains(['/', ']']);
    let is_within_brackets = port.ends_with(']');
    if is_of_address || is_within_brackets || address.contains(':') && port.contains('/') {
        return Some((word, None));
    }
    Some((address, Some(port.parse().ok()?)))
}

/// The states of a name, which can be that of a group (ss(8)).
fn states(name: Option<&str>) -> Result<Vec<&'static str>, String> {
    let but = |left_out: &[&str]| -> Vec<&'static str> {
        let all = STATES.iter().filter(|(name, _)| !left_out.contains(name));
        all.map(|(_, here)| *here).collect()
    };
    let name = name.unwrap_or("");
    match name {
        "all" => return Ok(but(&[])),
        "connected" => return Ok(but(&["listening", "closed"])),
        "synchronized" => return Ok(but(&["listening", "closed", "syn-sent"])),
        "bucket" => return Ok(vec!["syn-received", "time-wait"]),
        "big" => return Ok(but(&["syn-recv", "time-wait"])),
        _ => {}
    }
    let known = STATES
        .iter()
        .find(|(of_ss, here)| *of_ss == name || *here == name);
    match known {
        Some((_, here)) => Ok(vec![here]),
        None => Err(format!(
            "{name:?} is no state: there are {}, and all, connected, synchronized, bucket, big",
            STATES.map(|(name, _)| name).join(", ")
        )),
    }
}

#[cfg(test)]
mod tests;
