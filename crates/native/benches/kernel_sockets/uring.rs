//! A server that has io_uring, with what makes it fast: receives that stay, buffers that the kernel chooses, one call
//! for all that is sent and waited for.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::Sender;

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::{Work, accept};

/// The kernel receives into so many buffers for each connection, which go round: the fewer, the more of them are in
/// the cache. Each has room for a message.
const BUFFERS_EACH: usize = 2;
const PAGE: usize = 4096;
/// In an operation's name: it is a send. The lower bits are its connection.
const IS_SEND: u64 = 1 << 32;

/// How what has come is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// From where it has come. No interface of calls that copy can do that: it is the least that there is.
    InPlace,
    /// It is copied to the program, and what the program sends is copied, as the library's calls have to.
    Copying,
    /// It is copied to the program, which sends by a call of its own, at once.
    AtOnce,
}

pub fn in_place(work: &mut Work, tell: &Sender<SocketAddr>) {
    Server::new(work, tell, Manner::InPlace).run();
}

pub fn copying(work: &mut Work, tell: &Sender<SocketAddr>) {
    Server::new(work, tell, Manner::Copying).run();
}

pub fn sending_at_once(work: &mut Work, tell: &Sender<SocketAddr>) {
    Server::new(work, tell, Manner::AtOnce).run();
}

struct Server<'a> {
    work: &'a mut Work,
    manner: Manner,
    ring: IoUring,
    buffers: Buffers,
    streams: Vec<TcpStream>,
    /// What is to be sent on each, the first under way: buffers and bytes in them.
    sends: Vec<VecDeque<(u16, usize)>>,
    /// Copies that are sent, for each buffer one, and what the program has received.
    copies: Vec<Vec<u8>>,
    program: Vec<u8>,
    ended: usize,
}

impl<'a> Server<'a> {
    fn new(work: &'a mut Work, tell: &Sender<SocketAddr>, manner: Manner) -> Self {
        let streams = accept(work, tell);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(1_024)
            .build(256)
            .expect("io_uring");
        let count = (BUFFERS_EACH * work.connections).next_power_of_two() as u16;
        let buffers = Buffers::new(count, work.size);
        // SAFETY: the memory is there as long as the server, which drops the ring before it.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(buffers.base() as u64, count, 0, 0)
                .expect("buffers");
        }
        Self {
            manner,
            ring,
            buffers,
            sends: streams.iter().map(|_| VecDeque::new()).collect(),
            copies: vec![vec![0; work.size]; count.into()],
            program: vec![0; work.size],
            work,
            streams,
            ended: 0,
        }
    }

    fn run(mut self) {
        for at in 0..self.streams.len() {
            self.receive(at);
        }
        let mut done = Vec::new();
        while self.ended < self.work.connections {
            self.ring.submit_and_wait(1).expect("completions");
            done.extend(self.ring.completion());
            for entry in done.drain(..) {
                self.on_done(&entry);
            }
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what it names, buffers, copies and sockets, is there as long as the ring, and nobody changes what
        // is under way.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit().expect("room");
        }
    }

    /// From now on completions tell what comes.
    fn receive(&mut self, at: usize) {
        let fd = Fd(self.streams[at].as_raw_fd());
        let entry = opcode::RecvMulti::new(fd, 0).build();
        self.push(&entry.user_data(at as u64));
    }

    fn on_done(&mut self, entry: &cqueue::Entry) {
        let (name, result) = (entry.user_data(), entry.result());
        let at = (name & (IS_SEND - 1)) as usize;
        if name & IS_SEND != 0 {
            let (buffer, len) = self.sends[at].pop_front().expect("a send under way");
            assert_eq!(result, len as i32, "MSG_WAITALL sends all");
            self.buffers.give(buffer);
            self.send_first(at);
            return;
        }
        if let Some(buffer) = cqueue::buffer_select(entry.flags()).filter(|_| result > 0) {
            self.answer(at, buffer, result as usize);
        }
        match result {
            0 => self.ended += 1,
            _ if cqueue::more(entry.flags()) => {}
            // For a moment there was no buffer.
            _ => self.receive(at),
        }
    }

    fn answer(&mut self, at: usize, buffer: u16, len: usize) {
        self.work.received(len);
        if self.manner != Manner::InPlace {
            self.program[..len].copy_from_slice(self.buffers.bytes(buffer, len));
        }
        if self.manner == Manner::AtOnce {
            let sent = rustix::net::send(
                &self.streams[at],
                &self.program[..len],
                rustix::net::SendFlags::NOSIGNAL,
            );
            assert_eq!(sent, Ok(len), "the peer has taken what was before");
            self.buffers.give(buffer);
            return;
        }
        if self.manner == Manner::Copying {
            self.copies[usize::from(buffer)][..len].copy_from_slice(&self.program[..len]);
        }
        self.sends[at].push_back((buffer, len));
        if self.sends[at].len() == 1 {
            self.send_first(at);
        }
    }

    /// Sends on a connection are one after another: that is their order.
    fn send_first(&mut self, at: usize) {
        let Some((buffer, len)) = self.sends[at].front().copied() else {
            return;
        };
        let bytes = match self.manner {
            Manner::Copying => self.copies[usize::from(buffer)].as_ptr(),
            _ => self.buffers.bytes(buffer, len).as_ptr(),
        };
        let fd = Fd(self.streams[at].as_raw_fd());
        let entry = opcode::Send::new(fd, bytes, len as u32)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build();
        self.push(&entry.user_data(IS_SEND | at as u64));
    }
}

/// Memory for what comes: a ring of entries that the kernel reads, and behind it the buffers.
struct Buffers {
    memory: *mut u8,
    layout: Layout,
    count: u16,
    size: usize,
    /// Entries that were ever given.
    given: u16,
}

impl Buffers {
    /// `count` is a power of two.
    fn new(count: u16, size: usize) -> Self {
        let len = PAGE + usize::from(count) * size;
        let layout = Layout::from_size_align(len, PAGE).expect("a layout");
        // SAFETY: it has a length.
        let memory = unsafe { alloc_zeroed(layout) };
        assert!(!memory.is_null());
        let mut buffers = Self {
            memory,
            layout,
            count,
            size,
            given: 0,
        };
        (0..count).for_each(|buffer| buffers.give(buffer));
        buffers
    }

    fn base(&self) -> *mut BufRingEntry {
        self.memory.cast()
    }

    fn at(&self, buffer: u16) -> *mut u8 {
        // SAFETY: there are so many, and so long.
        unsafe { self.memory.add(PAGE + usize::from(buffer) * self.size) }
    }

    /// What was received into one, which the kernel does not have until it is given.
    fn bytes(&self, buffer: u16, len: usize) -> &[u8] {
        assert!(buffer < self.count && len <= self.size);
        // SAFETY: it is inside the memory, and nobody writes there meanwhile.
        unsafe { std::slice::from_raw_parts(self.at(buffer), len) }
    }

    /// The kernel may receive into it again.
    fn give(&mut self, buffer: u16) {
        // SAFETY: the ring has so many entries in the first page, and the kernel reads none behind the tail.
        let entry = unsafe { &mut *self.base().add(usize::from(self.given % self.count)) };
        entry.set_addr(self.at(buffer) as u64);
        entry.set_len(self.size as u32);
        entry.set_bid(buffer);
        self.given = self.given.wrapping_add(1);
        // SAFETY: the first entry has the tail, which the kernel reads as an atomic.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.base()).cast_mut()) };
        tail.store(self.given, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: it is what was allocated; the ring is gone.
        unsafe { dealloc(self.memory, self.layout) };
    }
}
