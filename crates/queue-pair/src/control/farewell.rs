//! What the child of a fork says before it has attached: that it has closed something.

use crate::ConnRef;

/// A child that has not attached has closed what it had from its parent. It says so on its lifeline,
/// one message of [`LEN`](Farewell::LEN) bytes each, so that closing costs no attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// A connection.
    Connection(ConnRef),
    /// A listener, by its name in the parent's session.
    Listener(u32),
}

/// What a child says on its lifeline, with one end of a new connection, if the path of the control socket does not
/// lead it to the engine any more: it has another root directory, or other rights. The other end is a
/// control connection, if the child has made both.
pub const KNOCK: [u8; Farewell::LEN] = *b"\x03\0\0\0\0\0\0\0knocking";

const CONNECTION: u64 = 1;
const LISTENER: u64 = 2;

impl Farewell {
    /// Bytes of a message.
    pub const LEN: usize = 16;

    /// The message.
    pub fn encode(self) -> [u8; Self::LEN] {
        let (kind, name) = match self {
            Self::Connection(conn) => (CONNECTION, conn.to_word()),
            Self::Listener(listener) => (LISTENER, listener.into()),
        };
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&name.to_le_bytes());
        bytes
    }

    /// The message in these bytes, if it is one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, name) = bytes.split_first_chunk::<8>()?;
        let name = u64::from_le_bytes(name.try_into().ok()?);
        match u64::from_le_bytes(*kind) {
            CONNECTION => Some(Self::Connection(ConnRef::from_word(name))),
            LISTENER => Some(Self::Listener(u32::try_from(name).ok()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood_and_nothing_else() {
        let conn = ConnRef {
            index: 7,
            generation: u32::MAX,
        };
        for said in [Farewell::Connection(conn), Farewell::Listener(u32::MAX)] {
            assert_eq!(Farewell::decode(&said.encode()), Some(said));
        }
        assert_eq!(Farewell::decode(&[]), None);
        assert_eq!(Farewell::decode(&[0; 16]), None);
        let mut long = Farewell::Listener(1).encode();
        long[12] = 1;
        assert_eq!(Farewell::decode(&long), None, "no listener has such a name");
        assert_eq!(
            Farewell::decode(&Farewell::Listener(1).encode()[..15]),
            None
        );
    }
}
