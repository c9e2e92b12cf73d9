//! Segments into frames: headers written in front of the [payload], which is copied from the
//! session's send area, or read from a file, and summed on the way; bursts as one large segment that something below
//! cuts.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::AtomicU8;

use arrayvec::ArrayVec;
use netdev::{Device, LargeSend, Loopback, PartialChecksum, SendError, loopback};
use queue_pair::{Area, copy_out};
use rustix::io::Errno;
use tcp::{ConnId, FrameSink, Instant, Outgoing, SinkFull};
use wire::checksum::Sum;
use wire::ethernet::{MacAddr, Vlan};
use wire::segment::{Headers, Link, MAX_HEADERS_LEN, TcpChecksum};
use wire::seq::SeqNumber;
use wire::tcp::Flags;

use crate::capture::{Captures, Direction, Frame};
use crate::fast::connections::Connections;
use crate::fast::memory::Memory;
use crate::netfilter::{self, Policy};
use crate::network::{HeldFrames, Later, Network, NicId, OnLink, PathId, Paths, Reach};
use crate::stats::{Counters, Drop};
use crate::trace::Trace;

use super::local::came_through_queue;
use super::nics::Nics;
use super::payload::{self, Findings, NoPayload};
use super::room::Room;

/// Pieces of payload in one large send; more are copied together first.
const MAX_PIECES: usize = 64;
/// Bytes of memory that is there or missing as a whole.
const PAGE: usize = 4096;
/// The largest packet that IP can say.
const MAX_PACKET: usize = 65_535;

/// Where a segment goes.
enum Way {
    /// Onto the wire, to this station.
    Wire(OnLink<MacAddr>),
    /// Nowhere before this neighbour is resolved.
    Held(OnLink<IpAddr>),
    /// To another connection of ours.
    Here,
}

/// Why a segment goes nowhere.
enum NoWay {
    /// It is dropped.
    Dropped(Drop),
    /// It is not known in this turn where it goes.
    Later,
}

impl From<Later> for NoWay {
    fn from(_: Later) -> Self {
        Self::Later
    }
}

/// The way out of the stack.
pub(super) struct Sink<'a, D, N> {
    pub nics: &'a mut Nics<D>,
    /// Instead of a device, for what stays here.
    pub local: Option<&'a mut Loopback>,
    pub network: &'a mut N,
    pub connections: &'a mut Connections,
    pub memory: &'a mut Memory,
    pub paths: &'a mut Paths,
    pub held: &'a mut HeldFrames,
    pub counters: &'a mut Counters,
    /// Where the pieces of a large send that are too many are put together.
    pub scratch: &'a Area,
    pub captures: &'a mut Captures,
    pub trace: &'a mut Trace,
    /// Connections whose route states the largest packet, to be told to the TCP.
    pub narrow: &'a mut Vec<(ConnId, u16)>,
    /// Connections that send something whose programs mind what has left.
    pub leaving: &'a mut Vec<ConnId>,
    /// Rules that drop segments of connections that are there, if any do.
    pub netfilter: Option<&'a Policy>,
    /// What a segment starts with as its hop limit.
    pub hop_limit: u8,
    /// What is found out about files.
    pub findings: &'a mut Findings,
    /// What may be sent before somebody looks at the clock.
    pub room: Room,
    /// The kernel was asked for a route.
    pub asked: bool,
}

