//! One direction of a simulated link.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::LinkConfig;
use crate::faults::{Fate, FaultPlan, Reorder, damage};

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Lane {
    /// Readable while frames are there.
    pub(super) ready: OwnedFd,
    state: Mutex<LaneState>,
}

#[derive(Debug)]
pub(super) struct LaneState {
    queue: VecDeque<Vec<u8>>,
    /// Buffers to use again.
    pub(super) spare: Vec<Vec<u8>>,
    capacity: usize,
    plan: FaultPlan,
    held: Reorder<Vec<u8>>,
    /// Frames lost because the direction was full.
    pub(super) full: u64,
    /// Frames lost by a fault.
    pub(super) lost: u64,
}

impl Lane {
    pub(super) fn new(config: LinkConfig, seed: u64) -> io::Result<Self> {
        Ok(Self {
            ready: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            state: Mutex::new(LaneState {
                queue: VecDeque::with_capacity(config.capacity),
                spare: Vec::new(),
                capacity: config.capacity,
                plan: FaultPlan::new(config.faults, seed),
                held: Reorder::default(),
                full: 0,
                lost: 0,
            }),
        })
    }

    /// A thread that panicked while it held the lock left a queue of whole frames.
    pub(super) fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaneState {
    pub(super) fn send(&mut self, mut frame: Vec<u8>) {
        match self.plan.next_fate() {
            Fate::Lose => {
                self.lost += 1;
                self.recycle(frame);
                return;
            }
            Fate::HoldBack(distance) => {
                self.held.hold(distance, frame);
                return;
            }
            Fate::Duplicate => {
                self.enqueue(frame.clone());
                self.enqueue(frame);
            }
            Fate::Damage(number) => {
                damage(&mut frame, wire::ethernet::HEADER_LEN, number);
                self.enqueue(frame);
            }
            Fate::Deliver => self.enqueue(frame),
        }
        let mut released = std::mem::take(&mut self.held);
        released.passed(|frame| self.enqueue(frame));
        self.held = released;
    }

    fn enqueue(&mut self, frame: Vec<u8>) {
        if self.queue.len() < self.capacity {
            self.queue.push_back(frame);
        } else {
            self.full += 1;
            self.recycle(frame);
        }
    }

    /// The next frame; what was held back comes when nothing is left to overtake it.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        if self.queue.is_empty() {
            let mut held = std::mem::take(&mut self.held);
            held.flush(|frame| self.enqueue(frame));
            self.held = held;
        }
        self.queue.pop_front()
    }

    pub(super) fn recycle(&mut self, frame: Vec<u8>) {
        if self.spare.len() < self.capacity {
            self.spare.push(frame);
        }
    }

    /// Frames that can be taken.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.held.is_empty()
    }
}
