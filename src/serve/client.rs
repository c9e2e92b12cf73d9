//! One client: its connection, its exchange, and what is still to be sent to it.

use super::exchange::{Exchange, Stored, refuse};
use super::offered::Offered;
use super::response::{Part, Response};
use super::uploads::{Upload, Uploads};
use native::{Errno, File, Handle, Queue, Shutdown, View};
use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// Files up to this size are copied behind their head where the kernel sends both: one call that sends both costs
/// less than sendfile(2) behind another. The engine reads them itself, however short.
const INLINE: u64 = 32 * 1024;
/// So much is received at once of what clients ask.
pub const INPUT: usize = 16 * 1024;
/// So much of an upload is received at once.
const UPLOAD_CHUNK: usize = 64 * 1024;
/// So much is sent to one client before the others have their turn.
const TURN: usize = 1 << 20;
/// So many requests are answered to one client before the others have their turn.
const TURN_REQUESTS: usize = 64;
/// A client whose last response is out has so long to end its side, and may still say so much.
/// Ending at once would reset the connection, and the reset could overtake the response.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 256 * 1024;

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Bytes from the client.
    ForInput,
    /// Room to send.
    ForRoom,
    /// Nothing: others have their turn first.
    ForItsTurn,
    /// It is over.
    Over,
}

/// Limits of time, and what else is the same for all clients.
pub struct Rules {
    /// Between two requests, and for a client that takes nothing.
    pub idle: Duration,
    /// For the head of a request.
    pub head: Duration,
    /// For those who are left when the server is stopped.
    pub drain: Duration,
    /// Whether requests are logged.
    pub log: bool,
    /// Where bodies are stored, if they are.
    pub uploads: Option<Uploads>,
}

/// One connection of the server.
pub struct Client {
    connection: Handle,
    exchange: Exchange,
    output: VecDeque<Part<Rc<File>>>,
    /// Bytes of the first part of the output that are sent.
    sent: usize,
    /// What is being stored.
    upload: Option<Upload>,
    /// A request has been answered.
    answered: bool,
    /// No request will be answered any more.
    last: bool,
    /// Our direction is ended; what the client still says is counted and thrown away.
    lingering: Option<usize>,
    /// When something must have happened.
    deadline: Instant,
    /// A request has begun to arrive: its deadline is not moved by each byte.
    head_begun: bool,
}

impl Client {
    /// A client that has just connected.
    pub fn new(connection: Handle, rules: &Rules, now: Instant) -> Self {
        Self {
            connection,
            exchange: Exchange::new(rules.uploads.as_ref().map(Uploads::limit)),
            output: VecDeque::new(),
            sent: 0,
            upload: None,
            answered: false,
            last: false,
            lingering: None,
            deadline: now + rules.idle,
            head_begun: false,
        }
    }

    /// Tells the client that the server is full. Follow with [`Self::advance`].
    pub fn turn_away(&mut self) {
        self.put_out(refuse(503, SystemTime::now()), false);
    }

    /// The server is stopping: what has been asked is still answered, and nothing after it. Follow
    /// with [`Self::advance`].
    pub fn finish(&mut self) {
        self.exchange.close_after_next();
        // A client that just connected is about to ask.
        self.last |= self.answered && self.exchange.is_idle();
    }

    /// Does all that can be done now. `input` is room for what has come.
    pub fn advance(
        &mut self,
        queue: &mut Queue,
        site: &Offered,
        rules: &Rules,
        now: Instant,
        input: &mut [u8; INPUT],
    ) -> Waits {
        self.step(queue, site, rules, now, input)
            .unwrap_or(Waits::Over)
    }

    /// Acts on the client's silence, if it has lasted too long.
    pub fn check_time(&mut self, now: Instant) -> bool {
        if now < self.deadline {
            return false;
        }
        if self.exchange.is_waiting_for_rest() && self.output.is_empty() && !self.last {
            let response = self.exchange.time_out(SystemTime::now());
            self.put_out(response, false);
        } else {
            // Whoever is silent between requests, or takes nothing, is not owed a word.
            self.output.clear();
            self.last = true;
            self.lingering = Some(usize::MAX);
        }
        true
    }

