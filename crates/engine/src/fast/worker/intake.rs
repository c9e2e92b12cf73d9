//! A frame on its way in: what it must get past before the TCP has it, and whose it is if there are
//! several workers.

use std::net::SocketAddr;

use netdev::Device;
use tcp::{DropReason, Instant, Stack};
use wire::ethernet::MacAddr;
use wire::icmp;
use wire::segment::{ChecksumPolicy, Malformed, Segment, parse};
use wire::tcp::Flags;

use super::Worker;
use super::local::is_martian;
use super::nics::Nics;
use super::rejections::Rejections;
use crate::capture::{Captures, Direction, Frame};
use crate::config::Config;
use crate::exchange::WorkerId;
use crate::fast::handoff::{Handed, Handoff, NoRoom};
use crate::fast::memory::Store;
use crate::netfilter::{Policy, Way};
use crate::network::{Network, NicId, OnLink, Paths};
use crate::stats::{Counters, Drop};

/// What becomes of a frame: `Err` if it is not used, or not wholly, and why.
type Fate = Result<(), &'static str>;

/// Where frames come from.
#[derive(Clone, Copy)]
struct Came {
    nic: NicId,
    /// That interface's own address.
    mac: MacAddr,
    /// What is asked of their checksums.
    checksum: ChecksumPolicy,
}

/// All that a frame meets.
pub(super) struct Intake<'a, N> {
    pub stack: &'a mut Stack,
    pub store: Store<'a>,
    pub counters: &'a mut Counters,
    pub config: &'a Config,
    pub netfilter: &'a Policy,
    pub captures: &'a mut Captures,
    pub rejections: &'a mut Rejections,
    /// The other workers, if there are any.
    pub handoff: Option<&'a mut Handoff>,
    pub network: &'a N,
    pub paths: &'a mut Paths,
    pub now: Instant,
    /// Connections within this machine are the engine's.
    pub within: bool,
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Takes at most so many frames from the devices.
    pub(super) fn receive_frames(&mut self, budget: usize) -> usize {
        let (nics, mut intake) = self.intake();
        let count = nics.receive(budget, |nic, from, most| {
            let came = Came {
                nic,
                mac: intake.network.mac(nic),
                checksum: from.checksum,
            };
            let receive = |frame: &[u8]| intake.take(frame, came);
            from.device.receive(most, receive)
        });
        self.counters.frames += count as u64;
        self.counters.batches += u64::from(count != 0);
        self.send_rejections();
        count
    }

    /// The devices, and what a frame meets that comes from them.
    pub(super) fn intake(&mut self) -> (&mut Nics<D>, Intake<'_, N>) {
        let intake = Intake {
            stack: &mut self.stack,
            store: Store {
                connections: &mut self.connections,
                memory: &mut self.memory,
                listeners: &self.listeners,
                starved: &mut self.starved,
            },
            counters: &mut self.counters,
            config: &self.config,
            netfilter: &self.netfilter,
            captures: &mut self.captures,
            rejections: &mut self.rejections,
            handoff: self.handoff.as_mut(),
            network: &self.network,
            paths: &mut self.paths,
            now: self.now,
            within: self.local.is_some(),
        };
        (&mut self.nics, intake)
    }
}

