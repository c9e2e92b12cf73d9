//! What the processes of a family tell each other of epoll sets that they share: see [`ChangeLog`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::readiness::Readiness;

/// How many changes are kept. Who is further behind than that has lost some.
const ENTRIES: usize = 4096;

/// Sets of which it is known who waits in them.
const SETS: usize = 1024;

/// In the number of an entry: someone writes it.
const BUSY: u64 = 1 << 63;

/// Several processes have waited in a set.
const SEVERAL: u32 = u32::MAX;

/// Says in [`Entry::wanted`] that there is an interest, besides its bits.
const WANTED: u64 = 1 << 32;

/// What one process has changed in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The [number](ChangeLog::new_set) of the set.
    pub set: u32,
    /// The [number](ChangeLog::new_process) of the process.
    pub author: u32,
    /// Which socket, by the number that it has in every process (SO_COOKIE).
    pub socket: u64,
    /// The key of the interest.
    pub key: u64,
    /// What is wanted from now on, with its flags. `None`: the interest is taken out.
    pub wanted: Option<Readiness>,
    /// The program's own 64 bits.
    pub data: u64,
}

/// Memory that the processes of a family share, in which each says what it changes in a set that others
/// have, too. Zeros are an empty one.
///
/// No process waits for another here, and none that is killed or stopped anywhere stops others:
///
/// - A writer takes an index, marks the entry as busy, fills it, and gives it its number. Readers pass over
///   what is not written yet, and [remember](LogReader) to come back. An entry that stays busy, because its
///   writer has died in it, is lost for good, and writers pass over it.
/// - Old entries are overwritten. A reader sees by the number of an entry whether that is so.
#[repr(C)]
pub struct ChangeLog {
    /// The index of the next entry, counted without end.
    next: AtomicU64,
    sets: AtomicU32,
    processes: AtomicU32,
    /// Who waits in each set: nobody yet (0), one process, or [`SEVERAL`].
    waiters: [AtomicU32; SETS],
    entries: [Entry; ENTRIES],
}

#[repr(C)]
struct Entry {
    /// One more than its index, once it is written.
    number: AtomicU64,
    set: AtomicU32,
    author: AtomicU32,
    socket: AtomicU64,
    key: AtomicU64,
    wanted: AtomicU64,
    data: AtomicU64,
}

/// What became of an entry.
enum Found {
    Here(Change),
    /// It is not written yet, and maybe never will be.
    NotYet,
    /// Another stands in its place.
    Over,
}

impl ChangeLog {
    /// A number for a set of the family's.
    pub fn new_set(&self) -> u32 {
        self.sets.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// A number for a process of the family's.
    pub fn new_process(&self) -> u32 {
        self.processes
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1)
    }

    /// The process waits in the set, from now on: whoever changes it says so. It must read once more before
    /// it sleeps.
    pub fn attend(&self, set: u32, process: u32) {
        if let Some(waiter) = self.waiters.get(set as usize) {
            let before = waiter.load(Ordering::Relaxed);
            if before != process && before != SEVERAL {
                let first =
                    waiter.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
                if first.is_err() {
                    waiter.store(SEVERAL, Ordering::Relaxed);
                }
            }
        }
        // Partner: the fence in `others_attend`. Either the one who changes the set sees that we wait,
        // or we see what it wrote.
        fence(Ordering::SeqCst);
    }

    /// Whether another process than this one has ever waited in the set; to be asked after
    /// [`append`](Self::append). `None`: that is not known.
    pub fn others_attend(&self, set: u32, process: u32) -> Option<bool> {
        // Partner: the fence in `attend`.
        fence(Ordering::SeqCst);
        let waiter = self.waiters.get(set as usize)?.load(Ordering::Relaxed);
        Some(waiter != 0 && waiter != process)
    }

