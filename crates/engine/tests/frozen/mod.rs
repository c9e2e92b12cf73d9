//! A program of version 6, as its library was when that was frozen: what it sends byte for byte, and what
//! it checks. It uses nothing of today's library, and must not be made to: it stands for those that run
//! while the engine is upgraded. When version 6 is spoken no longer, it goes; a new version gets files of
//! its own beside these.

use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{pread, pwrite};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

const ATTACH: &str = include_str!("v6-attach.json");
const ATTACHED: &str = include_str!("v6-attached.json");
const LISTEN: &str = include_str!("v6-listen.json");
const HEADER: &str = include_str!("v6-header.txt");

const SUBMISSION_PRODUCED: u64 = 1024;
const COMPLETION_PRODUCED: u64 = 1280;
const COMPLETION_CONSUMED: u64 = 1408;
const ENTRY: u64 = 32;

// Kinds of submissions and completions.
const SEND: u64 = 1;
const CLOSE: u64 = 4;
const CREDIT: u64 = 6;
const UPDATE: u64 = 1;
const ACCEPTED: u64 = 3;
const RELEASED: u64 = 7;

/// Sends a message with descriptors.
pub fn say(socket: &OwnedFd, text: &str, fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    }
    let text = [IoSlice::new(text.trim_end().as_bytes())];
    sendmsg(socket, &text, &mut ancillary, SendFlags::NOSIGNAL).expect("sent");
}

/// The answer, and its descriptors.
pub fn hear(socket: &OwnedFd) -> (String, Vec<OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = vec![0; 65_536];
    let mut into = [IoSliceMut::new(&mut text)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut into, &mut ancillary, flags).expect("an answer");
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    text.truncate(received.bytes);
    (String::from_utf8(text).expect("text"), fds)
}

/// What it sends to attach.
pub fn attach() -> &'static str {
    ATTACH
}

/// A program that has attached.
pub struct Frozen {
    socket: OwnedFd,
    region: OwnedFd,
    header: HashMap<&'static str, u64>,
    kernel: Option<TcpListener>,
    submitted: u32,
    completed: u32,
    _doorbells: Vec<OwnedFd>,
}

impl Frozen {
    /// Reads the answer to [`attach`], and checks it and the region.
    pub fn attached(socket: OwnedFd) -> Self {
        let (said, mut fds) = hear(&socket);
        // It refuses what it does not know.
        assert_eq!(said, ATTACHED.trim_end());
        assert_eq!(fds.len(), 3, "the region and two doorbells");
        let region = fds.remove(0);
        let header = check(&region);
        Self {
            socket,
            region,
            header,
            kernel: None,
            submitted: 0,
            completed: 0,
            _doorbells: fds,
        }
    }

    /// Asks for connections to a port of its own; its address. [`hear`](Self::listening) the answer.
    pub fn listen(&mut self) -> SocketAddr {
        let kernel = TcpListener::bind("0.0.0.0:0").expect("a port");
        let addr = kernel.local_addr().expect("bound");
        let text = LISTEN.replace("ADDR", &addr.to_string());
        say(&self.socket, &text, &[kernel.as_fd()]);
        self.kernel = Some(kernel);
        addr
    }

