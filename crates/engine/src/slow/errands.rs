//! Errands: system calls that a program can hold up for as long as it likes, made by threads that nobody
//! waits for.
//!
//! A page of a region is given back to the machine under a lock of its file, and whoever has the file can
//! hold that lock: by a write from memory that he lets nobody read (userfaultfd, FUSE), for example. So a
//! thread goes that has no descriptors, and therefore keeps nothing open when the engine ends and it cannot.
//! (Threads that close descriptors have them; that they are held up ends with the engine.)
//! While it is held up the errands of that user are not done, and another thread goes for the others.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use netdev::syscalls::leave_descriptors;
use rustix::event::{EventfdFlags, eventfd};

/// An errand that takes longer is held up.
const HELD_UP: Duration = Duration::from_secs(1);
/// Threads that go at a time: users that hold one up, and one more.
const MOST: usize = 8;

/// Something to be done that may never end.
pub trait Errand: Send + 'static {
    /// Whether it uses descriptors.
    const USES_DESCRIPTORS: bool = false;

    /// The user who can hold it up.
    fn uid(&self) -> u32;
    /// Does it, as far as that is possible.
    fn run(&mut self);
}

/// Errands, and the threads that run them.
#[derive(Debug)]
pub struct Errands<E> {
    /// Those that wait, by user; the user who was served longest ago first.
    queue: VecDeque<OfUser<E>>,
    runners: Vec<Runner<E>>,
    /// Names the last thread.
    number: u32,
    done: Receiver<(u32, E)>,
    says_done: Sender<(u32, E)>,
    wire: Arc<OwnedFd>,
}

/// Errands of a user: one at least.
#[derive(Debug)]
struct OfUser<E> {
    uid: u32,
    errands: VecDeque<E>,
}

/// A thread.
#[derive(Debug)]
struct Runner<E> {
    number: u32,
    errands: Sender<E>,
    /// For whom, and since when.
    busy: Option<(u32, Instant)>,
}

impl<E> Runner<E> {
    fn is_held_up(&self, now: Instant) -> bool {
        self.busy
            .is_some_and(|(_, since)| now.saturating_duration_since(since) >= HELD_UP)
    }
}

