use super::*;
use core::time::Duration;

/// What a segment's numbers are, told one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Byte {
    Flying,
    Lost,
    Retransmitted,
    Sacked,
}

/// The plain way: a byte a number, from `una` on.
struct Model {
    una: u32,
    bytes: Vec<(Byte, Instant)>,
}

impl Model {
    fn count(&self, which: Byte) -> u32 {
        self.bytes.iter().filter(|(byte, _)| *byte == which).count() as u32
    }
}

fn check(o: &mut Outstanding, m: &Model) {
    assert_eq!(o.audit(o.una, o.max), Ok(()));
    let flying = |hole: &&Hole| hole.state == State::Flying;
    let first_flying = o.holes.iter().find(flying);
    assert!(first_flying.is_none_or(|hole| o.first_flying.at_or_before(hole.left)));
    let first_lost = o.holes.iter().find(|hole| hole.state == State::Lost);
    assert_eq!(
        o.next_lost(),
        first_lost.map(|hole| (hole.left, hole.len()))
    );
    let times = o.retransmissions.iter().map(|then| then.at);
    assert!(times.is_sorted());
    let len = m.bytes.len() as u32;
    assert_eq!(o.una, SeqNumber(m.una));
    assert_eq!(o.max.distance_from(o.una) as u32, len);
    assert_eq!(o.lost(), m.count(Byte::Lost));
    assert_eq!(o.sacked(), m.count(Byte::Sacked));
    assert_eq!(o.retransmitted(), m.count(Byte::Retransmitted));
    assert_eq!(o.pipe(), len - m.count(Byte::Lost) - m.count(Byte::Sacked));
    let first = m.bytes.iter().position(|(byte, _)| *byte == Byte::Lost);
    let next = o.next_lost();
    assert_eq!(
        next.map(|(seq, _)| seq),
        first.map(|at| SeqNumber(m.una) + at as u32)
    );
    if let (Some((_, len)), Some(first)) = (next, first) {
        let all = &m.bytes[first..first + len as usize];
        assert!(len > 0 && all.iter().all(|(byte, _)| *byte == Byte::Lost));
    }
}