impl<D: Device, N: Network> Sink<'_, D, N> {
    /// The path of a segment: the connection's own, or looked up by its destination where it has none, or
    /// routes have changed.
    fn path(&mut self, out: &Outgoing<'_>) -> Result<PathId, Later> {
        let Some(id) = out.conn else {
            return self.find_path(out, None);
        };
        let (conn, new) = self.connections.enter(id);
        if new {
            self.memory.expect_stream(conn.pool);
        }
        let own = conn.path;
        if let Some(path) = own.filter(|path| self.paths.is_settled(*path)) {
            return Ok(path);
        }
        let path = self.find_path(out, own)?;
        let (conn, _) = self.connections.enter(id);
        if own == Some(path) {
            return Ok(path);
        }
        let mtu = self.paths.mtu(path);
        let same = own.is_some_and(|own| self.paths.mtu(own) == mtu);
        self.paths.acquire(path);
        conn.path = Some(path);
        if let Some(own) = own {
            self.paths.release(own);
        }
        if let Some(mtu) = mtu.filter(|_| !same) {
            self.narrow.push((id, mtu));
        }
        Ok(path)
    }

    fn find_path(&mut self, out: &Outgoing<'_>, own: Option<PathId>) -> Result<PathId, Later> {
        let questions = self.paths.questions_left();
        let found = self.paths.find(self.network, out.src, out.dst, own);
        self.asked |= self.paths.questions_left() != questions;
        found
    }

    fn way_out(&mut self, out: &Outgoing<'_>) -> Result<Way, NoWay> {
        match out.answers.filter(|link| !link.src.is_multicast()) {
            Some(link) if self.local.is_some() && came_through_queue(link) => return Ok(Way::Here),
            Some(link) => {
                let nic = self.network.nic_with(link.dst, out.src);
                let address = link.src;
                return Ok(Way::Wire(OnLink { nic, address }));
            }
            None => {}
        }
        let path = self.path(out)?;
        match self.paths.reach(self.network, path) {
            Reach::At(station) => Ok(Way::Wire(station)),
            Reach::Resolving(neighbour) => Ok(Way::Held(neighbour)),
            Reach::Here if self.local.is_some() => Ok(Way::Here),
            Reach::Here | Reach::Unreachable => Err(NoWay::Dropped(Drop::Unreachable)),
        }
    }

    /// A segment, or a burst that nobody needs to cut, to another connection of ours. When the queue
    /// is full it waits for the next turn.
    fn local_segment(
        &mut self,
        now: Instant,
        headers: &Headers,
        out: &Outgoing<'_>,
    ) -> Result<(), SinkFull> {
        let start = headers.len();
        let length = start + out.payload_len;
        let Some(frame) = self.local.as_mut().and_then(|local| local.frame(length)) else {
            return Err(SinkFull);
        };
        let mut at = start;
        for extent in out.payload {
            let end = at + extent.len as usize;
            let Some(to) = frame.get_mut(at..end) else {
                self.counters.drop(Drop::Unsendable);
                return Ok(());
            };
            if let Err(why) = payload::write(self.memory, self.findings, *extent, to, false) {
                return self.lacks_payload(out, why);
            }
            at = end;
        }
        let checksum = TcpChecksum::Partial;
        if headers.emit(out.payload_len, checksum, frame).is_err() {
            self.counters.drop(Drop::Unsendable);
            return Ok(());
        }
        if self.captures.is_on() {
            let sent = Frame {
                direction: Direction::Out,
                nic: NicId::default(),
                head: frame,
                payload: &[],
                dropped: None,
            };
            self.captures.frame(now, &sent);
        }
        if let Some(local) = &mut self.local {
            local.submit(length);
        }
        Ok(())
    }

    /// There is no payload for a segment. It counts as sent where there will be none: its connection is
    /// about to be reset.
    #[cold]
    fn lacks_payload(&mut self, out: &Outgoing<'_>, why: NoPayload) -> Result<(), SinkFull> {
        match (why, out.conn) {
            (NoPayload::Away(extent), Some(conn)) => {
                self.findings.away.push((conn, extent));
                self.findings.refused = Some(conn);
                return Err(SinkFull);
            }
            (NoPayload::Gone, Some(conn)) => self.findings.gone.push(conn),
            _ => self.counters.drop(Drop::Unsendable),
        }
        Ok(())
    }

    /// The interface by which what a connection sends leaves, as far as that is known.
    fn nic(&self, id: ConnId) -> NicId {
        if self.nics.is_one() {
            return NicId::default();
        }
        let path = self.path_of(id);
        path.map_or(NicId::default(), |path| self.paths.nic(path))
    }

    /// Whether what a connection sends goes to another one of ours.
    fn stays_here(&self, id: ConnId) -> bool {
        self.local.is_some()
            && self
                .path_of(id)
                .is_some_and(|path| self.paths.is_here(path))
    }

    /// The path of what a connection sends, as far as that is known.
    fn path_of(&self, id: ConnId) -> Option<PathId> {
        self.connections.get(id)?.path
    }

    fn one_segment(
        &mut self,
        now: Instant,
        headers: &Headers,
        (nic, waits_for): (NicId, Option<IpAddr>),
        out: &Outgoing<'_>,
    ) -> Result<(), SinkFull> {
        let start = headers.len();
        let length = start + out.payload_len;
        let device = &mut self.nics[nic].device;
        let offered = device.offloads().transmit_checksum;
        let Some(frame) = device.frame() else {
            return self.finds_no_room(nic, out);
        };
        let Some(frame) = frame.get_mut(..length) else {
            self.counters.drop(Drop::Unsendable);
            return Ok(());
        };
        // A frame that is held is sent later, when nobody remembers what was asked of the device.
        let partial = offered && waits_for.is_none();
        let mut sum = Sum::ZERO;
        let mut at = start;
        for extent in out.payload {
            let end = at + extent.len as usize;
            let Some(to) = frame.get_mut(at..end) else {
                self.counters.drop(Drop::Unsendable);
                return Ok(());
            };
            match payload::write(self.memory, self.findings, *extent, to, !partial) {
                Ok(more) => sum = sum.combine(more),
                Err(why) => return self.lacks_payload(out, why),
            }
            at = end;
        }
        let checksum = if partial {
            TcpChecksum::Partial
        } else {
            TcpChecksum::Complete(sum)
        };
        if headers.emit(out.payload_len, checksum, frame).is_err() {
            self.counters.drop(Drop::Unsendable);
            return Ok(());
        }
        if self.captures.is_on() {
            let sent = Frame {
                direction: Direction::Out,
                nic,
                head: frame,
                payload: &[],
                dropped: None,
            };
            self.captures.frame(now, &sent);
        }
        match waits_for {
            None => {
                // A header's offset fits in sixteen bits by far.
                let asked = partial.then(|| PartialChecksum::tcp(headers.tcp_offset() as u16));
                device.submit(length, asked);
                self.counters.sent += 1;
            }
            Some(address) => {
                let neighbour = OnLink { nic, address };
                if self.held.is_full() {
                    for _ in 0..self.held.drop_aged(now) {
                        self.counters.drop(Drop::HeldTooLong);
                    }
                }
                if !self.held.hold(now, neighbour, frame) {
                    self.counters.drop(Drop::HeldFull);
                }
            }
        }
        Ok(())
    }

    /// An interface has no frame for a segment. Where there is no other everybody waits for it. Else who leaves by
    /// another goes on: what has payload waits, and what has none is lost, as in a queue of the kernel's that is full.
    #[cold]
    fn finds_no_room(&mut self, nic: NicId, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        if self.nics.is_one() {
            return Err(SinkFull);
        }
        if out.conn.is_some() && out.payload_len > 0 {
            self.nics.refuses(nic, out.conn);
            return Err(SinkFull);
        }
        self.counters.drop(Drop::LinkFull);
        Ok(())
    }

    fn large_segment(
        &mut self,
        now: Instant,
        headers: &Headers,
        nic: NicId,
        out: &Outgoing<'_>,
    ) -> Result<(), SinkFull> {
        let mut bytes = [0; MAX_HEADERS_LEN];
        let Ok(length) = headers.emit(out.payload_len, TcpChecksum::Partial, &mut bytes) else {
            self.counters.drop(Drop::Unsendable);
            return Ok(());
        };
        let how = LargeSend {
            segment_size: out.gso_size,
            ipv6: out.dst.is_ipv6(),
            // A header's length fits in sixteen bits by far.
            checksum: PartialChecksum::tcp(headers.tcp_offset() as u16),
        };
        if self.nics[nic].blocked.is_full() {
            self.nics.refuses(nic, out.conn);
            return Err(SinkFull);
        }
        let device = &mut self.nics[nic].device;
        let limit = MAX_PIECES.min(device.limits().pieces);
        let whole = match out.payload.len() > limit || payload::is_in_files(out) {
            true => match payload::put_together(self.memory, self.findings, self.scratch, out) {
                Ok(whole) => Some(whole),
                Err(why) => return self.lacks_payload(out, why),
            },
            false => None,
        };
        let mut pieces: ArrayVec<&[AtomicU8], MAX_PIECES> = whole.into_iter().collect();
        if pieces.is_empty() {
            for extent in out.payload {
                let Some(piece) = self.memory.bytes(*extent) else {
                    self.counters.drop(Drop::Unsendable);
                    return Ok(());
                };
                pieces.push(piece);
            }
        }
        match device.send_large(&bytes[..length], &pieces, how) {
            Ok(()) => {
                if self.captures.is_on() {
                    let sent = Frame {
                        direction: Direction::Out,
                        nic,
                        head: &bytes[..length],
                        payload: &pieces,
                        dropped: None,
                    };
                    self.captures.frame(now, &sent);
                }
                self.counters.sent += 1;
                self.counters.large_sends += 1;
                Ok(())
            }
            Err(SendError::Busy) => {
                self.nics.refuses(nic, out.conn);
                Err(SinkFull)
            }
            Err(SendError::Refused(errno)) if errno == Errno::FAULT.raw_os_error() => {
                // The kernel has met a page that is missing. Who touches it finds out whose it is.
                touch(&pieces);
                self.counters.drop(Drop::DeviceRefused);
                Ok(())
            }
            Err(SendError::Unsupported | SendError::TooLarge | SendError::Refused(_)) => {
                self.counters.drop(Drop::DeviceRefused);
                Ok(())
            }
        }
    }

    /// Sends what the stack emits.
    fn send(&mut self, now: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        let narrow = self.narrow.len();
        let way = match self.way_out(out) {
            // Not before the TCP knows how much fits.
            Ok(_) if self.narrow.len() > narrow && out.payload_len > 0 => return Err(SinkFull),
            Ok(way) => way,
            Err(NoWay::Dropped(reason)) => {
                self.counters.drop(reason);
                return Ok(());
            }
            Err(NoWay::Later) => return Err(SinkFull),
        };
        let own = SocketAddr::new(out.src, out.tcp.src_port);
        let filtered = |policy: &Policy| policy.drops(netfilter::Way::Out, own, out.dst);
        if !matches!(way, Way::Here) && self.netfilter.is_some_and(filtered) {
            self.counters.drop(Drop::Filtered);
            return Ok(());
        }
        let (nic, destination, waits_for) = match way {
            Way::Wire(station) => (station.nic, station.address, None),
            Way::Held(neighbour) => (neighbour.nic, MacAddr::default(), Some(neighbour.address)),
            Way::Here => (NicId::default(), loopback::MAC, None),
        };
        let source = match way {
            Way::Here => loopback::MAC,
            _ if self.nics.is_dead(nic) => {
                self.counters.drop(Drop::LinkDown);
                return Ok(());
            }
            _ => self.network.mac(nic),
        };
        let conn = out.conn.and_then(|id| self.connections.get(id));
        let dscp = conn.map_or(0, |conn| conn.dscp);
        if let Some(conn) = conn
            && conn.departures.is_some()
            && out.payload_len > 0
            && self.leaving.last() != Some(&conn.id)
        {
            self.leaving.push(conn.id);
        }
        let headers = Headers {
            link: Link {
                src: source,
                dst: destination,
                vlan: Vlan::default(),
            },
            src: out.src,
            dst: out.dst,
            //= RFC 9293 MUST-49
            hop_limit: self.hop_limit,
            dscp,
            ecn: out.ecn,
            tcp: out.tcp,
        };
        if matches!(way, Way::Here) {
            return self.local_segment(now, &headers, out);
        }
        if out.gso_size == 0 {
            return self.one_segment(now, &headers, (nic, waits_for), out);
        }
        if waits_for.is_some() {
            // A burst on a connection whose neighbour has just been lost; it is sent again.
            self.counters.drop(Drop::HeldFull);
            return Ok(());
        }
        self.large_segment(now, &headers, nic, out)
    }
}

