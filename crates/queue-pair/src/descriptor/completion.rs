//! Completions: what the engine tells a host.

use super::address::Packed;
use super::{ConnRef, Descriptor, Entry, Head, check_unused, check_word};
use crate::Violation;
use std::net::SocketAddr;

/// What the engine tells a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// The state of a connection, as it is now: nothing is lost if several become one.
    Update {
        /// The connection.
        conn: ConnRef,
        /// Where the new data lies in the receive area.
        addr: u64,
        /// How many bytes of new data, contiguous, following what came before; 0 for none.
        len: u32,
        /// All bytes acknowledged by the peer so far: their send memory is the host's again.
        acked: u64,
        /// The peer has sent FIN, and this data is the last.
        peer_closed: bool,
    },
    /// As [`Completion::Update`], of data that lies in a buffer which the host has
    /// [posted](super::Submission::Post). It never spans two of them, nor is it none.
    Placed {
        /// The connection.
        conn: ConnRef,
        /// Where the new data lies in the send area.
        addr: u64,
        /// How many bytes of new data.
        len: u32,
        /// All bytes acknowledged by the peer so far.
        acked: u64,
        /// The peer has sent FIN, and this data is the last.
        peer_closed: bool,
    },
    /// The connection has failed. Nothing more will be received or acknowledged on it; it stays
    /// the host's until it is closed.
    Failed {
        /// The connection.
        conn: ConnRef,
        /// The kernel's number for why (ECONNRESET, ETIMEDOUT, …).
        errno: u16,
    },
    /// The last word on a connection: it was closed, given back, or its offer was taken back before
    /// anybody had accepted it. The engine no longer reads what the host sent on it.
    Released {
        /// The connection.
        conn: ConnRef,
    },
    /// This process is the reader of a connection that others have, too: what follows is pushed to it
    /// in updates.
    Granted {
        /// The connection.
        conn: ConnRef,
        /// The number of the grant, for its [position](crate::position).
        grant: u16,
        /// All bytes read since the connection began, by whomever: the next update begins there.
        consumed: u64,
        /// No other process has the connection, after this many forks of this one.
        alone_since: Option<u32>,
    },
    /// What was asked by [`Acquire`](super::Submission::Acquire) cannot be had now.
    NotGranted {
        /// The connection.
        conn: ConnRef,
        /// The kernel's number for why.
        errno: u16,
    },
    /// The state of a connection of which this process is not the reader, or no longer.
    Elsewhere {
        /// The connection.
        conn: ConnRef,
        /// Bytes that wait to be read, by whomever; at most 2³² - 1.
        unread: u32,
        /// Bytes received since the connection began.
        received: u64,
        /// All bytes of this process acknowledged by the peer so far.
        acked: u64,
        /// The peer has sent FIN, and what has been received is all.
        peer_closed: bool,
    },
    /// So many bytes are worth handing over on a connection before they are acknowledged, as its path
    /// is now. Until this comes, that is [`SEND_BUFFER`](Self::SEND_BUFFER).
    SendBuffer {
        /// The connection.
        conn: ConnRef,
        /// How many.
        bytes: u32,
    },
    /// So much has left of what this process alone sends on a connection, as far as that makes a difference
    /// to who minds [`OptionKind::NotSentLow`](super::OptionKind::NotSentLow). Since version 10.
    Departed {
        /// The connection.
        conn: ConnRef,
        /// Bytes since the connection began, those that are acknowledged among them.
        total: u64,
    },
    /// Another process that has the connection has ended its direction for all: nothing more can be
    /// sent on it.
    Shut {
        /// The connection.
        conn: ConnRef,
    },
    /// Another process that has the connection has ended reading for all: what has come can be read, and
    /// then the end. Since version 7.
    ReadShut {
        /// The connection.
        conn: ConnRef,
    },
    /// Who reports the error with which a connection has ended that several processes have: what was asked
    /// by [`TakeError`](super::Submission::TakeError), or that another process has asked. Since version 11.
    ErrorTaken {
        /// The connection.
        conn: ConnRef,
        /// This process does, once. If not, another one does or has, and nobody here is to hear of it.
        yours: bool,
    },
    /// Another process that has the connection has set or cleared O_NONBLOCK for all. Since version 11.
    NonBlocking {
        /// The connection.
        conn: ConnRef,
        /// Calls do not wait.
        on: bool,
    },
    /// A connection was accepted and is offered to this process. Both addresses are of one family.
    Accepted {
        /// The connection.
        conn: ConnRef,
        /// The number of the grant, for its [position](crate::position).
        grant: u16,
        /// Whose it was.
        listener: u32,
        /// The other end.
        peer: SocketAddr,
        /// This end.
        local: SocketAddr,
    },
    /// What became of the SYN of a connection that this process asked for with
    /// [`FastOpen::Hold`](super::FastOpen::Hold), once. Since version 7.
    Syn {
        /// From the request.
        token: u64,
        /// The connection, which may be sent on and closed from now on if the SYN waits.
        conn: ConnRef,
        /// So many bytes may leave with it, and it waits for the first; 0: it does not wait.
        room: u16,
    },
    /// From where a connection is being opened, which was [asked](super::Submission::AskLocal). Since version 13.
    Local {
        /// From the request.
        token: u64,
        /// This end.
        local: SocketAddr,
    },
    /// A connection that this process asked for is there.
    Opened {
        /// From the request.
        token: u64,
        /// The connection.
        conn: ConnRef,
        /// The number of the grant, for its [position](crate::position);
        /// [`NO_GRANT`](Self::NO_GRANT) if another process is the reader.
        grant: u16,
        /// This end.
        local: SocketAddr,
    },
    /// A connection that this process asked for is not to be had.
    OpenFailed {
        /// From the request.
        token: u64,
        /// The kernel's number for why.
        errno: u16,
    },
}

