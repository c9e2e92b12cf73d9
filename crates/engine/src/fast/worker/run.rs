//! The loop around the turns: when to look at what is rare, when to yield the core, when to sleep.
//!
//! The worker spins only while work keeps coming and for a bounded time after; between empty turns
//! it yields its core, so that a server on the same core runs as soon as it can. When the time is
//! over it [sleeps](super::sleep).

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netdev::Device;
use queue_pair::Crowd;
use queue_pair::doorbell::Rung;
use tcp::Instant;

use super::Worker;
use super::looking::{After, Looking};
use super::sleep::Due;
use crate::clock::{Clock, CoreTime};
use crate::fast::connections::SessionId;
use crate::fast::session::EndReason;
use crate::network::Network;
use crate::poller::Source;

/// How long, at most, what is rare waits while there is work.
const LOOK_INTERVAL: Duration = Duration::from_micros(200);
/// How long, at most, a session that rests waits while there is work.
const HEARD_INTERVAL: Duration = Duration::from_micros(20);
/// The interval of what is done now and then: neighbours, mixed and closing ports.
const TICK: Duration = Duration::from_secs(1);
/// A yield that took longer than this let another task run.
const YIELDED: Duration = Duration::from_micros(3);
/// How long a stopping worker waits for its last segments to leave and be acknowledged.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the loop around the turns keeps.
#[derive(Debug)]
struct Loop {
    clock: Clock,
    /// When there was last anything to do.
    last_work: Instant,
    /// How long to look for more.
    looking: Looking,
    /// For how long what the next turn finds has waited for a worker that slept.
    waited: Duration,
    /// Somebody else wants the core: this turn is the last before the worker gets out of the way.
    make_way: bool,
    /// Who else is on this core.
    crowd: Crowd,
    /// When the rare things were last looked at.
    last_look: Instant,
    /// When it was last heard who rings.
    last_heard: Instant,
    /// When the tick is due.
    tick: Instant,
    /// When the connections that are left are ended, once the worker is stopping.
    deadline: Option<Instant>,
    /// They have been ended.
    ended: bool,
}

