//! Every interleaving, and every order of memory that the model permits, of the very code that
//! runs on shared memory:
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p outboard-queue-pair --test loom
//! ```
#![cfg(loom)]

use loom::model::Builder;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use queue_pair::Entry;
use queue_pair::armed::{Armed, Sleepers, Word};
use queue_pair::parked::{Found, News, Wants};
use queue_pair::ring::{Cells, Consumer, Producer};
use queue_pair::room::{Awaits, concerns, say};
use queue_pair::{bells, parked, position};

/// A ring on loom's heap.
#[derive(Clone)]
struct LoomCells(Arc<LoomRing>);

struct LoomRing {
    produced: AtomicU32,
    consumed: AtomicU32,
    slots: Vec<[AtomicU64; 4]>,
}

impl LoomCells {
    fn new(capacity: usize) -> Self {
        Self(Arc::new(LoomRing {
            produced: AtomicU32::new(0),
            consumed: AtomicU32::new(0),
            slots: (0..capacity)
                .map(|_| core::array::from_fn(|_| AtomicU64::new(0)))
                .collect(),
        }))
    }
}

impl Cells for LoomCells {
    fn capacity(&self) -> u32 {
        self.0.slots.len() as u32
    }
    fn produced(&self) -> &AtomicU32 {
        &self.0.produced
    }
    fn consumed(&self) -> &AtomicU32 {
        &self.0.consumed
    }
    fn slot(&self, slot: u32) -> &[AtomicU64; 4] {
        &self.0.slots[slot as usize]
    }
}

#[derive(Clone)]
struct LoomWord(Arc<AtomicU64>);

impl Word for LoomWord {
    fn word(&self) -> &AtomicU64 {
        &self.0
    }
}

fn entry(i: u64) -> Entry {
    [i, !i, i << 32, i * 3]
}

fn explore(test: impl Fn() + Sync + Send + 'static) {
    let mut model = Builder::new();
    // All executions with up to three preemptions: more than any known bug of such a ring needs,
    // and it keeps the run to seconds.
    model.preemption_bound = Some(3);
    model.check(test);
}

/// Entries come out whole and in their order while slots are written for the second time.
#[test]
fn a_ring_loses_and_tears_nothing() {
    explore(|| {
        let cells = LoomCells::new(2);
        let mut producer: Producer<Entry, _> = Producer::new(cells.clone());
        let mut consumer: Consumer<Entry, _> = Consumer::new(cells);
        let writer = thread::spawn(move || {
            let mut posted = 0;
            while posted < 3 {
                if producer.post(&entry(posted)).unwrap() {
                    posted += 1;
                    producer.publish();
                } else {
                    thread::yield_now();
                }
            }
        });
        let mut taken = 0;
        while taken < 3 {
            if let Some(found) = consumer.take().unwrap() {
                assert_eq!(found, entry(taken));
                taken += 1;
                consumer.release();
            } else {
                thread::yield_now();
            }
        }
        assert_eq!(consumer.take().unwrap(), None);
        writer.join().unwrap();
    });
}

/// A batch becomes visible at once, and what was not published not at all.
#[test]
fn a_batch_is_published_whole() {
    explore(|| {
        let cells = LoomCells::new(4);
        let mut producer: Producer<Entry, _> = Producer::new(cells.clone());
        let mut consumer: Consumer<Entry, _> = Consumer::new(cells);
        let writer = thread::spawn(move || {
            for i in 0..2 {
                assert!(producer.post(&entry(i)).unwrap());
            }
            producer.publish();
            assert!(producer.post(&entry(2)).unwrap());
        });
        if let Some(first) = consumer.take().unwrap() {
            assert_eq!(first, entry(0));
            assert_eq!(consumer.take().unwrap(), Some(entry(1)));
            assert_eq!(consumer.take().unwrap(), None);
        }
        writer.join().unwrap();
    });
}

/// Whoever finds nothing and sleeps is rung by whoever published.
#[test]
fn no_wake_up_is_lost() {
    explore(|| {
        let cells = LoomCells::new(2);
        let mut producer: Producer<Entry, _> = Producer::new(cells.clone());
        let mut consumer: Consumer<Entry, _> = Consumer::new(cells);
        let word = LoomWord(Arc::new(AtomicU64::new(0)));
        let armed = Armed::new(word.clone());
        let sleepers = Sleepers::new(word);
        let waker = thread::spawn(move || {
            assert!(producer.post(&entry(7)).unwrap());
            producer.publish();
            sleepers.take(bells::ALL)
        });
        armed.arm(5);
        let sleeps = consumer.is_empty().unwrap();
        let rung = waker.join().unwrap();
        assert!(rung == 0 || rung == 1 << 5);
        assert!(!sleeps || rung != 0, "asleep on work, and nobody rings");
    });
}

