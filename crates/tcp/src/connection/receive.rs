//! SEGMENT ARRIVES (RFC 9293 3.10.7.4) for every state after SYN-SENT, with the checks in the
//! order of the RFC, those of RFC 5961 and RFC 7323 among them.

use wire::segment::Segment;
use wire::tcp::Flags;

use super::{Connection, Context, milliseconds, seconds};
use crate::PayloadStore;
use crate::counters::DropReason;
use crate::event::Failure;
use crate::info::State;

/// Milliseconds between two answers to unacceptable segments of one connection, so that two
/// confused peers do not acknowledge each other for ever.
const ANSWER_INTERVAL: u32 = 500;

/// PAWS: how old TS.Recent may be before it says nothing any more: 24 days (RFC 7323 5.5).
const TIMESTAMP_LIFETIME_SECONDS: u32 = 24 * 24 * 3600;

impl Connection {
    /// A segment for this connection has arrived.
    //= RFC 9293 §3.10.7.4
    pub(crate) fn on_segment<S: PayloadStore>(
        &mut self,
        segment: &Segment<'_>,
        store: &mut S,
        cx: &mut Context<'_>,
    ) -> Result<(), DropReason> {
        self.count_segment(segment, cx.now, &mut cx.common.counters);
        match self.state {
            State::SynSent => return self.on_segment_syn_sent(segment, cx),
            // Only until its RST has left.
            State::Closed => return Err(DropReason::Closed),
            _ => {}
        }
        let tcp = &segment.tcp;
        let reset = tcp.flags.contains(Flags::RST);

        //= RFC 5961 §4.2
        // RFC 5961 4.2, before everything else: a peer that has restarted may not remember our
        // sequence numbers, nor that we had agreed on timestamps.
        if tcp.flags.contains(Flags::SYN) && !reset && self.state != State::SynReceived {
            self.challenge(cx);
            return Err(DropReason::UnexpectedSyn);
        }

        //= RFC 7323 §5.3
        // PAWS, protection against wrapped sequence numbers (RFC 7323 5.3, R1): a TSval older than TS.Recent
        // marks an old duplicate. RST is exempt.
        if self.ts.enabled && !reset {
            match tcp.options.timestamps {
                Some(t) if self.fails_paws(t.value, cx) => {
                    self.answer_unacceptable(cx);
                    return Err(DropReason::Paws);
                }
                Some(_) => {}
                None => return Err(DropReason::TimestampMissing),
            }
        }

        // Both sides of a simultaneous open answer the other's SYN by SYN-ACK, from the same sequence
        // number (RFC 9293 3.5, figure 8): all that is new about it is the ACK.
        let crossing = self.state == State::SynReceived
            && tcp.flags == Flags::SYN | Flags::ACK
            && tcp.seq + 1 == self.rcv.nxt;

        if self.state == State::SynReceived && self.is_syn_again(tcp) {
            self.syn_due = true;
            self.wants_transmit = true;
            return Err(DropReason::UnexpectedSyn);
        }

        // First, check sequence number.
        if !crossing {
            self.check_sequence(segment, reset, cx)?;
        }

        //= RFC 5961 §3.2
        // Second, check the RST bit: RFC 5961 3.2.
        if reset {
            if tcp.seq != self.rcv.nxt {
                self.challenge(cx);
                return Err(DropReason::UnacceptableReset);
            }
            cx.common.counters.resets_in += 1;
            let pending = self.fast_open.is_pending();
            if pending {
                cx.common.fast_opens.note_reset(cx.now);
            }
            let failure = if self.state == State::SynReceived && self.accepted && !pending {
                Failure::Refused
            } else {
                Failure::Reset
            };
            self.fail(failure, &mut cx.common.counters);
            return Ok(());
        }

        // Fourth, check the SYN bit: a simultaneous open may see the peer's SYN again.
        if tcp.flags.contains(Flags::SYN) && !crossing {
            self.syn_due = true;
            self.wants_transmit = true;
            return Err(DropReason::UnexpectedSyn);
        }

        // Fifth, check the ACK field.
        let Some(ack) = tcp.ack else {
            return Err(DropReason::NoAck);
        };
        if self.state == State::SynReceived {
            let pending = self.fast_open.is_pending();
            let completes = ack.after(self.snd.una) || (pending && ack == self.snd.una);
            if !completes || ack.after(self.syn_end()) {
                return Err(DropReason::BadHandshakeAck);
            }
            if pending {
                self.complete_fast_open(cx);
            } else {
                self.take_fast_open_answer(tcp, ack, cx);
                self.complete_handshake(ack, tcp.seq, cx);
            }
        } else if ack.after(self.snd.nxt) {
            self.answer_unacceptable(cx);
            return Err(DropReason::AckOfUnsent);
        } else if ack.before(self.snd.una - self.snd.max_wnd.max(1)) {
            //= RFC 5961 §5.2
            // RFC 5961 5.2.
            self.challenge(cx);
            return Err(DropReason::AckTooOld);
        }
        // From here on the peer has shown itself to be alive and itself.
        self.last_received_ms = milliseconds(cx.now);
        self.note_alive();

        //= RFC 7323 §4.3
        // RFC 7323 4.3: the timestamp of the segment that the next ACK answers.
        if self.ts.enabled
            && tcp.seq.at_or_before(self.rcv.acked)
            && let Some(t) = tcp.options.timestamps
        {
            self.ts.recent = t.value;
            self.ts.recent_at = seconds(cx.now);
        }

        self.take_mark(segment, cx);
        self.on_acknowledgement(segment, ack, cx);
        if self.state == State::Closed {
            return Ok(());
        }

        // Sixth, check the URG bit: urgent data is ordinary data to us.
        if tcp.flags.contains(Flags::URG) {
            cx.common.counters.urgent_segments += 1;
        }

        // Seventh and eighth: payload and FIN.
        if segment.payload.is_empty() && !tcp.flags.contains(Flags::FIN) {
            self.ack_now |= crossing;
            return Ok(());
        }
        self.note_echo_of_data(segment, cx.now);
        self.on_payload(segment, store, cx)
    }
    /// PAWS: whether a TSval is older than TS.Recent, and TS.Recent recent enough to tell.
    //= RFC 7323 §5.5
    fn fails_paws(&self, value: u32, cx: &Context<'_>) -> bool {
        let age = (seconds(cx.now)).wrapping_sub(self.ts.recent_at);
        (value.wrapping_sub(self.ts.recent) as i32) < 0 && age < TIMESTAMP_LIFETIME_SECONDS
    }

