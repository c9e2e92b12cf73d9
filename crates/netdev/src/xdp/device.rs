//! The device over an AF_XDP socket, and an AF_PACKET socket beside it for large sends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering, fence};

use rustix::event::{PollFd, PollFlags};
use wire::ethernet::MAX_HEADER_LEN;

use super::proof::{Proof, checksum_requests};
use super::queue::Queue;
use super::ring::Descriptor;
use super::socket::{TX_METADATA_SIZE, Unbound, new_socket};
use super::stock::Stock;
use super::{Config, MAX_FRAMES, OpenError};
use crate::interface::Interface;
use crate::packet::{LARGE_MAX, LargeSender, PIECES_MAX};
use crate::{Counters, Device, LargeSend, Limits, Offloads, PartialChecksum, SendError};

/// Frames that one system call moves where the kernel's budget cannot be raised.
const FRAMES_PER_CALL: u32 = 32;

/// Receive queues of an interface over AF_XDP, and the way out beside the first of them.
///
/// Whatever is sent leaves by one transmit queue, that of the first receive queue: one system call
/// makes all of it leave, and the frames of a connection keep their order.
#[derive(Debug)]
pub struct XdpDevice {
    interface: Interface,
    config: Config,
    /// The one that is sent by.
    first: Queue,
    /// The other ones that are received from.
    others: Vec<Queue>,
    /// Where sockets come from for queues to come, if this process may not make them.
    stock: Option<Arc<Stock>>,
    /// One that was taken and not used.
    unused: Option<OwnedFd>,
    /// One for a queue that was not to be had yet.
    unbound: Option<Box<Unbound>>,
    /// Which queue is looked at first the next time.
    turn: usize,
    large: LargeSender,
    /// Transmit frames that are ours; the last one is the most recently used.
    free_frames: Vec<u32>,
    /// Per transmit frame, how many of its buffers the kernel has.
    under_way: Vec<u32>,
    /// The frame that [`Device::frame`] handed out.
    current: Option<u32>,
    possible: Offloads,
    offloads: Offloads,
    /// Of what is sent; what is received is counted by queue.
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
        let mut first = Queue::open(interface, &config, new_socket()?)?;
        let large = LargeSender::open(interface).map_err(|error| OpenError::Step {
            doing: "open an AF_PACKET socket for large sends",
            error,
        })?;
        let socket = &mut first.socket;
        let frames = socket.umem.layout().transmit_frames;
        let mut free_frames: Vec<u32> = (0..frames).rev().collect();
        let mut under_way = vec![0; frames as usize];
        let mut transmit_checksum = false;
        if socket.transmit_metadata {
            // With the first frame; it comes back like every other.
            free_frames.pop();
            under_way[0] = 1;
            transmit_checksum = checksum_requests(socket, interface.mac) == Proof::Honoured;
        }
        let possible = Offloads {
            transmit_checksum,
            receive_partial_checksum: interface.delivers_partial_checksums(),
            segmentation: true,
            scatter_gather: socket.scatter_gather,
        };
        Ok(Self {
            interface: interface.clone(),
            config,
            first,
            others: Vec::new(),
            stock: None,
            unused: None,
            unbound: None,
            turn: 0,
            large,
            free_frames,
            under_way,
            current: None,
            possible,
            offloads: possible.intersection(config.offloads),
            counters: Counters::default(),
        })
    }

    /// The interface it is on.
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The first of its receive queues.
    pub const fn queue(&self) -> u32 {
        self.first.number
    }

    /// Whether the driver puts frames into our memory itself.
    pub const fn is_zero_copy(&self) -> bool {
        self.first.socket.zero_copy
    }

    /// Takes sockets for queues to come from `stock`: with them [`open_queue`](Self::open_queue) needs no privilege,
    /// where as much memory can be locked as it takes.
    pub fn take_from(&mut self, stock: &Arc<Stock>) {
        self.stock = Some(Arc::clone(stock));
    }

    fn socket(&mut self) -> Result<OwnedFd, OpenError> {
        let known = self.unused.take();
        let socket = known.or_else(|| self.stock.as_ref()?.take());
        socket.map_or_else(new_socket, Ok)
    }

    /// Receives from one more queue of the interface; returns its socket, to be connected to the
    /// steering.
    ///
    /// # Errors
    /// [`OpenError`], which says what to do.
    pub fn open_queue(&mut self, queue: u32) -> Result<BorrowedFd<'_>, OpenError> {
        let config = self.config_of(queue);
        let socket = self.socket()?;
        let opened = Queue::open(&self.interface, &config, socket)?;
        Ok(self.adds(opened))
    }

    /// What is sent does not leave by another queue than the first, but a socket without a way out cannot be.
    const fn config_of(&self, queue: u32) -> Config {
        Config {
            queue,
            transmit_frames: 1,
            ..self.config
        }
    }

    fn adds(&mut self, opened: Queue) -> BorrowedFd<'_> {
        self.others.push(opened);
        let opened = self.others.last().map_or(&self.first, |queue| queue);
        opened.socket.as_fd()
    }

    /// The same as [`open_queue`](Self::open_queue), but waits for nothing: what was made for a queue that is not
    /// to be had yet stays for the next time.
    fn try_queue(&mut self, queue: u32) -> Result<BorrowedFd<'_>, OpenError> {
        let config = self.config_of(queue);
        let unbound = match self.unbound.take() {
            Some(unbound) => *unbound,
            None => {
                let socket = self.socket().map_err(|error| match error {
                    OpenError::NotPermitted => OpenError::NoneLeft,
                    error => error,
                })?;
                match Unbound::of(socket, &self.interface, &config) {
                    Ok(unbound) => unbound,
                    Err((error, unused)) => {
                        // There may be no other for the next time.
                        self.unused = unused;
                        return Err(error);
                    }
                }
            }
        };
        match unbound.bind(&self.interface, &config, 1) {
            Ok(socket) => Ok(self.adds(Queue::of(queue, socket))),
            Err((error, unbound)) => {
                self.unbound = Some(unbound);
                Err(error)
            }
        }
    }

    fn all_queues(&mut self) -> impl Iterator<Item = &mut Queue> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Takes back the transmit frames that the kernel is done with.
    fn reclaim(&mut self) {
        let completed = self.first.socket.completion.available();
        for ahead in 0..completed {
            let Some(address) = self.first.socket.completion.peek(ahead) else {
                break;
            };
            let Some(frame) = self.first.socket.umem.layout().transmit_frame_of(address) else {
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
            self.first.socket.completion.release(completed);
        }
    }
}