/// Whatever happens in whatever order, the holes tell what counting byte by byte tells.
#[test]
fn holes_tell_what_counting_bytes_tells() {
    let mut seed = 7_u64;
    let mut below = |n: usize| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n.max(1)
    };
    // One record, as connections use it one after the other.
    let mut o = Outstanding::default();
    for round in 0..400_u32 {
        // Numbers wrap in some rounds.
        let start = match round % 4 {
            3 => round.wrapping_mul(0x9e37_79b9),
            near => u32::MAX - near * 40,
        };
        o.restart(SeqNumber(start));
        let mut m = Model {
            una: start,
            bytes: Vec::new(),
        };
        let mut now = Instant::from_secs(1);
        for _ in 0..80 {
            now += Duration::from_millis(below(3) as u64);
            let len = m.bytes.len();
            let seq = |at: usize| SeqNumber(m.una) + at as u32;
            match below(9) {
                0..=2 => {
                    for _ in 0..1 + below(20) {
                        m.bytes.push((Byte::Flying, now));
                    }
                    o.push(SeqNumber(m.una) + m.bytes.len() as u32, now, Nanos::ZERO);
                }
                3 => {
                    let to = below(len + 1);
                    let inside = to < len && m.bytes[to].0 == Byte::Sacked;
                    let mut news = 0;
                    let broken = o.acknowledge(seq(to), |piece| news += piece.len);
                    let gone = m.bytes.drain(..to).filter(|(b, _)| *b != Byte::Sacked);
                    assert_eq!(news, gone.count() as u32);
                    m.una = m.una.wrapping_add(to as u32);
                    assert_eq!(broken, inside);
                    if broken {
                        let end = o.scoreboard_end.distance_from(o.una) as usize;
                        o.on_reneging();
                        m.bytes[..end].fill((Byte::Lost, now));
                    }
                }
                4 | 5 if len > 1 => {
                    let left = 1 + below(len - 1);
                    let right = left + 1 + below(len - left);
                    let mut news = 0;
                    let block = SackBlock {
                        left: seq(left),
                        right: seq(right),
                    };
                    o.sack(block, |piece| news += piece.len);
                    for (byte, _) in &mut m.bytes[left..right] {
                        news -= u32::from(*byte != Byte::Sacked);
                        *byte = Byte::Sacked;
                    }
                    assert_eq!(news, 0);
                }
                8 => {
                    // Everything that was sent until `latest` and longer than `patience` ago. In the
                    // moment itself it tells of its own kind alone.
                    let at = Instant::from_millis(now.as_millis() - below(6) as u64);
                    let patience = Nanos::from_millis(below(8) as u32);
                    let retransmitted = below(2) == 1;
                    let latest = Sent {
                        at,
                        retransmitted,
                        end: o.max + 1,
                    };
                    let found = o.detect(latest, patience, now);
                    let mut again = None;
                    let mut late = false;
                    for (byte, sent) in &mut m.bytes {
                        let out = matches!(byte, Byte::Flying | Byte::Retransmitted);
                        let other_kind = (*byte == Byte::Retransmitted) != retransmitted;
                        if !out || *sent > at || (*sent == at && other_kind) {
                            continue;
                        }
                        if *sent + patience > now {
                            late = true;
                            continue;
                        }
                        if *byte == Byte::Retransmitted {
                            again = again.max(Some(*sent));
                        }
                        *byte = Byte::Lost;
                    }
                    assert_eq!((found.again, found.due.is_some()), (again, late));
                    assert!(found.due.is_none_or(|due| due > now));
                }
                6 => {
                    let to = below(len + 1);
                    o.lose_below(seq(to));
                    for (byte, _) in &mut m.bytes[..to] {
                        if *byte != Byte::Sacked {
                            *byte = Byte::Lost;
                        }
                    }
                }
                _ => {
                    if let Some((left, len)) = o.next_lost() {
                        let len = 1 + below(len as usize) as u32;
                        o.retransmit(left, left + len, now);
                        let at = left.distance_from(SeqNumber(m.una)) as usize;
                        m.bytes[at..at + len as usize].fill((Byte::Retransmitted, now));
                    }
                }
            }
            check(&mut o, &m);
        }
        let latest = Sent {
            at: now + Duration::from_millis(1),
            retransmitted: true,
            end: o.max + 1,
        };
        o.detect(latest, Nanos::ZERO, now + Duration::from_secs(1));
        for (byte, _) in &mut m.bytes {
            if *byte != Byte::Sacked {
                *byte = Byte::Lost;
            }
        }
        check(&mut o, &m);
        o.find_again();
        assert_eq!(o.lost(), 0);
    }
}

#[test]
fn a_peer_cannot_make_it_grow_without_bound() {
    let mut o = Outstanding::default();
    o.restart(SeqNumber(0));
    let mut now = Instant::ZERO;
    for i in 1..=10_000_u32 {
        now += Duration::from_micros(1);
        o.push(SeqNumber(i * 10), now, Nanos::ZERO);
    }
    assert!(o.sendings.len() <= MAX_SENDINGS);
    for i in (0..10_000_u32).step_by(2) {
        let block = SackBlock {
            left: SeqNumber(i * 10 + 1),
            right: SeqNumber(i * 10 + 2),
        };
        o.sack(block, |_| ());
    }
    o.lose_below(o.max);
    while let Some((left, len)) = o.next_lost() {
        now += Duration::from_micros(1);
        o.retransmit(left, left + len.min(3), now);
    }
    assert!(o.holes.len() <= 3 * MAX_HOLES, "{}", o.holes.len());
}

