//! Passive opens: a SYN makes a half-open connection, the ACK of our SYN-ACK makes it a whole one.

use core::net::IpAddr;

use wire::flow::FlowKey;
use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::Flags;

use super::control::Control;
use super::fast_open::Answer;
use super::lists::Note;
use super::{Flow, Recent, Stack};
use crate::connection::{self, Connection, Handshake};
use crate::counters::DropReason;
use crate::flow_table::FlowHash;
use crate::listener::half_open::HalfOpen;
use crate::time_wait::Pair;
use crate::{ConnId, ConnOptions, Instant, ListenerId, PayloadStore};

impl Stack {
    /// A segment for no connection (RFC 9293 3.10.7.1 and 3.10.7.2). `reuse` names the pair in
    /// TIME-WAIT that a SYN takes over, and the least sequence number to begin with.
    //= RFC 9293 §3.10.7.1, §3.10.7.2
    pub(super) fn pass_to_listener<S: PayloadStore>(
        &mut self,
        now: Instant,
        hash: FlowHash,
        segment: &Segment<'_>,
        reuse: Option<(u32, SeqNumber)>,
        store: &mut S,
    ) -> Result<(), DropReason> {
        Self::check_endpoints(segment)?;
        let tcp = &segment.tcp;
        if tcp.flags.contains(Flags::RST) {
            return Err(DropReason::StrayReset);
        }
        let listener = self.listeners.find(segment.dst, tcp.dst_port);
        if listener.is_some() && tcp.flags.contains(Flags::SYN | Flags::FIN) {
            return Err(DropReason::BadFlags);
        }
        let begins = tcp.flags.contains(Flags::SYN) && tcp.ack.is_none();
        let Some(id) = listener.filter(|_| begins) else {
            // RFC 9293 3.10.7.2: a segment to LISTEN with neither SYN nor ACK is dropped.
            if listener.is_some() && tcp.ack.is_none() && !tcp.flags.contains(Flags::SYN) {
                return Err(DropReason::BadFlags);
            }
            if let Some(id) = listener
                && !tcp.flags.contains(Flags::SYN)
                && let Some(result) = self.take_cookie(now, hash, segment, id, store)
            {
                return result;
            }
            self.push_reset(now, segment);
            return Err(DropReason::NoListener);
        };
        let Some(listener) = self.listeners.get_mut(id) else {
            return Err(DropReason::NoListener);
        };
        if listener.is_full() {
            return Err(listener.refuse(DropReason::AcceptQueueFull));
        }
        if let Some(admission) = listener.admission()
            && let Err(reason) = admission.check(now, segment.src)
        {
            let resets = admission.resets();
            listener.refuse(reason);
            if resets {
                self.push_reset(now, segment);
            }
            return Err(reason);
        }
        if listener.half_open >= listener.spec.max_half_open
            || self.half_opens.len() >= self.common.config.max_half_open
        {
            // A cookie cannot be told to begin beyond the old connection's numbers. Where both had
            // timestamps, those keep the peer from mistaking an old segment for a new one.
            let unsafe_pair = reuse.is_some_and(|(pair, _)| {
                let old = self.time_wait.get(pair).is_some_and(Pair::has_timestamps);
                !old || tcp.options.timestamps.is_none()
            });
            if !self.common.config.syn_cookies || unsafe_pair {
                return Err(listener.refuse(DropReason::HalfOpenFull));
            }
            let options = listener.spec.options;
            if !self.may_answer(now, segment) {
                let reason = DropReason::CookieWithheld;
                if let Some(listener) = self.listeners.get_mut(id) {
                    listener.refuse(reason);
                }
                return Err(reason);
            }
            if let Some((pair, _)) = reuse {
                // The acknowledgement that brings the cookie has to come to the listener.
                self.forget_time_wait(pair);
                self.common.counters.time_wait_reused += 1;
            }
            self.answer_by_cookie(now, segment, id, &options);
            return Ok(());
        }
        let options = listener.spec.options;
        let answer = self.fast_open_answer(now, segment, &options);

        let key = segment.flow();
        let (mut iss, ts_offset) = self.isn.begin(now, &key);
        if let Some((pair, least)) = reuse {
            iss = iss.max(least);
            self.time_wait.remove(pair);
            self.common.counters.time_wait_reused += 1;
        }
        let handshake = Handshake::new(key, iss, tcp.seq, ts_offset, tcp, &self.common.config);
        let fast_open = match answer {
            Answer::Handshake(cookie) => cookie,
            Answer::Connection { renew } => {
                let begun = (&handshake, renew);
                self.admit_fast_open(now, hash, (id, &options), begun, segment, store);
                return Ok(());
            }
        };
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.half_open += 1;
        }
        let half = HalfOpen {
            handshake,
            fast_open,
            listener: id,
            link: segment.link,
            mss: connection::announced_mss(key.remote, &self.common.config, &options),
            window: connection::initial_window(&options),
            scale: connection::window_scale(&self.common.config),
            answered_at: None,
            queued: false,
            acknowledged_at: None,
        };
        let index = self.half_opens.insert(now, 0, half);
        self.flows
            .insert_hashed(key, hash, Flow::HalfOpen(index).pack());
        self.queue_syn_ack(index);
        Ok(())
    }

    /// Sends a SYN-ACK (again) when there is room.
    pub(super) fn queue_syn_ack(&mut self, index: u32) {
        let Some(half) = self.half_opens.get_mut(index) else {
            return;
        };
        if !half.queued {
            half.queued = true;
            if !self.push_control(Control::SynAck(index))
                && let Some(half) = self.half_opens.get_mut(index)
            {
                half.queued = false;
            }
        }
    }

    /// SYN-RECEIVED of a passive open (RFC 9293 3.10.7.4).
    //= RFC 9293 §3.10.7.4
    pub(super) fn pass_to_half_open<S: PayloadStore>(
        &mut self,
        now: Instant,
        (index, hash): (u32, FlowHash),
        segment: &Segment<'_>,
        store: &mut S,
    ) -> Result<(), DropReason> {
        let Some(half) = self.half_opens.get_mut(index) else {
            debug_assert!(false, "the flow table names an empty slot");
            return Err(DropReason::NoListener);
        };
        let tcp = &segment.tcp;
        let expected = half.expected();
        let h = half.handshake;
        if tcp.flags.contains(Flags::RST) {
            if tcp.seq != expected {
                // RFC 5961 3.2: in the window, but not exact.
                if tcp.seq.in_window(expected, half.window.into()) {
                    self.challenge_half_open(now, index, segment);
                }
                return Err(DropReason::UnacceptableReset);
            }
            self.common.counters.resets_in += 1;
            self.forget_half_open(index);
            return Ok(());
        }
        if tcp.flags.contains(Flags::SYN) {
            if tcp.seq == h.irs && tcp.ack.is_none() {
                // The SYN again: our SYN-ACK was lost, or is late.
                self.queue_syn_ack(index);
            } else {
                self.challenge_half_open(now, index, segment);
            }
            return Err(DropReason::UnexpectedSyn);
        }
        let Some(ack) = tcp.ack else {
            return Err(DropReason::NoAck);
        };
        match (h.timestamp, tcp.options.timestamps) {
            // PAWS, as for a connection (RFC 7323 5.3, R1).
            (Some(seen), Some(t)) if (t.value.wrapping_sub(seen) as i32) < 0 => {
                self.challenge_half_open(now, index, segment);
                return Err(DropReason::Paws);
            }
            //= RFC 7323 §3.2
            // The connection would drop it as well, and must not be made by what it drops.
            (Some(_), None) => return Err(DropReason::TimestampMissing),
            _ => {}
        }
        // A sender that has filled the window acknowledges from its edge, as everywhere: its first
        // acknowledgement may be lost.
        let on_edge = segment.sequence_len() == 0 && tcp.seq == expected + u32::from(half.window);
        if !tcp.seq.in_window(expected, u32::from(half.window).max(1)) && !on_edge {
            self.challenge_half_open(now, index, segment);
            return Err(if tcp.seq.before(expected) {
                DropReason::OldDuplicate
            } else {
                DropReason::BeyondWindow
            });
        }
        if ack != h.iss + 1 {
            // Perhaps an earlier SYN of this flow was answered by a cookie, and that came first.
            let listener = half.listener;
            if let Some(result) = self.take_cookie(now, hash, segment, listener, store) {
                return result;
            }
            self.push_reset(now, segment);
            return Err(DropReason::BadHandshakeAck);
        }
        let (id, offered) = (half.listener, half.window);
        let bare = segment.sequence_len() == 0;
        if bare {
            half.acknowledged_at.get_or_insert(now);
        }
        let handshake = half.completed(now);
        if bare && self.is_deferred(now, index) {
            return Ok(());
        }
        // If there is no room the half-open connection stays, and sends its SYN-ACK again in time.
        let options = self.room_at(id, segment.src)?;
        // The flow stays in the table: the connection takes its place.
        self.remove_half_open(index);
        let conn = self.admit(now, hash, id, &handshake, &options);
        store.expect(conn, id);
        if let Some(c) = self.connections.get_mut(conn.index, conn.generation) {
            c.keep_offer(offered);
        }
        self.pass_to_connection(now, conn.index, segment, store)
    }

    /// Whether a peer that has only acknowledged the SYN-ACK is to send more before there is a connection.
    fn is_deferred(&mut self, now: Instant, index: u32) -> bool {
        let standing = self.half_opens.standing(index, now);
        standing.is_some_and(|(attempts, _)| self.waits_for_data(index, attempts))
    }

    /// Whether a peer is known to have the SYN-ACK, and waited for, after so many that waited in vain.
    pub(super) fn waits_for_data(&mut self, index: u32, attempts: u8) -> bool {
        let most = self.common.config.syn_ack_retries;
        let half = self.half_opens.get_mut(index);
        let Some(half) = half.filter(|half| half.acknowledged_at.is_some()) else {
            return false;
        };
        let listener = self.listeners.get(half.listener);
        listener.is_some_and(|it| attempts < it.spec.options.defer_accept.min(most))
    }

    fn challenge_half_open(&mut self, now: Instant, index: u32, segment: &Segment<'_>) {
        let Some(half) = self.half_opens.get_mut(index) else {
            return;
        };
        let (answered_at, tcp) = (half.answered_at, half.acknowledgement(now));
        if self.push_challenge(now, segment, tcp, answered_at)
            && let Some(half) = self.half_opens.get_mut(index)
        {
            half.answered_at = Some(now);
        }
    }

    /// What one more connection of a listener starts with, if there is room for it.
    pub(super) fn room_at(
        &mut self,
        id: ListenerId,
        from: IpAddr,
    ) -> Result<ConnOptions, DropReason> {
        let full = self.connections.len() >= self.common.config.max_connections;
        let listener = self.listeners.get_mut(id).ok_or(DropReason::NoListener)?;
        if full {
            return Err(listener.refuse(DropReason::ConnectionsFull));
        }
        if listener.is_full() {
            return Err(listener.refuse(DropReason::AcceptQueueFull));
        }
        if let Some(admission) = listener.admission() {
            admission
                .has_room(from)
                .map_err(|reason| listener.refuse(reason))?;
        }
        Ok(listener.spec.options)
    }

    /// The handshake is complete: a connection in the accept queue.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        hash: FlowHash,
        id: ListenerId,
        handshake: &Handshake,
        options: &ConnOptions,
    ) -> ConnId {
        let mut c = Connection::passive(now, handshake, options, &self.common.config);
        if let Some(listener) = self.listeners.get_mut(id) {
            c.admission = listener.admit(now, c.key.remote);
        }
        if let Some(sent_at) = handshake.sent_at {
            let round_trip = now.since(sent_at).get();
            self.common.counters.round_trips.record(round_trip);
        }
        let conn = self.add_connection(now, hash, c);
        self.common.counters.passive_opens += 1;
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.complete(conn, now);
        }
        self.note_acceptable(id);
        conn
    }

    /// `hash` is that of the connection's flow.
    pub(super) fn add_connection(
        &mut self,
        now: Instant,
        hash: FlowHash,
        mut c: Connection,
    ) -> ConnId {
        c.in_flows = true;
        let key = c.key;
        if let Some(mtu) = self.common.path_mtus.get(now, key.remote) {
            c.learn_path_mtu(mtu, now);
        }
        let (index, generation) = self.connections.insert(c);
        self.flows
            .insert_hashed(key, hash, Flow::Connection(index).pack());
        // Whoever had the slot before is not there any more.
        self.recent = Recent { index, hash };
        ConnId { index, generation }
    }

    pub(super) fn forget_half_open(&mut self, index: u32) {
        if let Some(key) = self.remove_half_open(index) {
            self.flows.remove(&key);
        }
    }

    /// Forgets a half-open connection, but not that its flow is taken.
    fn remove_half_open(&mut self, index: u32) -> Option<FlowKey> {
        let half = self.half_opens.remove(index)?;
        if let Some(listener) = self.listeners.get_mut(half.listener) {
            listener.half_open -= 1;
        }
        Some(half.handshake.key)
    }

    pub(super) fn note_acceptable(&mut self, id: ListenerId) {
        if let Some(listener) = self.listeners.get_mut(id)
            && !core::mem::replace(&mut listener.in_events, true)
        {
            self.lists.events.push_back(Note::Listener(id));
        }
    }
}
