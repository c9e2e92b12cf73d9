//! The texts of responses, made once: status lines, bodies, objects.
//!
//! The program in the driver gets the same bytes in its maps ([`Tables`] says where they stand).

use super::settings::{MAX_BURST, MAX_BURST_BODY, Settings};

/// The numbers of the bodies.
pub const PATTERN: usize = 0;
/// A body that does not compress.
pub const RANDOM: usize = 1;
/// The first of [`Text`].
const FIRST_TEXT: usize = 2;
/// The first of the objects.
pub const FIRST_OBJECT: usize = FIRST_TEXT + Text::ALL.len();

/// Fixed answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// 400.
    BadRequest,
    /// 400: an argument.
    BadArgument,
    /// 404.
    NotFound,
    /// 414.
    TargetTooLong,
    /// 501: a method.
    Method,
    /// 501: a delay.
    Delay,
    /// 501: too large a body.
    TooLarge,
    /// 501: too many pieces.
    Pieces,
    /// 501: it cannot be made shorter to fit this client's segments or window.
    NoFit,
    /// The list of arguments.
    Help,
}

impl Text {
    /// All of them, in the order of their bodies.
    pub const ALL: [Self; 10] = [
        Self::BadRequest,
        Self::BadArgument,
        Self::NotFound,
        Self::TargetTooLong,
        Self::Method,
        Self::Delay,
        Self::TooLarge,
        Self::Pieces,
        Self::NoFit,
        Self::Help,
    ];

    /// Its status.
    pub const fn status(self) -> u32 {
        match self {
            Self::BadRequest | Self::BadArgument => 400,
            Self::NotFound => 404,
            Self::TargetTooLong => 414,
            Self::Method | Self::Delay | Self::TooLarge | Self::Pieces | Self::NoFit => 501,
            Self::Help => 200,
        }
    }

    /// The number of its body.
    pub const fn body(self) -> usize {
        FIRST_TEXT + self as usize
    }

    const fn bytes(self) -> &'static str {
        match self {
            Self::BadRequest => "not a request of HTTP/1.0 or HTTP/1.1\n",
            Self::BadArgument => "an argument is not a number in its range; see /?\n",
            Self::NotFound => "no such object; see /?\n",
            Self::TargetTooLong => "the target is longer than 255 bytes\n",
            Self::Method => "only GET and HEAD: nothing is kept\n",
            Self::Delay => "t=: a delay needs held packets; none is kept here\n",
            Self::TooLarge => "s=: larger than one burst of this mode\n",
            Self::Pieces => "p=: more than 8 chunks\n",
            Self::NoFit => "larger than your segments or window\n",
            Self::Help => HELP,
        }
    }
}

const HELP: &str = "outboard's stateless HTTP responder (the language of httpterm)
/?ARG=N&ARG=N...  /SIZE
s  bytes of body; k, m, g: powers of 1024
r  status, 200-599
c  0: not to be cached
C  1: close the connection
K  1: keep it (HTTP/1.0)
k  1: in chunks (HTTP/1.1)
p  bytes of a chunk, or segment
b  what Content-Length says
e  1: with an ETag
R  1: a body that does not compress
t  0: a delay is not possible (501)
";

/// A fixed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its path, with the slash.
    pub path: String,
    /// Its status: 200, or 302 for a redirect.
    pub status: u32,
    /// Header fields of its own, each with its line end.
    pub fields: String,
    /// The number of its body.
    pub body: usize,
}

/// All texts.
#[derive(Debug, Clone)]
pub struct Tables {
    /// Status lines by status, from 0 to 599; empty where there is none.
    lines: Vec<String>,
    /// Bodies by number.
    bodies: Vec<Vec<u8>>,
    objects: Vec<Object>,
}

