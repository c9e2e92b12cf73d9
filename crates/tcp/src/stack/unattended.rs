//! Handshakes that a peer has begun and pairs in TIME-WAIT, out to another stack and in from one. Whoever
//! replaces a stack moves them with its connections: else peers would be answered by RST.

use core::net::SocketAddr;

use wire::flow::FlowKey;
use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::MAX_WINDOW_SCALE;

use super::{Flow, Stack, flow};
use crate::connection::{Handshake, window_scale};
use crate::listener::half_open::HalfOpen;
use crate::snapshot::{self, ImportError, VERSION};
use crate::time::Nanos;
use crate::time_wait::{Answer, Pair};
use crate::{Instant, ListenerId};

impl Stack {
    /// Takes out a half-open connection, a handshake that a peer has begun; `None` if there is none. What
    /// arrives for it must not come here any more. A SYN that was answered by a cookie is not among them:
    /// nothing is known of it.
    pub fn export_half_open(&mut self, now: Instant) -> Option<snapshot::HalfOpen> {
        let index = self.half_opens.first()?;
        self.export_half_open_at(now, index)
    }

    /// The same of a handshake that was begun with this listener.
    pub fn export_half_open_of(
        &mut self,
        now: Instant,
        listener: ListenerId,
    ) -> Option<snapshot::HalfOpen> {
        if self.listeners.get(listener)?.half_open == 0 {
            return None;
        }
        let of_listener = |(_, half): &(u32, &HalfOpen)| half.listener == listener;
        let index = self
            .half_opens
            .iter()
            .find(of_listener)
            .map(|(index, _)| index)?;
        self.export_half_open_at(now, index)
    }

    fn export_half_open_at(&mut self, now: Instant, index: u32) -> Option<snapshot::HalfOpen> {
        let (retries, left) = self.half_opens.standing(index, now)?;
        let half = self.half_opens.get_mut(index)?;
        let h = half.handshake;
        // Of one that is acknowledged, and deferred, the next segment says nothing of the path.
        let sent_at = h.sent_at.filter(|_| half.acknowledged_at.is_none());
        let value = snapshot::HalfOpen {
            version: VERSION,
            local: SocketAddr::new(h.key.local, h.key.local_port),
            remote: SocketAddr::new(h.key.remote, h.key.remote_port),
            iss: h.iss.0,
            irs: h.irs.0,
            window_scales: h.scale.map(|peer| (peer, half.scale)),
            timestamp: h.timestamp,
            timestamp_now: (now.as_millis() as u32).wrapping_add(h.ts_offset),
            selective_acks: h.selective,
            ecn: h.ecn,
            peer_mss: h.peer_mss,
            mss: half.mss,
            window: half.window,
            link: half.link,
            syn_acks: h.syn_acks,
            sent_ago: sent_at.map(|at| now.since(at).get()),
            retries,
            retransmit_in: left.get(),
        };
        self.forget_half_open(index);
        Some(value)
    }