/// A window of 100 MB of which every other segment is lost, and then every other retransmission.
#[test]
fn the_holes_of_a_large_window_are_all_remembered() {
    const SEGMENTS: u32 = 70_000;
    const MSS: u32 = 1_448;
    let mut o = Outstanding::default();
    o.restart(SeqNumber(0));
    let at = |i: u32| Instant::from_micros(1_000_000 + u64::from(i));
    for i in 1..=SEGMENTS {
        o.push(SeqNumber(i * MSS), at(i), Nanos::from_micros(200));
    }
    for i in (1..SEGMENTS).step_by(2) {
        let (left, right) = (SeqNumber(i * MSS), SeqNumber((i + 1) * MSS));
        o.sack(SackBlock { left, right }, |_| ());
        let latest = Sent {
            at: at(i + 1),
            retransmitted: false,
            end: right,
        };
        o.detect(latest, Nanos::ZERO, at(SEGMENTS + i));
    }
    assert_eq!(o.sacked(), SEGMENTS / 2 * MSS);
    // All but what left together with the last that arrived.
    assert!(o.lost() > (SEGMENTS / 2 - 200) * MSS, "{}", o.lost());
    assert!(o.holes.len() <= o.max_holes(), "{}", o.holes.len());
    let mut sent = 0;
    while let Some((left, len)) = o.next_lost() {
        sent += 1;
        o.retransmit(left, left + len.min(MSS), at(2 * SEGMENTS + sent));
    }
    let before = o.sacked();
    for i in (0..SEGMENTS / 4 * 2).step_by(4) {
        let (left, right) = (SeqNumber(i * MSS), SeqNumber((i + 1) * MSS));
        if left != o.una {
            o.sack(SackBlock { left, right }, |_| ());
        }
    }
    assert!(o.sacked() >= before + (SEGMENTS / 8 - 1) * MSS);
    let latest = Sent {
        at: at(2 * SEGMENTS + sent),
        retransmitted: true,
        end: o.max,
    };
    let found = o.detect(latest, Nanos::ZERO, at(4 * SEGMENTS));
    assert!(found.again.is_some());
    assert_eq!(o.pipe() + o.sacked() + o.lost(), SEGMENTS * MSS);
    assert!(o.lost() >= (SEGMENTS / 4) * MSS);
}

#[test]
fn what_left_together_has_one_time() {
    let mut o = Outstanding::default();
    o.restart(SeqNumber(0));
    let grain = Nanos::from_micros(100);
    for (end, micros) in [(10, 0), (20, 60), (30, 100), (40, 120), (50, 220)] {
        o.push(SeqNumber(end), Instant::from_micros(micros), grain);
    }
    let times: Vec<_> = o.sendings.iter().map(|s| s.at.as_micros()).collect();
    assert_eq!(times, [0, 120]);
}

//~ RFC 8985 §6.2
#[test]
fn the_arrival_of_what_was_sent_again_says_nothing_of_new_data_that_followed_it() {
    let micros = |n: u64| Instant::from_nanos(n * 1_000);
    let grain = Nanos::from_millis(1);
    let mut o = Outstanding::default();
    o.restart(SeqNumber(0));
    o.push(SeqNumber(2_000), micros(1_000), grain);
    let second = SackBlock {
        left: SeqNumber(1_000),
        right: SeqNumber(2_000),
    };
    o.sack(second, |_| {});
    let latest = |at: u64, retransmitted: bool, end: u32| Sent {
        at: micros(at),
        retransmitted,
        end: SeqNumber(end),
    };
    o.detect(latest(1_000, false, 2_000), Nanos::ZERO, micros(99_900));
    assert_eq!(o.next_lost(), Some((SeqNumber(0), 1_000)));
    // Something new leaves a little before it is sent again, and more in that moment and a little later.
    o.push(SeqNumber(2_500), micros(99_900), grain);
    o.retransmit(SeqNumber(0), SeqNumber(1_000), micros(100_000));
    o.push(SeqNumber(3_000), micros(100_000), grain);
    o.push(SeqNumber(4_000), micros(100_100), grain);
    o.acknowledge(SeqNumber(2_000), |_| {});
    let patience = Nanos::from_millis(100);
    o.detect(latest(100_000, true, 1_000), patience, micros(200_000));
    // What had left before has been overtaken.
    assert_eq!(o.next_lost(), Some((SeqNumber(2_000), 500)));
    assert_eq!(o.lost(), 500);
}
