//! The bounded queues between each two workers, and the bell of one that sleeps.
//!
//! A worker has a word with a bit for each other that has put something into its queue, and one that says
//! that it sleeps. Who puts something there sets its bit by one atomic step, and learns by the same step
//! whether to ring; who is about to sleep says so by one, and learns whether anything is there. So of the
//! two one sees the other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use tcp::Instant;
use tcp::snapshot::TimeWait;

use super::{Begun, Waiting};
use crate::exchange::WorkerId;

/// Places in all queues to one worker together; each has at least [`LEAST`] of them.
const PLACES: usize = 4096;
const LEAST: usize = 128;
/// Bytes of a frame for which there is room from the beginning: of a larger one a copy has memory of its
/// own the first time.
const FRAME: usize = 2048;
/// Frames for which there is memory from the beginning, for each worker.
const FRAMES: usize = 256;
/// The worker sleeps.
const ASLEEP: u64 = 1 << 63;

/// Something that is another worker's.
#[derive(Debug)]
pub enum Handed {
    /// A frame, for a connection or a listener that it has.
    Frame(Vec<u8>),
    /// A connection that waits to be accepted.
    Waiting(Box<Waiting>),
    /// A handshake.
    Begun(Box<Begun>),
    /// A pair in TIME-WAIT, which the SYN behind it takes over.
    Ended(Box<TimeWait>),
    /// The listener on this address wants connections that wait there.
    Wanted(std::net::SocketAddr),
}

/// The queue is full; this is what was to go into it.
#[derive(Debug)]
pub struct NoRoom(pub Handed);

/// What others see of a worker.
struct Inbox {
    word: AtomicU64,
    /// Since when a frame waits for it that it has not come for, in nanoseconds of the clock; 0: none does.
    since: AtomicU64,
    bell: OwnedFd,
}

/// How many were taken out of a queue: written by one worker, and in a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Taken(AtomicU64);

/// The way to another worker.
struct Way {
    to: Arc<Inbox>,
    queue: SyncSender<Handed>,
    /// How many were put into the queue, and how many the other has taken out of it.
    sent: u64,
    taken: Arc<Taken>,
    /// Memory of frames that it is done with.
    spare: Receiver<Vec<u8>>,
}

/// What comes from another worker.
struct Arrivals {
    queue: Receiver<Handed>,
    taken: Arc<Taken>,
    /// For the memory of its frames.
    back: SyncSender<Vec<u8>>,
}

/// A worker's queues.
pub(super) struct Mail {
    own: usize,
    inbox: Arc<Inbox>,
    /// By the number of the other; none for itself.
    ways: Vec<Option<Way>>,
    from: Vec<Option<Arrivals>>,
    /// Who still has something, as far as was looked.
    pending: u64,
    /// Places in each queue.
    places: u64,
    spare: Vec<Vec<u8>>,
    turn: u64,
}

impl Mail {
    /// For each of so many workers.
    pub(super) fn between(workers: usize) -> rustix::io::Result<Vec<Self>> {
        let mut all = Vec::with_capacity(workers);
        let places = (PLACES / workers).max(LEAST);
        for own in 0..workers {
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            all.push(Self {
                own,
                inbox: Arc::new(Inbox {
                    word: AtomicU64::new(0),
                    since: AtomicU64::new(0),
                    bell,
                }),
                ways: (0..workers).map(|_| None).collect(),
                from: (0..workers).map(|_| None).collect(),
                pending: 0,
                places: places as u64,
                spare: (0..FRAMES).map(|_| Vec::with_capacity(FRAME)).collect(),
                turn: 0,
            });
        }
        for from in 0..workers {
            for to in (0..workers).filter(|to| *to != from) {
                let (sends, queue) = sync_channel(places);
                let (back, spare) = sync_channel(places);
                let taken = Arc::<Taken>::default();
                all[from].ways[to] = Some(Way {
                    to: Arc::clone(&all[to].inbox),
                    queue: sends,
                    sent: 0,
                    taken: Arc::clone(&taken),
                    spare,
                });
                all[to].from[from] = Some(Arrivals { queue, taken, back });
            }
        }
        Ok(all)
    }

