//! Where everything lies in a region.
//!
//! ```text
//!      0  header: magic, version, sizes and the offsets that follow from them
//!   1024  submission ring: produced        (host writes)
//!   1152  submission ring: consumed        (engine writes)
//!   1280  completion ring: produced        (engine writes)
//!   1408  completion ring: consumed        (host writes)
//!   1536  the engine's armed word          (engine arms, host takes)
//!   1664  the host's armed word            (host arms, engine takes)
//!   1792  who opens connections           (engine writes)
//!   1920  the core that the host runs on   (host writes)
//!   2048  when the host last accepted      (host writes)
//!   4096  submission entries, completion entries, positions, send area, receive area, each on a page
//!         of its own
//! ```
//!
//! Words that different sides write are 128 bytes apart: two cache lines, since processors fetch
//! them in pairs.
//!
//! A layout follows from its [`Sizes`] alone. The header states the offsets too, so that a reader
//! in another language need not compute them; ours computes them and refuses a header that states
//! others.

use crate::memory::Memory;
use crate::page::PAGE;
use crate::{Versions, Violation};
use core::sync::atomic::Ordering;

/// The bytes in which the engine hands out receive memory. A constant of the protocol.
pub const RECEIVE_CHUNK: u32 = 4096;

/// Pieces of the send area that one host may have under way on one connection, none right behind another.
/// An engine keeps an entry for each, and ends a connection whose queue is full; it has room for twice as
/// many, so that two processes may send on a connection, one after the other.
pub const MOST_PIECES: usize = 8192;

/// The first word of every region: "outboard" in ASCII, first letter lowest.
const MAGIC: u64 = u64::from_le_bytes(*b"outboard");

const MIN_ENTRIES: u32 = 2;
const MAX_ENTRIES: u32 = 1 << 16;
const MAX_POSITIONS: u32 = 1 << 24;
/// Neither area may be larger: offsets then fit in 36 bits with room to spare, and a mapping is
/// possible everywhere.
const MAX_AREA: u64 = 1 << 36;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 8;
const FIELDS_AT: usize = 16;
pub(crate) const SUBMISSION_PRODUCED_AT: usize = 1024;
pub(crate) const SUBMISSION_CONSUMED_AT: usize = 1152;
pub(crate) const COMPLETION_PRODUCED_AT: usize = 1280;
pub(crate) const COMPLETION_CONSUMED_AT: usize = 1408;
pub(crate) const ENGINE_ARMED_AT: usize = 1536;
pub(crate) const HOST_ARMED_AT: usize = 1664;
pub(crate) const OPENING_AT: usize = 1792;
pub(crate) const CORE_AT: usize = 1920;
pub(crate) const ACCEPTED_AT: usize = 2048;

const ENTRY_LEN: u64 = 32;
/// A position, and how a thread sleeps on that connection.
const PLACE_LEN: u64 = 16;

/// What an engine chooses about a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Entries of the submission ring: a power of two, 2 to 65,536.
    pub submission_entries: u32,
    /// Entries of the completion ring: a power of two, 2 to 65,536.
    pub completion_entries: u32,
    /// Words in which processes keep their [positions](crate::position), one for each place in the
    /// engine's table of connections: 1 to 16,777,216.
    pub positions: u32,
    /// Bytes of the send area: a multiple of 4,096, at least one, at most 64 GiB.
    pub send_len: u64,
    /// Bytes of the receive area: a multiple of [`RECEIVE_CHUNK`], at least one, at most 64 GiB.
    pub receive_len: u64,
}

impl Default for Sizes {
    /// What a server of some thousand connections is well served with; memory that is never
    /// touched is never allocated.
    fn default() -> Self {
        Self {
            submission_entries: 1024,
            completion_entries: 4096,
            positions: 65_536,
            send_len: 64 << 20,
            receive_len: 64 << 20,
        }
    }
}

/// A size that a region cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a region cannot have {value} as its {field}: {rule}")]
pub struct LayoutError {
    /// The name of the field in [`Sizes`].
    pub field: &'static str,
    /// Its value.
    pub value: u64,
    /// What it must be.
    pub rule: &'static str,
}

/// Where everything lies in a region of some [`Sizes`], in bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The version of the protocol that is spoken in it.
    pub version: u32,
    /// What it was computed from.
    pub sizes: Sizes,
    /// The entries of the submission ring.
    pub submission_at: u64,
    /// The entries of the completion ring.
    pub completion_at: u64,
    /// The positions.
    pub positions_at: u64,
    /// The send area.
    pub send_at: u64,
    /// The receive area.
    pub receive_at: u64,
    /// The bytes of the whole region.
    pub total_len: u64,
}

