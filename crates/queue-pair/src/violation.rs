//! What the other side did that no honest one does.

/// A breach of the protocol by the other side of a region or control socket, with the values that
/// gave it away. The only answer to it is to end the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A ring index moved backwards, or further than the ring is long.
    #[error("the {end} index of a ring of {capacity} entries jumped from {from} to {to}")]
    IndexJump {
        /// Whose index: `"producer"` or `"consumer"`.
        end: &'static str,
        /// Its last value known to be good.
        from: u32,
        /// What it says now.
        to: u32,
        /// The entries of the ring.
        capacity: u32,
    },
    /// A descriptor of two entries of which only the first was published.
    #[error("a descriptor of kind {kind} takes two entries, but only one was published")]
    HalfDescriptor {
        /// The descriptor's kind byte.
        kind: u8,
    },
    /// A descriptor of no kind that travels in this direction.
    #[error("no {direction} has kind {kind}")]
    UnknownKind {
        /// `"submission"` or `"completion"`.
        direction: &'static str,
        /// The kind byte found.
        kind: u8,
    },
    /// Bits are set that mean nothing in a descriptor of this kind.
    #[error("a descriptor of kind {kind} has undefined bits {bits:#x} set in word {word}")]
    UndefinedBits {
        /// The descriptor's kind byte.
        kind: u8,
        /// Which of its 64-bit words, counted from 0.
        word: u8,
        /// The offending bits alone.
        bits: u64,
    },
    /// A field of a descriptor holds a value that is not one of those defined.
    #[error("{field} of a descriptor has the undefined value {value:#x}")]
    UndefinedValue {
        /// The name of the field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// Something that came with a later version than the one that both sides agreed on.
    #[error("a {what} of version {since} was sent, and version {spoken} was agreed on")]
    NotAgreedOn {
        /// `"submission"`, or the name of a field.
        what: &'static str,
        /// The version that it came with.
        since: u32,
        /// The version that was agreed on.
        spoken: u32,
    },
    /// An offset and length that do not lie inside the area they refer to.
    #[error("{len} bytes at {offset:#x} are not inside the {area} area of {size} bytes")]
    OutOfArea {
        /// `"send"` or `"receive"`, or the name that the owner gave to private memory.
        area: &'static str,
        /// The offset asked for.
        offset: u64,
        /// The length asked for.
        len: u64,
        /// The size of the area.
        size: u64,
    },
    /// A memory that came without the seals that keep its size.
    #[error("the memory lacks seals: it has {found:#x} and must have {wanted:#x}")]
    Unsealed {
        /// The seals it has (`F_SEAL_*`).
        found: u32,
        /// The seals it must have.
        wanted: u32,
    },
    /// A memory of another size than stated.
    #[error("the memory is {found} bytes long and must be {wanted}")]
    WrongSize {
        /// Its size in bytes.
        found: u64,
        /// The size it must have.
        wanted: u64,
    },
    /// The region does not begin with the magic number.
    #[error("this is not a region: it begins with {found:#x}")]
    WrongMagic {
        /// The first word found.
        found: u64,
    },
    /// The region is of another version (0: not yet published).
    #[error("the region is of version {found}, and this side speaks {wanted}")]
    WrongVersion {
        /// The version found.
        found: u32,
        /// The version of this build.
        wanted: u32,
    },
    /// The header states a layout that its own sizes do not lead to.
    #[error("the header states {found:#x} as its {field}, which must be {wanted:#x}")]
    WrongLayout {
        /// The field of the header.
        field: &'static str,
        /// What it states.
        found: u64,
        /// What it must state.
        wanted: u64,
    },
    /// The sizes in the header are outside of what a region may have.
    #[error("the header states {found} as its {field}, which is not possible")]
    ImpossibleSize {
        /// The field of the header.
        field: &'static str,
        /// What it states.
        found: u64,
    },
    /// A control message longer than the limit.
    #[error("a control message is longer than the limit of {limit} bytes")]
    MessageTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// A control message that carries more file descriptors than the limit.
    #[error("a control message carries more than {limit} file descriptors")]
    TooManyDescriptors {
        /// The limit.
        limit: usize,
    },
    /// More unread answers than the limit: the other side sends requests and does not read.
    #[error("the other side left more than {limit} control messages unread")]
    TooManyUnread {
        /// The limit.
        limit: usize,
    },
    /// A control message that does not parse.
    #[error("a control message of {len} bytes does not parse: line {line}, column {column}")]
    Unintelligible {
        /// Its length in bytes.
        len: usize,
        /// Where parsing ended: the line.
        line: usize,
        /// Where parsing ended: the column.
        column: usize,
    },
}
