//! How a connection begins, and what both sides agree on in their SYNs.

use core::net::IpAddr;

use wire::flow::FlowKey;
use wire::seq::SeqNumber;
use wire::tcp::{Repr, SackBlock};

use super::buffers::ReceiveTuning;
use super::ecn::EcnVars;
use super::path_mtu::PathMtu;
use super::{Connection, ReceiveVars, SendVars, Timer, Timers, TimestampVars};
use crate::Instant;
use crate::config::{Config, ConnOptions};
use crate::congestion::{Controller, Validation};
use crate::fast_open::FastOpen;
use crate::info::State;
use crate::reassembly::Reassembly;
use crate::recovery::Recovery;
use crate::recovery::rtt::RttEstimator;
use crate::send_queue::SendQueue;

/// What a half-open connection remembers until the handshake completes.
#[derive(Clone, Copy)]
pub(crate) struct Handshake {
    pub(crate) key: FlowKey,
    /// Our initial sequence number.
    pub(crate) iss: SeqNumber,
    /// The peer's.
    pub(crate) irs: SeqNumber,
    /// The MSS that the peer announced.
    pub(crate) peer_mss: u16,
    /// The peer's window scale, if both offer scaling.
    pub(crate) scale: Option<u8>,
    /// The peer's timestamp, if both offer timestamps.
    pub(crate) timestamp: Option<u32>,
    /// Both offer selective acknowledgement.
    pub(crate) selective: bool,
    /// Both agree on ECN (RFC 3168 §6.1.1).
    pub(crate) ecn: bool,
    pub(crate) ts_offset: u32,
    /// When our SYN-ACK left, unless it left twice.
    pub(crate) sent_at: Option<Instant>,
    /// How often our SYN-ACK has left.
    pub(crate) syn_acks: u8,
}

impl Handshake {
    /// What follows from the peer's SYN and our settings.
    pub(crate) fn new(
        key: FlowKey,
        iss: SeqNumber,
        irs: SeqNumber,
        ts_offset: u32,
        tcp: &Repr,
        config: &Config,
    ) -> Self {
        let offered = &tcp.options;
        Self {
            key,
            iss,
            irs,
            peer_mss: offered.mss.unwrap_or(default_mss(key.remote)),
            scale: offered.window_scale.filter(|_| config.window_scaling),
            timestamp: offered
                .timestamps
                .filter(|_| config.timestamps)
                .map(|t| t.value),
            selective: offered.sack_permitted && config.selective_acks,
            ecn: super::ecn::agrees(tcp, config),
            ts_offset,
            sent_at: None,
            syn_acks: 0,
        }
    }
}

/// The MSS of a peer that announces none (RFC 9293 3.7.1).
//= RFC 9293 MUST-15
fn default_mss(remote: IpAddr) -> u16 {
    if remote.is_ipv4() { 536 } else { 1220 }
}

/// How large the peer's segments are taken to be before one was seen. Too small a guess corrects
/// itself; too large a one would leave pairs of full segments unacknowledged.
const FIRST_GUESS_OF_MSS: u16 = 536;

/// The MSS that we announce: what the interface carries, less the fixed headers (RFC 6691).
//= RFC 9293 MUST-14, MUST-67
pub(crate) fn announced_mss(remote: IpAddr, config: &Config, options: &ConnOptions) -> u16 {
    let mtu = link_mtu(config, options);
    let headers = if remote.is_ipv4() { 40 } else { 60 };
    let mss = mtu.saturating_sub(headers).max(super::MIN_MSS);
    options.max_segment.map_or(mss, |max| mss.min(max))
}

/// The largest datagram that our own link carries towards a peer.
fn link_mtu(config: &Config, options: &ConnOptions) -> u16 {
    options.mtu.map_or(config.mtu, |mtu| mtu.min(config.mtu))
}

/// The shift that lets a 16-bit field express the largest buffer (RFC 7323 2.3).
//= RFC 7323 §2.3
pub(crate) fn window_scale(config: &Config) -> u8 {
    let times = config.max_receive_buffer.div_ceil(u16::MAX.into()).max(1);
    let scale = u32::BITS - (times - 1).leading_zeros();
    (scale as u8).min(wire::tcp::MAX_WINDOW_SCALE)
}

/// The window in a SYN, which is never scaled.
pub(crate) fn initial_window(options: &ConnOptions) -> u16 {
    u16::try_from(options.receive_buffer).unwrap_or(u16::MAX)
}

impl Connection {
    /// A connection that will send SYN.
    pub(crate) fn active(
        now: Instant,
        key: FlowKey,
        iss: SeqNumber,
        ts_offset: u32,
        options: &ConnOptions,
        config: &Config,
    ) -> Self {
        let mut c = Self::blank(now, key, iss, ts_offset, options, config);
        c.state = State::SynSent;
        if options.fast_open > 0 && config.fast_open_client {
            c.fast_open = FastOpen::Wanted;
        }
        c.accepted = true;
        c.syn_due = true;
        c.wants_transmit = true;
        c
    }

    /// A connection whose SYN-ACK is out: the segment that acknowledges it is to follow.
    pub(crate) fn passive(
        now: Instant,
        handshake: &Handshake,
        options: &ConnOptions,
        config: &Config,
    ) -> Self {
        let h = handshake;
        let mut c = Self::blank(now, h.key, h.iss, h.ts_offset, options, config);
        c.state = State::SynReceived;
        c.snd.nxt = h.iss + 1;
        c.agree(now, h, config);
        c.rcv.adv = c.rcv.nxt + u32::from(initial_window(options));
        if let Some(sent_at) = h.sent_at {
            c.rtt.on_sample(now, now.since(sent_at));
        }
        c.retransmits = u32::from(h.syn_acks.saturating_sub(1));
        // Our SYN is in flight until the segment that is to follow has been accepted: should it not
        // be, this timer ends the connection.
        c.timers.set_after(Timer::Transmit, now, c.rto());
        c
    }

