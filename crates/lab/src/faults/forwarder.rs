//! Forwarding frames between two interfaces, each with its fate and at its time.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use netdev::Interface;
use netdev::packet::{BATCH, FrameBatch, RawSocket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::lane::Lane;
use super::{Passed, Report, Wire};

/// Bytes of the largest frame that is forwarded: a jumbo frame with tags.
const FRAME_MAX: usize = 9216;

/// How long held frames wait for others to overtake them before they go on regardless.
const PATIENCE: Duration = Duration::from_millis(2);

/// How soon the end is noticed.
const IDLE: Duration = Duration::from_millis(10);

/// Joins two interfaces until `stop` becomes true, by wires from the first to the second and back.
/// `ready` is called when frames begin to pass. Frames that are still on their way at the end arrive
/// at once.
pub fn forward(
    one: &Interface,
    other: &Interface,
    wires: [Wire; 2],
    seed: u64,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<Report> {
    let open = |interface: &Interface| {
        let open = RawSocket::open(interface).and_then(|socket| socket.stamp().map(|()| socket));
        open.with_context(|| format!("cannot receive frames from {}", interface.name))
    };
    be_punctual();
    let (one, other) = (open(one)?, open(other)?);
    let [there, back] = wires;
    let mut there = Direction::new(&one, &other, Lane::new(there, seed));
    let mut back = Direction::new(&other, &one, Lane::new(back, !seed));
    let start = Instant::now();
    let mut quiet_since = Duration::ZERO;
    ready();
    while !stop.load(Ordering::Relaxed) {
        let came = there.receive(start)? + back.receive(start)?;
        let now = start.elapsed();
        let went = there.send(now, now)? + back.send(now, now)?;
        if came > 0 {
            quiet_since = now;
        }
        if came + went > 0 {
            continue;
        }
        let holds = there.lane.holds() || back.lane.holds();
        if holds && now >= quiet_since + PATIENCE {
            there.lane.release(now);
            back.lane.release(now);
            continue;
        }
        let patience = holds.then_some(quiet_since + PATIENCE);
        let next = [
            there.lane.next_arrival(),
            back.lane.next_arrival(),
            patience,
        ];
        let wait = next.into_iter().flatten().min();
        let wait = wait.map_or(IDLE, |due| due.saturating_sub(now).min(IDLE));
        let mut both = [
            PollFd::new(&one, PollFlags::IN),
            PollFd::new(&other, PollFlags::IN),
        ];
        // Interrupted, or timed out: either way the turns above say what there is to do.
        let _ = poll(&mut both, Some(&Timespec::try_from(wait)?));
    }
    Ok(Report {
        there: there.finish(start.elapsed())?,
        back: back.finish(start.elapsed())?,
    })
}

/// Sees to it that this thread runs when frames are due. What the kernel does not grant shows in the
/// lateness that is reported.
fn be_punctual() {
    // Sleepers may oversleep by 50 us otherwise, so that several wake at once.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // A wire does not wait until a program has had its turn on the processor.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), -20);
}

/// Frames on their way from one socket to another.
struct Direction<'a> {
    from: &'a RawSocket,
    to: &'a RawSocket,
    batch: FrameBatch,
    lane: Lane,
}

impl<'a> Direction<'a> {
    fn new(from: &'a RawSocket, to: &'a RawSocket, lane: Lane) -> Self {
        Self {
            from,
            to,
            batch: FrameBatch::new(FRAME_MAX),
            lane,
        }
    }

    /// Takes in a batch; returns how many frames came. Each takes its bandwidth from when it came, not
    /// from when this thread had its turn: a burst that was none would find no room.
    fn receive(&mut self, start: Instant) -> Result<usize> {
        let received = self.from.receive(&mut self.batch)?;
        let now = start.elapsed();
        for (frame, age) in self.batch.aged_frames() {
            self.lane.enter(now.saturating_sub(age), frame);
        }
        Ok(received)
    }

    /// Hands on what is to arrive until then; returns how many frames that were.
    fn send(&mut self, now: Duration, until: Duration) -> Result<usize> {
        let mut went = 0;
        loop {
            let frames = self.lane.arrived(until, BATCH);
            if frames.is_empty() {
                return Ok(went);
            }
            let (count, lost) = match self.to.send_batch(&frames) {
                // Full, which a veth never is for long: such is a wire.
                Ok(0) => (frames.len(), true),
                Ok(sent) => (sent, false),
                // The far side is down: the frames are lost, as on a cable that is pulled out.
                Err(error) if error.raw_os_error() == Some(NETWORK_IS_DOWN) => (frames.len(), true),
                Err(error) => return Err(error).context("cannot forward a frame"),
            };
            self.lane.leave(now, count, lost);
            went += count;
        }
    }

    fn finish(mut self, now: Duration) -> Result<Passed> {
        self.lane.release(now);
        self.send(now, Duration::MAX)?;
        let mut passed = self.lane.passed;
        passed.overrun += self.batch.truncated() + self.from.dropped()?;
        Ok(passed)
    }
}

/// `ENETDOWN`.
const NETWORK_IS_DOWN: i32 = rustix::io::Errno::NETDOWN.raw_os_error();