/// A sleeper that wakes by itself and sleeps again is not forgotten by a ring for its first sleep.
#[test]
fn arming_again_is_seen() {
    explore(|| {
        let cells = LoomCells::new(4);
        let mut producer: Producer<Entry, _> = Producer::new(cells.clone());
        let mut consumer: Consumer<Entry, _> = Consumer::new(cells);
        let word = LoomWord(Arc::new(AtomicU64::new(0)));
        let armed = Armed::new(word.clone());
        let sleepers = Sleepers::new(word);
        let waker = thread::spawn(move || {
            let mut rung = 0;
            for i in 0..2 {
                assert!(producer.post(&entry(i)).unwrap());
                producer.publish();
                rung += u32::from(sleepers.take(bells::ALL) != 0);
            }
            rung
        });
        let mut taken = 0;
        let mut slept = 0;
        for _ in 0..2 {
            armed.arm(0);
            if consumer.is_empty().unwrap() {
                slept += 1;
            }
            armed.disarm(0);
            while consumer.take().unwrap().is_some() {
                taken += 1;
            }
        }
        armed.arm(0);
        let sleeps_on_work = consumer.is_empty().unwrap() && taken < 2;
        let rung = waker.join().unwrap();
        // Asleep for good with work outstanding: then somebody must have rung.
        assert!(
            !sleeps_on_work || rung > 0,
            "slept {slept} times, took {taken}"
        );
    });
}

/// The same protocol without its fences loses the wake-up: the model can tell the difference.
#[test]
#[should_panic(expected = "asleep on work")]
fn without_fences_it_would_be_lost() {
    explore(|| {
        let work = Arc::new(AtomicU32::new(0));
        let word = Arc::new(AtomicU64::new(0));
        let waker = {
            let (work, word) = (work.clone(), word.clone());
            thread::spawn(move || {
                work.store(1, Ordering::Release);
                word.load(Ordering::Relaxed)
            })
        };
        word.fetch_or(1, Ordering::Relaxed);
        let sleeps = work.load(Ordering::Acquire) == 0;
        let rung = waker.join().unwrap();
        assert!(!sleeps || rung != 0, "asleep on work, and nobody rings");
    });
}

/// One fence alone does not do.
#[test]
#[should_panic(expected = "asleep on work")]
fn with_one_fence_it_would_be_lost() {
    explore(|| {
        let work = Arc::new(AtomicU32::new(0));
        let word = Arc::new(AtomicU64::new(0));
        let waker = {
            let (work, word) = (work.clone(), word.clone());
            thread::spawn(move || {
                work.store(1, Ordering::Release);
                fence(Ordering::SeqCst);
                word.load(Ordering::Relaxed)
            })
        };
        word.fetch_or(1, Ordering::Relaxed);
        let sleeps = work.load(Ordering::Acquire) == 0;
        let rung = waker.join().unwrap();
        assert!(!sleeps || rung != 0, "asleep on work, and nobody rings");
    });
}

/// A thread of a process wakes one that is awake by then, and for a moment the word says that it was woken, while the
/// engine has news for who sleeps otherwise. Whether it looks for them.
fn wakes_in_vain(looks: bool) {
    explore(move || {
        let news = Arc::new(AtomicU32::new(0));
        let word = Arc::new(AtomicU32::new(0));
        parked::set(&word, Wants::All);
        // Whether nobody slept by the word.
        let wake = |word: &AtomicU32| parked::wake(word, News::Urgent, None) == Found::Nobody;
        let thread = {
            let (news, word) = (Arc::clone(&news), Arc::clone(&word));
            thread::spawn(move || {
                let in_vain = wake(&word);
                fence(Ordering::SeqCst);
                in_vain && looks && news.load(Ordering::Acquire) == 1
            })
        };
        let engine = {
            let (news, word) = (Arc::clone(&news), Arc::clone(&word));
            thread::spawn(move || {
                news.store(1, Ordering::Release);
                fence(Ordering::SeqCst);
                wake(&word)
            })
        };
        // The one that was parked goes, and sleeps by a bell.
        parked::set(&word, Wants::Nothing);
        let sleeps = news.load(Ordering::Acquire) == 0;
        let (nudged, rung) = (thread.join().unwrap(), engine.join().unwrap());
        assert!(
            !sleeps || nudged || rung,
            "asleep on work, and nobody rings"
        );
    });
}

