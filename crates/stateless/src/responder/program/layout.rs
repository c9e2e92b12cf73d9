//! What the program and this process both know: sizes, and how settings and texts stand in memory. The other
//! half is in `bpf/responder.h`.
//!
//! They are written number by number, as bytes: so nothing that the compiler lays out is handed to the kernel.

use crate::responder::objects::{MAX_OBJECTS, MAX_PATH};
use crate::responder::settings::{CloseStyle, MAX_RANGES, Settings};
use crate::responder::tables::{FIRST_OBJECT, Object};

/// Status lines that there is room for, by status: below this.
pub(super) const MAX_STATUS: u32 = 600;
/// Most bodies.
pub(super) const MAX_BODIES: usize = FIRST_OBJECT + MAX_OBJECTS;
/// Bytes of a body that the program knows.
pub(super) const BODY_SIZE: usize = 2048;
/// Longest status line, in bytes.
pub(super) const LINE_SIZE: usize = 48;
/// Longest header fields of an object, in bytes.
pub(super) const FIELDS_SIZE: usize = 208;
/// Broadcast addresses that the program can know.
const MAX_BROADCASTS: usize = 8;
/// Counters that the program can have.
pub(super) const COUNTER_SLOTS: usize = 32;

const LENGTH: usize = size_of::<u64>();
const CONFIG_SIZE: usize = 104;
const OBJECT_SIZE: usize = 2 * size_of::<u32>() + LENGTH + FIELDS_SIZE;
/// A word is read from any offset, so there is one more than is used.
const BODY_ROOM: usize = BODY_SIZE + 8;

/// `struct config`.
pub(super) type Config = [u8; CONFIG_SIZE];
/// `struct line`.
pub(super) type LineValue = [u8; LENGTH + LINE_SIZE];
/// `struct body`.
pub(super) type BodyValue = [u8; LENGTH + BODY_ROOM];
/// `struct object`.
pub(super) type ObjectValue = [u8; OBJECT_SIZE];
/// `struct path`: with a zero behind it.
pub(super) type PathKey = [u8; MAX_PATH + 1];
/// `struct counts`.
pub(super) type CountsValue = [u64; COUNTER_SLOTS];

/// A structure of C, written from its first byte on. What does not fit is cut off.
struct Writer<const SIZE: usize> {
    bytes: [u8; SIZE],
    at: usize,
}

impl<const SIZE: usize> Writer<SIZE> {
    const fn new() -> Self {
        Self {
            bytes: [0; SIZE],
            at: 0,
        }
    }

    /// A field of `size` bytes that begins with `bytes`, and goes on with zeros.
    fn field(mut self, size: usize, bytes: &[u8]) -> Self {
        let field = self.bytes[self.at..].iter_mut().take(size);
        for (to, from) in field.zip(bytes) {
            *to = *from;
        }
        self.at += size;
        self
    }

    fn all(self, bytes: &[u8]) -> Self {
        self.field(bytes.len(), bytes)
    }

    fn byte(self, value: impl Into<u8>) -> Self {
        self.all(&[value.into()])
    }

    fn half(self, value: u16) -> Self {
        self.all(&value.to_ne_bytes())
    }

    fn word(self, value: u32) -> Self {
        self.all(&value.to_ne_bytes())
    }

    /// A length, and a place of `size` bytes with the text.
    fn text(self, size: usize, text: &[u8]) -> Self {
        self.all(&(text.len() as u64).to_ne_bytes())
            .field(size, text)
    }

    /// The bytes, all of which have been written.
    fn end(self) -> [u8; SIZE] {
        debug_assert_eq!(self.at, SIZE);
        self.bytes
    }
}

pub(super) fn config(settings: &Settings) -> Config {
    let mut writer = Writer::new().all(&settings.key);
    for index in 0..MAX_RANGES {
        let range = settings.ports.get(index);
        let (first, last) = range.map_or((0, 0), |range| (*range.start(), *range.end()));
        writer = writer.half(first).half(last);
    }
    writer = writer
        .word(settings.ports.len().min(MAX_RANGES) as u32)
        .word(settings.max_body())
        .word(settings.default_size);
    for ipv6 in [false, true] {
        writer = writer.half(settings.segment(ipv6));
    }
    for ipv6 in [false, true] {
        writer = writer.half(settings.announced(ipv6));
    }
    for index in 0..MAX_BROADCASTS {
        let address = settings.broadcasts.get(index);
        writer = writer.all(&address.map_or([0; 4], |address| address.octets()));
    }
    writer
        .byte(settings.strict)
        .byte(settings.close == CloseStyle::Reset)
        .byte(settings.partial_checksums)
        .byte(settings.loopback)
        .end()
}

pub(super) fn line(line: &str) -> LineValue {
    Writer::new().text(LINE_SIZE, line.as_bytes()).end()
}

/// The first [`BODY_SIZE`] bytes of a body.
pub(super) fn body(body: &[u8]) -> BodyValue {
    let known = &body[..body.len().min(BODY_SIZE)];
    Writer::new().text(BODY_ROOM, known).end()
}

pub(super) fn object(object: &Object) -> ObjectValue {
    Writer::new()
        .word(object.status)
        .word(object.body as u32)
        .text(FIELDS_SIZE, object.fields.as_bytes())
        .end()
}

pub(super) fn path(path: &str) -> PathKey {
    Writer::new().field(MAX_PATH + 1, path.as_bytes()).end()
}
