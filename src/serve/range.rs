//! Byte ranges (RFC 9110, section 14).

/// At most so many ranges are answered in one response; a request for more gets the whole file.
const MAX_RANGES: usize = 32;

/// A part of a file: `first..=last`, both within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte.
    pub last: u64,
}

impl ByteRange {
    /// The number of bytes in it.
    pub fn length(self) -> u64 {
        self.last - self.first + 1
    }
}

/// What a Range header asks of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// The whole: the header is malformed, of an unknown unit, or asks for more than it is worth.
    Whole,
    /// These parts, in this order: at least one.
    Parts(Vec<ByteRange>),
    /// Only parts that the file does not have: 416.
    Unsatisfiable,
}

/// Reads the value of a Range header for a file of `size` bytes.
pub fn parse(value: &str, size: u64) -> Asked {
    let Some((unit, set)) = value.split_once('=') else {
        return Asked::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Asked::Whole;
    }
    let mut parts = Vec::new();
    let mut specified = 0;
    for spec in set
        .split(',')
        .map(str::trim)
        .filter(|spec| !spec.is_empty())
    {
        specified += 1;
        match part(spec, size) {
            Err(Malformed) => return Asked::Whole,
            Ok(None) => {}
            Ok(Some(range)) => parts.push(range),
        }
    }
    // Overlapping ranges that add up to more than the file are an attack or a mistake (section
    // 14.2 lets us answer with the whole).
    let wanted = parts
        .iter()
        .fold(0_u64, |sum, range| sum.saturating_add(range.length()));
    match parts.len() {
        _ if specified == 0 || specified > MAX_RANGES => Asked::Whole,
        0 => Asked::Unsatisfiable,
        1 => Asked::Parts(parts),
        _ if wanted > size => Asked::Whole,
        _ => Asked::Parts(parts),
    }
}

struct Malformed;

/// One range of the set, cut to the file; `None` if the file has none of it.
fn part(spec: &str, size: u64) -> Result<Option<ByteRange>, Malformed> {
    let (first, last) = spec.split_once('-').ok_or(Malformed)?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number too large for 64 bits is beyond the end of any file.
        digits
            .then(|| text.parse::<u64>().unwrap_or(u64::MAX))
            .ok_or(Malformed)
    };
    if first.is_empty() {
        let suffix = number(last)?.min(size);
        return Ok((suffix > 0).then(|| ByteRange {
            first: size - suffix,
            last: size - 1,
        }));
    }
    let first = number(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        number(last)?
    };
    if last < first {
        return Err(Malformed);
    }
    Ok((first < size).then(|| ByteRange {
        first,
        last: last.min(size - 1),
    }))
}

#[cfg(test)]
mod tests {
    use super::{Asked, ByteRange, parse};

    fn parts(ranges: &[(u64, u64)]) -> Asked {
        let range = |&(first, last)| ByteRange { first, last };
        Asked::Parts(ranges.iter().map(range).collect())
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        assert_eq!(parse("bytes=0-99", 1000), parts(&[(0, 99)]));
        assert_eq!(parse("bytes=900-", 1000), parts(&[(900, 999)]));
        assert_eq!(parse("bytes=-100", 1000), parts(&[(900, 999)]));
        assert_eq!(parse("bytes=0-5000", 1000), parts(&[(0, 999)]));
        assert_eq!(parse("bytes=-5000", 1000), parts(&[(0, 999)]));
        assert_eq!(parse("Bytes = 0-0 , 2-3", 1000), parts(&[(0, 0), (2, 3)]));
        assert_eq!(
            parse("bytes=5-99999999999999999999999", 10),
            parts(&[(5, 9)])
        );
    }

    #[test]
    fn what_the_file_does_not_have_is_unsatisfiable() {
        for (value, size) in [
            ("bytes=1000-", 1000),
            ("bytes=-0", 1000),
            ("bytes=0-", 0),
            ("bytes=-5", 0),
        ] {
            assert_eq!(
                parse(value, size),
                Asked::Unsatisfiable,
                "{value} of {size}"
            );
        }
        assert_eq!(parse("bytes=2000-2001,5-6", 1000), parts(&[(5, 6)]));
    }

    #[test]
    fn malformed_or_excessive_headers_get_the_whole() {
        let many = format!("bytes={}", "0-0,".repeat(100));
        for value in [
            "",
            "bytes",
            "lines=1-2",
            "bytes=",
            "bytes=a-b",
            "bytes=5-4",
            "bytes=--1",
            "bytes=+1-2",
            "bytes=0-,0-,0-",
            &many,
        ] {
            assert_eq!(parse(value, 1000), Asked::Whole, "{value}");
        }
    }
}
