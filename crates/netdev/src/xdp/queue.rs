//! One receive queue: its socket, and what came by it.

use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, fence};

use wire::ethernet::MAX_HEADER_LEN;

use super::socket::{RELEASE_TRIES, Socket, Unbound};
use super::{Config, OpenError};
use crate::Counters;
use crate::interface::Interface;

/// Bytes of the largest received frame that is put together from several buffers.
const ASSEMBLED_MAX: usize = 65_535 + MAX_HEADER_LEN;

/// A socket that is bound to a receive queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) number: u32,
    pub(super) socket: Socket,
    /// Where a frame in several buffers is put together.
    assembly: Vec<u8>,
    /// Of what is received.
    counters: Counters,
}

impl Queue {
    /// Binds a fresh AF_XDP socket to the queue of `config`, and waits for a queue that the kernel has not let go
    /// of yet.
    pub(super) fn open(
        interface: &Interface,
        config: &Config,
        fd: OwnedFd,
    ) -> Result<Self, OpenError> {
        let unbound = Unbound::of(fd, interface, config).map_err(|(error, _)| error)?;
        let bound = unbound.bind(interface, config, RELEASE_TRIES);
        let socket = bound.map_err(|(error, _)| error)?;
        Ok(Self::of(config.queue, socket))
    }

    /// The same of a socket that is bound to it.
    pub(super) fn of(number: u32, socket: Socket) -> Self {
        Self {
            number,
            socket,
            assembly: Vec::with_capacity(ASSEMBLED_MAX),
            counters: Counters::default(),
        }
    }

    /// Hands at most `budget` frames to `each`; returns how many.
    pub(super) fn receive(
        &mut self,
        budget: usize,
        scatter_gather: bool,
        each: &mut impl FnMut(&[u8]),
    ) -> usize {
        let available = self.socket.receive.available();
        let mut frames = 0;
        let mut taken = 0;
        while taken < available && frames < budget {
            // A frame whose last buffers are still to come is left for the next call.
            let Some(buffers) = self.buffers_of_frame(taken) else {
                break;
            };
            if buffers == 1 {
                if let Some(buffer) = self.socket.receive.peek(taken) {
                    // SAFETY: it came out of the receive ring, and is refilled after the loop.
                    let frame = unsafe { self.socket.umem.received(buffer.address, buffer.length) };
                    if let Some(frame) = frame {
                        each(frame);
                        self.count_received(buffer.length as usize);
                    }
                }
            } else if scatter_gather && self.assemble(taken, buffers) {
                each(&self.assembly);
                self.counters.received_multi_buffer += 1;
                self.count_received(self.assembly.len());
            } else {
                self.counters.receive_dropped_oversize += 1;
            }
            taken += buffers;
            frames += 1;
        }
        if taken > 0 {
            self.refill(taken);
        }
        frames
    }

    /// Buffers that wait to be received.
    pub(super) fn waiting(&mut self) -> usize {
        self.socket.receive.available() as usize
    }

    /// What was counted here, with what the kernel counted.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.counters;
        // An old kernel answers with fewer of them, and none is worth failing for.
        if let Ok(statistics) = self.socket.statistics() {
            counters.receive_dropped_kernel = statistics.rx_dropped;
            counters.receive_dropped_ring_full = statistics.rx_ring_full;
            counters.receive_fill_ring_empty = statistics.rx_fill_ring_empty_descs;
            counters.receive_invalid_descriptors = statistics.rx_invalid_descs;
            counters.send_invalid_descriptors = statistics.tx_invalid_descs;
        }
        counters
    }

    /// The number of buffers of the frame that begins `ahead` in the receive ring, if all of them
    /// are there.
    fn buffers_of_frame(&self, ahead: u32) -> Option<u32> {
        let mut buffers = 1;
        while self.socket.receive.peek(ahead + buffers - 1)?.options & libc::XDP_PKT_CONTD != 0 {
            buffers += 1;
        }
        Some(buffers)
    }

    /// Puts a frame of several buffers together; `false` if it is too long for that.
    fn assemble(&mut self, ahead: u32, buffers: u32) -> bool {
        self.assembly.clear();
        for index in ahead..ahead + buffers {
            let Some(buffer) = self.socket.receive.peek(index) else {
                return false;
            };
            // SAFETY: it came out of the receive ring, and is refilled only after this loop.
            let bytes = unsafe { self.socket.umem.received(buffer.address, buffer.length) };
            match bytes {
                Some(bytes) if self.assembly.len() + bytes.len() <= ASSEMBLED_MAX => {
                    self.assembly.extend_from_slice(bytes);
                }
                _ => return false,
            }
        }
        true
    }

    /// Gives the first `count` buffers of the receive ring back to the kernel.
    fn refill(&mut self, count: u32) {
        for ahead in 0..count {
            let chunk = self
                .socket
                .receive
                .peek(ahead)
                .and_then(|buffer| self.socket.umem.layout().receive_chunk_of(buffer.address));
            if let Some(chunk) = chunk {
                let pushed = self.socket.fill.push(chunk);
                debug_assert!(
                    pushed,
                    "the fill ring has two entries for every receive chunk"
                );
            }
        }
        self.socket.receive.release(count);
        self.socket.fill.publish();
        // Full: pairs with the driver's between setting the flag and looking at the ring again.
        fence(Ordering::SeqCst);
        if self.socket.fill.needs_wakeup() {
            self.counters.receive_wakeups += 1;
            self.socket.kick_receive();
        }
    }

    fn count_received(&mut self, bytes: usize) {
        self.counters.received_frames += 1;
        self.counters.received_bytes += bytes as u64;
    }
}
