//! The client on a device: a turn takes what has arrived, answers it, and sends what is due.

use netdev::Device;
use wire::segment::{ChecksumPolicy, parse};

use super::pace::{Pace, ramped};
use super::reluctance::Reluctance;
use super::reply::{Frames, Reply};
use super::{Client, Counters, usual};

/// What is to be done, and how much of it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is due, and when.
    pub due: Due,
    /// Connections outstanding at once, at most; where they follow one another
    /// ([`Due::AsTheyReturn`]), those count too whose FIN is not acknowledged.
    pub connections: u64,
    /// Requests in all, at most (connections, if they are held), those that came to nothing because
    /// no connection was had among them; none: no limit.
    pub requests: Option<u64>,
    /// When nothing more is begun, in nanoseconds after the beginning; none: never.
    pub duration_ns: Option<u64>,
    /// How long the rate, or the number of connections, rises to its full height.
    pub ramp_ns: u64,
    /// How long what is outstanding is waited for, after the last was begun. Only time in which the
    /// client runs counts.
    pub grace_ns: u64,
    /// How long a connection may stand still before something is sent again. Only time in which the
    /// client runs counts.
    pub retry_ns: u64,
}

/// What is due, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Due {
    /// As many connections as may be outstanding, one after the other.
    AsTheyReturn,
    /// Connections at a rate; requests in them follow responses.
    Connections(f64),
    /// Requests at a rate, each over a connection that waits, or a new one.
    Requests(f64),
}

/// Frames taken and sent in one turn, at most.
const BATCH: usize = 256;

/// What comes after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another turn, now.
    Now,
    /// Another turn when frames arrive, or at this time (in nanoseconds of the caller's clock).
    At(u64),
    /// Nothing: it is over.
    Over,
}

/// The client on a device.
#[derive(Debug)]
pub struct Runner<D> {
    device: D,
    client: Client,
    frames: Frames,
    plan: Plan,
    pace: Option<Pace>,
    began_ns: u64,
    last_ns: u64,
    /// When a frame was there last.
    received_ns: u64,
    /// How many events of the schedule were begun.
    begun: u64,
    /// When the last was begun that will be.
    stopped_ns: Option<u64>,
    /// How many events of the schedule were due by then and not begun: they never will be.
    left: u64,
    /// For how long it has run: pauses between turns count as [`PAUSE_US`] at most.
    ran_us: u64,
    /// Until it has run for so long, what is outstanding is waited for.
    patience_us: u64,
    /// Connections that were held are let go of as from when it had run for so long.
    release_us: u64,
    /// Where connections follow one another, and come to nothing one after the other.
    reluctance: Reluctance,
    replies: Vec<Reply>,
    /// Replies that the device had no room for: from this one on.
    unsent: usize,
    policy: ChecksumPolicy,
}

impl<D: Device> Runner<D> {
    /// Begins at `now_ns`, in nanoseconds of the caller's clock.
    pub fn new(device: D, client: Client, frames: Frames, plan: Plan, now_ns: u64) -> Self {
        let pace = match plan.due {
            Due::AsTheyReturn => None,
            Due::Connections(rate) | Due::Requests(rate) => Some(Pace::new(rate, plan.ramp_ns)),
        };
        let policy = if device.offloads().receive_partial_checksum {
            ChecksumPolicy::AcceptPartial
        } else {
            ChecksumPolicy::Verify
        };
        Self {
            device,
            client,
            frames,
            plan,
            pace,
            began_ns: now_ns,
            last_ns: now_ns,
            received_ns: now_ns,
            begun: 0,
            stopped_ns: None,
            left: 0,
            ran_us: 0,
            patience_us: 0,
            release_us: 0,
            reluctance: Reluctance::default(),
            replies: Vec::with_capacity(4 * BATCH),
            unsent: 0,
            policy,
        }
    }

    /// The client.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// The device, to ask for its counters.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Events of the schedule that were due at `now_ns`, or when the last was begun, and not begun:
    /// the client, or the limit on connections, does not keep up.
    pub fn backlog(&self, now_ns: u64) -> u64 {
        match self.stopped_ns {
            Some(_) => self.left,
            None => self.due_and_not_begun(now_ns),
        }
    }

    fn due_and_not_begun(&self, now_ns: u64) -> u64 {
        // What is due at the very end, or after it, is of the next second.
        let last = self
            .plan
            .duration_ns
            .map_or(u64::MAX, |ns| ns.saturating_sub(1));
        let elapsed = now_ns.saturating_sub(self.began_ns).min(last);
        let due = self.pace.as_ref().map_or(0, |pace| pace.due_by(elapsed));
        due.saturating_sub(self.begun)
    }

