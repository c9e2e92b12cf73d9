//! What the target of a request asks for: the language of httpterm.
//!
//! `/?s=<size>&r=<status>…`, `/<size>`, `/` and `/?`; anything else is the path of an object.

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// A body made up of nothing.
    Made(Arguments),
    /// The list of what can be asked for.
    Help,
    /// A fixed object, by its path.
    Object(&'a [u8]),
    /// An argument that is not what it should be.
    Bad,
}

/// What the arguments say; what they leave unsaid is `None`, 0 or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arguments {
    /// `s`: bytes of body.
    pub size: Option<u32>,
    /// `r`: the status.
    pub status: Option<u32>,
    /// `c` below 1: not to be cached.
    pub uncacheable: bool,
    /// `C`: the connection ends.
    pub close: bool,
    /// `K`: it stays.
    pub keep_alive: bool,
    /// `k`: in chunks.
    pub chunked: bool,
    /// `b`: what Content-Length is to say.
    pub announced: Option<u32>,
    /// `e`: with an ETag.
    pub etag: bool,
    /// `R`: a body that does not compress.
    pub random: bool,
    /// `p`: bytes of a chunk, or of a segment; 0 for as many as fit.
    pub piece: u32,
    /// `t`: milliseconds of delay.
    pub delay: u32,
}

/// The part of a target behind scheme and authority; `None` if it has none that is served.
pub fn path_of(target: &[u8]) -> Option<&[u8]> {
    if target.first() == Some(&b'/') {
        return Some(target);
    }
    let rest = target.strip_prefix(b"http://")?;
    let slash = rest.iter().position(|byte| *byte == b'/')?;
    Some(&rest[slash..])
}

/// Reads a path, which begins with a slash.
pub fn read(path: &[u8]) -> Wanted<'_> {
    let question = path.iter().position(|byte| *byte == b'?');
    let (name, query) = match question {
        Some(at) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    };
    let mut arguments = Arguments::default();
    match name {
        b"/" => {}
        [b'/', digits @ ..] => match number(digits) {
            Some(size) => arguments.size = Some(size),
            None => return Wanted::Object(name),
        },
        _ => return Wanted::Object(name),
    }
    match query {
        Some(b"") => Wanted::Help,
        Some(query) if arguments.read(query).is_none() => Wanted::Bad,
        _ => Wanted::Made(arguments),
    }
}

impl Arguments {
    /// Takes up a query; `None` if a known argument has a value that is no number.
    fn read(&mut self, query: &[u8]) -> Option<()> {
        for argument in query.split(|byte| *byte == b'&') {
            let [key, b'=', value @ ..] = argument else {
                continue;
            };
            if b"srcCKkbeRpt".contains(key) {
                self.set(*key, number(value)?);
            }
        }
        Some(())
    }

    fn set(&mut self, key: u8, value: u32) {
        let yes = value != 0;
        match key {
            b's' => self.size = Some(value),
            b'r' => self.status = Some(value),
            b'c' => self.uncacheable = !yes,
            b'C' => self.close = yes,
            b'K' => self.keep_alive = yes,
            b'k' => self.chunked = yes,
            b'b' => self.announced = Some(value),
            b'e' => self.etag = yes,
            b'R' => self.random = yes,
            b'p' => self.piece = value,
            b't' => self.delay = value,
            _ => {}
        }
    }
}

/// Digits, and perhaps one k, m or g for powers of 1024. What is larger than 2^32 − 1 is that.
fn number(text: &[u8]) -> Option<u32> {
    let (shift, digits) = match text {
        [digits @ .., b'k'] => (10, digits),
        [digits @ .., b'm'] => (20, digits),
        [digits @ .., b'g'] => (30, digits),
        digits => (0, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = (value * 10 + u64::from(digit - b'0')).min(u64::from(u32::MAX));
    }
    Some((value << shift).min(u64::from(u32::MAX)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(path: &str) -> Arguments {
        match read(path.as_bytes()) {
            Wanted::Made(arguments) => arguments,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn sizes_have_units() {
        for (path, size) in [
            ("/0", 0),
            ("/17", 17),
            ("/?s=2k", 2048),
            ("/?s=3m", 3 << 20),
            ("/?s=3g", 3 << 30),
            ("/?s=4g", u32::MAX),
            ("/99999999999999999999", u32::MAX),
            ("/?s=1&s=2", 2),
            ("/5?s=6", 6),
        ] {
            assert_eq!(made(path).size, Some(size), "{path}");
        }
        assert_eq!(made("/").size, None);
    }

    #[test]
    fn every_argument_is_known() {
        let arguments = made("/?s=1&r=404&c=0&C=1&K=1&k=1&b=7&e=1&R=1&p=8&t=9&zz=1&_=x&=&q");
        let all = Arguments {
            size: Some(1),
            status: Some(404),
            uncacheable: true,
            close: true,
            keep_alive: true,
            chunked: true,
            announced: Some(7),
            etag: true,
            random: true,
            piece: 8,
            delay: 9,
        };
        assert_eq!(arguments, all);
        assert_eq!(made("/?c=1&C=0&K=0&k=0&e=0&R=0"), Arguments::default());
    }

    #[test]
    fn what_is_no_number_is_bad_and_what_is_no_argument_an_object() {
        for path in ["/?s=", "/?s=x", "/?s=1kk", "/?s=k", "/?r=-1"] {
            assert_eq!(read(path.as_bytes()), Wanted::Bad, "{path}");
        }
        for path in ["/a", "/1a", "//", "/1/"] {
            assert_eq!(
                read(path.as_bytes()),
                Wanted::Object(path.as_bytes()),
                "{path}"
            );
        }
        assert_eq!(read(b"/health?x=1"), Wanted::Object(b"/health"));
        assert_eq!(read(b"/?"), Wanted::Help);
        assert_eq!(path_of(b"http://host:80/a?b"), Some(&b"/a?b"[..]));
        assert_eq!(path_of(b"http://host"), None);
        assert_eq!(path_of(b"host:443"), None);
    }
}
