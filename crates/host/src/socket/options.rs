//! What `setsockopt` sets.

use queue_pair::{Completion, ConnectBlock, OptionKind};
use rustix::io::Errno;

use super::{Phase, Socket};
use crate::lock::lock;

/// What the send buffer of a socket begins with whose program has not chosen one: bytes that may be
/// written and not acknowledged. It follows the path, as the engine says, and is memory only while it
/// is used.
pub const DEFAULT_SEND_BUFFER: u64 = Completion::SEND_BUFFER as u64;

/// The smallest send buffer, as in the kernel.
const MIN_SEND_BUFFER: u64 = 4608;

/// What the engine gives a connection whose program has not chosen a receive buffer, as far as it
/// matters here: when to announce what was read.
const DEFAULT_RECEIVE_BUFFER: u64 = 128 * 1024;

/// The most bytes that readiness waits for, whatever low-water mark is set: the window shrinks under
/// memory pressure, and must not close before so much is there.
const MOST_LOW: u64 = 64 * 1024;

const _: () = assert!(OptionKind::ALL.len() <= u16::BITS as usize);

/// The options of a socket. There may be a million sockets, and most programs set few of them.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Which ones the program has set, bit by bit.
    set: u16,
    /// The values of those, in the order of the options.
    values: Box<[u32]>,
    /// What the program has chosen, in bytes; 0 if it has not.
    chosen_send_buffer: u32,
    /// What the engine has said, in bytes.
    advised_send_buffer: u32,
    /// In bytes.
    receive_low: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            set: 0,
            values: Box::default(),
            chosen_send_buffer: 0,
            advised_send_buffer: Completion::SEND_BUFFER,
            receive_low: 1,
        }
    }
}

impl Options {
    /// What the program has set.
    pub(super) fn chosen(&self) -> impl Iterator<Item = (OptionKind, u64)> + '_ {
        let value = |option| Some((option, self.value(option)?.into()));
        OptionKind::ALL.into_iter().filter_map(value)
    }

    /// Those that already matter in the handshake.
    pub(crate) fn fill(&self, block: &mut ConnectBlock) {
        let value = |option| self.value(option).unwrap_or(0);
        block.receive_buffer = value(OptionKind::ReceiveBuffer);
        block.user_timeout = value(OptionKind::UserTimeout);
        block.max_segment = value(OptionKind::MaxSegment) as u16;
        block.traffic_class = value(OptionKind::TrafficClass) as u8;
    }

    pub(super) fn send_buffer(&self) -> u64 {
        let advised = self.advised_send_buffer();
        self.chosen_send_buffer().unwrap_or(advised)
    }

    pub(super) fn receive_buffer(&self) -> u64 {
        self.value(OptionKind::ReceiveBuffer)
            .map_or(DEFAULT_RECEIVE_BUFFER, u64::from)
    }

    /// `SO_LINGER` on, with no time: a close is a reset.
    pub(super) fn lingers_for_no_time(&self) -> bool {
        self.value(OptionKind::Linger) == Some(1)
    }

    /// More is written while fewer bytes than this have not left, if the program minds.
    pub(super) fn not_sent_low(&self) -> Option<u64> {
        let low = self.value(OptionKind::NotSentLow);
        low.filter(|low| *low != 0).map(u64::from)
    }

    pub(crate) fn value(&self, option: OptionKind) -> Option<u32> {
        let bit = bit(option);
        (self.set & bit != 0).then(|| self.values[self.before(bit)])
    }

    /// How many are set that come before this one.
    fn before(&self, bit: u16) -> usize {
        (self.set & (bit - 1)).count_ones() as usize
    }

    /// Takes a value as the kernel would.
    pub(crate) fn set(&mut self, option: OptionKind, value: u32) -> Result<u32, Errno> {
        let within = |low, high| {
            (low..=high)
                .contains(&value)
                .then_some(value)
                .ok_or(Errno::INVAL)
        };
        let value = match option {
            OptionKind::NoDelay
            | OptionKind::Cork
            | OptionKind::KeepAlive
            | OptionKind::QuickAck => value.min(1),
            OptionKind::KeepIdle | OptionKind::KeepInterval => within(1, 32_767)?,
            OptionKind::KeepCount => within(1, 127)?,
            OptionKind::MaxSegment => within(88, 32_767)?,
            OptionKind::Congestion => within(0, 2)?,
            OptionKind::ReceiveBuffer => value.max(2304),
            // The ECN bits are the transport's.
            OptionKind::TrafficClass => within(0, 255)? & !0b11,
            // The kernel's is an int.
            OptionKind::UserTimeout => within(0, i32::MAX as u32)?,
            OptionKind::Linger | OptionKind::FinWait2 | OptionKind::NotSentLow => value,
        };
        let bit = bit(option);
        let at = self.before(bit);
        if self.set & bit == 0 {
            let (before, after) = self.values.split_at(at);
            self.values = [before, &[value], after].concat().into();
            self.set |= bit;
        } else {
            self.values[at] = value;
        }
        Ok(value)
    }

    pub(crate) fn set_send_buffer(&mut self, bytes: u64) {
        self.chosen_send_buffer = saturated(bytes.max(MIN_SEND_BUFFER));
    }

    pub(super) fn chosen_send_buffer(&self) -> Option<u64> {
        (self.chosen_send_buffer != 0).then_some(self.chosen_send_buffer.into())
    }

    pub(super) fn receive_low(&self) -> u64 {
        self.receive_low.into()
    }

    pub(super) fn advised_send_buffer(&self) -> u64 {
        self.advised_send_buffer.into()
    }

    pub(super) fn advise_send_buffer(&mut self, bytes: u64) {
        self.advised_send_buffer = saturated(bytes.max(MIN_SEND_BUFFER));
    }

    pub(crate) fn set_receive_low(&mut self, bytes: u64) {
        self.receive_low = saturated(bytes.max(1));
    }

    /// Bytes that have to wait for the socket to be readable: what was set, but no more than half of
    /// the receive buffer, as in the kernel, nor [`MOST_LOW`].
    pub(super) fn readable_from(&self) -> u64 {
        self.receive_low()
            .min(self.receive_buffer() / 2)
            .clamp(1, MOST_LOW)
    }
}