impl Loop {
    /// At the time `now`, with the tick due at `tick`.
    fn new(clock: Clock, now: Instant, tick: Instant) -> Self {
        Self {
            clock,
            last_work: now,
            looking: Looking::default(),
            waited: Duration::ZERO,
            make_way: false,
            crowd: Crowd::default(),
            last_look: now,
            last_heard: now,
            tick,
            deadline: None,
            ended: false,
        }
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Runs until `stop` becomes readable, or somebody asks on the control socket, and then until
    /// the connections have ended or the time for that is over.
    ///
    /// # Errors
    /// `NODEV`: the interface is gone, and all connections with it. Others: nothing can be polled.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> rustix::io::Result<()> {
        self.slow.poller.add(stop, Source::Stop)?;
        for fd in self.network.fds() {
            self.slow.poller.add(fd, Source::Network)?;
        }
        if let Some(handoff) = &self.handoff {
            self.slow.poller.add(handoff.bell(), Source::Handoff)?;
        }
        self.follow_from_here();
        // What has changed while it was started.
        self.network_changed();
        let clock = self.common.clock;
        if self.config.measure_turns {
            self.core_time = CoreTime::start();
        }
        let now = clock.now();
        let mut state = Loop::new(clock, now, now + TICK);
        let mut now = now;
        let mut tended = false;
        loop {
            // What is rare may have taken long, a move to a busy core above all. What arrived meanwhile
            // must not seem to have come earlier than it did: a round trip would look too short.
            let turn_at = if tended { state.clock.now() } else { now };
            tended = false;
            let worked = self.turn_of(turn_at, state.clock.since(turn_at));
            let after = state.clock.now();
            let spent = after.saturating_duration_since(now).as_nanos() as u64;
            let waited = core::mem::take(&mut state.waited);
            if worked {
                self.counters.busy_ns += spent;
                let idle = now.saturating_duration_since(state.last_work);
                let after_it = if core::mem::take(&mut self.asked) {
                    After::Telling
                } else {
                    After::Sending
                };
                self.counters.looks += u64::from(state.looking.found(idle, waited, after_it));
                self.near_is_better = !state.looking.keeps_awake();
                (state.last_work, state.make_way) = (after, false);
            } else {
                self.counters.spin_ns += spent;
            }
            self.counters.turn_times.record(spent);
            self.had_core();
            now = after;
            let mut looked = self.hears_who_rests(&mut state, now);
            if now.saturating_duration_since(state.last_look) >= LOOK_INTERVAL {
                state.last_look = now;
                looked |= self.look(&mut state, now, true);
                self.look_took(&state.clock, now);
                self.follow(now);
                tended = true;
                self.still_there()?;
                if self.finished(&mut state, now) {
                    return Ok(());
                }
            }
            // What was found by looking is seen to in a turn, before anyone sleeps.
            if worked || looked {
                continue;
            }
            let idle = now.saturating_duration_since(state.last_work);
            let received = self.received();
            let limit = state.looking.limit(self.serving, self.config.spin(), || {
                self.moderation.does_not_help(now, received)
            });
            let crowded = state.crowd.is_met(now.as_nanos());
            if idle < limit && !state.make_way && !crowded {
                rustix::thread::sched_yield();
                let after = state.clock.now();
                let away = after.saturating_duration_since(now);
                self.counters.spin_ns += away.as_nanos() as u64;
                state.crowd.yielded(now.as_nanos(), after.as_nanos());
                // If it was our server that needed the core there is work now.
                state.make_way = away >= YIELDED;
                now = after;
                continue;
            }
            let due = Due {
                tick: state.tick,
                deadline: state.deadline,
            };
            self.counters.looks_in_vain += u64::from(state.looking.in_vain(crowded));
            self.near_is_better = true;
            let woken = self.sleep(&state.clock, due, now);
            now = woken.at;
            // To fall asleep is no part of a turn.
            self.core_time.skip();
            if self.trace.is_on() {
                self.trace.awake(now);
            }
            state.waited = self.woke();
            state.last_look = now;
            self.look(&mut state, now, woken.by_bell);
            self.look_took(&state.clock, now);
            self.follow(now);
            tended = true;
            self.still_there()?;
            if self.finished(&mut state, now) {
                return Ok(());
            }
        }
    }

    /// Looks at everything rare once, at the time `now`: for who drives the turns himself.
    pub fn attend(&mut self, now: Instant) {
        while self.attend_once(now) {}
    }

    /// The same, once: true if an order waits.
    pub fn attend_once(&mut self, now: Instant) -> bool {
        let mut state = Loop::new(self.common.clock, now, now);
        self.look(&mut state, now, true);
        self.waiting.is_some()
    }

    /// Hears what has changed in the network, at the time `now`: for who drives the turns himself.
    pub fn hear_of_network(&mut self, now: Instant) {
        self.now = now;
        self.network_changed();
    }

    /// What waited while the worker slept says how long it took to wake. After that turns do not wait for
    /// anybody but each other.
    fn woke(&mut self) -> Duration {
        let waited = self.network.waiting();
        if !waited.is_zero() {
            self.counters.wake_ups.record(waited.as_nanos() as u64);
        }
        waited
    }

    fn look_took(&mut self, clock: &Clock, since: Instant) {
        let spent = clock.now().saturating_duration_since(since);
        self.counters.turn_times.record(spent.as_nanos() as u64);
        self.had_core();
    }

    /// Since it was asked last; a yield before a turn counts as part of it.
    fn had_core(&mut self) {
        if let Some(spent) = self.core_time.take() {
            self.counters.turn_core_times.record(spent);
        }
    }

    /// Looks at everything rare, at descriptors only if one of them may be ready (`bells`); true if
    /// anything was there.
    fn look(&mut self, state: &mut Loop, now: Instant, bells: bool) -> bool {
        self.now = now;
        self.connections.set_now(now);
        self.ring_later();
        // Before anything is heard that was said while this thread was away.
        self.beat();
        let (mut found, orders) = if bells { self.hear() } else { (false, false) };
        if orders || self.waiting.is_some() {
            self.take_orders();
        }
        if self.offers_due().is_some_and(|due| due <= now) {
            self.renew_offers(now);
            found = true;
        }
        if self.left_due().is_some_and(|due| due <= now) {
            self.recheck_left(now);
        }
        self.look_at_users();
        self.let_idle_rest();
        if now >= state.tick {
            state.tick = now + TICK;
            self.tick();
        }
        self.end_breached();
        found
    }

