//! Payload and FIN (RFC 9293 3.10.7.4, seventh and eighth): cutting to the window, in order and out
//! of order, and the end of the peer's stream.

use wire::segment::Segment;
use wire::tcp::Flags;

use super::{Connection, Context};
use crate::PayloadStore;
use crate::counters::DropReason;
use crate::event::Failure;
use crate::info::State;
use crate::reassembly::Range;

impl Connection {
    pub(super) fn on_payload<S: PayloadStore>(
        &mut self,
        segment: &Segment<'_>,
        store: &mut S,
        cx: &mut Context<'_>,
    ) -> Result<(), DropReason> {
        // Whatever this is, it is worth a decision about acknowledging.
        self.wants_transmit = true;
        if !self.state.may_receive() {
            // The peer's FIN has been received; what comes now can only be older or wrong.
            self.ack_now = true;
            return Err(DropReason::DataAfterFin);
        }

        // Where the segment lies in the stream. It may begin before what is in order.
        let received = self.rcv.received;
        // What a SYN carries comes after it: the other side of a simultaneous open may send data with its
        // SYN-ACK.
        let seq = segment.tcp.seq + u32::from(segment.tcp.flags.contains(Flags::SYN));
        let ahead = i64::from(seq.distance_from(self.rcv.nxt));
        let begin = received as i64 + ahead;
        let end = begin + segment.payload.len() as i64;
        let limit = (received + u64::from(self.receive_window())) as i64;
        if segment.tcp.flags.contains(Flags::FIN) && end <= limit && self.rcv.fin_at == u64::MAX {
            // The first word on where the stream ends is the last, if it fits what is there.
            let held = self.reassembly.end().unwrap_or(received);
            if end >= held as i64 {
                self.rcv.fin_at = end as u64;
            }
        }
        if begin < received as i64 && !segment.payload.is_empty() {
            let already = (received as i64).min(end) - begin;
            self.note_dsack(seq, seq + already as u32);
        }
        // What of it is inside the window.
        let from = begin.max(received as i64);
        let to = end.min(limit);
        let to = u64::try_from(to).unwrap_or(0).min(self.rcv.fin_at);
        let from = from as u64;

        let mut result = Ok(());
        if from < to {
            if self.is_deaf() {
                return Err(self.refuse_payload(segment, cx));
            }
            let skip = (from as i64 - begin) as usize;
            let bytes = &segment.payload[skip..skip + (to - from) as usize];
            result = if from == received && self.reassembly.is_empty() {
                self.place_in_order(bytes, store, cx)
            } else {
                self.place_out_of_order(from, bytes, store, cx)
            };
        } else if !segment.payload.is_empty() {
            // Nothing of it was news, or the window is closed.
            self.ack_now = true;
            let duplicate = end <= received as i64;
            result = Err(if duplicate {
                DropReason::DuplicateData
            } else {
                DropReason::BeyondWindow
            });
        }
        if self.rcv.received == self.rcv.fin_at {
            self.on_peer_fin();
            return Ok(());
        }
        if segment.tcp.flags.contains(Flags::FIN) {
            // It says that there is more to come.
            if self.rcv.fin_at != u64::MAX && self.is_deaf() {
                return Err(self.refuse_payload(segment, cx));
            }
            self.ack_now = true;
        }
        result
    }

    /// Nobody will ever read what is yet to come: its owner has closed it, or has shut down both directions.
    /// One that only reads no more, and may still send, goes on to take what comes.
    fn is_deaf(&self) -> bool {
        self.orphan || (self.read_shut && self.state != State::Established)
    }

    /// Answers by RST what nobody will ever read, or a FIN behind it, so that the peer knows that it is lost
    /// (RFC 1122 4.2.2.13, RFC 2525 2.17).
    #[cold]
    fn refuse_payload(&mut self, segment: &Segment<'_>, cx: &mut Context<'_>) -> DropReason {
        let seq = segment.tcp.ack.unwrap_or(self.snd.nxt);
        // An owner that still looks is told what Linux tells it.
        let failure = if self.orphan {
            Failure::Aborted
        } else {
            Failure::Reset
        };
        self.reset_at(seq, failure, &mut cx.common.counters);
        DropReason::DataAfterClose
    }

