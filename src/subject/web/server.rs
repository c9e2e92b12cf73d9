//! The server: one thread, which takes what has happened and does what that allows.

use super::args::{Args, Way};
use super::computed::{Computed, Computer};
use super::receive::{Receiver, Took};
use super::site::{Answer, Site, Then};
use crate::serve::request::{self, MAX_HEAD, Method, Refused, Request};
use anyhow::{Context as _, Result};
use native::{Context, Errno, Event, Handle, Kind, Queue, Setting};
use std::collections::{HashMap, VecDeque};

const BACKLOG: u32 = 1_024;
const EVENTS: usize = 64;

pub struct Server {
    way: Way,
    site: Site,
    /// What computes answers, if it is to.
    computer: Option<Computer>,
    /// Bytes of a body in one send.
    piece: usize,
    setup: bool,
    queue: Queue,
    listener: Handle,
    connections: HashMap<Handle, Connection>,
    receiver: Receiver,
    /// What happened while a send was waited for.
    happened: VecDeque<Event>,
    // Last: it outlives what was made in it.
    context: Context,
}

#[derive(Default)]
struct Connection {
    /// What came and was not understood yet.
    input: Vec<u8>,
    /// Bytes of a request's body that mean nothing and have not come yet.
    skipped: usize,
    /// The answer that is under way, and how much of it was sent.
    answer: Option<(Said, usize, Then)>,
}

/// What answers.
enum Said {
    File(Answer),
    Computed(Computed),
}

impl Said {
    fn len(&self) -> usize {
        match self {
            Self::File(answer) => answer.len(),
            Self::Computed(computed) => computed.len(),
        }
    }
}

/// What there is to do for a connection.
enum Next {
    Answer,
    Receive,
}

impl Server {
    pub fn new(args: &Args) -> Result<Self> {
        let context = Context::attach("default", "subject", args.way.mode())?;
        let site = Site::read(&args.site, &context, args.way)?;
        let receiver = Receiver::new(args.receive, &context)?;
        let mut queue = context.queue()?;
        let listener = queue.listen(args.at, BACKLOG, 0)?;
        queue.set(listener, Setting::EagerAccept(args.eager))?;
        Ok(Self {
            way: args.way,
            site,
            computer: args
                .computed
                .map(|size| Computer::new(size as usize, args.way)),
            piece: args.piece as usize,
            setup: args.setup,
            queue,
            listener,
            connections: HashMap::new(),
            receiver,
            happened: VecDeque::new(),
            context,
        })
    }

    /// Serves. It returns only with an error.
    pub fn run(mut self) -> Result<()> {
        let mut events = Vec::new();
        loop {
            match self.queue.wait(&mut events, EVENTS, None) {
                Ok(()) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).context("wait"),
            }
            self.happened.extend(events.drain(..));
            while let Some(event) = self.happened.pop_front() {
                match event.kind {
                    Kind::Accept => self.accept()?,
                    Kind::Receive | Kind::Room => self.go_on(event.handle)?,
                    Kind::Placed | Kind::Filled => {
                        self.receiver.put(&mut self.queue, &event);
                        self.go_on(event.handle)?;
                    }
                    Kind::End => self.end(event.handle),
                    _ => {}
                }
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        let no_delay = Setting::NoDelay(true);
        loop {
            let accepted = if self.setup {
                self.queue
                    .accept_with_data(self.listener, &[no_delay], MAX_HEAD, 0)
            } else {
                let accepted = self.queue.accept(self.listener, 0);
                accepted.map(|handle| (handle, None))
            };
            let (handle, first) = match accepted {
                Ok(accepted) => accepted,
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno).context("accept"),
            };
            let mut connection = Connection::default();
            if let Some(view) = first {
                let bytes = view.bytes()?;
                connection.input.resize(bytes.len(), 0);
                queue_pair::copy_out(bytes, &mut connection.input);
                self.queue.release(view)?;
            }
            self.connections.insert(handle, connection);
            if !self.setup {
                // A connection that is over already says so by its events.
                let _ = self.queue.set(handle, no_delay);
            }
            self.receiver.accepted(&mut self.queue, handle)?;
            self.go_on(handle)?;
        }
    }

    /// Does all that can be done for a connection now.
    fn go_on(&mut self, handle: Handle) -> Result<()> {
        // Of one that is closed there may be an event among those that were taken before.
        while let Some(connection) = self.connections.get_mut(&handle) {
            let computer = self.computer.as_mut();
            let computer = computer.map(|computer| (computer, &self.context));
            match connection.next(&self.site, computer) {
                Next::Answer => {
                    if !self.answer(handle)? {
                        return Ok(());
                    }
                }
                Next::Receive => match self.receiver.take(&mut self.queue, handle)? {
                    Took::Bytes(bytes) => connection.take(bytes),
                    Took::Nothing => return Ok(()),
                    Took::End => self.end(handle),
                },
            }
        }
        Ok(())
    }