    /// The listener's number, from the answer; it is willing to accept from now on.
    pub fn listening(&mut self) {
        let (said, _) = hear(&self.socket);
        let number = said
            .strip_prefix("{\"Listening\":{\"listener\":")
            .and_then(|rest| rest.strip_suffix("}}"));
        let number: u64 = number
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("{said}"));
        self.submit([CREDIT | number << 32, 64, 0, 0]);
    }

    /// Accepts the connection that it was offered; its name.
    pub fn accept(&mut self) -> u64 {
        let [head, conn, ..] = self.next().expect("an offer");
        assert_eq!(head & 0xff, ACCEPTED);
        self.next().expect("its second half");
        let (grant, generation) = (head >> 16 & 0xffff, conn >> 32);
        let at = self.header["positions_at"] + 16 * (conn & 0xffff_ffff);
        let offered = generation | grant << 48 | 1 << 62;
        assert_eq!(word(&self.region, at), offered, "the offer");
        put(&self.region, at, &(grant << 48).to_ne_bytes());
        conn
    }

    /// What has arrived on the connection, all in one piece.
    pub fn read(&mut self, conn: u64) -> Vec<u8> {
        loop {
            let [head, of, addr, _] = self.next().expect("an update");
            assert_eq!((head & 0xff, of), (UPDATE, conn));
            let mut bytes = vec![0; (head >> 32) as usize];
            if !bytes.is_empty() {
                let at = self.header["receive_at"] + addr;
                assert_eq!(pread(&self.region, &mut bytes[..], at), Ok(bytes.len()));
                return bytes;
            }
        }
    }

    /// Answers, having read so many bytes.
    pub fn send(&mut self, conn: u64, bytes: &[u8], consumed: u64) {
        put(&self.region, self.header["send_at"], bytes);
        self.submit([SEND | (bytes.len() as u64) << 32, conn, 0, consumed]);
    }

    /// Closes.
    pub fn close(&mut self, conn: u64) {
        self.submit([CLOSE, conn, 0, 0]);
    }

    /// Whether the last that was said is that the connection is over.
    pub fn is_released(&mut self, conn: u64) -> bool {
        let mut last = None;
        while let Some(entry) = self.next() {
            last = Some(entry);
        }
        last.is_some_and(|entry| entry[0] & 0xff == RELEASED && entry[1] == conn)
    }

    fn submit(&mut self, entry: [u64; 4]) {
        let slot = u64::from(self.submitted) % self.header["submission_entries"];
        let at = self.header["submission_at"] + ENTRY * slot;
        for (word, at) in entry.iter().zip((at..).step_by(8)) {
            put(&self.region, at, &word.to_ne_bytes());
        }
        self.submitted += 1;
        put(
            &self.region,
            SUBMISSION_PRODUCED,
            &self.submitted.to_ne_bytes(),
        );
    }

    fn next(&mut self) -> Option<[u64; 4]> {
        if word(&self.region, COMPLETION_PRODUCED) as u32 == self.completed {
            return None;
        }
        let slot = u64::from(self.completed) % self.header["completion_entries"];
        let at = self.header["completion_at"] + ENTRY * slot;
        let entry = [0, 8, 16, 24].map(|part| word(&self.region, at + part));
        self.completed += 1;
        put(
            &self.region,
            COMPLETION_CONSUMED,
            &self.completed.to_ne_bytes(),
        );
        Some(entry)
    }
}

fn word(region: &OwnedFd, at: u64) -> u64 {
    let mut bytes = [0; 8];
    assert_eq!(pread(region, &mut bytes[..], at), Ok(8));
    u64::from_ne_bytes(bytes)
}

fn put(region: &OwnedFd, at: u64, bytes: &[u8]) {
    assert_eq!(pwrite(region, bytes, at), Ok(bytes.len()));
}

/// The header of a region, as a program of version 6 believes it.
fn check(region: &OwnedFd) -> HashMap<&'static str, u64> {
    let header: HashMap<&str, u64> = HEADER
        .lines()
        .map(|line| {
            let (name, at) = line.split_once(' ').expect("a name and a place");
            (name, word(region, at.parse().expect("a place")))
        })
        .collect();
    let of = |name: &str| header[name];
    assert_eq!(of("magic").to_le_bytes(), *b"outboard");
    assert_eq!(of("version") as u32, 6);
    assert_eq!(of("receive_chunk"), 4096);
    let pages = |len: u64| len.next_multiple_of(4096);
    let mut at = 4096;
    for (name, len) in [
        ("submission_at", pages(of("submission_entries") * ENTRY)),
        ("completion_at", pages(of("completion_entries") * ENTRY)),
        ("positions_at", pages(of("positions") * 16)),
        ("send_at", of("send_len")),
        ("receive_at", of("receive_len")),
    ] {
        assert_eq!(of(name), at, "{name}");
        at += len;
    }
    let size = rustix::fs::fstat(region).expect("a file").st_size;
    assert_eq!((of("total_len"), size as u64), (at, at));
    header
}
