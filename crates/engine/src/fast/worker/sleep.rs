//! Sleeping: the doorbells of all sessions are armed (of those that [rest](super::rest) they are already),
//! everything is looked at once more, and then the worker sleeps in one poll over the device and everything
//! rare. The argument that no wake-up is lost stands in [`queue_pair::armed`].

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netdev::{Device, Loopback};
use queue_pair::{Opening, Profile};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use tcp::Instant;

use super::Worker;
use super::moderation::Received;
use crate::clock::Clock;
use crate::fast::session::EndReason;
use crate::network::Network;

/// What the worker's loop must be awake for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    /// What is done now and then, if there is any of it.
    pub tick: Instant,
    /// The end of the time that a stopping worker has.
    pub deadline: Option<Instant>,
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Woken {
    /// The time after it.
    pub at: Instant,
    /// Something else than the device may have had something to say. If not, it need not be asked: what
    /// has been rung since ends the next sleep.
    pub by_bell: bool,
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Sleeps until there is something to do.
    pub(super) fn sleep(&mut self, clock: &Clock, due: Due, now: Instant) -> Woken {
        let mut by_bell = true;
        if self.arm() {
            let until = self.wake_time(due);
            let delay = match self.serving {
                Profile::Latency => Duration::ZERO,
                _ => self.moderation.before_sleep(now, self.received()),
            };
            let delayed = !delay.is_zero();
            let rung = delayed && self.wait_for_bells(until, delay, now);
            // Frames that have come meanwhile need no second poll.
            let is_over = rung || (delayed && self.nics.waiting() > 0);
            by_bell = rung || (!is_over && self.wait(until, clock.now()));
            self.counters.sleeps += 1;
        }
        self.sessions
            .each_awake(|_, session| session.region.armed.disarm(0));
        if let Some(handoff) = &self.handoff {
            handoff.disarm();
        }
        let after = clock.now();
        self.counters.sleep_ns += after.saturating_duration_since(now).as_nanos() as u64;
        Woken { at: after, by_bell }
    }

    /// What has come so far, as receive moderation asks for it.
    pub(super) fn received(&self) -> Received {
        let tcp = self.stack.counters();
        Received {
            frames: self.counters.frames,
            data: tcp.data_segments_in,
            prompt: tcp.prompt_segments_in,
        }
    }

    /// Waits until there is something to do; false if it was the device alone, or time.
    fn wait(&self, until: Option<Instant>, now: Instant) -> bool {
        let timeout = until.map(|at| timespec(at.saturating_duration_since(now)));
        let mut fds = vec![self.bells()];
        self.nics.poll_fds(&mut fds);
        // Interrupted, timed out or woken: the turn that follows finds out why.
        poll(&mut fds, timeout.as_ref()).is_err() || !fds[0].revents().is_empty()
    }

    /// Waits for `delay`, or until something else than the device has something to say; true if it
    /// has, or if the time `until` has come.
    fn wait_for_bells(&mut self, until: Option<Instant>, delay: Duration, now: Instant) -> bool {
        self.counters.moderated_sleeps += 1;
        let left = until.map_or(delay, |at| at.saturating_duration_since(now));
        let rung = poll(&mut [self.bells()], Some(&timespec(delay.min(left))));
        left <= delay || rung != Ok(0)
    }

    /// Everything but the device that can wake the worker.
    fn bells(&self) -> PollFd<'_> {
        let epoll: BorrowedFd<'_> = self.slow.poller.as_fd();
        PollFd::from_borrowed_fd(epoll, PollFlags::IN)
    }

    /// Arms the doorbells, then looks once more; true if there is nothing to do.
    fn arm(&mut self) -> bool {
        // An order that waits is seen to without sleeping.
        let local = self.local.as_ref().is_none_or(Loopback::is_empty);
        let mut quiet = local && self.waiting.is_none() && self.offering.is_empty();
        quiet &= self.unoffering.is_empty() && self.failing.is_over() && !self.forks.is_busy();
        if let Some(handoff) = &self.handoff {
            quiet &= handoff.arm();
        }
        self.ring_later();
        self.sessions.each_awake(|id, session| {
            if session.ended.is_some() {
                return;
            }
            session.region.armed.arm(0);
            match session.has_no_submissions() {
                // Of a host that does not read what it is told nothing is taken, so nothing is missed:
                // whether it has made room is looked at with the tick.
                Ok(empty) => quiet &= empty || !session.is_heard(),
                Err(violation) => {
                    self.breaches.push((id, EndReason::Violation(violation)));
                    quiet = false;
                }
            }
        });
        quiet
    }

    /// When the worker must be awake again, if at all.
    fn wake_time(&mut self, due: Due) -> Option<Instant> {
        let timer = self.stack.next_timeout();
        let ticking = self.captures.is_on()
            || !self.closing.is_empty()
            || self.lent.any()
            || self.told_opening == Opening::NoPorts
            || self.sharing.users.any_beyond()
            || self.fetches.any_later()
            || self.paths.needs_tick()
            || !self.held.is_empty()
            || self.nics.iter().any(|nic| nic.served.is_tried_again())
            || self.is_to_reclaim();
        let tick = (ticking || self.backed_up()).then_some(due.tick);
        let (offers, left) = (self.offers_due(), self.left_due());
        let times = [timer, tick, due.deadline, offers, left];
        times.into_iter().flatten().min()
    }

    /// Whether some host has not made room for what it is to be told.
    fn backed_up(&self) -> bool {
        // One that is to be told something does not rest.
        self.sessions
            .iter_awake()
            .any(|s| s.ended.is_none() && !(s.ready.is_empty() && s.notices.is_empty()))
    }
}

fn timespec(span: Duration) -> Timespec {
    Timespec::try_from(span).unwrap_or_default()
}
