//! Offering connections from listeners to processes, and taking offers back.
//!
//! A process that is willing is offered connections before it asks for each, so that accepting costs
//! no question. An offer is not a gift: until the process has accepted it, the engine can take it back
//! by one word ([`queue_pair::position`]), without the process's help. So nobody waits behind one that
//! works, sleeps, is stopped or has looked away: whoever asks and finds nothing is given what others
//! were offered and have not accepted ([`credit`](Worker::credit)), and what lies untouched for a
//! moment goes to a process that sleeps and would wake for it ([`renew_offers`](Worker::renew_offers)).

use std::collections::VecDeque;
use std::time::Duration;

use netdev::Device;
use queue_pair::{ConnRef, position};
use tcp::{ConnId, Instant, ListenerId, Request};

use super::Worker;
use super::room::Until;
use super::submissions::Whose;
use crate::fast::connections::{Conn, PoolId, SessionId};
use crate::fast::listeners::{Member, Offer};
use crate::fast::session::{EndReason, Session};
use crate::network::Network;
use crate::stats::Drop;

/// An offer that was not accepted for so long goes to another process, if one sleeps: longer than a
/// wake-up takes, on this core or another, and shorter than a client notices.
const UNTOUCHED: Duration = Duration::from_millis(2);
/// Members that are looked at for one that sleeps.
const LOOKS: usize = 16;
/// Connections of a listener that are offered in a turn.
const AT_ONCE: usize = 64;

/// Whom a connection is offered to.
#[derive(Clone, Copy)]
struct Taker {
    member: u32,
    session: SessionId,
    /// It has said that it waits.
    awaits: bool,
}

impl Taker {
    fn waiting((member, session): (u32, SessionId)) -> Self {
        Self {
            member,
            session,
            awaits: true,
        }
    }

