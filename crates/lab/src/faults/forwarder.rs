//! Forwarding frames between two interfaces, each with its fate.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use netdev::Interface;
use netdev::faults::{Fate, FaultPlan, Faults, Reorder};
use netdev::packet::{BATCH, FrameBatch, RawSocket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Passed, Report};

/// Bytes of the largest frame that is forwarded: a jumbo frame with tags.
const FRAME_MAX: usize = 9216;

/// How long held frames wait for others to overtake them before they go on regardless, and how
/// soon the end is noticed.
const IDLE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// Joins two interfaces until `stop` becomes true. `ready` is called when frames begin to pass.
pub fn forward(
    one: &Interface,
    other: &Interface,
    faults: Faults,
    seed: u64,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<Report> {
    let open = |interface: &Interface| {
        RawSocket::open(interface)
            .with_context(|| format!("cannot receive frames from {}", interface.name))
    };
    let (one, other) = (open(one)?, open(other)?);
    let mut there = Direction::new(&one, &other, FaultPlan::new(faults, seed));
    let mut back = Direction::new(&other, &one, FaultPlan::new(faults, !seed));
    ready();
    while !stop.load(Ordering::Relaxed) {
        let passed = there.turn()? + back.turn()?;
        if passed > 0 {
            continue;
        }
        let mut both = [
            PollFd::new(&one, PollFlags::IN),
            PollFd::new(&other, PollFlags::IN),
        ];
        // Interrupted, or timed out: either way the turns above say what there is to do.
        if poll(&mut both, Some(&IDLE)).unwrap_or(0) == 0 {
            there.release()?;
            back.release()?;
        }
    }
    Ok(Report {
        there: there.finish()?,
        back: back.finish()?,
    })
}

/// Frames on their way from one socket to another.
struct Direction<'a> {
    from: &'a RawSocket,
    to: &'a RawSocket,
    batch: FrameBatch,
    plan: FaultPlan,
    held: Reorder<Vec<u8>>,
    passed: Passed,
}

/// A frame that goes on now.
enum Going<'a> {
    Fresh(&'a [u8]),
    Held(Vec<u8>),
}

impl Going<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Fresh(bytes) => bytes,
            Self::Held(bytes) => bytes,
        }
    }
}

impl<'a> Direction<'a> {
    fn new(from: &'a RawSocket, to: &'a RawSocket, plan: FaultPlan) -> Self {
        Self {
            from,
            to,
            batch: FrameBatch::new(FRAME_MAX),
            plan,
            held: Reorder::default(),
            passed: Passed::default(),
        }
    }

    /// Forwards one batch; returns how many frames came.
    fn turn(&mut self) -> Result<usize> {
        let received = self.from.receive(&mut self.batch)?;
        if received == 0 {
            return Ok(0);
        }
        self.passed.received += received as u64;
        let mut going = Vec::with_capacity(2 * received);
        for frame in self.batch.frames() {
            let fate = if is_tcp(frame) {
                self.plan.next_fate()
            } else {
                Fate::Deliver
            };
            match fate {
                Fate::Lose => {
                    self.passed.lost += 1;
                    continue;
                }
                Fate::HoldBack(distance) => {
                    self.passed.held_back += 1;
                    self.held.hold(distance, frame.to_vec());
                    continue;
                }
                Fate::Duplicate => {
                    self.passed.duplicated += 1;
                    going.push(Going::Fresh(frame));
                }
                Fate::Deliver => {}
            }
            going.push(Going::Fresh(frame));
            self.held.passed(|frame| going.push(Going::Held(frame)));
        }
        send(self.to, &going, &mut self.passed)?;
        Ok(received)
    }

    /// Lets go of what is held back: nothing comes that could overtake it.
    fn release(&mut self) -> Result<()> {
        let mut going = Vec::new();
        self.held.flush(|frame| going.push(Going::Held(frame)));
        send(self.to, &going, &mut self.passed)
    }

    fn finish(mut self) -> Result<Passed> {
        self.release()?;
        self.passed.overrun += self.batch.truncated() + self.from.dropped()?;
        Ok(self.passed)
    }
}

fn send(to: &RawSocket, going: &[Going<'_>], passed: &mut Passed) -> Result<()> {
    for part in going.chunks(BATCH) {
        let frames: Vec<&[u8]> = part.iter().map(Going::bytes).collect();
        let mut sent = 0;
        while sent < frames.len() {
            match to.send_batch(&frames[sent..]) {
                // Full, which a veth never is for long: such is a wire.
                Ok(0) => break,
                Ok(more) => sent += more,
                // The far side is down: the frames are lost, as on a cable that is pulled out.
                Err(error) if error.raw_os_error() == Some(NETWORK_IS_DOWN) => break,
                Err(error) => return Err(error).context("cannot forward a frame"),
            }
        }
        passed.sent += sent as u64;
        passed.overrun += (frames.len() - sent) as u64;
    }
    Ok(())
}

/// `ENETDOWN`.
const NETWORK_IS_DOWN: i32 = rustix::io::Errno::NETDOWN.raw_os_error();

/// Whether a frame without tags holds TCP. (IPv6 with extension headers passes for something else.)
fn is_tcp(frame: &[u8]) -> bool {
    const TCP: u8 = 6;
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(23) == Some(&TCP),
        Some([0x86, 0xdd]) => frame.get(20) == Some(&TCP),
        _ => false,
    }
}
