//! Several workers: what one hands over to another, and how it knows to whom.
//!
//! | file | what |
//! | --- | --- |
//! | `directory` | whose a flow is |
//! | `acceptors` | who accepts on an address and port, who has too many clients there, who wants some |
//! | `early` | frames that come before their connection, which is on its way |
//! | `passing` | what goes from one to another |
//! | `mail` | the bounded queues between each two workers, and the bell of one that sleeps |
//!
//! A frame belongs to the worker that has its connection, whatever queue it came to. That worker is found
//! in its own stack first, which most frames are for; only what the stack does not know is looked up here.
//! [Why](../../../../../docs/decisions/several-workers.md).

mod acceptors;
mod directory;
mod early;
mod mail;
mod passing;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use netdev::steering::STALE;
use tcp::{Instant, Stack};
use wire::flow::{FlowHasher, FlowKey};

use crate::exchange::WorkerId;

pub use acceptors::Full;
pub use mail::{Handed, NoRoom};
pub use passing::{Begun, Waiting};

use acceptors::Acceptors;
use directory::Directory;
use early::Early;
use mail::Mail;

/// Most workers of an engine.
pub const MOST_WORKERS: usize = 32;

/// What all workers read and write.
struct Joint {
    directory: Directory,
    acceptors: Acceptors,
    /// When the last cookie that any has sent is void, in nanoseconds of the clock.
    cookies_until: AtomicU64,
}

/// By how much the word about cookies is ahead: so it is written once in this time, and not in each turn of a
/// flood.
const COOKIES_AHEAD: Duration = Duration::from_secs(1);

/// A worker's place among the others.
pub struct Handoff {
    own: WorkerId,
    joint: Arc<Joint>,
    mail: Mail,
    early: Early,
    hasher: FlowHasher,
}

/// Purposes of [keys](tcp::key_for) beside those of the stacks.
const FLOWS: u64 = 16;
const ENDPOINTS: u64 = 17;

impl Handoff {
    /// A place for each of `workers`, of which one may have up to `flows` at a time. Everything that must
    /// not be guessed follows from the seed.
    ///
    /// # Errors
    /// The kernel gives no descriptors.
    pub fn join(workers: usize, flows: usize, seed: &[u8; 32]) -> rustix::io::Result<Vec<Self>> {
        debug_assert!((2..=MOST_WORKERS).contains(&workers), "{workers}");
        let joint = Arc::new(Joint {
            directory: Directory::for_flows(flows.saturating_mul(workers)),
            acceptors: Acceptors::by(tcp::key_for(seed, ENDPOINTS)),
            cookies_until: AtomicU64::new(0),
        });
        let places = Mail::between(workers)?.into_iter().enumerate();
        let places = places.map(|(index, mail)| Self {
            own: WorkerId(index as u16),
            joint: Arc::clone(&joint),
            mail,
            early: Early::default(),
            hasher: FlowHasher::new(tcp::key_for(seed, FLOWS)),
        });
        Ok(places.collect())
    }

    /// Who this is.
    pub fn own(&self) -> WorkerId {
        self.own
    }

    /// How many there are.
    pub fn workers(&self) -> usize {
        self.mail.workers()
    }

    /// This worker has a flow from now on, or not any more.
    pub fn note_flow(&self, flow: &FlowKey, begins: bool) {
        let hash = self.hasher.hash(flow);
        if begins {
            self.joint.directory.insert(hash, self.own);
        } else {
            self.joint.directory.remove(hash, self.own);
        }
    }

    /// Another worker has a flow of this one from now on.
    pub fn give_flow(&self, flow: &FlowKey, to: WorkerId) {
        let hash = self.hasher.hash(flow);
        self.joint.directory.give(hash, self.own, to);
    }

    /// The same of a flow that has just been taken out of this worker's stack: the directory says so by one
    /// step, and is never to hear that it has ended here.
    pub fn give_exported(&self, stack: &mut Stack, flow: &FlowKey, to: WorkerId) {
        for (changed, began) in stack.take_flow_changes() {
            if began || changed != *flow {
                self.note_flow(&changed, began);
            }
        }
        self.give_flow(flow, to);
    }

    /// This worker's stack has sent cookies that are void then, and hears of those of the others.
    pub fn tell_of_cookies(&self, stack: &mut Stack) {
        let word = &self.joint.cookies_until;
        let until = stack.cookies_until();
        if until > Instant::from_nanos(word.load(Ordering::Relaxed)) {
            let ahead = until + COOKIES_AHEAD;
            word.fetch_max(ahead.as_nanos(), Ordering::Release);
        }
        self.hear_of_cookies(stack);
    }

