//! Where a connection is in its life.

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The engine has been asked to open it.
    Connecting,
    /// There are two ends.
    Open,
    /// It has ended, in whatever way.
    Over,
}

/// What became of the SYN of a connection that is being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syn {
    /// Nothing special: it is under way, or was.
    Ordinary,
    /// The engine has not said yet.
    Asked,
    /// It waits for data, and has room for so many bytes.
    Waits(u16),
}
