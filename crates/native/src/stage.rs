//! Where what is sent waits to leave with what is sent on others, and leaves also when the process ends.
//!
//! A program that ends by exit(3) or a return from main without another look at its queue has sent what is staged there,
//! as it has written what is in the buffers of stdio. So that is where the end of the process finds it: each queue shares
//! its stage with a list of all of them. What the queue takes out to send it does under the stage's lock, and the end
//! waits for that, so that nothing is lost between the two or sent by both.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::net::SendFlags;

/// The stages of this process, and perhaps of those that it was forked from.
static STAGES: Mutex<Stages> = Mutex::new(Stages {
    is_heard: false,
    all: Vec::new(),
});

/// Which process has stages: the child of a fork has copies of its parent's, and does not send what is in them.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// So long the end of the process waits for what other threads are about to send. Who ends it in a signal handler may
/// have been interrupted in the middle of it.
const LIMIT: Duration = Duration::from_secs(1);

/// So long a queue waits for the list, which others have for less than a microsecond. Where a fork has left it locked
/// there is none any more.
const BRIEF: Duration = Duration::from_millis(10);

struct Stages {
    /// The end of the process is told.
    is_heard: bool,
    all: Vec<Weak<Stage>>,
}

/// What is staged in a queue.
pub(crate) struct Stage(Mutex<Entries>);

/// What is in a stage, while nobody else sends it.
#[derive(Default)]
pub(crate) struct Entries {
    places: Vec<Option<Entry>>,
    /// The process ends: nothing more is staged.
    is_over: bool,
}

/// What is to leave on one socket.
pub(crate) struct Entry {
    /// Nobody closes it before this is taken out.
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) bytes: Vec<u8>,
    /// More follows it at once.
    pub(crate) more: bool,
}

/// The place of a connection's entry in its queue's stage.
pub(crate) struct Staged {
    stage: Arc<Stage>,
    at: usize,
    len: usize,
}

impl Stage {
    /// An empty one, which the end of the process finds; `None`: it would not, so that nothing is to be staged.
    pub(crate) fn new() -> Option<Arc<Self>> {
        let mut stages = lock_until(&STAGES, Instant::now() + BRIEF)?;
        let stages = &mut *stages;
        if !stages.is_heard {
            queue_pair::at_exit(send_all).ok()?;
            stages.is_heard = true;
        }
        let process = this_process();
        if PROCESS.swap(process, Ordering::Relaxed) != process {
            stages.all.clear();
        }
        stages.all.retain(|other| other.strong_count() > 0);
        let stage = Arc::new(Self(Mutex::default()));
        stages.all.push(Arc::downgrade(&stage));
        Some(stage)
    }

    /// What is in it. Until this is dropped the end of the process waits.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stages what `fill` writes, for a socket of which nothing is; `None`: the process ends.
    pub(crate) fn add(
        self: &Arc<Self>,
        fd: &Arc<OwnedFd>,
        more: bool,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Staged> {
        let mut bytes = Vec::new();
        fill(&mut bytes);
        let len = bytes.len();
        let mut entries = self.lock();
        if entries.is_over {
            return None;
        }
        let fd = Arc::clone(fd);
        entries.places.push(Some(Entry { fd, bytes, more }));
        Some(Staged {
            stage: Arc::clone(self),
            at: entries.places.len() - 1,
            len,
        })
    }
}

impl Staged {
    /// Stages what `fill` appends behind it. False: the process ends.
    pub(crate) fn add(&mut self, more: bool, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut entries = self.stage.lock();
        let is_over = entries.is_over;
        match entries.places.get_mut(self.at) {
            Some(Some(entry)) if !is_over => {
                fill(&mut entry.bytes);
                entry.more = more;
                self.len = entry.bytes.len();
                true
            }
            _ => false,
        }
    }

    /// Bytes that are staged.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The stage where it is.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Entries> {
        self.stage.lock()
    }
}

impl Entries {
    /// Takes out what is to be sent now; `None`: the end of the process has sent it.
    pub(crate) fn take(&mut self, staged: &Staged) -> Option<Entry> {
        let entry = self.places.get_mut(staged.at)?.take();
        while let Some(None) = self.places.last() {
            self.places.pop();
        }
        entry
    }

