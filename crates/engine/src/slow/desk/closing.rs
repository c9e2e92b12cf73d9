//! Descriptors that programs have sent, and control connections, closed by threads that nobody waits for.
//!
//! How long it takes to close one is up to the program: the last to close a socket lingers until its data is
//! acknowledged (SO_LINGER), and a file system in user space (FUSE) answers when it likes. A control connection
//! is closed with all that was sent on it and not read, descriptors among it.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::Desk;
use crate::capture::Capture;
use crate::fast::memory::Opened;
use crate::slow::errands::{Errand, Errands};

/// Descriptors of a user that may wait to be closed. Who has more holds up the threads that close them: what his
/// programs ask waits until they are closed.
const MOST: usize = 512;
/// The same of all users together; beyond it no control connection is accepted.
const MOST_OF_ALL: usize = 4096;

/// Descriptors of a user.
#[derive(Debug)]
struct Close {
    uid: u32,
    fds: Vec<OwnedFd>,
    file: Option<Arc<Opened>>,
    count: usize,
}

impl Close {
    fn is_done(&self) -> bool {
        self.fds.is_empty() && self.file.is_none()
    }
}

impl Errand for Close {
    const USES_DESCRIPTORS: bool = true;

    fn uid(&self) -> u32 {
        self.uid
    }

    fn run(&mut self) {
        self.fds.clear();
        self.file = None;
    }
}

/// What is to be closed.
#[derive(Debug)]
pub(super) struct Closing {
    errands: Errands<Close>,
    /// Those for which no thread could be sent.
    kept: Vec<Close>,
    /// How many there are of each user.
    left: HashMap<u32, usize>,
    /// Files that nobody sends from any more.
    files: Receiver<Arc<Opened>>,
    of_files: Sender<Arc<Opened>>,
}

impl Closing {
    pub(super) fn new() -> rustix::io::Result<Self> {
        let (of_files, files) = channel();
        Ok(Self {
            errands: Errands::new()?,
            kept: Vec::new(),
            left: HashMap::new(),
            files,
            of_files,
        })
    }

    /// Readable when some are closed.
    pub(super) fn wire(&self) -> BorrowedFd<'_> {
        self.errands.as_fd()
    }

    /// When to [attend](Self::attend) at the latest.
    pub(super) fn due(&self) -> Option<Instant> {
        self.errands.due()
    }

    /// Closes descriptors of a user, soon.
    pub(super) fn close(&mut self, uid: u32, fds: Vec<OwnedFd>) {
        let count = fds.len();
        if count > 0 {
            self.add(uid, fds, None, count);
        }
    }

    fn add(&mut self, uid: u32, fds: Vec<OwnedFd>, file: Option<Arc<Opened>>, count: usize) {
        *self.left.entry(uid).or_default() += count;
        self.errands.add(Close {
            uid,
            fds,
            file,
            count,
        });
    }

    /// Where files go that nobody sends from any more, by the desk's own hand.
    pub(super) fn of_files(&self) -> Sender<Arc<Opened>> {
        self.of_files.clone()
    }

    /// Closes files that have come, soon.
    fn close_files(&mut self) {
        while let Ok(file) = self.files.try_recv() {
            self.add(file.uid(), Vec::new(), Some(file), 1);
        }
    }

    /// Whether some of a user are not closed.
    pub(super) fn has_some_of(&self, uid: u32) -> bool {
        self.left.contains_key(&uid)
    }

    /// Whether too many of a user cannot be closed.
    pub(super) fn is_held_up_by(&self, uid: u32) -> bool {
        self.left.get(&uid).is_some_and(|left| *left > MOST)
    }

    /// Whether too many of all users cannot be closed; whose most of them are.
    pub(super) fn is_full(&self) -> Option<u32> {
        let full = self.left.values().sum::<usize>() > MOST_OF_ALL;
        let most = self.left.iter().max_by_key(|(_, left)| **left);
        most.filter(|_| full).map(|(uid, _)| *uid)
    }

    fn closed(&mut self, done: &Close) {
        if let Some(left) = self.left.get_mut(&done.uid) {
            *left -= done.count;
            if *left == 0 {
                self.left.remove(&done.uid);
            }
        }
    }

    /// Sends threads with what is to be closed. When one is back there is time for what could not be.
    fn attend(&mut self, now: Instant) {
        self.close_files();
        loop {
            let mut any_closed = false;
            for back in self.errands.attend(now) {
                if back.is_done() {
                    self.closed(&back);
                    any_closed = true;
                    continue;
                }
                if self.kept.iter().all(|kept| kept.uid != back.uid) {
                    let uid = back.uid;
                    tracing::warn!(
                        uid,
                        "a descriptor that a program of this user has sent cannot be closed: a file system in user \
                         space that does not answer, or a socket that lingers"
                    );
                }
                self.kept.push(back);
            }
            if !any_closed || self.kept.is_empty() {
                return;
            }
            for kept in std::mem::take(&mut self.kept) {
                self.errands.add(kept);
            }
        }
    }

    /// The engine ends: the rest is closed by a thread, or with this process. So is what `also` may keep open: the
    /// control socket, on which connections wait that nobody has accepted, lifelines, with what was sent on them, and
    /// mappings of files.
    pub(super) fn leave(self, also: impl Send + 'static) {
        let last = std::thread::Builder::new().name("closing".to_owned());
        if let Err(error) = last.spawn(move || drop((self, also))) {
            tracing::warn!(%error, "what programs have sent is closed before the engine ends");
        }
    }

    /// Closes all of them here, and waits for as long as that takes.
    fn close_here(&mut self) {
        self.close_files();
        while let Some(done) = self.errands.run_here() {
            self.closed(&done);
        }
    }
}

