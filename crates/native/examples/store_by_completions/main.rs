//! A key-value store that speaks memcached's text protocol, on the engine or on the kernel:
//! `cargo run -p outboard-native --example store_by_completions -- 0.0.0.0:11211`.
//!
//! It knows get gets set add replace append prepend cas delete incr decr touch flush_all version quit.
//! What does not fit into its memory is refused; nothing is evicted.

mod items;

use std::collections::HashMap;
use std::net::SocketAddr;

use items::{Item, Store, Storing, date, now, number};
use native::{Context, Errno, Handle, Kind, Mode, Queue, Setting};

/// Bytes of a value, of a key, of a line, and of answers that may wait.
const LONGEST_VALUE: usize = 1 << 20;
const LONGEST_KEY: usize = 250;
const LONGEST_LINE: usize = 8192;
const ANSWERS: usize = 64 << 10;

const BAD_LINE: &str = "CLIENT_ERROR bad command line format";

#[derive(Default)]
struct Client {
    input: Vec<u8>,
    output: Vec<u8>,
    storing: Option<Storing>,
    /// Bytes of a value that was refused.
    skipping: usize,
    /// Keys follow, of a get or (true) of a gets.
    getting: Option<bool>,
    quiet: bool,
    ended: bool,
}

impl Client {
    fn say(&mut self, line: &str) {
        if !self.quiet {
            self.output.extend_from_slice(line.as_bytes());
            self.output.extend_from_slice(b"\r\n");
        }
    }

    /// A command of which a value follows. `None`: it does.
    fn await_value(&mut self, words: &[&str]) -> Option<&'static str> {
        let parsed = || {
            let unique = match words[0] {
                "cas" => number(words.get(5)?)?,
                _ => 0,
            };
            let item = Item {
                flags: number(words.get(2)?)?,
                ends: date(words.get(3)?)?,
                unique,
                value: Vec::new(),
            };
            let len = number::<u32>(words.get(4)?)?;
            Some((item, len as usize))
        };
        let Some((item, len)) = parsed() else {
            return Some(BAD_LINE);
        };
        if len > LONGEST_VALUE {
            self.skipping = len + 2;
            return Some("SERVER_ERROR object too large for cache");
        }
        self.storing = Some(Storing {
            command: words[0].to_owned(),
            key: words[1].to_owned(),
            item,
            lacking: len + 2,
        });
        None
    }

    fn execute(&mut self, store: &mut Store, words: &[&str]) {
        if store.flush_at > 0 && store.flush_at <= now() {
            store.flush();
        }
        self.quiet = words.last() == Some(&"noreply");
        let words = &words[..words.len() - usize::from(self.quiet)];
        let line = match words {
            [_, key, ..] if key.len() > LONGEST_KEY => BAD_LINE,
            [
                "set" | "add" | "replace" | "append" | "prepend" | "cas",
                _,
                ..,
            ] => match self.await_value(words) {
                Some(refused) => refused,
                None => return,
            },
            ["incr" | "decr", _, _, ..] => return self.say(&store.count(words)),
            ["touch", key, ends, ..] => match (date(ends), store.find(key)) {
                (None, _) => "CLIENT_ERROR invalid exptime argument",
                (Some(_), None) => "NOT_FOUND",
                (Some(ends), Some(item)) => {
                    item.ends = ends;
                    "TOUCHED"
                }
            },
            ["delete", key, ..] if store.find(key).is_none() => "NOT_FOUND",
            ["delete", key, ..] => {
                store.forget(key);
                "DELETED"
            }
            ["flush_all", when @ ..] => match when.first().map_or(Some(0), |when| date(when)) {
                None => BAD_LINE,
                Some(0) => {
                    store.flush();
                    "OK"
                }
                Some(when) => {
                    store.flush_at = when;
                    "OK"
                }
            },
            ["version", ..] => "VERSION 0.1",
            ["quit", ..] => return self.ended = true,
            _ => "ERROR",
        };
        self.say(line);
    }

    /// The next key of a get, as soon as all of it is there. False: it is not.
    fn get(&mut self, store: &mut Store, with_unique: bool) -> bool {
        let blank = |byte: &u8| b" \r\n".contains(byte);
        let from = self.input.iter().take_while(|byte| **byte == b' ').count();
        let len = self.input[from..].iter().position(blank);
        if len.unwrap_or(self.input.len() - from) > LONGEST_KEY {
            self.say(BAD_LINE);
            self.ended = true;
            return false;
        }
        let Some(len) = len else { return false };
        let word: Vec<u8> = self.input.drain(..from + len).skip(from).collect();
        if word.is_empty() {
            if self.input.remove(0) == b'\n' {
                self.getting = None;
                self.say("END");
            }
        } else if let Ok(key) = str::from_utf8(&word)
            && let Some(item) = store.find(key)
        {
            let mut line = format!("VALUE {key} {} {}", item.flags, item.value.len());
            if with_unique {
                line += &format!(" {}", item.unique);
            }
            self.say(&line);
            self.output.extend_from_slice(&item.value);
            self.say("");
        }
        true
    }

    /// Understands a piece of what came. False: there is not enough of it.
    fn step(&mut self, store: &mut Store) -> bool {
        if self.skipping > 0 {
            let skipped = self
                .input
                .drain(..self.skipping.min(self.input.len()))
                .len();
            self.skipping -= skipped;
            return skipped > 0;
        }
        if let Some(mut storing) = self.storing.take() {
            let len = storing.lacking.min(self.input.len());
            storing.item.value.extend(self.input.drain(..len));
            storing.lacking -= len;
            if storing.lacking > 0 {
                self.storing = Some(storing);
                return false;
            }
            self.say(store.store(storing));
            return true;
        }
        if let Some(with_unique) = self.getting {
            return self.get(store, with_unique);
        }
        for (word, with_unique) in [(&b"get "[..], false), (&b"gets "[..], true)] {
            if self.input.starts_with(word) {
                self.input.drain(..word.len() - 1);
                (self.quiet, self.getting) = (false, Some(with_unique));
                return true;
            }
        }
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else {
            self.ended |= self.input.len() > LONGEST_LINE;
            return false;
        };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line);
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        self.execute(store, &words);
        !self.ended
    }

    /// Does all there is to do. False: the connection is done.
    fn serve(&mut self, queue: &mut Queue, handle: Handle, store: &mut Store) -> bool {
        let mut bytes = [0; 16 * 1024];
        loop {
            let mut more = true;
            while more && !self.ended && self.output.len() < ANSWERS {
                more = self.step(store);
            }
            while !self.output.is_empty() {
                match queue.send(handle, &self.output, false) {
                    Ok(sent) => drop(self.output.drain(..sent)),
                    Err(errno) => return errno == Errno::AGAIN,
                }
            }
            if self.ended {
                return false;
            }
            if more {
                continue;
            }
            match queue.recv(handle, &mut bytes) {
                Ok(0) => return false,
                Ok(read) => self.input.extend_from_slice(&bytes[..read]),
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
    let mut events = Vec::new();
    loop {
        match queue.wait(&mut events, 64, None) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in events.drain(..) {
            if event.kind == Kind::Accept {
                while let Ok(client) = queue.accept(listener, 0) {
                    clients.insert(client, Client::default());
                }
            } else if let Some(client) = clients.get_mut(&event.handle)
                && (event.kind == Kind::End || !client.serve(&mut queue, event.handle, &mut store))
            {
                clients.remove(&event.handle);
                queue.close(event.handle)?;
            }
        }
    }
}
