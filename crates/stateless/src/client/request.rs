//! What is asked for: the requests, all padded to one length.
//!
//! The length is what makes the client stateless: after `k` requests the server acknowledges
//! exactly `k` lengths beyond the client's initial sequence number, which can be computed, so an
//! acknowledgement says how many requests the server has.

use super::walk::mix;

/// Longest request, in bytes, padding included.
pub const MAX_LENGTH: usize = 1300;
/// Most patterns.
pub const MAX_PATTERNS: usize = 1024;
/// The shortest header that pads.
const PAD: usize = "X-Pad: \r\n".len();
/// Places in the table from which patterns are drawn.
const DRAWS: u32 = 4096;

/// What every request has in common.
#[derive(Debug, Clone, Default)]
pub struct Common {
    /// The Host header.
    pub host: String,
    /// Further headers, each `Name: value`.
    pub headers: Vec<String>,
    /// Ask for heads only.
    pub head_only: bool,
}

/// A path, and how often it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// Path and query.
    pub path: String,
    /// Its share, in proportion to the others'.
    pub weight: f64,
}

/// Why there can be no such requests.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// A path, host or header that would not be one line.
    #[error("{0:?} holds a control character or (in a path) a space: it would be no request")]
    NotOneLine(String),
    /// A header without its colon.
    #[error("{0:?} is no header: write \"Name: value\"")]
    NoHeader(String),
    /// The client decides this.
    #[error("the header {0} is the client's own: it follows from the other options")]
    Ours(String),
    /// Too long for a segment.
    #[error("a request of {0} bytes: at most {MAX_LENGTH} fit a segment")]
    TooLong(usize),
    /// None, too many, or weights that are no weights.
    #[error("between 1 and {MAX_PATTERNS} paths, with weights above 0, are needed")]
    Patterns,
}

/// The requests of a load.
#[derive(Debug, Clone)]
pub struct Requests {
    length: usize,
    /// Per pattern: as it is sent in a connection, and as it is sent last.
    texts: Vec<[Vec<u8>; 2]>,
    /// Which pattern each draw gives.
    draws: Vec<u16>,
    head_only: bool,
}

impl Requests {
    /// Writes the requests.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn new(common: &Common, patterns: &[Pattern]) -> Result<Self, RequestError> {
        let weights_fit = patterns
            .iter()
            .all(|pattern| pattern.weight.is_finite() && pattern.weight > 0.0);
        if patterns.is_empty() || patterns.len() > MAX_PATTERNS || !weights_fit {
            return Err(RequestError::Patterns);
        }
        let mut texts = Vec::new();
        for pattern in patterns {
            texts.push([
                write(common, &pattern.path, false)?,
                write(common, &pattern.path, true)?,
            ]);
        }
        let lengths = || texts.iter().flatten().map(Vec::len);
        let longest = lengths().max().unwrap_or(0);
        // A header that pads has a least length.
        let close = lengths().any(|length| length < longest && longest - length < PAD);
        let length = if close { longest + PAD } else { longest };
        if length > MAX_LENGTH {
            return Err(RequestError::TooLong(length));
        }
        for text in texts.iter_mut().flatten() {
            pad(text, length);
        }
        Ok(Self {
            length,
            texts,
            draws: draws(patterns),
            head_only: common.head_only,
        })
    }

    /// Bytes of every request.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// How many patterns there are.
    pub fn patterns(&self) -> usize {
        self.texts.len()
    }

    /// Whether responses have no body.
    pub const fn head_only(&self) -> bool {
        self.head_only
    }

    /// The request of a pattern; the last of a connection asks the server to close it.
    pub fn text(&self, pattern: usize, last: bool) -> &[u8] {
        &self.texts[pattern][usize::from(last)]
    }

    /// Which pattern is asked for by request `index` of connection `connection`: the same whenever
    /// it is asked.
    #[inline]
    pub fn pattern_of(&self, connection: u64, index: u32) -> usize {
        if self.texts.len() == 1 {
            return 0;
        }
        let draw = mix(connection ^ u64::from(index).rotate_right(24)) as u32 % DRAWS;
        usize::from(self.draws[draw as usize])
    }
}

