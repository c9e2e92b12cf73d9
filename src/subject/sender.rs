//! A connection that is opened and sent on, in one of the ways that are compared. All that is sent are
//! the same bytes, so that memory which is under way never changes.

use anyhow::{Context as _, Result, bail};
use native::{Back, Context, Errno, Event, Handle, Kind, Memory, Mode, Queue, Setting};
use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Nothing takes longer, on however busy a machine.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Asynchronous sends that are under way at most: half of the pieces that the library lets a connection have
/// (`queue_pair::MOST_PIECES`); sends of the same memory are never one piece.
const PIPELINE: u64 = 4_096;
/// Events that are taken at once.
const EVENTS: usize = 256;

/// How it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// By socket calls, of the kernel or of the interposer.
    Sockets,
    /// Natively, copying; a send returns when the engine has handed it to the wire.
    Synchronous,
    /// As synchronous, from registered memory.
    SynchronousRegistered,
    /// Natively, from registered memory; a send returns when the peer has acknowledged it.
    Acknowledged,
    /// Natively, copying; a send comes back by its cookie, when the peer has acknowledged it.
    Asynchronous,
    /// As asynchronous, from registered memory.
    AsynchronousRegistered,
}

impl Way {
    /// Whether a send is to be [settled](Sender::settle) before the next one.
    pub fn is_synchronous(self) -> bool {
        match self {
            Self::Synchronous | Self::SynchronousRegistered | Self::Acknowledged => true,
            Self::Sockets | Self::Asynchronous | Self::AsynchronousRegistered => false,
        }
    }

    fn copies(self) -> bool {
        matches!(self, Self::Synchronous | Self::Asynchronous)
    }

    /// When a send under this cookie comes back.
    fn back(self, cookie: u64) -> Back {
        match self {
            Self::Synchronous | Self::SynchronousRegistered => Back::Left(cookie),
            _ => Back::Acknowledged(cookie),
        }
    }
}

/// The sending end.
pub enum Sender {
    /// Sockets.
    Sockets(TcpStream, Vec<u8>),
    /// The native interface.
    Native(Box<Native>),
}

/// The native interface.
pub struct Native {
    way: Way,
    queue: Queue,
    handle: Handle,
    bytes: Vec<u8>,
    memory: Memory,
    events: Vec<Event>,
    /// Asynchronous sends that were made, and that have come back.
    sent: u64,
    back: u64,
    // Last: it outlives what was made in it.
    _context: Context,
}

impl Sender {
    /// Connects to `to`; each send is of `size` bytes, and with `at_once` leaves however small it is.
    pub fn connect(to: SocketAddr, way: Way, size: usize, at_once: bool) -> Result<Self> {
        let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
        if way == Way::Sockets {
            let stream = TcpStream::connect_timeout(&to, LIMIT)?;
            stream.set_nodelay(at_once)?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.set_write_timeout(Some(LIMIT))?;
            return Ok(Self::Sockets(stream, bytes));
        }
        let context = Context::attach("default", "subject", Mode::Engine)?;
        let memory = context.register(size)?;
        for (to, from) in memory.bytes()?.iter().zip(&bytes) {
            to.store(*from, Ordering::Relaxed);
        }
        let mut queue = context.queue()?;
        let handle = queue.connect(to, &[Setting::NoDelay(at_once)], 0)?;
        let mut native = Native {
            way,
            queue,
            handle,
            bytes,
            memory,
            events: Vec::new(),
            sent: 0,
            back: 0,
            _context: context,
        };
        while native.look(Some(LIMIT))? != Some(Kind::Open) {}
        Ok(Self::Native(Box::new(native)))
    }

    /// Sends once. In a synchronous way it is done then; otherwise it is under way.
    pub fn send(&mut self) -> Result<()> {
        match self {
            Self::Sockets(stream, bytes) => stream.write_all(bytes).context("send"),
            Self::Native(native) => native.send(),
        }
    }

    /// Whether a send is to be [settled](Self::settle) before the next one.
    pub fn is_synchronous(&self) -> bool {
        matches!(self, Self::Native(native) if native.way.is_synchronous())
    }

    /// Waits until all that was sent natively has come back.
    pub fn settle(&mut self) -> Result<()> {
        if let Self::Native(native) = self {
            while native.back < native.sent {
                native.look(Some(LIMIT))?;
            }
        }
        Ok(())
    }

    /// Waits for a byte of the peer's, and takes back what has come back meanwhile.
    pub fn answer(&mut self) -> Result<()> {
        match self {
            Self::Sockets(stream, _) => stream.read_exact(&mut [0]).context("answer"),
            Self::Native(native) => {
                while !native.receive()? {
                    native.look(Some(LIMIT))?;
                }
                Ok(())
            }
        }
    }
}

impl Native {
    fn send(&mut self) -> Result<()> {
        let size = self.bytes.len();
        let mut done = 0;
        while done < size {
            while self.sent - self.back >= PIPELINE {
                self.look(Some(LIMIT))?;
            }
            let (handle, back) = (self.handle, self.way.back(self.sent));
            let taken = if self.way.copies() {
                let rest = IoSlice::new(&self.bytes[done..]);
                self.queue.sendv(handle, &[rest], false, back)
            } else {
                let (memory, rest) = (&self.memory, size - done);
                self.queue
                    .send_registered(handle, memory, done, rest, false, back)
            };
            match taken {
                Ok(taken) => {
                    done += taken;
                    self.sent += 1;
                }
                Err(Errno::AGAIN) => {
                    self.look(Some(LIMIT))?;
                }
                Err(errno) => return Err(errno).context("send"),
            }
        }
        Ok(())
    }

    /// Whether a byte of the peer's was there.
    fn receive(&mut self) -> Result<bool> {
        match self.queue.recv(self.handle, &mut [0]) {
            Ok(0) => bail!("the other end has ended the connection"),
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(errno).context("answer"),
        }
    }

    /// Takes what has happened, or waits for it; the kind of the last event.
    fn look(&mut self, limit: Option<Duration>) -> Result<Option<Kind>> {
        self.queue.wait(&mut self.events, EVENTS, limit)?;
        let mut last = None;
        for event in self.events.drain(..) {
            if event.error != 0 {
                let error = std::io::Error::from_raw_os_error(event.error);
                return Err(error).with_context(|| format!("{:?}", event.kind));
            }
            match event.kind {
                Kind::Sent => self.back += 1,
                Kind::End => bail!("the other end has ended the connection"),
                _ => {}
            }
            last = Some(event.kind);
        }
        if last.is_none() {
            bail!("nothing has happened for {LIMIT:?}");
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::Way;
    use native::Back;

    #[test]
    fn what_is_synchronous_waits_until_it_has_left() {
        use Way::{Acknowledged, Asynchronous, AsynchronousRegistered};
        use Way::{Synchronous, SynchronousRegistered};
        for way in [Synchronous, SynchronousRegistered] {
            assert_eq!(way.back(3), Back::Left(3));
            assert!(way.is_synchronous());
        }
        for way in [Acknowledged, Asynchronous, AsynchronousRegistered] {
            assert_eq!(way.back(3), Back::Acknowledged(3));
            assert_eq!(way.is_synchronous(), way == Acknowledged);
        }
    }
}