#[test]
fn who_wakes_another_in_vain_takes_no_ring_from_those_who_sleep() {
    wakes_in_vain(true);
}

#[test]
#[should_panic(expected = "asleep on work")]
fn without_a_look_a_wake_up_in_vain_would_take_one() {
    wakes_in_vain(false);
}

/// A reader copies and moves its position on while the engine ends its grant and uses the memory for
/// other bytes: what the reader keeps is right, and what it does not keep is left to the next.
#[test]
fn a_byte_is_read_by_one() {
    explore(|| {
        let word = Arc::new(AtomicU64::new(0));
        let memory = Arc::new(AtomicU64::new(7));
        position::grant(&word, 1, 0);
        let reader = {
            let (word, memory) = (Arc::clone(&word), Arc::clone(&memory));
            thread::spawn(move || {
                let copied = memory.load(Ordering::Relaxed);
                let mine = position::advance(&word, 1, 0, 1);
                assert!(!mine || copied == 7, "what it keeps was overwritten");
                mine
            })
        };
        let read = position::revoke(&word).offset(0);
        // The next reader has the bytes behind the position in its own memory by now.
        memory.store(8, Ordering::Relaxed);
        position::grant(&word, 2, read);
        let mine = reader.join().unwrap();
        assert_eq!(read, u64::from(mine), "read by one, and by no other");
        assert!(!position::advance(&word, 1, read, 1), "the grant is over");
    });
}

/// A process accepts an offer while the engine takes it back: one of the two succeeds.
#[test]
fn an_offer_is_accepted_by_one() {
    explore(|| {
        let word = Arc::new(AtomicU64::new(0));
        position::offer(&word, 1, 0);
        let process = {
            let word = Arc::clone(&word);
            thread::spawn(move || position::accept(&word, 1, 0))
        };
        let taken_back = position::retract(&word, 1, 0);
        assert_ne!(process.join().unwrap(), taken_back);
    });
}

/// What is acknowledged reaches what a process waits for, while it says that: it is rung, or finds it. `before` is what
/// it has said until then.
fn waits_until_two(before: Awaits) {
    waits_until_two_looking(before, true);
}

/// The same; whether it looks for news when it has to.
fn waits_until_two_looking(before: Awaits, looks_if_told: bool) {
    explore(move || {
        let acked = Arc::new(AtomicU64::new(0));
        let word = Arc::new(AtomicU32::new(0));
        say(&word, before);
        let engine = {
            let (acked, word) = (Arc::clone(&acked), Arc::clone(&word));
            thread::spawn(move || {
                let mut rung = 0;
                for count in 1..=2 {
                    acked.store(count, Ordering::Release);
                    fence(Ordering::SeqCst);
                    rung += u32::from(concerns(word.load(Ordering::Relaxed), Some(count)));
                }
                rung
            })
        };
        let looks = say(&word, Awaits::Until(2)) && looks_if_told;
        let sleeps = !looks || acked.load(Ordering::Acquire) < 2;
        let rung = engine.join().unwrap();
        assert!(!sleeps || rung > 0, "asleep on work, and nobody rings");
    });
}

#[test]
fn who_begins_to_wait_for_room_loses_none() {
    waits_until_two(Awaits::Nothing);
}

#[test]
fn who_waits_for_less_room_than_before_loses_none() {
    waits_until_two(Awaits::Until(3));
}

#[test]
fn who_waits_for_more_room_than_before_loses_none() {
    waits_until_two(Awaits::Until(1));
    waits_until_two(Awaits::Anything);
}

/// The model can tell the difference.
#[test]
#[should_panic(expected = "asleep on work")]
fn without_another_look_room_would_be_lost() {
    waits_until_two_looking(Awaits::Until(3), false);
}

