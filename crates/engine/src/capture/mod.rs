//! Captures: copies of the packets that the engine handles, for people.
//!
//! tcpdump on the interface sees nothing that is steered to the engine or sent by it, so the engine
//! offers the same itself. A capture is a [`Filter`] and a stream socket, into which go the frames
//! that pass, as pcapng with direction and, for what was dropped, the reason.
//!
//! The engine never waits for whoever reads. A capture has a buffer of bounded size; frames that
//! find it full are left out, and the next one that is written says how many. It is a socket and
//! not a pipe for the same reason as a [doorbell](queue_pair::doorbell): the reader could make the
//! writer of a pipe block.

mod filter;
mod frame;
mod headers;
mod pcapng;

pub use filter::{Filter, FilterError};
pub use frame::{Direction, Frame};

use headers::Headers;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};
use rustix::time::{ClockId, clock_gettime};
use tcp::Instant;

use crate::clock::Clock;

/// How many captures there can be at once.
pub const MAX_CAPTURES: usize = 4;
/// What a capture can hold for a reader that is behind, in bytes.
const BUFFER: usize = 4 << 20;

/// Why a capture cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The filter is not one.
    #[error("this is not a filter: {0}")]
    Filter(#[from] FilterError),
    /// What was given to write to is something else.
    #[error("a capture is written to a UNIX stream socket, and this is none")]
    NotASocket,
    /// There are enough already.
    #[error("{MAX_CAPTURES} captures are running, and no more are possible")]
    TooMany,
}

/// All captures of a worker; nearly always none.
#[derive(Debug)]
#[expect(
    clippy::vec_box,
    reason = "they come in boxes, and go in them to who closes them"
)]
pub struct Captures {
    running: Vec<Box<Capture>>,
    ended: Vec<Box<Capture>>,
}

impl Default for Captures {
    fn default() -> Self {
        Self {
            running: Vec::with_capacity(MAX_CAPTURES),
            ended: Vec::with_capacity(MAX_CAPTURES),
        }
    }
}

impl Captures {
    /// Whether anybody captures: the one question that is asked about every frame.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.running.is_empty()
    }

    /// Begins a capture of frames whose times are by this clock.
    ///
    /// # Errors
    /// There are [`MAX_CAPTURES`], and this one comes back.
    pub fn begin(&mut self, mut capture: Box<Capture>, clock: &Clock) -> Result<(), Box<Capture>> {
        if self.running.len() + self.ended.len() >= MAX_CAPTURES {
            return Err(capture);
        }
        capture.zero = wall_clock_at_zero(clock);
        self.running.push(capture);
        Ok(())
    }

    /// A frame was received, sent or dropped at `now`.
    pub fn frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if !self.is_on() {
            return;
        }
        let headers = Headers::read(frame.head);
        for capture in &mut self.running {
            if capture.filter.passes(frame, &headers) {
                capture.write(now, frame);
            }
        }
    }

    /// Sends on what has gathered, as far as the readers keep up. To be called after a batch.
    pub fn flush(&mut self) {
        let over = |capture: &mut Box<Capture>| capture.flush().is_err();
        self.ended.extend(self.running.extract_if(.., over));
    }

    /// Ends the captures that nobody reads any more. To be called now and then, since without
    /// frames nothing else would notice.
    pub fn reap(&mut self) {
        self.flush();
        let over = |capture: &mut Box<Capture>| capture.is_closed();
        self.ended.extend(self.running.extract_if(.., over));
    }

    /// One that has ended. To close its socket can take as long as its reader likes.
    pub fn take_ended(&mut self) -> Option<Box<Capture>> {
        self.ended.pop()
    }

    /// All that there are: nobody goes on with them.
    pub fn end(&mut self) -> impl Iterator<Item = Box<Capture>> {
        self.running.drain(..).chain(self.ended.drain(..))
    }
}

