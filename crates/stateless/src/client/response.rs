//! What is answered: where a response ends, told from its bytes.

/// Longest head of a response.
pub const MAX_HEAD: usize = 16 * 1024;
/// Most header lines.
const MAX_HEADERS: usize = 64;

/// How the end of a body is known (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// In chunks, the last of which is empty.
    Chunked,
    /// When the server closes the connection.
    UntilClose,
}

/// The head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Bytes up to and including the blank line.
    pub length: usize,
    /// The status, 100 to 999.
    pub status: u16,
    /// How the body ends.
    pub framing: Framing,
    /// Whether the server will close the connection behind it.
    pub close: bool,
}

/// The bytes are not the head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAHead;

/// Reads the head at the front of `bytes`; `None` if its blank line is still to come.
///
/// # Errors
/// If it cannot become one, is longer than [`MAX_HEAD`], or says two things of its length.
pub fn parse_head(bytes: &[u8], head_only: bool) -> Result<Option<Head>, NotAHead> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD => return Ok(None),
        _ => return Err(NotAHead),
    };
    let status = response.code.ok_or(NotAHead)?;
    let mut framing = Framing::UntilClose;
    // RFC 9112 section 9.3.
    let mut close = response.version == Some(0);
    for field in response.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            let said = std::str::from_utf8(field.value).map_err(|_| NotAHead)?;
            let said = Framing::Length(said.trim().parse().map_err(|_| NotAHead)?);
            match framing {
                Framing::Length(_) if framing != said => return Err(NotAHead),
                Framing::Chunked => {}
                _ => framing = said,
            }
        } else if field.name.eq_ignore_ascii_case("connection") {
            for option in field.value.split(|byte| *byte == b',') {
                let option = option.trim_ascii();
                close |= option.eq_ignore_ascii_case(b"close");
                close &= !option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if !field.value.eq_ignore_ascii_case(b"chunked") {
                return Err(NotAHead);
            }
            framing = Framing::Chunked;
        }
    }
    if head_only || status < 200 || status == 204 || status == 304 {
        framing = Framing::Length(0);
    }
    Ok(Some(Head {
        length,
        status,
        framing,
        close,
    }))
}

/// Heads seen last: most responses begin like an earlier one, and comparing is an order of
/// magnitude cheaper than reading.
#[derive(Debug, Default)]
pub(super) struct HeadCache {
    entries: [Option<(Vec<u8>, Head)>; Self::SIZE],
}

impl HeadCache {
    const SIZE: usize = 16;

    /// As [`parse_head`]; `pattern` says which of the heads seen last it may equal.
    #[inline]
    pub(super) fn parse(
        &mut self,
        bytes: &[u8],
        pattern: usize,
        head_only: bool,
    ) -> Result<Option<Head>, NotAHead> {
        let entry = &mut self.entries[pattern % Self::SIZE];
        if let Some((text, head)) = entry
            && bytes.starts_with(text)
        {
            return Ok(Some(*head));
        }
        let head = parse_head(bytes, head_only)?;
        if let Some(head) = head {
            *entry = Some((bytes[..head.length].to_vec(), head));
        }
        Ok(head)
    }
}

/// Where in a chunked body the bytes so far ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunks {
    /// In the line that says how long the chunk is.
    Size { sum: u64, extension: bool },
    /// In the chunk.
    Data(u64),
    /// In the line end behind the chunk; how many of its bytes are still to come.
    DataEnd(u8),
    /// In the trailer, at this column of a line.
    Trailer(u32),
    /// Behind it all.
    End,
}

impl Chunks {
    pub(super) const START: Chunks = Chunks::Size {
        sum: 0,
        extension: false,
    };

