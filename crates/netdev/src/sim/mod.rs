//! The simulated device: the two ends of a bounded link in memory.
//!
//! It has the interface of a real device, offloads included, and needs no privileges. Frames that
//! do not fit its queue are lost and counted, as on a real interface, and each direction can lose,
//! repeat and reorder frames after a [`FaultPlan`](crate::faults::FaultPlan). It knows no time: a
//! frame is there as soon as it is flushed. But it can have a clock go on by what that would take ([`Toll`]).

mod config;
mod lane;

pub use config::{LinkConfig, Toll};

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{PollFd, PollFlags};
use wire::ethernet::{HEADER_LEN, MAX_HEADER_LEN};

use crate::software;
use crate::{Counters, Device, LargeSend, Limits, Offloads, PartialChecksum, SendError};
use lane::Lane;

/// Most pieces of payload in a large send, as on the real device.
const PIECES_MAX: usize = 64;

/// Bytes of the largest IP packet.
const LARGE_MAX: usize = 65_535;

/// `EINVAL`, which is what the kernel says of a header that is none.
const INVALID: i32 = rustix::io::Errno::INVAL.raw_os_error();

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

/// One end of a simulated link.
#[derive(Debug)]
pub struct SimDevice {
    limits: Limits,
    outgoing: Arc<Lane>,
    incoming: Arc<Lane>,
    /// The frame being written, at its full length.
    current: Option<Vec<u8>>,
    submitted: Vec<Vec<u8>>,
    /// How many there are, of which some may be under way.
    frames: usize,
    /// With how many under way no large send is taken.
    large_room: usize,
    toll: Option<Toll>,
    offloads: Offloads,
    counters: Counters,
}

impl SimDevice {
    /// What it can do. Nothing arrives with half a checksum, or in several buffers.
    const POSSIBLE: Offloads = Offloads {
        transmit_checksum: true,
        receive_partial_checksum: false,
        segmentation: true,
        scatter_gather: false,
    };

    fn new(config: LinkConfig, outgoing: Arc<Lane>, incoming: Arc<Lane>) -> Self {
        let mtu = config.mtu.clamp(68, 65_535);
        Self {
            limits: Limits {
                mtu,
                frame: mtu + MAX_HEADER_LEN,
                large: LARGE_MAX,
                pieces: PIECES_MAX,
            },
            outgoing,
            incoming,
            current: None,
            submitted: Vec::new(),
            frames: config.frames,
            large_room: config.large_room,
            toll: config.toll,
            offloads: Self::POSSIBLE,
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

    fn waiting(&mut self) -> usize {
        self.incoming.lock().waiting()
    }

    fn frame(&mut self) -> Option<&mut [u8]> {
        if self.current.is_none() {
            let mut lane = self.outgoing.lock();
            if self.submitted.len() + lane.waiting() >= self.frames {
                return None;
            }
            let mut buffer = lane.spare.pop().unwrap_or_default();
            buffer.resize(self.limits.frame, 0);
            self.current = Some(buffer);
        }
        self.current.as_deref_mut()
    }

    fn submit(&mut self, len: usize, checksum: Option<PartialChecksum>) {
        let mut frame = self.current.take().expect("submit follows frame");
        assert!(len <= frame.len(), "a frame longer than its buffer");
        frame.truncate(len);
        if let Some(checksum) = checksum {
            assert!(self.offloads.transmit_checksum, "transmit checksum is off");
            software::complete_checksum(&mut frame, checksum);
        }
        self.counters.sent_frames += 1;
        self.counters.sent_bytes += len as u64;
        self.submitted.push(frame);
    }

    fn send_large(
        &mut self,
        header: &[u8],
        payload: &[&[AtomicU8]],
        how: LargeSend,
    ) -> Result<(), SendError> {
        if !self.offloads.segmentation {
            return Err(SendError::Unsupported);
        }
        let bytes: usize = payload.iter().map(|piece| piece.len()).sum();
        if payload.len() > PIECES_MAX || header.len() + bytes > LARGE_MAX + HEADER_LEN {
            return Err(SendError::TooLarge);
        }
        if self.outgoing.lock().waiting() >= self.large_room {
            self.counters.large_busy += 1;
            return Err(SendError::Busy);
        }
        let submitted = &mut self.submitted;
        if !software::cut(header, payload, how, |frame| submitted.push(frame)) {
            return Err(SendError::Refused(INVALID));
        }
        self.counters.large_sends += 1;
        self.counters.large_bytes += bytes as u64;
        self.flush();
        Ok(())
    }

    fn flush(&mut self) -> usize {
        if self.submitted.is_empty() {
            return 0;
        }
        if let Some(toll) = self.toll {
            let takes = toll.call + toll.frame * self.submitted.len() as u64;
            toll.clock.fetch_add(takes, Ordering::Relaxed);
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
        self.offloads
    }

    fn set_offloads(&mut self, wanted: Offloads) -> Offloads {
        self.offloads = Self::POSSIBLE.intersection(wanted);
        self.offloads
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
mod tests;
