//! What a socket is ready for. The bits have the values of the kernel's `EPOLL*` constants, which for the ones
//! used here are those of `POLL*` too.

use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// A set of readiness bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Readiness(pub u32);

impl Readiness {
    /// Nothing.
    pub const NONE: Readiness = Readiness(0);
    /// There is something to receive or accept, or the end of the stream, or an error.
    pub const IN: Readiness = Readiness(0x001);
    /// There is room to send.
    pub const OUT: Readiness = Readiness(0x004);
    /// An error is waiting in `SO_ERROR`. Reported whether asked for or not.
    pub const ERR: Readiness = Readiness(0x008);
    /// Both directions have ended. Reported whether asked for or not.
    pub const HUP: Readiness = Readiness(0x010);
    /// `EPOLLRDNORM`: as [`IN`](Self::IN).
    pub const RDNORM: Readiness = Readiness(0x040);
    /// `EPOLLWRNORM`: as [`OUT`](Self::OUT).
    pub const WRNORM: Readiness = Readiness(0x100);
    /// The peer has ended its direction.
    pub const RDHUP: Readiness = Readiness(0x2000);
    /// The peer has acknowledged as much as [`Socket::tell_when_acknowledged`](crate::Socket::tell_when_acknowledged)
    /// was told. Not one of the kernel's bits.
    pub const ACKED: Readiness = Readiness(1 << 26);
    /// Among what has happened: nothing has, and somebody is told of what is there. Not one of the kernel's bits.
    pub(crate) const NO_ARRIVAL: Readiness = Readiness(1 << 27);
    /// Interest flag: of the sets that watch, wake not all (`EPOLLEXCLUSIVE`).
    pub const EXCLUSIVE: Readiness = Readiness(1 << 28);
    /// Interest flag: `EPOLLWAKEUP`, which is the kernel's alone.
    const WAKEUP: Readiness = Readiness(1 << 29);
    /// Interest flag: report once, then not until the interest is set anew.
    pub const ONESHOT: Readiness = Readiness(1 << 30);
    /// Interest flag: report changes, not states.
    pub const EDGE: Readiness = Readiness(1 << 31);

    /// What is reported whether asked for or not.
    pub const ALWAYS: Readiness = Readiness(0x018);

    /// Whether an interest in this can be added: with `EXCLUSIVE` only few others go (epoll_ctl(2)).
    pub(crate) fn can_be_wanted(self) -> bool {
        let beside = Self::EXCLUSIVE | Self::IN | Self::OUT | Self::ALWAYS;
        let beside = beside | Self::WAKEUP | Self::EDGE;
        !self.intersects(Self::EXCLUSIVE) || self & !beside == Self::NONE
    }

    /// What is wanted, without how it is to be reported.
    pub(crate) fn without_flags(self) -> Self {
        self & !(Self::EDGE | Self::ONESHOT | Self::EXCLUSIVE | Self::WAKEUP)
    }

    /// Whether any bit of `other` is set.
    pub fn intersects(self, other: Readiness) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether no bit is set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Readiness {
    type Output = Readiness;
    fn bitor(self, other: Readiness) -> Readiness {
        Readiness(self.0 | other.0)
    }
}

impl BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Readiness) {
        self.0 |= other.0;
    }
}

impl BitAnd for Readiness {
    type Output = Readiness;
    fn bitand(self, other: Readiness) -> Readiness {
        Readiness(self.0 & other.0)
    }
}

impl Not for Readiness {
    type Output = Readiness;
    fn not(self) -> Readiness {
        Readiness(!self.0)
    }
}