impl<N: Network> Intake<'_, N> {
    /// Takes a frame that came to an interface.
    #[inline]
    fn take(&mut self, frame: &[u8], came: Came) {
        let foreign = frame.get(..6).is_some_and(|to| to != came.mac.0);
        let fate = match parse(frame, came.checksum) {
            _ if foreign => self.drop(Drop::ForeignMac),
            Ok(segment) => self.take_segment(frame, &segment, came.nic),
            Err(Malformed::NotTcp) => self.take_icmp(frame, came.checksum),
            Err(reason) => self.malformed(reason),
        };
        if self.captures.is_on() {
            let frame = Frame {
                direction: Direction::In,
                nic: came.nic,
                head: frame,
                payload: &[],
                dropped: fate.err(),
            };
            self.captures.frame(self.now, &frame);
        }
    }

    /// Takes a frame that another worker has handed over, which has looked at it.
    pub(super) fn take_handed(&mut self, frame: &[u8]) {
        match parse(frame, ChecksumPolicy::Ignore) {
            // Its connection may have gone on to another meanwhile. What the TCP does not use it counts itself.
            Ok(segment) => {
                let nic = self.nic_of(&segment);
                let _ = self.take_or_hand(frame, &segment, nic);
            }
            Err(Malformed::NotTcp) => {
                if let Ok(error) = icmp::parse(frame, ChecksumPolicy::Ignore) {
                    let _ = self.stack.on_icmp(self.now, &error);
                }
            }
            Err(reason) => self.counters.malformed(reason),
        }
    }

    /// Takes a frame that was kept, if its connection has come, or will not come any more; false if it is to
    /// be kept.
    pub(super) fn take_kept(&mut self, frame: &[u8]) -> bool {
        let Ok(segment) = parse(frame, ChecksumPolicy::Ignore) else {
            return true;
        };
        let (now, store) = (self.now, &mut self.store);
        if self
            .stack
            .on_segment_of_ours(now, &segment, store)
            .is_some()
        {
            return true;
        }
        match self.whose(&segment) {
            Some((_, true)) => return false,
            // It has gone on, or did not find room here.
            Some((other, false)) => {
                let _ = self.hand(other, frame);
            }
            None => {
                let _ = self.stack.on_segment(now, &segment, &mut self.store);
            }
        }
        true
    }

    /// Keeps a frame whose connection is on its way here.
    fn keep_early(&mut self, frame: &[u8]) -> Fate {
        let handoff = self.handoff.as_mut();
        match handoff.is_none_or(|handoff| handoff.keep(self.now, frame)) {
            true => Ok(()),
            false => self.drop(Drop::HandoffFull),
        }
    }

    fn drop(&mut self, reason: Drop) -> Fate {
        self.counters.drop(reason);
        Err(reason.name())
    }

    fn malformed(&mut self, reason: Malformed) -> Fate {
        self.counters.malformed(reason);
        Err(reason.name())
    }

    #[inline]
    fn take_segment(&mut self, frame: &[u8], segment: &Segment<'_>, nic: NicId) -> Fate {
        let opens = opens(segment);
        let own = SocketAddr::new(segment.dst, segment.tcp.dst_port);
        let open = self.config.access.is_open() && self.netfilter.is_open();
        let cuts = !self.netfilter.cuts.is_empty();
        if !open && opens && !self.admits(segment, own) {
            self.stack.note_denied(segment.dst, own.port());
            if let Some(answer) = self.netfilter.answer(own, segment.src) {
                let hops = self.config.tcp.hop_limit;
                let rejected = (frame, segment, nic);
                self.rejections
                    .answer(self.now, answer, rejected, hops, self.stack);
            }
            return self.drop(Drop::Denied);
        }
        if cuts && !opens && self.netfilter.drops(Way::In, own, segment.src) {
            return self.drop(Drop::Filtered);
        }
        if (opens || self.within) && is_martian(segment, self.network.addresses()) {
            return self.drop(Drop::Martian);
        }
        if self.handoff.is_some() {
            return self.take_or_hand(frame, segment, nic);
        }
        self.give(segment, nic)
    }

    /// Gives a segment to the TCP, which counts itself what it does not use.
    #[inline]
    fn give(&mut self, segment: &Segment<'_>, nic: NicId) -> Fate {
        let used = self.stack.on_segment(self.now, segment, &mut self.store);
        self.used(segment, nic, used)
    }

    /// The TCP has had a segment. Who has no route back is answered by where his come from, those that are
    /// of no use among them: while he gets no answer he repeats himself.
    #[inline]
    fn used(&mut self, segment: &Segment<'_>, nic: NicId, used: Result<(), DropReason>) -> Fate {
        let address = segment.link.src;
        if self.paths.listens() && !address.is_multicast() && self.stack.has_flow(&segment.flow()) {
            let station = OnLink { nic, address };
            self.paths.heard(segment.dst, segment.src, station);
        }
        used.map_err(DropReason::name)
    }

    fn admits(&self, segment: &Segment<'_>, own: SocketAddr) -> bool {
        self.config.access.admits_peer(segment.src, own.port())
            && self.netfilter.admits_peer(own, segment.src)
    }

    fn take_icmp(&mut self, frame: &[u8], checksum: ChecksumPolicy) -> Fate {
        let error = match icmp::parse(frame, checksum) {
            Ok(error) => error,
            Err(reason) => return self.malformed(reason),
        };
        if let Some(handoff) = &self.handoff
            && !self.stack.has_flow(&error.flow)
            && let Some(owner) = handoff.owner(&error.flow)
        {
            return self.hand(owner, frame);
        }
        let used = self.stack.on_icmp(self.now, &error);
        used.map_err(tcp::DropReason::name)
    }

    /// Takes a segment if it is for a flow of this worker's or for nobody's, and hands it over otherwise.
    fn take_or_hand(&mut self, frame: &[u8], segment: &Segment<'_>, nic: NicId) -> Fate {
        if opens(segment)
            && let Some(fate) = self.take_over_elsewhere(frame, segment)
        {
            return fate;
        }
        let (now, store) = (self.now, &mut self.store);
        if let Some(used) = self.stack.on_segment_of_ours(now, segment, store) {
            return self.used(segment, nic, used);
        }
        match self.whose(segment) {
            Some((_, true)) => return self.keep_early(frame),
            Some((other, false)) => return self.hand(other, frame),
            None => {}
        }
        self.give(segment, nic)
    }

    /// The interface to which a segment came that another worker has handed over, by the addresses that it was sent to.
    fn nic_of(&self, segment: &Segment<'_>) -> NicId {
        self.network.nic_with(segment.link.dst, segment.dst)
    }

    /// A SYN takes over a pair in TIME-WAIT of this worker's, where nobody listens (any more), but elsewhere
    /// somebody does: the pair goes there, and the SYN behind it. `None`: it is not so.
    fn take_over_elsewhere(&mut self, frame: &[u8], syn: &Segment<'_>) -> Option<Fate> {
        let port = syn.tcp.dst_port;
        if self.stack.listens_on(syn.dst, port) {
            return None;
        }
        let flow = syn.flow();
        let handoff = self.handoff.as_mut()?;
        let (to, is_late) = handoff.acceptor(self.now, syn.dst, port, &flow)?;
        if is_late {
            self.network.note_late(to.0);
        }
        let pair = self.stack.export_taken_over(self.now, syn)?;
        handoff.give_exported(self.stack, &flow, to);
        let handed = handoff.hand(to, Handed::Ended(Box::new(pair)));
        if let Err(NoRoom(Handed::Ended(pair))) = handed {
            handoff.keep_flow(&flow, to);
            // There was room for it just now.
            let _ = self.stack.import_time_wait(self.now, &pair);
            return Some(self.drop(Drop::HandoffFull));
        }
        Some(self.hand(to, frame))
    }

    /// The worker that a segment is for on a flow which this one's stack does not know, and whether that is
    /// this one: its connection is on its way here.
    fn whose(&mut self, segment: &Segment<'_>) -> Option<(WorkerId, bool)> {
        let handoff = self.handoff.as_ref()?;
        let flow = segment.flow();
        if let Some(owner) = handoff.whose(&flow) {
            return Some((owner, owner == handoff.own()));
        }
        let port = segment.tcp.dst_port;
        let other = if brings_cookie(segment) && {
            handoff.hear_of_cookies(self.stack);
            self.stack.cookies_until() > self.now
        } {
            // The secret is the same everywhere.
            handoff.home(segment.dst, port, &flow)
        } else if self.stack.listens_on(segment.dst, port) {
            None
        } else {
            let acceptor = handoff.acceptor(self.now, segment.dst, port, &flow);
            // Nobody else could have had this new connection. What is of one that there is says nothing of new ones.
            if opens(segment)
                && let Some((late, true)) = acceptor
            {
                self.network.note_late(late.0);
            }
            acceptor.map(|(to, _)| to)
        };
        let other = other.filter(|other| *other != handoff.own())?;
        Some((other, false))
    }

    fn hand(&mut self, to: WorkerId, frame: &[u8]) -> Fate {
        let Some(handoff) = &mut self.handoff else {
            return Ok(());
        };
        if !handoff.hand_frame(self.now, to, frame) {
            return self.drop(Drop::HandoffFull);
        }
        self.counters.frames_handed += 1;
        Ok(())
    }
}

/// Whether a segment begins a connection.
fn opens(segment: &Segment<'_>) -> bool {
    segment.tcp.flags.contains(Flags::SYN) && segment.tcp.ack.is_none()
}

/// Whether it may bring a cookie back, if it is of nobody's flow.
fn brings_cookie(segment: &Segment<'_>) -> bool {
    let tcp = &segment.tcp;
    tcp.ack.is_some() && !tcp.flags.contains(Flags::SYN) && !tcp.flags.contains(Flags::RST)
}