    /// RFC 9293 3.10.7.4, first; with RCV.NXT + RCV.WND as the last edge ever offered.
    ///
    /// A segment of no length may sit on the right edge: a sender that has filled the window
    /// acknowledges from there. It may also lie behind, as far as what we have not acknowledged yet:
    /// it was overtaken by data, and its ACK still counts. One that begins at RCV.NXT passes even when
    /// the window is closed: its ACK and RST count, its payload is cut off later.
    //= RFC 9293 MUST-66
    fn check_sequence(
        &mut self,
        segment: &Segment<'_>,
        reset: bool,
        cx: &mut Context<'_>,
    ) -> Result<(), DropReason> {
        let seq = segment.tcp.seq;
        let len = segment.sequence_len();
        let ahead = seq.distance_from(self.rcv.nxt);
        if ahead == 0 {
            return Ok(());
        }
        let window = self.receive_window();
        let reason = if ahead > 0 {
            let ahead = ahead as u32;
            if ahead < window || (len == 0 && ahead == window) {
                return Ok(());
            }
            DropReason::BeyondWindow
        } else {
            if len > 0 && (seq + len).after(self.rcv.nxt) {
                return Ok(());
            }
            if len == 0 && seq.at_or_after(self.rcv.acked) && !reset {
                return Ok(());
            }
            DropReason::OldDuplicate
        };
        if reset {
            return Err(DropReason::UnacceptableReset);
        }
        if len > 0 {
            // A FIN is in the DSACK as well, so that its sender knows a needless TLP for one.
            if ahead < 0 && !segment.tcp.flags.contains(Flags::SYN) {
                self.note_dsack(seq, seq + len);
            }
            // Data seen twice: our acknowledgement was lost, or a zero-window or keep-alive probe wants an
            // answer.
            self.ack_now = true;
            self.wants_transmit = true;
        } else {
            self.answer_unacceptable(cx);
        }
        Err(reason)
    }

    /// Acknowledges an unacceptable segment, but not every one.
    pub(super) fn answer_unacceptable(&mut self, cx: &Context<'_>) {
        if !self.has_just_answered(cx) {
            self.note_answered(cx);
        }
    }

    fn has_just_answered(&self, cx: &Context<'_>) -> bool {
        let age = milliseconds(cx.now).wrapping_sub(self.answered_at);
        self.answered_at != 0 && age < ANSWER_INTERVAL
    }

    fn note_answered(&mut self, cx: &Context<'_>) {
        self.answered_at = milliseconds(cx.now).max(1);
        self.ack_now = true;
        self.wants_transmit = true;
    }

    /// Sends a challenge ACK (RFC 5961 3.2), within the rate of this connection, so that nobody
    /// silences the others by one, and within that of all.
    //= RFC 5961 §7
    fn challenge(&mut self, cx: &mut Context<'_>) {
        if self.has_just_answered(cx) {
            cx.common.counters.rate_limited += 1;
        } else if cx.common.challenges.take(cx.now) {
            cx.common.counters.challenge_acks += 1;
            self.note_answered(cx);
        } else {
            cx.common.counters.rate_limited += 1;
        }
    }
}
