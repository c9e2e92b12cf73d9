//! Rings and areas against the plainest things that do the same: a `VecDeque` and a `Vec`.
#![cfg(not(loom))]

use proptest::collection::vec;
use proptest::prelude::*;
use queue_pair::region;
use queue_pair::{
    Area, Completion, ConnRef, EngineSide, HostSide, Layout, Sizes, Submission, Violation,
};
use std::collections::VecDeque;
use std::net::SocketAddr;

const ENTRIES: u32 = 8;
const AREA: usize = 4096;

fn sides() -> (EngineSide, HostSide) {
    let sizes = Sizes {
        submission_entries: ENTRIES,
        completion_entries: ENTRIES,
        positions: 8,
        send_len: AREA as u64,
        receive_len: AREA as u64,
    };
    region::on_heap(&Layout::new(sizes).unwrap()).unwrap()
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        // miri is some thousand times slower, and has no files.
        cases: if cfg!(miri) { 2 } else { cases },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Post a completion of one entry, or of two.
    Post {
        two: bool,
    },
    Publish,
    Take,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<bool>().prop_map(|two| Step::Post { two }),
        2 => Just(Step::Publish),
        4 => Just(Step::Take),
        2 => Just(Step::Release),
    ]
}

/// The completion number `i`.
fn completion(i: u64, two: bool) -> Completion {
    let conn = ConnRef::from_word(i);
    let local: SocketAddr = "192.0.2.1:80".parse().unwrap();
    if two {
        Completion::Opened {
            token: i,
            conn,
            grant: 1,
            local,
        }
    } else {
        Completion::Update {
            conn,
            addr: i,
            len: i as u32,
            acked: !i,
            peer_closed: i.is_multiple_of(2),
        }
    }
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn a_ring_is_a_bounded_queue_with_batches(steps in vec(step(), 1..200)) {
        let (mut engine, mut host) = sides();
        let (producer, consumer) = (&mut engine.completions, &mut host.completions);
        // What was posted and not published, published and not taken; entries taken and not
        // released.
        let mut posted = VecDeque::new();
        let mut published = VecDeque::new();
        let mut unreleased = 0;
        let entries = |queue: &VecDeque<Completion>| -> u32 {
            queue.iter().map(|c| 1 + u32::from(matches!(c, Completion::Opened { .. }))).sum()
        };
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Post { two } => {
                    let next = completion(i as u64, two);
                    let used = entries(&posted) + entries(&published) + unreleased;
                    let fits = used + 1 + u32::from(two) <= ENTRIES;
                    prop_assert_eq!(producer.post(&next), Ok(fits));
                    if fits {
                        posted.push_back(next);
                    }
                }
                Step::Publish => {
                    prop_assert_eq!(producer.has_unpublished(), !posted.is_empty());
                    producer.publish();
                    published.append(&mut posted);
                }
                Step::Take => {
                    prop_assert_eq!(consumer.is_empty(), Ok(published.is_empty()));
                    let expected = published.pop_front();
                    if let Some(taken) = &expected {
                        unreleased += 1 + u32::from(matches!(taken, Completion::Opened { .. }));
                    }
                    prop_assert_eq!(consumer.take(), Ok(expected));
                }
                Step::Release => {
                    consumer.release();
                    unreleased = 0;
                }
            }
        }
    }

    #[test]
    fn an_area_is_bytes(
        writes in vec((0..AREA as u64 + 64, vec(any::<u8>(), 0..600)), 1..20),
        reads in vec((0..AREA as u64 + 64, 0..600usize), 1..20),
    ) {
        let (engine, host) = sides();
        let mut model = vec![0u8; AREA];
        for (offset, bytes) in writes {
            let at = offset as usize;
            let done = host.send.copy_in(offset, &bytes);
            match model.get_mut(at..at + bytes.len()) {
                Some(place) => {
                    prop_assert_eq!(done, Ok(()));
                    place.copy_from_slice(&bytes);
                }
                None => prop_assert_eq!(done, Err(Violation::OutOfArea {
                    area: "send",
                    offset,
                    len: bytes.len() as u64,
                    size: AREA as u64,
                })),
            }
        }
        for (offset, len) in reads {
            let at = offset as usize;
            let mut out = vec![0xaa; len];
            let done = engine.send.copy_out(offset, &mut out);
            let mut summed = vec![0x55; len];
            let sum = engine.send.copy_out_sum(offset, &mut summed);
            let Some(expected) = model.get(at..at + len) else {
                prop_assert!(done.is_err() && sum.is_err());
                prop_assert!(out.iter().all(|byte| *byte == 0xaa), "written before the check");
                continue;
            };
            prop_assert_eq!(done, Ok(()));
            prop_assert_eq!(&out, expected);
            prop_assert_eq!(&summed, expected);
            prop_assert_eq!(sum, Ok(plain_sum(expected)));
        }
        // The other area is other memory.
        let mut receive = vec![1; AREA];
        host.receive.copy_out(0, &mut receive).unwrap();
        prop_assert_eq!(receive, vec![0; AREA]);
    }

    #[test]
    fn the_sum_is_that_of_rfc_1071(bytes in vec(any::<u8>(), 0..if cfg!(miri) { 700 } else { 9000 }), skip in 0..64usize) {
        let area = Area::private("test", 16384);
        area.copy_in(skip as u64, &bytes).unwrap();
        let mut out = vec![0; bytes.len()];
        let sum = area.copy_out_sum(skip as u64, &mut out).unwrap();
        prop_assert_eq!(sum, plain_sum(&bytes));
        prop_assert_eq!(out, bytes);
    }
}