    /// What the SYN-ACK has offered stays offered, even if the listener has less room for those that come
    /// now.
    pub(crate) fn keep_offer(&mut self, window: u16) {
        self.rcv.adv = self.rcv.adv.max(self.rcv.nxt + u32::from(window));
    }

    /// Takes over what the two SYNs have settled.
    pub(super) fn agree(&mut self, now: Instant, h: &Handshake, config: &Config) {
        self.rcv.nxt = h.irs + 1;
        self.rcv.acked = self.rcv.nxt;
        self.rcv.adv = self.rcv.adv.max(self.rcv.nxt);
        self.snd.wl1 = h.irs;
        self.snd.peer_mss = h.peer_mss;
        self.snd.scaling = h.scale.is_some();
        if let Some(scale) = h.scale {
            self.snd.scale = scale;
            self.rcv.scale = window_scale(config);
        }
        self.ts.enabled = h.timestamp.is_some();
        self.ts.recent = h.timestamp.unwrap_or(0);
        self.ts.recent_at = super::seconds(now);
        self.selective = h.selective;
        self.ecn = EcnVars::new(h.ecn, h.iss);
        self.recovery.agree(h.selective, config.tail_loss_probes);
        self.update_mss();
    }

    #[inline(always)]
    fn blank(
        now: Instant,
        key: FlowKey,
        iss: SeqNumber,
        ts_offset: u32,
        options: &ConnOptions,
        config: &Config,
    ) -> Self {
        let local_mss = announced_mss(key.remote, config, options);
        let zero = SeqNumber(0);
        Self {
            state: State::Closed,
            wants_transmit: false,
            changed: false,
            in_ready: false,
            in_events: false,
            in_flows: false,
            ack_now: false,
            duplicates_owed: 0,
            counted_ranges: 0,
            syn_due: false,
            window_or_keep_alive_probe_due: false,
            tlp_due: false,
            payload_away: false,
            reset_due: false,
            read_shut: false,
            shutdown: false,
            fin_sent: false,
            orphan: false,
            accepted: false,
            connected: false,
            no_delay: options.no_delay,
            cork: false,
            more: false,
            sws_override: false,
            selective: false,
            fast_open: FastOpen::No,
            failed: None,
            soft_error: None,
            admission: 0,
            key,
            snd: SendVars {
                una: iss,
                nxt: iss,
                wnd: 0,
                max_wnd: 0,
                wl1: zero,
                wl2: zero,
                sml: iss,
                mss: local_mss,
                peer_mss: default_mss(key.remote),
                sent_us: super::promptness::long_ago(now),
                scale: 0,
                scaling: false,
            },
            rcv: ReceiveVars {
                nxt: zero,
                adv: zero,
                acked: zero,
                mss: local_mss.min(FIRST_GUESS_OF_MSS),
                scale: 0,
                quick: config.quick_acks,
                buffer: options.receive_buffer.min(config.max_receive_buffer),
                limit: u32::MAX,
                dsack: SackBlock::default(),
                received: 0,
                consumed: 0,
                fin_at: u64::MAX,
            },
            ts: TimestampVars {
                recent: 0,
                recent_at: 0,
                offset: ts_offset,
                retransmitted: ts_offset,
                enabled: false,
            },
            path: PathMtu::new(link_mtu(config, options)),
            ecn: EcnVars::new(false, iss),
            timers: Timers::new(),
            tuning: ReceiveTuning::new(options.tune_receive_buffer),
            reassembly: Reassembly::default(),
            queue: SendQueue::default(),
            recovery: Recovery::new(iss),
            rtt: RttEstimator::new(),
            congestion: Controller::new(options.congestion, local_mss),
            validation: Validation::new(now),
            backoff: 0,
            unanswered: 0,
            keep_alive_probes: 0,
            stalled_since: now,
            pushed: 0,
            syn_data: 0,
            keep_alive: options.keep_alive,
            local_mss,
            user_timeout: options.user_timeout.unwrap_or_default().into(),
            fin_wait_2_timeout: options.fin_wait_2_timeout.into(),
            retransmits: 0,
            segments_in: 0,
            segments_out: 0,
            data_segments_in: 0,
            data_segments_out: 0,
            bytes_retransmitted: 0,
            delivery_rate: crate::recovery::delivery::DeliveryRate::default(),
            answered_at: 0,
            last_sent_ms: super::milliseconds(now),
            last_received_ms: super::milliseconds(now),
        }
    }

    /// The handshake is complete.
    pub(super) fn establish(&mut self, now: Instant) {
        self.state = if self.shutdown {
            State::Established.after_shutdown()
        } else {
            State::Established
        };
        self.connected = true;
        self.changed = true;
        self.wants_transmit = true;
        self.syn_due = false;
        self.backoff = 0;
        self.unanswered = 0;
        self.timers.clear(Timer::Transmit);
        self.restart_keep_alive(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ RFC 7323 §2.3
    #[test]
    fn the_window_scale_is_the_least_that_expresses_the_buffer() {
        let scale = |bytes: u32| {
            window_scale(&Config {
                max_receive_buffer: bytes,
                ..Config::default()
            })
        };
        assert_eq!([0, 1, 65_535, 65_536].map(scale), [0, 0, 0, 1]);
        assert_eq!([131_070, 131_071, 6 << 20].map(scale), [1, 2, 7]);
        assert_eq!([65_535 << 14, u32::MAX].map(scale), [14, 14]);
    }
}
