//! A connection out of a value (see [`crate::snapshot`]).
//!
//! The value may come from anywhere: whatever it says, what is made of it is a connection like others,
//! or nothing is. So it is checked first, in parts, and then as a whole by what always holds.

use wire::flow::FlowKey;
use wire::seq::SeqNumber;

use super::ecn::EcnVars;
use super::{Common, Connection, Handshake, Timer};
use crate::congestion::{Controller, MAX_WINDOW};
use crate::info::State;
use crate::reassembly::Range;
use crate::recovery::Recovery;
use crate::recovery::rtt::RttEstimator;
use crate::request::Extent;
use crate::send_queue::{MOST_QUEUED, SendQueue};
use crate::snapshot::{ReceiveSide, Snapshot};
use crate::time::{Millis, Nanos};
use crate::{ConnOptions, Instant};

/// What a rule says if it does not hold.
type Broken = &'static str;

impl Connection {
    /// The connection that a snapshot describes, whose flow is `key`.
    ///
    /// # Errors
    /// The parts do not fit one another, or are more than this stack allows.
    pub(crate) fn import(
        now: Instant,
        key: FlowKey,
        from: &Snapshot,
        common: &mut Common,
    ) -> Result<Connection, Broken> {
        check_send(from, common)?;
        check_receive(from, common)?;
        check_state(from)?;
        let mut c = Self::agreed(now, key, from, common);
        c.import_sequence(from);
        c.import_streams(from);
        c.import_path(now, from);
        c.import_owner(from);
        c.import_waits(now, from, common)?;
        if let Err(broken) = c.audit_bounds() {
            c.recovery.release(&mut common.flights);
            return Err(broken);
        }
        Ok(c)
    }

    /// A connection of the same SYNs.
    fn agreed(now: Instant, key: FlowKey, from: &Snapshot, common: &Common) -> Connection {
        let agreed = &from.agreed;
        let options = ConnOptions {
            congestion: from.congestion.algorithm,
            tune_receive_buffer: from.receive.tuned,
            keep_alive: from.owner.keep_alive,
            ..ConnOptions::default()
        };
        // What our clock says goes on from what the other said.
        let ts_offset = agreed.timestamp_now.wrapping_sub(now.as_millis() as u32);
        let handshake = Handshake {
            key,
            iss: SeqNumber(from.send.una),
            irs: SeqNumber(from.receive.nxt) - 1,
            peer_mss: agreed.peer_mss,
            scale: agreed.window_scales.map(|(peer, _)| peer),
            timestamp: agreed.timestamps.map(|clock| clock.recent),
            selective: agreed.selective_acks,
            ecn: agreed.ecn.is_some(),
            ts_offset,
            sent_at: None,
            syn_acks: 0,
        };
        let mut c = Self::passive(now, &handshake, &options, &common.config);
        c.timers.clear_all();
        c.state = from.state;
        c.accepted = true;
        if let Some((_, ours)) = agreed.window_scales {
            c.rcv.scale = ours;
        }
        if let Some(clock) = agreed.timestamps {
            c.ts.recent_at = super::seconds(now).wrapping_sub(clock.recent_age_seconds);
            c.ts.retransmitted = clock.retransmitted;
        }
        if let Some(ecn) = agreed.ecn {
            c.ecn = EcnVars {
                enabled: true,
                echo: ecn.echo,
                reduced: ecn.reduced,
                until: SeqNumber(ecn.until),
            };
        }
        c
    }

    fn import_sequence(&mut self, from: &Snapshot) {
        let (send, receive) = (&from.send, &from.receive);
        self.snd.una = SeqNumber(send.una);
        self.snd.nxt = SeqNumber(send.nxt);
        self.snd.wnd = send.wnd;
        self.snd.max_wnd = send.max_wnd;
        self.snd.wl1 = SeqNumber(send.wl1);
        self.snd.wl2 = SeqNumber(send.wl2);
        self.snd.sml = SeqNumber(send.sml);
        self.rcv.nxt = SeqNumber(receive.nxt);
        self.rcv.adv = SeqNumber(receive.adv);
        self.rcv.acked = self.rcv.nxt;
        self.rcv.mss = receive.mss.max(1);
        self.rcv.quick = receive.quick;
        self.rcv.buffer = receive.buffer;
        self.rcv.received = receive.received;
        self.rcv.consumed = receive.consumed;
        self.rcv.fin_at = receive.fin_at.unwrap_or(u64::MAX);
        self.read_shut = receive.shutdown;
        self.ack_now = receive.ack_owed;
    }

