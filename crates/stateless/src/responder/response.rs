//! From what is asked to the bytes of a response.
//!
//! A [`Plan`] is a response whose text is decided and whose length can be told without writing it.
//! What is written depends on the plan alone: there is no date, and nothing is random.

use super::language::{Arguments, Wanted};
use super::request::{Asked, Connection, Refusal, Request};
use super::settings::Settings;
use super::tables::{Object, PATTERN, RANDOM, Tables, Text};

/// Most chunks of a chunked body.
const MAX_CHUNKS: u32 = 8;

/// Bytes of the padding's header field without its value.
const PAD_FIELD: u32 = 9;

/// Bytes that are kept free for the padding.
pub const PAD_ROOM: u32 = 72;

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// By a Content-Length, which may lie.
    Length(u32),
    /// By chunks of as many bytes.
    Chunks(u32),
    /// There is no body.
    None,
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan<'t> {
    status: u32,
    /// "Connection: close" or "keep-alive", if it must be said.
    connection: Connection,
    uncacheable: bool,
    etag: Option<u32>,
    fields: &'t str,
    framing: Framing,
    body: usize,
    /// Bytes of body that the header speaks of.
    size: u32,
    head: bool,
    /// Whether the body may be made shorter.
    clippable: bool,
    /// Whether the connection ends with it.
    pub close: bool,
    /// Largest segment that is wanted, in bytes of payload; 0 for as large as possible.
    pub piece: u32,
}

impl<'t> Plan<'t> {
    /// The response to a request. `last` if the connection must end.
    pub fn new(request: &Request<'_>, last: bool, tables: &'t Tables, settings: &Settings) -> Self {
        let text = |text| Self::of_text(text, tables, request, last);
        match request.asked {
            Asked::Refused(Refusal::NotHttp) => text(Text::BadRequest),
            Asked::Refused(Refusal::TooLong) => text(Text::TargetTooLong),
            Asked::Refused(Refusal::Method) => text(Text::Method),
            Asked::Wanted(Wanted::Bad) => text(Text::BadArgument),
            Asked::Wanted(Wanted::Help) => text(Text::Help),
            Asked::Wanted(Wanted::Object(path)) => match tables.object(path) {
                Some(object) => Self::of_object(object, tables, request, last),
                None => text(Text::NotFound),
            },
            Asked::Wanted(Wanted::Made(arguments)) => {
                Self::made(&arguments, request, last, tables, settings)
            }
        }
    }

    /// Without a body of its own.
    fn bare(status: u32, request: &Request<'_>, close: bool) -> Self {
        Self {
            status,
            connection: match (close, request.is_11) {
                (true, _) => Connection::Close,
                (false, true) => Connection::Unsaid,
                (false, false) => Connection::KeepAlive,
            },
            uncacheable: false,
            etag: None,
            fields: "",
            framing: Framing::None,
            body: PATTERN,
            size: 0,
            head: request.head,
            clippable: false,
            close,
            piece: 0,
        }
    }

    /// A fixed text, its length cut to that of its body by [`fit`](Self::fit) if need be.
    fn of_text(text: Text, tables: &Tables, request: &Request<'_>, last: bool) -> Self {
        let close = last || ends_by_itself(request);
        let size = tables.size(text);
        Self {
            framing: Framing::Length(size),
            body: text.body(),
            size,
            clippable: true,
            ..Self::bare(text.status(), request, close)
        }
    }

    fn of_object(object: &'t Object, tables: &Tables, request: &Request<'_>, last: bool) -> Self {
        let close = last || ends_by_itself(request);
        let size = tables.body(object.body).len() as u32;
        Self {
            fields: &object.fields,
            framing: Framing::Length(size),
            body: object.body,
            size,
            ..Self::bare(object.status, request, close)
        }
    }

    fn made(
        arguments: &Arguments,
        request: &Request<'_>,
        last: bool,
        tables: &Tables,
        settings: &Settings,
    ) -> Self {
        let text = |text| Self::of_text(text, tables, request, last);
        let status = arguments.status.unwrap_or(200);
        let mut size = arguments.size.unwrap_or(settings.default_size);
        if arguments.delay != 0 {
            return text(Text::Delay);
        }
        if !(200..600).contains(&status) {
            return text(Text::BadArgument);
        }
        if size > settings.max_body() {
            return text(Text::TooLarge);
        }
        let mut close =
            last || arguments.close || (ends_by_itself(request) && !arguments.keep_alive);
        let chunked = arguments.chunked && request.is_11;
        let mut framing = Framing::Length(size);
        if status == 204 || status == 304 {
            size = 0;
            framing = Framing::None;
        } else if chunked {
            let chunk = match arguments.piece {
                0 => size,
                piece => piece.min(size),
            };
            if u64::from(chunk) * u64::from(MAX_CHUNKS) < u64::from(size) {
                return text(Text::Pieces);
            }
            framing = Framing::Chunks(chunk);
        } else if let Some(announced) = arguments.announced {
            framing = Framing::Length(announced);
            // The client cannot know where the body ends.
            close |= announced != size;
        }
        Self {
            uncacheable: arguments.uncacheable,
            etag: arguments.etag.then_some(size),
            framing,
            body: if arguments.random { RANDOM } else { PATTERN },
            size,
            clippable: framing == Framing::Length(size),
            piece: arguments.piece,
            ..Self::bare(status, request, close)
        }
    }

