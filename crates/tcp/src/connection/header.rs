//! The header of a segment about to leave, and the window that it offers.

use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr, SackBlock, SackBlocks, Timestamps};

use super::{Connection, Timer};
use crate::Instant;
use crate::config::Config;
use crate::info::State;
use crate::reassembly::Range;

/// Room that selective acknowledgements may take of a segment with payload.
const SACK_SPARE: usize = 40;

impl Connection {
    /// A header of the synchronized states, acknowledging everything in order. `spare` is how many
    /// bytes the segment is short of full: selective acknowledgements may use them.
    #[inline]
    pub(super) fn header(
        &mut self,
        now: Instant,
        seq: SeqNumber,
        flags: Flags,
        spare: usize,
    ) -> Repr {
        let mut header = Repr {
            src_port: self.key.local_port,
            dst_port: self.key.remote_port,
            seq,
            ack: Some(self.rcv.nxt),
            flags: flags | self.ecn.flags(),
            window: self.offer_window(),
            options: Options {
                timestamps: self.timestamps(now),
                ..Options::NONE
            },
        };
        if spare >= SACK_SPARE && self.has_sack_blocks() {
            header.options.sack = self.sack_blocks();
        }
        header
    }

    /// The header of our SYN, or SYN-ACK once the peer's SYN has been seen.
    //= RFC 9293 MUST-65
    //= RFC 2018 §2
    pub(super) fn syn_header(&self, now: Instant, config: &Config) -> Repr {
        let answering = self.state == State::SynReceived;
        let pending = self.fast_open.is_pending();
        // What an earlier SYN has offered is kept.
        let offered = self.receive_window();
        let window = if pending {
            offered
        } else {
            self.rcv.buffer.max(offered)
        };
        let scale = super::open::window_scale(config);
        let (scaling, timestamps, selective) = if answering {
            (self.snd.scaling, self.ts.enabled, self.selective)
        } else {
            (
                config.window_scaling,
                config.timestamps,
                config.selective_acks,
            )
        };
        Repr {
            src_port: self.key.local_port,
            dst_port: self.key.remote_port,
            // Of a pending Fast Open SND.UNA lies after our SYN already.
            seq: self.snd.una - u32::from(pending),
            ack: answering.then_some(self.rcv.nxt),
            flags: Flags::SYN | self.ecn_syn_flags(answering, config),
            window: u16::try_from(window).unwrap_or(u16::MAX),
            options: Options {
                mss: Some(self.local_mss),
                window_scale: scaling.then_some(scale),
                sack_permitted: selective,
                timestamps: timestamps.then(|| Timestamps {
                    value: self.timestamp(now),
                    echo: self.ts.recent,
                }),
                ..Options::NONE
            },
        }
    }

    /// The timestamps option: TSval, our clock, and TSecr, the peer's TSval given back.
    //= RFC 7323 §3.2
    fn timestamps(&self, now: Instant) -> Option<Timestamps> {
        self.ts.enabled.then(|| Timestamps {
            value: self.timestamp(now),
            echo: self.ts.recent,
        })
    }

    /// Whether the peer can be told of something beyond the cumulative acknowledgement.
    pub(super) fn has_sack_blocks(&self) -> bool {
        self.selective && (!self.reassembly.is_empty() || self.has_dsack())
    }

    fn has_dsack(&self) -> bool {
        self.rcv.dsack.left != self.rcv.dsack.right
    }

