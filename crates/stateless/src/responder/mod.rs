//! The responder: HTTP from the packets alone.
//!
//! [`Responder::respond`] is a pure function of a frame, but for what it counts: frame in, frames
//! out. It keeps nothing of any connection, but for the requests whose responses are several
//! segments and not acknowledged yet (see `repair`). What it must know stands in the numbers of the
//! segment (see [`state`]), what it answers in the request (see `answer`). `docs/stateless.md` has the whole argument.
//!
//! `bpf/responder.bpf.c` (see [`program`]) is the same function for the driver's edge, with one frame out for
//! one frame in. A test feeds both the same frames and compares every byte.

mod answer;
pub mod counters;
pub mod language;
pub mod objects;
pub mod program;
mod repair;
mod reply;
pub mod request;
mod response;
pub mod run;
pub mod settings;
pub mod state;
pub mod tables;
pub mod witness;

use std::net::IpAddr;

use wire::flow::FlowHasher;
use wire::segment::{ChecksumPolicy, Malformed, Segment, parse};
use wire::tcp::Flags;

use counters::{Counter, Counts};
use repair::{Repairs, Step};
use reply::Reply;
use settings::{CloseStyle, MAX_BURST, MAX_FRAME, Settings};
use state::{DEFAULT_MSS, Phase, Place, class_of, initial_sequence};
use tables::Tables;

/// Answers frames.
#[derive(Debug)]
pub struct Responder {
    settings: Settings,
    tables: Tables,
    hasher: FlowHasher,
    counts: Counts,
    repairs: Repairs,
    now_ns: u64,
    /// The payload of the answer under way.
    payload: Vec<u8>,
    /// Where frames are put together.
    frame: Vec<u8>,
}

/// What the hash says of a flow.
#[derive(Debug, Clone, Copy)]
struct Secrets {
    /// Taken off the difference of sequence numbers.
    sequence: u32,
    /// Added to the client's clock to be ours.
    clock: u32,
}

impl Secrets {
    const fn of(hash: u64) -> Self {
        Self {
            sequence: hash as u32,
            clock: (hash >> 32) as u32,
        }
    }
}

impl Responder {
    /// With settings and texts.
    pub fn new(settings: Settings, tables: Tables) -> Self {
        Self {
            hasher: FlowHasher::new(settings.key),
            settings,
            tables,
            counts: Counts::default(),
            repairs: Repairs::default(),
            now_ns: 0,
            payload: Vec::with_capacity(MAX_BURST),
            frame: Vec::with_capacity(MAX_FRAME),
        }
    }

    /// What was counted.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What it was told.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time is `now_ns`, in nanoseconds of the caller's clock: hands what is due to be sent again
    /// to `each`.
    pub fn tick(&mut self, now_ns: u64, mut each: impl FnMut(&[u8])) {
        self.now_ns = now_ns;
        for (frame, at) in self.repairs.due(now_ns) {
            self.repair(&frame, at, &mut each);
        }
        self.counts.0[Counter::Forgotten as usize] = self.repairs.forgotten;
    }

    /// When [`tick`](Self::tick) has something to send, unless frames change that.
    pub fn next_tick_ns(&self) -> Option<u64> {
        self.repairs.next_ns()
    }

    /// Takes up a frame, and hands every frame of the answer to `each`.
    pub fn respond(&mut self, frame: &[u8], mut each: impl FnMut(&[u8])) {
        if let Err(reason) = self.take(frame, &mut each) {
            self.counts.add(reason, 1);
        }
    }

    /// `Err` is what the frame is counted as, if that is not an answer.
    fn take(&mut self, frame: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), Counter> {
        if frame.len() > MAX_FRAME {
            return Err(Counter::TooLong);
        }
        let policy = if self.settings.partial_checksums {
            ChecksumPolicy::AcceptPartial
        } else {
            ChecksumPolicy::Verify
        };
        if has_extension_headers(frame) {
            return Err(Counter::Malformed);
        }
        let segment = parse(frame, policy).map_err(|error| match error {
            Malformed::TcpChecksum => Counter::Checksum,
            _ => Counter::Malformed,
        })?;
        if self.is_martian(&segment) {
            return Err(Counter::Martian);
        }
        if self.is_loop(&segment) {
            return Err(Counter::Loop);
        }
        let hash = self.hasher.hash(&segment.flow());
        let secrets = Secrets::of(hash);
        let flags = segment.tcp.flags;
        if flags.contains(Flags::RST) {
            self.repairs.forget(hash);
            return Err(Counter::ResetsReceived);
        }
        if flags.contains(Flags::SYN) {
            return self.on_syn(&segment, secrets, each);
        }
        let Some(ack) = segment.tcp.ack else {
            return Err(Counter::Flags);
        };
        let place = Place::of(segment.tcp.seq.0, ack.0, secrets.sequence);
        if self.settings.strict && !place.is_genuine() {
            return Err(Counter::Forged);
        }
        let fin = flags.contains(Flags::FIN);
        if self.settings.bursts && segment.payload.is_empty() {
            let numbers = (segment.tcp.seq.0, ack.0);
            let repairs = &mut self.repairs;
            match repairs.on_acknowledgement(hash, numbers, fin, self.now_ns) {
                Step::Nothing => {}
                Step::Progress => return Err(Counter::Acks),
                Step::Resend(frame, at) => {
                    self.repair(&frame, at, each);
                    return Err(Counter::Acks);
                }
            }
        }
        let phase = place.phase().ok_or(Counter::Misplaced)?;
        // Some probe with a byte of garbage (RFC 9293, 3.8.4), Windows with a zero. Another could be
        // of a request that is typed: no request has a zero.
        let bytes = match segment.payload {
            [0] if phase == Phase::Probe => 0,
            bytes => bytes.len(),
        };
        match (phase, bytes, fin) {
            (Phase::Ready, 1.., _) => {
                let span = self.on_request(&segment, place, secrets, each)?;
                if let Some(span) = span {
                    self.repairs.remember(hash, frame, span, self.now_ns);
                }
                Ok(())
            }
            (Phase::Probe, 0, false) => {
                self.short(&segment, secrets, Flags::NONE, each, Counter::Probes)
            }
            // Data behind the end, or the rest of a request that was split: who could tell? A
            // reset would be wrong for the one, and silence is not wrong for the other.
            (Phase::Probe, ..) | (Phase::Closing | Phase::Closed, 1.., _) => {
                Err(Counter::Misplaced)
            }
            (Phase::Closed, 0, _) if self.settings.close == CloseStyle::Reset => {
                self.reset(&segment, each)
            }
            (Phase::Closed, 0, true) => {
                self.short(&segment, secrets, Flags::NONE, each, Counter::Fins)
            }
            (Phase::Ready | Phase::Closing, 0, true) => {
                self.short(&segment, secrets, Flags::FIN, each, Counter::Fins)
            }
            (_, 0, false) => Err(Counter::Acks),
        }
    }