    /// How long ago it began, in nanoseconds.
    pub fn elapsed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.began_ns)
    }

    /// How long something was begun or came, in nanoseconds: all that is counted was in that time,
    /// and waiting in vain for what is lost does not belong to it.
    pub fn worked_ns(&self, now_ns: u64) -> u64 {
        let received = self.received_ns.saturating_sub(self.began_ns);
        received.max(self.lasted_ns(now_ns))
    }

    /// How long something was begun, in nanoseconds: not longer than was planned, also if the end
    /// was noticed late.
    pub fn lasted_ns(&self, now_ns: u64) -> u64 {
        self.stopped_ns
            .unwrap_or(now_ns)
            .saturating_sub(self.began_ns)
            .min(self.plan.duration_ns.unwrap_or(u64::MAX))
    }

    /// Begins nothing more from now on, as if the duration had passed.
    pub fn stop(&mut self, now_ns: u64) {
        if self.stopped_ns.is_none() {
            // Where all requests are begun that were wanted, nothing more was due.
            if !self.has_spent_all() {
                self.left = self.due_and_not_begun(now_ns);
            }
            self.stopped_ns = Some(now_ns);
            self.patience_us = self.ran_us + self.plan.grace_ns / 1000;
            self.release_us = self.ran_us;
            self.client.drain(&mut self.replies);
        }
    }

    /// One turn.
    pub fn turn(&mut self, now_ns: u64) -> Next {
        let now_us = micros(now_ns);
        let received = if self.unsent == 0 {
            self.receive(now_us)
        } else {
            0
        };
        if received > 0 {
            self.received_ns = now_ns;
            self.client.end_batch(now_us, &mut self.replies);
        }
        let elapsed_us = (now_ns - self.last_ns) / 1000;
        if elapsed_us > 0 {
            self.last_ns += elapsed_us * 1000;
            // While it did not run nothing could arrive: that is no reason to give up.
            let ran_us = elapsed_us.min(PAUSE_US);
            self.ran_us += ran_us;
            let turn_us = (self.plan.retry_ns / 1000).max(1);
            self.client.sweep(
                now_us,
                u32::try_from(ran_us).unwrap_or(u32::MAX),
                u32::try_from(turn_us).unwrap_or(u32::MAX),
                &mut self.replies,
            );
            if received == 0 {
                self.client.end_batch(now_us, &mut self.replies);
            }
        }
        let over = self.is_done_beginning(now_ns);
        if over {
            self.begin_last();
            self.stop(now_ns);
            self.release();
        } else if self.replies.len() < BATCH {
            self.begin(now_ns);
        }
        self.transmit();
        if received > 0 || self.unsent > 0 {
            return Next::Now;
        }
        self.next(now_ns)
    }

    fn receive(&mut self, now_us: u32) -> usize {
        let (client, replies, policy) = (&mut self.client, &mut self.replies, self.policy);
        let partial = policy == ChecksumPolicy::AcceptPartial;
        self.device.receive(BATCH, |frame| {
            if let Some(segment) = usual::read(frame, partial) {
                client.on_segment(now_us, &segment, replies);
                return;
            }
            match parse(frame, policy) {
                Ok(segment) => client.on_segment(now_us, &segment, replies),
                Err(_) => client.counters_mut().malformed += 1,
            }
        })
    }

    fn is_done_beginning(&self, now_ns: u64) -> bool {
        if self.stopped_ns.is_some() {
            return true;
        }
        let passed = now_ns - self.began_ns;
        self.plan.duration_ns.is_some_and(|all| passed >= all) || self.has_spent_all()
    }

    fn has_spent_all(&self) -> bool {
        let spent = self.spent(self.client.counters());
        self.plan.requests.is_some_and(|all| spent >= all)
    }

    /// What counts towards the limit on requests.
    fn spent(&self, counters: &Counters) -> u64 {
        if self.client.is_holding() {
            counters.syns
        } else {
            counters.requests + counters.refused + counters.lost_opening
        }
    }

    /// Lets go of connections that are held, as many as are due by now: as fast as they came, where that is said.
    /// Nobody acknowledges a reset, and one that finds a queue full is lost, so there are no more of them than a
    /// server can take beside its work.
    fn release(&mut self) {
        let each_us = match self.plan.due {
            Due::Connections(rate) => (1e6 / rate) as u64,
            Due::AsTheyReturn | Due::Requests(_) => 0,
        };
        let each_us = each_us.clamp(RELEASE_US.0, RELEASE_US.1);
        let passed = self.ran_us - self.release_us;
        let portion = (passed / each_us).min(BATCH as u64);
        if portion == 0 || self.replies.len() >= BATCH {
            return;
        }
        // What is late is no reason to hurry.
        let late = passed.saturating_sub(BATCH as u64 * each_us);
        self.release_us += late.max(portion * each_us);
        if self.client.release(portion as usize, &mut self.replies) > 0 {
            // That is no waiting.
            self.patience_us = self.ran_us + self.plan.grace_ns / 1000;
        }
    }

    /// Begins, at the end, what was due before it: the end may be noticed late. No more than in any
    /// turn, since a client that does not keep up is to end in time.
    fn begin_last(&mut self) {
        if let (Some(duration), None) = (self.plan.duration_ns, self.stopped_ns)
            && self.pace.is_some()
            && self.replies.len() < BATCH
        {
            self.begin(self.began_ns + duration.saturating_sub(1));
        }
    }

    /// Begins what is due.
    fn begin(&mut self, now_ns: u64) {
        let elapsed = now_ns - self.began_ns;
        let room = ramped(self.plan.connections, elapsed, self.plan.ramp_ns);
        let budget = BATCH - self.replies.len();
        // What is on its way to its first request counts as well: the limit is not to be overrun
        // by what is in flight.
        let counters = self.client.counters();
        let opening = counters
            .syns
            .saturating_sub(counters.syn_acks + counters.refused + counters.lost_opening);
        let spent = self.spent(counters) + if self.client.is_holding() { 0 } else { opening };
        let left = self
            .plan
            .requests
            .map_or(u64::MAX, |all| all.saturating_sub(spent));
        let budget = budget.min(usize::try_from(left).unwrap_or(usize::MAX));
        let Some(pace) = self.pace else {
            let counters = self.client.counters();
            let succeeded = if self.client.is_holding() {
                counters.syn_acks
            } else {
                counters.responses
            };
            if self.reluctance.holds(counters, succeeded, now_ns) {
                return;
            }
            let room = room.saturating_sub(self.client.finishing());
            for _ in 0..budget {
                if self.client.outstanding() >= room || !self.open(micros(now_ns)) {
                    break;
                }
            }
            return;
        };
        let room = match self.plan.due {
            Due::Requests(_) => room,
            // The rate rises already.
            _ => self.plan.connections,
        };
        let due = pace.due_by(elapsed);
        for _ in 0..budget {
            if self.begun >= due {
                break;
            }
            let due_us = micros(self.began_ns + pace.due_at(self.begun));
            if let Due::Requests(_) = self.plan.due
                && let Some(reply) = self.client.ask(due_us)
            {
                self.replies.push(reply);
            } else if self.client.outstanding() >= room || !self.open(due_us) {
                break;
            }
            self.begun += 1;
        }
    }

    fn open(&mut self, due_us: u32) -> bool {
        match self.client.open(due_us) {
            Some(reply) => {
                self.replies.push(reply);
                true
            }
            None => false,
        }
    }

    fn transmit(&mut self) {
        while let Some(reply) = self.replies.get(self.unsent) {
            let Some(frame) = self.device.frame() else {
                self.client.counters_mut().no_frame += 1;
                break;
            };
            let length = self.frames.write(reply, frame);
            self.device.submit(length, None);
            self.unsent += 1;
        }
        if self.unsent == self.replies.len() {
            self.replies.clear();
            self.unsent = 0;
        }
        self.device.flush();
    }

    fn next(&mut self, now_ns: u64) -> Next {
        if self.stopped_ns.is_some() {
            let left_us = self.patience_us.saturating_sub(self.ran_us);
            if self.client.outstanding() == 0 || left_us == 0 {
                self.client.abandon();
                return Next::Over;
            }
            let pause = match self.client.is_holding() {
                true => RELEASE_PAUSE_NS,
                false => IDLE_NS,
            };
            return Next::At(now_ns + pause.min(left_us * 1000));
        }
        // The hand must go round, and delayed acknowledgements be sent.
        let mut at = now_ns + IDLE_NS;
        if let Some(duration) = self.plan.duration_ns {
            at = at.min(self.began_ns + duration);
        }
        if let Some(pace) = &self.pace {
            let due = self.began_ns + pace.due_at(self.begun);
            if due > now_ns {
                at = at.min(due);
            }
        } else if self.plan.ramp_ns > now_ns - self.began_ns {
            at = at.min(now_ns + self.plan.ramp_ns / self.plan.connections.max(1));
        }
        Next::At(at)
    }
}

/// Longest pause between two turns, in nanoseconds.
const IDLE_NS: u64 = 10_000_000;

/// Microseconds between two connections that are let go of, at least and at most: 50,000 a second, or 1,000.
const RELEASE_US: (u64, u64) = (20, 1_000);

/// Longest pause between two turns, in nanoseconds, while there are such.
const RELEASE_PAUSE_NS: u64 = 1_000_000;

/// After a longer pause, in microseconds, the machine had something else to do, or stood still.
const PAUSE_US: u64 = 2 * IDLE_NS / 1000;

/// Microseconds of the client's clock, which goes round every 71 minutes.
#[inline]
pub(super) const fn micros(ns: u64) -> u32 {
    (ns / 1000) as u32
}