    /// Writes down a change.
    pub fn append(&self, change: &Change) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let entry = &self.entries[index as usize % ENTRIES];
            let before = entry.number.load(Ordering::Relaxed);
            let taken = before & BUSY == 0
                && before <= index
                && entry
                    .number
                    .compare_exchange(
                        before,
                        BUSY | (index + 1),
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    )
                    .is_ok();
            // Someone has stopped in the middle of it, or stood still for a whole round.
            if !taken {
                continue;
            }
            // Partner: the fence in `read`. Who sees anything of what follows sees that it is busy.
            fence(Ordering::Release);
            entry.write(change);
            entry.number.store(index + 1, Ordering::Release);
            return;
        }
    }

    fn read(&self, index: u64) -> Found {
        let entry = &self.entries[index as usize % ENTRIES];
        let number = entry.number.load(Ordering::Acquire);
        if number & !BUSY > index + 1 {
            return Found::Over;
        }
        if number != index + 1 {
            return Found::NotYet;
        }
        let change = entry.change();
        // Partner: the fence in `append`.
        fence(Ordering::Acquire);
        match entry.number.load(Ordering::Relaxed) == number {
            true => Found::Here(change),
            false => Found::Over,
        }
    }
}

impl Entry {
    fn write(&self, change: &Change) {
        let wanted = change
            .wanted
            .map_or(0, |wanted| WANTED | u64::from(wanted.0));
        self.set.store(change.set, Ordering::Relaxed);
        self.author.store(change.author, Ordering::Relaxed);
        self.socket.store(change.socket, Ordering::Relaxed);
        self.key.store(change.key, Ordering::Relaxed);
        self.wanted.store(wanted, Ordering::Relaxed);
        self.data.store(change.data, Ordering::Relaxed);
    }

    fn change(&self) -> Change {
        let wanted = self.wanted.load(Ordering::Relaxed);
        Change {
            set: self.set.load(Ordering::Relaxed),
            author: self.author.load(Ordering::Relaxed),
            socket: self.socket.load(Ordering::Relaxed),
            key: self.key.load(Ordering::Relaxed),
            wanted: (wanted & WANTED != 0).then_some(Readiness(wanted as u32)),
            data: self.data.load(Ordering::Relaxed),
        }
    }
}

/// How far one process has read.
#[derive(Debug, Default)]
pub struct LogReader {
    /// The index of the next entry to be read.
    next: u64,
    /// Entries before that which were not written yet.
    missing: Vec<u64>,
}

impl LogReader {
    /// One who has read nothing.
    pub const fn new() -> Self {
        Self {
            next: 0,
            missing: Vec::new(),
        }
    }

    /// Whether there is nothing to be read.
    pub fn is_up_to_date(&self, log: &ChangeLog) -> bool {
        self.missing.is_empty() && self.next == log.next.load(Ordering::Acquire)
    }

