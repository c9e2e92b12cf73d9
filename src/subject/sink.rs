//! Receives to the end of a stream, in one of the ways that are compared, and says what that took.

use super::used::cpu;
use anyhow::{Context as _, Result, bail};
use native::{Context, Errno, Event, Handle, Kind, Memory, Mode, Queue};
use rustix::fs::{MemfdFlags, SealFlags};
use serde_json::{Value, json};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Receive to the end of a stream
#[derive(clap::Args)]
pub struct Args {
    /// Whom to receive from
    #[arg(long, value_name = "ADDR:PORT")]
    from: SocketAddr,
    /// How
    #[arg(long)]
    way: Way,
    /// Bytes that are taken at once at most; of a posted buffer
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    piece: u32,
}

/// How it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// By socket calls, of the kernel or of the interposer.
    Sockets,
    /// Natively, copying.
    Copying,
    /// Natively, looking at what has come where it is (pull).
    Pull,
    /// Natively, into posted buffers (push).
    Push,
    /// The same, in a memory file of the program's own.
    PushMemfd,
}

/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Buffers that are posted at once.
const POSTED: usize = 8;
const EVENTS: usize = 64;

/// What has come. The first byte of each piece is looked at: it is there.
#[derive(Default)]
struct Come {
    bytes: u64,
    looked: u64,
    /// When, and what had been used by then.
    began: Option<(Instant, Duration)>,
}

impl Come {
    fn piece(&mut self, first: u8, bytes: usize) {
        self.began.get_or_insert_with(|| (Instant::now(), cpu()));
        self.bytes += bytes as u64;
        self.looked += u64::from(first);
    }
}

/// Receives, and says how much, and what it used from the first byte on.
pub fn run(args: &Args) -> Result<Value> {
    let piece = args.piece as usize;
    let come = match args.way {
        Way::Sockets => by_sockets(args.from, piece)?,
        way => Native::connect(args.from, way, piece)?.receive()?,
    };
    let (began, used) = come.began.context("nothing has come")?;
    Ok(json!({
        "bytes": come.bytes,
        "looked": come.looked,
        "seconds": began.elapsed().as_secs_f64(),
        "cpu_seconds": cpu().saturating_sub(used).as_secs_f64(),
    }))
}

fn by_sockets(from: SocketAddr, piece: usize) -> Result<Come> {
    let mut stream = TcpStream::connect_timeout(&from, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let (mut bytes, mut come) = (vec![0; piece], Come::default());
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(come),
            read => come.piece(bytes[0], read),
        }
    }
}

/// Registers a memory file of the program's own.
fn memory_file(context: &Context, len: usize) -> Result<Memory> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = rustix::fs::memfd_create("subject", flags)?;
    rustix::fs::ftruncate(&memfd, len as u64)?;
    rustix::fs::fcntl_add_seals(&memfd, SealFlags::SHRINK)?;
    Ok(context.register_memfd(memfd.as_fd(), 0, len)?)
}

struct Native {
    way: Way,
    queue: Queue,
    handle: Handle,
    bytes: Vec<u8>,
    /// Of buffers that are posted.
    memory: Option<Memory>,
    come: Come,
    // Last: it outlives what was made in it.
    _context: Context,
}

impl Native {
    fn connect(from: SocketAddr, way: Way, piece: usize) -> Result<Self> {
        let context = Context::attach("default", "subject", Mode::Engine)?;
        let memory = match way {
            Way::Push => Some(context.register(POSTED * piece)?),
            Way::PushMemfd => Some(memory_file(&context, POSTED * piece)?),
            _ => None,
        };
        let mut queue = context.queue()?;
        let handle = queue.connect(from, &[], 0)?;
        Ok(Self {
            way,
            queue,
            handle,
            bytes: vec![0; piece],
            memory,
            come: Come::default(),
            _context: context,
        })
    }

    fn receive(mut self) -> Result<Come> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            self.queue.wait(&mut events, EVENTS, Some(LIMIT))?;
            if events.is_empty() {
                bail!("nothing has happened for {LIMIT:?}");
            }
            for event in events.drain(..) {
                if event.error != 0 {
                    let error = std::io::Error::from_raw_os_error(event.error);
                    return Err(error).with_context(|| format!("{:?}", event.kind));
                }
                if !self.goes_on(event)? {
                    return Ok(self.come);
                }
            }
        }
    }

    /// Does what an event asks for. False: that was the end.
    fn goes_on(&mut self, event: Event) -> Result<bool> {
        match (event.kind, self.way) {
            (Kind::Open, Way::Push | Way::PushMemfd) => {
                for buffer in 0..POSTED {
                    self.post(buffer)?;
                }
                Ok(true)
            }
            (Kind::Open | Kind::Receive | Kind::End, Way::Copying) => self.copy(),
            (Kind::Open | Kind::Receive | Kind::End, Way::Pull) => self.look(),
            (Kind::Filled, _) => self.filled(event),
            _ => Ok(true),
        }
    }

    fn copy(&mut self) -> Result<bool> {
        loop {
            match self.queue.recv(self.handle, &mut self.bytes) {
                Ok(0) => return Ok(false),
                Ok(read) => self.come.piece(self.bytes[0], read),
                Err(Errno::AGAIN) => return Ok(true),
                Err(errno) => return Err(errno).context("receive"),
            }
        }
    }

    fn look(&mut self) -> Result<bool> {
        loop {
            let view = match self.queue.view(self.handle, self.bytes.len()) {
                Ok(Some(view)) => view,
                Ok(None) => return Ok(false),
                Err(Errno::AGAIN) => return Ok(true),
                Err(errno) => return Err(errno).context("view"),
            };
            let bytes = view.bytes()?;
            self.come
                .piece(bytes[0].load(Ordering::Relaxed), bytes.len());
            self.queue.release(view)?;
        }
    }

    fn post(&mut self, buffer: usize) -> Result<()> {
        let (memory, piece) = (self.memory.as_ref(), self.bytes.len());
        let memory = memory.context("no memory to post")?;
        let posted = self
            .queue
            .post(self.handle, memory, buffer * piece, piece, buffer as u64);
        posted.context("post")
    }

    /// A buffer is back. One that is not full is that of the end.
    fn filled(&mut self, event: Event) -> Result<bool> {
        let (buffer, bytes) = (event.cookie as usize, event.bytes as usize);
        if let (Some(memory), 1..) = (&self.memory, bytes) {
            let first = &memory.bytes()?[buffer * self.bytes.len()];
            self.come.piece(first.load(Ordering::Relaxed), bytes);
        }
        if bytes < self.bytes.len() {
            return Ok(false);
        }
        self.post(buffer)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, Way, run};
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn every_byte_is_received_and_the_first_of_each_piece_looked_at() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let from = listener.local_addr().unwrap();
        let sender = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&[1; 100_001]).unwrap();
        });
        let (way, piece) = (Way::Sockets, 1_000);
        let found = run(&Args { from, way, piece }).unwrap();
        sender.join().unwrap();
        assert_eq!(found["bytes"], 100_001);
        assert!(found["looked"].as_u64().unwrap() >= 101);
        assert!(found["cpu_seconds"].as_f64().unwrap() > 0.0);
    }
}
