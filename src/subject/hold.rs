//! Holds connections over the native interface, and answers every message on any of them with as many bytes, until it
//! is killed. It keeps nothing of its own for a connection: what one takes is the library's and the engine's.

use anyhow::{Context as _, Result, ensure};
use native::{Context, Errno, Event, Handle, Kind, Mode, Queue, Setting};
use std::net::SocketAddr;

/// Hold connections, and answer every message with as many bytes
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT")]
    at: SocketAddr,
    /// Bytes of a message
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1_400))]
    size: u32,
}

/// Connections that wait to be accepted, at most.
const BACKLOG: u32 = 16_384;
/// Those that the engine may hand over before one is accepted.
const EAGER: u32 = 256;
const EVENTS: usize = 256;

/// Serves. It returns only with an error.
pub fn run(args: &Args) -> Result<()> {
    let context = Context::attach("default", "subject", Mode::Engine)?;
    let mut queue = context.queue()?;
    let listener = queue.listen(args.at, BACKLOG, 0)?;
    queue.set(listener, Setting::EagerAccept(EAGER))?;
    let mut message = vec![0; args.size as usize];
    let mut events = Vec::new();
    loop {
        match queue.wait(&mut events, EVENTS, None) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).context("wait"),
        }
        for event in events.drain(..) {
            if !goes_on(&mut queue, event, &mut message)? {
                // One that is closed already may have an event left among those taken with it.
                let _ = queue.close(event.handle);
            }
        }
    }
}

/// Does what an event asks for. False: its connection is over.
fn goes_on(queue: &mut Queue, event: Event, message: &mut [u8]) -> Result<bool> {
    match event.kind {
        Kind::Accept => {
            accept(queue, event.handle)?;
            Ok(true)
        }
        Kind::Receive => answer(queue, event.handle, message),
        Kind::End => Ok(false),
        _ => Ok(true),
    }
}

fn accept(queue: &mut Queue, listener: Handle) -> Result<()> {
    loop {
        match queue.accept(listener, 0) {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(errno) => return Err(errno).context("accept"),
        }
    }
}

/// Answers what has come. False: the connection is over.
fn answer(queue: &mut Queue, handle: Handle, message: &mut [u8]) -> Result<bool> {
    loop {
        match queue.recv(handle, message) {
            Ok(0) => return Ok(false),
            // A client has one message under way, and that is one segment.
            Ok(read) => ensure!(read == message.len(), "{read} bytes instead of a message"),
            Err(errno) => return Ok(errno == Errno::AGAIN),
        }
        match queue.send(handle, message, false) {
            Ok(sent) => ensure!(sent == message.len(), "an answer had no room"),
            Err(_) => return Ok(false),
        }
    }
}