    /// This worker's stack hears of cookies that others have sent.
    pub fn hear_of_cookies(&self, stack: &mut Stack) {
        let until = self.joint.cookies_until.load(Ordering::Acquire);
        stack.expect_cookies(Instant::from_nanos(until));
    }

    /// A flow of this one that was to be another worker's stays.
    pub fn keep_flow(&self, flow: &FlowKey, from: WorkerId) {
        let hash = self.hasher.hash(flow);
        self.joint.directory.give(hash, from, self.own);
    }

    /// The other worker that has a flow, if there is one.
    pub fn owner(&self, flow: &FlowKey) -> Option<WorkerId> {
        self.whose(flow).filter(|owner| *owner != self.own)
    }

    /// The worker that has a flow, this one included, if one has.
    pub fn whose(&self, flow: &FlowKey) -> Option<WorkerId> {
        self.joint.directory.owner(self.hasher.hash(flow))
    }

    /// Keeps a frame of a flow that is this worker's and that its stack does not know: on its way, or just ended;
    /// false if there is no room.
    pub fn keep(&mut self, now: Instant, frame: &[u8]) -> bool {
        self.early.keep(now, frame)
    }

    /// The frame that is kept longest, and since when.
    pub fn take_kept(&mut self) -> Option<(Instant, Vec<u8>)> {
        self.early.take()
    }

    /// Keeps it again; false if that has been for too long.
    pub fn keep_again(&mut self, now: Instant, kept: (Instant, Vec<u8>)) -> bool {
        self.early.keep_again(now, kept)
    }

    /// How many are kept.
    pub fn kept(&self) -> usize {
        self.early.len()
    }

    /// Another worker where somebody accepts on this address and port, if there is one: for the same flow
    /// the same, as long as no other begins or stops. One that is late, and whether it is, only if all are.
    pub fn acceptor(
        &self,
        now: Instant,
        address: IpAddr,
        port: u16,
        flow: &FlowKey,
    ) -> Option<(WorkerId, bool)> {
        let others = self.joint.acceptors.reached_by(address, port) & !self.own.bit();
        let hash = self.hasher.hash(flow) >> 32;
        let first = pick(others, hash)?;
        // The others are looked at in need alone: what says so of each is written by whoever hands it something.
        if !self.is_late(now, first) {
            return Some((first, false));
        }
        let each = (0..self.workers()).map(|index| WorkerId(index as u16));
        let late = each.filter(|it| others & it.bit() != 0 && self.is_late(now, *it));
        let late = late.fold(0, |late, it| late | it.bit());
        let in_time = pick(others & !late, hash);
        Some(in_time.map_or((first, true), |worker| (worker, false)))
    }

    /// Whether another worker has not come for what was handed to it for as long as the steering waits for one.
    fn is_late(&self, now: Instant, worker: WorkerId) -> bool {
        self.mail.waits_for(worker, now) >= STALE
    }

    /// The worker, this one included, that what brings a cookie back is for, whoever has sent that: one
    /// decides, or the flow would begin at two.
    pub fn home(&self, address: IpAddr, port: u16, flow: &FlowKey) -> Option<WorkerId> {
        let all = self.joint.acceptors.reached_by(address, port);
        pick(all, self.hasher.hash(flow) >> 32)
    }

    /// This worker has a listener there from now on, of both families if it is not `v6_only`.
    ///
    /// # Errors
    /// The others cannot be told: there are too many.
    pub fn begin_accepting(&self, local: SocketAddr, v6_only: bool) -> Result<(), Full> {
        self.joint.acceptors.begin(local, v6_only, self.own)
    }

    /// It has none there any more.
    pub fn end_accepting(&self, local: SocketAddr, v6_only: bool) {
        self.joint.acceptors.end(local, v6_only, self.own);
    }

    /// The other workers that have a listener on exactly `local`.
    pub fn others_on(&self, local: SocketAddr) -> u64 {
        self.joint.acceptors.of_listener(local) & !self.own.bit()
    }

    /// Connections wait here that nobody takes, or not any more: the other workers where somebody would.
    pub fn set_over(&self, local: SocketAddr, over: bool) -> u64 {
        self.joint.acceptors.set_over(local, self.own, over)
    }

