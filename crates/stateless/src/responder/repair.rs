//! Responses of several segments that are not acknowledged yet, so that a segment that is lost can
//! be sent again.
//!
//! A response of one segment needs no memory: the client repeats its request until it has it. The
//! first segment of several acknowledges the request, so the client never repeats it, and who could
//! say what a gap behind it held? So the request is kept until the whole response is acknowledged;
//! what is sent again is computed from it again. The table is bounded: what does not fit any more is
//! forgotten, oldest first, and those connections are as good as the network is.
//!
//! Recovery is NewReno's (RFC 6582): the third duplicate acknowledgement, or silence for
//! [`PATIENCE_NS`], brings the first segment that is missing, and each acknowledgement that does not
//! reach the end brings the next.

use std::collections::{HashMap, VecDeque};

/// Most responses that are remembered: with their requests, some 8 MB.
pub const MOST: usize = 4096;

/// Nanoseconds of silence after which something is sent again; they double with each attempt.
const PATIENCE_NS: u64 = 200_000_000;

/// Attempts without an answer, after which the response is forgotten.
const ATTEMPTS: u32 = 6;

/// Duplicate acknowledgements that show a loss (RFC 5681, 3.2).
const DUPLICATES: u32 = 3;

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The number of the client's that follows its request.
    pub next: u32,
    /// Ours before the response.
    pub start: u32,
    /// How far the response reaches, its FIN included.
    pub length: u32,
}

#[derive(Debug)]
struct Burst {
    frame: Box<[u8]>,
    span: Span,
    /// How much of it is acknowledged.
    acknowledged: u32,
    /// Up to here, acknowledgements that do not reach the end show another loss.
    recover: u32,
    duplicates: u32,
    attempts: u32,
    due_ns: u64,
    /// Which of the entries in `order` is this one's.
    number: u64,
}

/// What an acknowledgement asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It is of no response here, or acknowledges all of it: what else it says is to be seen.
    Nothing,
    /// It says how far the response has come.
    Progress,
    /// The segment of the response at this place is missing; the request is given.
    Resend(Box<[u8]>, u32),
}

/// The table.
#[derive(Debug, Default)]
pub struct Repairs {
    bursts: HashMap<u64, Burst>,
    /// Those of the table, and some that are not any more, oldest first.
    order: VecDeque<(u64, u64)>,
    number: u64,
    /// Before this nothing is due.
    next_ns: Option<u64>,
    /// Responses that were forgotten before all was acknowledged.
    pub forgotten: u64,
}

impl Repairs {
    /// Remembers what was sent to the flow of this hash in answer to a frame.
    pub fn remember(&mut self, flow: u64, frame: &[u8], span: Span, now_ns: u64) {
        while self.bursts.len() >= MOST && !self.bursts.contains_key(&flow) {
            let Some((oldest, number)) = self.order.pop_front() else {
                break;
            };
            let is_there = |burst: &Burst| burst.number == number;
            if self.bursts.get(&oldest).is_some_and(is_there) {
                self.bursts.remove(&oldest);
                self.forgotten += 1;
            }
        }
        if self.order.len() >= 2 * MOST {
            let bursts = &self.bursts;
            self.order
                .retain(|(flow, number)| bursts.get(flow).is_some_and(|b| b.number == *number));
        }
        self.number += 1;
        self.order.push_back((flow, self.number));
        let due_ns = now_ns + PATIENCE_NS;
        self.expect(due_ns);
        self.bursts.insert(
            flow,
            Burst {
                frame: frame.into(),
                span,
                acknowledged: 0,
                recover: 0,
                duplicates: 0,
                attempts: 0,
                due_ns,
                number: self.number,
            },
        );
    }

    fn expect(&mut self, due_ns: u64) {
        self.next_ns = Some(self.next_ns.map_or(due_ns, |next| next.min(due_ns)));
    }

    /// The connection is over.
    pub fn forget(&mut self, flow: u64) {
        self.bursts.remove(&flow);
    }

    /// A segment without payload came: with these numbers, `fin` if it ends the client's side.
    pub fn on_acknowledgement(
        &mut self,
        flow: u64,
        (seq, ack): (u32, u32),
        fin: bool,
        now_ns: u64,
    ) -> Step {
        let Some(burst) = self.bursts.get_mut(&flow) else {
            return Step::Nothing;
        };
        let reached = ack.wrapping_sub(burst.span.start);
        if seq != burst.span.next || reached > burst.span.length {
            return Step::Nothing;
        }
        if reached == burst.span.length {
            self.bursts.remove(&flow);
            return Step::Nothing;
        }
        if fin {
            return Step::Nothing;
        }
        if reached > burst.acknowledged {
            burst.acknowledged = reached;
            burst.duplicates = 0;
            burst.attempts = 0;
            burst.due_ns = now_ns + PATIENCE_NS;
            if reached >= burst.recover {
                return Step::Progress;
            }
        } else {
            burst.duplicates += u32::from(reached == burst.acknowledged);
            if burst.duplicates != DUPLICATES || reached < burst.recover {
                return Step::Progress;
            }
            burst.recover = burst.span.length;
        }
        Step::Resend(burst.frame.clone(), reached)
    }

    /// When something is due, in nanoseconds of the caller's clock; `None` if nothing is.
    pub fn next_ns(&self) -> Option<u64> {
        self.next_ns.filter(|_| !self.bursts.is_empty())
    }

