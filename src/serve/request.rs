//! Reading the head of a request: what the server needs of it, owned.

use std::mem::MaybeUninit;

/// At most so many header fields; more is answered with 431.
const MAX_FIELDS: usize = 100;
/// The head of a request, in bytes; a longer one is answered with 431 (or 414, if its target
/// alone is as long).
pub const MAX_HEAD: usize = 16 * 1024;
/// A body that means nothing (that of GET) is read and thrown away up to this size, so that the
/// connection can be kept; a larger one ends it.
const MAX_BODY: u64 = 64 * 1024;

/// The methods that are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Send the file.
    #[default]
    Get,
    /// Send what GET would, without the body.
    Head,
    /// Store the body as this file.
    Put,
    /// Store the body as a new file in this directory.
    Post,
}

impl Method {
    /// Whether the body is to be stored.
    pub fn stores(self) -> bool {
        matches!(self, Self::Put | Self::Post)
    }
}

/// What the server needs to know of a request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What to do.
    pub method: Method,
    /// The target as the client sent it.
    pub target: Vec<u8>,
    /// Whether the connection may be used again after the response.
    pub keep_alive: bool,
    /// Bytes of body that follow the head.
    pub body: u64,
    /// Whether the client waits to be told that it may send the body.
    pub expects_continue: bool,
    /// If-Match.
    pub if_match: Option<String>,
    /// If-None-Match.
    pub if_none_match: Option<String>,
    /// If-Modified-Since.
    pub if_modified_since: Option<String>,
    /// If-Unmodified-Since.
    pub if_unmodified_since: Option<String>,
    /// If-Range.
    pub if_range: Option<String>,
    /// Range.
    pub range: Option<String>,
}

impl Request {
    /// Of a request to store something its conditions alone, if it has any. If-Modified-Since is none: it is for GET
    /// and HEAD (RFC 9110, section 13.1.3).
    pub fn conditions_of_storing(&self) -> Option<Self> {
        let conditions = Self {
            method: self.method,
            if_match: self.if_match.clone(),
            if_none_match: self.if_none_match.clone(),
            if_unmodified_since: self.if_unmodified_since.clone(),
            ..Self::default()
        };
        let has_some = conditions.if_match.is_some()
            || conditions.if_none_match.is_some()
            || conditions.if_unmodified_since.is_some();
        has_some.then_some(conditions)
    }
}

/// A request that is answered with an error; the connection ends after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub u16);

/// Reads the head at the start of `input`: the request and the length of its head, or `None` if
/// the head is not complete yet. Bodies of up to `uploads` bytes may be stored; `None`: nothing may.
pub fn parse(input: &[u8], uploads: Option<u64>) -> Result<Option<(Request, usize)>, Refused> {
    // Room for all of them costs more to fill than the few take that most requests have.
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut []);
    let input_here = &input[..input.len().min(MAX_HEAD)];
    let length = match head.parse_with_uninit_headers(input_here, &mut fields) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() < MAX_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) => {
            return Err(Refused(if head.version.is_none() { 414 } else { 431 }));
        }
        Err(httparse::Error::TooManyHeaders) => return Err(Refused(431)),
        Err(httparse::Error::Version) => return Err(Refused(505)),
        Err(_) => return Err(Refused(400)),
    };
    let mut request = Request {
        method: match head.method {
            Some("GET") => Method::Get,
            Some("HEAD") => Method::Head,
            Some("PUT") if uploads.is_some() => Method::Put,
            Some("POST") if uploads.is_some() => Method::Post,
            // Known, and refused for every file (405); the others are not known (501).
            Some("POST" | "PUT" | "DELETE" | "PATCH" | "OPTIONS" | "TRACE" | "CONNECT") => {
                return Err(Refused(405));
            }
            _ => return Err(Refused(501)),
        },
        target: head.path.unwrap_or_default().as_bytes().to_vec(),
        keep_alive: head.version == Some(1),
        ..Request::default()
    };
    let mut hosts = 0;
    let mut framing = Framing::default();
    for field in head.headers.iter() {
        hosts += usize::from(field.name.eq_ignore_ascii_case("host"));
        read_field(&mut request, &mut framing, field)?;
        if request.method.stores() {
            can_be_stored(field)?;
        }
    }
    let Framing { body, closes } = framing;
    request.keep_alive &= !closes;
    // RFC 9112, section 3.2: exactly one Host in HTTP/1.1.
    if hosts > 1 || hosts == 0 && head.version == Some(1) {
        return Err(Refused(400));
    }
    let most = if request.method.stores() {
        body.ok_or(Refused(411))?;
        uploads.unwrap_or(0)
    } else {
        MAX_BODY
    };
    request.body = body.unwrap_or(0);
    if request.body > most {
        return Err(Refused(413));
    }
    Ok(Some((request, length)))
}

/// Refuses bodies that would not be the file: parts of one (RFC 9110, section 14.5), and encoded ones, of
/// which nobody would know the encoding later.
fn can_be_stored(field: &httparse::Header<'_>) -> Result<(), Refused> {
    let is = |known: &str| field.name.eq_ignore_ascii_case(known);
    if is("content-range") {
        return Err(Refused(400));
    }
    if is("content-encoding") && !field.value.eq_ignore_ascii_case(b"identity") {
        return Err(Refused(415));
    }
    Ok(())
}

/// What fields say of where the request ends, and the connection.
#[derive(Default)]
struct Framing {
    body: Option<u64>,
    /// The client closes it, whatever else it says.
    closes: bool,
}