    pub(super) fn workers(&self) -> usize {
        self.ways.len()
    }

    /// Another number each time.
    pub(super) fn next_turn(&mut self) -> u64 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// Whether there is room for one more in the queue to another worker. Nobody else puts anything there, so there
    /// is until this one does.
    pub(super) fn has_room(&self, to: WorkerId) -> bool {
        let way = self.ways.get(to.index()).and_then(Option::as_ref);
        way.is_some_and(|way| way.sent - way.taken.0.load(Ordering::Acquire) < self.places)
    }

    pub(super) fn send(&mut self, to: WorkerId, what: Handed) -> Result<(), NoRoom> {
        let Some(way) = self.ways.get_mut(to.index()).and_then(Option::as_mut) else {
            return Err(NoRoom(what));
        };
        match way.queue.try_send(what) {
            Ok(()) => way.sent += 1,
            Err(TrySendError::Full(what) | TrySendError::Disconnected(what)) => {
                return Err(NoRoom(what));
            }
        }
        let before = way.to.word.fetch_or(1 << self.own, Ordering::AcqRel);
        if before & ASLEEP != 0 {
            // Full is rung.
            let _ = rustix::io::write(&way.to.bell, &1u64.to_ne_bytes());
        }
        Ok(())
    }

    /// For how long frames have waited for another worker that it has not come for.
    pub(super) fn waits_for(&self, to: WorkerId, now: Instant) -> Duration {
        let way = self.ways.get(to.index()).and_then(Option::as_ref);
        match way.map_or(0, |way| way.to.since.load(Ordering::Relaxed)) {
            0 => Duration::ZERO,
            since => now.saturating_duration_since(Instant::from_nanos(since)),
        }
    }