impl<E: Errand> Errands<E> {
    /// None yet, and no thread.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn new() -> rustix::io::Result<Self> {
        let (says_done, done) = channel();
        Ok(Self {
            queue: VecDeque::new(),
            runners: Vec::new(),
            number: 0,
            done,
            says_done,
            wire: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
        })
    }

    /// Readable when one has come back.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }

    /// One more.
    pub fn add(&mut self, errand: E) {
        let uid = errand.uid();
        match self.queue.iter_mut().find(|user| user.uid == uid) {
            Some(user) => user.errands.push_back(errand),
            None => self.queue.push_back(OfUser {
                uid,
                errands: [errand].into(),
            }),
        }
    }

    /// The next one: users take turns, so that nobody waits for all that one of them has.
    fn next(&mut self) -> Option<E> {
        let mut user = self.queue.pop_front()?;
        let errand = user.errands.pop_front();
        if !user.errands.is_empty() {
            self.queue.push_back(user);
        }
        errand
    }

    /// Runs all of them on this thread, for who has time: the next one that is done.
    pub fn run_here(&mut self) -> Option<E> {
        let mut errand = self.next()?;
        errand.run();
        Some(errand)
    }

    /// Takes in those that have come back, and sends threads with those that wait, one for all users unless
    /// it is held up. Those that cannot be run now come back as they are.
    pub fn attend(&mut self, now: Instant) -> Vec<E> {
        let _ = rustix::io::read(&*self.wire, &mut [0u8; 8]);
        let mut back = Vec::new();
        while let Ok((number, errand)) = self.done.try_recv() {
            if let Some(runner) = self.runners.iter_mut().find(|r| r.number == number) {
                runner.busy = None;
            }
            back.push(errand);
        }
        self.dismiss();
        while let Some(uid) = self.queue.front().map(|user| user.uid) {
            let held_up = |runner: &&Runner<E>| runner.is_held_up(now);
            let mut users = self.runners.iter().filter(held_up);
            if users.any(|runner| runner.busy.is_some_and(|(busy, _)| busy == uid)) {
                let all = self.queue.pop_front().into_iter();
                back.extend(all.flat_map(|user| user.errands));
                continue;
            }
            if self
                .runners
                .iter()
                .any(|r| r.busy.is_some() && !r.is_held_up(now))
            {
                break;
            }
            if let Some(errand) = self.next()
                && let Err(errand) = self.send(errand, now)
            {
                back.push(errand);
            }
        }
        back
    }

    /// When to [attend](Self::attend) at the latest.
    pub fn due(&self) -> Option<Instant> {
        let busy = self.runners.iter().filter_map(|runner| runner.busy);
        let last = busy.map(|(_, since)| since).max()?;
        (!self.queue.is_empty()).then_some(last + HELD_UP)
    }

    /// Of several threads with nothing to do one is left.
    fn dismiss(&mut self) {
        let mut idle = 0;
        self.runners.retain(|runner| {
            idle += usize::from(runner.busy.is_none());
            runner.busy.is_some() || idle == 1
        });
    }

    fn send(&mut self, errand: E, now: Instant) -> Result<(), E> {
        let idle = self.runners.iter().position(|r| r.busy.is_none());
        let at = match idle {
            Some(at) => at,
            None if self.runners.len() < MOST && self.begin().is_ok() => self.runners.len() - 1,
            None => return Err(errand),
        };
        let runner = &mut self.runners[at];
        let uid = errand.uid();
        runner.errands.send(errand).map_err(|refused| refused.0)?;
        runner.busy = Some((uid, now));
        Ok(())
    }

    /// One more thread, the last.
    fn begin(&mut self) -> std::io::Result<()> {
        self.number = self.number.wrapping_add(1);
        let number = self.number;
        let (errands, received) = channel::<E>();
        let (says_done, wire) = (self.says_done.clone(), Arc::clone(&self.wire));
        std::thread::Builder::new()
            .name("errands".to_owned())
            .spawn(move || {
                let able = E::USES_DESCRIPTORS || leave_descriptors(&*wire).is_ok();
                for mut errand in received {
                    if able {
                        errand.run();
                    }
                    if says_done.send((number, errand)).is_err() {
                        return;
                    }
                    let _ = rustix::io::write(&*wire, &1u64.to_ne_bytes());
                }
            })?;
        self.runners.push(Runner {
            number,
            errands,
            busy: None,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is held up until somebody says a word, or nobody can any more.
    struct Slow {
        uid: u32,
        word: Option<Receiver<()>>,
        ran: bool,
    }

    impl Errand for Slow {
        fn uid(&self) -> u32 {
            self.uid
        }

        fn run(&mut self) {
            if let Some(word) = self.word.take() {
                let _ = word.recv();
            }
            self.ran = true;
        }
    }

    fn quick(uid: u32) -> Slow {
        Slow {
            uid,
            word: None,
            ran: false,
        }
    }

    fn slow(uid: u32) -> (Sender<()>, Slow) {
        let (says, word) = channel();
        let word = Some(word);
        (says, Slow { word, ..quick(uid) })
    }

    /// Attends at `now`, which stands still, until so many are back: whose they are, and whether they ran.
    fn back(errands: &mut Errands<Slow>, now: Instant, count: usize) -> Vec<(u32, bool)> {
        let mut back = Vec::new();
        while back.len() < count {
            back.extend(errands.attend(now).into_iter().map(|e| (e.uid, e.ran)));
            if back.len() < count {
                let mut fds = [rustix::event::PollFd::from_borrowed_fd(
                    errands.as_fd(),
                    rustix::event::PollFlags::IN,
                )];
                let limit =
                    rustix::time::Timespec::try_from(Duration::from_secs(60)).expect("short");
                let ready = rustix::event::poll(&mut fds, Some(&limit)).expect("polled");
                assert!(ready > 0, "{back:?} of {count}");
            }
        }
        back.sort_unstable();
        back
    }

    #[test]
    fn who_holds_one_up_holds_up_his_own() {
        let mut errands = Errands::new().expect("descriptors");
        let now = Instant::now();
        let (word, held_up) = slow(1000);
        errands.add(held_up);
        errands.add(quick(1001));
        assert_eq!(errands.due(), None, "nothing is under way");
        assert!(errands.attend(now).is_empty());
        assert_eq!(errands.due(), Some(now + HELD_UP), "the second one waits");
        let later = now + HELD_UP;
        errands.add(quick(1000));
        assert_eq!(back(&mut errands, later, 2), [(1000, false), (1001, true)]);
        assert_eq!(errands.runners.len(), 2);
        assert_eq!(errands.due(), None);
        // It comes back after all.
        drop(word);
        errands.add(quick(1001));
        assert_eq!(back(&mut errands, later, 2), [(1000, true), (1001, true)]);
        errands.add(quick(1000));
        assert_eq!(back(&mut errands, later, 1), [(1000, true)]);
        assert_eq!(errands.runners.len(), 1, "one is enough");
    }

    #[test]
    fn users_take_turns_however_much_one_of_them_has() {
        let mut errands = Errands::new().expect("descriptors");
        (0..3).for_each(|_| errands.add(quick(1000)));
        errands.add(quick(1001));
        errands.add(quick(1002));
        let mut order = Vec::new();
        while let Some(done) = errands.run_here() {
            order.push(done.uid);
            if done.uid == 1002 {
                errands.add(quick(1002));
            }
            if order.len() == 6 {
                break;
            }
        }
        assert_eq!(order, [1000, 1001, 1002, 1000, 1002, 1000]);
    }

    #[test]
    fn there_are_no_more_threads_than_users_who_hold_them_up() {
        let mut errands = Errands::new().expect("descriptors");
        let mut now = Instant::now();
        let mut words = Vec::new();
        for uid in 0..MOST as u32 {
            let (word, held_up) = slow(uid);
            words.push(word);
            errands.add(held_up);
            assert!(errands.attend(now).is_empty());
            now += HELD_UP;
        }
        errands.add(quick(MOST as u32));
        assert_eq!(back(&mut errands, now, 1), [(MOST as u32, false)]);
        assert_eq!(errands.runners.len(), MOST);
        drop(words);
        assert_eq!(back(&mut errands, now, MOST).len(), MOST);
    }

    #[test]
    fn a_thread_keeps_no_descriptor_open() {
        struct Looks(Option<usize>);
        impl Errand for Looks {
            fn uid(&self) -> u32 {
                0
            }
            fn run(&mut self) {
                // Reading the directory takes one.
                self.0 = std::fs::read_dir("/proc/thread-self/fd")
                    .ok()
                    .map(Iterator::count);
            }
        }
        let mut errands = Errands::new().expect("descriptors");
        let _more: Vec<OwnedFd> = (0..9)
            .map(|_| eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor"))
            .collect();
        errands.add(Looks(None));
        let mut back = errands.attend(Instant::now());
        while back.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
            back = errands.attend(Instant::now());
        }
        assert_eq!(back[0].0, Some(2), "the wire, and the one that looks");
    }
}