fn read_field(
    request: &mut Request,
    framing: &mut Framing,
    field: &httparse::Header<'_>,
) -> Result<(), Refused> {
    let name = field.name;
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    // A value that is not UTF-8 matches none of ours.
    let value = std::str::from_utf8(field.value).unwrap_or_default();
    let known = if is("if-none-match") {
        &mut request.if_none_match
    } else if is("if-modified-since") {
        &mut request.if_modified_since
    } else if is("range") {
        &mut request.range
    } else if is("if-range") {
        &mut request.if_range
    } else if is("if-match") {
        &mut request.if_match
    } else if is("if-unmodified-since") {
        &mut request.if_unmodified_since
    } else {
        if is("connection") {
            for option in value.split(',').map(str::trim) {
                if option.eq_ignore_ascii_case("close") {
                    framing.closes = true;
                } else if option.eq_ignore_ascii_case("keep-alive") {
                    request.keep_alive = true;
                }
            }
        } else if is("transfer-encoding") {
            return Err(Refused(501));
        } else if is("content-length") {
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let length = value.parse().ok().filter(|_| digits).ok_or(Refused(400))?;
            if framing.body.is_some_and(|known| known != length) {
                return Err(Refused(400));
            }
            framing.body = Some(length);
        } else if is("expect") {
            request.expects_continue = value.eq_ignore_ascii_case("100-continue");
        }
        return Ok(());
    };
    *known = Some(value.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{MAX_HEAD, Method, Refused, parse};

    fn refused(head: &str) -> Option<u16> {
        parse(head.as_bytes(), None)
            .err()
            .map(|Refused(status)| status)
    }

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let head = b"HEAD /a HTTP/1.1\r\nHost: x\r\nRange: bytes=0-\r\n\r\nmore";
        for length in 0..head.len() - 4 {
            assert!(matches!(parse(&head[..length], None), Ok(None)), "{length}");
        }
        let (request, length) = parse(head, None).unwrap().unwrap();
        assert_eq!(&head[length..], b"more");
        assert_eq!(request.method, Method::Head);
        assert_eq!(request.target, b"/a");
        assert_eq!(request.range.as_deref(), Some("bytes=0-"));
        assert!(request.keep_alive);
    }

    #[test]
    fn a_connection_is_kept_as_version_and_client_say() {
        let keeps = |head: &str| parse(head.as_bytes(), None).unwrap().unwrap().0.keep_alive;
        assert!(!keeps("GET / HTTP/1.0\r\n\r\n"));
        assert!(keeps("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
        for options in ["te, close", "close, keep-alive", "keep-alive, close"] {
            let head = format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: {options}\r\n\r\n");
            assert!(!keeps(&head), "{options}");
        }
    }

    #[test]
    fn what_is_not_served_is_refused_by_its_own_status() {
        let host = "Host: x\r\n";
        assert_eq!(refused("POST / HTTP/1.1\r\n\r\n"), Some(405));
        assert_eq!(refused("BREW / HTTP/1.1\r\n\r\n"), Some(501));
        assert_eq!(refused("GET / HTTP/2.0\r\n\r\n"), Some(505));
        assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), Some(400));
        assert_eq!(
            refused(&format!("GET / HTTP/1.1\r\n{host}{host}\r\n")),
            Some(400)
        );
        assert_eq!(refused("\x16\x03\x01\x02"), Some(400));
        let framed = |field: &str| refused(&format!("GET / HTTP/1.1\r\n{host}{field}\r\n\r\n"));
        assert_eq!(framed("Transfer-Encoding: chunked"), Some(501));
        assert_eq!(framed("Content-Length: 1\r\nContent-Length: 2"), Some(400));
        assert_eq!(framed("Content-Length: +1"), Some(400));
        assert_eq!(framed("Content-Length: 99999999"), Some(413));
        assert_eq!(framed("Content-Length: 5"), None);
    }

    #[test]
    fn what_is_to_be_stored_is_whole_plain_and_not_too_large() {
        let head = |method: &str, fields: &str| {
            let head = format!("{method} /a HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
            match parse(head.as_bytes(), Some(100_000)) {
                Ok(Some((request, _))) => Ok(request.body),
                Ok(None) => panic!("{head} is complete"),
                Err(Refused(status)) => Err(status),
            }
        };
        assert_eq!(head("PUT", "Content-Length: 100000\r\n"), Ok(100_000));
        assert_eq!(head("POST", "Content-Length: 0\r\n"), Ok(0));
        assert_eq!(head("PUT", "Content-Length: 100001\r\n"), Err(413));
        assert_eq!(head("GET", "Content-Length: 100000\r\n"), Err(413));
        assert_eq!(head("PUT", ""), Err(411));
        assert_eq!(head("POST", "Transfer-Encoding: chunked\r\n"), Err(501));
        let sized = |field: &str| head("PUT", &format!("Content-Length: 1\r\n{field}\r\n"));
        assert_eq!(sized("Content-Range: bytes 0-0/2"), Err(400));
        assert_eq!(sized("Content-Encoding: gzip"), Err(415));
        assert_eq!(sized("Content-Encoding: Identity"), Ok(1));
        assert_eq!(head("DELETE", ""), Err(405));
    }

    #[test]
    fn heads_without_end_are_refused() {
        let long = "a".repeat(MAX_HEAD);
        assert_eq!(refused(&format!("GET /{long}")), Some(414));
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\nX: {long}")), Some(431));
        let fields = "X: y\r\n".repeat(101);
        assert_eq!(
            refused(&format!("GET / HTTP/1.1\r\n{fields}\r\n")),
            Some(431)
        );
    }
}