    fn step(
        &mut self,
        queue: &mut Queue,
        site: &Offered,
        rules: &Rules,
        now: Instant,
        input: &mut [u8; INPUT],
    ) -> Result<Waits, Errno> {
        let mut budget = TURN;
        // Who asks for the first time, or has got an answer, or asks in parts, may know of a change that is later than
        // the last look: this turn may be long already.
        let asks_late =
            !self.answered || !self.output.is_empty() || self.exchange.is_waiting_for_rest();
        let mut looks = asks_late;
        for _ in 0..TURN_REQUESTS {
            while !self.output.is_empty() {
                match self.send_some(queue) {
                    Ok(sent) => {
                        self.deadline = now + rules.idle;
                        budget = budget.saturating_sub(sent);
                    }
                    Err(Errno::AGAIN) => return Ok(Waits::ForRoom),
                    Err(error) => return Err(error),
                }
                if budget == 0 && !self.output.is_empty() {
                    return Ok(Waits::ForItsTurn);
                }
            }
            if self.last {
                return self.linger(queue, now);
            }
            // Mostly nothing is left of what was asked, and nobody needs to know the time.
            if !self.exchange.is_empty()
                && let Some(response) = self.exchange.respond(site, SystemTime::now())
            {
                self.answer(queue, response, rules);
                looks = true;
                continue;
            }
            if let (Some(_), Some(uploads)) = (self.exchange.upload(), &rules.uploads) {
                match self.store(queue, uploads, rules, now) {
                    Ok(()) => {
                        site.look_again(now);
                        continue;
                    }
                    Err(Errno::AGAIN) => return Ok(Waits::ForInput),
                    Err(error) => return Err(error),
                }
            }
            let room = self.exchange.room().min(input.len());
            match queue.recv(self.connection, &mut input[..room]) {
                Ok(0) => return Ok(Waits::Over),
                Ok(received) => {
                    if looks {
                        site.look_again(now);
                    }
                    self.exchange.receive(&input[..received]);
                    if !self.head_begun {
                        self.head_begun = true;
                        self.deadline = now + rules.head;
                    }
                }
                Err(Errno::AGAIN) => return Ok(Waits::ForInput),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Waits::ForItsTurn)
    }

    /// Takes the response to a request into the output.
    fn answer(&mut self, queue: &mut Queue, response: Response<Rc<File>>, rules: &Rules) {
        self.head_begun = false;
        self.answered = true;
        if rules.log {
            self.log(queue, response.status);
        }
        let by_kernel = queue.is_offloaded(self.connection) == Ok(false);
        self.put_out(response, by_kernel);
    }

    /// Does what can be done now of an upload: its begin, a piece of its body, or its end. `EPIPE`: the
    /// client ended before its body was complete, and nothing is stored.
    fn store(
        &mut self,
        queue: &mut Queue,
        uploads: &Uploads,
        rules: &Rules,
        now: Instant,
    ) -> Result<(), Errno> {
        let Some(upload) = &mut self.upload else {
            self.deadline = now + rules.idle;
            let Some(request) = self.exchange.upload() else {
                return Ok(());
            };
            let (length, expects) = (request.body, request.expects_continue);
            match uploads.begin(request) {
                Ok(mut upload) => {
                    let arrived = self.exchange.take_body(length);
                    if expects && arrived.is_empty() && length > 0 {
                        let go_on = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
                        self.output.push_back(Part::Bytes(go_on));
                    }
                    upload.write(&arrived);
                    self.upload = Some(upload);
                }
                Err(status) => self.end_upload(queue, &Stored::Refused(status), rules),
            }
            return Ok(());
        };
        if upload.left() > 0 && !upload.has_failed() {
            receive_into(queue, self.connection, upload)?;
            self.deadline = now + rules.idle;
        } else if let Some(upload) = self.upload.take() {
            self.end_upload(queue, &upload.finish(), rules);
        }
        Ok(())
    }

    fn end_upload(&mut self, queue: &mut Queue, stored: &Stored, rules: &Rules) {
        let response = self.exchange.stored(stored, SystemTime::now());
        self.answer(queue, response, rules);
    }

    /// Takes a response into the output; of short files the bytes, if they are to be `copied`.
    fn put_out(&mut self, response: Response<Rc<File>>, copied: bool) {
        self.last |= response.close;
        for part in response.parts {
            let part = match part {
                Part::File {
                    file,
                    offset,
                    length,
                } if copied && length <= INLINE => match read_whole(&*file, offset, length) {
                    Some(bytes) => Part::Bytes(bytes),
                    // Shorter than it was when its length was promised: sending will notice.
                    None => Part::File {
                        file,
                        offset,
                        length,
                    },
                },
                other => other,
            };
            match (self.output.back_mut(), part) {
                (Some(Part::Bytes(before)), Part::Bytes(bytes)) => before.extend_from_slice(&bytes),
                (_, part) => self.output.push_back(part),
            }
        }
    }

    /// Sends of the first part what fits; `EPIPE` stands for every reason to give up.
    fn send_some(&mut self, queue: &mut Queue) -> Result<usize, Errno> {
        let follows = self.output.len() > 1;
        let Some(part) = self.output.front_mut() else {
            return Ok(0);
        };
        let (sent, done) = match part {
            Part::Bytes(bytes) => {
                let sent = queue.send(self.connection, &bytes[self.sent..], follows)?;
                self.sent += sent;
                (sent, self.sent == bytes.len())
            }
            Part::File {
                file,
                offset,
                length,
            } => {
                let piece = usize::try_from(*length).map_or(TURN, |length| length.min(TURN));
                let more = follows || *length > TURN as u64;
                // It was looked at when the response was made.
                let sent =
                    queue.send_known_file(self.connection, file, *offset, piece, more, None)?;
                if sent == 0 {
                    // The file has become shorter. Its length is promised, so the only honest
                    // end is one that the client notices.
                    return Err(Errno::PIPE);
                }
                *offset += sent as u64;
                *length -= sent as u64;
                (sent, *length == 0)
            }
        };
        if done {
            self.output.pop_front();
            self.sent = 0;
        }
        Ok(sent)
    }

    /// Ends our side, then waits for the client to end its own.
    fn linger(&mut self, queue: &mut Queue, now: Instant) -> Result<Waits, Errno> {
        let mut heard = match self.lingering {
            Some(heard) => heard,
            None => {
                queue.shutdown(self.connection, Shutdown::Write)?;
                self.deadline = now + LINGER;
                0
            }
        };
        let mut buffer = [0; 16 * 1024];
        while heard < LINGER_BYTES {
            self.lingering = Some(heard);
            match queue.recv(self.connection, &mut buffer) {
                Ok(0) => return Ok(Waits::Over),
                Ok(received) => heard += received,
                Err(Errno::AGAIN) => return Ok(Waits::ForInput),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Waits::Over)
    }

    fn log(&self, queue: &mut Queue, status: u16) {
        let target = String::from_utf8_lossy(self.exchange.last_target());
        let time = httpdate::fmt_http_date(SystemTime::now());
        let peer = queue.peer(self.connection);
        let peer = peer.map_or_else(|_| "-".to_string(), |address| address.to_string());
        let by = match queue.is_offloaded(self.connection) {
            Ok(true) => "engine",
            _ => "kernel",
        };
        // Clients are served also where nobody reads of them.
        let _ = writeln!(
            std::io::stdout().lock(),
            "{time}  {peer}  {by}  {status}  {}",
            target.escape_default()
        );
    }
}

/// Receives what is there into an upload, at most what that still misses, from where it has arrived straight
/// into the page cache. `EPIPE`: the client has ended its side. The upload notes what goes wrong with its file.
fn receive_into(queue: &mut Queue, connection: Handle, upload: &mut Upload) -> Result<(), Errno> {
    let views = look(queue, connection, upload.left())?;
    let bytes: Result<Vec<_>, Errno> = views.iter().map(View::bytes).collect();
    upload.write_shared(&mut bytes?);
    let mut released = views.into_iter().map(|view| queue.release(view));
    released.try_for_each(|released| released)
}

/// What has arrived of so much: on the engine in stretches of a page or some, which are written by one call; the kernel
/// gives all that it has at once.
fn look(queue: &mut Queue, connection: Handle, left: u64) -> Result<Vec<View>, Errno> {
    let mut limit = usize::try_from(left).map_or(UPLOAD_CHUNK, |left| left.min(UPLOAD_CHUNK));
    let most = match queue.is_offloaded(connection)? {
        true => queue_pair::GATHERED,
        false => 1,
    };
    let mut views = Vec::with_capacity(most);
    while limit > 0 && views.len() < most {
        match queue.view(connection, limit) {
            Ok(Some(view)) => {
                limit = limit.saturating_sub(view.bytes()?.len());
                views.push(view);
            }
            Ok(None) if views.is_empty() => return Err(Errno::PIPE),
            Err(error) if views.is_empty() || error != Errno::AGAIN => return Err(error),
            // It is told again, when that is all that there is.
            Ok(None) | Err(_) => break,
        }
    }
    Ok(views)
}

/// `length` bytes of `file` from `offset` on, if it has them.
fn read_whole(file: impl AsFd, offset: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::pread(&file, &mut bytes[filled..], offset + filled as u64) {
            Ok(0) => return None,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(bytes)
}
