//! The simulated device: the two ends of a bounded link in memory.
//!
//! It has the interface of a real device and needs no privileges. Frames that do not fit its queue
//! are lost and counted, as on a real interface, and each direction can lose, repeat and reorder
//! frames after a [`FaultPlan`]. It knows no time: a frame is there as soon as it is flushed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::faults::{Fate, FaultPlan, Faults, Reorder};
use crate::{Counters, Device, LargeSend, Limits, Offloads, PartialChecksum, SendError};

/// Bytes of an Ethernet header with two VLAN tags.
const LINK_HEADER_MAX: usize = 22;

/// What a link is like, in both directions.
#[derive(Debug, Clone, Copy)]
pub struct LinkConfig {
    /// Bytes of the largest IP packet, 68 to 65535.
    pub mtu: usize,
    /// Frames that a direction holds before it loses what comes.
    pub capacity: usize,
    /// What goes wrong on the way.
    pub faults: Faults,
    /// What decides when it goes wrong; each direction draws its own sequence from it.
    pub seed: u64,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            capacity: 1024,
            faults: Faults::NONE,
            seed: 0,
        }
    }
}

/// Makes a link and returns its two ends. They may live on different threads.
///
/// # Errors
/// When the process is out of file descriptors: each end has one to be polled.
pub fn link(config: LinkConfig) -> io::Result<(SimDevice, SimDevice)> {
    let there = Arc::new(Lane::new(config, config.seed)?);
    let back = Arc::new(Lane::new(config, !config.seed)?);
    Ok((
        SimDevice::new(config, Arc::clone(&there), Arc::clone(&back)),
        SimDevice::new(config, back, there),
    ))
}

/// One direction of a link.
#[derive(Debug)]
struct Lane {
    /// Readable while frames are there.
    ready: OwnedFd,
    state: Mutex<LaneState>,
}

#[derive(Debug)]
struct LaneState {
    queue: VecDeque<Vec<u8>>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    capacity: usize,
    plan: FaultPlan,
    held: Reorder<Vec<u8>>,
    full: u64,
    lost: u64,
}