    /// Sends a piece of what answers. False: there is no room for more now.
    fn answer(&mut self, handle: Handle) -> Result<bool> {
        let Some(connection) = self.connections.get_mut(&handle) else {
            return Ok(true);
        };
        let Some((answer, sent, then)) = &mut connection.answer else {
            return Ok(true);
        };
        let (back, piece) = (self.way.back(), self.piece);
        let queue = &mut self.queue;
        let taken = match answer {
            Said::File(answer) => self.site.send(queue, handle, answer, *sent, piece, back),
            Said::Computed(computed) => computed.send(queue, handle, *sent, piece, back),
        };
        match taken {
            Ok(taken) => *sent += taken,
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::TIMEDOUT) => {
                self.end(handle);
                return Ok(true);
            }
            Err(errno) => return Err(errno).context("send"),
        }
        let is_whole = *sent == answer.len();
        let is_last = is_whole && *then == Then::Close;
        if is_whole {
            let answer = connection.answer.take();
            take_back(self.computer.as_mut(), answer);
        }
        if self.way.is_synchronous() {
            self.wait_until_left(handle)?;
        }
        if is_last {
            self.end(handle);
        }
        Ok(true)
    }

    /// Waits until a send has left, or its connection is over: then it comes back, too.
    fn wait_until_left(&mut self, handle: Handle) -> Result<()> {
        let mut events = Vec::new();
        loop {
            self.queue.wait(&mut events, EVENTS, None)?;
            let is_back = |event: &Event| event.kind == Kind::Sent && event.handle == handle;
            let was_back = events.iter().any(is_back);
            self.happened.extend(events.drain(..));
            if was_back {
                return Ok(());
            }
        }
    }

    fn end(&mut self, handle: Handle) {
        if let Some(connection) = self.connections.remove(&handle) {
            take_back(self.computer.as_mut(), connection.answer);
            self.receiver.close(&mut self.queue, handle);
        }
    }
}

impl Connection {
    fn take(&mut self, bytes: &[u8]) {
        let skipped = self.skipped.min(bytes.len());
        self.skipped -= skipped;
        self.input.extend_from_slice(&bytes[skipped..]);
    }

    /// What there is to do; if that is to answer, the answer is under way.
    fn next(&mut self, site: &Site, computer: Option<(&mut Computer, &Context)>) -> Next {
        if self.answer.is_some() {
            return Next::Answer;
        }
        let found = match request::parse(&self.input, None) {
            Ok(None) => return Next::Receive,
            Ok(Some((request, length))) => {
                let rest = self.input.split_off(length);
                self.input.clear();
                self.skipped = request.body as usize;
                self.take(&rest);
                answer(site, computer, &request).ok_or(404)
            }
            Err(Refused(status)) => Err(status),
        };
        let refused = |status| {
            let refusal = site.refusal(status).or_else(|| site.refusal(400));
            refusal.map(|refusal| (Said::File(refusal), 0, Then::Close))
        };
        self.answer = match found {
            Ok((answer, then)) => Some((answer, 0, then)),
            Err(status) => refused(status),
        };
        Next::Answer
    }
}

fn answer(
    site: &Site,
    computer: Option<(&mut Computer, &Context)>,
    request: &Request,
) -> Option<(Said, Then)> {
    let then = match request.keep_alive {
        true => Then::Stay,
        false => Then::Close,
    };
    let is_head = request.method == Method::Head;
    if let Some((computer, context)) = computer
        && Computer::is_asked(&request.target)
    {
        let computed = computer.answer(context, then);
        let computed = match is_head {
            true => computed.without_body(),
            false => computed,
        };
        return Some((Said::Computed(computed), then));
    }
    let found = site.find(&request.target, then)?;
    // It knows of no versions, so of this condition alone whether it holds.
    let answer = match (request.if_none_match.as_deref(), is_head) {
        (Some("*"), _) => site.unchanged(then),
        (_, true) => found.without_body(),
        (_, false) => found,
    };
    Some((Said::File(answer), then))
}

/// The memory of an answer of which nothing more is sent is its computer's again.
fn take_back(computer: Option<&mut Computer>, answer: Option<(Said, usize, Then)>) {
    if let (Some(computer), Some((Said::Computed(computed), ..))) = (computer, answer) {
        computer.take_back(computed);
    }
}