    /// Hands over a connection that waits for a listener. If the other worker wants such it is to say so again if it
    /// wants more.
    ///
    /// # Errors
    /// As of [`hand`](Self::hand).
    pub fn serve(&mut self, to: WorkerId, waiting: Box<Waiting>) -> Result<(), NoRoom> {
        // A wish that was taken back and said again would have been no wish meanwhile for who has too many, too, and
        // asks nobody again.
        if !self.mail.has_room(to) {
            return Err(NoRoom(Handed::Waiting(waiting)));
        }
        // Before it can have it, and say so again.
        self.joint.acceptors.serve(waiting.listener, to);
        self.mail.send(to, Handed::Waiting(waiting))
    }

    /// Somebody waits here for connections, or not any more: the other workers that have too many.
    pub fn set_wanting(&self, local: SocketAddr, wants: bool) -> u64 {
        self.joint.acceptors.set_wanting(local, self.own, wants)
    }

    /// A worker of `those`, in turn.
    pub fn one_of(&mut self, those: u64) -> Option<WorkerId> {
        let turn = self.mail.next_turn();
        pick(those & !self.own.bit(), turn)
    }

    /// Hands something to another worker.
    ///
    /// # Errors
    /// It has too much already; what was to be handed over comes back.
    pub fn hand(&mut self, to: WorkerId, what: Handed) -> Result<(), NoRoom> {
        self.mail.send(to, what)
    }

    /// Hands a copy of a frame to another worker; false if there is no room.
    pub fn hand_frame(&mut self, now: Instant, to: WorkerId, frame: &[u8]) -> bool {
        self.mail.send_frame(now, to, frame)
    }

    /// The next that another worker has handed over; at most as many in a row as were there when it was
    /// first asked.
    pub fn receive(&mut self) -> Option<(WorkerId, Handed)> {
        self.mail.receive()
    }

    /// Gives the memory of a frame back to the worker that it came from.
    pub fn done_with(&mut self, from: WorkerId, frame: Vec<u8>) {
        self.mail.give_back(from, frame);
    }

    /// Says that this worker is about to sleep; false if something is there.
    pub fn arm(&self) -> bool {
        self.early.len() == 0 && self.mail.arm()
    }

    /// It is awake.
    pub fn disarm(&self) {
        self.mail.disarm();
    }

    /// What rings when it sleeps and something is there.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.mail.bell()
    }

    /// The bell was heard.
    pub fn clear_bell(&self) {
        self.mail.clear_bell();
    }
}

