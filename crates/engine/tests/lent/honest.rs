//! A program that keeps to the rules, and knows of each byte where it belongs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use queue_pair::{Completion, ConnRef, Submission};
use tcp::ConnId;

use super::script::Script;
use super::{ARRIVES, PIECE, Seen, memory_file, pattern, program, show};
use crate::world::{Host, World};

/// Where its registered memory lies in the send area, and how much of it there is. A memory file of its own holds
/// the same.
const REGISTERED: (u64, usize) = (0, 1 << 16);
/// The same of the memory that it posts buffers from.
const BUFFERS: (u64, usize) = (1 << 20, 1 << 16);

/// A buffer that it has posted: a part of the stream, and where that goes in the memory for buffers.
struct Buffer {
    from: u64,
    len: u64,
    at: usize,
}

pub struct Honest {
    host: Host,
    conn: ConnRef,
    peer: ConnId,
    /// Bytes that the peer has sent it.
    incoming: u64,
    /// How far it has looked at them, and how many of its completions tell of them.
    looked: u64,
    heard: usize,
    /// How far it has given them back.
    consumed: u64,
    buffers: Vec<Buffer>,
    /// Where the next buffer goes.
    free: usize,
    /// What the memory for buffers holds.
    model: Vec<u8>,
    /// What it has sent.
    outgoing: Vec<u8>,
    /// Its memory file, by the engine's name.
    file: u16,
    pub seen: Seen,
}

impl Honest {
    pub fn new(world: &mut World) -> Self {
        let (mut host, opened) = program(world, 1);
        let (conn, peer) = opened[0];
        let (at, len) = REGISTERED;
        let bytes: Vec<u8> = (0..len as u64).map(pattern).collect();
        host.region.send.copy_in(at, &bytes).expect("inside");
        let memory: File = memory_file(len as u64);
        memory.write_all_at(&bytes, 0).expect("room");
        let file = show(world, &mut host, memory).expect("one to send from");
        let model = vec![0xa5; BUFFERS.1];
        host.region.send.copy_in(BUFFERS.0, &model).expect("inside");
        Self {
            host,
            conn,
            peer,
            incoming: 0,
            looked: 0,
            heard: 0,
            consumed: 0,
            buffers: Vec::new(),
            free: 0,
            model,
            outgoing: Vec::new(),
            file,
            seen: Seen::default(),
        }
    }

    pub fn step(&mut self, kind: u8, world: &mut World, script: &mut Script<'_>) {
        match kind {
            0 | 1 => {
                let len = (1 + script.below(256) * 16).min(PIECE) as u64;
                let bytes: Vec<u8> = (self.incoming..self.incoming + len).map(pattern).collect();
                world.peer.send(world.now, self.peer, &bytes);
                self.incoming += len;
            }
            2 | 3 => self.posts(script),
            4 => {
                // Views come back as far as all before them has.
                self.consumed += (self.looked - self.consumed) * script.below(5) as u64 / 4;
                self.gives_back();
            }
            _ => {
                let at = script.below(256) * (REGISTERED.1 / 256);
                let len = (1 + script.below(256) * 16).min(REGISTERED.1 - at);
                self.outgoing
                    .extend((at as u64..(at + len) as u64).map(pattern));
                let how = script.byte();
                let (conn, more) = (self.conn, how & 1 == 1);
                let send = match how & 2 == 2 {
                    true => Submission::SendFile {
                        conn,
                        file: self.file,
                        offset: at as u64,
                        len: len as u32,
                        more,
                        at: 0,
                    },
                    false => Submission::Send {
                        conn,
                        addr: REGISTERED.0 + at as u64,
                        len: len as u32,
                        more,
                        consumed: self.consumed,
                    },
                };
                if matches!(send, Submission::SendFile { .. }) {
                    self.seen.read += len as u64;
                }
                self.host.submit(send);
            }
        }
    }

