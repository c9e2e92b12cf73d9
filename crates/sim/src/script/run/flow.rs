//! One connection as the script sees it, and as it is on the wire. The script's end chooses its own
//! numbers, so those are the same in both; the stack's initial sequence number and timestamp clock
//! are learnt from what it sends first.

use wire::seq::SeqNumber;
use wire::tcp::Flags;

use crate::script::packet::{Segment, TcpOption};

/// Where in the pattern of bytes the stack's stream begins, and the script's.
pub(super) const OUTGOING: u64 = 1 << 40;
pub(super) const INCOMING: u64 = 2 << 40;

#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// The stack's port.
    pub(super) local_port: u16,
    /// The stack's sequence numbers on the wire, less those of the script.
    seq_offset: Option<u32>,
    /// The stack's initial sequence number in the script.
    first_seq: u32,
    /// The script's own initial sequence number, once its SYN has been sent.
    first_peer_seq: Option<u32>,
    /// The next SYN of the stack begins a new connection.
    renewed: bool,
    /// The stack's timestamps on the wire, less those of the script.
    clock_offset: Option<u32>,
    /// Timestamps of the stack: in the script, on the wire. The latest last.
    clocks: Vec<(u32, u32)>,
}

/// How many timestamps are remembered exactly.
const MAX_CLOCKS: usize = 64;

impl Flow {
    pub(super) fn new(local_port: u16) -> Flow {
        Flow {
            local_port,
            ..Flow::default()
        }
    }

    /// A segment of the script's, with the numbers that go on the wire. What it refers to must have
    /// been seen.
    pub(super) fn for_wire(&mut self, segment: &Segment) -> Segment {
        if segment.flags.contains(Flags::SYN)
            && !segment.flags.contains(Flags::ACK)
            && self.first_peer_seq != Some(segment.seq)
        {
            self.renewed = true;
        }
        if segment.flags.contains(Flags::SYN) {
            self.first_peer_seq.get_or_insert(segment.seq);
            if self.renewed {
                self.first_peer_seq = Some(segment.seq);
            }
        }
        let offset = self.seq_offset.unwrap_or(0);
        let mut wire = segment.clone();
        if let Some(ack) = &mut wire.ack {
            *ack = ack.wrapping_add(offset);
        }
        for option in wire.options.iter_mut().flatten() {
            match option {
                TcpOption::Sack(blocks) => {
                    for (left, right) in blocks {
                        *left = left.wrapping_add(offset);
                        *right = right.wrapping_add(offset);
                    }
                }
                TcpOption::Timestamps { echo, .. } => *echo = self.clock_to_wire(*echo),
                _ => {}
            }
        }
        wire
    }

    fn clock_to_wire(&self, echo: u32) -> u32 {
        let exact = self.clocks.iter().rev().find(|(script, _)| *script == echo);
        match (exact, self.clock_offset) {
            (Some((_, wire)), _) => *wire,
            (None, Some(offset)) if echo != 0 => echo.wrapping_add(offset),
            _ => echo,
        }
    }

    /// A segment of the stack's, with the numbers of the script; `expected` is what the script
    /// calls it, from which the beginnings are learnt.
    pub(super) fn for_script(&mut self, wire: &Segment, expected: &Segment) -> Segment {
        let begins = wire.flags.contains(Flags::SYN) && expected.flags.contains(Flags::SYN);
        if begins && (self.seq_offset.is_none() || self.renewed) {
            self.seq_offset = Some(wire.seq.wrapping_sub(expected.seq));
            self.first_seq = expected.seq;
            self.clock_offset = None;
            self.clocks.clear();
            self.renewed = false;
        }
        let mut segment = wire.clone();
        segment.seq = wire.seq.wrapping_sub(self.seq_offset.unwrap_or(0));
        let clock = |options: &Option<Vec<TcpOption>>| {
            options.iter().flatten().find_map(|option| match option {
                TcpOption::Timestamps { value, .. } => Some(*value),
                _ => None,
            })
        };
        if let Some(live) = clock(&wire.options) {
            let named = clock(&expected.options);
            if let (None, Some(named)) = (self.clock_offset, named) {
                self.clock_offset = Some(live.wrapping_sub(named));
            }
            if let Some(named) = named {
                if self.clocks.len() == MAX_CLOCKS {
                    self.clocks.remove(0);
                }
                self.clocks.push((named, live));
            }
        }
        for option in segment.options.iter_mut().flatten() {
            if let TcpOption::Timestamps { value, .. } = option {
                *value = value.wrapping_sub(self.clock_offset.unwrap_or(0));
            }
        }
        segment
    }

    /// A sequence number of the stack's on the wire.
    pub(super) fn seq_to_wire(&self, seq: u32) -> SeqNumber {
        SeqNumber(seq.wrapping_add(self.seq_offset.unwrap_or(0)))
    }

    /// Where a byte of the stack's stream lies in the pattern, by its number in the script; `None`
    /// for what is no part of the stream.
    pub(super) fn outgoing_address(&self, seq: u32) -> Option<u64> {
        self.seq_offset?;
        let ahead = SeqNumber(seq).distance_from(SeqNumber(self.first_seq) + 1);
        u64::try_from(ahead).ok().map(|ahead| OUTGOING + ahead)
    }

    /// The same for the script's own stream. A script may send what lies before its beginning.
    pub(super) fn incoming_address(&self, seq: u32) -> u64 {
        let first = self.first_peer_seq.unwrap_or(0);
        let ahead = SeqNumber(seq).distance_from(SeqNumber(first) + 1);
        INCOMING.wrapping_add_signed(ahead.into())
    }
}
