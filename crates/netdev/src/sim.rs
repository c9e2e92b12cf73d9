//! The simulated device: the two ends of a bounded link in memory.
//!
//! It has the interface of a real device, offloads included, and needs no privileges. Frames that do not fit its queue
//! are lost and counted, as on a real interface, and each direction can lose, repeat and reorder
//! frames after a [`FaultPlan`]. It knows no time: a frame is there as soon as it is flushed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use wire::ethernet::{HEADER_LEN, MAX_HEADER_LEN};

use crate::faults::{Fate, FaultPlan, Faults, Reorder};
use crate::software;
use crate::{Counters, Device, LargeSend, Limits, Offloads, PartialChecksum, SendError};

/// Most pieces of payload in a large send, as on the real device.
const PIECES_MAX: usize = 64;

/// Bytes of the largest IP packet.
const LARGE_MAX: usize = 65_535;

/// `EINVAL`, which is what the kernel says of a header that is none.
const INVALID: i32 = rustix::io::Errno::INVAL.raw_os_error();

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

    fn frame(&mut self) -> Option<&mut [u8]> {
        if self.current.is_none() {
            let mut buffer = self.outgoing.lock().spare.pop().unwrap_or_default();
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
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use rustix::event::poll;
    use wire::checksum::{Sum, pseudo_header};
    use wire::segment::{ChecksumPolicy, parse};

    use super::*;

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

    /// An Ethernet, IP and TCP header with the pseudo-header sum for `payload` bytes.
    fn header(src: IpAddr, dst: IpAddr, flags: u8, payload: usize) -> (Vec<u8>, PartialChecksum) {
        let mut frame = vec![2; 12];
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                frame.extend([0x08, 0x00, 0x45, 0]);
                frame.extend(((40 + payload) as u16).to_be_bytes());
                frame.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0]);
                frame.extend(src.octets());
                frame.extend(dst.octets());
                let sum = Sum::of(&frame[14..34]).finish();
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend(((20 + payload) as u16).to_be_bytes());
                frame.extend([6, 64]);
                frame.extend(src.octets());
                frame.extend(dst.octets());
            }
            _ => panic!("addresses of two families"),
        }
        let start = frame.len();
        frame.extend([0, 80, 0, 90, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 1]);
        frame.extend([0x50, flags, 0xff, 0xff]);
        let pseudo = pseudo_header(src, dst, 6, 20 + payload).expect("one family");
        frame.extend(pseudo.fold().to_be_bytes());
        frame.extend([0, 0]);
        (frame, PartialChecksum::tcp(start as u16))
    }

    const ENDS: [(IpAddr, IpAddr); 2] = [
        (
            IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
        ),
        (
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)),
        ),
    ];

    #[test]
    fn a_checksum_left_to_the_device_is_right() {
        for (src, dst) in ENDS {
            let (mut a, mut b) = link(LinkConfig::default()).expect("link");
            let (mut frame, checksum) = header(src, dst, 0x10, 5);
            frame.extend(b"hello");
            a.frame().expect("room")[..frame.len()].copy_from_slice(&frame);
            a.submit(frame.len(), Some(checksum));
            a.flush();
            let frames = receive(&mut b);
            let segment = parse(&frames[0], ChecksumPolicy::Verify).expect("a good segment");
            assert_eq!(segment.payload, b"hello");
        }
    }

    #[test]
    fn a_large_send_arrives_as_segments_of_the_size_asked_for() {
        for (src, dst) in ENDS {
            let (mut a, mut b) = link(LinkConfig::default()).expect("link");
            let data: Vec<u8> = (0..3001u16).map(|number| number as u8).collect();
            let shared: Vec<AtomicU8> = data.iter().copied().map(AtomicU8::new).collect();
            let pieces: Vec<&[AtomicU8]> = shared.chunks(701).collect();
            // FIN, PSH, ACK and CWR.
            let (header, checksum) = header(src, dst, 0x99, data.len());
            let how = LargeSend {
                segment_size: 1000,
                ipv6: src.is_ipv6(),
                checksum,
            };
            a.send_large(&header, &pieces, how).expect("send");
            let frames = receive(&mut b);
            let mut received = Vec::new();
            let mut flags = Vec::new();
            for frame in &frames {
                let segment = parse(frame, ChecksumPolicy::Verify).expect("a good segment");
                let expected = 0xffff_fff0u32.wrapping_add(received.len() as u32);
                assert_eq!(segment.tcp.seq.0, expected);
                received.extend_from_slice(segment.payload);
                flags.push(segment.tcp.flags.bits());
            }
            assert_eq!(received, data);
            assert_eq!(flags, [0x90, 0x10, 0x10, 0x19]);
        }
    }

    #[test]
    fn large_sends_that_make_no_sense_are_refused() {
        let (mut a, _b) = link(LinkConfig::default()).expect("link");
        let (src, dst) = ENDS[0];
        let (header, checksum) = header(src, dst, 0x10, 1);
        let byte = [const { AtomicU8::new(0) }];
        let how = LargeSend {
            segment_size: 1000,
            ipv6: false,
            checksum,
        };
        let refused = Err(SendError::Refused(INVALID));
        let wrong = LargeSend { ipv6: true, ..how };
        assert_eq!(a.send_large(&header, &[&byte], wrong), refused);
        for length in 0..header.len() {
            let result = a.send_large(&header[..length], &[&byte], how);
            assert_eq!(result, refused, "{length}");
        }
        let many: Vec<&[AtomicU8]> = vec![&byte; PIECES_MAX + 1];
        let result = a.send_large(&header, &many, how);
        assert_eq!(result, Err(SendError::TooLarge));
        a.set_offloads(Offloads::NONE);
        let result = a.send_large(&header, &[&byte], how);
        assert_eq!(result, Err(SendError::Unsupported));
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