    /// Sends all of it, as far as there is room; nothing more comes.
    fn end(&mut self) {
        self.is_over = true;
        for place in &mut self.places {
            if let Some(entry) = place
                && entry.leaves()
            {
                *place = None;
            }
        }
    }
}

impl Entry {
    /// Sends it without waiting. Whether nothing is left; otherwise the connection does not end as if all had come.
    fn leaves(&mut self) -> bool {
        while !self.bytes.is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let Ok(sent) = rustix::net::send(&self.fd, &self.bytes, flags) else {
                let at_once = Some(Duration::ZERO);
                let _ = rustix::net::sockopt::set_socket_linger(&self.fd, at_once);
                return false;
            };
            self.bytes.drain(..sent);
        }
        true
    }
}

/// The process ends.
extern "C" fn send_all() {
    if PROCESS.load(Ordering::Relaxed) != this_process() {
        return;
    }
    let end = Instant::now() + LIMIT;
    let Some(stages) = lock_until(&STAGES, end) else {
        return;
    };
    for stage in stages.all.iter().filter_map(Weak::upgrade) {
        if let Some(mut entries) = lock_until(&stage.0, end) {
            entries.end();
        }
    }
}

fn this_process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// What others have for a moment, if they give it back by `end`.
fn lock_until<T>(lock: &Mutex<T>, end: Instant) -> Option<MutexGuard<'_, T>> {
    loop {
        match lock.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (Arc<OwnedFd>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Arc::new(listener.accept().unwrap().0.into()), other)
    }

    fn staged(stage: &Arc<Stage>, fd: &Arc<OwnedFd>, bytes: &[u8]) -> Option<Staged> {
        stage.add(fd, false, |to| to.extend_from_slice(bytes))
    }

    #[test]
    fn what_is_there_leaves_at_the_end_and_nothing_comes_behind_it() {
        let stage = Stage::new().unwrap();
        let ((fd, mut other), (taken_fd, _other)) = (pair(), pair());
        let mut sent = staged(&stage, &fd, b"one").unwrap();
        let taken = staged(&stage, &taken_fd, b"taken").unwrap();
        assert!(sent.add(true, |to| to.extend_from_slice(b", two")));
        assert_eq!(sent.len(), 8);
        let entry = stage.lock().take(&taken);
        assert!(entry.is_some_and(|entry| entry.bytes == b"taken" && !entry.more));
        stage.lock().end();
        let mut read = [0; 8];
        other.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"one, two");
        assert!(!sent.add(false, |_| {}) && stage.lock().take(&sent).is_none());
        assert!(staged(&stage, &fd, b"late").is_none());
        // The stage is no reason for it to stay open.
        drop(fd);
        assert_eq!(other.read(&mut read).unwrap(), 0);
    }

    #[test]
    fn what_finds_no_room_at_the_end_resets_its_connection() {
        let stage = Stage::new().unwrap();
        let (fd, mut other) = pair();
        let full = [0; 1 << 16];
        while rustix::net::send(&fd, &full, SendFlags::DONTWAIT).is_ok() {}
        let left = staged(&stage, &fd, &vec![0; 1 << 24]);
        stage.lock().end();
        // Whoever has still to do with it has what is left of it.
        let entry = stage.lock().take(&left.unwrap()).unwrap();
        assert!(!entry.bytes.is_empty());
        drop((entry, fd));
        let end = other.read_to_end(&mut Vec::new());
        let errno = end.map_err(|error| error.raw_os_error());
        assert_eq!(
            errno,
            Err(Some(rustix::io::Errno::CONNRESET.raw_os_error()))
        );
    }

    #[test]
    fn a_lock_that_nobody_gives_back_is_waited_for_to_an_end() {
        let lock = Mutex::new(());
        let held = lock.lock();
        assert!(lock_until(&lock, Instant::now() + BRIEF).is_none());
        drop(held);
        assert!(lock_until(&lock, Instant::now()).is_some());
    }
}
