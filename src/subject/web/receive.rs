//! How requests are received, in each way that is compared. Whoever understands a request copies it before, because
//! its bytes are in memory that is shared: by that the ways differ less than for bytes that nobody understands.

use super::args;
use anyhow::{Context as _, Result};
use native::{Context, Errno, Event, Handle, Kind, Memory, Queue, Shutdown};
use std::collections::HashMap;
use std::sync::atomic::AtomicU8;

use crate::serve::request::MAX_HEAD;

/// Bytes of a posted buffer, and how many buffers there are: one for a connection. Connections beyond them are
/// received from by copying.
const BUFFER: usize = 4_096;
const BUFFERS: usize = 256;

/// What a look at a connection has brought.
pub enum Took<'a> {
    Bytes(&'a [u8]),
    /// Nothing yet. An event tells when that has changed.
    Nothing,
    /// Nothing, and nothing will come.
    End,
}

pub struct Receiver {
    way: args::Receive,
    /// Where bytes are copied to, to be understood.
    bytes: Vec<u8>,
    posted: Option<Posted>,
}

/// Buffers for what comes.
struct Posted {
    memory: Memory,
    /// Buffers that nobody has.
    free: Vec<usize>,
    /// Whose the others are. Of a connection that is over, too, until its buffer is back.
    buffers: HashMap<Handle, Buffer>,
}

struct Buffer {
    number: usize,
    /// Bytes that have come, and those that were taken of them.
    put: usize,
    taken: usize,
    /// It is the engine's.
    is_posted: bool,
    is_closing: bool,
}

impl Receiver {
    pub fn new(way: args::Receive, context: &Context) -> Result<Self> {
        let posted = || {
            let memory = context.register(BUFFERS * BUFFER);
            Ok::<_, anyhow::Error>(Posted {
                memory: memory.context("no memory for what comes")?,
                free: (0..BUFFERS).collect(),
                buffers: HashMap::new(),
            })
        };
        let posted = (way == args::Receive::Push).then(posted).transpose()?;
        Ok(Self {
            way,
            bytes: vec![0; MAX_HEAD],
            posted,
        })
    }

    /// Posts a buffer to a new connection, if it is to have one.
    pub fn accepted(&mut self, queue: &mut Queue, handle: Handle) -> Result<()> {
        let Some(posted) = &mut self.posted else {
            return Ok(());
        };
        let Some(number) = posted.free.pop() else {
            return Ok(());
        };
        let buffer = Buffer {
            number,
            put: 0,
            taken: 0,
            is_posted: false,
            is_closing: false,
        };
        posted.buffers.insert(handle, buffer);
        posted.post(queue, handle)
    }

    /// Takes note of what has come to a posted buffer.
    pub fn put(&mut self, queue: &mut Queue, event: &Event) {
        let Some(posted) = &mut self.posted else {
            return;
        };
        let Some(buffer) = posted.buffers.get_mut(&event.handle) else {
            return;
        };
        buffer.put = event.bytes as usize;
        buffer.is_posted &= event.kind != Kind::Filled;
        if buffer.is_closing && !buffer.is_posted {
            posted.close(queue, event.handle);
        }
    }

    /// What has come on a connection.
    pub fn take(&mut self, queue: &mut Queue, handle: Handle) -> Result<Took<'_>> {
        if let Some(posted) = &mut self.posted
            && posted.buffers.contains_key(&handle)
        {
            return posted.take(queue, handle, &mut self.bytes);
        }
        let read = match self.way {
            args::Receive::Pull => match queue.view(handle, self.bytes.len()) {
                Ok(Some(view)) => {
                    let bytes = view.bytes()?;
                    let len = bytes.len();
                    queue_pair::copy_out(bytes, &mut self.bytes[..len]);
                    queue.release(view)?;
                    Ok(len)
                }
                Ok(None) => Ok(0),
                Err(errno) => Err(errno),
            },
            args::Receive::Copying | args::Receive::Push => queue.recv(handle, &mut self.bytes),
        };
        Ok(match read {
            Ok(read @ 1..) => Took::Bytes(&self.bytes[..read]),
            Err(Errno::AGAIN) => Took::Nothing,
            Ok(_) | Err(_) => Took::End,
        })
    }

    /// Closes a connection; if it has a posted buffer, when that is back.
    pub fn close(&mut self, queue: &mut Queue, handle: Handle) {
        match &mut self.posted {
            Some(posted) if posted.buffers.contains_key(&handle) => {
                posted.begin_to_close(queue, handle);
            }
            // It is there, since its server has it.
            _ => drop(queue.close(handle)),
        }
    }
}

impl Posted {
    fn post(&mut self, queue: &mut Queue, handle: Handle) -> Result<()> {
        let Some(buffer) = self.buffers.get_mut(&handle) else {
            return Ok(());
        };
        let posted = queue.post(handle, &self.memory, buffer.number * BUFFER, BUFFER, 0);
        posted.context("post")?;
        (buffer.put, buffer.taken, buffer.is_posted) = (0, 0, true);
        Ok(())
    }

    fn take<'a>(
        &mut self,
        queue: &mut Queue,
        handle: Handle,
        out: &'a mut [u8],
    ) -> Result<Took<'a>> {
        let Some(buffer) = self.buffers.get_mut(&handle) else {
            return Ok(Took::End);
        };
        let (from, len) = (
            buffer.number * BUFFER + buffer.taken,
            buffer.put - buffer.taken,
        );
        if len > 0 {
            let come: &[AtomicU8] = &self.memory.bytes()?[from..from + len];
            queue_pair::copy_out(come, &mut out[..len]);
            buffer.taken = buffer.put;
            return Ok(Took::Bytes(&out[..len]));
        }
        if buffer.is_posted {
            return Ok(Took::Nothing);
        }
        // A buffer that is not full has come back because there is no more.
        if buffer.put < BUFFER {
            return Ok(Took::End);
        }
        self.post(queue, handle)?;
        Ok(Took::Nothing)
    }

    /// The engine may put something into the buffer until it has given it back.
    fn begin_to_close(&mut self, queue: &mut Queue, handle: Handle) {
        let Some(buffer) = self.buffers.get_mut(&handle) else {
            return;
        };
        if buffer.is_posted {
            buffer.is_closing = true;
            // One that is over gives it back by itself.
            let _ = queue.shutdown(handle, Shutdown::Both);
        } else {
            self.close(queue, handle);
        }
    }

    fn close(&mut self, queue: &mut Queue, handle: Handle) {
        if let Some(buffer) = self.buffers.remove(&handle) {
            self.free.push(buffer.number);
        }
        let _ = queue.close(handle);
    }
}
