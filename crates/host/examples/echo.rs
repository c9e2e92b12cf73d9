//! An echo server on the engine: `cargo run -p outboard-host --example echo -- 0.0.0.0:7000`.
//!
//! It serves clients that come over the engine's interface through the engine, and all others through
//! the kernel's TCP, on the same port.

use std::collections::HashMap;
use std::net::SocketAddr;

use host::{Accepted, Errno, Poller, Readiness, Session, Socket, Source};
use rustix::fd::OwnedFd;

/// The key of the listener; connections count up from the next.
const LISTENER: u64 = 0;

/// A connection and what it is owed.
struct Client {
    stream: Stream,
    pending: Vec<u8>,
    ended: bool,
}

enum Stream {
    Offloaded(Socket),
    Kernel(OwnedFd),
}

impl Stream {
    fn source(&self) -> Source<'_> {
        match self {
            Stream::Offloaded(socket) => Source::Socket(socket),
            Stream::Kernel(fd) => Source::Kernel(rustix::fd::AsFd::as_fd(fd)),
        }
    }

    fn recv(&self, out: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Stream::Offloaded(socket) => socket.recv(out),
            Stream::Kernel(fd) => rustix::io::read(fd, out),
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Stream::Offloaded(socket) => socket.send(bytes, false),
            Stream::Kernel(fd) => rustix::net::send(fd, bytes, rustix::net::SendFlags::NOSIGNAL),
        }
    }
}

impl Client {
    /// Echoes as much as there is and fits. `Ok(false)`: the connection is done.
    fn serve(&mut self, buffer: &mut [u8]) -> Result<bool, Errno> {
        loop {
            while !self.pending.is_empty() {
                match self.stream.send(&self.pending) {
                    Ok(sent) => drop(self.pending.drain(..sent)),
                    Err(Errno::AGAIN) => return Ok(true),
                    Err(errno) => return Err(errno),
                }
            }
            if self.ended {
                return Ok(false);
            }
            match self.stream.recv(buffer) {
                Ok(0) => self.ended = true,
                Ok(read) => self.pending.extend_from_slice(&buffer[..read]),
                Err(Errno::AGAIN) => return Ok(true),
                Err(errno) => return Err(errno),
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr: SocketAddr = std::env::args()
        .nth(1)
        .ok_or("usage: echo ADDR:PORT")?
        .parse()?;
    let session = Session::attach("default", "echo")?;
    let listener = session.listen(addr, 1024)?;
    let mut poller = Poller::new(&session)?;
    poller.add(Source::Listener(&listener), LISTENER, Readiness::IN)?;
    println!("echoing on {}", listener.local());

    let mut clients: HashMap<u64, Client> = HashMap::new();
    let mut next = LISTENER;
    let mut events = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match poller.wait(&mut events, None) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            if event.key == LISTENER {
                while let Ok(accepted) = listener.accept() {
                    let stream = match accepted {
                        Accepted::Offloaded(socket) => Stream::Offloaded(socket),
                        Accepted::Kernel(fd) => Stream::Kernel(fd),
                    };
                    next += 1;
                    poller.add(
                        stream.source(),
                        next,
                        Readiness::IN | Readiness::OUT | Readiness::EDGE,
                    )?;
                    clients.insert(
                        next,
                        Client {
                            stream,
                            pending: Vec::new(),
                            ended: false,
                        },
                    );
                }
            } else if let Some(client) = clients.get_mut(&event.key)
                && !matches!(client.serve(&mut buffer), Ok(true))
            {
                clients.remove(&event.key);
            }
        }
    }
}
