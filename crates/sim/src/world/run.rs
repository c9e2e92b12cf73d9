//! Moving a world on: what happens next, and all that follows from it at once.

use core::time::Duration;

use tcp::{Event, Instant};

use super::{HostId, World};
use crate::network::Happening;

/// How often things may happen at one and the same time before it counts as going in circles.
const ACTIVITY_LIMIT: usize = 1_000_000;

/// How many steps there may be at one and the same time. Some thousand are as many as there ever are.
const STANDSTILL: u64 = 1_000_000;

/// Connections of a host that are looked at after every step.
const AUDITED: u64 = 16;

impl World {
    /// Whether nothing is under way; only timers may be waiting.
    pub fn is_quiet(&self) -> bool {
        self.network.is_quiet()
    }

    /// When something happens next, if ever.
    pub fn next_happening(&mut self) -> Option<Instant> {
        let timers = self
            .hosts
            .iter_mut()
            .filter_map(|host| host.stack.next_timeout())
            .min();
        self.network.next().into_iter().chain(timers).min()
    }

    /// Lets happen what can happen now, then moves on to the time of what happens next; returns
    /// whether there is anything.
    pub fn step(&mut self) -> bool {
        self.settle();
        match self.next_happening() {
            Some(next) => {
                self.move_on_to(next);
                self.happen();
                true
            }
            None => false,
        }
    }

    /// Time moves on, or stands where it is for one more step.
    ///
    /// # Panics
    /// If it has stood still for [`STANDSTILL`] steps: something is due that does not happen.
    fn move_on_to(&mut self, next: Instant) {
        if next > self.now {
            self.now = next;
            self.standing_since = self.steps;
        }
        let stood = self.steps - self.standing_since;
        assert!(
            stood < STANDSTILL,
            "time stands still at {:?}: {stood} steps, and what is due is due again",
            self.now
        );
    }

    /// Lets `span` pass.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        self.settle();
        while self.next_happening().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
        self.settle();
    }

    /// Goes on until `condition` holds.
    ///
    /// # Panics
    /// If it does not within `limit`, or if nothing is left that could bring it about.
    pub fn run_until(&mut self, limit: Duration, mut condition: impl FnMut(&World) -> bool) {
        let end = self.now + limit;
        self.settle();
        while !condition(self) {
            assert!(
                self.now <= end,
                "not within {limit:?}: the condition of run_until"
            );
            assert!(self.step(), "nothing is left that could bring it about");
            self.settle();
        }
    }

    /// Lets happen what happens now: all that arrives is one batch for its host.
    fn happen(&mut self) {
        self.steps += 1;
        let now = self.now;
        while let Some((host, what)) = self.network.pop(now) {
            match what {
                Happening::Frame(frame) => self.hosts[host.0].receive(now, &frame),
                // What is wrong with it is counted by the stack.
                Happening::Error(error) => drop(self.hosts[host.0].stack.on_icmp(now, &error)),
                Happening::Wake(id) => {
                    let socket = &mut self.sockets[id.0];
                    (socket.wake_scheduled, socket.may_read) = (false, true);
                    if socket.update.connected {
                        self.pump(id);
                    } else {
                        self.let_syn_go(id);
                    }
                }
                Happening::Room => {}
            }
        }
        for host in &mut self.hosts {
            if host.stack.next_timeout().is_some_and(|at| at <= now) {
                let budget = host.rng.pick(&[1, 16, 1_000]);
                host.stack.on_timeout(now, budget);
            }
        }
        self.settle();
    }

    /// Passes events to the applications and segments to the links until nobody has anything more
    /// to say.
    pub(super) fn settle(&mut self) {
        for _ in 0..ACTIVITY_LIMIT {
            let mut active = false;
            for at in 0..self.hosts.len() {
                while let Some(event) = self.hosts[at].stack.poll_event() {
                    active = true;
                    self.on_event(HostId(at), event);
                }
                active |= self.hosts[at].transmit(self.now, &mut self.network) > 0;
            }
            if !active {
                return self.audit();
            }
        }
        panic!("the stacks never come to rest");
    }

    /// Asserts what always holds of every stack. Of a host with many connections not after every
    /// step, for that would cost their number each time: a rule that is broken stays broken.
    fn audit(&self) {
        for host in &self.hosts {
            let connections = u64::from(host.stack.connection_count());
            if self.steps.is_multiple_of(1 + connections / AUDITED) {
                let audit = host.stack.audit();
                assert_eq!(audit, Ok(()), "at the {}", host.config.name);
            }
        }
    }

    fn on_event(&mut self, host: HostId, event: Event) {
        match event {
            Event::Acceptable(listener) => {
                let plan = self.hosts[host.0]
                    .listeners
                    .get(&listener)
                    .and_then(|l| l.plan);
                let Some(plan) = plan else { return };
                while let Some(socket) = self.accept_from_stack(host, listener, plan) {
                    if let Some(listener) = self.hosts[host.0].listeners.get_mut(&listener) {
                        listener.accepted.push(socket);
                    }
                }
            }
            Event::Connection(conn, update) => {
                // One that nobody has accepted is told of again when somebody has.
                if let Some(&id) = self.hosts[host.0].sockets.get(&conn) {
                    self.sockets[id.0].take_update(update);
                    self.pump(id);
                }
            }
            Event::Released(conn) => {
                self.hosts[host.0].memory.release(conn);
                if let Some(id) = self.hosts[host.0].sockets.remove(&conn) {
                    self.sockets[id.0].release();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "time stands still")]
    fn a_world_that_stands_still_says_so() {
        let mut world = World::new(1);
        for _ in 0..=STANDSTILL {
            world.steps += 1;
            world.move_on_to(world.now);
        }
    }

    #[test]
    fn a_world_that_moves_on_may_take_any_number_of_steps() {
        let mut world = World::new(1);
        for step in 0..3 * STANDSTILL {
            world.steps += 1;
            let moves = step % (STANDSTILL / 2) == 0;
            world.move_on_to(world.now + Duration::from_secs(moves.into()));
        }
    }
}
