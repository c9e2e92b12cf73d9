//! One stage of a simulated system: cores behind queues, first come first served or shared.

use super::statistics::TimeAverage;
use crate::offload::{Discipline, Feeding, Stage};
use rand::Rng;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// A request on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    /// When it entered the system, seconds.
    pub(super) arrived: f64,
    /// Which class it is of.
    pub(super) class: u32,
    /// Whether it was offered after the warm-up.
    pub(super) counts: bool,
    /// Whether it goes on to the engine.
    pub(super) offloaded: bool,
    /// Its service time at the first stage, seconds.
    pub(super) first: f64,
    /// Its service time at the second stage, seconds.
    pub(super) second: f64,
}

/// A stage: one queue a core, or one for all.
pub(super) struct StageQueue {
    queues: Vec<Queue>,
    busy: TimeAverage,
    cores: f64,
    /// The queue that the next departure comes from, and when: kept so that looking is cheap.
    next: (f64, usize),
}

impl StageQueue {
    pub(super) fn new(stage: &Stage) -> Self {
        let (queues, servers) = match stage.feeding {
            Feeding::Separate => (stage.cores, 1),
            Feeding::Pooled => (1, stage.cores),
        };
        let room = stage.room.unwrap_or(usize::MAX);
        let queue = || match stage.discipline {
            Discipline::Fcfs => Queue::Fcfs(Fcfs::new(servers, room)),
            Discipline::ProcessorSharing => Queue::Sharing(Sharing::new(servers, room)),
        };
        StageQueue {
            queues: (0..queues).map(|_| queue()).collect(),
            busy: TimeAverage::default(),
            cores: stage.cores as f64,
            next: (f64::INFINITY, 0),
        }
    }

    pub(super) fn start_counting(&mut self, now: f64) {
        self.busy.start(now);
    }

    /// The share of the cores that was busy since counting began.
    pub(super) fn utilisation(&self, until: f64) -> f64 {
        self.busy.mean(until) / self.cores
    }

    /// When the next request leaves; infinite when there is none.
    pub(super) fn next_departure(&self) -> f64 {
        self.next.0
    }

    /// Lets a request in that needs `service` seconds; `false` when its queue is full.
    pub(super) fn arrive<R: Rng>(&mut self, now: f64, service: f64, job: Job, rng: &mut R) -> bool {
        let index = if self.queues.len() == 1 {
            0
        } else {
            rng.random_range(0..self.queues.len())
        };
        let before = self.queues[index].busy();
        if !self.queues[index].arrive(now, service, job) {
            return false;
        }
        self.account(now, index, before);
        true
    }

    /// Takes out the request that leaves at [`StageQueue::next_departure`]; the caller has seen
    /// that there is one.
    pub(super) fn depart(&mut self) -> Job {
        let (now, index) = self.next;
        let before = self.queues[index].busy();
        let job = self.queues[index].depart(now);
        self.account(now, index, before);
        job
    }

    fn account(&mut self, now: f64, index: usize, before: usize) {
        let after = self.queues[index].busy();
        if after != before {
            self.busy.change(now, after as f64 - before as f64);
        }
        self.next = self
            .queues
            .iter()
            .map(Queue::next_departure)
            .zip(0..)
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or((f64::INFINITY, 0));
    }
}

enum Queue {
    Fcfs(Fcfs),
    Sharing(Sharing),
}

impl Queue {
    fn busy(&self) -> usize {
        match self {
            Queue::Fcfs(queue) => queue.serving.len(),
            Queue::Sharing(queue) => queue.jobs.len().min(queue.servers),
        }
    }

    fn next_departure(&self) -> f64 {
        match self {
            Queue::Fcfs(queue) => queue.serving.peek().map_or(f64::INFINITY, |entry| entry.at),
            Queue::Sharing(queue) => queue.next_departure(),
        }
    }

    fn arrive(&mut self, now: f64, service: f64, job: Job) -> bool {
        match self {
            Queue::Fcfs(queue) => queue.arrive(now, service, job),
            Queue::Sharing(queue) => queue.arrive(now, service, job),
        }
    }

    fn depart(&mut self, now: f64) -> Job {
        match self {
            Queue::Fcfs(queue) => queue.depart(now),
            Queue::Sharing(queue) => queue.depart(now),
        }
    }
}

/// A job with the moment at which something happens to it, earliest first in a heap.
#[derive(Clone, Copy)]
struct Entry {
    at: f64,
    job: Job,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// First come, first served.
struct Fcfs {
    servers: usize,
    room: usize,
    serving: BinaryHeap<Entry>,
    waiting: VecDeque<(f64, Job)>,
}

impl Fcfs {
    fn new(servers: usize, room: usize) -> Self {
        Fcfs {
            servers,
            room,
            serving: BinaryHeap::with_capacity(servers),
            waiting: VecDeque::new(),
        }
    }

    fn arrive(&mut self, now: f64, service: f64, job: Job) -> bool {
        if self.serving.len() + self.waiting.len() >= self.room {
            return false;
        }
        if self.serving.len() < self.servers {
            let at = now + service;
            self.serving.push(Entry { at, job });
        } else {
            self.waiting.push_back((service, job));
        }
        true
    }

    fn depart(&mut self, now: f64) -> Job {
        let done = self.serving.pop().expect("a departure was announced");
        if let Some((service, job)) = self.waiting.pop_front() {
            let at = now + service;
            self.serving.push(Entry { at, job });
        }
        done.job
    }
}

/// Processor sharing, in the time that one job experiences: `experienced` grows by the service that
/// every present job receives, and a job leaves when it has grown by its need.
struct Sharing {
    servers: usize,
    room: usize,
    experienced: f64,
    last: f64,
    jobs: BinaryHeap<Entry>,
}

impl Sharing {
    fn new(servers: usize, room: usize) -> Self {
        Sharing {
            servers,
            room,
            experienced: 0.0,
            last: 0.0,
            jobs: BinaryHeap::new(),
        }
    }

    /// Service a second for each job present.
    fn speed(&self) -> f64 {
        if self.jobs.len() <= self.servers {
            1.0
        } else {
            self.servers as f64 / self.jobs.len() as f64
        }
    }

    fn advance(&mut self, now: f64) {
        self.experienced += (now - self.last) * self.speed();
        self.last = now;
    }

    fn next_departure(&self) -> f64 {
        self.jobs.peek().map_or(f64::INFINITY, |entry| {
            self.last + ((entry.at - self.experienced) / self.speed()).max(0.0)
        })
    }

    fn arrive(&mut self, now: f64, service: f64, job: Job) -> bool {
        if self.jobs.len() >= self.room {
            return false;
        }
        self.advance(now);
        let at = self.experienced + service;
        self.jobs.push(Entry { at, job });
        true
    }

    fn depart(&mut self, now: f64) -> Job {
        self.advance(now);
        self.jobs.pop().expect("a departure was announced").job
    }
}
