//! The answer to a request: composed from its text, and sent in one segment or several.

use std::ops::Range;

use wire::segment::{ChecksumPolicy, Segment, parse};
use wire::tcp::Flags;

use super::counters::Counter;
use super::repair::Span;
use super::reply::Reply;
use super::response::{PAD_ROOM, Plan, possible_padding};
use super::settings::MAX_BURST;
use super::state::{Place, padding};
use super::{Responder, Secrets, request};

/// Most requests of one segment that are answered in one go.
const MAX_PIPELINED: u64 = 8;

/// Smallest segment of a burst that `p=` can ask for, in bytes.
const MIN_PIECE: usize = 64;

/// Bytes that the timestamps option takes, with its alignment.
const TIMESTAMPS: usize = 12;

impl Responder {
    /// Answers a request; what was sent, if that was several segments.
    pub(super) fn on_request(
        &mut self,
        segment: &Segment<'_>,
        place: Place,
        secrets: Secrets,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Span>, Counter> {
        let Prepared {
            reply,
            answer,
            piece,
        } = self.prepare(segment, place, secrets)?;
        let total = self.payload.len();
        self.send_pieces(reply, &answer, piece, |_| true, each);
        let with_fin =
            segment.tcp.flags.contains(Flags::FIN) && answer.consumed == segment.payload.len();
        let next = answer.consumed as u32 + u32::from(with_fin);
        let span = (total > piece).then(|| Span {
            next: segment.tcp.seq.0.wrapping_add(next),
            start: segment.tcp.ack.map_or(0, |ack| ack.0),
            length: total as u32 + u32::from(answer.close),
        });
        self.counts.add(Counter::Requests, 1);
        self.counts.add(Counter::Responses, answer.responses);
        self.counts.add(Counter::Clipped, u64::from(answer.clipped));
        self.counts.add(Counter::Closes, u64::from(answer.close));
        let worn = answer.close && place.is_near_the_end();
        self.counts.add(Counter::WornOut, u64::from(worn));
        self.counts.add(Counter::BytesIn, answer.consumed as u64);
        self.counts.add(Counter::BytesOut, total as u64);
        Ok(span)
    }

    /// Sends the segment at a place of the response to the request in `frame` again.
    pub(super) fn repair(&mut self, frame: &[u8], at: u32, each: &mut dyn FnMut(&[u8])) {
        // It was read when it came.
        let Ok(segment) = parse(frame, ChecksumPolicy::AcceptPartial) else {
            return;
        };
        let secrets = Secrets::of(self.hasher.hash(&segment.flow()));
        let ack = segment.tcp.ack.map_or(0, |ack| ack.0);
        let place = Place::of(segment.tcp.seq.0, ack, secrets.sequence);
        let Ok(prepared) = self.prepare(&segment, place, secrets) else {
            return;
        };
        let total = self.payload.len();
        // If only its FIN is missing, that comes with the last bytes.
        let at = (at as usize).min(total.saturating_sub(1));
        let Prepared {
            reply,
            answer,
            piece,
        } = prepared;
        let is_missing = |range: &Range<usize>| range.contains(&at);
        self.send_pieces(reply, &answer, piece, is_missing, each);
        self.counts.add(Counter::Repairs, 1);
    }

    /// Sends those segments of a response that are `wanted`, each of at most `piece` bytes.
    fn send_pieces(
        &mut self,
        mut reply: Reply,
        answer: &Answer,
        piece: usize,
        wanted: impl Fn(&Range<usize>) -> bool,
        each: &mut dyn FnMut(&[u8]),
    ) {
        let total = self.payload.len();
        let mut at = 0;
        while at < total {
            let end = (at + piece).min(total);
            let mut flags = Flags::NONE;
            if end == total {
                flags = Flags::PSH.with(Flags::FIN, answer.close);
            }
            reply.flags(flags);
            if wanted(&(at..end)) {
                self.send(&reply, at..end, each);
            }
            reply.advance((end - at) as u32);
            at = end;
        }
    }

    /// Writes the answer to a request to `self.payload`, and says how it is to be sent.
    fn prepare(
        &mut self,
        segment: &Segment<'_>,
        place: Place,
        secrets: Secrets,
    ) -> Result<Prepared, Counter> {
        let options = if segment.tcp.options.timestamps.is_some() {
            TIMESTAMPS
        } else {
            0
        };
        let largest = usize::from(place.segment()).saturating_sub(options);
        let window = usize::from(segment.tcp.window);
        let room = if self.settings.bursts {
            window.min(MAX_BURST)
        } else {
            window.min(largest)
        };
        let room = (room as u32)
            .checked_sub(PAD_ROOM)
            .ok_or(Counter::SmallWindow)?;
        let answer = self.compose(segment, place.is_near_the_end(), room)?;

        let fin = segment.tcp.flags.contains(Flags::FIN);
        let with_fin = fin && answer.consumed == segment.payload.len();
        let mut reply = Reply::to(segment, secrets.clock, Flags::NONE);
        let acknowledged = answer.consumed as u32 + u32::from(with_fin);
        reply.ack(segment.tcp.seq.0.wrapping_add(acknowledged));
        let piece = match answer.piece as usize {
            0 => largest,
            piece => piece.clamp(MIN_PIECE.min(largest), largest),
        };
        let piece = if self.settings.bursts {
            piece.max(1)
        } else {
            self.payload.len()
        };
        Ok(Prepared {
            reply,
            answer,
            piece,
        })
    }

    /// Writes the responses to all complete requests that there is room for to `self.payload`.
    fn compose(
        &mut self,
        segment: &Segment<'_>,
        near_the_end: bool,
        room: u32,
    ) -> Result<Answer, Counter> {
        let bytes = segment.payload;
        let fin = segment.tcp.flags.contains(Flags::FIN);
        let (tables, settings) = (&self.tables, &self.settings);
        let next = |at: usize| {
            let request = request::parse(&bytes[at..])?;
            let end = at + request.length;
            let last = near_the_end || fin && end == bytes.len();
            Some((end, Plan::new(&request, last, tables, settings)))
        };
        let (mut end, mut plan) = next(0).ok_or(Counter::Incomplete)?;
        let clipped = plan.fit(room, tables).ok_or(Counter::SmallWindow)?;
        let mut responses = 1;
        self.payload.clear();
        while !plan.close && responses < MAX_PIPELINED {
            let Some((next_end, next_plan)) = next(end) else {
                break;
            };
            let used = self.payload.len() as u32 + plan.length(tables);
            if used + next_plan.length(tables) > room {
                break;
            }
            plan.write(0, tables, &mut self.payload);
            (end, plan) = (next_end, next_plan);
            responses += 1;
        }
        let length = self.payload.len() as u32 + plan.length(tables);
        let pad = possible_padding(padding(length, end as u32, plan.close));
        plan.write(pad, tables, &mut self.payload);
        Ok(Answer {
            consumed: end,
            close: plan.close,
            piece: plan.piece,
            responses,
            clipped,
        })
    }
}

/// A response that is ready to be sent.
struct Prepared {
    reply: Reply,
    answer: Answer,
    /// Bytes of a segment, at most.
    piece: usize,
}

/// What was composed.
struct Answer {
    /// Bytes of requests that were answered.
    consumed: usize,
    close: bool,
    piece: u32,
    responses: u64,
    clipped: bool,
}
