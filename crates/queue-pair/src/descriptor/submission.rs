//! Submissions: what a host asks of the engine.

use super::{ConnRef, Descriptor, Entry, Head, check_unused, check_word};
use crate::Violation;

/// What a host asks of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submission {
    /// Send bytes that lie in the send area, and keep them there until they are acknowledged.
    Send {
        /// On which connection.
        conn: ConnRef,
        /// Where they lie in the send area.
        addr: u64,
        /// How many.
        len: u32,
        /// More follows at once: a segment that is not full may wait (MSG_MORE).
        more: bool,
        /// All bytes consumed on this connection so far, as in [`Submission::Consumed`]; it rides
        /// along for nothing.
        consumed: u64,
    },
    /// As [`Submission::Send`], on a connection that other processes have, too, since a fork. The
    /// engine takes what they send in the order of time, whichever ring it finds first.
    SendAt {
        /// On which connection.
        conn: ConnRef,
        /// Where they lie in the send area.
        addr: u64,
        /// How many.
        len: u32,
        /// More follows at once.
        more: bool,
        /// When: CLOCK_MONOTONIC in nanoseconds, read while this was being posted.
        at: u64,
    },
    /// The program has read this many bytes since the connection began: their memory is the
    /// engine's again, and the receive window opens.
    Consumed {
        /// On which connection.
        conn: ConnRef,
        /// The total; never falls.
        total: u64,
    },
    /// No more will be sent: FIN after what is pending.
    Shutdown {
        /// The connection.
        conn: ConnRef,
        /// When, as in [`Submission::SendAt`]; 0 if no other process has the connection.
        at: u64,
    },
    /// Nothing more will be read, by whichever process has the connection: each that does learns it by
    /// [`Completion::ReadShut`](super::Completion::ReadShut). What arrives is still acknowledged. Since
    /// version 7.
    ShutdownRead {
        /// The connection.
        conn: ConnRef,
    },
    /// The program is done with the connection.
    Close {
        /// The connection.
        conn: ConnRef,
        /// Reset it, instead of sending what is pending and FIN.
        abort: bool,
        /// When, as in [`Submission::SendAt`]; 0 if no other process has the connection.
        at: u64,
    },
    /// The program wants to read a connection of which another process is the reader, or nobody. The
    /// answer is [`Completion::Granted`](super::Completion::Granted) or
    /// [`Completion::NotGranted`](super::Completion::NotGranted).
    Acquire {
        /// The connection.
        conn: ConnRef,
    },
    /// Set an option of a connection.
    SetOption {
        /// The connection.
        conn: ConnRef,
        /// Which option.
        option: OptionKind,
        /// Its value, in the unit that [`OptionKind`] states.
        value: u64,
    },
    /// This process is willing to be handed connections of a listener.
    Credit {
        /// The listener.
        listener: u32,
        /// How many since the listener began, wrapping at 2³².
        total: u32,
        /// It has found none and is about to wait: one that was offered to a process which is busy
        /// may come here instead.
        waits: bool,
    },
    /// Of connections that are offered from now on this process hears by one doorbell alone, or by any that is
    /// armed. When another was named before, all that are armed are rung once: somebody may have begun to wait
    /// whom it did not reach. Since version 12.
    NameListenersBell {
        /// The listener.
        listener: u32,
        /// The number of the doorbell, below 64. `None`: any.
        bell: Option<u8>,
    },
    /// A connection that was offered and that no accept took: back to the listener's queue.
    GiveBack {
        /// The connection.
        conn: ConnRef,
    },
    /// A buffer in the send area for part of what a connection receives: what comes there is told by
    /// [`Completion::Placed`](super::Completion::Placed). What has arrived before, and whatever the engine
    /// cannot place there, comes by [`Completion::Update`](super::Completion::Update), and is the host's
    /// to copy. Buffers come in the order of the stream. The engine writes there until the part is
    /// consumed or the connection released, or another process reads. Since version 7.
    Post {
        /// The connection.
        conn: ConnRef,
        /// Where it lies in the send area.
        addr: u64,
        /// How long it is.
        len: u32,
        /// How many bytes of the stream come before it.
        from: u64,
    },
    /// Send bytes of a file, which the engine reads when they leave, and again when they have to leave
    /// again. If the file does not have them then, the connection is reset. Since version 8.
    SendFile {
        /// On which connection.
        conn: ConnRef,
        /// Which file, from [`Reply::File`](crate::control::Reply::File).
        file: u16,
        /// Where they begin in the file; they end within 2⁴⁰ bytes.
        offset: u64,
        /// How many.
        len: u32,
        /// More follows at once.
        more: bool,
        /// When, as in [`Submission::SendAt`]; 0 if no other process has the connection.
        at: u64,
    },
    /// Nothing more is sent from a file, and all that was is acknowledged: the engine closes it, and
    /// another may get its name. Since version 8.
    ForgetFile {
        /// Which file.
        file: u16,
    },
    /// The SYN of a connection waits no longer for data ([`FastOpen::Hold`](super::FastOpen::Hold)): it leaves
    /// without. Nothing, where it does not wait. Since version 9.
    LetSynGo {
        /// The connection.
        conn: ConnRef,
    },
    /// The program is to report the error with which a connection has ended that other processes have,
    /// too. One of them all does. The answer is [`Completion::ErrorTaken`](super::Completion::ErrorTaken).
    /// Since version 11.
    TakeError {
        /// The connection.
        conn: ConnRef,
    },
    /// The program has set or cleared O_NONBLOCK of a connection that other processes have, too: each
    /// learns it by [`Completion::NonBlocking`](super::Completion::NonBlocking). Since version 11.
    NonBlocking {
        /// The connection.
        conn: ConnRef,
        /// Calls do not wait.
        on: bool,
    },
    /// Open a connection.
    Connect {
        /// Comes back in the answer.
        token: u64,
        /// Where in the send area its [`ConnectBlock`](super::ConnectBlock) lies. It is the
        /// host's again when the answer is there.
        addr: u64,
    },
    /// The connection is not to be opened any more. The answer is
    /// [`OpenFailed`](super::Completion::OpenFailed), unless another came before, or other processes have it,
    /// too: then there is none. Since version 13.
    Cancel {
        /// From the request.
        token: u64,
    },
    /// From where is the connection being opened? The answer is
    /// [`Local`](super::Completion::Local), unless what became of it came before. Since version 13.
    AskLocal {
        /// From the request.
        token: u64,
    },
}