    /// The responses of which nothing was heard for too long: each request, and the place in the
    /// response that is missing.
    pub fn due(&mut self, now_ns: u64) -> Vec<(Box<[u8]>, u32)> {
        let mut due = Vec::new();
        if self.next_ns().is_none_or(|next| next > now_ns) {
            return due;
        }
        let mut given_up = Vec::new();
        let mut next = None;
        for (flow, burst) in &mut self.bursts {
            if burst.due_ns <= now_ns {
                if burst.attempts >= ATTEMPTS {
                    given_up.push(*flow);
                    continue;
                }
                burst.attempts += 1;
                burst.duplicates = 0;
                burst.recover = burst.span.length;
                burst.due_ns = now_ns + (PATIENCE_NS << burst.attempts);
                due.push((burst.frame.clone(), burst.acknowledged));
            }
            next = Some(next.map_or(burst.due_ns, |next: u64| next.min(burst.due_ns)));
        }
        self.forgotten += given_up.len() as u64;
        for flow in given_up {
            self.bursts.remove(&flow);
        }
        self.next_ns = next;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span {
        next: 500,
        start: u32::MAX - 99,
        length: 5000,
    };

    fn ack(repairs: &mut Repairs, reached: u32) -> Step {
        let number = SPAN.start.wrapping_add(reached);
        repairs.on_acknowledgement(7, (SPAN.next, number), false, 0)
    }

    fn resend(at: u32) -> Step {
        Step::Resend(b"GET"[..].into(), at)
    }

    #[test]
    fn the_third_duplicate_brings_what_is_missing_and_then_one_gap_after_the_other() {
        let mut repairs = Repairs::default();
        repairs.remember(7, b"GET", SPAN, 0);
        assert_eq!(ack(&mut repairs, 1000), Step::Progress);
        assert_eq!(ack(&mut repairs, 1000), Step::Progress);
        assert_eq!(ack(&mut repairs, 1000), Step::Progress);
        assert_eq!(ack(&mut repairs, 1000), resend(1000));
        // More of the same in the same recovery bring nothing; a partial one the next gap.
        assert_eq!(ack(&mut repairs, 1000), Step::Progress);
        assert_eq!(ack(&mut repairs, 500), Step::Progress, "an old one");
        assert_eq!(ack(&mut repairs, 3000), resend(3000));
        assert_eq!(ack(&mut repairs, 5000), Step::Nothing);
        assert_eq!(ack(&mut repairs, 5000), Step::Nothing);
        assert_eq!((repairs.next_ns(), repairs.forgotten), (None, 0));
    }

    #[test]
    fn silence_brings_it_later_and_later_and_not_for_ever() {
        let mut repairs = Repairs::default();
        repairs.remember(7, b"GET", SPAN, 0);
        assert_eq!(repairs.next_ns(), Some(PATIENCE_NS));
        assert!(repairs.due(PATIENCE_NS - 1).is_empty());
        let mut now = 0;
        for attempt in 0..ATTEMPTS {
            now += PATIENCE_NS << attempt;
            assert!(repairs.due(now - 1).is_empty());
            assert_eq!(repairs.due(now), [(b"GET"[..].into(), 0)]);
        }
        assert_eq!(repairs.due(now + (PATIENCE_NS << ATTEMPTS)), []);
        assert_eq!((repairs.forgotten, repairs.next_ns()), (1, None));
    }

    #[test]
    fn what_was_heard_puts_off_what_is_due_and_what_is_missing_follows_at_once() {
        let mut repairs = Repairs::default();
        repairs.remember(7, b"GET", SPAN, 0);
        let heard = (SPAN.next, SPAN.start.wrapping_add(10));
        let step = repairs.on_acknowledgement(7, heard, false, PATIENCE_NS / 2);
        assert_eq!(step, Step::Progress);
        assert!(repairs.due(PATIENCE_NS).is_empty());
        assert_eq!(repairs.due(PATIENCE_NS * 3 / 2).len(), 1);
        assert_eq!(ack(&mut repairs, 1500), resend(1500));
    }

    #[test]
    fn others_numbers_and_the_clients_end_are_none_of_its_business() {
        let mut repairs = Repairs::default();
        repairs.remember(7, b"GET", SPAN, 0);
        let at = |reached: u32| SPAN.start.wrapping_add(reached);
        for (flow, seq, number, fin) in [
            (8, SPAN.next, at(10), false),
            (7, SPAN.next - 1, at(10), false),
            (7, SPAN.next, at(5001), false),
            (7, SPAN.next, at(10), true),
        ] {
            let step = repairs.on_acknowledgement(flow, (seq, number), fin, 0);
            assert_eq!(step, Step::Nothing);
        }
        repairs.forget(7);
        assert_eq!(ack(&mut repairs, 10), Step::Nothing);
    }

    #[test]
    fn the_oldest_is_forgotten_when_there_are_too_many() {
        let mut repairs = Repairs::default();
        for flow in 0..2 * MOST as u64 {
            repairs.remember(flow, b"GET", SPAN, 0);
            // A second response on the same flow takes the place of the first.
            repairs.remember(flow, b"GET", SPAN, 0);
        }
        assert_eq!(repairs.bursts.len(), MOST);
        assert_eq!(repairs.forgotten, MOST as u64);
        assert!(repairs.order.len() <= 2 * MOST);
        assert!(!repairs.bursts.contains_key(&(MOST as u64 - 1)));
        assert!(repairs.bursts.contains_key(&(MOST as u64)));
    }
}