impl Completion {
    /// In place of a grant where there is none.
    pub const NO_GRANT: u16 = u16::MAX;
    /// Bytes that are worth handing over on a connection of whose path nothing has been said.
    pub const SEND_BUFFER: u32 = 256 << 10;
}

const UPDATE: u8 = 1;
const FAILED: u8 = 2;
const ACCEPTED: u8 = 3;
const OPENED: u8 = 4;
const OPEN_FAILED: u8 = 5;
const RELEASED: u8 = 7;
const GRANTED: u8 = 8;
const NOT_GRANTED: u8 = 9;
const ELSEWHERE: u8 = 10;
const SEND_BUFFER: u8 = 11;
const SHUT: u8 = 12;
const PLACED: u8 = 13;
const SYN: u8 = 14;
const READ_SHUT: u8 = 15;
const DEPARTED: u8 = 16;
const ERROR_TAKEN: u8 = 17;
const NON_BLOCKING: u8 = 18;
const LOCAL: u8 = 19;

const FLAG_PEER_CLOSED: u8 = 1;
const FLAG_V6: u8 = 1;
const FLAG_ALONE: u8 = 1;
const FLAG_YOURS: u8 = 1;
const FLAG_ON: u8 = 1;

impl Descriptor for Completion {
    fn encode(&self) -> (Entry, Option<Entry>) {
        match *self {
            Self::Update {
                conn,
                addr,
                len,
                acked,
                peer_closed,
            } => {
                let head = Head::new(UPDATE)
                    .flag(FLAG_PEER_CLOSED, peer_closed)
                    .value(len);
                ([head.to_word(), conn.to_word(), addr, acked], None)
            }
            Self::Placed {
                conn,
                addr,
                len,
                acked,
                peer_closed,
            } => {
                let head = Head::new(PLACED)
                    .flag(FLAG_PEER_CLOSED, peer_closed)
                    .value(len);
                ([head.to_word(), conn.to_word(), addr, acked], None)
            }
            Self::Failed { conn, errno } => (
                [
                    Head::new(FAILED).small(errno).to_word(),
                    conn.to_word(),
                    0,
                    0,
                ],
                None,
            ),
            Self::Released { conn } => {
                ([Head::new(RELEASED).to_word(), conn.to_word(), 0, 0], None)
            }
            Self::Shut { conn } => ([Head::new(SHUT).to_word(), conn.to_word(), 0, 0], None),
            Self::ReadShut { conn } => {
                ([Head::new(READ_SHUT).to_word(), conn.to_word(), 0, 0], None)
            }
            Self::NonBlocking { conn, on } => {
                let head = Head::new(NON_BLOCKING).flag(FLAG_ON, on);
                ([head.to_word(), conn.to_word(), 0, 0], None)
            }
            Self::ErrorTaken { conn, yours } => {
                let head = Head::new(ERROR_TAKEN).flag(FLAG_YOURS, yours);
                ([head.to_word(), conn.to_word(), 0, 0], None)
            }
            Self::Granted {
                conn,
                grant,
                consumed,
                alone_since,
            } => (
                [
                    Head::new(GRANTED)
                        .flag(FLAG_ALONE, alone_since.is_some())
                        .small(grant)
                        .value(alone_since.unwrap_or(0))
                        .to_word(),
                    conn.to_word(),
                    consumed,
                    0,
                ],
                None,
            ),
            Self::NotGranted { conn, errno } => (
                [
                    Head::new(NOT_GRANTED).small(errno).to_word(),
                    conn.to_word(),
                    0,
                    0,
                ],
                None,
            ),
            Self::Elsewhere {
                conn,
                unread,
                received,
                acked,
                peer_closed,
            } => {
                let head = Head::new(ELSEWHERE)
                    .flag(FLAG_PEER_CLOSED, peer_closed)
                    .value(unread);
                ([head.to_word(), conn.to_word(), received, acked], None)
            }
            Self::SendBuffer { conn, bytes } => {
                let head = Head::new(SEND_BUFFER).value(bytes);
                ([head.to_word(), conn.to_word(), 0, 0], None)
            }
            Self::Departed { conn, total } => (
                [Head::new(DEPARTED).to_word(), conn.to_word(), total, 0],
                None,
            ),
            Self::Accepted {
                conn,
                grant,
                listener,
                peer,
                local,
            } => {
                debug_assert_eq!(peer.is_ipv6(), local.is_ipv6(), "one family");
                let head = Head::new(ACCEPTED)
                    .flag(FLAG_V6, peer.is_ipv6())
                    .small(grant)
                    .value(listener);
                let (peer, local) = (Packed::new(peer), Packed::new(local));
                let ports = u64::from(peer.port) | u64::from(local.port) << 16;
                let scopes = u64::from(peer.scope) | u64::from(local.scope) << 32;
                let first = [head.to_word(), conn.to_word(), ports, scopes];
                (
                    first,
                    Some([peer.ip[0], peer.ip[1], local.ip[0], local.ip[1]]),
                )
            }
            Self::Opened {
                token,
                conn,
                grant,
                local,
            } => {
                let head = Head::new(OPENED).flag(FLAG_V6, local.is_ipv6());
                let local = Packed::new(local);
                let head = head.small(local.port).value(local.scope);
                let first = [head.to_word(), conn.to_word(), token, grant.into()];
                (first, Some([local.ip[0], local.ip[1], 0, 0]))
            }
            Self::Syn { token, conn, room } => {
                let head = Head::new(SYN).small(room);
                ([head.to_word(), conn.to_word(), token, 0], None)
            }
            Self::Local { token, local } => {
                let head = Head::new(LOCAL).flag(FLAG_V6, local.is_ipv6());
                let local = Packed::new(local);
                let head = head.small(local.port).value(local.scope);
                ([head.to_word(), token, local.ip[0], local.ip[1]], None)
            }
            Self::OpenFailed { token, errno } => (
                [Head::new(OPEN_FAILED).small(errno).to_word(), token, 0, 0],
                None,
            ),
        }
    }

