//! Fast Open (RFC 7413) of one connection, on either side.
//!
//! *The client's* SYN carries data from the front of the send queue. It is not in flight as other data is:
//! what the SYN-ACK does not acknowledge is simply the first that is sent after the handshake (RFC 7413
//! §4.2.2). The SYN is not sent again with it.
//!
//! *The server's* connection stands in SYN-RECEIVED with SND.UNA after its SYN, sends data, and hears only
//! of what completes the handshake. Until then its one timer sends the SYN-ACK again, and nothing else
//! (RFC 7413 §4.2.2).

use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::{FastOpenCookie, Flags, Repr};

use super::{Common, Connection, Context, Handshake, TransmitContext};
use crate::config::{Config, ConnOptions};
use crate::fast_open::{Asked, FastOpen};
use crate::info::State;
use crate::{Instant, PayloadStore};

/// The most bytes that the options of a header take (RFC 9293 §3.1).
const MOST_OPTIONS: u16 = 40;

impl Connection {
    /// What our SYN carries besides: the option, and so many bytes from the front of the send queue.
    //= RFC 7413 §4.2.1, §4.2.2
    pub(super) fn fast_open_syn(&self, tcp: &mut Repr, cx: &mut TransmitContext<'_>) -> u32 {
        let now = cx.now;
        if self.fast_open == (FastOpen::Pending { renew: true }) {
            let cookies = &mut cx.common.fast_opens.cookies;
            let cookie = cookies.make(now, self.key.local, self.key.remote);
            tcp.options.fast_open = Some(cookie);
        }
        if self.fast_open != FastOpen::Wanted || self.state != State::SynSent {
            return 0;
        }
        match cx.common.fast_opens.remembered.ask(now, self.key.remote) {
            Asked::Nothing => 0,
            Asked::Request => {
                tcp.options.fast_open = Some(FastOpenCookie::REQUEST);
                0
            }
            Asked::Cookie(cookie, mss) => {
                tcp.options.fast_open = Some(cookie);
                let segment = mss.min(self.local_mss).min(self.path_mss());
                let room = usize::from(segment).saturating_sub(tcp.options.len());
                u32::try_from(self.queue.len())
                    .unwrap_or(u32::MAX)
                    .min(room as u32)
            }
        }
    }

    /// Bytes that our SYN may carry at most with a cookie, of a server with this MSS: as Linux, all that its
    /// options could leave room for.
    fn syn_room(&self, mss: u16) -> u16 {
        let segment = mss.min(self.local_mss).min(self.path_mss());
        segment.saturating_sub(MOST_OPTIONS)
    }

    /// Where a cookie is known that leaves room for data, our SYN waits for the first.
    pub(crate) fn hold_syn(&mut self, now: Instant, common: &mut Common) {
        let asked = common.fast_opens.remembered.ask(now, self.key.remote);
        if self.fast_open == FastOpen::Wanted
            && matches!(asked, Asked::Cookie(_, mss) if self.syn_room(mss) > 0)
        {
            self.fast_open = FastOpen::Held;
            self.syn_due = false;
            self.wants_transmit = false;
        }
    }

    /// Our SYN waits no longer.
    pub(super) fn let_syn_go(&mut self) {
        if self.fast_open == FastOpen::Held {
            self.fast_open = FastOpen::Wanted;
            self.syn_due = true;
            self.wants_transmit = true;
        }
    }

    /// Bytes that a SYN which waits for data has room for; 0 if it does not wait.
    pub(crate) fn held_syn_room(&self, now: Instant, common: &mut Common) -> u16 {
        if self.fast_open != FastOpen::Held {
            return 0;
        }
        match common.fast_opens.remembered.ask(now, self.key.remote) {
            Asked::Cookie(_, mss) => self.syn_room(mss),
            Asked::Nothing | Asked::Request => 0,
        }
    }

    /// Our SYN has left with the option, and with so many bytes of data.
    pub(super) fn note_fast_open_syn(&mut self, data: u32, common: &mut Common) {
        if self.fast_open == FastOpen::Wanted {
            self.fast_open = FastOpen::Asked;
            // Never more than a segment.
            self.syn_data = data as u16;
            if data > 0 {
                self.data_segments_out = self.data_segments_out.wrapping_add(1);
                common.counters.bytes_out += u64::from(data);
                common.counters.fast_opens_out += 1;
            }
        }
    }