    /// Whether nobody can have sent it: RFC 1122, 3.2.1.3.
    fn is_martian(&self, segment: &Segment<'_>) -> bool {
        let nobody = match segment.src {
            IpAddr::V4(source) => {
                let first = source.octets()[0];
                first == 0
                    || first >= 240
                    || first == 127 && !self.settings.loopback
                    || self.settings.broadcasts.contains(&source)
            }
            IpAddr::V6(source) => source.is_loopback() && !self.settings.loopback,
        };
        nobody || segment.tcp.src_port == 0 || segment.tcp.dst_port == 0
    }

    /// Whether an answer could come back as a question.
    fn is_loop(&self, segment: &Segment<'_>) -> bool {
        let port = segment.tcp.src_port;
        let itself = segment.src == segment.dst && port == segment.tcp.dst_port;
        itself
            || self
                .settings
                .ports
                .iter()
                .any(|ports| ports.contains(&port))
    }

    fn on_syn(
        &mut self,
        segment: &Segment<'_>,
        secrets: Secrets,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Counter> {
        if segment.tcp.flags.contains(Flags::ACK) {
            return Err(Counter::SynAck);
        }
        if segment.tcp.flags.contains(Flags::FIN) {
            return Err(Counter::Flags);
        }
        let ipv6 = segment.src.is_ipv6();
        let mss = segment.tcp.options.mss.unwrap_or(DEFAULT_MSS);
        let class = class_of(mss.min(self.settings.segment(ipv6))).ok_or(Counter::SmallMss)?;
        let client = segment.tcp.seq;
        let mut reply = Reply::to(segment, secrets.clock, Flags::SYN);
        reply.seq(initial_sequence(client.0, secrets.sequence, class));
        reply.ack(client.0.wrapping_add(1));
        reply.announce(self.settings.announced(ipv6));
        self.counts.add(Counter::Syns, 1);
        self.send(&reply, 0..0, each);
        Ok(())
    }

    /// An answer without payload that acknowledges one number more.
    fn short(
        &mut self,
        segment: &Segment<'_>,
        secrets: Secrets,
        flags: Flags,
        each: &mut dyn FnMut(&[u8]),
        counter: Counter,
    ) -> Result<(), Counter> {
        let mut reply = Reply::to(segment, secrets.clock, flags);
        reply.ack(segment.tcp.seq.0.wrapping_add(1));
        self.counts.add(counter, 1);
        self.send(&reply, 0..0, each);
        Ok(())
    }

    /// A reset with exactly the number that the client expects.
    fn reset(&mut self, segment: &Segment<'_>, each: &mut dyn FnMut(&[u8])) -> Result<(), Counter> {
        self.counts.add(Counter::ResetsSent, 1);
        self.send(&Reply::reset(segment), 0..0, each);
        Ok(())
    }

    /// Sends a segment with a part of `self.payload`.
    fn send(
        &mut self,
        reply: &Reply,
        payload: std::ops::Range<usize>,
        each: &mut dyn FnMut(&[u8]),
    ) {
        reply.emit(&self.payload[payload], &mut self.frame);
        self.counts.add(Counter::FramesOut, 1);
        each(&self.frame);
    }
}

/// Whether a frame is IPv6 with something between its header and TCP. The kernel gets those; so a
/// frame that comes here by another way is refused.
fn has_extension_headers(frame: &[u8]) -> bool {
    use wire::ethernet::{EtherType, Header};
    match Header::parse(frame) {
        Ok((header, packet)) if header.ether_type == EtherType::IPV6 => {
            packet.get(6) != Some(&wire::ip::PROTOCOL_TCP)
        }
        _ => false,
    }
}
