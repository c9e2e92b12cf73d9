//! What anybody may ask.

use core::net::IpAddr;

use wire::flow::FlowKey;
use wire::seq::SeqNumber;

use super::Stack;
use crate::config::Config;
use crate::counters::Counters;
use crate::info::{ConnInfo, PairInfo, State};
use crate::{ConnId, Instant};

impl Stack {
    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.common.config
    }

    /// Everything counted so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.common.counters
    }

    /// A snapshot of a connection.
    #[must_use]
    //= RFC 9293 §3.10.6
    pub fn info(&self, now: Instant, id: ConnId) -> Option<ConnInfo> {
        self.connections
            .get(id.index, id.generation)
            .map(|c| c.info(now, &self.common.config))
    }

    /// Pieces of send memory that a connection holds: what was to be sent and is not acknowledged
    /// yet. 0 if there is no such connection.
    #[must_use]
    #[inline]
    pub fn send_extents(&self, id: ConnId) -> usize {
        self.connections
            .get(id.index, id.generation)
            .map_or(0, |c| c.send_extents())
    }

    /// The number of the next byte that a connection sends for the first time (SND.NXT).
    #[must_use]
    pub fn send_next(&self, id: ConnId) -> Option<SeqNumber> {
        let connection = self.connections.get(id.index, id.generation)?;
        Some(connection.send_next())
    }

    /// Whether this stack knows a flow: a connection, a handshake, or a pair in TIME-WAIT.
    #[must_use]
    pub fn has_flow(&self, flow: &FlowKey) -> bool {
        self.flows.get(flow).is_some()
    }

    /// From now on it is kept which flows come and go; [`take_flow_changes`](Self::take_flow_changes) is
    /// to be called regularly.
    pub fn follow_flows(&mut self) {
        self.flows.follow();
    }

    /// Which flows this stack has come to know (true) and ceased to know since the last call, in their
    /// order. What is sent for a flow that has come leaves with the next
    /// [`poll_transmit`](Self::poll_transmit) at the earliest.
    pub fn take_flow_changes(&mut self) -> impl Iterator<Item = (FlowKey, bool)> + '_ {
        self.flows.take_changes()
    }

    /// Whether there is a listener for segments to this address and port.
    #[must_use]
    pub fn listens_on(&self, addr: IpAddr, port: u16) -> bool {
        self.listeners.find(addr, port).is_some()
    }

    /// Every connection, orphans included.
    pub fn connections(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.connections
            .iter()
            .map(|(index, generation, _)| ConnId { index, generation })
    }

    /// Slots of connections: each is at a number below.
    #[must_use]
    pub fn connection_slots(&self) -> u32 {
        self.connections.slots()
    }

    /// The connection in a slot, and its own address.
    #[must_use]
    pub fn connection_at(&self, slot: u32) -> Option<(ConnId, IpAddr)> {
        let (generation, c) = self.connections.at(slot)?;
        let id = ConnId {
            index: slot,
            generation,
        };
        Some((id, c.key.local))
    }

    /// How many connections there are, orphans included.
    #[must_use]
    pub fn connection_count(&self) -> u32 {
        self.connections.len()
    }

    /// How often a connection was looked up to be worked on: a measure of work that, unlike time,
    /// is the same in every run.
    #[must_use]
    pub fn connection_visits(&self) -> u64 {
        self.connections.visits()
    }

    /// How many connections are half open.
    #[must_use]
    pub fn half_open_count(&self) -> u32 {
        self.half_opens.len()
    }

    /// How many pairs are in TIME-WAIT.
    #[must_use]
    pub fn time_wait_count(&self) -> u32 {
        self.time_wait.len()
    }

    /// Slots of half-open connections: each is at a number below.
    #[must_use]
    pub fn half_open_slots(&self) -> u32 {
        self.half_opens.slots()
    }

    /// The half-open connection in a slot.
    #[must_use]
    pub fn half_open_at(&self, now: Instant, slot: u32) -> Option<PairInfo> {
        let (half, retries, left) = self.half_opens.at(slot, now)?;
        let key = &half.handshake.key;
        Some(PairInfo::new(State::SynReceived, key, retries, left))
    }

    /// Slots of pairs in TIME-WAIT: each is at a number below.
    #[must_use]
    pub fn time_wait_slots(&self) -> u32 {
        self.time_wait.slots()
    }

    /// The pair in TIME-WAIT in a slot.
    #[must_use]
    pub fn time_wait_at(&self, now: Instant, slot: u32) -> Option<PairInfo> {
        let (pair, left) = self.time_wait.at(slot, now)?;
        Some(PairInfo::new(State::TimeWait, &pair.key, 0, left))
    }

    /// How many flows are looked up by a segment that arrives: connections, half-open ones and pairs
    /// in TIME-WAIT.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// How many flows were moved, to make room in what finds them or to give it back: a measure of work
    /// that, unlike time, is the same in every run.
    #[must_use]
    pub fn flows_moved(&self) -> u64 {
        self.flows.moved()
    }

    /// Whether any connection, half-open or lingering ones included, uses this local port.
    #[must_use]
    pub fn uses_local_port(&self, port: u16) -> bool {
        self.flows.on_port(port) > 0
    }
}
