//! Clients of a key-value store that speaks memcached's text protocol: many connections, each with one command under
//! way, gets and sets mixed. Every answer is held against what it has to be.

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
const EVENTS: usize = 256;
const STORED: &[u8] = b"STORED\r\n";

/// What is asked, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The store.
    pub server: SocketAddr,
    /// Connections, each with one command under way.
    pub connections: usize,
    /// Keys that there are, each asked for as often as the others.
    pub keys: usize,
    /// Bytes of a value.
    pub value: usize,
    /// The part of commands that set, from 0 to 1; all others get.
    pub sets: f64,
    /// How long.
    pub duration: Duration,
    /// What is drawn begins with this.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Commands that were answered.
    pub answered: u64,
    /// Nanoseconds from sending a command until its answer was whole.
    pub latency: Histogram<u64>,
    /// From the first command to the last answer that counts.
    pub took: Duration,
}

/// The texts of a key.
struct Texts {
    get: Vec<u8>,
    set: Vec<u8>,
    /// What a get is answered with.
    value: Vec<u8>,
}

impl Texts {
    fn of(key: usize, size: usize) -> Self {
        let bytes: Vec<u8> = (0..size).map(|at| b'a' + ((key + at) % 26) as u8).collect();
        let around = |head: String, tail: &str| [head.as_bytes(), &bytes, tail.as_bytes()].concat();
        Self {
            get: format!("get key:{key:08}\r\n").into_bytes(),
            set: around(format!("set key:{key:08} 0 0 {size}\r\n"), "\r\n"),
            value: around(format!("VALUE key:{key:08} 0 {size}\r\n"), "\r\nEND\r\n"),
        }
    }
}

/// A connection, and the command that is under way on it.
struct Client {
    socket: OwnedFd,
    key: usize,
    is_set: bool,
    have: usize,
    sent: Instant,
}

impl Load {
    /// Sets every key once, so that no get finds nothing.
    ///
    /// # Errors
    /// The store refuses one.
    pub fn fill(&self) -> Result<()> {
        let mut stream = TcpStream::connect_timeout(&self.server, LIMIT).context("connect")?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_nodelay(true)?;
        let mut answer = [0; STORED.len()];
        for key in 0..self.keys {
            stream.write_all(&Texts::of(key, self.value).set)?;
            stream.read_exact(&mut answer)?;
            ensure!(answer == STORED, "a set was answered by {answer:?}");
        }
        Ok(())
    }

    /// Asks in the calling thread, in its network and on its cores.
    ///
    /// # Errors
    /// A connection fails, or an answer is not what it has to be.
    pub fn run(&self) -> Result<Outcome> {
        ensure!(self.connections > 0 && self.keys > 0, "nothing to ask");
        let texts: Vec<Texts> = (0..self.keys)
            .map(|key| Texts::of(key, self.value))
            .collect();
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut clients = Vec::with_capacity(self.connections);
        for index in 0..self.connections {
            let stream = TcpStream::connect_timeout(&self.server, LIMIT).context("connect")?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let socket = OwnedFd::from(stream);
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, &socket, data, epoll::EventFlags::IN)?;
            clients.push(Client {
                socket,
                key: 0,
                is_set: false,
                have: 0,
                sent: Instant::now(),
            });
        }
        let began = Instant::now();
        for client in &mut clients {
            client.ask(&texts, self.sets, &mut random)?;
        }
        let mut outcome = Outcome {
            answered: 0,
            latency: Histogram::new_with_bounds(1_000, 60_000_000_000, 3)?,
            took: Duration::ZERO,
        };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; 64 << 10];
        let mut last = began;
        while began.elapsed() < self.duration {
            events.clear();
            match epoll::wait(&epoll, spare_capacity(&mut events), Some(&LOOK)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).context("epoll_wait"),
            }
            ensure!(last.elapsed() < LIMIT, "no answer for {LIMIT:?}");
            for event in &events {
                let index = usize::try_from(event.data.u64())?;
                let client = clients.get_mut(index).context("no such client")?;
                if client.is_answered(&texts, &mut buffer)? {
                    last = Instant::now();
                    let took = last.saturating_duration_since(client.sent);
                    let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                    outcome.latency.saturating_record(took);
                    outcome.answered += 1;
                    client.ask(&texts, self.sets, &mut random)?;
                }
            }
        }
        outcome.took = began.elapsed();
        Ok(outcome)
    }
}

impl Client {
    fn ask(&mut self, texts: &[Texts], sets: f64, random: &mut ChaCha8Rng) -> Result<()> {
        self.key = random.random_range(0..texts.len());
        self.is_set = random.random_bool(sets);
        self.have = 0;
        self.sent = Instant::now();
        let texts = &texts[self.key];
        let text = if self.is_set { &texts.set } else { &texts.get };
        let sent = send(&self.socket, text, SendFlags::NOSIGNAL)?;
        ensure!(sent == text.len(), "a command had no room");
        Ok(())
    }

    /// Takes what has come; whether the answer is whole.
    fn is_answered(&mut self, texts: &[Texts], buffer: &mut [u8]) -> Result<bool> {
        let read = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => bail!("the store has ended a connection"),
            Ok((read, _)) => read,
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(errno).context("a connection"),
        };
        let wanted = match self.is_set {
            true => STORED,
            false => &texts[self.key].value,
        };
        let rest = &wanted[self.have..];
        if rest.get(..read) != Some(&buffer[..read]) {
            let shown = String::from_utf8_lossy(&buffer[..read.min(60)]).into_owned();
            bail!("not the answer of key {}: {shown:?}", self.key);
        }
        self.have += read;
        Ok(self.have == wanted.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, Texts};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::time::Duration;

    /// A store of values of 100 bytes that answers in two halves; with `wrong`, gets by another key's value.
    fn store(wrong: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let (mut stream, mut line) = (stream, String::new());
                    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                        let (word, key) = (&line[..3], line[8..16].parse::<usize>().unwrap());
                        let answer = if word == "get" {
                            Texts::of(key + wrong, 100).value
                        } else {
                            reader.read_exact(&mut [0; 102]).unwrap();
                            b"STORED\r\n".to_vec()
                        };
                        let _ = stream.write_all(&answer[..4]);
                        let _ = stream.write_all(&answer[4..]);
                        line.clear();
                    }
                });
            }
        });
        address
    }

    fn load(server: SocketAddr) -> Load {
        Load {
            server,
            connections: 4,
            keys: 10,
            value: 100,
            sets: 0.25,
            duration: Duration::from_millis(100),
            seed: 1,
        }
    }

    #[test]
    fn every_command_is_answered_and_followed_by_the_next() {
        let load = load(store(0));
        load.fill().unwrap();
        let outcome = load.run().unwrap();
        assert!(outcome.answered > 4, "{outcome:?}");
        assert_eq!(outcome.latency.len(), outcome.answered);
        assert!(outcome.took >= load.duration);
    }

    #[test]
    fn an_answer_that_is_not_that_of_its_key_is_an_error() {
        let error = load(store(1)).run().unwrap_err().to_string();
        assert!(error.contains("not the answer"), "{error}");
    }
}
