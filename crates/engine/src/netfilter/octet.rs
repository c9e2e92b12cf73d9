//! What is known of a byte of a packet.

/// The first port that is not privileged.
pub const FIRST_PORT: u16 = 1024;

/// A byte of which some bits are known, or one of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Octet {
    /// Of these bits those are known.
    Bits {
        /// The bits; unknown ones are 0.
        value: u8,
        /// Which are known.
        known: u8,
    },
    /// A byte of an address.
    Address {
        /// Whose.
        whose: Address,
        /// Which byte, from the front.
        at: u8,
        /// Which bits of it; the others are 0.
        mask: u8,
    },
    /// A byte of this end's port, where that is any but the privileged ones: 0 or 1, from the front.
    Port(u8),
}

/// Whose address it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// The other end's: any.
    Peer,
    /// This end's: one of those that are known.
    Own,
}

impl Octet {
    /// Nothing is known of it.
    pub const UNKNOWN: Self = Self::Bits { value: 0, known: 0 };

    pub(super) fn masked(self, by: u8, xor: u8) -> Self {
        match self {
            Self::Bits { value, known } => Self::Bits {
                value: (value & by ^ xor) & (known | !by),
                known: known | !by,
            },
            Self::Address { mask, .. } if mask & by == 0 => Self::Bits {
                value: xor,
                known: 0xff,
            },
            Self::Address { whose, at, mask } if xor == 0 => Self::Address {
                whose,
                at,
                mask: mask & by,
            },
            Self::Address { .. } | Self::Port(_) => Self::UNKNOWN,
        }
    }

    pub(super) fn value(self) -> Option<u8> {
        match self {
            Self::Bits { value, known: 0xff } => Some(value),
            _ => None,
        }
    }
}
