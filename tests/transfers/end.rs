//! One end of a transfer, on ordinary blocking sockets: the same code on the engine and on the
//! kernel.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use sim::Rng;

use super::plan::{Content, End, Hash, Kind, Transfer};

/// Nothing may take longer than this without a byte getting through.
pub const STALL: Duration = Duration::from_secs(30);

/// What an end has sent, or received: how much, its hash, and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub bytes: u64,
    pub hash: u64,
    pub ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All was sent; or what was received ended as it should.
    Well,
    /// The peer has reset the connection.
    Reset,
}

/// Does this end's part; returns what it has sent and received.
pub fn run(stream: &TcpStream, transfer: &Transfer, end: End) -> io::Result<[Stretch; 2]> {
    stream.set_read_timeout(Some(STALL))?;
    stream.set_write_timeout(Some(STALL))?;
    let salt = end as u64 + 1;
    let rng = Rng::new(transfer.seed ^ (transfer.id << 8) ^ salt);
    let mut sender = Sender {
        stream,
        content: Content::new(transfer, end),
        rng: rng.clone(),
        sent: 0,
    };
    let mut receiver = Receiver {
        stream,
        hash: Hash::new(),
        rng,
        received: 0,
        slow: false,
    };
    let total = transfer.sends(end);
    let ended = match transfer.kind {
        Kind::BothWays => at_once(|| sender.send_all(total), || receiver.receive_to_end())?,
        Kind::Slow(who) => {
            receiver.slow = who == end;
            at_once(|| sender.send_all(total), || receiver.receive_to_end())?
        }
        Kind::InTurn(first) if first == end => {
            [sender.send_all(total)?, receiver.receive_to_end()?]
        }
        Kind::InTurn(_) => {
            let received = receiver.receive_to_end()?;
            [sender.send_all(total)?, received]
        }
        Kind::PingPong(turns) => {
            let mine = total / turns;
            let theirs = transfer.sends(end.other()) / turns;
            for _ in 0..turns {
                if end == End::Client {
                    sender.send(mine)?;
                }
                receiver.receive(theirs)?;
                if end == End::Server {
                    sender.send(mine)?;
                }
            }
            [sender.send_all(0)?, receiver.receive_to_end()?]
        }
        Kind::Abort(who, after) if who == end => at_once(
            || sender.send(total).map(|()| Ended::Well),
            || receiver.receive(after).map(|()| Ended::Well),
        )?,
        Kind::Abort(..) => at_once(
            || unless_reset(sender.send(total).map(|()| Ended::Well)),
            || unless_reset(receiver.receive_to_end()),
        )?,
    };
    Ok([
        Stretch {
            bytes: sender.sent,
            hash: sender.content.hash.value(),
            ended: ended[0],
        },
        Stretch {
            bytes: receiver.received,
            hash: receiver.hash.value(),
            ended: ended[1],
        },
    ])
}

fn at_once(
    send: impl FnOnce() -> io::Result<Ended> + Send,
    receive: impl FnOnce() -> io::Result<Ended>,
) -> io::Result<[Ended; 2]> {
    std::thread::scope(|scope| {
        let sending = scope.spawn(send);
        let received = receive();
        let sent = sending.join().expect("no panic");
        Ok([sent?, received?])
    })
}

fn unless_reset(result: io::Result<Ended>) -> io::Result<Ended> {
    match result {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ) =>
        {
            Ok(Ended::Reset)
        }
        other => other,
    }
}

struct Sender<'a> {
    stream: &'a TcpStream,
    content: Content,
    rng: Rng,
    sent: u64,
}

impl Sender<'_> {
    /// Sends so much in pieces of any size, now and then with a pause.
    fn send(&mut self, mut left: u64) -> io::Result<()> {
        let mut buffer = vec![0; 100_000];
        while left > 0 {
            let piece = (1 + self.rng.magnitude(buffer.len() as u64 - 1)).min(left);
            let piece = &mut buffer[..piece as usize];
            self.content.fill(piece);
            self.stream.write_all(piece)?;
            left -= piece.len() as u64;
            self.sent += piece.len() as u64;
            if self.rng.below(32) == 0 {
                std::thread::sleep(self.rng.span(Duration::from_millis(10)));
            }
        }
        Ok(())
    }

    /// Sends so much, and says that this is all.
    fn send_all(&mut self, total: u64) -> io::Result<Ended> {
        self.send(total)?;
        self.stream.shutdown(Shutdown::Write)?;
        Ok(Ended::Well)
    }
}

struct Receiver<'a> {
    stream: &'a TcpStream,
    hash: Hash,
    rng: Rng,
    received: u64,
    slow: bool,
}

impl Receiver<'_> {
    fn receive_some(&mut self, most: u64) -> io::Result<usize> {
        let mut buffer = [0; 32 << 10];
        let size = 1 + self.rng.magnitude(buffer.len() as u64 - 1);
        let piece = &mut buffer[..size.min(most) as usize];
        if self.slow {
            // In the beginning so long that every window is full.
            let longest = if self.received == 0 { 1_000 } else { 5 };
            std::thread::sleep(self.rng.span(Duration::from_millis(longest)));
        }
        let count = self.stream.read(piece)?;
        self.hash.update(&piece[..count]);
        self.received += count as u64;
        Ok(count)
    }

    fn receive(&mut self, length: u64) -> io::Result<()> {
        let end = self.received + length;
        while self.received < end {
            if self.receive_some(end - self.received)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    fn receive_to_end(&mut self) -> io::Result<Ended> {
        while self.receive_some(u64::MAX)? > 0 {}
        Ok(Ended::Well)
    }
}
