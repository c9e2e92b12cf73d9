//! What the responder's program and this process both know. The other half is in
//! `bpf/responder.h`.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// Most ranges of ports.
pub const MAX_RANGES: usize = 8;
/// Most bodies.
pub const MAX_BODIES: usize = 76;
/// Most objects.
pub const MAX_OBJECTS: usize = 64;
/// Bytes of a body that the program knows.
pub const BODY_SIZE: usize = 2048;
/// Longest status line, in bytes.
pub const LINE_SIZE: usize = 48;
/// Longest path of an object, in bytes.
pub const PATH_SIZE: usize = 63;
/// Longest header fields of an object, in bytes.
pub const FIELDS_SIZE: usize = 208;
/// Broadcast addresses that the program can know.
pub const MAX_BROADCASTS: usize = 8;
/// Counters that the program can have.
pub const COUNTER_SLOTS: usize = 32;

/// What the program is told at its start.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// The secret of the hash.
    pub key: [u8; 16],
    /// The ports served, at most [`MAX_RANGES`].
    pub ports: Vec<RangeInclusive<u16>>,
    /// Largest body that is promised, in bytes.
    pub max_body: u32,
    /// Bytes of body that `/` has.
    pub default_size: u32,
    /// Largest segment to send, in bytes, by family: IPv4, IPv6.
    pub segment: [u16; 2],
    /// The MSS to announce, in bytes, by family.
    pub announced: [u16; 2],
    /// Broadcast addresses of the interface, the first [`MAX_BROADCASTS`] of which nothing is
    /// answered.
    pub broadcasts: Vec<Ipv4Addr>,
    /// Whether the interface is the loopback.
    pub loopback: bool,
    /// Whether acknowledgements must be in the window.
    pub strict: bool,
    /// Whether connections end by a reset.
    pub reset: bool,
    /// Whether a TCP checksum may be that of the pseudo-header alone.
    pub partial_checksums: bool,
    /// Status lines by status, each at most [`LINE_SIZE`] bytes.
    pub lines: Vec<String>,
    /// Bodies by number. Of each, the program knows the first [`BODY_SIZE`] bytes.
    pub bodies: Vec<Vec<u8>>,
    /// Fixed objects.
    pub objects: Vec<FixedObject>,
}

/// A fixed object.
#[derive(Debug, Clone, Default)]
pub struct FixedObject {
    /// Its path, at most [`PATH_SIZE`] bytes.
    pub path: String,
    /// Its status.
    pub status: u32,
    /// Header fields of its own, at most [`FIELDS_SIZE`] bytes.
    pub fields: String,
    /// The number of its body.
    pub body: u32,
}

/// `struct config`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Config {
    key: [u8; 16],
    ranges: [[u16; 2]; MAX_RANGES],
    range_count: u32,
    max_body: u32,
    default_size: u32,
    segment: [u16; 2],
    announced: [u16; 2],
    broadcasts: [[u8; 4]; MAX_BROADCASTS],
    strict: u8,
    reset: u8,
    partial: u8,
    loopback: u8,
}

impl Config {
    pub fn new(setup: &Setup) -> Self {
        let mut ranges = [[0; 2]; MAX_RANGES];
        for (to, from) in ranges.iter_mut().zip(&setup.ports) {
            *to = [*from.start(), *from.end()];
        }
        let mut broadcasts = [[0; 4]; MAX_BROADCASTS];
        for (to, from) in broadcasts.iter_mut().zip(&setup.broadcasts) {
            *to = from.octets();
        }
        Self {
            key: setup.key,
            ranges,
            range_count: setup.ports.len().min(MAX_RANGES) as u32,
            max_body: setup.max_body,
            default_size: setup.default_size,
            segment: setup.segment,
            announced: setup.announced,
            strict: setup.strict.into(),
            reset: setup.reset.into(),
            partial: setup.partial_checksums.into(),
            broadcasts,
            loopback: setup.loopback.into(),
        }
    }
}

/// Bytes with their length, in a place of fixed size: `struct line`, `struct body`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<const SIZE: usize> {
    length: u64,
    bytes: [u8; SIZE],
}

pub(super) type Line = Text<LINE_SIZE>;
/// The word behind it is read, and not used.
pub(super) type Body = Text<{ BODY_SIZE + 8 }>;

impl<const SIZE: usize> Text<SIZE> {
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = [0; SIZE];
        for (to, from) in bytes.iter_mut().zip(text) {
            *to = *from;
        }
        Self {
            length: text.len() as u64,
            bytes,
        }
    }
}

/// `struct object`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Object {
    status: u32,
    body: u32,
    fields: Text<FIELDS_SIZE>,
}

impl Object {
    pub fn new(object: &FixedObject) -> Self {
        Self {
            status: object.status,
            body: object.body,
            fields: Text::new(object.fields.as_bytes()),
        }
    }
}

/// `struct path`.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub(super) struct Path([u8; PATH_SIZE + 1]);

impl Path {
    pub fn new(path: &str) -> Self {
        let mut bytes = [0; PATH_SIZE + 1];
        for (to, from) in bytes.iter_mut().zip(path.bytes()) {
            *to = from;
        }
        Self(bytes)
    }
}

/// `struct counts`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts(pub [u64; COUNTER_SLOTS]);

// SAFETY: integers only, 80 bytes without padding.
unsafe impl aya::Pod for Config {}
const _: () = assert!(size_of::<Config>() == 104);
// SAFETY: integers only, without padding: a multiple of eight bytes.
unsafe impl aya::Pod for Line {}
// SAFETY: as above.
unsafe impl aya::Pod for Body {}
// SAFETY: as above.
unsafe impl aya::Pod for Object {}
const _: () = assert!(size_of::<Object>() == 16 + FIELDS_SIZE);
// SAFETY: bytes only.
unsafe impl aya::Pod for Path {}
// SAFETY: integers only, without padding.
unsafe impl aya::Pod for Counts {}