impl Desk {
    /// Closes what is to be closed.
    pub(super) fn see_to_closing(&mut self, now: Instant) {
        self.close_turned_away();
        self.closing.attend(now);
        self.see_to_shown(now);
        self.turn_away_again();
    }

    /// A capture is over.
    pub(super) fn captured(&mut self, capture: Capture) {
        let (uid, socket) = capture.into_socket();
        self.closing.close(uid, vec![socket]);
    }

    /// The same here, and waits for as long as that takes.
    pub(super) fn close_here(&mut self) {
        self.close_turned_away();
        self.closing.close_here();
        self.see_to_shown(Instant::now());
        self.turn_away_again();
    }

    /// Who waits to be turned away is, if one that was has been closed since.
    fn turn_away_again(&mut self) {
        if self.control.renew_spare() {
            self.control.resume();
        }
    }

    fn close_turned_away(&mut self) {
        for (uid, connection) in self.control.turned_away() {
            self.closing.close(uid, vec![connection]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use queue_pair::control::{Channel, Fds, Reply, Request};
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::time::Timespec;

    use super::*;
    use crate::config::Config;
    use crate::exchange::{self, Fetch, WorkerId};
    use crate::fast::memory::OpenFile;
    use crate::slow::control::Control;
    use crate::slow::desk::Facts;

    /// A socket whose last close lasts for minutes, or until the other one is closed.
    fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let peer = TcpStream::connect(address).expect("listens");
        let (socket, _) = listener.accept().expect("connected");
        socket.set_nonblocking(true).expect("set");
        while std::io::Write::write(&mut &socket, &[0; 65_536]).is_ok() {}
        let long = Some(Duration::from_secs(300));
        rustix::net::sockopt::set_socket_linger(&socket, long).expect("set");
        (socket.into(), peer)
    }

    /// Attends until only so many of these users are left.
    fn left(closing: &mut Closing, now: Instant, expected: &[(u32, usize)]) {
        let begin = Instant::now();
        loop {
            closing.attend(now);
            let mut left: Vec<_> = closing.left.iter().map(|(uid, n)| (*uid, *n)).collect();
            left.sort_unstable();
            if left == expected {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{left:?}");
            let wire = closing.wire();
            let mut fds = [PollFd::new(&wire, PollFlags::IN)];
            let _ = poll(
                &mut fds,
                Some(&Timespec {
                    tv_sec: 0,
                    tv_nsec: 1_000_000,
                }),
            );
        }
    }

    fn quick() -> OwnedFd {
        std::fs::File::open("/dev/null").expect("there").into()
    }

    #[test]
    fn who_cannot_be_closed_holds_up_his_own_alone() {
        let mut closing = Closing::new().expect("descriptors");
        let now = Instant::now();
        let (socket, peer) = lingering();
        closing.close(1000, vec![socket, quick()]);
        closing.attend(now);
        // After a second it is held up; before, others wait.
        let later = now + Duration::from_secs(2);
        closing.close(1001, vec![quick()]);
        left(&mut closing, later, &[(1000, 2)]);
        closing.close(1000, vec![quick()]);
        left(&mut closing, later, &[(1000, 3)]);
        assert_eq!(closing.kept.len(), 1);
        closing.close(1000, (0..MOST - 2).map(|_| quick()).collect());
        closing.attend(later);
        assert!(closing.is_held_up_by(1000) && !closing.is_held_up_by(1001));
        assert_eq!(closing.is_full(), None);
        // It ends after all.
        drop(peer);
        left(&mut closing, later, &[]);
        assert!(!closing.is_held_up_by(1000) && closing.kept.is_empty());
    }

    #[test]
    fn nobody_waits_for_a_file_that_nobody_sends_from() {
        let mut closing = Closing::new().expect("descriptors");
        let now = Instant::now();
        let (slow, peer) = lingering();
        for fd in [slow, quick()] {
            // The last reference goes here.
            let file = OpenFile::new(fd, false, Arc::new(1000));
            drop(Arc::new(file.closed_by(closing.of_files())));
        }
        closing.attend(now);
        assert!(closing.has_some_of(1000));
        drop(peer);
        left(&mut closing, now + Duration::from_secs(2), &[]);
        // When nobody closes any more it is closed all the same.
        let (reader, writer) = std::io::pipe().expect("descriptors");
        let file = OpenFile::new(writer.into(), false, Arc::default());
        let file = file.closed_by(closing.of_files());
        drop(closing);
        drop(file);
        assert_eq!(std::io::read_to_string(reader).expect("closed"), "");
    }

    #[test]
    fn a_file_is_closed_after_what_is_fetched_of_it() {
        let config = Config::default();
        let control = Control::without_socket(&config.limits).expect("descriptors");
        let (to_fast, _to_slow) = exchange::pair(&config.limits).expect("descriptors");
        let mut desk = Desk::new(Facts::new(&config, [1], 0), control, to_fast).expect("polled");
        let name = format!("outboard-fetched-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, [7; 10_000]).expect("written");
        let file = std::fs::File::open(&path).expect("there");
        std::fs::remove_file(path).expect("there");
        let file = OpenFile::new(file.into(), false, Arc::new(1000));
        let file = Arc::new(file.closed_by(desk.closing.of_files()));
        let fetch = Fetch {
            number: 1,
            uid: 1000,
            file,
            part: 0..10_000,
            is_ahead: false,
        };
        desk.fetch(WorkerId(0), &fetch);
        // Nobody else has it any more. Its mapping does, and to unmap the last may take as long as to close it.
        drop(fetch);
        desk.closing.close_files();
        assert!(
            !desk.closing.has_some_of(1000),
            "it is not to be closed yet"
        );
        desk.fetch_here();
        desk.closing.close_files();
        assert!(desk.closing.has_some_of(1000));
        desk.closing.close_here();
        assert!(!desk.closing.has_some_of(1000) && desk.fetched.is_empty());
    }

    #[test]
    fn nobody_waits_for_a_socket_that_somebody_else_has_sent() {
        let config = Config::default();
        let control = Control::without_socket(&config.limits).expect("descriptors");
        let (to_fast, to_slow) = exchange::pair(&config.limits).expect("descriptors");
        let mut desk = Desk::new(Facts::new(&config, [1], 0), control, to_fast).expect("polled");
        let mut dial = || {
            let (ours, theirs) = Channel::pair().expect("descriptors");
            desk.add_client(theirs.into_socket()).expect("room");
            ours
        };
        let (mut bad, mut worse, mut good) = (dial(), dial(), dial());
        let mut peers = Vec::new();
        let mut sends = |channel: &mut Channel, request: &Request, count| {
            let fds = (0..count).map(|_| {
                let (socket, peer) = lingering();
                peers.push(peer);
                socket
            });
            let fds = fds.collect();
            channel.send(request, fds).expect("sent");
        };
        // With a request that is refused, with one that carries none, and unread.
        let listen = Request::Listen {
            addr: ([127, 0, 0, 1], 80).into(),
            backlog: 1,
            v6only: false,
            pinned: false,
        };
        sends(&mut bad, &listen, 1);
        sends(&mut bad, &Request::Diverter, 2);
        for _ in 0..4 {
            sends(&mut worse, &Request::Settle, 1);
        }
        drop(worse);
        // Not before: ours are closed, so that the desk's are the last.
        let desk = std::thread::spawn(move || desk.run());
        let mut ask = || {
            let asked = good.request(&Request::Diverter, Fds::new(), Duration::from_secs(30));
            assert!(matches!(asked, Ok((Reply::Diverted(None), _))), "{asked:?}");
        };
        ask();
        ask();
        drop(peers);
        drop((bad, to_slow));
        desk.join().expect("ends");
    }
}
