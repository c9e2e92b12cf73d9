//! One direction of a wire: which frames go on, how they look then, and when.
//!
//! A frame first takes its bandwidth, then meets its fate, then travels for the delay. The delay is
//! the same for all, so what travels is a queue; who is held back joins it behind those who overtake
//! him.

use std::collections::VecDeque;
use std::time::Duration;

use netdev::faults::{Fate, FaultPlan, Reorder, damage};
use wire::ethernet::HEADER_LEN;

use super::{Passed, Wire};

/// Buffers kept to be used again.
const SPARE: usize = 4096;

/// One direction. Times count from any beginning.
#[derive(Debug)]
pub(super) struct Lane {
    wire: Wire,
    plan: FaultPlan,
    held: Reorder<Vec<u8>>,
    /// When the last frame came.
    entered: Duration,
    /// When the last bit of what came so far is on its way.
    free_at: Duration,
    /// On their way, each with the time at which it arrives.
    travelling: VecDeque<(Duration, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    pub(super) passed: Passed,
}

impl Lane {
    pub(super) fn new(wire: Wire, seed: u64) -> Self {
        Self {
            wire,
            plan: FaultPlan::new(wire.faults, seed),
            held: Reorder::default(),
            entered: Duration::ZERO,
            free_at: Duration::ZERO,
            travelling: VecDeque::new(),
            spare: Vec::new(),
            passed: Passed::default(),
        }
    }

    /// A frame comes, at `now` or, if that is earlier, when the one before it came.
    pub(super) fn enter(&mut self, now: Duration, frame: &[u8]) {
        self.entered = self.entered.max(now);
        let now = self.entered;
        self.passed.received += 1;
        let exempt = !is_tcp(frame);
        let sent_at = match self.send(now, frame.len()) {
            None if !exempt => {
                self.passed.overflowed += 1;
                return;
            }
            sent_at => sent_at.unwrap_or(now),
        };
        let due = sent_at + self.wire.delay;
        let fate = if exempt {
            Fate::Deliver
        } else {
            self.plan.next_fate()
        };
        let mut copy = match fate {
            // It has taken its bandwidth.
            Fate::Lose => {
                self.passed.lost += 1;
                return;
            }
            _ => self.copy(frame),
        };
        match fate {
            Fate::HoldBack(distance) => {
                self.passed.held_back += 1;
                self.held.hold(distance, copy);
                return;
            }
            Fate::Duplicate => {
                self.passed.duplicated += 1;
                let again = self.copy(frame);
                self.travelling.push_back((due, again));
            }
            Fate::Damage(number) => {
                self.passed.damaged += u64::from(damage(&mut copy, HEADER_LEN, number));
            }
            Fate::Deliver | Fate::Lose => {}
        }
        self.travelling.push_back((due, copy));
        let travelling = &mut self.travelling;
        self.held.passed(|held| travelling.push_back((due, held)));
    }

    /// When the last bit of a frame is on its way; `None` if there is no room for it to wait.
    fn send(&mut self, now: Duration, length: usize) -> Option<Duration> {
        let Some(bandwidth) = self.wire.bandwidth else {
            return Some(now);
        };
        let time = |bytes: usize| {
            let bits = (bytes as u64).saturating_mul(8);
            Duration::from_secs_f64(bits as f64 / bandwidth.max(1) as f64)
        };
        let begin = self.free_at.max(now);
        if begin - now > time(self.wire.queue.min(u32::MAX as usize)) {
            return None;
        }
        self.free_at = begin + time(length);
        Some(self.free_at)
    }

    fn copy(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(frame);
        copy
    }

    /// Whether frames wait for others to overtake them.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Lets go of what is held back: nothing comes that could overtake it.
    pub(super) fn release(&mut self, now: Duration) {
        let due = now + self.wire.delay;
        let due = self.travelling.back().map_or(due, |last| last.0.max(due));
        let travelling = &mut self.travelling;
        self.held.flush(|held| travelling.push_back((due, held)));
    }

    /// When the next frame arrives.
    pub(super) fn next_arrival(&self) -> Option<Duration> {
        self.travelling.front().map(|(due, _)| *due)
    }

    /// The frames that have arrived by now, up to `most` of them.
    pub(super) fn arrived(&self, now: Duration, most: usize) -> Vec<&[u8]> {
        self.travelling
            .iter()
            .take(most)
            .take_while(|(due, _)| *due <= now)
            .map(|(_, frame)| frame.as_slice())
            .collect()
    }