/// A thread sleeps by a word that says all at first, and then that it waits until two are acknowledged; whether it looks
/// once more in between, and whether another has slept by the word until now, who may be awake when he is woken.
fn sleeps_until_two(looks_first: bool, another_goes: bool) {
    explore(move || {
        let acked = Arc::new(AtomicU64::new(0));
        let word = Arc::new(AtomicU32::new(0));
        match another_goes {
            true => parked::set(&word, Wants::All),
            false => assert!(!say(&word, Awaits::Nothing), "that is less"),
        }
        let engine = {
            let (acked, word) = (Arc::clone(&acked), Arc::clone(&word));
            thread::spawn(move || {
                for count in 1..=2 {
                    acked.store(count, Ordering::Release);
                    fence(Ordering::SeqCst);
                    parked::wake(&word, News::Room, Some(count));
                }
            })
        };
        if another_goes {
            parked::set(&word, Wants::Nothing);
        }
        parked::set(&word, Wants::All);
        let found = looks_first && acked.load(Ordering::Acquire) == 2;
        say(&word, Awaits::Until(2));
        engine.join().unwrap();
        let sleeps = !found && parked::is_asleep(&word);
        assert!(!sleeps, "asleep on work, and nobody wakes");
    });
}

#[test]
fn who_sleeps_by_a_word_that_says_for_how_much_is_woken() {
    sleeps_until_two(true, false);
}

#[test]
fn who_sleeps_by_a_word_by_which_another_has_slept_is_woken() {
    sleeps_until_two(true, true);
}

/// The model can tell the difference.
#[test]
#[should_panic(expected = "asleep on work")]
fn without_a_look_after_the_word_says_all_room_would_be_lost() {
    sleeps_until_two(false, false);
}

/// Another lowers for what one waits who sleeps by the word, while the engine acknowledges so much.
fn is_lowered_to_two(looks_if_told: bool) {
    explore(move || {
        let acked = Arc::new(AtomicU64::new(0));
        let word = Arc::new(AtomicU32::new(0));
        parked::set(&word, Wants::All);
        say(&word, Awaits::Until(3));
        let engine = {
            let (acked, word) = (Arc::clone(&acked), Arc::clone(&word));
            thread::spawn(move || {
                acked.store(2, Ordering::Release);
                fence(Ordering::SeqCst);
                parked::wake(&word, News::Room, Some(2)) == Found::Parked
            })
        };
        let looks = say(&word, Awaits::Until(2)) && looks_if_told;
        let found = looks && acked.load(Ordering::Acquire) == 2;
        let woken = engine.join().unwrap();
        assert!(found || woken, "asleep on work, and nobody wakes");
    });
}

#[test]
fn who_sleeps_by_a_word_is_woken_for_less_than_it_has_said() {
    is_lowered_to_two(true);
}

#[test]
#[should_panic(expected = "asleep on work")]
fn without_another_look_a_sleeper_by_the_word_would_lose_it() {
    is_lowered_to_two(false);
}

/// A thread that waits for data goes to sleep by the word, while another begins to wait until two are acknowledged, by
/// other means, and while they are. Who says for how much somebody waits holds the lock under which that changes.
fn a_reader_comes(looks_if_told: bool) {
    explore(move || {
        let acked = Arc::new(AtomicU64::new(0));
        let word = Arc::new(AtomicU32::new(0));
        let awaits = Arc::new(Mutex::new(Awaits::Nothing));
        say(&word, Awaits::Nothing);
        let engine = {
            let (acked, word) = (Arc::clone(&acked), Arc::clone(&word));
            thread::spawn(move || {
                acked.store(2, Ordering::Release);
                fence(Ordering::SeqCst);
                parked::wake(&word, News::Room, Some(2)) != Found::NothingToDo
            })
        };
        let other = {
            let (acked, word) = (Arc::clone(&acked), Arc::clone(&word));
            let awaits = Arc::clone(&awaits);
            thread::spawn(move || {
                let mut awaits = awaits.lock().unwrap();
                *awaits = Awaits::Until(2);
                let looks = say(&word, *awaits) && looks_if_told;
                looks && acked.load(Ordering::Acquire) == 2
            })
        };
        parked::set(&word, Wants::Urgent);
        let looks = say(&word, *awaits.lock().unwrap()) && looks_if_told;
        // It tells the other.
        let tells = looks && acked.load(Ordering::Acquire) == 2;
        let (wakes, found) = (engine.join().unwrap(), other.join().unwrap());
        assert!(wakes || found || tells, "asleep on work, and nobody wakes");
    });
}

#[test]
fn who_begins_to_wait_for_room_beside_one_that_comes_for_data_loses_none() {
    a_reader_comes(true);
}

#[test]
#[should_panic(expected = "asleep on work")]
fn without_another_look_who_comes_for_data_would_take_it() {
    a_reader_comes(false);
}
