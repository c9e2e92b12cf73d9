//! SEGMENT ARRIVES in SYN-SENT (RFC 9293 3.10.7.3), simultaneous open included.

use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::Flags;

use super::{Connection, Context, Handshake};
use crate::congestion::Controller;
use crate::counters::DropReason;
use crate::event::Failure;
use crate::fast_open::FastOpen;
use crate::info::State;

impl Connection {
    /// What comes with a SYN beyond the SYN itself (payload, FIN) is not taken: our ACK does not
    /// cover it, and the peer sends it again.
    //= RFC 9293 §3.10.7.3
    pub(super) fn on_segment_syn_sent(
        &mut self,
        segment: &Segment<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), DropReason> {
        let tcp = &segment.tcp;
        let reset = tcp.flags.contains(Flags::RST);
        let syn = tcp.flags.contains(Flags::SYN);

        // First, check the ACK bit. The stack answers what acknowledges something else by RST.
        if let Some(ack) = tcp.ack
            && (ack.at_or_before(self.snd.una) || ack.after(self.syn_end()))
        {
            return Err(DropReason::BadHandshakeAck);
        }
        // Second, the RST bit.
        if reset {
            if tcp.ack.is_none() {
                return Err(DropReason::UnacceptableReset);
            }
            cx.common.counters.resets_in += 1;
            self.fail(Failure::Refused, &mut cx.common.counters);
            return Ok(());
        }
        // Fourth, the SYN bit.
        if !syn {
            return Err(DropReason::NoAck);
        }
        // A timestamp that echoes nothing of ours is taken anyway: the ACK is proof enough.
        self.last_received_ms = super::milliseconds(cx.now);
        let mut handshake = Handshake::new(
            self.key,
            self.snd.una,
            tcp.seq,
            self.ts.offset,
            tcp,
            &cx.common.config,
        );
        // Nobody can accept what we have not offered, or have taken back.
        handshake.ecn &= tcp.ack.is_none() || self.offers_ecn(&cx.common.config);
        // By our SYNs, whatever the buffer is now.
        let offered = self.receive_window();
        self.agree(cx.now, &handshake, &cx.common.config);
        self.rcv.adv = self.rcv.nxt + offered;
        self.set_window(
            u32::from(tcp.window),
            tcp.seq,
            tcp.ack.unwrap_or(SeqNumber(0)),
        );
        match tcp.ack {
            Some(ack) => {
                self.take_fast_open_answer(tcp, ack, cx);
                self.complete_handshake(ack, tcp.seq, cx);
                // Here the window was not scaled.
                self.set_window(u32::from(tcp.window), tcp.seq, ack);
                self.ack_now = true;
                Ok(())
            }
            None => {
                //= RFC 9293 MUST-10
                // Simultaneous open (RFC 9293 3.5, figure 8): SYN-ACK from the same sequence number.
                self.state = State::SynReceived;
                // A SYN that waited for data waits no longer, and a SYN-ACK carries none.
                if self.fast_open == FastOpen::Held {
                    self.fast_open = FastOpen::No;
                }
                self.syn_due = true;
                self.wants_transmit = true;
                Ok(())
            }
        }
    }

    /// Our SYN has been acknowledged.
    pub(super) fn complete_handshake(
        &mut self,
        ack: SeqNumber,
        seq: SeqNumber,
        cx: &mut Context<'_>,
    ) {
        // The SYN, and what it carried, is the only thing that can have been sent.
        self.snd.una = ack;
        self.snd.wl1 = seq;
        self.snd.wl2 = ack;
        self.snd.sml = ack;
        if self.state == State::SynSent && self.retransmits == 0 {
            // Karn: a SYN that left twice is not timed.
            let sent_at = self.stalled_since;
            let sample = cx.now.since(sent_at);
            self.rtt.on_sample(cx.now, sample);
            cx.common.counters.round_trips.record(sample.get());
        }
        self.congestion = Controller::new(self.congestion.algorithm(), self.snd.mss);
        //= RFC 6298 §5.7
        if self.retransmits > 0 {
            self.rtt.note_syn_timeout();
        }
        //= RFC 6928 §2
        // One SYN that was sent again may have been late and not lost; more of them tell of
        // congestion (RFC 5681 §3.1).
        if self.retransmits > 1 {
            self.congestion.set_cwnd(u32::from(self.snd.mss));
        }
        self.establish(cx.now);
    }
}
