//! What a host says about a connection that it wants opened: too much for an entry, so it lies in
//! the send area and the [`Submission::Connect`](super::Submission::Connect) says where.
//!
//! ```text
//!  0 family: 4 or 6        1 traffic class       2 maximum segment size
//!  4 remote port           6 local port          8 remote scope       12 local scope
//! 16 remote address (IPv4 in the first four bytes)
//! 32 local address
//! 48 receive buffer       52 user timeout       56 Fast Open: 0 to 2, with 7 bytes of zero
//! ```

use super::address::Packed;
use crate::Violation;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The bytes of an encoded [`ConnectBlock`].
pub const CONNECT_BLOCK_LEN: usize = 64;

/// What the SYN of a connection has to do with TCP Fast Open (RFC 7413), where the engine is set to it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum FastOpen {
    /// Nothing.
    #[default]
    No,
    /// Where a cookie is known it waits for data, and leaves with both (TCP_FASTOPEN_CONNECT, and MSG_FASTOPEN
    /// with data). Whether it does is told by [`Completion::Syn`](super::Completion::Syn). Else it asks for a
    /// cookie. Since version 7.
    Hold,
    /// It leaves at once, with the cookie if one is known, and otherwise asks for one (MSG_FASTOPEN with
    /// nothing). Since version 9.
    Ask,
}

impl FastOpen {
    /// The first version of the protocol in which a host can ask for it.
    pub fn since(self) -> u32 {
        match self {
            Self::No => 0,
            Self::Hold => 7,
            Self::Ask => 9,
        }
    }

    fn of_word(word: u64) -> Result<Self, Violation> {
        match word {
            0 => Ok(Self::No),
            1 => Ok(Self::Hold),
            2 => Ok(Self::Ask),
            value => Err(Violation::UndefinedValue {
                field: "Fast Open",
                value,
            }),
        }
    }

    fn to_word(self) -> u64 {
        match self {
            Self::No => 0,
            Self::Hold => 1,
            Self::Ask => 2,
        }
    }
}

/// What a host says about a connection that it wants opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectBlock {
    /// Whom to connect to.
    pub remote: SocketAddr,
    /// From where, of the same family: an unspecified address and port 0 are for the engine to
    /// choose.
    pub local: SocketAddr,
    /// The receive buffer in bytes, 0 for the default.
    pub receive_buffer: u32,
    /// The largest segment to offer in bytes, 0 for the default.
    pub max_segment: u16,
    /// IP_TOS or IPV6_TCLASS.
    pub traffic_class: u8,
    /// TCP_USER_TIMEOUT in milliseconds, 0 for the default.
    pub user_timeout: u32,
    /// Whether its SYN asks for TCP Fast Open, and waits for data.
    pub fast_open: FastOpen,
}

impl ConnectBlock {
    /// A connection to `remote` with everything else left to the engine.
    pub fn new(remote: SocketAddr) -> Self {
        let any = match remote {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Self {
            remote,
            local: SocketAddr::new(any, 0),
            receive_buffer: 0,
            max_segment: 0,
            traffic_class: 0,
            user_timeout: 0,
            fast_open: FastOpen::No,
        }
    }

    /// The bytes to write to the send area. Both addresses are of one family.
    pub fn encode(&self) -> [u8; CONNECT_BLOCK_LEN] {
        debug_assert_eq!(self.remote.is_ipv6(), self.local.is_ipv6(), "one family");
        let (remote, local) = (Packed::new(self.remote), Packed::new(self.local));
        let mut bytes = [0; CONNECT_BLOCK_LEN];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(
            0,
            &[
                if self.remote.is_ipv6() { 6 } else { 4 },
                self.traffic_class,
            ],
        );
        put(2, &self.max_segment.to_ne_bytes());
        put(4, &remote.port.to_ne_bytes());
        put(6, &local.port.to_ne_bytes());
        put(8, &remote.scope.to_ne_bytes());
        put(12, &local.scope.to_ne_bytes());
        put(16, &remote.ip[0].to_ne_bytes());
        put(24, &remote.ip[1].to_ne_bytes());
        put(32, &local.ip[0].to_ne_bytes());
        put(40, &local.ip[1].to_ne_bytes());
        put(48, &self.receive_buffer.to_ne_bytes());
        put(52, &self.user_timeout.to_ne_bytes());
        put(56, &self.fast_open.to_word().to_ne_bytes());
        bytes
    }

    /// The block in `bytes`, which were copied out of the send area.
    ///
    /// # Errors
    /// A value is not defined.
    pub fn decode(bytes: &[u8; CONNECT_BLOCK_LEN]) -> Result<Self, Violation> {
        let v6 = match bytes[0] {
            4 => false,
            6 => true,
            family => {
                return Err(Violation::UndefinedValue {
                    field: "family",
                    value: family.into(),
                });
            }
        };
        let u16_at = |at| u16::from_ne_bytes(array(bytes, at));
        let u32_at = |at| u32::from_ne_bytes(array(bytes, at));
        let u64_at = |at| u64::from_ne_bytes(array(bytes, at));
        let remote = Packed {
            ip: [u64_at(16), u64_at(24)],
            port: u16_at(4),
            scope: u32_at(8),
        };
        let local = Packed {
            ip: [u64_at(32), u64_at(40)],
            port: u16_at(6),
            scope: u32_at(12),
        };
        Ok(Self {
            remote: remote.unpack(v6)?,
            local: local.unpack(v6)?,
            receive_buffer: u32_at(48),
            max_segment: u16_at(2),
            traffic_class: bytes[1],
            user_timeout: u32_at(52),
            fast_open: FastOpen::of_word(u64_at(56))?,
        })
    }
}

fn array<const N: usize>(bytes: &[u8; CONNECT_BLOCK_LEN], at: usize) -> [u8; N] {
    core::array::from_fn(|i| bytes[at + i])
}
