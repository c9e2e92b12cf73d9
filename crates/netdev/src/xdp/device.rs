//! The device over an AF_XDP socket, and an AF_PACKET socket beside it for large sends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering, fence};

use rustix::event::{PollFd, PollFlags};
use wire::ethernet::MAX_HEADER_LEN;

use super::proof::{Proof, checksum_requests};
use super::ring::Descriptor;
use super::socket::{Socket, TX_METADATA_SIZE};
use super::{Config, MAX_FRAMES, OpenError};
use crate::interface::Interface;
use crate::packet::{LARGE_MAX, LargeSender, PIECES_MAX};
use crate::{Counters, Device, LargeSend, Limits, Offloads, PartialChecksum, SendError};

/// Frames that one system call moves where the kernel's budget cannot be raised.
const FRAMES_PER_CALL: u32 = 32;

/// Bytes of the largest received frame that is put together from several buffers.
const ASSEMBLED_MAX: usize = 65_535 + MAX_HEADER_LEN;

/// One receive queue of an interface over AF_XDP.
#[derive(Debug)]
pub struct XdpDevice {
    interface: Interface,
    queue: u32,
    socket: Socket,
    large: LargeSender,
    /// Transmit frames that are ours; the last one is the most recently used.
    free_frames: Vec<u32>,
    /// Per transmit frame, how many of its buffers the kernel has.
    under_way: Vec<u32>,
    /// The frame that [`Device::frame`] handed out.
    current: Option<u32>,
    /// Where a frame in several buffers is put together.
    assembly: Vec<u8>,
    possible: Offloads,
    offloads: Offloads,
    counters: Counters,
}

impl XdpDevice {
    /// Opens a queue of an interface.
    ///
    /// Nothing arrives before a [`Steering`](crate::steering::Steering) has been told of it.
    ///
    /// # Errors
    /// [`OpenError`], which says what to do.
    pub fn open(interface: &Interface, config: Config) -> Result<Self, OpenError> {
        for frames in [config.receive_frames, config.transmit_frames] {
            if frames == 0 || frames > MAX_FRAMES {
                return Err(OpenError::Frames(frames));
            }
        }
        if config.queue >= interface.receive_queues {
            return Err(OpenError::NoSuchQueue {
                interface: interface.name.clone(),
                queue: config.queue,
                queues: interface.receive_queues,
            });
        }
        let mut socket = Socket::open(interface, &config)?;
        let large = LargeSender::open(interface).map_err(|error| OpenError::Step {
            doing: "open an AF_PACKET socket for large sends",
            error,
        })?;
        let frames = socket.umem.layout().transmit_frames;
        let mut free_frames: Vec<u32> = (0..frames).rev().collect();
        let mut under_way = vec![0; frames as usize];
        let mut transmit_checksum = false;
        if socket.transmit_metadata {
            // With the first frame; it comes back like every other.
            free_frames.pop();
            under_way[0] = 1;
            transmit_checksum = checksum_requests(&mut socket, interface.mac) == Proof::Honoured;
        }
        let possible = Offloads {
            transmit_checksum,
            receive_partial_checksum: interface.delivers_partial_checksums(),
            segmentation: true,
            scatter_gather: socket.scatter_gather,
        };
        Ok(Self {
            interface: interface.clone(),
            queue: config.queue,
            socket,
            large,
            free_frames,
            under_way,
            current: None,
            assembly: Vec::with_capacity(ASSEMBLED_MAX),
            possible,
            offloads: possible.intersection(config.offloads),
            counters: Counters::default(),
        })
    }

    /// The interface it is on.
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The receive queue it is bound to.
    pub const fn queue(&self) -> u32 {
        self.queue
    }

    /// Whether the driver puts frames into our memory itself.
    pub const fn is_zero_copy(&self) -> bool {
        self.socket.zero_copy
    }