fn write(common: &Common, path: &str, last: bool) -> Result<Vec<u8>, RequestError> {
    let one_line = |text: &str| {
        if text.chars().any(char::is_control) {
            return Err(RequestError::NotOneLine(text.to_owned()));
        }
        Ok(())
    };
    one_line(path)?;
    one_line(&common.host)?;
    if path.contains(' ') {
        return Err(RequestError::NotOneLine(path.to_owned()));
    }
    let method = if common.head_only { "HEAD" } else { "GET" };
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", common.host);
    for header in &common.headers {
        one_line(header)?;
        let (name, _) = header
            .split_once(':')
            .ok_or_else(|| RequestError::NoHeader(header.clone()))?;
        let ours = ["connection", "x-pad", "content-length", "transfer-encoding"];
        if ours.iter().any(|own| name.trim().eq_ignore_ascii_case(own)) {
            return Err(RequestError::Ours(name.trim().to_owned()));
        }
        text += header;
        text += "\r\n";
    }
    if last {
        text += "Connection: close\r\n";
    }
    text += "\r\n";
    Ok(text.into_bytes())
}

/// Lengthens a request by a header, before its blank line.
fn pad(text: &mut Vec<u8>, length: usize) {
    let missing = length - text.len();
    if missing == 0 {
        return;
    }
    text.truncate(text.len() - 2);
    text.extend_from_slice(b"X-Pad: ");
    text.extend(std::iter::repeat_n(b'-', missing - PAD));
    text.extend_from_slice(b"\r\n\r\n");
}

fn draws(patterns: &[Pattern]) -> Vec<u16> {
    let total: f64 = patterns.iter().map(|pattern| pattern.weight).sum();
    let mut sum = 0.0;
    let mut draws = Vec::with_capacity(DRAWS as usize);
    for (index, pattern) in patterns.iter().enumerate() {
        sum += pattern.weight;
        let until = (sum / total * f64::from(DRAWS)).round() as usize;
        // Whatever has a weight is asked for, however small it is.
        let until = until.clamp(
            draws.len() + 1,
            DRAWS as usize - (patterns.len() - 1 - index),
        );
        draws.resize(until, index as u16);
    }
    draws.resize(DRAWS as usize, patterns.len() as u16 - 1);
    draws
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common() -> Common {
        Common {
            host: "server".into(),
            headers: vec!["Accept: */*".into()],
            head_only: false,
        }
    }

    fn pattern(path: &str, weight: f64) -> Pattern {
        Pattern {
            path: path.into(),
            weight,
        }
    }

    #[test]
    fn all_requests_are_requests_of_one_length() {
        let paths = ["/", "/a", "/longer/path?with=query", "/?s=100"];
        let patterns: Vec<_> = paths.iter().map(|path| pattern(path, 1.0)).collect();
        let requests = Requests::new(&common(), &patterns).unwrap();
        for (index, path) in paths.iter().enumerate() {
            for last in [false, true] {
                let text = requests.text(index, last);
                assert_eq!(text.len(), requests.length());
                let text = std::str::from_utf8(text).unwrap();
                assert!(text.starts_with(&format!("GET {path} HTTP/1.1\r\nHost: server\r\n")));
                assert!(text.ends_with("\r\n\r\n"));
                assert_eq!(text.matches("\r\n\r\n").count(), 1);
                assert_eq!(text.contains("Connection: close"), last);
            }
        }
    }

    #[test]
    fn patterns_come_by_their_weight_and_again_the_same() {
        let patterns = [
            pattern("/a", 9.0),
            pattern("/b", 1.0),
            pattern("/rare", 1e-9),
        ];
        let requests = Requests::new(&common(), &patterns).unwrap();
        let mut counts = [0; 3];
        for connection in 0..10_000 {
            for index in 0..10 {
                counts[requests.pattern_of(connection, index)] += 1;
            }
        }
        assert!((8_800..9_200).contains(&(counts[0] / 10)), "{counts:?}");
        assert!(counts[2] > 0 && counts[2] < 100, "{counts:?}");
        assert_eq!(requests.pattern_of(7, 3), requests.pattern_of(7, 3));
    }

    #[test]
    fn what_would_be_no_request_is_refused() {
        let one = [pattern("/", 1.0)];
        let with = |header: &str| {
            let mut common = common();
            common.headers.push(header.into());
            Requests::new(&common, &one).map(drop)
        };
        assert!(matches!(with("nonsense"), Err(RequestError::NoHeader(_))));
        assert!(matches!(
            with("A: b\r\nC: d"),
            Err(RequestError::NotOneLine(_))
        ));
        assert!(matches!(with("connection: x"), Err(RequestError::Ours(_))));
        assert!(matches!(
            with(&format!("A: {}", "b".repeat(1300))),
            Err(RequestError::TooLong(_))
        ));
        for path in ["/a b", "/a\n"] {
            assert!(Requests::new(&common(), &[pattern(path, 1.0)]).is_err());
        }
        for weight in [0.0, -1.0, f64::NAN] {
            assert!(Requests::new(&common(), &[pattern("/", weight)]).is_err());
        }
        assert!(Requests::new(&common(), &[]).is_err());
    }
}
