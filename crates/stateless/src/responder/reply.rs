//! The headers of an answer: those of the question, turned round.

use wire::checksum::Sum;
use wire::ip::Ecn;
use wire::segment::{Headers, Link, Segment, TcpChecksum};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr, Timestamps};

/// The window that we offer: a request is one segment, so this is more than is ever used. It is
/// never scaled.
const WINDOW: u16 = u16::MAX;

/// Hops that an answer may take.
const HOP_LIMIT: u8 = 64;

/// A segment to be sent.
pub(super) struct Reply(Headers);

impl Reply {
    /// To a segment: from the number that it acknowledges on, with a window. The clock is the
    /// client's, `clock` ahead: so it only ever goes forward, and nobody must keep it.
    pub fn to(segment: &Segment<'_>, clock: u32, flags: Flags) -> Self {
        let timestamps = segment.tcp.options.timestamps.map(|theirs| Timestamps {
            value: theirs.value.wrapping_add(clock),
            echo: theirs.value,
        });
        Self(Headers {
            link: Link {
                src: segment.link.dst,
                dst: segment.link.src,
                vlan: segment.link.vlan,
            },
            src: segment.dst,
            dst: segment.src,
            hop_limit: HOP_LIMIT,
            dscp: 0,
            ecn: Ecn::NotCapable,
            tcp: Repr {
                src_port: segment.tcp.dst_port,
                dst_port: segment.tcp.src_port,
                seq: segment.tcp.ack.unwrap_or_default(),
                ack: None,
                flags,
                window: WINDOW,
                options: Options {
                    timestamps,
                    ..Options::NONE
                },
            },
        })
    }

    /// A reset.
    pub fn reset(segment: &Segment<'_>) -> Self {
        let mut reply = Self::to(segment, 0, Flags::RST);
        reply.0.tcp.options = Options::NONE;
        reply.0.tcp.window = 0;
        reply
    }

    pub fn seq(&mut self, seq: u32) {
        self.0.tcp.seq = SeqNumber(seq);
    }

    pub fn ack(&mut self, ack: u32) {
        self.0.tcp.ack = Some(SeqNumber(ack));
    }

    pub fn flags(&mut self, flags: Flags) {
        self.0.tcp.flags = flags;
    }

    pub fn announce(&mut self, mss: u16) {
        self.0.tcp.options.mss = Some(mss);
    }

    /// So many bytes on.
    pub fn advance(&mut self, bytes: u32) {
        self.0.tcp.seq += bytes;
    }

    /// Puts the frame together.
    pub fn emit(&self, payload: &[u8], frame: &mut Vec<u8>) {
        frame.clear();
        frame.resize(self.0.len(), 0);
        let checksum = TcpChecksum::Complete(Sum::of(payload));
        // The families are those of a segment that arrived, and the payload is below 64 KB.
        self.0
            .emit(payload.len(), checksum, frame)
            .expect("an answer fits IP");
        frame.extend_from_slice(payload);
    }
}