    /// Takes back the transmit frames that the kernel is done with.
    fn reclaim(&mut self) {
        let completed = self.socket.completion.available();
        for ahead in 0..completed {
            let Some(address) = self.socket.completion.peek(ahead) else {
                break;
            };
            let Some(frame) = self.socket.umem.layout().transmit_frame_of(address) else {
                continue;
            };
            let buffers = &mut self.under_way[frame as usize];
            if *buffers > 0 {
                *buffers -= 1;
                if *buffers == 0 {
                    self.free_frames.push(frame);
                }
            }
        }
        if completed > 0 {
            self.socket.completion.release(completed);
        }
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

impl Device for XdpDevice {
    fn receive<F: FnMut(&[u8])>(&mut self, budget: usize, mut each: F) -> usize {
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
            } else if self.offloads.scatter_gather && self.assemble(taken, buffers) {
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

    fn waiting(&mut self) -> usize {
        self.socket.receive.available() as usize
    }

    fn frame(&mut self) -> Option<&mut [u8]> {
        if self.current.is_none() {
            if self.free_frames.is_empty() {
                self.reclaim();
            }
            if self.free_frames.is_empty() {
                self.flush();
                self.reclaim();
            }
            self.current = self.free_frames.pop();
        }
        let Some(frame) = self.current else {
            self.counters.send_no_frame += 1;
            return None;
        };
        // SAFETY: it is on the free list, or was just taken off it: the kernel does not have it.
        let bytes = unsafe { self.socket.umem.transmit_frame(frame) }?;
        bytes.get_mut(TX_METADATA_SIZE..)
    }

    fn submit(&mut self, len: usize, checksum: Option<PartialChecksum>) {
        let frame = self.current.take().expect("submit follows frame");
        // SAFETY: as in `frame`; it goes to the kernel only below.
        let bytes = unsafe { self.socket.umem.transmit_frame(frame) }.expect("a frame of ours");
        assert!(
            len > 0 && len <= bytes.len() - TX_METADATA_SIZE,
            "{len} bytes do not fit a frame"
        );
        let mut options = 0;
        if let Some(PartialChecksum { start, offset }) = checksum {
            assert!(self.offloads.transmit_checksum, "transmit checksum is off");
            assert!(
                usize::from(start) + usize::from(offset) + 2 <= len,
                "a checksum outside its frame"
            );
            let flags = u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM);
            bytes[0..8].copy_from_slice(&flags.to_ne_bytes());
            bytes[8..10].copy_from_slice(&start.to_ne_bytes());
            bytes[10..12].copy_from_slice(&offset.to_ne_bytes());
            bytes[12..TX_METADATA_SIZE].fill(0);
            options = libc::XDP_TX_METADATA;
        }
        let layout = *self.socket.umem.layout();
        let mut address = layout.transmit_address(frame) + TX_METADATA_SIZE as u64;
        let mut left = len as u32;
        let mut buffers = 0;
        while left > 0 {
            let room = layout.chunk_size - (address as u32 & (layout.chunk_size - 1));
            let length = left.min(room);
            left -= length;
            if left > 0 {
                options |= libc::XDP_PKT_CONTD;
            } else {
                options &= !libc::XDP_PKT_CONTD;
            }
            let pushed = self.socket.transmit.push(Descriptor {
                address,
                length,
                options,
            });
            debug_assert!(pushed, "the ring has an entry for every transmit chunk");
            buffers += 1;
            address += u64::from(length);
            // The metadata belongs to the first buffer.
            options &= !libc::XDP_TX_METADATA;
        }
        self.under_way[frame as usize] = buffers;
        self.counters.sent_frames += 1;
        self.counters.sent_bytes += len as u64;
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
        // What was submitted before must leave before.
        if self.socket.transmit.outstanding_as_last_seen() > 0 && self.flush() > 0 {
            self.counters.large_busy += 1;
            return Err(SendError::Busy);
        }
        self.large.send(header, payload, how, &mut self.counters)
    }

    fn flush(&mut self) -> usize {
        self.socket.transmit.publish();
        let mut left = self.socket.transmit.outstanding();
        if left == 0 {
            return 0;
        }
        // Full: pairs with the driver's between setting the flag and looking at the ring again.
        fence(Ordering::SeqCst);
        // Each call moves some frames and says EAGAIN while there are more. The bound is for a
        // kernel that makes no progress: one more turn than the calls that all frames take.
        let mut calls = 1 + left.div_ceil(FRAMES_PER_CALL);
        while left > 0 && calls > 0 && self.socket.transmit.needs_wakeup() {
            calls -= 1;
            self.counters.send_wakeups += 1;
            match self.socket.kick_transmit() {
                Ok(()) => {}
                Err(error) if is_transient(&error) => {
                    self.counters.send_wakeups_again += 1;
                    // It may be the completion ring that is full.
                    self.reclaim();
                }
                Err(_) => {
                    // The interface is down, or gone: the frames stay until it is up again.
                    self.counters.send_wakeups_failed += 1;
                    left = self.socket.transmit.outstanding();
                    break;
                }
            }
            let before = left;
            left = self.socket.transmit.outstanding();
            if left == before {
                break;
            }
        }
        let buffers_per_frame = self.socket.umem.layout().chunks_per_frame;
        left.div_ceil(buffers_per_frame) as usize
    }

    fn poll_fds<'a>(&'a self, set: &mut Vec<PollFd<'a>>) {
        let mut events = PollFlags::IN;
        if self.socket.transmit.outstanding_as_last_seen() > 0 {
            events |= PollFlags::OUT;
        }
        set.push(PollFd::from_borrowed_fd(self.socket.as_fd(), events));
        if self.large.is_blocked() {
            set.push(PollFd::from_borrowed_fd(self.large.as_fd(), PollFlags::OUT));
        }
    }

    fn offloads(&self) -> Offloads {
        self.offloads
    }

    fn set_offloads(&mut self, wanted: Offloads) -> Offloads {
        self.offloads = self.possible.intersection(wanted);
        self.offloads
    }

    fn limits(&self) -> Limits {
        Limits {
            mtu: self.interface.mtu,
            frame: self.interface.mtu + MAX_HEADER_LEN,
            large: LARGE_MAX,
            pieces: PIECES_MAX,
        }
    }

    fn counters(&mut self) -> Counters {
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
}

impl AsFd for XdpDevice {
    /// The AF_XDP socket, for the map of the steering program.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR)
    )
}