    /// Makes the response fit `room` bytes (padding not counted): a body that may be is made
    /// shorter, another is replaced by the reason. `None` if not even that fits; otherwise whether
    /// it was made shorter.
    pub fn fit(&mut self, room: u32, tables: &Tables) -> Option<bool> {
        if self.length(tables) <= room {
            return Some(false);
        }
        if !self.clippable {
            let size = tables.size(Text::NoFit);
            *self = Self {
                status: Text::NoFit.status(),
                uncacheable: false,
                etag: None,
                fields: "",
                framing: Framing::Length(size),
                body: Text::NoFit.body(),
                size,
                clippable: true,
                ..*self
            };
            if self.length(tables) <= room {
                return Some(true);
            }
        }
        let head = self.length(tables) - self.body_bytes();
        self.size = room.checked_sub(head)?.min(self.size);
        self.framing = Framing::Length(self.size);
        (self.length(tables) <= room).then_some(true)
    }

    /// Bytes of body that are sent.
    fn body_bytes(&self) -> u32 {
        if self.head { 0 } else { self.size }
    }

    /// Its length without padding, in bytes.
    pub fn length(&self, tables: &Tables) -> u32 {
        let mut length = tables.line(self.status).len() as u32 + 2;
        length += match self.connection {
            Connection::Unsaid => 0,
            Connection::Close => CLOSE.len() as u32,
            Connection::KeepAlive => KEEP_ALIVE.len() as u32,
        };
        if self.uncacheable {
            length += NO_STORE.len() as u32;
        }
        if let Some(etag) = self.etag {
            length += 10 + decimal_digits(etag);
        }
        length += self.fields.len() as u32;
        length += match self.framing {
            Framing::Length(size) => 18 + decimal_digits(size),
            Framing::Chunks(_) => CHUNKED.len() as u32,
            Framing::None => 0,
        };
        length += self.body_bytes();
        if let (Framing::Chunks(chunk), false) = (self.framing, self.head) {
            let mut left = self.size;
            while left > 0 {
                let bytes = chunk.min(left);
                length += 4 + hexadecimal_digits(bytes);
                left -= bytes;
            }
            length += 5;
        }
        length
    }

    /// Writes it, with `padding` bytes of padding, from 0 up to [`PAD_ROOM`].
    pub fn write(&self, padding: u32, tables: &Tables, out: &mut Vec<u8>) {
        let mut put = |text: &str| out.extend_from_slice(text.as_bytes());
        put(tables.line(self.status));
        match self.connection {
            Connection::Unsaid => {}
            Connection::Close => put(CLOSE),
            Connection::KeepAlive => put(KEEP_ALIVE),
        }
        if self.uncacheable {
            put(NO_STORE);
        }
        if let Some(etag) = self.etag {
            put(&format!("ETag: \"{etag}\"\r\n"));
        }
        put(self.fields);
        match self.framing {
            Framing::Length(size) => put(&format!("Content-Length: {size}\r\n")),
            Framing::Chunks(_) => put(CHUNKED),
            Framing::None => {}
        }
        if padding > 0 {
            put("X-Pad: ");
            out.extend((PAD_FIELD..padding).map(|_| b'x'));
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        if self.head {
            return;
        }
        let body = tables.body(self.body);
        let body = &body[..body.len().min(self.size as usize)];
        match self.framing {
            Framing::Chunks(chunk) => {
                for piece in body.chunks(chunk.max(1) as usize) {
                    out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                    out.extend_from_slice(piece);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"0\r\n\r\n");
            }
            _ => out.extend_from_slice(body),
        }
    }
}

const CLOSE: &str = "Connection: close\r\n";
const KEEP_ALIVE: &str = "Connection: keep-alive\r\n";
const NO_STORE: &str = "Cache-Control: no-store\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

/// Bytes of padding that can be made: none, or at least the field's.
pub const fn possible_padding(wanted: u32) -> u32 {
    if wanted == 0 || wanted >= PAD_FIELD {
        wanted
    } else {
        wanted + super::state::STEP
    }
}

/// Whether the connection ends if nobody says otherwise.
fn ends_by_itself(request: &Request<'_>) -> bool {
    match request.connection {
        Connection::Close => true,
        Connection::KeepAlive => false,
        Connection::Unsaid => !request.is_11,
    }
}

fn decimal_digits(value: u32) -> u32 {
    value.checked_ilog10().unwrap_or(0) + 1
}

fn hexadecimal_digits(value: u32) -> u32 {
    value.checked_ilog2().unwrap_or(0) / 4 + 1
}