impl Tables {
    /// The tables with some objects; each is a path, a status, header fields and a body.
    pub fn new(objects: impl IntoIterator<Item = (String, u32, String, Vec<u8>)>) -> Self {
        let mut bodies = vec![pattern(), random()];
        bodies.extend(Text::ALL.map(|text| text.bytes().as_bytes().to_vec()));
        let mut tables = Self {
            lines: (0..600).map(status_line).collect(),
            bodies,
            objects: Vec::new(),
        };
        for (path, status, fields, body) in objects {
            tables.objects.push(Object {
                path,
                status,
                fields,
                body: tables.bodies.len(),
            });
            tables.bodies.push(body);
        }
        tables
    }

    /// The same, but that refusals name the limits of these settings, and what to do about them.
    #[must_use]
    pub fn with_limits(mut self, settings: &Settings) -> Self {
        let most = settings.max_body();
        let (larger, fit) = if settings.bursts {
            (
                format!("s=: at most {most} bytes of body, one burst within your window\n"),
                "larger than your window; a body of s= alone is made shorter instead\n",
            )
        } else {
            (
                format!(
                    "s=: at most {most} bytes of body, one segment; \
                     outboard respond --mode afxdp takes {MAX_BURST_BODY}\n"
                ),
                "larger than your segment or window; outboard respond --mode afxdp takes several \
                 segments\n",
            )
        };
        self.bodies[Text::TooLarge.body()] = larger.into_bytes();
        self.bodies[Text::NoFit.body()] = fit.as_bytes().to_vec();
        self
    }

    /// Bytes of the body of a text.
    pub fn size(&self, text: Text) -> u32 {
        self.body(text.body()).len() as u32
    }

    /// The status line, with its end.
    pub fn line(&self, status: u32) -> &str {
        self.lines.get(status as usize).map_or("", String::as_str)
    }

    /// A body; empty if there is none of this number.
    pub fn body(&self, number: usize) -> &[u8] {
        self.bodies.get(number).map_or(&[], Vec::as_slice)
    }

    /// All bodies, in order.
    pub fn bodies(&self) -> &[Vec<u8>] {
        &self.bodies
    }

    /// All objects.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The object at a path.
    pub fn object(&self, path: &[u8]) -> Option<&Object> {
        self.objects
            .iter()
            .find(|object| object.path.as_bytes() == path)
    }
}

/// Lines of 64 bytes, so that a body that was cut or shifted shows it.
fn pattern() -> Vec<u8> {
    const LINE: &[u8; 64] = b".outboard.123456789.abcdefghijklmnopqrstuvwxyz.ABCDEFGHIJKLMNOP\n";
    LINE.iter().copied().cycle().take(MAX_BURST).collect()
}

/// The same at every start, so that its hash is known.
fn random() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut word = || {
        // Marsaglia's xorshift64.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..MAX_BURST).map(|_| word()).collect()
}

fn status_line(status: u32) -> String {
    if status < 200 {
        return String::new();
    }
    format!("HTTP/1.1 {status} {}\r\n", reason_phrase(status))
}

/// The phrases of RFC 9110, 15, and of the registry that people meet.
fn reason_phrase(status: u32) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Unassigned",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_at_their_numbers() {
        let object = ("/a".into(), 200, String::new(), b"A".to_vec());
        let tables = Tables::new([object]);
        for text in Text::ALL {
            assert_eq!(tables.body(text.body()), text.bytes().as_bytes());
            assert!(tables.line(text.status()).starts_with("HTTP/1.1 "));
        }
        assert_eq!(tables.body(FIRST_OBJECT), b"A");
        assert_eq!(tables.object(b"/a").map(|o| o.body), Some(FIRST_OBJECT));
        assert_eq!(tables.object(b"/b"), None);
    }

    #[test]
    fn the_program_has_room_for_every_line() {
        let tables = Tables::new([]);
        assert!((0..600).all(|status| tables.line(status).len() <= 48));
        assert!(Text::ALL.iter().all(|text| text.bytes().len() <= 600));
    }
}
