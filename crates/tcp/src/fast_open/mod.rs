//! TCP Fast Open (RFC 7413): data in the SYN, for a peer that has shown before that it can be reached at
//! its address. Off by default: a SYN that the network duplicates after the connection has ended opens another
//! connection and delivers its data again (RFC 7413 §2.1), which not every program can stand.
//!
//! | file | what |
//! | --- | --- |
//! | `cookies` | the server's cookies, whose key rotates |
//! | `remembered` | the client's: what servers have given it |
//!
//! A connection that a SYN with data and cookie has opened is given to the server's owner before the
//! handshake is complete. How many of these there may be is bounded; beyond it, and while the SYN queue is
//! full, everything goes by the ordinary handshake (RFC 7413 §5.1).

mod cookies;
mod remembered;

use std::collections::VecDeque;

use core::time::Duration;

pub(crate) use cookies::{Cookies, Standing};
pub(crate) use remembered::{Asked, Remembered};

use crate::Instant;

/// Where one connection stands with Fast Open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastOpen {
    /// Nothing.
    No,
    /// Our SYN is to try it.
    Wanted,
    /// The same, and the SYN waits for the first data.
    Held,
    /// Our SYN has asked for a cookie, or brought one.
    Asked,
    /// A SYN with a cookie has opened it, and the handshake is not complete. SND.UNA is after our SYN.
    Pending {
        /// The SYN-ACK carries a new cookie, since the key of the one that came expires next.
        renew: bool,
    },
    /// Data of a SYN was taken.
    Done,
}

impl FastOpen {
    /// The owner has the connection, and the handshake is not complete.
    #[inline]
    pub(crate) const fn is_pending(self) -> bool {
        matches!(self, FastOpen::Pending { .. })
    }
}

/// For how long a pending connection that was reset still counts as pending: an attacker who spoofs an
/// address makes the machine there send the RST (RFC 7413 §5.1).
const RESET_COUNTS_FOR: Duration = Duration::from_secs(60);

/// What a stack knows of Fast Open.
pub(crate) struct FastOpens {
    pub(crate) cookies: Cookies,
    pub(crate) remembered: Remembered,
    /// Connections that are pending.
    pub(crate) pending: u32,
    /// When pending connections were reset, within the last minute.
    resets: VecDeque<Instant>,
}

impl FastOpens {
    pub(crate) fn new(key: [u8; 16], max_remembered: u32) -> Self {
        Self {
            cookies: Cookies::new(key),
            remembered: Remembered::new(max_remembered),
            pending: 0,
            resets: VecDeque::new(),
        }
    }

    /// Whether one more may be pending, of `limit`.
    //= RFC 7413 §5.1
    pub(crate) fn has_room(&mut self, now: Instant, limit: u32) -> bool {
        while let Some(&at) = self.resets.front()
            && at + RESET_COUNTS_FOR <= now
        {
            self.resets.pop_front();
        }
        // Resets are no more than there were pending connections within a minute, each of which had
        // room: a number of 32 bits.
        self.pending.saturating_add(self.resets.len() as u32) < limit
    }

    /// A pending connection has been reset.
    pub(crate) fn note_reset(&mut self, now: Instant) {
        self.resets.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ RFC 7413 §5.1
    #[test]
    fn a_reset_makes_no_room_for_a_minute() {
        let mut f = FastOpens::new([1; 16], 4);
        let at = Instant::from_secs;
        f.pending = 1;
        assert!(f.has_room(at(1), 2));
        f.note_reset(at(1));
        assert!(!f.has_room(at(60), 2));
        assert!(f.has_room(at(61), 2));
        assert!(!f.has_room(at(61), 1));
    }
}