    /// The first `count` of them have been handed on, or, if `lost`, could not be.
    pub(super) fn leave(&mut self, now: Duration, count: usize, lost: bool) {
        for (due, frame) in self.travelling.drain(..count) {
            if lost {
                self.passed.overrun += 1;
            } else {
                self.passed.sent += 1;
                self.passed.lateness += now.saturating_sub(due);
            }
            if self.spare.len() < SPARE {
                self.spare.push(frame);
            }
        }
    }
}

/// Whether a frame without tags holds TCP. (IPv6 with extension headers passes for something else.)
fn is_tcp(frame: &[u8]) -> bool {
    const TCP: u8 = 6;
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(23) == Some(&TCP),
        Some([0x86, 0xdd]) => frame.get(20) == Some(&TCP),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netdev::faults::Faults;

    /// A TCP segment in IPv4, as far as it matters here.
    fn segment(number: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![0; length];
        frame[12] = 0x08;
        frame[23] = 6;
        frame[length - 1] = number;
        frame
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn frames_take_their_bandwidth_and_then_travel() {
        // A byte a microsecond.
        let wire = Wire {
            delay: 25 * MS,
            bandwidth: Some(8_000_000),
            queue: 2_500,
            ..Wire::PERFECT
        };
        let mut lane = Lane::new(wire, 1);
        for number in 0..5 {
            lane.enter(MS, &segment(number, 1_000));
        }
        // Three frames are more than may wait.
        assert_eq!((lane.passed.received, lane.passed.overflowed), (5, 2));
        assert_eq!(lane.next_arrival(), Some(27 * MS));
        assert_eq!(lane.arrived(26 * MS, 9).len(), 0);
        assert_eq!(lane.arrived(28 * MS, 9).len(), 2);
        lane.leave(28 * MS, 2, false);
        assert_eq!(lane.passed.lateness, MS);
        assert_eq!(lane.next_arrival(), Some(29 * MS));
        // What is not TCP waits like everything else, but is never lost.
        let mut arp = segment(9, 1_000);
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        lane.enter(MS, &arp);
        assert_eq!(lane.passed.overflowed, 2);
        assert_eq!(lane.travelling.len(), 2);
    }

    #[test]
    fn what_is_received_late_takes_its_bandwidth_from_when_it_came() {
        // A byte a microsecond.
        let wire = Wire {
            delay: 25 * MS,
            bandwidth: Some(8_000_000),
            queue: 1_000,
            ..Wire::PERFECT
        };
        let mut lane = Lane::new(wire, 1);
        // All received at once, each has come when the one before it was gone.
        for came in [1, 2, 3] {
            lane.enter(came * MS, &segment(0, 1_000));
        }
        assert_eq!(lane.passed.overflowed, 0);
        // What seems to have come before it, by another core's clock, has not.
        lane.enter(2 * MS, &segment(0, 1_000));
        let times: Vec<Duration> = lane.travelling.iter().map(|(due, _)| *due).collect();
        assert_eq!(times, [27 * MS, 28 * MS, 29 * MS, 30 * MS]);
    }

    #[test]
    fn who_is_held_back_arrives_behind_those_who_overtake_him() {
        let faults = Faults {
            reorder: 0.3,
            reorder_distance: 2,
            ..Faults::NONE
        };
        let wire = Wire {
            faults,
            delay: 5 * MS,
            ..Wire::PERFECT
        };
        let mut lane = Lane::new(wire, 3);
        for number in 0..100 {
            lane.enter(u32::from(number) * MS, &segment(number, 60));
        }
        lane.release(100 * MS);
        assert!(!lane.holds());
        let times: Vec<Duration> = lane.travelling.iter().map(|(due, _)| *due).collect();
        assert!(times.is_sorted());
        let mut order: Vec<u8> = lane.arrived(200 * MS, 200).iter().map(|f| f[59]).collect();
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<u8>>());
    }

    #[test]
    fn every_frame_is_accounted_for() {
        let faults = Faults {
            loss: 0.1,
            duplication: 0.1,
            reorder: 0.1,
            reorder_distance: 3,
            burst: 0.02,
            burst_length: 4,
            corruption: 0.1,
        };
        let mut lane = Lane::new(faults.into(), 5);
        let frame = segment(0, 60);
        for _ in 0..1_000 {
            lane.enter(MS, &frame);
        }
        lane.release(MS);
        let count = lane.travelling.len();
        let damaged = lane.travelling.iter().filter(|(_, f)| *f != frame).count();
        lane.leave(MS, count, false);
        let Passed {
            received,
            sent,
            lost,
            duplicated,
            ..
        } = lane.passed;
        assert_eq!(received + duplicated, sent + lost);
        assert_eq!(lane.passed.damaged, damaged as u64);
        for count in [lost, duplicated, lane.passed.held_back, lane.passed.damaged] {
            assert!(count > 50, "{}", lane.passed);
        }
    }
}