    /// Hears the processes of sessions that rest, which ring, sooner than everything else that is rare. Whether
    /// anything was there.
    fn hears_who_rests(&mut self, state: &mut Loop, now: Instant) -> bool {
        let heard = now.saturating_duration_since(state.last_heard);
        if heard < HEARD_INTERVAL || !self.sessions.any_rests() {
            return false;
        }
        state.last_heard = now;
        let (found, orders) = self.hear();
        if orders {
            self.take_orders();
        }
        found
    }

    /// Sees to the descriptors that are ready: whether there were any, and orders among them.
    fn hear(&mut self) -> (bool, bool) {
        let (mut found, mut orders, mut network) = (false, false, false);
        self.counters.polls += 1;
        for source in self.slow.poller.ready() {
            found = true;
            match source {
                Source::Orders => orders = true,
                Source::Bell(id) => self.rung(id),
                Source::Network => network = true,
                Source::Stop => self.begin_stop(),
                // What there is is found in the turn that follows.
                Source::Handoff => {
                    if let Some(handoff) = &self.handoff {
                        handoff.clear_bell();
                    }
                }
                // The slow half's own.
                Source::Listener
                | Source::Client(_)
                | Source::Process(_)
                | Source::Lifeline(_)
                | Source::Netfilter
                | Source::Reclaimed
                | Source::Fetched
                | Source::Closed
                | Source::Tales
                | Source::Interfaces
                | Source::Opener => {}
            }
        }
        // All that it has to say is read at once, whichever of its descriptors is ready.
        if network {
            self.network_changed();
        }
        (found, orders)
    }

    /// A session's doorbell was rung. What for is found in the ring of the session, which is awake by this.
    fn rung(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let rung = session.bell.drain();
        if matches!(rung, Rung::Closed | Rung::Rights) {
            // It would be ready for ever. That the process is gone is heard elsewhere.
            self.slow.poller.remove(session.bell.as_fd());
        }
        if rung == Rung::Rights && session.ended.is_none() {
            // They are closed with the bell, by who has time for that.
            self.breaches.push((id, EndReason::Rights));
        }
    }

    fn tick(&mut self) {
        if !self.closing.is_empty() || self.lent.any() {
            self.recheck_closing();
        }
        if self.sharing.users.any_beyond() {
            self.count_users();
        }
        self.mix_what_was_left();
        self.ask_later();
        self.tell_opening();
        self.try_files_again(usize::MAX);
        self.paths.tick(&mut self.network);
        self.try_queues_again();
        self.drop_aged();
        self.reclaim();
        if self.captures.is_on() {
            self.captures.reap();
            self.return_captures();
        }
    }

    /// New connections are the kernel's from now on; what is there may end by itself.
    pub(super) fn begin_stop(&mut self) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.yield_listeners();
        self.tell_opening();
        let connections = self.stack.connection_count();
        tracing::info!(connections, "stopping: new connections are the kernel's");
    }

    /// Whether a stopping worker is done.
    fn finished(&mut self, state: &mut Loop, now: Instant) -> bool {
        if !self.stopping {
            return false;
        }
        let drain = Duration::from_secs(self.config.drain_seconds.into());
        let deadline = *state.deadline.get_or_insert(now + drain);
        let none = self.stack.connection_count() == 0 && self.stack.half_open_count() == 0;
        if none {
            return true;
        }
        if now < deadline {
            return false;
        }
        if state.ended {
            return true;
        }
        state.ended = true;
        state.deadline = Some(now + LAST_WORDS);
        for slot in 0..self.sessions.slots() {
            self.end_session(SessionId(slot), EndReason::Stopping);
        }
        false
    }
}
