//! One HTTP request at the front of some bytes.
//!
//! Only what the answer depends on is read. `bpf/responder.bpf.c` reads the same, step by step.

use super::language::{self, Wanted};

/// Longest request target, in bytes.
pub const MAX_TARGET: usize = 255;

/// Most lines of a request, the first not counted.
const MAX_LINES: usize = 128;

/// Longest method, in bytes.
const MAX_METHOD: usize = 15;

/// What the client wants of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// It did not say.
    Unsaid,
    /// That it ends.
    Close,
    /// That it stays.
    KeepAlive,
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<'a> {
    /// What the URL says.
    Wanted(Wanted<'a>),
    /// An error, and the end of the connection.
    Refused(Refusal),
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Not HTTP/1, or not as this server knows it.
    NotHttp,
    /// The target is longer than [`MAX_TARGET`].
    TooLong,
    /// A method other than GET and HEAD.
    Method,
}

/// A request that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its length with the blank line, in bytes.
    pub length: usize,
    /// HEAD.
    pub head: bool,
    /// HTTP/1.1, not 1.0.
    pub is_11: bool,
    /// What the header field says.
    pub connection: Connection,
    /// What is wanted.
    pub asked: Asked<'a>,
}

/// Reads the request at the front of `bytes`; `None` if its end is not there.
///
/// What does not begin with a letter is no request, and refused in one piece.
pub fn parse(bytes: &[u8]) -> Option<Request<'_>> {
    if !bytes.first()?.is_ascii_uppercase() {
        return Some(refused(bytes.len(), Refusal::NotHttp));
    }
    let Some((line_end, length, connection)) = read_lines(bytes)? else {
        return Some(refused(bytes.len(), Refusal::NotHttp));
    };
    Some(match parse_line(&bytes[..line_end]) {
        Ok((head, is_11, wanted)) => Request {
            length,
            head,
            is_11,
            connection,
            asked: Asked::Wanted(wanted),
        },
        Err(refusal) => refused(bytes.len(), refusal),
    })
}

/// A refusal takes all there is with it.
const fn refused(length: usize, refusal: Refusal) -> Request<'static> {
    Request {
        length,
        head: false,
        is_11: true,
        connection: Connection::Close,
        asked: Asked::Refused(refusal),
    }
}

/// Where the first line ends (behind its LF), where the blank line ends, and what the last
/// connection field says; `Some(None)` if there are too many lines.
fn read_lines(bytes: &[u8]) -> Option<Option<(usize, usize, Connection)>> {
    let mut lines = 0;
    let mut line_end = 0;
    let mut connection = Connection::Unsaid;
    let mut at = 0;
    loop {
        at += 1 + bytes[at..].iter().position(|byte| *byte == b'\n')?;
        if line_end == 0 {
            line_end = at;
        }
        match bytes[at..] {
            [b'\n', ..] => return Some(Some((line_end, at + 1, connection))),
            [b'\r', b'\n', ..] => return Some(Some((line_end, at + 2, connection))),
            _ => {}
        }
        lines += 1;
        if lines > MAX_LINES {
            return Some(None);
        }
        if let Some(value) = strip_ignoring_case(&bytes[at..], b"connection:") {
            let spaces = value.iter().take_while(|byte| **byte == b' ').take(4);
            let value = &value[spaces.count()..];
            if strip_ignoring_case(value, b"close").is_some() {
                connection = Connection::Close;
            } else if strip_ignoring_case(value, b"keep-alive").is_some() {
                connection = Connection::KeepAlive;
            }
        }
    }
}

/// What follows `prefix`, which is lower case.
fn strip_ignoring_case<'a>(bytes: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(prefix.len())?;
    // Setting this bit makes letters lower case. (Some other bytes become a colon or a hyphen, but
    // in a header field there is no use for those.)
    let same = front.iter().zip(prefix).all(|(a, b)| a | 0x20 == *b);
    same.then_some(rest)
}

fn parse_line(line: &[u8]) -> Result<(bool, bool, Wanted<'_>), Refusal> {
    let method = line
        .iter()
        .take(MAX_METHOD + 1)
        .take_while(|byte| byte.is_ascii_uppercase())
        .count();
    if line[method] != b' ' {
        return Err(Refusal::NotHttp);
    }
    let head = match &line[..method] {
        b"GET" => false,
        b"HEAD" => true,
        _ => return Err(Refusal::Method),
    };
    let rest = &line[method + 1..];
    let target = rest.iter().take(MAX_TARGET + 1).position(|b| *b <= b' ');
    let target = target.ok_or(Refusal::TooLong)?;
    let is_11 = match &rest[target..] {
        b" HTTP/1.1\r\n" | b" HTTP/1.1\n" => true,
        b" HTTP/1.0\r\n" | b" HTTP/1.0\n" => false,
        _ => return Err(Refusal::NotHttp),
    };
    let target = &rest[..target];
    let path = language::path_of(target).ok_or(Refusal::NotHttp)?;
    Ok((head, is_11, language::read(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(bytes: &[u8]) -> Option<Refusal> {
        match parse(bytes)?.asked {
            Asked::Refused(refusal) => Some(refusal),
            Asked::Wanted(_) => None,
        }
    }

    #[test]
    fn a_request_is_read_up_to_its_blank_line() {
        let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nCONNECTION:  Close\r\n\r\nGET";
        let request = parse(bytes).expect("complete");
        assert_eq!(request.length, bytes.len() - 3);
        assert_eq!(request.connection, Connection::Close);
        assert!(request.is_11 && !request.head);
        let request = parse(b"HEAD / HTTP/1.0\nConnection: keep-alive\n\n").expect("complete");
        assert_eq!(request.connection, Connection::KeepAlive);
        assert!(!request.is_11 && request.head);
    }

    #[test]
    fn what_is_cut_short_is_incomplete_wherever_it_is_cut() {
        let bytes = b"GET /?s=10 HTTP/1.1\r\nHost: a\r\n\r\n";
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn what_is_not_http_is_told_from_what_is_not_served() {
        assert_eq!(refusal(b"\x16\x03\x01"), Some(Refusal::NotHttp));
        assert_eq!(refusal(b"get / HTTP/1.1\r\n\r\n"), Some(Refusal::NotHttp));
        assert_eq!(refusal(b"GET  / HTTP/1.1\r\n\r\n"), Some(Refusal::NotHttp));
        assert_eq!(refusal(b"GET /\r\n\r\n"), Some(Refusal::NotHttp));
        assert_eq!(refusal(b"GET / HTTP/2.0\r\n\r\n"), Some(Refusal::NotHttp));
        assert_eq!(refusal(b"GET * HTTP/1.1\r\n\r\n"), Some(Refusal::NotHttp));
        assert_eq!(refusal(b"POST / HTTP/1.1\r\n\r\n"), Some(Refusal::Method));
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(255));
        assert_eq!(refusal(long.as_bytes()), Some(Refusal::TooLong));
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(254));
        assert_eq!(refusal(long.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(request) = parse(&bytes) {
                prop_assert!(request.length <= bytes.len() && request.length > 0);
            }
        }

        #[test]
        fn lines_of_any_kind_are_read(
            words in proptest::collection::vec("(GET|HEAD| |/|[?]|=|&|HTTP/1.1|\r\n|[a-zA-Z0-9]|connection:|close)", 0..40),
        ) {
            let text = format!("G{}\r\n\r\n", words.concat());
            prop_assert!(parse(text.as_bytes()).is_some());
        }
    }
}
