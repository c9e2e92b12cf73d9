//! Which sockets are wanted, in the words of ss(8): `state established sport = :80 or dst 10.0.0.0/8`.
//!
//! ```text
//! or   = and { ("or" | "|" | "||") and }
//! and  = not { ["and" | "&" | "&&"] not }
//! not  = ("not" | "!") not | "(" or ")" | test
//! test = ("state" | "exclude") STATE
//!      | ("sport" | "dport") OP [":"] PORT
//!      | ("src" | "dst") ["="] ADDRESS["/" BITS][":" PORT]
//! ```

use queue_pair::control::SocketRow;
use std::net::{IpAddr, SocketAddr};

/// A condition on a socket.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// Nothing is left out.
    All,
    /// In one of these states.
    State(Vec<&'static str>),
    /// The port of an end.
    Port(End, Order, u16),
    /// The address of an end: its first bits, and its port if one is named.
    Address(End, IpAddr, u8, Option<u16>),
    /// Not so.
    Not(Box<Filter>),
    /// Both.
    And(Box<Filter>, Box<Filter>),
    /// Either.
    Or(Box<Filter>, Box<Filter>),
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Local,
    Peer,
}

/// How a port has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Equal,
    Unequal,
    Below,
    AtMost,
    Above,
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

impl Filter {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, and what can be written.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let text = words.join(" ").replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return Ok(Self::All);
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

    fn or(&mut self) -> Result<Filter, String> {
        let mut one = self.and()?;
        while self.takes(&["or", "|", "||"]) {
            one = Filter::Or(Box::new(one), Box::new(self.and()?));
        }
        Ok(one)
    }

    fn and(&mut self) -> Result<Filter, String> {
        let mut one = self.not()?;
        loop {
            let named = self.takes(&["and", "&", "&&"]);
            let ends = matches!(self.peek(), None | Some(")" | "or" | "|" | "||"));
            if ends && !named {
                return Ok(one);
            }
            one = Filter::And(Box::new(one), Box::new(self.not()?));
        }
    }

    fn not(&mut self) -> Result<Filter, String> {
        if self.takes(&["not", "!"]) {
            return Ok(Filter::Not(Box::new(self.not()?)));
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

    fn test(&mut self) -> Result<Filter, String> {
        let Some(word) = self.next() else {
            return Err("something is missing at the end".into());
        };
        match word {
            "state" => Ok(Filter::State(states(self.next())?)),
            "exclude" => Ok(Filter::Not(Box::new(Filter::State(states(self.next())?)))),
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

    fn port(&mut self, end: End) -> Result<Filter, String> {
        let example = "write a port as in: sport = :80";
        let order = self.next().and_then(Order::parse).ok_or(example)?;
        let port = self
            .next()
            .and_then(|word| word.trim_start_matches(':').parse().ok());
        Ok(Filter::Port(end, order, port.ok_or(example)?))
    }

    fn address(&mut self, end: End) -> Result<Filter, String> {
        self.takes(&["=", "==", "eq"]);
        let wrong = "write an address as in: dst 10.0.0.0/8, src 10.0.0.1:80, dst [fd00::1]:80";
        let word = self.next().ok_or(wrong)?;
        if let Ok(address) = word.parse::<SocketAddr>() {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            return Ok(Filter::Address(
                end,
                address.ip(),
                bits,
                Some(address.port()),
            ));
        }
        let (address, bits) = match word.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (word, None),
        };
        let address = address.trim_start_matches('[').trim_end_matches(']');
        let address: IpAddr = address.parse().map_err(|_| wrong)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong)?;
        if bits > most {
            return Err(wrong.into());
        }
        Ok(Filter::Address(end, address, bits, None))
    }
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
mod tests {
    use super::*;

    fn row(state: &str, local: &str, peer: Option<&str>) -> SocketRow {
        SocketRow {
            conn: None,
            session: None,
            pid: None,
            program: String::new(),
            local: local.parse().unwrap(),
            peer: peer.map(|peer| peer.parse().unwrap()),
            within: false,
            state: state.into(),
            receive_queue: 0,
            send_queue: 0,
            info: None,
        }
    }

    /// Which of four sockets a filter wants.
    fn wanted(text: &str) -> Vec<usize> {
        let rows = [
            row("LISTEN", "10.0.0.1:80", None),
            row("ESTABLISHED", "10.0.0.1:80", Some("10.0.0.2:40000")),
            row("TIME-WAIT", "10.0.0.1:443", Some("192.0.2.9:50000")),
            row("SYN-RECEIVED", "[fd00::1]:80", Some("[fd00::2]:40000")),
        ];
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let filter = Filter::parse(&words).unwrap_or_else(|error| panic!("{text}: {error}"));
        (0..4).filter(|index| filter.wants(&rows[*index])).collect()
    }

    #[test]
    fn sockets_are_told_apart_as_ss_does() {
        for (text, expected) in [
            ("state established", &[1][..]),
            ("state listening", &[0]),
            ("state listen", &[0]),
            ("state syn-recv", &[3]),
            ("exclude time-wait", &[0, 1, 3]),
            ("state connected", &[1, 2, 3]),
            ("state synchronized", &[1, 2, 3]),
            ("state bucket", &[2, 3]),
            ("state big", &[0, 1]),
            ("state all", &[0, 1, 2, 3]),
            ("sport = :80", &[0, 1, 3]),
            ("sport != 80", &[2]),
            ("dport gt :45000", &[2]),
            ("dport >= 40000", &[1, 2, 3]),
            ("dport lt 40000", &[]),
            ("sport le 80", &[0, 1, 3]),
            ("dst 10.0.0.0/8", &[1]),
            ("dst = 10.0.0.2:40000", &[1]),
            ("dst 10.0.0.2:1", &[]),
            ("src fd00::/16", &[3]),
            ("dst [fd00::2]:40000", &[3]),
            ("dst [fd00::2]", &[3]),
            ("src 0.0.0.0/0", &[0, 1, 2]),
            ("src 10.0.0.1/31 and dst 192.0.2.0/24", &[2]),
            ("state established sport = :80", &[1]),
            ("sport = :443 or state listening", &[0, 2]),
            ("not sport = :80", &[2]),
            ("! ( sport = :443 or dst fd00::/8 )", &[0, 1]),
            ("(sport = :80 or sport = :443) and dport = 50000", &[2]),
            ("sport = :80 and dport = :40000 or sport = :443", &[1, 2, 3]),
            ("sport = :443 or sport = :80 and dport = :40000", &[1, 2, 3]),
        ] {
            assert_eq!(wanted(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_with_one_that_is() {
        for (text, part) in [
            ("stat established", "state established sport = :80"),
            ("state up", "there are established"),
            ("state", "is no state"),
            ("sport 80", "sport = :80"),
            ("sport = http", "sport = :80"),
            ("dst nowhere", "dst 10.0.0.0/8"),
            ("dst 10.0.0.0/33", "dst 10.0.0.0/8"),
            ("( sport = :80", "not closed"),
            ("sport = :80 )", "follows"),
            ("sport = :80 and", "missing"),
        ] {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let error = Filter::parse(&words).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_filter_of_states_is_known() {
        let names = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            Filter::parse(&words).unwrap().names_states()
        };
        assert!(names("sport = :80 and ( not state listening )"));
        assert!(!names("sport = :80 or dst 10.0.0.1"));
        assert!(!Filter::parse(&[]).unwrap().names_states());
    }
}
