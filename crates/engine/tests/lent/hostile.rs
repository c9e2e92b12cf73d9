//! A program that keeps to no rule: it lends the same memory twice, changes it under way, and gives back what
//! it never had. So it does with memory files, which it also has holes punched into, and forgets under way.

use std::fs::File;
use std::os::unix::fs::FileExt;

use queue_pair::{ConnRef, OptionKind, Submission};
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals};
use tcp::ConnId;

use super::script::Script;
use super::{PIECE, memory_file, program, show};
use crate::world::{Host, World};

/// The part of its memory that most of what it does is about, in bytes: so its lies meet each other.
const NEAR: u64 = 16 << 10;

pub struct Hostile {
    host: Host,
    opened: Vec<(ConnRef, ConnId)>,
    /// What it has shown last, and shows again.
    file: File,
}

impl Hostile {
    pub fn new(world: &mut World) -> Self {
        let (mut host, opened) = program(world, 2);
        let file = memory_file(2 * NEAR);
        let shown = show(world, &mut host, file.try_clone().expect("descriptors"));
        shown.expect("one to send from");
        Self { host, opened, file }
    }

    /// What it does to its files.
    fn changes_files(&mut self, world: &mut World, script: &mut Script<'_>) {
        let (at, len) = (place(script), u64::from(length(script)));
        // All of it may be refused: the file may be sealed by now, or the engine has had enough.
        match script.below(8) {
            0 => {
                self.file = memory_file(1 + len.min(NEAR));
                let file = self.file.try_clone().expect("descriptors");
                let _ = show(world, &mut self.host, file);
            }
            1 => {
                let file = self.file.try_clone().expect("descriptors");
                let _ = show(world, &mut self.host, file);
            }
            2 | 3 => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = fallocate(&self.file, hole, at % NEAR, len.min(NEAR));
            }
            4 => {
                let _ = self.file.set_len(at % NEAR);
            }
            5 => {
                let _ = fcntl_add_seals(&self.file, SealFlags::FUTURE_WRITE);
            }
            _ => {
                let bytes = vec![script.byte(); len.min(NEAR) as usize];
                let _ = self.file.write_all_at(&bytes, at % NEAR);
            }
        }
    }

    pub fn step(&mut self, world: &mut World, script: &mut Script<'_>) {
        let (conn, peer) = self.opened[script.below(self.opened.len())];
        match script.below(16) {
            0..=2 => {
                let known = &world.peer.conns[&peer];
                if known.update.failed.is_none() && !known.released {
                    let bytes = vec![script.byte(); (1 + script.below(256) * 16).min(PIECE)];
                    world.peer.send(world.now, peer, &bytes);
                }
            }
            3 => {
                // What lies there, whoever has it.
                let bytes = vec![script.byte(); 1 + script.below(256) * 16];
                let at = place(script);
                let region = &self.host.region;
                let area = if script.bit() {
                    &region.send
                } else {
                    &region.receive
                };
                let _ = area.copy_in(at, &bytes);
            }
            12 => self.changes_files(world, script),
            kind => {
                for _ in 0..=script.below(3) {
                    let order = order(kind, conn, script);
                    // The ring may be full, or the engine gone.
                    let _ = self.host.region.submissions.post(&order);
                }
                self.host.region.submissions.publish();
            }
        }
        // It listens, so that the ring is not all that stops it.
        self.host.collect();
        self.host.completions.clear();
    }
}

fn place(script: &mut Script<'_>) -> u64 {
    match script.below(16) {
        0 => script.number(),
        _ => u64::from(script.byte()) * (NEAR / 256),
    }
}

fn length(script: &mut Script<'_>) -> u32 {
    match script.below(16) {
        0 => script.number() as u32,
        _ => 1 + script.below(256) as u32 * 16,
    }
}

/// A name of a file, mostly one that it may have.
fn name(script: &mut Script<'_>) -> u16 {
    match script.below(8) {
        0 => script.number() as u16,
        _ => script.below(3) as u16,
    }
}

/// A position in the stream, mostly one that is not far.
fn position(script: &mut Script<'_>) -> u64 {
    match script.below(8) {
        0 => script.number(),
        _ => script.below(256) as u64 * 64 + script.below(2) as u64,
    }
}

fn order(kind: usize, conn: ConnRef, script: &mut Script<'_>) -> Submission {
    match kind {
        4..=6 => Submission::Post {
            conn,
            addr: place(script),
            len: length(script),
            from: position(script),
        },
        7 => Submission::Send {
            conn,
            addr: place(script),
            len: length(script),
            more: script.bit(),
            consumed: position(script),
        },
        8 => Submission::SendAt {
            conn,
            addr: place(script),
            len: length(script),
            more: script.bit(),
            at: position(script),
        },
        9 => Submission::Consumed {
            conn,
            total: position(script),
        },
        10 => Submission::SetOption {
            conn,
            option: OptionKind::ReceiveBuffer,
            value: script.number(),
        },
        13 | 14 => Submission::SendFile {
            conn,
            file: name(script),
            offset: place(script),
            len: length(script),
            more: script.bit(),
            at: if script.bit() { 0 } else { position(script) },
        },
        15 => Submission::ForgetFile { file: name(script) },
        _ => match script.below(8) {
            0 => Submission::Close {
                conn,
                abort: script.bit(),
                at: script.number(),
            },
            1 => Submission::Shutdown {
                conn,
                at: script.number(),
            },
            2 => Submission::ShutdownRead { conn },
            3 => Submission::GiveBack { conn },
            _ => Submission::Acquire { conn },
        },
    }
}