impl Submission {
    /// When it was posted, if other processes have the connection: the order in which what they do
    /// to it takes effect.
    pub fn time(&self) -> Option<u64> {
        match *self {
            Self::SendAt { at, .. }
            | Self::SendFile { at, .. }
            | Self::Shutdown { at, .. }
            | Self::Close { at, .. } => (at != 0).then_some(at),
            _ => None,
        }
    }

    /// The first version of the protocol in which a host can say it.
    pub fn since(&self) -> u32 {
        match self {
            Self::Send { .. }
            | Self::SendAt { .. }
            | Self::Consumed { .. }
            | Self::Shutdown { .. }
            | Self::Close { .. }
            | Self::Acquire { .. }
            | Self::Credit { .. }
            | Self::GiveBack { .. }
            | Self::Connect { .. } => 0,
            Self::ShutdownRead { .. } | Self::Post { .. } => 7,
            Self::SendFile { .. } | Self::ForgetFile { .. } => 8,
            Self::LetSynGo { .. } => 9,
            Self::TakeError { .. } | Self::NonBlocking { .. } => 11,
            Self::NameListenersBell { .. } => 12,
            Self::Cancel { .. } | Self::AskLocal { .. } => 13,
            Self::SetOption { option, .. } => option.since(),
        }
    }
}