impl Device for XdpDevice {
    fn receive<F: FnMut(&[u8])>(&mut self, budget: usize, mut each: F) -> usize {
        let scatter_gather = self.offloads.scatter_gather;
        if self.others.is_empty() {
            return self.first.receive(budget, scatter_gather, &mut each);
        }
        let count = 1 + self.others.len();
        self.turn = (self.turn + 1) % count;
        let mut left = budget;
        // Each has its share, so that a flood on one leaves room for the others; then what is left.
        for share in [budget.div_ceil(count), budget] {
            for ahead in 0..count {
                let queue = match (self.turn + ahead) % count {
                    0 => &mut self.first,
                    other => &mut self.others[other - 1],
                };
                left -= queue.receive(share.min(left), scatter_gather, &mut each);
            }
        }
        budget - left
    }

    fn waiting(&mut self) -> usize {
        self.all_queues().map(|queue| queue.waiting()).sum()
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
        let bytes = unsafe { self.first.socket.umem.transmit_frame(frame) }?;
        bytes.get_mut(TX_METADATA_SIZE..)
    }

    fn submit(&mut self, len: usize, checksum: Option<PartialChecksum>) {
        let frame = self.current.take().expect("submit follows frame");
        // SAFETY: as in `frame`; it goes to the kernel only below.
        let bytes =
            unsafe { self.first.socket.umem.transmit_frame(frame) }.expect("a frame of ours");
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
        let layout = *self.first.socket.umem.layout();
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
            let pushed = self.first.socket.transmit.push(Descriptor {
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
        if self.first.socket.transmit.outstanding_as_last_seen() > 0 && self.flush() > 0 {
            self.counters.large_busy += 1;
            return Err(SendError::Busy);
        }
        self.large.send(header, payload, how, &mut self.counters)
    }

    fn flush(&mut self) -> usize {
        self.first.socket.transmit.publish();
        let mut left = self.first.socket.transmit.outstanding();
        if left == 0 {
            return 0;
        }
        // Full: pairs with the driver's between setting the flag and looking at the ring again.
        fence(Ordering::SeqCst);
        // Each call moves some frames and says EAGAIN while there are more. The bound is for a
        // kernel that makes no progress: one more turn than the calls that all frames take.
        let mut calls = 1 + left.div_ceil(FRAMES_PER_CALL);
        while left > 0 && calls > 0 && self.first.socket.transmit.needs_wakeup() {
            calls -= 1;
            self.counters.send_wakeups += 1;
            match self.first.socket.kick_transmit() {
                Ok(()) => {}
                Err(error) if is_transient(&error) => {
                    self.counters.send_wakeups_again += 1;
                    // It may be the completion ring that is full.
                    self.reclaim();
                }
                Err(_) => {
                    // The interface is down, or gone: the frames stay until it is up again.
                    self.counters.send_wakeups_failed += 1;
                    left = self.first.socket.transmit.outstanding();
                    break;
                }
            }
            let before = left;
            left = self.first.socket.transmit.outstanding();
            if left == before {
                break;
            }
        }
        let buffers_per_frame = self.first.socket.umem.layout().chunks_per_frame;
        left.div_ceil(buffers_per_frame) as usize
    }

    fn poll_fds<'a>(&'a self, set: &mut Vec<PollFd<'a>>) {
        let mut events = PollFlags::IN;
        if self.first.socket.transmit.outstanding_as_last_seen() > 0 {
            events |= PollFlags::OUT;
        }
        set.push(PollFd::from_borrowed_fd(self.first.socket.as_fd(), events));
        let others = self.others.iter().map(|queue| queue.socket.as_fd());
        set.extend(others.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
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
        // What arrives in several buffers is dropped without scatter-gather: nobody may be told to send it.
        let one = self.first.socket.umem.layout().received_in_one() - MAX_HEADER_LEN;
        let mtu = self.interface.mtu;
        Limits {
            mtu: if self.offloads.scatter_gather {
                mtu
            } else {
                mtu.min(one)
            },
            frame: self.interface.mtu + MAX_HEADER_LEN,
            large: LARGE_MAX,
            pieces: PIECES_MAX,
        }
    }

    fn counters(&mut self) -> Counters {
        let mut counters = self.counters;
        for queue in self.all_queues() {
            counters += queue.counters();
        }
        counters
    }

    fn queues(&mut self) -> Vec<(u32, Counters)> {
        let counted = self.all_queues();
        counted
            .map(|queue| (queue.number, queue.counters()))
            .collect()
    }

    fn grow(&mut self, queue: u32) -> io::Result<Option<BorrowedFd<'_>>> {
        if self.all_queues().any(|open| open.number == queue) {
            return Ok(None);
        }
        self.try_queue(queue).map(Some).map_err(io::Error::other)
    }

    fn socket_of(&self, queue: u32) -> Option<BorrowedFd<'_>> {
        let mut all = std::iter::once(&self.first).chain(&self.others);
        let open = all.find(|open| open.number == queue);
        open.map(|open| open.socket.as_fd())
    }

    fn shrink(&mut self, queue: u32) -> io::Result<bool> {
        if self.first.number == queue {
            return Err(io::Error::other("it is the one by which the engine sends"));
        }
        let at = self.others.iter().position(|open| open.number == queue);
        // With its socket the kernel forgets that the queue is bound.
        let closed = at.map(|at| self.others.swap_remove(at));
        if let Some(closed) = &closed {
            self.counters += closed.counters();
        }
        Ok(closed.is_some())
    }
}

impl AsFd for XdpDevice {
    /// The AF_XDP socket of the first queue, for the map of the steering program.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.first.socket.as_fd()
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR)
    )
}
