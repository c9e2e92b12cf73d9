//! Clients over the kernel's TCP that ask all the time, each with one message under way: as soon as it is answered, the
//! next one follows.

use crate::cores;
use crate::world::{Side, World};
use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a connection may take to be opened, on however busy a machine.
const OPENING: Duration = Duration::from_secs(60);
/// Descriptors that the rest of this process needs.
const OTHERS: u64 = 256;
/// How often at least it is looked whether it is over.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
const EVENTS: usize = 256;

/// A thread of this process with such clients, until it is dropped.
pub struct Asking {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Asking {
    /// Opens so many connections to `server` from the client's side and this core, and has them ask, with messages
    /// of `size` bytes that are answered with as many.
    ///
    /// # Errors
    /// A connection cannot be opened, or this process may not have as many descriptors.
    pub fn start(
        world: &World,
        server: SocketAddr,
        (connections, size): (usize, usize),
        core: usize,
    ) -> Result<Self> {
        let (stop, answered) = <(Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let (opened, when_opened) = channel();
        let namespace = world.name(Side::Client).to_owned();
        let thread = std::thread::Builder::new().name("asking".into()).spawn({
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            move || {
                crate::world::enter_namespace(&namespace)?;
                cores::stay_on(core)?;
                let clients = Clients::open(server, connections, size)?;
                clients.run(opened, &answered, &stop)
            }
        })?;
        let mut asking = Self {
            stop,
            answered,
            thread: Some(thread),
        };
        // The thread that fails lets go of its end.
        match when_opened.recv() {
            Ok(()) => Ok(asking),
            Err(_) => Err(asking.failed()),
        }
    }

    /// Messages that have been answered so far.
    ///
    /// # Errors
    /// A connection has failed, and with it all.
    pub fn answered(&mut self) -> Result<u64> {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(self.failed());
        }
        Ok(self.answered.load(Ordering::Relaxed))
    }

    /// Why the thread has ended.
    fn failed(&mut self) -> anyhow::Error {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => error.context("the clients that ask"),
            Some(Err(_)) => anyhow!("the clients that ask panicked"),
            Some(Ok(Ok(()))) | None => anyhow!("the clients that ask have ended"),
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Nobody asks any more how it went.
            let _ = thread.join();
        }
    }
}

/// The connections.
struct Clients {
    sockets: Vec<OwnedFd>,
    /// Bytes of its answer that each has.
    have: Vec<usize>,
    message: Vec<u8>,
    epoll: OwnedFd,
}

impl Clients {
    fn open(server: SocketAddr, connections: usize, size: usize) -> Result<Self> {
        allow(connections as u64 + OTHERS)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut sockets = Vec::with_capacity(connections);
        let began = Instant::now();
        while sockets.len() < connections {
            let left = OPENING.saturating_sub(began.elapsed());
            ensure!(
                !left.is_zero(),
                "{} of {connections} opened in {OPENING:?}",
                sockets.len()
            );
            let stream = TcpStream::connect_timeout(&server, left).context("connect")?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let socket = OwnedFd::from(stream);
            // Closed by a reset, which leaves no port behind.
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
            let index = epoll::EventData::new_u64(sockets.len() as u64);
            epoll::add(&epoll, &socket, index, epoll::EventFlags::IN)?;
            sockets.push(socket);
        }
        Ok(Self {
            have: vec![0; connections],
            message: vec![b'x'; size],
            sockets,
            epoll,
        })
    }

    /// Asks until it is to stop.
    fn run(mut self, opened: Sender<()>, answered: &AtomicU64, stop: &AtomicBool) -> Result<()> {
        for index in 0..self.sockets.len() {
            self.ask(index)?;
        }
        // Who waits for it is there, or does not want it any more.
        let _ = opened.send(());
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; self.message.len()];
        while !stop.load(Ordering::Relaxed) {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&LOOK)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).context("epoll_wait"),
            }
            for event in &events {
                let index = usize::try_from(event.data.u64())?;
                if self.is_answered(index, &mut buffer)? {
                    answered.fetch_add(1, Ordering::Relaxed);
                    self.ask(index)?;
                }
            }
        }
        Ok(())
    }

    fn ask(&self, index: usize) -> Result<()> {
        let sent = send(&self.sockets[index], &self.message, SendFlags::NOSIGNAL)?;
        ensure!(sent == self.message.len(), "a message had no room");
        Ok(())
    }

    /// Takes what has come; whether the answer is whole.
    fn is_answered(&mut self, index: usize, buffer: &mut [u8]) -> Result<bool> {
        let room = &mut buffer[self.have[index]..];
        let read = match recv(&self.sockets[index], room, RecvFlags::empty()) {
            Ok((0, _)) => bail!("the server has ended a connection"),
            Ok((read, _)) => read,
            Err(Errno::AGAIN) => 0,
            Err(errno) => return Err(errno).context("a connection"),
        };
        self.have[index] += read;
        let is_whole = self.have[index] == self.message.len();
        if is_whole {
            self.have[index] = 0;
        }
        Ok(is_whole)
    }
}

/// Lets this process have so many descriptors, if it may.
fn allow(descriptors: u64) -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= descriptors) {
        return Ok(());
    }
    limit.current = limit.maximum;
    let most = limit.maximum.unwrap_or(u64::MAX);
    ensure!(
        most >= descriptors,
        "the clients that ask need {descriptors} descriptors, and this process may have {most}: ulimit -Hn {descriptors}"
    );
    setrlimit(Resource::Nofile, limit).context("cannot have more descriptors")
}

#[cfg(test)]
mod tests {
    use super::Clients;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::mpsc::channel;

    /// A server that answers a message in two halves, and one message at a time.
    #[test]
    fn every_answer_is_followed_by_the_next_message_until_it_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = listener.local_addr().expect("bound");
        let clients = Clients::open(server, 3, 64).expect("opened");
        let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        let (opened, when_opened) = channel();
        std::thread::scope(|scope| {
            let run = scope.spawn(|| clients.run(opened, &answered, &stop));
            when_opened.recv().expect("opened");
            let mut streams: Vec<_> = (0..3)
                .map(|_| listener.accept().expect("there").0)
                .collect();
            for round in 1..=20 {
                for stream in &mut streams {
                    let mut message = [0; 64];
                    stream.read_exact(&mut message).expect("a message");
                    assert_eq!(message, [b'x'; 64]);
                    stream.write_all(&message[..10]).expect("room");
                    stream.write_all(&message[10..]).expect("room");
                }
                while answered.load(Ordering::Relaxed) < 3 * round {
                    std::thread::yield_now();
                }
                assert_eq!(answered.load(Ordering::Relaxed), 3 * round);
            }
            stop.store(true, Ordering::Relaxed);
            run.join().expect("no panic").expect("no error");
        });
    }

    #[test]
    fn a_server_that_ends_a_connection_ends_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = listener.local_addr().expect("bound");
        let clients = Clients::open(server, 1, 64).expect("opened");
        let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        let (mut stream, _) = listener.accept().expect("there");
        let run = std::thread::spawn(move || clients.run(channel().0, &answered, &stop));
        stream.read_exact(&mut [0; 64]).expect("a message");
        drop(stream);
        let error = run.join().expect("no panic").expect_err("ended");
        assert!(
            format!("{error:#}").contains("ended a connection"),
            "{error:#}"
        );
    }
}