    pub(super) fn place_in_order<S: PayloadStore>(
        &mut self,
        bytes: &[u8],
        store: &mut S,
        cx: &mut Context<'_>,
    ) -> Result<(), DropReason> {
        let taken = store
            .place(cx.id, self.rcv.received, bytes)
            .min(bytes.len());
        self.advance(taken as u64, cx);
        if bytes.len() > usize::from(self.rcv.mss) {
            let seen = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
            self.rcv.mss = seen.min(self.local_mss);
        }
        if taken == bytes.len() {
            return Ok(());
        }
        self.ack_now = true;
        Err(DropReason::NoMemory)
    }

    /// Places what is not held yet of `bytes`, which begin at offset `from`.
    fn place_out_of_order<S: PayloadStore>(
        &mut self,
        from: u64,
        bytes: &[u8],
        store: &mut S,
        cx: &mut Context<'_>,
    ) -> Result<(), DropReason> {
        // RFC 5681 4.2: what leaves or fills a hole is acknowledged at once.
        self.ack_now = true;
        let to = from + bytes.len() as u64;
        let mut result = Err(DropReason::DuplicateData);
        let mut rest = Range {
            start: from,
            end: to,
        };
        while let Some(gap) = self.reassembly.first_gap(rest) {
            self.note_held(rest.start, gap.start);
            // The hole right at the front can always be filled: it needs no range of its own.
            let in_order = gap.start == self.rcv.received;
            let common = &cx.common;
            let left = common.config.ranges_left(common.out_of_order_ranges);
            let max_ranges = usize::from(common.config.max_out_of_order_ranges)
                .min(usize::from(self.counted_ranges) + left as usize);
            if !in_order && !self.reassembly.has_room(gap.start, max_ranges) {
                result = Err(DropReason::OutOfOrderFull);
                break;
            }
            let piece = &bytes[(gap.start - from) as usize..(gap.end - from) as usize];
            let taken = store.place(cx.id, gap.start, piece).min(piece.len()) as u64;
            if in_order {
                self.advance(taken, cx);
            } else if taken > 0 {
                self.reassembly.insert(Range {
                    start: gap.start,
                    end: gap.start + taken,
                });
            }
            if taken < gap.end - gap.start {
                result = Err(DropReason::NoMemory);
                break;
            }
            result = Ok(());
            rest.start = gap.end;
        }
        if self.reassembly.first_gap(rest).is_none() {
            self.note_held(rest.start, rest.end);
        }
        if from > self.rcv.received && result.is_ok() {
            cx.common.counters.out_of_order_segments += 1;
            if !self.selective {
                self.duplicates_owed = self.duplicates_owed.saturating_add(1);
            }
        }
        let in_order = self.reassembly.advance(self.rcv.received);
        self.advance(in_order - self.rcv.received, cx);
        self.tune_for_held(&cx.common.config);
        result
    }

    /// `start .. end` of the stream has arrived and was held already.
    fn note_held(&mut self, start: u64, end: u64) {
        if start < end {
            let seq = |offset: u64| self.rcv.nxt + offset.wrapping_sub(self.rcv.received) as u32;
            self.note_dsack(seq(start), seq(end));
        }
    }

    /// This many more bytes are in order.
    fn advance(&mut self, bytes: u64, cx: &mut Context<'_>) {
        self.rcv.received += bytes;
        // Never more than a window, which is less than 2^31.
        self.rcv.nxt += bytes as u32;
        if bytes > 0 {
            self.changed = true;
            self.duplicates_owed = 0;
        }
        cx.common.counters.bytes_in += bytes;
    }

    /// Everything up to the peer's FIN is in order.
    fn on_peer_fin(&mut self) {
        self.rcv.nxt += 1;
        self.rcv.adv = self.rcv.adv.max(self.rcv.nxt);
        self.reassembly.clear();
        self.ack_now = true;
        self.changed = true;
        self.state = self.state.after_peer_fin();
        if self.state == State::TimeWait {
            self.timers.clear_all();
        }
    }

    /// How many ranges are held out of order.
    pub(crate) fn out_of_order_ranges(&self) -> u16 {
        // No more than the configured number, which is of this type.
        self.reassembly.len() as u16
    }

    /// Lets go of what is held out of order. Returns how many bytes that were.
    pub(crate) fn shed_out_of_order(&mut self) -> u64 {
        self.reassembly.clear()
    }
}
