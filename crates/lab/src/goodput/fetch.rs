//! The clients: each fetches a file over and over on one connection, and counts what it gets.

use super::subject::FILE;
use crate::sampler::thread_time;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

/// Files that are asked for ahead of what has come, so that the server never waits for a request: 256 MiB.
const AHEAD: u64 = 8;

/// One that is to fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch {
    /// Its own address.
    pub from: Ipv4Addr,
    /// The server's.
    pub at: SocketAddr,
}

/// What one got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Got {
    /// Megabits a second, from when its connection stood.
    pub all: f64,
    /// Megabits a second in the second half of that.
    pub settled: f64,
    /// What its thread used.
    pub used: Duration,
}

/// Fetches all at once for `window`, each from when its connection stands.
pub(crate) fn fetch(world: &World, fetches: &[Fetch], window: Duration) -> Result<Vec<Got>> {
    std::thread::scope(|scope| {
        let clients: Vec<_> = fetches
            .iter()
            .map(|fetch| {
                scope.spawn(|| {
                    world.enter(Side::Client)?;
                    fetch.run(window)
                })
            })
            .collect();
        let join = |client: std::thread::ScopedJoinHandle<'_, Result<Got>>| {
            client
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        clients.into_iter().map(join).collect()
    })
}

impl Fetch {
    fn run(&self, window: Duration) -> Result<Got> {
        let mut stream = self.connect().context("no connection")?;
        stream.set_nodelay(true)?;
        let begin = Instant::now();
        let mut asked = 0;
        let mut buffer = vec![0; 256 << 10];
        let (mut bytes, mut late_bytes) = (0_u64, 0_u64);
        let half = window / 2;
        loop {
            let passed = begin.elapsed();
            let Some(left) = window.checked_sub(passed).filter(|left| !left.is_zero()) else {
                let rate =
                    |bytes: u64, time: Duration| bytes as f64 * 8.0 / time.as_secs_f64() / 1e6;
                return Ok(Got {
                    all: rate(bytes, window),
                    settled: rate(late_bytes, window - half),
                    used: thread_time(),
                });
            };
            while asked < bytes / FILE.1 as u64 + AHEAD {
                write!(stream, "GET /{} HTTP/1.1\r\nHost: lab\r\n\r\n", FILE.0)?;
                asked += 1;
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut buffer) {
                Ok(0) => bail!("the server has closed the connection"),
                Ok(count) => {
                    bytes += count as u64;
                    if begin.elapsed() > half {
                        late_bytes += count as u64;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("the connection broke"),
            }
        }
    }

    /// Connects from the address that was asked for. On a wire that loses that takes a second for each SYN
    /// that is lost, as always.
    fn connect(&self) -> Result<TcpStream> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddrV4::new(self.from, 0))
            .with_context(|| format!("bind to {}", self.from))?;
        connect(&socket, &self.at).with_context(|| format!("connect to {}", self.at))?;
        Ok(TcpStream::from(socket))
    }
}