    /// Nobody has answered our SYN in time: perhaps for what it carried, which the next one does not.
    //= RFC 7413 §4.1.3
    pub(super) fn give_fast_open_up(&mut self, cx: &mut Context<'_>) {
        if self.fast_open == FastOpen::Asked {
            self.fast_open = FastOpen::No;
            let remembered = &mut cx.common.fast_opens.remembered;
            remembered.avoid(cx.now, self.key.remote);
        }
    }

    /// After the last number that our SYN has taken, data included.
    pub(super) fn syn_end(&self) -> SeqNumber {
        self.snd.nxt + u32::from(self.syn_data)
    }

    /// The peer's SYN-ACK: a cookie for the next time, and `ack`, which tells how much of the SYN's data it
    /// has taken.
    //= RFC 7413 §4.2.2
    pub(super) fn take_fast_open_answer(
        &mut self,
        tcp: &Repr,
        ack: SeqNumber,
        cx: &mut Context<'_>,
    ) {
        let given = tcp.options.fast_open.filter(|cookie| !cookie.is_request());
        if self.fast_open == FastOpen::Asked
            && let Some(cookie) = given
        {
            let remembered = &mut cx.common.fast_opens.remembered;
            remembered.learn(cx.now, self.key.remote, cookie, self.snd.peer_mss);
        }
        let taken = ack.distance_from(self.snd.nxt).max(0) as u32;
        self.fast_open = FastOpen::No;
        self.syn_data = 0;
        if taken > 0 {
            self.fast_open = FastOpen::Done;
            self.queue
                .acknowledge(self.queue.start() + u64::from(taken));
            self.pushed = self.pushed.saturating_sub(taken);
            self.snd.nxt = ack;
        }
    }

    /// A connection that a SYN with a cookie has opened.
    //= RFC 7413 §4.2.2
    pub(crate) fn passive_fast_open(
        now: Instant,
        (handshake, renew): (&Handshake, bool),
        window: u16,
        options: &ConnOptions,
        config: &Config,
    ) -> Self {
        let mut c = Self::passive(now, handshake, options, config);
        c.fast_open = FastOpen::Pending { renew };
        c.snd.una = c.snd.nxt;
        c.snd.sml = c.snd.nxt;
        // The window of a SYN is not scaled (RFC 7323 §2.2).
        c.set_window(u32::from(window), handshake.irs, handshake.iss);
        c.connected = true;
        c.changed = true;
        c.syn_due = true;
        c.wants_transmit = true;
        c
    }

    /// Takes what a SYN has brought. What there is no memory for is not acknowledged, and comes again.
    //= RFC 7413 §4.2.2
    pub(crate) fn take_syn_data<S: PayloadStore>(
        &mut self,
        segment: &Segment<'_>,
        store: &mut S,
        cx: &mut Context<'_>,
    ) {
        let room = segment.payload.len().min(self.receive_window() as usize);
        let bytes = &segment.payload[..room];
        if bytes.is_empty() {
            return;
        }
        self.data_segments_in = self.data_segments_in.wrapping_add(1);
        // The reason is counted nowhere else, and the peer hears by the acknowledgement.
        let _ = self.place_in_order(bytes, store, cx);
    }

    /// The SYN that has opened this connection comes again: our SYN-ACK was lost, or is late.
    pub(super) fn is_syn_again(&self, tcp: &Repr) -> bool {
        // All that was received came with it.
        let irs = self.rcv.nxt - 1 - self.rcv.received as u32;
        self.fast_open.is_pending()
            && tcp.flags.contains(Flags::SYN)
            && tcp.ack.is_none()
            && tcp.seq == irs
    }

    /// Our SYN-ACK has been acknowledged, and perhaps some of the data that followed it.
    //= RFC 7413 §4.2.2
    pub(super) fn complete_fast_open(&mut self, cx: &mut Context<'_>) {
        self.fast_open = if self.rcv.received > 0 {
            FastOpen::Done
        } else {
            FastOpen::No
        };
        cx.common.fast_opens.pending -= 1;
        if self.retransmits == 0 {
            // Karn: a SYN-ACK that left twice is not timed.
            let sample = cx.now.since(self.stalled_since);
            self.rtt.on_sample(cx.now, sample);
            cx.common.counters.round_trips.record(sample.get());
        } else {
            self.rtt.note_syn_timeout();
        }
        self.establish(cx.now);
        if self.in_flight() > 0 {
            self.recovery.restart_timer(cx.now, self.rto());
            self.recovery
                .restart_pto(cx.now, self.rtt.srtt(), self.snd.mss);
            self.watch_flight();
        }
    }
}