    /// What was received twice, and the held range around it (RFC 2883 §4); then the range of the
    /// latest arrival (RFC 2018 §4), then those nearest to the end of the stream, which are the
    /// youngest. Those that do not fit are not emitted.
    //= RFC 2018 §4
    //= RFC 2883 §4, §4.1, §4.2
    fn sack_blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        let mut around = None;
        if self.has_dsack() {
            let SackBlock { left, right } = self.rcv.dsack;
            blocks.push(self.rcv.dsack);
            // Nothing is held below what is in order.
            let ahead = u64::try_from(left.distance_from(self.rcv.nxt)).ok();
            let held = ahead.and_then(|ahead| self.reassembly.around(self.rcv.received + ahead));
            around = held.filter(|&held| right.at_or_before(self.sack_block(held).right));
        }
        let latest = self.reassembly.latest().filter(|r| Some(*r) != around);
        let others = self.reassembly.ranges().rev();
        for range in around
            .into_iter()
            .chain(latest)
            .chain(others.filter(|r| Some(*r) != latest && Some(*r) != around))
            .take(SackBlocks::MAX)
        {
            blocks.push(self.sack_block(range));
        }
        blocks
    }

    /// `left .. right` has arrived once more. The peer is told of the first such range since the
    /// last acknowledgement.
    pub(super) fn note_dsack(&mut self, left: SeqNumber, right: SeqNumber) {
        if self.selective && !self.has_dsack() && left.before(right) {
            self.rcv.dsack = SackBlock { left, right };
        }
    }

    fn sack_block(&self, range: Range) -> SackBlock {
        // A held range lies in the window: less than 2^31 ahead.
        let seq = |offset: u64| self.rcv.nxt + (offset - self.rcv.received) as u32;
        SackBlock {
            left: seq(range.start),
            right: seq(range.end),
        }
    }

    /// Moves the window's right edge as far as the buffer allows, and returns the window as the header
    /// carries it. SWS (silly window syndrome) avoidance, the receiver's (RFC 9293 3.8.6.2.2, RFC 1122
    /// 4.2.3.3), keeps the edge where it is as long as the gain is small.
    ///
    /// The edge never moves back. What the shift would cut off of it is rounded up, as in Linux, as
    /// long as that adds up to no more than an eighth of the buffer; beyond that it is offered later
    /// (RFC 7323 2.4), or small segments would draw the edge along for ever.
    //= RFC 7323 §2.4
    fn offer_window(&mut self) -> u16 {
        let free = self.free_window();
        if self.is_worth_offering(free) {
            self.rcv.adv = self.rcv.nxt + free;
        } else {
            self.round_edge_up();
        }
        let window = self.receive_window() >> self.rcv.scale;
        u16::try_from(window).unwrap_or(u16::MAX)
    }

    #[inline]
    fn round_edge_up(&mut self) {
        let window = self.receive_window();
        let unit = 1 << self.rcv.scale;
        let up = window.wrapping_neg() & (unit - 1);
        if up == 0 {
            return;
        }
        let most = u64::from(self.rcv.buffer) * 9 / 8;
        if self.unread() + u64::from(window + up) <= most {
            self.rcv.adv += up;
        }
    }

    /// What the buffer allows, and the header can express.
    fn free_window(&self) -> u32 {
        let unread = u32::try_from(self.unread()).unwrap_or(u32::MAX);
        let free = self.rcv.buffer.saturating_sub(unread);
        let limit = u32::from(u16::MAX) << self.rcv.scale;
        free.min(limit).min(self.rcv.limit) >> self.rcv.scale << self.rcv.scale
    }

    /// Memory has become scarce, or is no longer: the window that may be offered from now on. Never
    /// less than two full segments, so that a peer who waits for room is heard of again.
    pub(super) fn limit_window(&mut self, limit: u32) -> bool {
        self.rcv.limit = limit.max(2 * u32::from(self.rcv.mss));
        let unread = u32::try_from(self.unread()).unwrap_or(u32::MAX);
        self.rcv.limit < self.rcv.buffer.saturating_sub(unread)
    }

    /// What rounding has already added to the edge counts as a part of the gain.
    //= RFC 9293 MUST-39
    fn is_worth_offering(&self, window: u32) -> bool {
        let gain = window.saturating_sub(self.receive_window());
        let rounded = (1 << self.rcv.scale) - 1;
        gain > 0 && gain + rounded >= (self.rcv.buffer / 2).min(u32::from(self.rcv.mss))
    }

    /// The owner has made room: whether the peer should be sent a window update at once. It should when it
    /// may be running out of window: when what it was offered is at most half of what there is.
    pub(super) fn update_window(&mut self) {
        let free = self.free_window();
        // Of the three, what is rarely so.
        if self.receive_window() <= free / 2
            && self.state.may_receive()
            && self.is_worth_offering(free)
        {
            self.ack_now = true;
            self.wants_transmit = true;
        }
    }

    /// A segment with ACK has left.
    pub(super) fn note_acknowledged(&mut self, told: bool) {
        if told {
            self.rcv.dsack = SackBlock::default();
        }
        if self.rcv.acked != self.rcv.nxt {
            self.rcv.acked = self.rcv.nxt;
            self.timers.clear(Timer::DelayedAck);
        }
        self.ack_now = false;
    }
}
