//! A segment arrives: who gets it.

use wire::segment::Segment;
use wire::tcp::Flags;

use super::{Flow, Recent, Stack, is_endpoint};
use crate::connection::Context;
use crate::counters::DropReason;
use crate::flow_table::FlowHash;
use crate::time_wait::Answer;
use crate::{ConnId, Instant, PayloadStore};

use core::net::SocketAddr;

/// Who has taken a segment.
enum Taken {
    /// Whatever its flow was filed as, with this result.
    By(Result<(), DropReason>),
    /// Nobody yet: nothing is filed under its flow, which has this hash.
    ByNobody(FlowHash),
}

impl Stack {
    /// A segment has arrived. Nothing is sent here: what follows from it waits for
    /// [`poll_transmit`](Self::poll_transmit), so that a batch of segments ends in one
    /// acknowledgement per connection.
    ///
    /// # Errors
    /// Why the segment, or part of it, was not used. It has been counted, and answered where an
    /// answer is due.
    pub fn on_segment<S: PayloadStore>(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        store: &mut S,
    ) -> Result<(), DropReason> {
        let result = match self.take(now, segment, store) {
            Taken::By(result) => result,
            Taken::ByNobody(hash) => self.pass_to_listener(now, hash, segment, None, store),
        };
        self.counted(result)
    }

    /// As [`on_segment`](Self::on_segment), but a segment on a flow of which this stack knows nothing is
    /// left alone: `None`, and nothing has changed. For a program with several stacks that must find
    /// out whose it is.
    pub fn on_segment_of_ours<S: PayloadStore>(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        store: &mut S,
    ) -> Option<Result<(), DropReason>> {
        match self.take(now, segment, store) {
            Taken::By(result) => Some(self.counted(result)),
            Taken::ByNobody(_) => None,
        }
    }

    #[inline]
    fn counted(&mut self, result: Result<(), DropReason>) -> Result<(), DropReason> {
        self.common.counters.segments_in += 1;
        if let Err(reason) = result {
            self.common.counters.drop_segment(reason);
        }
        result
    }

    /// Segments come in trains: the connection that got the last one is asked first, and what it
    /// expects is done with here.
    #[inline]
    fn take<S: PayloadStore>(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        store: &mut S,
    ) -> Taken {
        let index = self.recent.index;
        let Some((generation, c)) = self.connections.at_mut(index) else {
            return self.dispatch(now, segment, store);
        };
        if !(c.in_flows && c.key.is_of(segment)) {
            return self.dispatch(now, segment, store);
        }
        let id = ConnId { index, generation };
        let common = &mut self.common;
        let predicted = c.take_predicted(segment, store, &mut Context { now, id, common });
        match predicted {
            Some(result) => {
                self.lists.put_predicted(id, c);
                Taken::By(result)
            }
            None => Taken::By(self.pass_to_connection(now, index, segment, store)),
        }
    }

    #[inline(never)]
    fn dispatch<S: PayloadStore>(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        store: &mut S,
    ) -> Taken {
        let key = segment.flow();
        let hash = self.flows.hash(&key);
        //= RFC 9293 MUST-41
        Taken::By(match self.flows.get_hashed(&key, hash).map(Flow::unpack) {
            Some(Flow::Connection(index)) => {
                self.recent = Recent { index, hash };
                self.pass_to_connection(now, index, segment, store)
            }
            Some(Flow::HalfOpen(index)) => {
                self.pass_to_half_open(now, (index, hash), segment, store)
            }
            Some(Flow::TimeWait(index)) => {
                self.pass_to_time_wait(now, (index, hash), segment, store)
            }
            None => return Taken::ByNobody(hash),
        })
    }

    #[inline(never)]
    pub(super) fn pass_to_connection<S: PayloadStore>(
        &mut self,
        now: Instant,
        index: u32,
        segment: &Segment<'_>,
        store: &mut S,
    ) -> Result<(), DropReason> {
        let Some((generation, c)) = self.connections.at_mut(index) else {
            debug_assert!(false, "the flow table names an empty slot");
            return Err(DropReason::NoListener);
        };
        let id = ConnId { index, generation };
        let common = &mut self.common;
        let result = c.on_segment(segment, store, &mut Context { now, id, common });
        let lives = self.lists.settle(id, c, &mut self.common);
        if lives && result != Err(DropReason::BadHandshakeAck) {
            return result;
        }
        self.after_segment(now, id, segment, lives, result)
    }

    /// What is rare follows when a connection has taken a segment.
    #[cold]
    fn after_segment(
        &mut self,
        now: Instant,
        id: ConnId,
        segment: &Segment<'_>,
        lives: bool,
        result: Result<(), DropReason>,
    ) -> Result<(), DropReason> {
        if !lives {
            self.settle_over(now, id);
        }
        if result == Err(DropReason::BadHandshakeAck) {
            self.push_reset(now, segment);
        }
        result
    }

    fn pass_to_time_wait<S: PayloadStore>(
        &mut self,
        now: Instant,
        (index, hash): (u32, FlowHash),
        segment: &Segment<'_>,
        store: &mut S,
    ) -> Result<(), DropReason> {
        let Some(pair) = self.time_wait.get(index) else {
            debug_assert!(false, "the flow table names an empty slot");
            return Err(DropReason::NoListener);
        };
        let answer = pair.on_segment(segment);
        let acknowledgement = pair.acknowledgement(now);
        match answer {
            Answer::Ignore => {}
            Answer::Acknowledge => {
                let answered_at = pair.answered_at;
                if self.push_challenge(now, segment, acknowledgement, answered_at) {
                    self.time_wait.note_answered(now, index);
                }
            }
            Answer::AcknowledgeAndRestart => {
                self.time_wait.restart(now, index);
                self.push_answer(segment, acknowledgement);
            }
            Answer::TakeOver => {
                let least = pair.least_successor();
                let reuse = Some((index, least));
                return self.pass_to_listener(now, hash, segment, reuse, store);
            }
        }
        Err(DropReason::TimeWait)
    }

    /// Refuses what no handshake may begin with.
    pub(super) fn check_endpoints(segment: &Segment<'_>) -> Result<(), DropReason> {
        let src = SocketAddr::new(segment.src, segment.tcp.src_port);
        let dst = SocketAddr::new(segment.dst, segment.tcp.dst_port);
        if !is_endpoint(src) || !is_endpoint(dst) || src == dst {
            return Err(DropReason::BadAddress);
        }
        if segment.tcp.flags.contains(Flags::SYN | Flags::RST) {
            return Err(DropReason::BadFlags);
        }
        Ok(())
    }
}