/// The options of a connection that a host can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum OptionKind {
    /// TCP_NODELAY: 0 or 1.
    NoDelay = 1,
    /// TCP_CORK: 0 or 1.
    Cork = 2,
    /// SO_KEEPALIVE: 0 or 1.
    KeepAlive = 3,
    /// TCP_KEEPIDLE: seconds.
    KeepIdle = 4,
    /// TCP_KEEPINTVL: seconds.
    KeepInterval = 5,
    /// TCP_KEEPCNT: probes.
    KeepCount = 6,
    /// TCP_USER_TIMEOUT: milliseconds, 0 for the default.
    UserTimeout = 7,
    /// SO_LINGER: 0 when off, else seconds + 1.
    Linger = 8,
    /// SO_RCVBUF: bytes.
    ReceiveBuffer = 9,
    /// TCP_MAXSEG: bytes.
    MaxSegment = 10,
    /// TCP_QUICKACK: 0 or 1.
    QuickAck = 11,
    /// TCP_LINGER2: seconds in FIN-WAIT-2, 0 for the default.
    FinWait2 = 12,
    /// TCP_CONGESTION: 0 Reno, 1 CUBIC, 2 BBR.
    Congestion = 13,
    /// IP_TOS or IPV6_TCLASS: the byte; its ECN bits are not the program's to set.
    TrafficClass = 14,
    /// TCP_NOTSENT_LOWAT: bytes, 0 for none. Who has fewer that have not left may write more; how many have
    /// left is told by [`Completion::Departed`](super::Completion::Departed). Since version 10.
    NotSentLow = 15,
}

impl OptionKind {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::NoDelay,
        Self::Cork,
        Self::KeepAlive,
        Self::KeepIdle,
        Self::KeepInterval,
        Self::KeepCount,
        Self::UserTimeout,
        Self::Linger,
        Self::ReceiveBuffer,
        Self::MaxSegment,
        Self::QuickAck,
        Self::FinWait2,
        Self::Congestion,
        Self::TrafficClass,
        Self::NotSentLow,
    ];

    /// The first version of the protocol in which a host can set it.
    pub fn since(self) -> u32 {
        match self {
            Self::NotSentLow => 10,
            _ => 0,
        }
    }

    fn from_code(code: u16) -> Result<Self, Violation> {
        Self::ALL
            .into_iter()
            .find(|option| *option as u16 == code)
            .ok_or(Violation::UndefinedValue {
                field: "option",
                value: code.into(),
            })
    }
}

const SEND: u8 = 1;
const CONSUMED: u8 = 2;
const SHUTDOWN: u8 = 3;
const CLOSE: u8 = 4;
const SET_OPTION: u8 = 5;
const CREDIT: u8 = 6;
const GIVE_BACK: u8 = 7;
const CONNECT: u8 = 8;
const SEND_AT: u8 = 9;
const ACQUIRE: u8 = 10;
const POST: u8 = 11;
const SHUTDOWN_READ: u8 = 12;
const SEND_FILE: u8 = 13;
const FORGET_FILE: u8 = 14;
const LET_SYN_GO: u8 = 15;
const TAKE_ERROR: u8 = 16;
const NON_BLOCKING: u8 = 17;
const NAME_LISTENERS_BELL: u8 = 18;
const CANCEL: u8 = 19;
const ASK_LOCAL: u8 = 20;

const FLAG_MORE: u8 = 1;
const FLAG_ABORT: u8 = 1;
const FLAG_WAITS: u8 = 1;
const FLAG_ON: u8 = 1;