/// The bit of an option among those that are set.
fn bit(option: OptionKind) -> u16 {
    1 << (option as usize - 1)
}

fn saturated(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Socket {
    /// Sets an option, in the unit that [`OptionKind`] states.
    ///
    /// # Errors
    /// `EINVAL`: the option cannot have that value.
    pub fn set_option(&self, option: OptionKind, value: u32) -> Result<(), Errno> {
        let mut state = self.attach_and_lock();
        if state.options.value(option) == Some(value) {
            return Ok(());
        }
        let value = state.options.set(option, value)?;
        // Of one that is still being opened, `opened` sees to it.
        if let (Phase::Open, Some(link)) = (state.phase, &state.link) {
            let value = state.to_engine(option, value);
            link.attachment.set_option(link.conn, option, value.into());
        }
        self.core.changed_here(state);
        Ok(())
    }

    /// What the program has set an option to; `None` if it is at its default.
    pub fn option(&self, option: OptionKind) -> Option<u32> {
        lock(&self.core.state).options.value(option)
    }

    /// Fixes how many bytes may be written and not acknowledged, which follows the path otherwise. (The
    /// kernel's `SO_SNDBUF` is doubled on its way in; that is for whoever translates it.)
    pub fn set_send_buffer(&self, bytes: u64) {
        let mut state = self.attach_and_lock();
        state.options.set_send_buffer(bytes);
        self.core.changed_here(state);
    }

    /// How many bytes have to wait before the socket is readable (`SO_RCVLOWAT`); 1 if nobody has
    /// said. It takes effect up to 64 KiB and half of the receive buffer.
    pub fn set_receive_low(&self, bytes: u64) {
        let mut state = self.attach_and_lock();
        state.options.set_receive_low(bytes);
        self.core.changed_here(state);
    }

    /// What was set by [`set_receive_low`](Self::set_receive_low).
    pub fn receive_low(&self) -> u64 {
        lock(&self.core.state).options.receive_low()
    }

    /// So many bytes make it readable.
    pub fn readable_from(&self) -> u64 {
        lock(&self.core.state).options.readable_from()
    }

    /// How many bytes may be written and not acknowledged now.
    pub fn send_buffer(&self) -> u64 {
        lock(&self.core.state).options.send_buffer()
    }
}
