//! A key-value store that speaks memcached's text protocol, on the engine or on the kernel:
//! `cargo run -p outboard-native --example store_by_completions -- 0.0.0.0:11211`.
//!
//! What came at once is answered by one send. When the memory is full, what was not used for long goes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::time::UNIX_EPOCH;

use native::{Context, Errno, Handle, Kind, Mode, Queue, Setting};

/// Bytes of all items.
const MEMORY: usize = 64 << 20;
const LONGEST_VALUE: usize = 1 << 20;
const LONGEST_KEY: usize = 250;
/// Bytes that are received, or answered, at once; and of the longest line.
const BATCH: usize = 64 << 10;
/// Longer times than this are dates, in seconds.
const MONTH: u64 = 60 * 60 * 24 * 30;
const STORES: [&[u8]; 6] = [b"set", b"add", b"replace", b"append", b"prepend", b"cas"];
const BAD_LINE: &str = "CLIENT_ERROR bad command line format";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

type Answer = Result<Cow<'static, str>, &'static str>;

/// A value, which ends at a time in seconds since 1970.
struct Item {
    /// What is answered before it: "VALUE", key, flags and length.
    head: Vec<u8>,
    value: Vec<u8>,
    flags: u32,
    ends: u64,
    unique: u64,
}

/// The items. Whenever those used since the last time fill half of the memory, all others go.
#[derive(Default)]
struct Store {
    used: HashMap<Vec<u8>, Item>,
    others: HashMap<Vec<u8>, Item>,
    /// Bytes of those used.
    held: usize,
    last_unique: u64,
    now: u64,
}

#[derive(Default)]
struct Client {
    handle: Handle,
    /// What came; from `from` on it was not understood yet, which may be behind its end.
    input: Vec<u8>,
    from: usize,
    /// Keys of a get that are answered.
    got: usize,
    answers: Vec<u8>,
    ended: bool,
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    let digits = word.iter().all(u8::is_ascii_digit);
    str::from_utf8(word).ok()?.parse().ok().filter(|_| digits)
}

impl Store {
    /// When an item ends.
    fn date(&self, word: &[u8]) -> Option<u64> {
        let past = word.strip_prefix(b"-");
        Some(match number(past.unwrap_or(word))? {
            _ if past.is_some() => 0,
            0 => u64::MAX,
            seconds @ 1..=MONTH => self.now + seconds,
            date => date,
        })
    }

    fn find(&mut self, key: &[u8]) -> Option<&mut Item> {
        if !self.others.is_empty()
            && let Some((key, item)) = self.others.remove_entry(key)
        {
            self.insert(key, item);
        }
        let (now, found) = (self.now, self.used.get_mut(key));
        found.filter(|item| item.ends > now)
    }

    fn insert(&mut self, key: Vec<u8>, item: Item) {
        if self.held > MEMORY / 2 {
            (self.others, self.held) = (std::mem::take(&mut self.used), 0);
        }
        self.held += item.head.len() + item.value.len();
        self.used.insert(key, item);
    }

    fn forget(&mut self, key: &[u8]) {
        self.others.remove(key);
        let gone = self.used.remove(key);
        self.held -= gone.map_or(0, |item| item.head.len() + item.value.len());
    }

    fn keep(&mut self, key: &[u8], flags: u32, ends: u64, value: &[u8]) -> &'static str {
        if value.len() > LONGEST_VALUE {
            return TOO_LARGE;
        }
        let facts = format!(" {flags} {}", value.len());
        self.last_unique += 1;
        let unique = self.last_unique;
        self.forget(key);
        let item = Item {
            head: [b"VALUE ", key, facts.as_bytes()].concat(),
            value: value.to_vec(),
            flags,
            ends,
            unique,
        };
        self.insert(key.to_vec(), item);
        "STORED"
    }

    /// Does a command other than get. Errors are answers, too.
    fn execute(&mut self, words: &[&[u8]], value: &[u8]) -> Answer {
        Ok(match *words {
            [_, key, ..] if key.len() > LONGEST_KEY => BAD_LINE.into(),
            [name, key, flags, ends, len, ref unique @ ..] if STORES.contains(&name) => {
                let _: u32 = number(len).ok_or(BAD_LINE)?;
                let flags = number(flags).ok_or(BAD_LINE)?;
                let ends = self.date(ends).ok_or(BAD_LINE)?;
                let value = value.strip_suffix(b"\r\n");
                let value = value.ok_or("CLIENT_ERROR bad data chunk")?;
                let unique = unique.first().and_then(|word| number(word));
                match (name, self.find(key)) {
                    (b"cas", _) if unique.is_none() => BAD_LINE,
                    (b"cas", None) => "NOT_FOUND",
                    (b"cas", Some(old)) if Some(old.unique) != unique => "EXISTS",
                    (b"add", Some(_)) | (b"replace" | b"append" | b"prepend", None) => "NOT_STORED",
                    (b"append", Some(old)) => {
                        let (flags, ends, both) =
                            (old.flags, old.ends, [&old.value, value].concat());
                        self.keep(key, flags, ends, &both)
                    }
                    (b"prepend", Some(old)) => {
                        let (flags, ends, both) =
                            (old.flags, old.ends, [value, &old.value].concat());
                        self.keep(key, flags, ends, &both)
                    }
                    _ => self.keep(key, flags, ends, value),
                }
                .into()
            }
            [name @ (b"incr" | b"decr"), key, by, ..] => {
                let by: u64 = number(by).ok_or("CLIENT_ERROR invalid numeric delta argument")?;
                let item = self.find(key).ok_or("NOT_FOUND")?;
                let (flags, ends, len) = (item.flags, item.ends, item.value.len());
                let old: u64 = number(item.value.trim_ascii_end())
                    .ok_or("CLIENT_ERROR cannot increment or decrement non-numeric value")?;
                let sum = (name == b"incr").then(|| old.wrapping_add(by));
                let new = sum.unwrap_or(old.saturating_sub(by));
                // One that gets shorter keeps its length, as memcached has it.
                let value = format!("{new:<len$}");
                self.keep(key, flags, ends, value.as_bytes());
                new.to_string().into()
            }
            [b"touch", key, ends, ..] => {
                let ends = self.date(ends);
                let ends = ends.ok_or("CLIENT_ERROR invalid exptime argument")?;
                self.find(key).ok_or("NOT_FOUND")?.ends = ends;
                "TOUCHED".into()
            }
            [b"delete", key, ..] => {
                self.find(key).ok_or("NOT_FOUND")?;
                self.forget(key);
                "DELETED".into()
            }
            [b"flush_all"] => {
                (self.used, self.others, self.held) = Default::default();
                "OK".into()
            }
            [b"version", ..] => "VERSION 0.1".into(),
            _ => "ERROR".into(),
        })
    }
}

