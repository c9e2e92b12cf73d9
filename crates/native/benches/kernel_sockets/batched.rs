//! A server by epoll that has a ring besides: what is sent to all those that one wait has told of leaves by one call,
//! and what has come from them comes by one, if that is wanted, too. All of it is done within the call: the kernel has
//! no memory of the program's afterwards.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc::Sender;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::event::epoll;

use crate::{BUFFER, Work, accept};

/// More than this is sent and received by calls of their own, in bytes.
const SMALL: usize = 4 << 10;
/// Operations of one call.
const ENTRIES: u32 = 64;

/// Receives by themselves, sends of a wait together.
pub fn sends(work: &mut Work, tell: &Sender<SocketAddr>) {
    Server::new(work, tell, false).run();
}

/// Both together.
pub fn both(work: &mut Work, tell: &Sender<SocketAddr>) {
    Server::new(work, tell, true).run();
}

struct Server<'a> {
    work: &'a mut Work,
    receives_together: bool,
    ring: IoUring,
    set: std::os::fd::OwnedFd,
    streams: Vec<TcpStream>,
    /// What is to be sent on each.
    staged: Vec<Vec<u8>>,
    /// On which there is something.
    sends: Vec<usize>,
    /// What one call receives into.
    places: Vec<u8>,
    bytes: Vec<u8>,
    ended: usize,
}

impl<'a> Server<'a> {
    fn new(work: &'a mut Work, tell: &Sender<SocketAddr>, receives_together: bool) -> Self {
        let streams = accept(work, tell);
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        for (at, stream) in streams.iter().enumerate() {
            stream.set_nonblocking(true).expect("an option");
            let data = epoll::EventData::new_u64(at as u64);
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&set, stream, data, flags).expect("a member");
        }
        Self {
            receives_together,
            ring: IoUring::builder()
                .setup_submit_all()
                .build(ENTRIES)
                .expect("io_uring"),
            set,
            staged: streams.iter().map(|_| Vec::new()).collect(),
            sends: Vec::new(),
            places: vec![0; ENTRIES as usize * SMALL],
            bytes: vec![0; BUFFER],
            work,
            streams,
            ended: 0,
        }
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        let mut told = Vec::new();
        while self.ended < self.work.connections {
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            epoll::wait(&self.set, room, None).expect("events");
            told.clear();
            told.extend(events.iter().map(|event| event.data.u64() as usize));
            let stages = told.len() > 1;
            if stages && self.receives_together && self.work.size <= SMALL {
                for some in told.chunks(ENTRIES as usize) {
                    self.receive(some);
                }
            } else {
                for at in &told {
                    self.serve(*at, stages);
                }
            }
            self.flush();
        }
    }

    /// One, by a call of its own.
    fn serve(&mut self, at: usize, stages: bool) {
        let mut bytes = std::mem::take(&mut self.bytes);
        let read = self.streams[at].read(&mut bytes);
        self.answer(at, read.expect("a message"), &bytes, stages);
        self.bytes = bytes;
    }

    fn answer(&mut self, at: usize, read: usize, bytes: &[u8], stages: bool) {
        if read == 0 {
            epoll::delete(&self.set, &self.streams[at]).expect("a member");
            self.ended += 1;
            return;
        }
        self.work.received(read);
        if stages && read <= SMALL {
            self.staged[at].extend_from_slice(&bytes[..read]);
            self.sends.push(at);
        } else {
            self.streams[at]
                .write_all(&bytes[..read])
                .expect("an answer");
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what it names is there until the call that hands it over returns, and all is done then.
        unsafe { self.ring.submission().push(entry) }.expect("room");
    }

    fn receive(&mut self, some: &[usize]) {
        let mut places = std::mem::take(&mut self.places);
        for (place, at) in places.chunks_mut(SMALL).zip(some) {
            let fd = Fd(self.streams[*at].as_raw_fd());
            let entry = opcode::Recv::new(fd, place.as_mut_ptr(), SMALL as u32)
                .flags(libc::MSG_DONTWAIT)
                .build();
            self.push(&entry.user_data(0));
        }
        self.ring.submit().expect("they are done");
        let read: Vec<i32> = self.ring.completion().map(|entry| entry.result()).collect();
        assert_eq!(read.len(), some.len(), "all are done within the call");
        for ((place, at), read) in places.chunks(SMALL).zip(some).zip(read) {
            let read = usize::try_from(read).expect("a message");
            // As the library has to: to where the program wants it.
            let mut bytes = std::mem::take(&mut self.bytes);
            bytes[..read].copy_from_slice(&place[..read]);
            self.answer(*at, read, &bytes, true);
            self.bytes = bytes;
        }
        self.places = places;
    }

    fn flush(&mut self) {
        let sends = std::mem::take(&mut self.sends);
        for some in sends.chunks(ENTRIES as usize) {
            for at in some {
                let fd = Fd(self.streams[*at].as_raw_fd());
                let staged = &self.staged[*at];
                let entry = opcode::Send::new(fd, staged.as_ptr(), staged.len() as u32)
                    .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
                    .build();
                self.push(&entry.user_data(*at as u64));
            }
            self.ring.submit().expect("they are done");
            let mut done = 0;
            for entry in self.ring.completion() {
                let staged = &mut self.staged[entry.user_data() as usize];
                assert_eq!(entry.result(), staged.len() as i32, "all of it");
                staged.clear();
                done += 1;
            }
            assert_eq!(done, some.len(), "all are done within the call");
        }
        self.sends = sends;
        self.sends.clear();
    }
}