/// RFC 1071, section 1, as it is written there.
fn plain_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The largest sums that can be: nothing is lost to a carry.
#[test]
fn the_sum_carries() {
    let area = Area::private("test", 1 << 16);
    let mut out = vec![0; 1 << 16];
    // Under miri every byte costs a microsecond.
    let longest = if cfg!(miri) { 1448 } else { 1 << 16 };
    for len in [2, 1448, 4096, 65535, 65536] {
        if len > longest {
            break;
        }
        let bytes = vec![0xff; len];
        area.copy_in(0, &bytes).unwrap();
        let sum = area.copy_out_sum(0, &mut out[..len]).unwrap();
        assert_eq!(sum, plain_sum(&bytes), "{len} bytes");
    }
}

/// Indices wrap at 2³² while the ring is in use. (That many turns are out of reach for the public
/// interface, so this is the longest run that a test can afford: many times around the slots.)
#[test]
fn a_ring_goes_around_many_times() {
    let (mut engine, mut host) = sides();
    for i in 0..if cfg!(miri) { 100 } else { 100_000 } {
        let conn = ConnRef {
            index: i,
            generation: i,
        };
        let submission = Submission::Consumed {
            conn,
            total: i.into(),
        };
        assert_eq!(host.submissions.post(&submission), Ok(true));
        host.submissions.publish();
        assert_eq!(engine.submissions.take(), Ok(Some(submission)));
        engine.submissions.release();
    }
}

/// Two threads, payload in the area and descriptors in the ring: what miri and the sanitizers see
/// of the order between them.
#[test]
fn payload_comes_with_its_descriptor() {
    let (mut engine, mut host) = sides();
    let rounds: u32 = if cfg!(miri) { 40 } else { 20_000 };
    let slot = |i: u32| u64::from(i % ENTRIES) * 64;
    let conn = ConnRef {
        index: 1,
        generation: 1,
    };
    let writer = std::thread::spawn(move || {
        for i in 0..rounds {
            // The slot in the area is free once the ring has room for its next descriptor.
            while !host.submissions.has_room(1).unwrap() {
                std::thread::yield_now();
            }
            host.send.copy_in(slot(i), &[i as u8; 64]).unwrap();
            let addr = slot(i);
            let send = Submission::Send {
                conn,
                addr,
                len: 64,
                more: false,
                consumed: 0,
            };
            assert_eq!(host.submissions.post(&send), Ok(true));
            host.submissions.publish();
        }
    });
    let mut taken = 0;
    while taken < rounds {
        let Some(submission) = engine.submissions.take().unwrap() else {
            std::thread::yield_now();
            continue;
        };
        let Submission::Send { addr, len, .. } = submission else {
            panic!("{submission:?}")
        };
        let mut out = vec![0; len as usize];
        engine.send.copy_out(addr, &mut out).unwrap();
        assert_eq!(out, vec![taken as u8; 64]);
        engine.submissions.release();
        taken += 1;
    }
    writer.join().unwrap();
}
