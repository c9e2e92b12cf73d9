//! What the owner is told, and what anybody may ask.

use core::net::SocketAddr;
use core::time::Duration;

use wire::seq::SeqNumber;

use super::{Connection, Timer, milliseconds};
use crate::Instant;
use crate::config::Config;
use crate::event::{ConnUpdate, Failure};
use crate::fast_open::FastOpen;
use crate::info::{ConnInfo, State};
use crate::recovery::Phase;

impl Connection {
    /// The timer that is worth telling, in the words of ss(8).
    fn told_timer(&self) -> Option<(&'static str, Timer)> {
        if self.timers.is_set(Timer::Transmit) {
            let opening = matches!(self.state, State::SynSent | State::SynReceived);
            let on = opening || self.in_flight() > 0;
            return Some((if on { "on" } else { "persist" }, Timer::Transmit));
        }
        if self.state == State::FinWait2 && self.timers.is_set(Timer::CorkOrFinWait2) {
            return Some(("timewait", Timer::CorkOrFinWait2));
        }
        let keeps = self.timers.is_set(Timer::KeepAlive);
        keeps.then_some(("keepalive", Timer::KeepAlive))
    }

    /// Pieces of send memory that are held.
    #[inline]
    pub(crate) fn send_extents(&self) -> usize {
        self.queue.extents()
    }

    /// SND.NXT.
    pub(crate) fn send_next(&self) -> SeqNumber {
        self.snd.nxt
    }

    pub(crate) fn update(&self, config: &Config) -> ConnUpdate {
        ConnUpdate {
            received: self.rcv.received,
            acked: self.queue.start(),
            send_buffer: self.send_buffer(config),
            connected: self.connected,
            peer_closed: self.rcv.received == self.rcv.fin_at,
            failed: self.failed,
        }
    }

    pub(crate) fn info(&self, now: Instant, config: &Config) -> ConnInfo {
        let ssthresh = self.congestion.ssthresh();
        ConnInfo {
            state: self.state,
            local: SocketAddr::new(self.key.local, self.key.local_port),
            remote: SocketAddr::new(self.key.remote, self.key.remote_port),
            orphaned: self.orphan,
            congestion: self.congestion.algorithm(),
            bbr: self.congestion.bbr_info(),
            timestamps: self.ts.enabled,
            selective_acks: self.selective,
            fast_open: self.fast_open == FastOpen::Done,
            window_scales: self.snd.scaling.then_some((self.snd.scale, self.rcv.scale)),
            send_mss: self.snd.mss,
            receive_mss: self.rcv.mss,
            path_mtu: self.path.mtu,
            soft_error: self.soft_error,
            srtt: self.rtt.srtt().map(Duration::from),
            rttvar: self.rtt.rttvar().map(Duration::from),
            min_rtt: self.rtt.min_rtt().map(Duration::from),
            rto: self.rto().into(),
            backoff: self.backoff,
            cwnd: self.congestion.cwnd(),
            ssthresh: (ssthresh != u32::MAX).then_some(ssthresh),
            send_window: self.snd.wnd,
            receive_window: self.receive_window(),
            in_flight: self.in_flight(),
            send_queue: self.queue.len(),
            receive_queue: self.unread(),
            out_of_order: u32::try_from(self.reassembly.bytes()).unwrap_or(u32::MAX),
            bytes_acked: self.queue.start(),
            bytes_received: self.rcv.received,
            retransmits: self.retransmits,
            unanswered: self.unanswered,
            keep_alive_probes: self.keep_alive_probes,
            recovering: self.recovery.phase() != Phase::Open,
            lost: self.recovery.lost(),
            sacked: self.recovery.sacked(),
            retransmitted: self.recovery.retransmitted(),
            announced_mss: self.local_mss,
            reordering: self.recovery.reordering(),
            segments_in: self.segments_in,
            segments_out: self.segments_out,
            data_segments_in: self.data_segments_in,
            data_segments_out: self.data_segments_out,
            bytes_sent: self.bytes_sent(),
            bytes_retransmitted: self.bytes_retransmitted.into(),
            delivery_rate: self.delivery_rate.bytes_per_second(),
            pacing_rate: self.pacing_rate(config),
            next_timer: self
                .timers
                .earliest()
                .map(|at| at.saturating_duration_since(now)),
            timer: self
                .told_timer()
                .map(|(name, timer)| (name, self.timers.left(timer, now))),
            receive_buffer: self.rcv.buffer,
            since_sent: Duration::from_millis(
                milliseconds(now).wrapping_sub(self.last_sent_ms).into(),
            ),
            since_received: self.silence(now),
        }
    }

    /// Bytes of payload sent in total, retransmissions included.
    fn bytes_sent(&self) -> u64 {
        // Before the handshake is complete our SYN is all that can be in flight.
        let first = if self.state.is_synchronized() || self.fast_open.is_pending() {
            self.unsent()
        } else {
            self.queue.start()
        };
        first + u64::from(self.bytes_retransmitted)
    }

    /// For how long nothing acceptable has been received, in whole milliseconds.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        let millis = milliseconds(now).wrapping_sub(self.last_received_ms);
        Duration::from_millis(millis.into())
    }

    /// The connection is over, with both sides' consent.
    pub(super) fn finish(&mut self) {
        self.state = State::Closed;
        self.timers.clear_all();
        self.reassembly.clear();
        self.recovery.abandon();
        self.wants_transmit = false;
    }

    /// The connection is over, without.
    pub(crate) fn fail(&mut self, failure: Failure, counters: &mut crate::Counters) {
        if self.state == State::Closed {
            return;
        }
        self.finish();
        self.failed = Some(failure);
        self.changed = true;
        self.queue.abandon();
        counters.failures += 1;
        if self.orphan {
            counters.orphans_killed += 1;
        }
    }

    /// Ends the connection by RST. Its number is the one that the peer most likely believes: SND.NXT, or
    /// the end of the peer's window if that has shrunk below what was sent.
    pub(crate) fn reset(&mut self, counters: &mut crate::Counters) {
        let seq = self.acceptable_seq();
        self.reset_at(seq, Failure::Aborted, counters);
    }

    /// The same by a number that the peer has just named as the next that it expects: the only one
    /// that it believes without asking back (RFC 5961 §3.2).
    pub(super) fn reset_at(
        &mut self,
        seq: SeqNumber,
        failure: Failure,
        counters: &mut crate::Counters,
    ) {
        self.fail(failure, counters);
        // The RST is the last that leaves.
        self.snd.nxt = seq;
        self.reset_due = true;
        self.wants_transmit = true;
    }
}