    /// Takes bytes of the body; `each` gets what is in the chunks. Returns how many bytes belong
    /// to this body.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<usize, NotAHead> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            *self = match *self {
                Chunks::End => break,
                Chunks::Data(left) => {
                    let here = left.min((bytes.len() - at) as u64);
                    each(&bytes[at..at + here as usize]);
                    at += here as usize;
                    if here == left {
                        *self = Chunks::DataEnd(2);
                    } else {
                        *self = Chunks::Data(left - here);
                    }
                    continue;
                }
                Chunks::DataEnd(2) if byte == b'\r' => Chunks::DataEnd(1),
                Chunks::DataEnd(1) if byte == b'\n' => Chunks::START,
                Chunks::DataEnd(_) => return Err(NotAHead),
                Chunks::Size { sum: 0, .. } if byte == b'\n' => Chunks::Trailer(0),
                Chunks::Size { sum, .. } if byte == b'\n' => Chunks::Data(sum),
                Chunks::Size { sum, extension } => match (byte as char).to_digit(16) {
                    Some(digit) if !extension => Chunks::Size {
                        sum: sum
                            .checked_mul(16)
                            .and_then(|sum| sum.checked_add(digit.into()))
                            .ok_or(NotAHead)?,
                        extension,
                    },
                    _ => Chunks::Size {
                        sum,
                        extension: true,
                    },
                },
                Chunks::Trailer(0) if byte == b'\n' => Chunks::End,
                Chunks::Trailer(_) if byte == b'\n' => Chunks::Trailer(0),
                Chunks::Trailer(column) if byte == b'\r' => Chunks::Trailer(column),
                Chunks::Trailer(column) => Chunks::Trailer(column.saturating_add(1)),
            };
            at += 1;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(text: &str) -> Result<Option<Head>, NotAHead> {
        parse_head(text.as_bytes(), false)
    }

    #[test]
    fn heads_say_where_the_body_ends() {
        let ok = "HTTP/1.1 200 OK\r\n";
        for (lines, framing) in [
            ("Content-Length: 12\r\n", Framing::Length(12)),
            ("content-length: 0\r\n", Framing::Length(0)),
            ("Transfer-Encoding: chunked\r\n", Framing::Chunked),
            ("Server: x\r\n", Framing::UntilClose),
        ] {
            let text = format!("{ok}{lines}\r\nbody");
            let head = head(&text).unwrap().unwrap();
            assert_eq!((head.status, head.framing), (200, framing));
            assert_eq!(&text[head.length..], "body");
            for cut in 0..head.length {
                assert_eq!(parse_head(&text.as_bytes()[..cut], false), Ok(None));
            }
        }
        let head_only = parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true);
        assert_eq!(head_only.unwrap().unwrap().framing, Framing::Length(0));
        let unchanged = head("HTTP/1.1 304 Not Modified\r\n\r\n").unwrap().unwrap();
        assert_eq!(unchanged.framing, Framing::Length(0));
    }

    #[test]
    fn heads_say_whether_the_server_will_close() {
        for (text, close) in [
            ("HTTP/1.1 200 OK\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nconnection: x, Close\r\n\r\n", true),
            ("HTTP/1.0 200 OK\r\n\r\n", true),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", false),
        ] {
            assert_eq!(head(text).unwrap().unwrap().close, close, "{text}");
        }
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for text in [
            "SSH-2.0-x\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        ] {
            assert_eq!(head(text), Err(NotAHead), "{text}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(MAX_HEAD));
        assert_eq!(head(&endless), Err(NotAHead));
    }

    #[test]
    fn a_cached_head_is_the_one_that_was_parsed() {
        let mut cache = HeadCache::default();
        for (text, length) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 5),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nworld", 5),
            ("HTTP/1.1 200 OK\r\nContent-Length: 55\r\n\r\nworld", 55),
        ] {
            let head = cache.parse(text.as_bytes(), 3, false).unwrap().unwrap();
            assert_eq!(head.framing, Framing::Length(length));
        }
    }

    proptest! {
        #[test]
        fn chunks_end_where_they_end_however_they_are_cut(
            pieces in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 1..40), 0..5),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
            trailer: bool,
        ) {
            let mut text = Vec::new();
            for piece in &pieces {
                text.extend(format!("{:x};ext\r\n", piece.len()).bytes());
                text.extend(piece);
                text.extend(b"\r\n");
            }
            text.extend(b"0\r\n");
            if trailer {
                text.extend(b"X-Sum: 1\r\n");
            }
            text.extend(b"\r\n");
            let end = text.len();
            text.extend(b"HTTP/1.1");
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len())).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            let (mut chunks, mut body, mut taken, mut from) = (Chunks::START, Vec::new(), 0, 0);
            for cut in cuts {
                taken += chunks.take(&text[from..cut], |data| body.extend_from_slice(data)).unwrap();
                from = cut;
            }
            prop_assert_eq!(taken, end);
            prop_assert_eq!(chunks, Chunks::End);
            prop_assert_eq!(body, pieces.concat());
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_head(&bytes, false);
            let mut chunks = Chunks::START;
            if let Ok(taken) = chunks.take(&bytes, |_| ()) {
                prop_assert!(taken <= bytes.len());
            }
        }
    }
}