    /// Takes in what was written since, in the order in which it came. False: some of it is lost.
    pub fn read(&mut self, log: &ChangeLog, mut each: impl FnMut(Change)) -> bool {
        let end = log.next.load(Ordering::Acquire);
        let oldest = end.saturating_sub(ENTRIES as u64);
        let mut whole = oldest <= self.next;
        let begin = self.next.max(oldest);
        let mut missing = std::mem::take(&mut self.missing);
        // What has not been written for a whole round never will be.
        missing.retain(|index| *index >= oldest);
        for index in missing.into_iter().chain(begin..end) {
            match log.read(index) {
                Found::Here(change) => each(change),
                Found::NotYet => self.missing.push(index),
                Found::Over => whole = false,
            }
        }
        self.next = end;
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> ChangeLog {
        ChangeLog {
            next: AtomicU64::new(0),
            sets: AtomicU32::new(0),
            processes: AtomicU32::new(0),
            waiters: std::array::from_fn(|_| AtomicU32::new(0)),
            entries: std::array::from_fn(|_| Entry {
                number: AtomicU64::new(0),
                set: AtomicU32::new(0),
                author: AtomicU32::new(0),
                socket: AtomicU64::new(0),
                key: AtomicU64::new(0),
                wanted: AtomicU64::new(0),
                data: AtomicU64::new(0),
            }),
        }
    }

    fn change(key: u64) -> Change {
        Change {
            set: 1,
            author: 2,
            socket: 1 << 63 | 3,
            key,
            wanted: key
                .is_multiple_of(2)
                .then_some(Readiness::IN | Readiness::EDGE),
            data: u64::MAX - key,
        }
    }

    /// What a reader is told, and whether that is all.
    fn news(reader: &mut LogReader, log: &ChangeLog) -> (Vec<Change>, bool) {
        let mut told = Vec::new();
        let whole = reader.read(log, |change| told.push(change));
        (told, whole)
    }

    #[test]
    fn everyone_reads_every_change_once_and_in_order() {
        let log = log();
        let (mut one, mut other) = (LogReader::new(), LogReader::new());
        log.append(&change(0));
        assert_eq!(news(&mut one, &log), (vec![change(0)], true));
        log.append(&change(1));
        assert!(!one.is_up_to_date(&log));
        assert_eq!(news(&mut one, &log), (vec![change(1)], true));
        assert!(one.is_up_to_date(&log));
        assert_eq!(news(&mut one, &log), (vec![], true));
        assert_eq!(news(&mut other, &log), (vec![change(0), change(1)], true));
    }

    #[test]
    fn what_is_written_late_is_read_late() {
        let log = log();
        let mut reader = LogReader::new();
        // A writer that is stopped in the middle.
        let late = log.next.fetch_add(1, Ordering::Relaxed);
        log.entries[0]
            .number
            .store(BUSY | (late + 1), Ordering::Relaxed);
        log.append(&change(7));
        assert_eq!(news(&mut reader, &log), (vec![change(7)], true));
        assert!(!reader.is_up_to_date(&log));
        log.entries[0].write(&change(6));
        log.entries[0].number.store(late + 1, Ordering::Release);
        assert_eq!(news(&mut reader, &log), (vec![change(6)], true));
        assert!(reader.is_up_to_date(&log));
    }

    #[test]
    fn a_writer_that_dies_stops_nobody() {
        let log = log();
        let mut reader = LogReader::new();
        log.next.fetch_add(1, Ordering::Relaxed);
        log.entries[0].number.store(BUSY | 1, Ordering::Relaxed);
        for round in 0..3 {
            for key in 0..ENTRIES as u64 - 1 {
                log.append(&change(key));
                assert_eq!(news(&mut reader, &log), (vec![change(key)], true));
            }
            assert!(reader.missing.len() <= 2, "round {round}");
        }
    }

    #[test]
    fn who_falls_behind_knows_it() {
        let log = log();
        let mut reader = LogReader::new();
        for key in 0..=ENTRIES as u64 {
            log.append(&change(key));
        }
        let (told, whole) = news(&mut reader, &log);
        assert!(!whole);
        assert_eq!(told.first(), Some(&change(1)));
        assert_eq!(told.len(), ENTRIES);
        log.append(&change(5));
        assert_eq!(news(&mut reader, &log), (vec![change(5)], true));
    }

    #[test]
    fn a_process_that_waits_alone_is_no_other() {
        let log = log();
        let set = log.new_set();
        let (one, other) = (log.new_process(), log.new_process());
        assert_eq!(log.others_attend(set, one), Some(false), "nobody waits");
        log.attend(set, one);
        log.attend(set, one);
        assert_eq!(log.others_attend(set, one), Some(false));
        assert_eq!(log.others_attend(set, other), Some(true));
        log.attend(set, other);
        assert_eq!(log.others_attend(set, one), Some(true));
        assert_eq!(log.others_attend(set, other), Some(true));
        assert_eq!(log.others_attend(SETS as u32, one), None);
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let log = log();
        let mut reader = LogReader::new();
        let mut keys = Vec::new();
        std::thread::scope(|scope| {
            for from in [0, 1000] {
                let log = &log;
                scope.spawn(move || (from..from + 1000).for_each(|key| log.append(&change(key))));
            }
            while keys.len() < 2000 {
                assert!(reader.read(&log, |told| {
                    assert_eq!(told, change(told.key));
                    keys.push(told.key);
                }));
            }
        });
        keys.sort_unstable();
        assert!(keys.into_iter().eq(0..2000));
    }
}
