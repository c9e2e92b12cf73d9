//! Versions of the protocol between a host and an engine, and how the two agree on one.
//!
//! A version covers all that both sides must take alike: the layout of a region, the descriptors in its
//! rings, and the messages of the control socket. An upgrade leaves programs with the library that they
//! began with and an engine with its own code, so either side can be the older one. Each side speaks the
//! version of its own time and at least the one before; `Attach` names the oldest and the newest that the
//! host speaks, the engine takes the newest that both speak, and the region states it.

use core::fmt;

use crate::Violation;

/// The versions that a side speaks: all from the oldest to the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

impl Versions {
    /// Those of this build. Before 6 there was no release; 7 has admission policies and posted buffers,
    /// 8 sends from files, 9 has SYNs that ask for Fast Open and wait for nothing, or no longer, 10 says what
    /// has left, 11 says who of several processes reports an error,
    /// and what O_NONBLOCK is for all of them, 12 by which doorbell new connections are heard of, 13 has questions about
    /// connections that are being opened, 14 pins listeners to the engine,
    /// 15 says of files that a policy decides about them, 16 gives up claims of tickets, 17 names several interfaces
    /// and says for how much room those wait who sleep by the word of a connection.
    pub const SPOKEN: Self = Self {
        oldest: 6,
        newest: 17,
    };

    /// The version that both sides speak from now on: the newest that each has. `None`: there is none.
    pub fn agree(self, other: Self) -> Option<u32> {
        let newest = self.newest.min(other.newest);
        (other.has(newest) && self.has(newest)).then_some(newest)
    }

    /// Whether a version is one of these.
    pub fn has(self, version: u32) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }
}

/// Refuses what came with the version `since` where `spoken` was agreed on.
///
/// # Errors
/// It came later.
pub(crate) fn check(what: &'static str, since: u32, spoken: u32) -> Result<(), Violation> {
    if since <= spoken {
        return Ok(());
    }
    Err(Violation::NotAgreedOn {
        what,
        since,
        spoken,
    })
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.newest == self.oldest {
            true => write!(f, "version {}", self.newest),
            false => write!(f, "versions {} to {}", self.oldest, self.newest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_both_speak_is_spoken() {
        let of = |oldest, newest| Versions { oldest, newest };
        for (one, other, agreed) in [
            (of(5, 5), of(5, 5), Some(5)),
            (of(5, 6), of(5, 5), Some(5)),
            (of(5, 6), of(6, 7), Some(6)),
            (of(3, 9), of(4, 8), Some(8)),
            (of(6, 7), of(5, 5), None),
            // Nonsense is nobody's version.
            (of(5, 5), of(9, 2), None),
            (of(5, 5), of(6, 5), None),
        ] {
            assert_eq!(one.agree(other), agreed, "{one} and {other}");
            assert_eq!(other.agree(one), agreed, "{other} and {one}");
        }
        assert_eq!(of(5, 6).to_string(), "versions 5 to 6");
    }
}
