//! Over the native interface.

use super::{Args, Way};
use anyhow::{Context as _, Result, bail, ensure};
use native::{Back, Context, Errno, Event, Handle, Kind, Memory, Mode, Queue, Setting, View};
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::atomic::AtomicU8;

/// What a look at what has come takes at most, in bytes.
const VIEW: usize = 64 << 10;
/// Connections at once that have buffers posted.
const PLACES: usize = 64;
/// Buffers of each: while one is answered from, the other is posted.
const HALVES: usize = 2;
const EVENTS: usize = 64;

pub struct Server {
    way: Way,
    size: usize,
    poll: bool,
    settings: Vec<Setting>,
    with_data: bool,
    queue: Queue,
    listener: Handle,
    connections: HashMap<Handle, Connection>,
    /// Where messages are answered from, and received into: two buffers for each place.
    memory: Memory,
    free: Vec<usize>,
    bytes: Vec<u8>,
    /// What happened while an answer was waited for.
    happened: VecDeque<Event>,
    // Last: it outlives what was made in it.
    _context: Context,
}

/// A connection.
#[derive(Default)]
struct Connection {
    /// Bytes of a message that have come.
    have: usize,
    /// Its place in the memory, if it has buffers posted.
    place: Option<usize>,
    /// Which of its buffers is posted.
    half: usize,
}

impl Server {
    pub fn new(args: &Args) -> Result<Self> {
        let context = Context::attach("default", "subject", Mode::Engine)?;
        let size = args.size as usize;
        let memory = context.register(PLACES * HALVES * size)?;
        let mut queue = context.queue()?;
        let listener = queue.listen(args.at, 1_024, 0)?;
        queue.set(listener, Setting::EagerAccept(args.eager))?;
        let mut settings = vec![Setting::NoDelay(true)];
        if !args.setup {
            // They are set one by one afterwards.
            settings.clear();
        }
        Ok(Self {
            way: args.way,
            size,
            poll: args.poll,
            settings,
            with_data: args.with_data,
            queue,
            listener,
            connections: HashMap::new(),
            memory,
            free: (0..PLACES).collect(),
            bytes: vec![0; size],
            happened: VecDeque::new(),
            _context: context,
        })
    }

