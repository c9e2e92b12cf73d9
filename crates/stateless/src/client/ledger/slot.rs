//! What is noted of one connection.

/// How far a connection is, as far as is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// A SYN was sent.
    Opening = 0,
    /// A request was sent.
    Asked = 1,
    /// It is waiting until its next request is due.
    Waiting = 2,
    /// All was answered; the server's FIN is still to come.
    Closing = 3,
    /// It is over.
    Over = 4,
}

impl Stage {
    pub(super) const fn of(flags: u8) -> Stage {
        match flags & Slot::STAGE {
            0 => Stage::Opening,
            1 => Stage::Asked,
            2 => Stage::Waiting,
            3 => Stage::Closing,
            _ => Stage::Over,
        }
    }
}

/// What is noted of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// When what it waits for was due, in microseconds of the client's clock.
    pub(super) due: u32,
    /// The server's sequence number behind what was counted.
    pub(super) expected: u32,
    /// Responses counted, modulo 2^16.
    pub(super) answered: u16,
    /// Stage (3 bits), whether it moved, whether it was tried again, whether the server has said that
    /// it has the request.
    pub(super) flags: u8,
    /// Further attempts since it last moved.
    pub(super) attempts: u8,
}

impl Slot {
    pub(super) const STAGE: u8 = 0x07;
    pub(super) const MOVED: u8 = 0x08;
    pub(super) const RETRIED: u8 = 0x10;
    pub(super) const ACKNOWLEDGED: u8 = 0x20;

    pub(super) const OVER: Slot = Slot {
        due: 0,
        expected: 0,
        answered: 0,
        flags: Stage::Over as u8,
        attempts: 0,
    };
}