impl Lane {
    fn new(config: LinkConfig, seed: u64) -> io::Result<Self> {
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
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaneState {
    fn send(&mut self, frame: Vec<u8>) {
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
    fn take(&mut self) -> Option<Vec<u8>> {
        if self.queue.is_empty() {
            let mut held = std::mem::take(&mut self.held);
            held.flush(|frame| self.enqueue(frame));
            self.held = held;
        }
        self.queue.pop_front()
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        if self.spare.len() < self.capacity {
            self.spare.push(frame);
        }
    }

    fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.held.is_empty()
    }
}

/// One end of a simulated link.
#[derive(Debug)]
pub struct SimDevice {
    limits: Limits,
    outgoing: Arc<Lane>,
    incoming: Arc<Lane>,
    /// The frame being written, at its full length.
    current: Option<Vec<u8>>,
    submitted: Vec<Vec<u8>>,
    counters: Counters,
}

impl SimDevice {
    fn new(config: LinkConfig, outgoing: Arc<Lane>, incoming: Arc<Lane>) -> Self {
        let mtu = config.mtu.clamp(68, 65_535);
        Self {
            limits: Limits {
                mtu,
                frame: mtu + LINK_HEADER_MAX,
                large: 0,
                pieces: 0,
            },
            outgoing,
            incoming,
            current: None,
            submitted: Vec::new(),
            counters: Counters::default(),
        }
    }
}

impl Device for SimDevice {
    fn receive<F: FnMut(&[u8])>(&mut self, budget: usize, mut each: F) -> usize {
        let mut received = 0;
        while received < budget {
            // Not held during the call: the receiver may send.
            let Some(frame) = self.incoming.lock().take() else {
                break;
            };
            self.counters.received_frames += 1;
            self.counters.received_bytes += frame.len() as u64;
            each(&frame);
            self.incoming.lock().recycle(frame);
            received += 1;
        }
        let lane = self.incoming.lock();
        if lane.is_drained() {
            let mut count = [0; 8];
            // EAGAIN: it was not readable. Under the lock, so no signal of a later frame is lost.
            let _ = rustix::io::read(&self.incoming.ready, &mut count);
        }
        received
    }

    fn frame(&mut self) -> Option<&mut [u8]> {
        if self.current.is_none() {
            let mut buffer = self.outgoing.lock().spare.pop().unwrap_or_default();
            buffer.resize(self.limits.frame, 0);
            self.current = Some(buffer);
        }
        self.current.as_deref_mut()
    }

    fn submit(&mut self, len: usize, checksum: Option<PartialChecksum>) {
        assert!(checksum.is_none(), "no transmit checksum on this device");
        let mut frame = self.current.take().expect("submit follows frame");
        assert!(len <= frame.len(), "a frame longer than its buffer");
        frame.truncate(len);
        self.counters.sent_frames += 1;
        self.counters.sent_bytes += len as u64;
        self.submitted.push(frame);
    }

    fn send_large(
        &mut self,
        _header: &[u8],
        _payload: &[&[AtomicU8]],
        _how: LargeSend,
    ) -> Result<(), SendError> {
        Err(SendError::Unsupported)
    }

    fn flush(&mut self) -> usize {
        if self.submitted.is_empty() {
            return 0;
        }
        let mut lane = self.outgoing.lock();
        for frame in self.submitted.drain(..) {
            lane.send(frame);
        }
        if !lane.is_drained() {
            // It cannot fail: the count is nowhere near overflow, as every drain resets it.
            let _ = rustix::io::write(&self.outgoing.ready, &1u64.to_ne_bytes());
        }
        0
    }

    fn poll_fds<'a>(&'a self, set: &mut Vec<PollFd<'a>>) {
        set.push(PollFd::from_borrowed_fd(
            self.incoming.ready.as_fd(),
            PollFlags::IN,
        ));
    }

    fn offloads(&self) -> Offloads {
        Offloads::NONE
    }

    fn set_offloads(&mut self, _wanted: Offloads) -> Offloads {
        Offloads::NONE
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn counters(&mut self) -> Counters {
        let lane = self.outgoing.lock();
        Counters {
            link_full: lane.full,
            link_lost: lane.lost,
            ..self.counters
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::poll;

    fn send(device: &mut SimDevice, bytes: &[u8]) {
        let frame = device.frame().expect("the simulated device has room");
        frame[..bytes.len()].copy_from_slice(bytes);
        device.submit(bytes.len(), None);
    }

    fn receive(device: &mut SimDevice) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        device.receive(usize::MAX, |frame| frames.push(frame.to_vec()));
        frames
    }

    fn readable(device: &SimDevice) -> bool {
        let mut set = Vec::new();
        device.poll_fds(&mut set);
        poll(&mut set, Some(&rustix::event::Timespec::default())).expect("poll") > 0
    }

    #[test]
    fn frames_arrive_in_order_and_only_after_flush() {
        let (mut a, mut b) = link(LinkConfig::default()).expect("link");
        send(&mut a, b"one");
        send(&mut a, b"two");
        assert!(receive(&mut b).is_empty());
        assert!(!readable(&b));
        assert_eq!(a.flush(), 0);
        assert!(readable(&b));
        assert_eq!(receive(&mut b), [b"one", b"two"]);
        assert!(!readable(&b));
        assert!(receive(&mut a).is_empty());
    }

    #[test]
    fn a_budget_leaves_the_rest_and_the_descriptor_readable() {
        let (mut a, mut b) = link(LinkConfig::default()).expect("link");
        for _ in 0..3 {
            send(&mut a, b"frame");
        }
        a.flush();
        assert_eq!(b.receive(2, |_| ()), 2);
        assert!(readable(&b));
        assert_eq!(b.receive(2, |_| ()), 1);
    }

    #[test]
    fn a_full_link_loses_and_counts() {
        let config = LinkConfig {
            capacity: 2,
            ..LinkConfig::default()
        };
        let (mut a, mut b) = link(config).expect("link");
        for byte in 0..5u8 {
            send(&mut a, &[byte]);
        }
        a.flush();
        assert_eq!(receive(&mut b), [[0], [1]]);
        assert_eq!(a.counters().link_full, 3);
    }

    #[test]
    fn faults_lose_repeat_and_reorder_and_nothing_stays_behind() {
        let config = LinkConfig {
            faults: Faults {
                loss: 0.1,
                duplication: 0.1,
                reorder: 0.2,
                reorder_distance: 8,
            },
            seed: 3,
            ..LinkConfig::default()
        };
        let (mut a, mut b) = link(config).expect("link");
        for number in 0..500u16 {
            send(&mut a, &number.to_be_bytes());
        }
        a.flush();
        let numbers: Vec<u16> = receive(&mut b)
            .iter()
            .map(|frame| u16::from_be_bytes([frame[0], frame[1]]))
            .collect();
        let mut distinct = numbers.clone();
        distinct.sort_unstable();
        assert!(distinct != numbers, "nothing was reordered");
        distinct.dedup();
        assert!(distinct.len() < numbers.len(), "nothing was repeated");
        assert_eq!(distinct.len() as u64 + a.counters().link_lost, 500);
        assert!(a.counters().link_lost > 0, "nothing was lost");
    }
}
