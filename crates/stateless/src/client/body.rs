//! Responses that are longer than a segment: how far each has come.
//!
//! A response that comes whole needs none of this. What comes in pieces has to be put in order
//! until its end, so for as long as it takes its connection stands in a table of bounded size.
//! What does not fit there is not acknowledged, and comes again.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use wire::seq::SeqNumber;

use super::response::{Chunks, Framing, Head, MAX_HEAD, NotAHead, parse_head};
use super::walk::mix;

/// How bodies are examined.
#[derive(Debug, Clone, Default)]
pub enum Verify {
    /// Not at all.
    #[default]
    Nothing,
    /// All bodies of a pattern must be the same.
    Same,
    /// The bodies of each pattern must be these.
    Bytes(Vec<Box<[u8]>>),
}

/// Examines the body of one response as its bytes come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Examination {
    offset: u64,
    hash: u64,
    wrong: bool,
}

/// Examines all bodies.
#[derive(Debug)]
pub(super) struct Examiner {
    how: Verify,
    /// Per pattern, what its first body was: hash and length.
    first: Vec<Option<(u64, u64)>>,
}

impl Examiner {
    pub(super) fn new(how: Verify, patterns: usize) -> Self {
        Self {
            how,
            first: vec![None; patterns],
        }
    }

    /// More bytes of a body.
    #[inline]
    pub(super) fn take(&self, at: &mut Examination, pattern: usize, bytes: &[u8]) {
        match &self.how {
            Verify::Nothing => {}
            Verify::Same => {
                for byte in bytes {
                    at.hash = (at.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
                }
            }
            Verify::Bytes(expected) => {
                let expected = expected.get(pattern).map_or(&[][..], |bytes| bytes);
                let from = usize::try_from(at.offset).unwrap_or(usize::MAX);
                let same = expected
                    .get(from..)
                    .is_some_and(|rest| rest.starts_with(bytes));
                at.wrong |= !same;
            }
        }
        at.offset += bytes.len() as u64;
    }

    /// The body is whole; whether it is what it has to be.
    #[inline]
    pub(super) fn judge(&mut self, at: Examination, pattern: usize) -> bool {
        match &self.how {
            Verify::Nothing => true,
            Verify::Same => {
                let this = (at.hash, at.offset);
                let first = self.first.get_mut(pattern);
                first.is_none_or(|first| *first.get_or_insert(this) == this)
            }
            Verify::Bytes(expected) => {
                let length = expected.get(pattern).map_or(0, |bytes| bytes.len());
                !at.wrong && at.offset == length as u64
            }
        }
    }
}

/// What is still to come of a response.
#[derive(Debug)]
enum Rest {
    /// The end of its head; this is the beginning.
    Head(Vec<u8>),
    /// Bytes.
    Length(u64),
    Chunked(Chunks),
    UntilClose,
}

/// A response of which a part has come.
#[derive(Debug)]
pub(super) struct Partial {
    /// The acknowledgement number that its segments carry: which request it answers.
    pub(super) asked: SeqNumber,
    /// Where it goes on.
    pub(super) expected: SeqNumber,
    /// Full segments that came since the last acknowledgement.
    pub(super) unacknowledged: u8,
    /// What the server's last timestamp was, and ours that it echoed.
    pub(super) timestamps: Option<(u32, u32)>,
    pub(super) body: Body,
}

/// What came of bytes of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// More is to come.
    More,
    /// It is whole.
    Whole {
        status: u16,
        /// Its body is what it has to be.
        right: bool,
        /// Bytes behind its end, to which no request was made.
        excess: usize,
        /// The server will close the connection.
        close: bool,
    },
}

/// What is the same for all bytes of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) pattern: usize,
    pub(super) head_only: bool,
}

/// Takes the body behind `head` as far as it is in `bytes`.
#[inline]
pub(super) fn begin(
    head: Head,
    bytes: &[u8],
    kind: Kind,
    examiner: &mut Examiner,
) -> Result<(Taken, Option<Body>), NotAHead> {
    if let Framing::Length(length) = head.framing
        && let Some(text) = usize::try_from(length)
            .ok()
            .and_then(|end| bytes.get(..end))
    {
        // All of it is here: the usual case.
        let mut examination = Examination::default();
        examiner.take(&mut examination, kind.pattern, text);
        let excess = bytes.len() - text.len();
        let taken = whole(
            (head.status, head.close),
            examination,
            excess,
            kind,
            examiner,
        );
        return Ok((taken, None));
    }
    let mut body = Body {
        status: head.status,
        close: head.close,
        rest: match head.framing {
            Framing::Length(length) => Rest::Length(length),
            Framing::Chunked => Rest::Chunked(Chunks::START),
            Framing::UntilClose => Rest::UntilClose,
        },
        examination: Examination::default(),
    };
    let taken = body.take(bytes, kind, examiner)?;
    let left = (taken == Taken::More).then_some(body);
    Ok((taken, left))
}