    fn willing(member: &Member) -> Self {
        Self {
            member: member.number,
            session: member.session,
            awaits: false,
        }
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Offers the connections that wait in a listener to the processes that are willing; of what is left
    /// over, to those at other workers.
    pub(super) fn hand_over(&mut self, number: u32) {
        // It goes on in the next turn, whatever comes meanwhile.
        if self.offering.contains(&number) {
            return;
        }
        if self.offer_waiting(number) {
            self.balance(number);
        } else {
            self.offering.push_back(number);
        }
    }

    /// Offers the connections that wait in a listener to the processes that are willing, as many as a turn does;
    /// false if there are more.
    fn offer_waiting(&mut self, number: u32) -> bool {
        let Some(listener) = self.listeners.get_mut(number) else {
            return true;
        };
        let stack_id = listener.id;
        if listener.has_ended() {
            return self.turn_away(stack_id);
        }
        let mut offered = 0;
        while self.stack.waiting(stack_id) > 0 {
            let Some(first) = self.choose_member(number) else {
                return true;
            };
            if offered == AT_ONCE {
                return false;
            }
            offered += 1;
            let since = self.stack.waiting_since(stack_id);
            let Some(conn) = self.stack.accept(stack_id) else {
                return true;
            };
            if !self.offer_to_some(first, conn, number, since) {
                // Nobody has memory for what it has received: it waits until some is given back.
                self.stack.give_back(self.now, stack_id, conn);
                if let Some(listener) = self.listeners.get_mut(number)
                    && !core::mem::replace(&mut listener.lacks_memory, true)
                {
                    if self.lacking_memory.is_empty() {
                        self.lacked_at = self.memory.available();
                    }
                    self.lacking_memory.push(number);
                }
                return true;
            }
        }
        true
    }

    /// Goes on where there was more to offer than in the last turn, at as many listeners as there is time for:
    /// true if there were any.
    pub(super) fn go_on_offering(&mut self) -> bool {
        let listeners = self.offering.len();
        if listeners == 0 {
            return false;
        }
        let until = Until::taking(self.turn_clock, self.so_far);
        for at in 0..listeners {
            if at > 0 && until.is_over() {
                break;
            }
            if let Some(number) = self.offering.pop_front() {
                self.hand_over(number);
            }
        }
        true
    }

    /// Tries once more where connections wait for memory of the processes, if some was given back
    /// since the last time.
    pub(super) fn hand_over_again(&mut self) {
        if self.lacking_memory.is_empty() {
            return;
        }
        let available = self.memory.available();
        if core::mem::replace(&mut self.lacked_at, available) == available {
            return;
        }
        for number in core::mem::take(&mut self.lacking_memory) {
            if let Some(listener) = self.listeners.get_mut(number) {
                listener.lacks_memory = false;
                self.hand_over(number);
            }
        }
    }

    /// Offers a connection, which has waited in the listener's queue `since`, to `first`, or else to the
    /// first willing process, in turn, that has memory for it; false if none has.
    fn offer_to_some(
        &mut self,
        first: Taker,
        conn: ConnId,
        number: u32,
        since: Option<Instant>,
    ) -> bool {
        let mut next = Some(first);
        let members = self
            .listeners
            .get_mut(number)
            .map_or(0, |l| l.members.len());
        for _ in 0..members {
            let Some(taker) = next else {
                return false;
            };
            if self.offer(taker, conn, number, since) {
                return true;
            }
            let sessions = &self.sessions;
            let fit = |session: SessionId| sessions.get(session).is_some_and(reads_along);
            let listener = self.listeners.get_mut(number);
            let willing = listener.and_then(|l| l.next_willing(usize::MAX, fit));
            next = willing.map(|member| Taker::willing(member));
        }
        false
    }

    /// The member that is offered the next connection: one that waits for it and sleeps, or else one that
    /// sleeps, or else one that waits awake, or else one that is willing, in turn.
    fn choose_member(&mut self, number: u32) -> Option<Taker> {
        let listener = self.listeners.get_mut(number)?;
        let sessions = &self.sessions;
        let fit = |session: SessionId| sessions.get(session).is_some_and(reads_along);
        let asleep = |session: SessionId| {
            let session = sessions.get(session);
            session.is_some_and(|s| reads_along(s) && s.region.sleepers.any_asleep())
        };
        if let [member] = listener.members[..] {
            let takes = member.willing() > 0 && fit(member.session);
            return takes.then_some(Taker::willing(&member));
        }
        if let Some(sleeper) = listener.next_waiting(LOOKS, asleep) {
            return Some(Taker::waiting(sleeper));
        }
        if let Some(sleeper) = listener.next_willing(LOOKS, asleep) {
            return Some(Taker::willing(sleeper));
        }
        // One that accepts without sleeping says once that it has found nothing, and would be passed over
        // for good.
        if let Some(waiting) = listener.next_waiting(LOOKS, fit) {
            return Some(Taker::waiting(waiting));
        }
        let willing = listener.next_willing(usize::MAX, fit)?;
        Some(Taker::willing(willing))
    }

    /// Offers a connection, which has waited in the listener's queue `since`, to a process, as a member of
    /// the listener; false if there is no memory for it.
    fn offer(&mut self, taker: Taker, id: ConnId, listener: u32, since: Option<Instant>) -> bool {
        let Taker {
            member,
            session,
            awaits,
        } = taker;
        let (conn, new) = self.connections.enter(id);
        // One that comes again has waited from its beginning on.
        let since = conn.waits().or(since).unwrap_or(self.now);
        conn.set_waits(Some(since));
        debug_assert!(since <= self.now);
        if new {
            self.memory.expect_stream(conn.pool);
        }
        let pool = PoolId::of(session);
        if !self.memory.move_stream(conn, pool) {
            return false;
        }
        conn.owner = Some(session);
        conn.grant = (conn.grant + 1) % position::GRANTS;
        conn.listener = listener;
        conn.member = member;
        conn.announced = conn.stream.consumed();
        conn.said = 0;
        conn.told_acked = conn.acked;
        conn.told_send_buffer = queue_pair::Completion::SEND_BUFFER;
        conn.flags.tell_accepted = true;
        conn.flags.awaited = awaits;
        conn.flags.taken = false;
        conn.flags.told_closed = false;
        conn.flags.told_failed = false;
        let grant = conn.grant;
        Self::queue(&mut self.sessions, conn);
        if let Some(session) = self.sessions.get_mut(session) {
            session.held += 1;
            session.connections.insert(id);
            if let Some(word) = session.region.positions.word(id.index) {
                position::offer(word, grant, id.generation);
            }
        }
        let at = self.now;
        if let Some(listener) = self.listeners.get_mut(listener) {
            if let Some(member) = listener.member_mut(member) {
                member.handed = member.handed.wrapping_add(1);
            }
            listener.offer(Offer {
                conn: id,
                member,
                since: at,
            });
        }
        self.counters.handed += 1;
        self.note_offered(session, id, grant);
        self.awaits_accept(id);
        true
    }

    /// A process accepts from a listener from now on; the name that it knows it by.
    pub(super) fn join_listener(&mut self, number: u32, session: SessionId) -> Option<u32> {
        let listener = self.listeners.get_mut(number)?;
        let first = match listener.members[..] {
            [first] => Some(first),
            _ => None,
        };
        listener.left = None;
        let name = self.listeners.join(number, session)?;
        if let Some(first) = first {
            // What the only member was offered nobody else could have had until now.
            let unaccepted = self.unaccepted(first.session, first.number);
            let mut offers: Vec<Offer> = unaccepted
                .into_iter()
                .map(|conn| Offer {
                    conn,
                    member: first.number,
                    since: self.came(conn),
                })
                .collect();
            offers.sort_by_key(|offer| offer.since);
            if let Some(listener) = self.listeners.get_mut(number) {
                for offer in offers {
                    listener.offer(offer);
                }
            }
        }
        Some(name)
    }

    /// Whether a process has accepted a connection that it was offered.
    pub(super) fn is_accepted(&self, conn_id: ConnId) -> bool {
        let Some(conn) = self.connections.get(conn_id) else {
            return true;
        };
        conn.flags.taken || {
            let word = conn
                .owner
                .and_then(|owner| self.sessions.get(owner))
                .and_then(|session| session.region.positions.word(conn_id.index));
            word.is_none_or(|word| {
                let said = position::look(word);
                said.grant() != conn.grant || !said.is_offered()
            })
        }
    }

    /// Takes back an offer that nobody has accepted; false if it was accepted, or is none.
    pub(super) fn retract(&mut self, offer: &Offer) -> bool {
        let Some(conn) = self.connections.get(offer.conn) else {
            return false;
        };
        let Some(owner) = conn.owner else {
            return false;
        };
        if conn.flags.taken || conn.flags.closed || conn.member != offer.member {
            return false;
        }
        let retracted = self
            .sessions
            .get(owner)
            .and_then(|session| session.region.positions.word(offer.conn.index))
            .is_some_and(|word| position::retract(word, conn.grant, conn.id.generation));
        if retracted {
            self.notice_released(owner, offer.conn);
            // Its credit comes back by that, also where nobody waits for the connection.
            let bells = self.listeners.bells_of(offer.member);
            if let Some(session) = self.sessions.get_mut(owner) {
                session.ring_those_later(bells);
            }
            self.take_back(offer.conn);
            self.counters.offers_retracted += 1;
        }
        retracted
    }

    /// When a connection that is not accepted came into its listener's queue.
    fn came(&self, conn: ConnId) -> Instant {
        let conn = self.connections.get(conn);
        conn.and_then(Conn::waits).unwrap_or(self.now)
    }

    /// Takes back the oldest offer of a listener that somebody other than `except` has not accepted and
    /// has had since `before` or longer.
    fn retract_oldest(&mut self, number: u32, except: u32, before: Instant) -> bool {
        let Some(listener) = self.listeners.get_mut(number) else {
            return false;
        };
        if listener.first_offer().is_none_or(|it| it.since > before) {
            return false;
        }
        let mut offers = listener.take_offers();
        let mut kept = VecDeque::new();
        let mut found = false;
        while !found && let Some(offer) = offers.pop_front() {
            if offer.since > before {
                kept.push_back(offer);
                break;
            } else if offer.member != except {
                found = self.retract(&offer);
            } else if !self.is_accepted(offer.conn) {
                kept.push_back(offer);
            }
        }
        kept.append(&mut offers);
        if let Some(listener) = self.listeners.get_mut(number) {
            listener.keep_offers(kept);
        }
        found
    }

    /// A process is willing to be offered connections. If it `waits`, having found none, it gets the one
    /// that came first of those that nobody has accepted: what another was offered and leaves lying was
    /// before what waits in the queue. What another was offered just now it is about to accept, and
    /// loses only if the queue is empty.
    pub(super) fn credit(
        &mut self,
        id: SessionId,
        name: u32,
        total: u32,
        waits: bool,
    ) -> Result<(), EndReason> {
        let Some(number) = self.listeners.of_member(name) else {
            return Err(EndReason::ForeignListener(name));
        };
        let Some(listener) = self.listeners.get_mut(number) else {
            return Err(EndReason::ForeignListener(name));
        };
        let Some(member) = listener.member_mut(name).filter(|m| m.session == id) else {
            return Err(EndReason::ForeignListener(name));
        };
        // It falls when a process does not wait for connections any more.
        member.credit = total;
        let willing = member.willing() > 0;
        // What others leave lying at one that has ended is nobody's.
        let asks = waits && listener.members.len() > 1 && !listener.has_ended();
        let stack_id = listener.id;
        if asks && willing {
            // It goes to the front of the queue, and from there to the one that has asked.
            let untouched = self.untouched_since();
            let found = self.retract_oldest(number, name, untouched)
                || self.stack.waiting(stack_id) > 0
                || self.retract_oldest(number, name, self.now);
            let taker = Taker::waiting((name, id));
            let gets = found && self.offer_first_to(taker, number, stack_id);
            if !gets && let Some(listener) = self.listeners.get_mut(number) {
                listener.wait(name);
            }
        }
        self.hand_over(number);
        Ok(())
    }

    /// A process hears of what it is handed by this bell from now on.
    pub(super) fn name_listeners_bell(
        &mut self,
        id: SessionId,
        name: u32,
        bell: Option<u8>,
    ) -> Result<(), EndReason> {
        let number = self.listeners.of_member(name);
        let listener = number.and_then(|number| self.listeners.get_mut(number));
        let member = listener.and_then(|listener| listener.member_mut(name));
        let Some(member) = member.filter(|member| member.session == id) else {
            return Err(EndReason::ForeignListener(name));
        };
        let before = std::mem::replace(&mut member.bell, bell);
        if before.is_some_and(|before| Some(before) != bell)
            && let Some(session) = self.sessions.get_mut(id)
        {
            session.ring_all_once();
        }
        Ok(())
    }

    /// Offers the first connection of a listener's queue to a process; false if there is none, or it ends.
    fn offer_first_to(&mut self, taker: Taker, number: u32, stack_id: ListenerId) -> bool {
        let listener = self.listeners.get_mut(number);
        if listener.is_none_or(|listener| listener.has_ended()) {
            return false;
        }
        let since = self.stack.waiting_since(stack_id);
        let Some(conn) = self.stack.accept(stack_id) else {
            return false;
        };
        if !self.offer(taker, conn, number, since) {
            self.stack.give_back(self.now, stack_id, conn);
        }
        true
    }

    /// Offers what was not accepted for a moment to processes that sleep instead, or have found nothing when
    /// they last asked.
    pub(super) fn renew_offers(&mut self, now: Instant) {
        self.now = now;
        let numbers: Vec<u32> = self
            .listeners
            .iter()
            .filter(|l| l.first_movable().is_some())
            .map(|l| l.number)
            .collect();
        for number in numbers {
            self.renew_offers_of(number, now);
        }
    }

    fn renew_offers_of(&mut self, number: u32, now: Instant) {
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        let untouched = |since: Instant| now.saturating_duration_since(since) >= UNTOUCHED;
        if listener.looked.is_some_and(|looked| !untouched(looked)) {
            return;
        }
        let mut offers = listener.take_offers();
        let mut kept = VecDeque::new();
        while let Some(offer) = offers.pop_front() {
            if self.is_accepted(offer.conn) {
                continue;
            }
            let Some(listener) = self.listeners.get_mut(number) else {
                return;
            };
            if !untouched(offer.since) {
                kept.push_back(offer);
                break;
            }
            let sessions = &self.sessions;
            let holder = listener.member_mut(offer.member).map(|m| m.session);
            let idle = listener.next_willing(LOOKS, |session| {
                Some(session) != holder
                    && sessions
                        .get(session)
                        .is_some_and(|s| reads_along(s) && s.region.sleepers.any_asleep())
            });
            if let Some(name) = idle.map(|member| member.number) {
                listener.wait_first(name);
                if self.retract(&offer) {
                    self.hand_over(number);
                }
                continue;
            }
            // One that asks now and then without sleeping has said so once.
            let asks = listener.next_waiting(LOOKS, |session| {
                Some(session) != holder && sessions.get(session).is_some_and(reads_along)
            });
            if let Some(asks) = asks {
                let stack_id = listener.id;
                if self.retract(&offer) {
                    self.offer_first_to(Taker::waiting(asks), number, stack_id);
                }
            } else if !self.retract_for_others(number, &offer) {
                // Everybody works. It is looked at again in a while.
                if let Some(listener) = self.listeners.get_mut(number) {
                    listener.looked = Some(now);
                }
                kept.push_back(offer);
            }
        }
        kept.append(&mut offers);
        if let Some(listener) = self.listeners.get_mut(number) {
            listener.keep_offers(kept);
        }
    }

    /// Takes an offer back that nobody here will take soon, for a worker where somebody waits for one; false
    /// if there is none.
    fn retract_for_others(&mut self, number: u32, offer: &Offer) -> bool {
        let Some(local) = self.listeners.get_mut(number).map(|l| l.local) else {
            return false;
        };
        let Some(to) = self.who_wants(local) else {
            return false;
        };
        self.retract(offer) && self.move_waiting(number, to)
    }

    /// What was offered then, or before, and is not accepted, its process leaves lying.
    fn untouched_since(&self) -> Instant {
        let age = UNTOUCHED.as_nanos() as u64;
        Instant::from_nanos(self.now.as_nanos().saturating_sub(age))
    }

    /// When offers are to be looked at again, if any are.
    pub(super) fn offers_due(&self) -> Option<Instant> {
        self.listeners
            .iter()
            .filter_map(|l| {
                let since = l.first_movable()?.since;
                Some(l.looked.map_or(since, |looked| looked.max(since)) + UNTOUCHED)
            })
            .min()
    }

    /// A process gives a connection back that its program never accepted.
    pub(super) fn give_back(&mut self, id: SessionId, name: ConnRef) -> Result<(), EndReason> {
        let Ok(Whose::Own(conn_id)) = self.named(id, name) else {
            // The offer was taken back meanwhile.
            return Ok(());
        };
        if self.is_accepted(conn_id) {
            // What was meant is an offer from before, which was taken back; since then it was made
            // again, to another listener of this process.
            return Ok(());
        }
        self.notice_released(id, conn_id);
        let listener = self.connections.get(conn_id).map(|conn| conn.listener);
        self.take_back(conn_id);
        if let Some(number) = listener {
            self.hand_over(number);
        }
        Ok(())
    }

    /// Takes an untouched connection back into its listener's queue; if the listener is gone, or has ended, or
    /// there is no memory for what it has received, it ends by RST, as in the kernel.
    pub(super) fn take_back(&mut self, conn_id: ConnId) {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        let Some(owner) = conn.owner.take() else {
            return;
        };
        let number = conn.listener;
        if conn.flags.tell_accepted {
            // The process has never heard of it, and so cannot count it as one that it has been given:
            // it would wait with credit that is used up here. Nor does it say once more that it waits.
            let (listener, name) = (self.listeners.get_mut(number), conn.member);
            if let Some(listener) = listener
                && let Some(member) = listener.member_mut(name)
            {
                member.handed = member.handed.wrapping_sub(1);
                if conn.flags.awaited {
                    listener.wait_first(name);
                }
            }
        }
        let listener = self.listeners.get(number);
        let pool = listener.map_or(PoolId::ENGINE, |it| self.memory.pool_for(it.uid));
        if self.memory.move_stream(conn, pool) {
            conn.flags = crate::fast::connections::Flags {
                connected: conn.flags.connected,
                peer_closed: conn.flags.peer_closed,
                ..Default::default()
            };
            conn.announced = conn.stream.consumed();
            if let Some(session) = self.sessions.get_mut(owner) {
                session.connections.remove(&conn_id);
            }
            self.let_go(owner);
            let listener = self.listeners.get_mut(number);
            let stack_id = listener.filter(|l| !l.has_ended()).map(|l| l.id);
            let queued = stack_id.is_some_and(|id| self.stack.give_back(self.now, id, conn_id));
            if queued {
                self.counters.given_back += 1;
                return;
            }
        } else {
            // Its bytes stay where they are until it has ended.
            self.counters.drop(Drop::UnacceptedFull);
            conn.owner = Some(owner);
            self.close_own(conn_id, Request::Abort);
            return;
        }
        self.finish(conn_id, Request::Abort);
    }
}

/// Whether a session takes in what it is told: one that does not is offered nothing.
pub(super) fn reads_along(session: &Session) -> bool {
    session.ended.is_none() && session.is_heard()
}