    /// Puts a handshake in that another stack has [exported](Self::export_half_open). The listener of
    /// its port has it from now on; a SYN-ACK that has not left yet leaves.
    ///
    /// # Errors
    /// Nothing has changed, for the reason given. Whatever the value says, nothing panics.
    pub fn import_half_open(
        &mut self,
        now: Instant,
        from: &snapshot::HalfOpen,
    ) -> Result<(), ImportError> {
        let key = self.vacant(from.version, from.local, from.remote)?;
        let config = &self.common.config;
        let scale = window_scale(config);
        if let Some((peer, ours)) = from.window_scales
            && (peer > MAX_WINDOW_SCALE || ours != scale)
        {
            return Err(ImportError::Inconsistent("another window scale"));
        }
        let listener = self.listeners.find(key.local, key.local_port);
        let listener = listener.ok_or(ImportError::NoListener)?;
        let full = self.half_opens.len() >= config.max_half_open;
        let retries = from.retries.min(config.syn_ack_retries);
        let place = self.listeners.get_mut(listener);
        let place = place.ok_or(ImportError::NoListener)?;
        if full || place.half_open >= place.spec.max_half_open {
            return Err(ImportError::TooManyConnections);
        }
        place.half_open += 1;
        let ago = from.sent_ago.filter(|_| from.syn_acks == 1);
        let half = HalfOpen {
            handshake: Handshake {
                key,
                iss: SeqNumber(from.iss),
                irs: SeqNumber(from.irs),
                peer_mss: from.peer_mss,
                scale: from.window_scales.map(|(peer, _)| peer),
                timestamp: from.timestamp,
                selective: from.selective_acks,
                ecn: from.ecn,
                ts_offset: from.timestamp_now.wrapping_sub(now.as_millis() as u32),
                sent_at: ago.map(|ago| now.before(Nanos::new(ago))),
                syn_acks: from.syn_acks,
            },
            fast_open: None,
            listener,
            link: from.link,
            mss: from.mss,
            window: from.window,
            scale,
            answered_at: None,
            queued: false,
            acknowledged_at: None,
        };
        let left = Nanos::new(from.retransmit_in);
        let index = self.half_opens.insert_for(now, retries, left, half);
        self.flows.insert(key, Flow::HalfOpen(index).pack());
        if from.syn_acks == 0 {
            self.queue_syn_ack(index);
        }
        Ok(())
    }

    /// Takes out the pair that has been in TIME-WAIT longest; `None` if there is none. What arrives for it
    /// must not come here any more.
    pub fn export_time_wait(&mut self, now: Instant) -> Option<snapshot::TimeWait> {
        let slot = self.time_wait.oldest()?;
        let left = self.time_wait.left(slot, now)?;
        let value = self.time_wait.get(slot)?.export(now, left);
        self.forget_time_wait(slot);
        Some(value)
    }

    /// Takes out the pair in TIME-WAIT that a SYN may take over; `None` if there is none, or the SYN is not
    /// certainly new. For a program with several stacks, where another one listens: this one would answer
    /// the SYN by RST.
    pub fn export_taken_over(
        &mut self,
        now: Instant,
        syn: &Segment<'_>,
    ) -> Option<snapshot::TimeWait> {
        let flow = self.flows.get(&syn.flow()).map(Flow::unpack)?;
        let Flow::TimeWait(slot) = flow else {
            return None;
        };
        let left = self.time_wait.left(slot, now)?;
        let pair = self.time_wait.get(slot)?;
        if pair.on_segment(syn) != Answer::TakeOver {
            return None;
        }
        let value = pair.export(now, left);
        self.forget_time_wait(slot);
        Some(value)
    }

    /// Puts in a pair that another stack has [exported](Self::export_time_wait), the one that has waited
    /// longest first. It waits no longer than this stack's own and, if one of those came before it, no
    /// shorter than that.
    ///
    /// # Errors
    /// Nothing has changed, for the reason given. Whatever the value says, nothing panics.
    pub fn import_time_wait(
        &mut self,
        now: Instant,
        from: &snapshot::TimeWait,
    ) -> Result<(), ImportError> {
        let key = self.vacant(from.version, from.local, from.remote)?;
        if self.time_wait.overflowing().is_some() {
            return Err(ImportError::TooManyConnections);
        }
        let pair = Pair::import(now, key, from);
        let slot = self.time_wait.insert_for(now, Nanos::new(from.left), pair);
        self.flows.insert(key, Flow::TimeWait(slot).pack());
        Ok(())
    }

    /// The flow that a value is about, of which this stack knows nothing yet.
    pub(super) fn vacant(
        &self,
        version: u16,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<FlowKey, ImportError> {
        if version != VERSION {
            return Err(ImportError::Version(version));
        }
        let key =
            flow(local, remote).ok_or(ImportError::Inconsistent("addresses that cannot meet"))?;
        if self.flows.get(&key).is_some() {
            return Err(ImportError::AddressInUse);
        }
        Ok(key)
    }
}