impl Descriptor for Submission {
    fn encode(&self) -> (Entry, Option<Entry>) {
        let entry = match *self {
            Self::Send {
                conn,
                addr,
                len,
                more,
                consumed,
            } => [
                Head::new(SEND).flag(FLAG_MORE, more).value(len).to_word(),
                conn.to_word(),
                addr,
                consumed,
            ],
            Self::SendAt {
                conn,
                addr,
                len,
                more,
                at,
            } => [
                Head::new(SEND_AT)
                    .flag(FLAG_MORE, more)
                    .value(len)
                    .to_word(),
                conn.to_word(),
                addr,
                at,
            ],
            Self::Consumed { conn, total } => {
                [Head::new(CONSUMED).to_word(), conn.to_word(), total, 0]
            }
            Self::Shutdown { conn, at } => [Head::new(SHUTDOWN).to_word(), conn.to_word(), at, 0],
            Self::ShutdownRead { conn } => {
                [Head::new(SHUTDOWN_READ).to_word(), conn.to_word(), 0, 0]
            }
            Self::Close { conn, abort, at } => [
                Head::new(CLOSE).flag(FLAG_ABORT, abort).to_word(),
                conn.to_word(),
                at,
                0,
            ],
            Self::Acquire { conn } => [Head::new(ACQUIRE).to_word(), conn.to_word(), 0, 0],
            Self::SetOption {
                conn,
                option,
                value,
            } => [
                Head::new(SET_OPTION).small(option as u16).to_word(),
                conn.to_word(),
                value,
                0,
            ],
            Self::Credit {
                listener,
                total,
                waits,
            } => [
                Head::new(CREDIT)
                    .flag(FLAG_WAITS, waits)
                    .value(listener)
                    .to_word(),
                total.into(),
                0,
                0,
            ],
            Self::NameListenersBell { listener, bell } => [
                Head::new(NAME_LISTENERS_BELL).value(listener).to_word(),
                bell.map_or(0, |bell| u64::from(bell) + 1),
                0,
                0,
            ],
            Self::GiveBack { conn } => [Head::new(GIVE_BACK).to_word(), conn.to_word(), 0, 0],
            Self::SendFile {
                conn,
                file,
                offset,
                len,
                more,
                at,
            } => [
                Head::new(SEND_FILE)
                    .flag(FLAG_MORE, more)
                    .small(file)
                    .value(len)
                    .to_word(),
                conn.to_word(),
                offset,
                at,
            ],
            Self::ForgetFile { file } => [Head::new(FORGET_FILE).small(file).to_word(), 0, 0, 0],
            Self::LetSynGo { conn } => [Head::new(LET_SYN_GO).to_word(), conn.to_word(), 0, 0],
            Self::NonBlocking { conn, on } => [
                Head::new(NON_BLOCKING).flag(FLAG_ON, on).to_word(),
                conn.to_word(),
                0,
                0,
            ],
            Self::TakeError { conn } => [Head::new(TAKE_ERROR).to_word(), conn.to_word(), 0, 0],
            Self::Connect { token, addr } => [Head::new(CONNECT).to_word(), token, addr, 0],
            Self::Cancel { token } => [Head::new(CANCEL).to_word(), token, 0, 0],
            Self::AskLocal { token } => [Head::new(ASK_LOCAL).to_word(), token, 0, 0],
            Self::Post {
                conn,
                addr,
                len,
                from,
            } => [
                Head::new(POST).value(len).to_word(),
                conn.to_word(),
                addr,
                from,
            ],
        };
        (entry, None)
    }

    fn takes_two(_: &Entry) -> bool {
        false
    }