    fn import_streams(&mut self, from: &Snapshot) {
        let send = &from.send;
        self.queue = SendQueue::resume(send.acked, &send.extents);
        self.pushed = send.pushed;
        self.shutdown = send.shutdown;
        self.fin_sent = send.fin_sent;
        self.syn_due = send.syn_due;
        self.syn_data = send.syn_data;
        self.fast_open = send.fast_open;
        self.let_syn_go();
        self.window_or_keep_alive_probe_due = send.window_or_keep_alive_probe_due;
        self.tuning.rtt_ms = from.receive.sender_rtt_ms;
        self.tuning.from = from.receive.consumed as u32;
        for &(start, end) in &from.receive.held {
            self.reassembly.insert(Range { start, end });
        }
    }

    fn import_path(&mut self, now: Instant, from: &Snapshot) {
        let path = &from.path;
        self.path.mtu = path.mtu;
        self.path.too_big = path.too_big;
        self.path.look_at = super::seconds(now).wrapping_add_signed(path.look_in_seconds);
        self.path.guessed = path.guessed;
        self.local_mss = path.local_mss;
        self.soft_error = path.soft_error;
        self.rtt =
            RttEstimator::resume(now, [path.srtt, path.rttvar, path.min_rtt].map(Nanos::new));
        self.update_mss();
        self.congestion = Controller::import(now, &from.congestion, self.snd.mss);
        self.tuning.since = now.as_micros() as u32;
    }

    fn import_owner(&mut self, from: &Snapshot) {
        let (owner, totals) = (&from.owner, &from.totals);
        self.orphan = owner.orphan;
        self.connected = owner.connected;
        self.cork = owner.cork;
        self.more = owner.more;
        self.no_delay = owner.no_delay;
        self.user_timeout = Millis::new(owner.user_timeout_ms);
        self.fin_wait_2_timeout = Millis::new(owner.fin_wait_2_timeout_ms);
        self.retransmits = totals.retransmits;
        self.segments_in = totals.segments_in;
        self.segments_out = totals.segments_out;
        self.data_segments_in = totals.data_segments_in;
        self.data_segments_out = totals.data_segments_out;
        self.bytes_retransmitted = totals.bytes_retransmitted;
        // The owner is told where things stand, if there is anything to tell; and whatever may leave is
        // looked at.
        let open = self.state.is_synchronized() || self.fast_open.is_pending();
        self.changed = !owner.orphan && open;
        self.wants_transmit = true;
    }

    /// What is in flight, and every timer.
    fn import_waits(
        &mut self,
        now: Instant,
        from: &Snapshot,
        common: &mut Common,
    ) -> Result<(), Broken> {
        let waits = &from.waits;
        self.backoff = waits.backoff;
        self.unanswered = waits.unanswered;
        self.keep_alive_probes = waits.keep_alive_probes;
        self.stalled_since = now.before(Nanos::new(waits.stalled));
        self.last_sent_ms = super::milliseconds(now).wrapping_sub(waits.silent_ms);
        self.last_received_ms = super::milliseconds(now).wrapping_sub(waits.deaf_ms);
        let rto_or_persist = waits.rto_or_persist.map(Nanos::new);
        if self.state.is_synchronized() || self.fast_open.is_pending() {
            let flight = (self.snd.una, self.snd.nxt);
            let timeout = rto_or_persist.unwrap_or(self.rto());
            let pool = &mut common.flights;
            self.recovery = Recovery::import(&from.recovery, flight, now, timeout, pool)?;
            let tlps = common.config.tail_loss_probes;
            self.recovery.agree(from.agreed.selective_acks, tlps);
        }
        if self.recovery.rto_left(now).is_some() && !self.fast_open.is_pending() {
            self.watch_flight();
        } else if let Some(left) = rto_or_persist {
            self.timers.set_after(Timer::Transmit, now, left);
        } else if !self.state.is_synchronized() && !self.syn_due {
            // A SYN that is still to leave starts its timer then.
            self.timers.set_after(Timer::Transmit, now, self.rto());
        }
        let silent_end = self.orphan && self.state == State::FinWait2;
        if let Some(left) = waits.cork_or_fin_wait_2.map(Nanos::new) {
            self.timers.set_after(Timer::CorkOrFinWait2, now, left);
        } else if silent_end {
            let patience = self.fin_wait_2_timeout.nanos();
            self.timers.set_after(Timer::CorkOrFinWait2, now, patience);
        }
        match waits.keep_alive {
            Some(left) => self
                .timers
                .set_after(Timer::KeepAlive, now, Nanos::new(left)),
            None => self.restart_keep_alive(now),
        }
        Ok(())
    }
}

fn rule(holds: bool, broken: Broken) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(broken) }
}