/// One capture.
#[derive(Debug)]
pub struct Capture {
    filter: Filter,
    socket: OwnedFd,
    /// What is to be sent, and before `sent` what was.
    buffer: Vec<u8>,
    sent: usize,
    /// Frames that found the buffer full since the last that did not.
    lost: u64,
    /// The wall clock at the engine's zero, in nanoseconds since 1970.
    zero: u64,
    /// Whose it is.
    uid: u32,
}

impl Capture {
    /// The filter, if that is one, and the socket is fit to be written to.
    ///
    /// # Errors
    /// The filter does not parse, or the socket is none.
    pub fn check(filter: &str, socket: impl AsFd) -> Result<Filter, CaptureError> {
        let filter = filter.parse()?;
        let is_stream = sockopt::socket_type(&socket) == Ok(SocketType::STREAM);
        if !is_stream || sockopt::socket_domain(&socket) != Ok(AddressFamily::UNIX) {
            return Err(CaptureError::NotASocket);
        }
        Ok(filter)
    }

    /// Of the frames that pass `filter`, for this user, written to `socket`, both [checked](Self::check). `interfaces`
    /// are the names that the reader sees.
    pub fn new(filter: Filter, socket: OwnedFd, interfaces: &[String], uid: u32) -> Self {
        let mut buffer = Vec::with_capacity(BUFFER);
        match interfaces {
            [] => pcapng::begin(&mut buffer, &[String::new()]),
            named => pcapng::begin(&mut buffer, named),
        }
        Self {
            filter,
            socket,
            buffer,
            sent: 0,
            lost: 0,
            zero: 0,
            uid,
        }
    }

    /// Whose it is, and what is to be closed.
    pub fn into_socket(self) -> (u32, OwnedFd) {
        (self.uid, self.socket)
    }

    fn write(&mut self, now: Instant, frame: &Frame<'_>) {
        let packet = pcapng::Packet {
            time: self.zero.saturating_add(now.as_nanos()),
            frame,
            lost: self.lost,
        };
        if self.buffer.len() + packet.len() > BUFFER {
            self.lost += 1;
            return;
        }
        packet.write(&mut self.buffer);
        self.lost = 0;
    }

    fn flush(&mut self) -> Result<(), Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while self.sent < self.buffer.len() {
            match rustix::net::send(&self.socket, &self.buffer[self.sent..], flags) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        if self.sent == self.buffer.len() {
            self.buffer.clear();
            self.sent = 0;
        } else if self.sent >= BUFFER / 2 {
            // Rare enough to move the rest down, and often enough to have room.
            self.buffer.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    fn is_closed(&self) -> bool {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        match rustix::net::recv(&self.socket, &mut [0; 1], flags) {
            // Nobody has anything to say to us, so a byte there does not matter.
            Ok((read, _)) => read == 0,
            Err(errno) => !matches!(errno, Errno::AGAIN | Errno::INTR),
        }
    }
}

/// How long two looks at clocks may take for which nothing came between them, in nanoseconds.
const UNDISTURBED: u64 = 1_000;
/// How often it is looked for such.
const LOOKS: u32 = 16;

/// What the wall clock said when this one began, in nanoseconds since 1970. Both are read side by side, and again
/// if something came between: what is known of the time here is as old as the turn, which may be long.
fn wall_clock_at_zero(clock: &Clock) -> u64 {
    let (mut shortest, mut zero) = (u64::MAX, 0);
    for _ in 0..LOOKS {
        let before = clock.now().as_nanos();
        let wall = wall_clock();
        let took = clock.now().as_nanos() - before;
        if took < shortest {
            (shortest, zero) = (took, wall.saturating_sub(before + took / 2));
        }
        if took <= UNDISTURBED {
            break;
        }
    }
    zero
}

/// Nanoseconds since 1970.
fn wall_clock() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000) + u64::try_from(now.tv_nsec).unwrap_or(0)
}