    pub(super) fn send_frame(&mut self, now: Instant, to: WorkerId, frame: &[u8]) -> bool {
        let way = self.ways.get(to.index()).and_then(Option::as_ref);
        if let Some(way) = way {
            // Before it can be taken, which takes this back.
            if way.to.since.load(Ordering::Relaxed) == 0 {
                way.to.since.store(now.as_nanos().max(1), Ordering::Release);
            }
            self.spare.extend(way.spare.try_iter().take(FRAMES));
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(frame);
        match self.send(to, Handed::Frame(copy)) {
            Ok(()) => true,
            Err(NoRoom(Handed::Frame(copy))) => {
                self.spare.push(copy);
                false
            }
            Err(_) => false,
        }
    }

    pub(super) fn receive(&mut self) -> Option<(WorkerId, Handed)> {
        // It comes, however much there is. The line stays where it is while nothing does.
        if self.inbox.since.load(Ordering::Relaxed) != 0 {
            self.inbox.since.store(0, Ordering::Relaxed);
        }
        if self.pending == 0 {
            if self.inbox.word.load(Ordering::Relaxed) == 0 {
                return None;
            }
            // Before what is there is taken: what comes later sets its bit again.
            self.pending = self.inbox.word.fetch_and(ASLEEP, Ordering::AcqRel) & !ASLEEP;
        }
        while self.pending != 0 {
            let from = self.pending.trailing_zeros() as usize;
            let arrivals = self.from.get(from).and_then(Option::as_ref);
            if let Some(arrivals) = arrivals
                && let Ok(what) = arrivals.queue.try_recv()
            {
                let taken = &arrivals.taken.0;
                taken.store(taken.load(Ordering::Relaxed) + 1, Ordering::Release);
                return Some((WorkerId(from as u16), what));
            }
            self.pending &= self.pending - 1;
        }
        None
    }

    pub(super) fn give_back(&mut self, from: WorkerId, frame: Vec<u8>) {
        if let Some(Some(from)) = self.from.get(from.index()) {
            // Where there is no room it is freed: its worker has enough.
            let _ = from.back.try_send(frame);
        }
    }

    pub(super) fn arm(&self) -> bool {
        let before = self.inbox.word.fetch_or(ASLEEP, Ordering::AcqRel);
        self.pending == 0 && before & !ASLEEP == 0
    }

    pub(super) fn disarm(&self) {
        self.inbox.word.fetch_and(!ASLEEP, Ordering::AcqRel);
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.inbox.bell.as_fd()
    }

    pub(super) fn clear_bell(&self) {
        let _ = rustix::io::read(&self.inbox.bell, &mut [0u8; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (Mail, Mail) {
        let mut both = Mail::between(2).expect("descriptors");
        let b = both.pop().expect("two");
        (both.pop().expect("two"), b)
    }

    fn is_rung(mail: &Mail) -> bool {
        rustix::io::read(&mail.inbox.bell, &mut [0u8; 8]).is_ok()
    }

    #[test]
    fn frames_come_in_their_order_and_their_memory_goes_back() {
        let (mut a, mut b) = two();
        let memory = a.spare.len();
        for n in 0..3u8 {
            assert!(a.send_frame(Instant::ZERO, WorkerId(1), &[n; 60]));
        }
        assert_eq!(a.spare.len(), memory - 3);
        for n in 0..3u8 {
            let Some((from, Handed::Frame(frame))) = b.receive() else {
                panic!("a frame");
            };
            assert_eq!((from, &frame[..]), (WorkerId(0), &[n; 60][..]));
            b.give_back(from, frame);
        }
        assert!(b.receive().is_none());
        assert!(a.send_frame(Instant::ZERO, WorkerId(1), &[9]));
        assert_eq!(a.spare.len(), memory - 1);
    }

    #[test]
    fn who_sleeps_is_rung_for_and_who_is_awake_is_not() {
        let (mut a, mut b) = two();
        assert!(a.send_frame(Instant::ZERO, WorkerId(1), &[1]));
        assert!(!is_rung(&b), "it is awake");
        assert!(!b.arm(), "something is there");
        b.disarm();
        assert!(b.receive().is_some() && b.receive().is_none());
        assert!(b.arm());
        assert!(a.send_frame(Instant::ZERO, WorkerId(1), &[2]));
        assert!(is_rung(&b));
        b.disarm();
        assert!(b.receive().is_some());
    }

    #[test]
    fn a_full_queue_gives_back_what_was_to_go_into_it() {
        let (mut a, mut b) = two();
        let memory = a.spare.len();
        let sent = (0..PLACES)
            .take_while(|_| a.send_frame(Instant::ZERO, WorkerId(1), &[1]))
            .count();
        assert_eq!(sent, PLACES / 2);
        let wanted = "10.0.0.1:80".parse().expect("an address");
        let back = a.send(WorkerId(1), Handed::Wanted(wanted));
        assert!(matches!(back, Err(NoRoom(Handed::Wanted(it))) if it == wanted));
        let taken = std::iter::from_fn(|| b.receive()).count();
        assert_eq!(taken, sent);
        assert!(a.send_frame(Instant::ZERO, WorkerId(1), &[1]));
        assert!(a.spare.len() <= memory);
    }

    #[test]
    fn who_does_not_come_for_what_it_is_handed_is_waited_for() {
        let (mut a, mut b) = two();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let waits = |a: &Mail, seconds| a.waits_for(WorkerId(1), at(seconds)).as_secs();
        assert_eq!(waits(&a, 3), 0, "nothing waits");
        assert!(a.send_frame(at(3), WorkerId(1), &[1]));
        assert!(a.send_frame(at(4), WorkerId(1), &[2]));
        assert_eq!(waits(&a, 5), 2);
        assert!(b.receive().is_some());
        assert_eq!(waits(&a, 9), 0, "it is there");
        assert!(a.send_frame(at(10), WorkerId(1), &[3]));
        assert_eq!(waits(&a, 11), 1);
    }

    #[test]
    fn nobody_sends_to_itself() {
        let (mut a, _) = two();
        assert!(!a.send_frame(Instant::ZERO, WorkerId(0), &[1]));
        assert!(!a.send_frame(Instant::ZERO, WorkerId(7), &[1]));
    }
}