fn check_send(from: &Snapshot, common: &Common) -> Result<(), Broken> {
    let send = &from.send;
    let flight = SeqNumber(send.nxt).distance_from(SeqNumber(send.una));
    rule(
        (0..=MAX_WINDOW as i32).contains(&flight),
        "more in flight than any window allows",
    )?;
    rule(
        send.wnd <= MAX_WINDOW && send.max_wnd <= MAX_WINDOW,
        "a send window that no header can express",
    )?;
    let sound = |e: &Extent| e.len > 0 && e.addr.checked_add(e.len.into()).is_some();
    rule(send.extents.iter().all(sound), "an extent of no memory")?;
    rule(
        send.extents.len() <= common.config.max_send_extents as usize,
        "more pieces to be sent than allowed",
    )?;
    let bytes: u64 = send.extents.iter().map(|e| u64::from(e.len)).sum();
    rule(
        bytes <= MOST_QUEUED && send.acked <= u64::MAX - MOST_QUEUED,
        "more to be sent than allowed",
    )
}

fn check_receive(from: &Snapshot, common: &Common) -> Result<(), Broken> {
    let receive = &from.receive;
    let config = &common.config;
    let end = receive.fin_at.unwrap_or(u64::MAX - u64::from(MAX_WINDOW));
    rule(
        receive.consumed <= receive.received && receive.received <= end,
        "the received stream is out of order",
    )?;
    let window = SeqNumber(receive.adv).distance_from(SeqNumber(receive.nxt));
    let window = u64::try_from(window).map_err(|_| "a receive window that is negative")?;
    // An eighth for what the window's scale cannot express, as everywhere.
    let most = u64::from(config.max_receive_buffer.max(u16::MAX.into())) * 9 / 8;
    rule(
        receive.received - receive.consumed + window <= most,
        "a larger window on offer than is allowed",
    )?;
    rule(
        receive.buffer <= config.max_receive_buffer,
        "a larger receive buffer than is allowed",
    )?;
    rule(
        receive.held.len() <= usize::from(config.max_out_of_order_ranges),
        "more ranges held out of order than are allowed",
    )?;
    let scales = from.agreed.window_scales.unwrap_or_default();
    let most = wire::tcp::MAX_WINDOW_SCALE;
    rule(
        scales.0 <= most && scales.1 <= most,
        "a window scale above 14",
    )?;
    check_held(receive)
}

fn check_held(receive: &ReceiveSide) -> Result<(), Broken> {
    let mut end = receive.received;
    for &(start, next) in &receive.held {
        rule(end < start && start < next, "ranges held in no order")?;
        end = next;
    }
    let most = receive.fin_at.unwrap_or(u64::MAX);
    rule(end <= most, "data held beyond the end of the stream")
}

fn check_state(from: &Snapshot) -> Result<(), Broken> {
    let (send, receive) = (&from.send, &from.receive);
    let state = from.state;
    rule(
        !matches!(state, State::Closed | State::TimeWait),
        "a connection that is over",
    )?;
    let ended = receive.fin_at == Some(receive.received);
    let after_fin = matches!(state, State::CloseWait | State::Closing | State::LastAck);
    rule(
        ended == after_fin,
        "the peer's FIN and the state contradict",
    )?;
    let in_flight = send.nxt != send.una;
    let opening = matches!(state, State::SynSent | State::SynReceived);
    let pending = send.fast_open.is_pending();
    rule(
        opening || send.syn_data == 0,
        "data of a SYN after the handshake",
    )?;
    rule(
        !pending || state == State::SynReceived,
        "a pending Fast Open in another state than SYN-RECEIVED",
    )?;
    match state {
        State::FinWait2 => rule(send.fin_sent && !in_flight, "FIN-WAIT-2 without a FIN")?,
        State::FinWait1 | State::Closing | State::LastAck => {
            rule(send.shutdown, "closed by nobody")?;
            let over = send.fin_sent && !in_flight;
            rule(
                !over,
                "our FIN is acknowledged, and the state says it is not",
            )?;
        }
        State::SynReceived if pending => {
            let unused = send.acked == 0 && !send.fin_sent && receive.fin_at.is_none();
            rule(unused, "more than data before the handshake")?;
        }
        State::SynSent | State::SynReceived => {
            let unused = receive.received == 0 && send.acked == 0 && !send.fin_sent;
            let only_syn = send.nxt.wrapping_sub(send.una) <= 1;
            rule(unused && only_syn, "data before the handshake")?;
        }
        _ => rule(!send.fin_sent, "FIN in a state before it")?,
    }
    rule(send.shutdown || !send.fin_sent, "FIN before the shutdown")?;
    rule(
        send.shutdown || !from.owner.orphan,
        "closed and not shut down",
    )
}