    /// Posts a buffer for a part of the stream that none stands for.
    fn posts(&mut self, script: &mut Script<'_>) {
        let last = self.buffers.last().map_or(0, |it| it.from + it.len);
        let gap = if script.bit() {
            0
        } else {
            script.byte().into()
        };
        let from = last.max(self.looked) + gap;
        let len = 1 + script.below(256) * 16;
        if self.free + len > BUFFERS.1 && self.consumed >= last {
            // All of it is the program's again.
            self.free = 0;
        }
        if self.free + len > BUFFERS.1 {
            return;
        }
        self.host.submit(Submission::Post {
            conn: self.conn,
            addr: BUFFERS.0 + self.free as u64,
            len: len as u32,
            from,
        });
        self.buffers.push(Buffer {
            from,
            len: len as u64,
            at: self.free,
        });
        // A byte between two buffers is nobody's.
        self.free += len + 1;
    }

    /// Looks at what has come, where it is.
    pub fn looks(&mut self) {
        self.host.collect();
        for completion in &self.host.completions[self.heard..] {
            let (area, addr, len, is_placed) = match *completion {
                Completion::Update {
                    conn, addr, len, ..
                } if conn == self.conn => (&self.host.region.receive, addr, len, false),
                Completion::Placed {
                    conn, addr, len, ..
                } if conn == self.conn => (&self.host.region.send, addr, len, true),
                Completion::Failed { conn, errno } if conn == self.conn => {
                    panic!("it has failed: {errno}")
                }
                _ => continue,
            };
            let mut bytes = vec![0; len as usize];
            area.copy_out(addr, &mut bytes).expect("inside");
            let begin = self.looked;
            self.looked += u64::from(len);
            let told = bytes.iter().zip(begin..);
            for (byte, at) in told {
                assert_eq!(*byte, pattern(at), "byte {at} of {begin}..{}", self.looked);
            }
            if !is_placed {
                self.seen.viewed += u64::from(len);
                continue;
            }
            self.seen.placed += u64::from(len);
            let stands = |it: &&Buffer| it.from <= begin && self.looked <= it.from + it.len;
            let buffer = self.buffers.iter().find(stands).expect("one is posted");
            let at = buffer.at + (begin - buffer.from) as usize;
            assert_eq!(addr, BUFFERS.0 + at as u64, "where byte {begin} belongs");
            self.model[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        self.heard = self.host.completions.len();
        assert!(self.looked <= self.incoming, "more than was sent");
    }

    fn gives_back(&mut self) {
        self.host.submit(Submission::Consumed {
            conn: self.conn,
            total: self.consumed,
        });
    }

    /// The other one has gone: all arrives, and where no buffer was nothing was written.
    pub fn ends(&mut self, world: &mut World) {
        // What the other one had sent may still be on its way.
        assert!(world.worker.sessions() > 0, "it is there");
        let start = world.now;
        // What waits for more is let go.
        self.host.submit(Submission::Send {
            conn: self.conn,
            addr: REGISTERED.0,
            len: 1,
            more: false,
            consumed: self.consumed,
        });
        self.outgoing.push(pattern(0));
        loop {
            self.looks();
            self.consumed = self.looked;
            self.gives_back();
            world.settle();
            let arrived = world.peer.conns[&self.peer].update.received;
            if self.looked == self.incoming && arrived == self.outgoing.len() as u64 {
                break;
            }
            let (here, there) = (self.looked, self.incoming);
            assert!(
                world.now < start + ARRIVES,
                "{here} of {there}, {arrived} of {}",
                self.outgoing.len()
            );
            world.now += Duration::from_millis(50);
        }
        let got = &world.peer.conns[&self.peer].bytes;
        assert!(*got == self.outgoing, "what was sent is what arrived");
        self.seen.sent = self.outgoing.len() as u64 - self.seen.read;
        let mut memory = vec![0; BUFFERS.1];
        let send = &self.host.region.send;
        send.copy_out(BUFFERS.0, &mut memory).expect("inside");
        for (at, (is, belongs)) in memory.iter().zip(&self.model).enumerate() {
            assert_eq!(is, belongs, "byte {at} of the memory for buffers");
        }
    }
}