    fn takes_two(first: &Entry) -> bool {
        matches!(Head::from_word(first[0]).kind, ACCEPTED | OPENED)
    }

    fn decode(entry: &Entry, second: Option<&Entry>) -> Result<Self, Violation> {
        let head = Head::from_word(entry[0]);
        let conn = ConnRef::from_word(entry[1]);
        let v6 = head.flags & FLAG_V6 != 0;
        let second = || second.ok_or(Violation::HalfDescriptor { kind: head.kind });
        match head.kind {
            UPDATE => {
                head.check(FLAG_PEER_CLOSED, false, true)?;
                let peer_closed = head.flags & FLAG_PEER_CLOSED != 0;
                let (addr, acked) = (entry[2], entry[3]);
                Ok(Self::Update {
                    conn,
                    addr,
                    len: head.value,
                    acked,
                    peer_closed,
                })
            }
            PLACED => {
                head.check(FLAG_PEER_CLOSED, false, true)?;
                Ok(Self::Placed {
                    conn,
                    addr: entry[2],
                    len: head.value,
                    acked: entry[3],
                    peer_closed: head.flags & FLAG_PEER_CLOSED != 0,
                })
            }
            FAILED => {
                head.check(0, true, false)?;
                check_unused(head.kind, entry, &[2, 3])?;
                Ok(Self::Failed {
                    conn,
                    errno: head.small,
                })
            }
            RELEASED => {
                head.check(0, false, false)?;
                check_unused(head.kind, entry, &[2, 3])?;
                Ok(Self::Released { conn })
            }
            SHUT => {
                head.check(0, false, false)?;
                check_unused(head.kind, entry, &[2, 3])?;
                Ok(Self::Shut { conn })
            }
            READ_SHUT => {
                head.check(0, false, false)?;
                check_unused(head.kind, entry, &[2, 3])?;
                Ok(Self::ReadShut { conn })
            }
            NON_BLOCKING => {
                head.check(FLAG_ON, false, false)?;
                check_unused(head.kind, entry, &[2, 3])?;
                let on = head.flags & FLAG_ON != 0;
                Ok(Self::NonBlocking { conn, on })
            }
            ERROR_TAKEN => {
                head.check(FLAG_YOURS, false, false)?;
                check_unused(head.kind, entry, &[2, 3])?;
                let yours = head.flags & FLAG_YOURS != 0;
                Ok(Self::ErrorTaken { conn, yours })
            }
            GRANTED => {
                let alone = head.flags & FLAG_ALONE != 0;
                head.check(FLAG_ALONE, true, alone)?;
                check_unused(head.kind, entry, &[3])?;
                Ok(Self::Granted {
                    conn,
                    grant: head.small,
                    consumed: entry[2],
                    alone_since: alone.then_some(head.value),
                })
            }
            NOT_GRANTED => {
                head.check(0, true, false)?;
                check_unused(head.kind, entry, &[2, 3])?;
                Ok(Self::NotGranted {
                    conn,
                    errno: head.small,
                })
            }
            ELSEWHERE => {
                head.check(FLAG_PEER_CLOSED, false, true)?;
                Ok(Self::Elsewhere {
                    conn,
                    unread: head.value,
                    received: entry[2],
                    acked: entry[3],
                    peer_closed: head.flags & FLAG_PEER_CLOSED != 0,
                })
            }
            SEND_BUFFER => {
                head.check(0, false, true)?;
                check_unused(head.kind, entry, &[2, 3])?;
                Ok(Self::SendBuffer {
                    conn,
                    bytes: head.value,
                })
            }
            DEPARTED => {
                head.check(0, false, false)?;
                check_unused(head.kind, entry, &[3])?;
                Ok(Self::Departed {
                    conn,
                    total: entry[2],
                })
            }
            ACCEPTED => {
                let second = second()?;
                head.check(FLAG_V6, true, true)?;
                check_word(head.kind, 2, entry[2], 0xffff_ffff)?;
                let peer = Packed {
                    ip: [second[0], second[1]],
                    port: entry[2] as u16,
                    scope: entry[3] as u32,
                };
                let local = Packed {
                    ip: [second[2], second[3]],
                    port: (entry[2] >> 16) as u16,
                    scope: (entry[3] >> 32) as u32,
                };
                let (peer, local) = (peer.unpack(v6)?, local.unpack(v6)?);
                Ok(Self::Accepted {
                    conn,
                    grant: head.small,
                    listener: head.value,
                    peer,
                    local,
                })
            }
            OPENED => {
                let second = second()?;
                head.check(FLAG_V6, true, true)?;
                check_word(head.kind, 3, entry[3], 0xffff)?;
                check_unused(head.kind, second, &[2, 3])?;
                let ip = [second[0], second[1]];
                let local = Packed {
                    ip,
                    port: head.small,
                    scope: head.value,
                }
                .unpack(v6)?;
                Ok(Self::Opened {
                    token: entry[2],
                    conn,
                    grant: entry[3] as u16,
                    local,
                })
            }
            SYN => {
                head.check(0, true, false)?;
                check_unused(head.kind, entry, &[3])?;
                Ok(Self::Syn {
                    token: entry[2],
                    conn,
                    room: head.small,
                })
            }
            LOCAL => {
                head.check(FLAG_V6, true, true)?;
                let local = Packed {
                    ip: [entry[2], entry[3]],
                    port: head.small,
                    scope: head.value,
                };
                Ok(Self::Local {
                    token: entry[1],
                    local: local.unpack(v6)?,
                })
            }
            OPEN_FAILED => {
                head.check(0, true, false)?;
                check_unused(head.kind, entry, &[2, 3])?;
                Ok(Self::OpenFailed {
                    token: entry[1],
                    errno: head.small,
                })
            }
            kind => Err(Violation::UnknownKind {
                direction: "completion",
                kind,
            }),
        }
    }
}