    fn decode(entry: &Entry, _: Option<&Entry>) -> Result<Self, Violation> {
        let head = Head::from_word(entry[0]);
        let conn = ConnRef::from_word(entry[1]);
        let unused = |words| check_unused(head.kind, entry, words);
        match head.kind {
            SEND => {
                head.check(FLAG_MORE, false, true)?;
                let more = head.flags & FLAG_MORE != 0;
                Ok(Self::Send {
                    conn,
                    addr: entry[2],
                    len: head.value,
                    more,
                    consumed: entry[3],
                })
            }
            SEND_AT => {
                head.check(FLAG_MORE, false, true)?;
                Ok(Self::SendAt {
                    conn,
                    addr: entry[2],
                    len: head.value,
                    more: head.flags & FLAG_MORE != 0,
                    at: entry[3],
                })
            }
            ACQUIRE => {
                head.check(0, false, false)?;
                unused(&[2, 3])?;
                Ok(Self::Acquire { conn })
            }
            CONSUMED => {
                head.check(0, false, false)?;
                unused(&[3])?;
                Ok(Self::Consumed {
                    conn,
                    total: entry[2],
                })
            }
            SHUTDOWN => {
                head.check(0, false, false)?;
                unused(&[3])?;
                Ok(Self::Shutdown { conn, at: entry[2] })
            }
            SHUTDOWN_READ => {
                head.check(0, false, false)?;
                unused(&[2, 3])?;
                Ok(Self::ShutdownRead { conn })
            }
            CLOSE => {
                head.check(FLAG_ABORT, false, false)?;
                unused(&[3])?;
                Ok(Self::Close {
                    conn,
                    abort: head.flags & FLAG_ABORT != 0,
                    at: entry[2],
                })
            }
            SET_OPTION => {
                head.check(0, true, false)?;
                unused(&[3])?;
                let option = OptionKind::from_code(head.small)?;
                Ok(Self::SetOption {
                    conn,
                    option,
                    value: entry[2],
                })
            }
            CREDIT => {
                head.check(FLAG_WAITS, false, true)?;
                unused(&[2, 3])?;
                check_word(head.kind, 1, entry[1], 0xffff_ffff)?;
                Ok(Self::Credit {
                    listener: head.value,
                    total: entry[1] as u32,
                    waits: head.flags & FLAG_WAITS != 0,
                })
            }
            NAME_LISTENERS_BELL => {
                head.check(0, false, true)?;
                unused(&[2, 3])?;
                check_word(head.kind, 1, entry[1], 0xff)?;
                let bell = (entry[1] as u8).checked_sub(1);
                if bell.is_some_and(|bell| u32::from(bell) >= u64::BITS) {
                    return Err(Violation::UndefinedValue {
                        field: "bell of a listener",
                        value: entry[1],
                    });
                }
                Ok(Self::NameListenersBell {
                    listener: head.value,
                    bell,
                })
            }
            CANCEL | ASK_LOCAL => {
                head.check(0, false, false)?;
                unused(&[2, 3])?;
                let token = entry[1];
                Ok(match head.kind {
                    CANCEL => Self::Cancel { token },
                    _ => Self::AskLocal { token },
                })
            }
            GIVE_BACK => {
                head.check(0, false, false)?;
                unused(&[2, 3])?;
                Ok(Self::GiveBack { conn })
            }
            POST => {
                head.check(0, false, true)?;
                Ok(Self::Post {
                    conn,
                    addr: entry[2],
                    len: head.value,
                    from: entry[3],
                })
            }
            SEND_FILE => {
                head.check(FLAG_MORE, true, true)?;
                Ok(Self::SendFile {
                    conn,
                    file: head.small,
                    offset: entry[2],
                    len: head.value,
                    more: head.flags & FLAG_MORE != 0,
                    at: entry[3],
                })
            }
            FORGET_FILE => {
                head.check(0, true, false)?;
                unused(&[1, 2, 3])?;
                Ok(Self::ForgetFile { file: head.small })
            }
            LET_SYN_GO => {
                head.check(0, false, false)?;
                unused(&[2, 3])?;
                Ok(Self::LetSynGo { conn })
            }
            TAKE_ERROR => {
                head.check(0, false, false)?;
                unused(&[2, 3])?;
                Ok(Self::TakeError { conn })
            }
            NON_BLOCKING => {
                head.check(FLAG_ON, false, false)?;
                unused(&[2, 3])?;
                let on = head.flags & FLAG_ON != 0;
                Ok(Self::NonBlocking { conn, on })
            }
            CONNECT => {
                head.check(0, false, false)?;
                unused(&[3])?;
                Ok(Self::Connect {
                    token: entry[1],
                    addr: entry[2],
                })
            }
            kind => Err(Violation::UnknownKind {
                direction: "submission",
                kind,
            }),
        }
    }
}