impl Layout {
    /// The layout that follows from `sizes`.
    ///
    /// # Errors
    /// A size is not possible.
    pub fn new(sizes: Sizes) -> Result<Self, LayoutError> {
        let entries = |field, value: u32| {
            if value.is_power_of_two() && (MIN_ENTRIES..=MAX_ENTRIES).contains(&value) {
                Ok(pages(u64::from(value) * ENTRY_LEN))
            } else {
                let rule = "it must be a power of two from 2 to 65536";
                Err(LayoutError {
                    field,
                    value: value.into(),
                    rule,
                })
            }
        };
        let area = |field, value: u64| {
            if value != 0 && value.is_multiple_of(PAGE as u64) && value <= MAX_AREA {
                Ok(value)
            } else {
                let rule = "it must be a multiple of 4096 from 4096 to 64 GiB";
                Err(LayoutError { field, value, rule })
            }
        };
        let submission_at = PAGE as u64;
        let completion_at =
            submission_at + entries("submission_entries", sizes.submission_entries)?;
        let positions_at = completion_at + entries("completion_entries", sizes.completion_entries)?;
        if !(1..=MAX_POSITIONS).contains(&sizes.positions) {
            return Err(LayoutError {
                field: "positions",
                value: sizes.positions.into(),
                rule: "it must be from 1 to 16777216",
            });
        }
        let send_at = positions_at + pages(u64::from(sizes.positions) * PLACE_LEN);
        let receive_at = send_at + area("send_len", sizes.send_len)?;
        let total_len = receive_at + area("receive_len", sizes.receive_len)?;
        Ok(Self {
            version: Versions::SPOKEN.newest,
            sizes,
            submission_at,
            completion_at,
            positions_at,
            send_at,
            receive_at,
            total_len,
        })
    }

    /// The same in a region in which another version is spoken.
    #[must_use]
    pub fn of_version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// The fields of the header in their order, with their names.
    fn fields(&self) -> [(&'static str, u64); 12] {
        [
            ("submission_entries", self.sizes.submission_entries.into()),
            ("completion_entries", self.sizes.completion_entries.into()),
            ("positions", self.sizes.positions.into()),
            ("send_len", self.sizes.send_len),
            ("receive_len", self.sizes.receive_len),
            ("receive_chunk", RECEIVE_CHUNK.into()),
            ("submission_at", self.submission_at),
            ("completion_at", self.completion_at),
            ("positions_at", self.positions_at),
            ("send_at", self.send_at),
            ("receive_at", self.receive_at),
            ("total_len", self.total_len),
        ]
    }

    /// Writes the header; the version comes last, and only it makes the rest valid.
    pub(crate) fn publish(&self, memory: &Memory) {
        memory.u64_at(MAGIC_AT).store(MAGIC, Ordering::Relaxed);
        for (i, (_, value)) in self.fields().into_iter().enumerate() {
            memory
                .u64_at(FIELDS_AT + 8 * i)
                .store(value, Ordering::Relaxed);
        }
        // Partner: the acquire in `read`.
        memory
            .u32_at(VERSION_AT)
            .store(self.version, Ordering::Release);
    }

    /// Reads the header of a region whose memory has exactly the size of `memory`, each word once,
    /// and believes nothing of it.
    pub(crate) fn read(memory: &Memory) -> Result<Self, Violation> {
        let size = memory.len() as u64;
        if size < PAGE as u64 {
            return Err(Violation::WrongSize {
                found: size,
                wanted: PAGE as u64,
            });
        }
        // Partner: the release in `publish`.
        let version = memory.u32_at(VERSION_AT).load(Ordering::Acquire);
        if !Versions::SPOKEN.has(version) {
            return Err(Violation::WrongVersion {
                found: version,
                wanted: Versions::SPOKEN.newest,
            });
        }
        let magic = memory.u64_at(MAGIC_AT).load(Ordering::Relaxed);
        if magic != MAGIC {
            return Err(Violation::WrongMagic { found: magic });
        }
        let found: [u64; 12] =
            core::array::from_fn(|i| memory.u64_at(FIELDS_AT + 8 * i).load(Ordering::Relaxed));
        // A count that does not fit in 32 bits becomes 0, which no ring may have.
        let sizes = Sizes {
            submission_entries: u32::try_from(found[0]).unwrap_or(0),
            completion_entries: u32::try_from(found[1]).unwrap_or(0),
            positions: u32::try_from(found[2]).unwrap_or(0),
            send_len: found[3],
            receive_len: found[4],
        };
        let layout = Self::new(sizes).map(|layout| layout.of_version(version));
        let layout =
            layout.map_err(
                |LayoutError { field, value, .. }| Violation::ImpossibleSize {
                    field,
                    found: value,
                },
            )?;
        for ((field, wanted), found) in layout.fields().into_iter().zip(found) {
            if found != wanted {
                return Err(Violation::WrongLayout {
                    field,
                    found,
                    wanted,
                });
            }
        }
        if layout.total_len != size {
            return Err(Violation::WrongSize {
                found: size,
                wanted: layout.total_len,
            });
        }
        Ok(layout)
    }
}

fn pages(len: u64) -> u64 {
    len.next_multiple_of(PAGE as u64)
}