impl Client {
    /// Does the next command, or of a get what can be sent at once. False: not all of it has come.
    fn step(&mut self, store: &mut Store) -> bool {
        let rest = self.input.get(self.from..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.ended |= rest.len() >= BATCH;
            return false;
        };
        let (line, rest) = (&rest[..end], &rest[end + 1..]);
        let words = line.split(|byte| b" \r".contains(byte));
        let mut words = words.filter(|word| !word.is_empty()).peekable();
        let name = words.next().unwrap_or_default();
        if matches!(name, b"get" | b"gets") && words.peek().is_some() {
            for key in words.skip(self.got) {
                if self.answers.len() >= BATCH {
                    return true;
                }
                self.got += 1;
                if let Some(item) = store.find(key) {
                    self.answers.extend_from_slice(&item.head);
                    if name == b"gets" {
                        let _ = write!(self.answers, " {}", item.unique);
                    }
                    for part in [b"\r\n", &item.value[..], b"\r\n"] {
                        self.answers.extend_from_slice(part);
                    }
                }
            }
            self.answers.extend_from_slice(b"END\r\n");
            (self.from, self.got) = (self.from + end + 1, 0);
            return true;
        }
        let mut words: Vec<&[u8]> = std::iter::once(name).chain(words).collect();
        let is_quiet = words.pop_if(|word| *word == b"noreply").is_some();
        let len = words.get(4).filter(|_| STORES.contains(&name));
        let len = len.and_then(|len| number::<u32>(len));
        let len = len.map_or(0, |len| len as usize + 2);
        let said = match rest.get(..len) {
            _ if len > LONGEST_VALUE + 2 => TOO_LARGE.into(),
            Some(value) => store.execute(&words, value).unwrap_or_else(Cow::from),
            None => return false,
        };
        self.ended = words[..] == [b"quit"];
        self.from += end + 1 + len;
        if !is_quiet && !self.ended {
            let _ = write!(self.answers, "{said}\r\n");
        }
        true
    }

    /// Does all there is to do. False: the connection is done.
    fn serve(&mut self, queue: &mut Queue, store: &mut Store, buffer: &mut [u8]) -> bool {
        loop {
            while !self.ended && self.answers.len() < BATCH && self.step(store) {}
            let is_full = self.answers.len() >= BATCH;
            while !self.answers.is_empty() {
                match queue.send(self.handle, &self.answers, false) {
                    Ok(sent) => drop(self.answers.drain(..sent)),
                    Err(errno) => return errno == Errno::AGAIN,
                }
            }
            if self.ended {
                return false;
            }
            if is_full {
                continue;
            }
            let gone = self.from.min(self.input.len());
            self.from -= self.input.drain(..gone).len();
            match queue.recv(self.handle, buffer) {
                Ok(0) => return false,
                Ok(read) => self.input.extend_from_slice(&buffer[..read]),
                Err(errno) => return errno == Errno::AGAIN,
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).ok_or("usage: store ADDR:PORT")?;
    serve(addr.parse()?)
}

/// Serves. It returns only with an error.
pub fn serve(addr: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let context = Context::attach("default", "store", Mode::Any)?;
    let mut queue = context.queue()?;
    let listener = queue.listen(addr, 1024, 0)?;
    queue.set(listener, Setting::NoDelay(true))?;
    let (mut store, mut clients) = (Store::default(), HashMap::<Handle, Client>::new());
    let (mut events, mut buffer) = (Vec::new(), vec![0; BATCH]);
    loop {
        match queue.wait(&mut events, 64, None) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        store.now = UNIX_EPOCH.elapsed()?.as_secs();
        for event in events.drain(..) {
            if event.kind == Kind::Accept {
                while let Ok(handle) = queue.accept(listener, 0) {
                    clients.entry(handle).or_default().handle = handle;
                }
            } else if let Some(client) = clients.get_mut(&event.handle)
                && (event.kind == Kind::End || !client.serve(&mut queue, &mut store, &mut buffer))
            {
                clients.remove(&event.handle);
                queue.close(event.handle)?;
            }
        }
    }
}