/// A body of which a part has come.
#[derive(Debug)]
pub(super) struct Body {
    status: u16,
    close: bool,
    rest: Rest,
    examination: Examination,
}

impl Body {
    /// A response of which not even the head is whole.
    pub(super) fn headless(beginning: &[u8]) -> Self {
        Self {
            status: 0,
            close: false,
            rest: Rest::Head(beginning.to_vec()),
            examination: Examination::default(),
        }
    }

    /// More of it, in order.
    #[inline]
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        kind: Kind,
        examiner: &mut Examiner,
    ) -> Result<Taken, NotAHead> {
        let used = match &mut self.rest {
            Rest::Head(beginning) => {
                if beginning.len() + bytes.len() > 2 * MAX_HEAD {
                    return Err(NotAHead);
                }
                beginning.extend_from_slice(bytes);
                let Some(head) = parse_head(beginning, kind.head_only)? else {
                    return Ok(Taken::More);
                };
                let text = std::mem::take(beginning);
                let (taken, left) = begin(head, &text[head.length..], kind, examiner)?;
                if let Some(left) = left {
                    *self = left;
                }
                return Ok(taken);
            }
            Rest::Length(left) => {
                let here = (*left).min(bytes.len() as u64);
                *left -= here;
                let here = here as usize;
                examiner.take(&mut self.examination, kind.pattern, &bytes[..here]);
                if *left > 0 {
                    return Ok(Taken::More);
                }
                here
            }
            Rest::Chunked(chunks) => {
                let examination = &mut self.examination;
                let used = chunks.take(bytes, |data| {
                    examiner.take(examination, kind.pattern, data);
                })?;
                if *chunks != Chunks::End {
                    return Ok(Taken::More);
                }
                used
            }
            Rest::UntilClose => {
                examiner.take(&mut self.examination, kind.pattern, bytes);
                return Ok(Taken::More);
            }
        };
        Ok(self.whole(bytes.len() - used, kind, examiner))
    }

    fn whole(&self, excess: usize, kind: Kind, examiner: &mut Examiner) -> Taken {
        let said = (self.status, self.close);
        whole(said, self.examination, excess, kind, examiner)
    }

    /// The server has closed the connection: whether that was the end of it.
    pub(super) fn ended(&self, kind: Kind, examiner: &mut Examiner) -> Option<Taken> {
        matches!(self.rest, Rest::UntilClose).then(|| self.whole(0, kind, examiner))
    }
}

/// A response that is whole, with its status and whether the connection ends behind it.
#[inline]
fn whole(
    (status, close): (u16, bool),
    examination: Examination,
    excess: usize,
    kind: Kind,
    examiner: &mut Examiner,
) -> Taken {
    // What is not successful need not have the body that was asked for.
    let judged = status < 300 && !kind.head_only;
    Taken::Whole {
        status,
        right: !judged || examiner.judge(examination, kind.pattern),
        excess,
        close,
    }
}

/// Hashes a connection's number.
#[derive(Debug, Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(number);
    }
}

/// The table of responses of which a part has come.
#[derive(Debug)]
pub(super) struct Partials {
    by_connection: HashMap<u64, Partial, BuildHasherDefault<NumberHasher>>,
    limit: usize,
}

impl Partials {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self {
            by_connection: HashMap::default(),
            limit,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_connection.is_empty()
    }

    pub(super) fn get_mut(&mut self, connection: u64) -> Option<&mut Partial> {
        self.by_connection.get_mut(&connection)
    }

    /// `false` if the table is full.
    pub(super) fn insert(&mut self, connection: u64, partial: Partial) -> bool {
        if self.by_connection.len() >= self.limit && !self.by_connection.contains_key(&connection) {
            return false;
        }
        self.by_connection.insert(connection, partial);
        true
    }

    pub(super) fn remove(&mut self, connection: u64) -> Option<Partial> {
        self.by_connection.remove(&connection)
    }
}