/// The number behind the last byte of a segment.
#[cold]
fn end_of_data(out: &Outgoing<'_>) -> SeqNumber {
    let syn = u32::from(out.tcp.flags.contains(Flags::SYN));
    out.tcp.seq + syn + out.payload_len as u32
}

/// Reads a byte of each page, so that those that are missing are replaced and told of.
fn touch(pieces: &[&[AtomicU8]]) {
    for piece in pieces {
        let ends = piece.iter().step_by(PAGE).chain(piece.last());
        ends.for_each(|byte| copy_out(core::slice::from_ref(byte), &mut [0]));
    }
}

impl<D: Device, N: Network> FrameSink for Sink<'_, D, N> {
    fn burst_limit(&mut self, id: ConnId, mss: u16) -> usize {
        let mss = usize::from(mss.max(1));
        let device = &self.nics[self.nic(id)].device;
        let large = if self.stays_here(id) {
            MAX_PACKET
        } else if device.offloads().segmentation {
            device.limits().large.min(MAX_PACKET)
        } else {
            return mss;
        };
        let largest = large - MAX_HEADERS_LEN;
        (largest / mss).max(1) * mss
    }

    fn window_limit(&mut self, id: ConnId) -> u32 {
        let pool = self.connections.get(id).map(|conn| conn.pool);
        pool.and_then(|pool| self.memory.pool(pool))
            .map_or(u32::MAX, |pool| pool.window_limit())
    }

    fn awaits_payload(&mut self, id: ConnId) -> bool {
        self.findings.refused.take() == Some(id) || self.nics.have_refused(id)
    }

    fn emit(&mut self, now: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        if self.room.is_used_up() {
            return Err(SinkFull);
        }
        let sent = self.send(now, out);
        match sent {
            Ok(()) => {
                self.room.use_for(out.payload_len);
                if self.trace.is_on() {
                    self.trace.built(out.conn, end_of_data(out));
                }
            }
            // To find out that part of a file is not in memory can take the kernel as long as anything.
            Err(SinkFull) if self.findings.refused.is_some() => self.room.use_up(),
            // It was soon found out, but there may be many.
            Err(SinkFull) if self.nics.refuse_one() => self.room.use_for(0),
            Err(SinkFull) => {}
        }
        // A question takes the kernel as long as many segments take.
        if core::mem::take(&mut self.asked) {
            self.room.use_up();
        }
        sent
    }
}