    /// Serves. It returns only with an error.
    pub fn run(mut self) -> Result<()> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            self.look(&mut events)?;
            for event in events.drain(..) {
                self.on_event(event)?;
                while let Some(event) = self.happened.pop_front() {
                    self.on_event(event)?;
                }
            }
        }
    }

    /// Takes what has happened, and waits for it unless this is to poll.
    fn look(&mut self, events: &mut Vec<Event>) -> Result<(), Errno> {
        if self.poll {
            self.queue.poll(events, EVENTS)
        } else {
            self.queue.wait(events, EVENTS, None)
        }
    }

    fn on_event(&mut self, event: Event) -> Result<()> {
        let handle = event.handle;
        let goes_on = match event.kind {
            Kind::Accept => return self.accept(),
            Kind::Receive => self.receive(handle)?,
            Kind::Filled => self.filled(handle, event.bytes as usize)?,
            Kind::End => false,
            _ => true,
        };
        if !goes_on {
            self.end(handle);
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<()> {
        loop {
            let accepted = if self.with_data {
                self.queue
                    .accept_with_data(self.listener, &self.settings, VIEW, 0)
            } else {
                let accepted = self.queue.accept_with(self.listener, &self.settings, 0);
                accepted.map(|handle| (handle, None))
            };
            let (handle, first) = match accepted {
                Ok(accepted) => accepted,
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno).context("accept"),
            };
            if self.settings.is_empty() {
                self.queue.set(handle, Setting::NoDelay(true))?;
            }
            let goes_on = self.begin(handle, first)?;
            if !goes_on {
                self.end(handle);
            }
        }
    }

    /// Takes a connection in, and answers what has come with it. False: it is over.
    fn begin(&mut self, handle: Handle, first: Option<View>) -> Result<bool> {
        self.connections.insert(handle, Connection::default());
        if let Some(view) = first {
            // The client's first message is one segment.
            ensure!(view.bytes()?.len() == self.size, "half a message");
            self.answer_view(handle, view)?;
        }
        if self.way != Way::Push {
            return Ok(true);
        }
        let place = self.free.pop().context("too many connections at once")?;
        if let Some(connection) = self.connections.get_mut(&handle) {
            connection.place = Some(place);
        }
        self.post(handle, place, 0)
    }

    /// Answers what is there. False: the connection is over.
    fn receive(&mut self, handle: Handle) -> Result<bool> {
        // A connection that is closed already may have an event left among those taken with it.
        while let Some(connection) = self.connections.get_mut(&handle) {
            match self.way {
                Way::Push => return Ok(true),
                Way::Pull => match self.queue.view(handle, VIEW) {
                    Ok(Some(view)) => self.answer_view(handle, view)?,
                    Err(Errno::AGAIN) => return Ok(true),
                    Ok(None) | Err(_) => return Ok(false),
                },
                _ => {
                    let rest = &mut self.bytes[connection.have..];
                    match self.queue.recv(handle, rest) {
                        Ok(0) => return Ok(false),
                        Ok(read) => connection.have += read,
                        Err(Errno::AGAIN) => return Ok(true),
                        Err(_) => return Ok(false),
                    }
                    if connection.have == self.size {
                        connection.have = 0;
                        self.answer(handle)?;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Answers a message that was copied.
    fn answer(&mut self, handle: Handle) -> Result<()> {
        let (memory, size) = (&self.memory, self.size);
        let sent = match self.way {
            Way::Registered => self
                .queue
                .send_registered(handle, memory, 0, size, false, None),
            Way::Synchronous => {
                let answer = IoSlice::new(&self.bytes);
                self.queue.sendv(handle, &[answer], false, Back::Left(0))
            }
            _ => self.queue.send(handle, &self.bytes, false),
        };
        let is_to_leave = self.way == Way::Synchronous && sent.is_ok();
        whole(sent, size)?;
        match is_to_leave {
            true => self.wait_until_left(handle),
            false => Ok(()),
        }
    }

    /// Waits until an answer has left, or its connection is over: then it comes back, too.
    fn wait_until_left(&mut self, handle: Handle) -> Result<()> {
        let mut events = Vec::new();
        loop {
            self.look(&mut events)?;
            let is_back = |event: &Event| event.kind == Kind::Sent && event.handle == handle;
            let was_back = events.iter().any(is_back);
            self.happened.extend(events.drain(..));
            if was_back {
                return Ok(());
            }
        }
    }

    /// Answers what a view shows.
    fn answer_view(&mut self, handle: Handle, view: View) -> Result<()> {
        let bytes: &[AtomicU8] = view.bytes()?;
        let sent = self.queue.send_from(handle, bytes, false, None);
        let sent = whole(sent, bytes.len());
        self.queue.release(view)?;
        sent
    }

    /// Posts one of a connection's buffers. False: the connection is over.
    fn post(&mut self, handle: Handle, place: usize, half: usize) -> Result<bool> {
        let at = (place * HALVES + half) * self.size;
        let posted = self.queue.post(handle, &self.memory, at, self.size, 0);
        Ok(posted.is_ok())
    }

    /// Answers from a buffer that is full. The other one is posted before: what was answered from it has
    /// arrived, because another message came after it.
    fn filled(&mut self, handle: Handle, bytes: usize) -> Result<bool> {
        let Some(connection) = self.connections.get_mut(&handle) else {
            return Ok(true);
        };
        let (Some(place), half) = (connection.place, connection.half) else {
            return Ok(true);
        };
        if bytes < self.size {
            return Ok(false);
        }
        connection.half = (half + 1) % HALVES;
        let next = connection.half;
        let goes_on = self.post(handle, place, next)?;
        let at = (place * HALVES + half) * self.size;
        let memory = &self.memory;
        let sent = self
            .queue
            .send_registered(handle, memory, at, self.size, false, None);
        whole(sent, self.size)?;
        Ok(goes_on)
    }

    fn end(&mut self, handle: Handle) {
        let Some(connection) = self.connections.remove(&handle) else {
            return;
        };
        self.free.extend(connection.place);
        // It is there, since we have it.
        let _ = self.queue.close(handle);
    }
}

/// An answer leaves at once: the client asks again only when it has it all.
fn whole(sent: Result<usize, Errno>, size: usize) -> Result<()> {
    match sent {
        Ok(sent) if sent == size => Ok(()),
        // The client is gone; its end is told, too.
        Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        Ok(sent) => bail!("only {sent} of {size} bytes had room"),
        Err(errno) => Err(errno).context("send"),
    }
}