/// One of a set of workers, by a number.
fn pick(those: u64, number: u64) -> Option<WorkerId> {
    let count = u64::from(those.count_ones());
    if count == 0 {
        return None;
    }
    let mut left = those;
    for _ in 0..number % count {
        left &= left - 1;
    }
    Some(WorkerId(left.trailing_zeros() as u16))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn flow(port: u16) -> FlowKey {
        FlowKey {
            local: [10, 0, 0, 1].into(),
            remote: [10, 0, 0, 2].into(),
            local_port: 80,
            remote_port: port,
        }
    }

    /// A connection that waits for a listener there.
    fn waiting(listener: SocketAddr) -> Box<Waiting> {
        let mut stack = Stack::new(tcp::Config::default(), [1; 32]);
        let to: SocketAddr = "10.0.0.2:7".parse().expect("an address");
        let options = tcp::ConnOptions::default();
        let conn = stack.connect(Instant::ZERO, listener, to, &options);
        let connection = stack.export(Instant::ZERO, conn.expect("a new pair"));
        Box::new(Waiting {
            listener,
            connection: Box::new(connection.expect("it is known")),
            received: Vec::new(),
            since: Instant::ZERO,
            hops: 0,
        })
    }

    #[test]
    fn a_flow_has_an_owner_from_its_begin_to_its_end() {
        let [a, b, c] = &Handoff::join(3, 100, &[7; 32]).expect("descriptors")[..] else {
            panic!("three");
        };
        assert_eq!(b.owner(&flow(1)), None);
        a.note_flow(&flow(1), true);
        assert_eq!(b.owner(&flow(1)), Some(a.own()));
        assert_eq!(a.owner(&flow(1)), None, "nobody else has it");
        a.give_flow(&flow(1), b.own());
        assert_eq!(c.owner(&flow(1)), Some(b.own()));
        // The end of what was given away ends nothing, and beginning it twice is beginning it.
        a.note_flow(&flow(1), false);
        b.note_flow(&flow(1), true);
        assert_eq!(c.owner(&flow(1)), Some(b.own()));
        // It goes on, finds no room, and stays: there is one word of it, which ends with it.
        b.give_flow(&flow(1), c.own());
        b.keep_flow(&flow(1), c.own());
        b.note_flow(&flow(1), true);
        assert_eq!(c.owner(&flow(1)), Some(b.own()));
        b.note_flow(&flow(1), false);
        assert_eq!(c.owner(&flow(1)), None);
        assert_eq!(c.whose(&flow(1)), None);
    }

    #[test]
    fn new_flows_spread_over_who_accepts() {
        let places = Handoff::join(4, 100, &[7; 32]).expect("descriptors");
        let listener: SocketAddr = "10.0.0.1:80".parse().expect("an address");
        let find = |port| places[0].acceptor(Instant::ZERO, listener.ip(), 80, &flow(port));
        assert_eq!(find(1), None);
        for worker in [0, 2, 3] {
            let begun = places[worker].begin_accepting(listener, false);
            begun.expect("room");
        }
        let mut found: Vec<_> = (0..64)
            .filter_map(find)
            .map(|(worker, _)| worker.0)
            .collect();
        assert_eq!(found.len(), 64);
        assert_eq!(find(9), find(9));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, [2, 3], "both others, and not itself");
    }

    #[test]
    fn who_does_not_come_for_what_it_was_handed_gets_no_more() {
        let mut places = Handoff::join(3, 100, &[7; 32]).expect("descriptors");
        let listener: SocketAddr = "10.0.0.1:80".parse().expect("an address");
        for place in &places[1..] {
            place.begin_accepting(listener, false).expect("room");
        }
        let find = |places: &[Handoff], now| {
            let of = |port| places[0].acceptor(now, listener.ip(), 80, &flow(port));
            let found = (0..64).filter_map(of);
            let mut found: Vec<_> = found.map(|(worker, late)| (worker.0, late)).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        let begin = Instant::ZERO + Duration::from_secs(1);
        let late = begin + STALE;
        let hand = |places: &mut [Handoff], to| {
            assert!(places[0].hand_frame(begin, WorkerId(to), &[1]));
        };
        hand(&mut places, 1);
        let both = |late| [(1, late), (2, late)];
        assert_eq!(find(&places, begin + STALE / 2), both(false));
        assert_eq!(find(&places, late), [(2, false)]);
        hand(&mut places, 2);
        assert_eq!(find(&places, late), both(true), "there is nobody else");
        assert!(places[1].receive().is_some());
        assert_eq!(find(&places, late), [(1, false)]);
        assert!(places[2].receive().is_some());
        assert_eq!(find(&places, late), both(false));
    }

    #[test]
    fn who_wants_connections_says_so_until_it_gets_one() {
        let mut places = Handoff::join(2, 100, &[7; 32]).expect("descriptors");
        let local: SocketAddr = "10.0.0.1:80".parse().expect("an address");
        let [a, b] = &mut places[..] else {
            panic!("two");
        };
        for place in [&*a, &*b] {
            place.begin_accepting(local, false).expect("room");
        }
        let waiting = || waiting(local);
        b.set_wanting(local, true);
        while a.hand(b.own(), Handed::Wanted(local)).is_ok() {}
        // It cannot have it, and goes on to want it.
        assert!(a.serve(b.own(), waiting()).is_err());
        assert_eq!(a.set_over(local, true), b.own().bit());
        while b.receive().is_some() {}
        for _ in 0..2 {
            assert!(a.serve(b.own(), waiting()).is_ok());
            assert_eq!(a.set_over(local, true), 0);
        }
        // Who wants none is not said to.
        while a.hand(b.own(), Handed::Wanted(local)).is_ok() {}
        assert!(a.serve(b.own(), waiting()).is_err());
        assert_eq!(a.set_over(local, true), 0);
    }

    /// A third worker may look at any moment, and is not told later what it did not see.
    #[test]
    fn who_cannot_have_what_it_wants_wants_it_all_the_time() {
        let mut places = Handoff::join(3, 100, &[7; 32]).expect("descriptors");
        let local: SocketAddr = "10.0.0.1:80".parse().expect("an address");
        let [a, b, c] = &mut places[..] else {
            panic!("three");
        };
        for place in [&*a, &*b, &*c] {
            place.begin_accepting(local, false).expect("room");
        }
        b.set_wanting(local, true);
        while a.hand(b.own(), Handed::Wanted(local)).is_ok() {}
        let (to, wanting) = (b.own(), b.own().bit());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut waiting = waiting(local);
                for _ in 0..100_000 {
                    let Err(NoRoom(Handed::Waiting(back))) = a.serve(to, waiting) else {
                        panic!("there is no room");
                    };
                    waiting = back;
                }
                is_over.store(true, Ordering::Release);
            });
            while !is_over.load(Ordering::Acquire) {
                assert_eq!(c.set_over(local, true), wanting);
            }
        });
    }
}
