//! An HTTP server on our own TCP, which answers `/SIZE` with so many bytes.

use std::collections::HashMap;
use std::net::IpAddr;

use stateless::client::Verify;
use tcp::{
    Config, ConnId, ConnOptions, Event, Extent, FrameSink, Instant, ListenSpec, Outgoing,
    PayloadStore, Request, SinkFull, Stack,
};
use wire::checksum::Sum;
use wire::segment::{ChecksumPolicy, Headers, Link, TcpChecksum, parse};

use super::Peer;

/// How the server behaves.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// It closes a connection after so many responses.
    pub requests: u32,
    /// It does not say so before, and the next request may be under way by then.
    pub silent: bool,
    /// Bodies come in chunks.
    pub chunked: bool,
    /// It answers so many nanoseconds after it was asked.
    pub delay_ns: u64,
    /// Nobody listens: it answers SYNs by resets.
    pub refuses: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            requests: u32::MAX,
            silent: false,
            chunked: false,
            delay_ns: 0,
            refuses: false,
        }
    }
}

/// The body behind a path: bytes that follow from it.
fn body(path: &str) -> Vec<u8> {
    let size: usize = path.trim_start_matches('/').parse().expect("a size");
    (0..size)
        .map(|at| (at * 7 + at / 251 + size) as u8)
        .collect()
}

#[derive(Default)]
struct Connection {
    /// What came, at its place in the stream.
    stream: Vec<u8>,
    /// How much of it was read.
    read: usize,
    answered: u32,
    closed: bool,
}

#[derive(Default)]
struct Memory(HashMap<ConnId, Connection>);

impl PayloadStore for Memory {
    fn place(&mut self, conn: ConnId, offset: u64, bytes: &[u8]) -> usize {
        let stream = &mut self.0.entry(conn).or_default().stream;
        let end = offset as usize + bytes.len();
        if stream.len() < end {
            stream.resize(end, 0);
        }
        stream[offset as usize..end].copy_from_slice(bytes);
        bytes.len()
    }
}

/// The server.
pub struct Server {
    stack: Stack,
    listener: tcp::ListenerId,
    memory: Memory,
    /// Everything that was ever to be sent; extents are places in it.
    responses: Vec<u8>,
    habits: Habits,
    /// To be closed in the next turn.
    closing: Vec<ConnId>,
    /// What is answered later, and when.
    later: Vec<(u64, ConnId, usize)>,
    /// Requests that were read, by their number in their connection.
    pub requests: u64,
    pub connections: u64,
}

struct Sink<'a> {
    responses: &'a [u8],
    frames: Vec<Vec<u8>>,
}

impl FrameSink for Sink<'_> {
    fn burst_limit(&mut self, _conn: ConnId, mss: u16) -> usize {
        mss.into()
    }

    fn emit(&mut self, _now: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        let mut payload = Vec::new();
        for extent in out.payload {
            let from = extent.addr as usize;
            payload.extend_from_slice(&self.responses[from..from + extent.len as usize]);
        }
        let headers = Headers {
            link: Link::default(),
            src: out.src,
            dst: out.dst,
            hop_limit: 64,
            dscp: 0,
            ecn: out.ecn,
            tcp: out.tcp,
        };
        let mut frame = vec![0; headers.len()];
        headers
            .emit(
                payload.len(),
                TcpChecksum::Complete(Sum::of(&payload)),
                &mut frame,
            )
            .expect("headers");
        frame.extend(payload);
        self.frames.push(frame);
        Ok(())
    }
}

impl Server {
    pub fn new(habits: Habits, seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut stack = Stack::new(Config::default(), bytes);
        let address: std::net::SocketAddr = super::SERVER.parse().expect("an address");
        let listener = stack
            .listen(ListenSpec {
                addr: Some(IpAddr::from([10, 0, 0, 1])),
                port: address.port() + u16::from(habits.refuses),
                backlog: 1024,
                max_half_open: 1024,
                v6_only: false,
                options: ConnOptions::default(),
            })
            .expect("to listen");
        Self {
            stack,
            listener,
            memory: Memory::default(),
            responses: Vec::new(),
            habits,
            closing: Vec::new(),
            later: Vec::new(),
            requests: 0,
            connections: 0,
        }
    }
}

impl Peer for Server {
    fn receive(&mut self, now_ns: u64, frame: &[u8]) {
        let segment = parse(frame, ChecksumPolicy::Verify).expect("what the client sends is valid");
        let now = Instant::from_nanos(now_ns);
        let _ = self.stack.on_segment(now, &segment, &mut self.memory);
    }

    fn next_timeout(&mut self) -> Option<u64> {
        let timer = self.stack.next_timeout().map(Instant::as_nanos);
        let later = self.later.iter().map(|(at, ..)| *at).min();
        timer.into_iter().chain(later).min()
    }

    /// Reads, answers, and returns what is to be sent.
    fn turn(&mut self, now_ns: u64) -> Vec<Vec<u8>> {
        let now = Instant::from_nanos(now_ns);
        self.stack.on_timeout(now, usize::MAX);
        for conn in std::mem::take(&mut self.closing) {
            self.close(now, conn);
        }
        while let Some(conn) = self.stack.accept(self.listener) {
            self.memory.0.entry(conn).or_default();
            self.connections += 1;
        }
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Acceptable(_) => {
                    while let Some(conn) = self.stack.accept(self.listener) {
                        self.memory.0.entry(conn).or_default();
                        self.connections += 1;
                    }
                }
                Event::Connection(conn, update) => {
                    let at = now_ns + self.habits.delay_ns;
                    self.later.push((at, conn, update.received as usize));
                    if (update.peer_closed || update.failed.is_some()) && !self.is_closed(conn) {
                        self.close(now, conn);
                    }
                }
                Event::Released(conn) => {
                    self.memory.0.remove(&conn);
                }
            }
        }
        let due = |one: &(u64, ConnId, usize)| one.0 <= now_ns;
        let (due, later) = std::mem::take(&mut self.later).into_iter().partition(due);
        self.later = later;
        let due: Vec<_> = due;
        for (_, conn, received) in due {
            self.answer(now, conn, received);
        }
        let mut sink = Sink {
            responses: &self.responses,
            frames: Vec::new(),
        };
        self.stack.poll_transmit(now, &mut sink, usize::MAX);
        sink.frames
    }

    fn verify(paths: &[String]) -> Verify {
        Verify::Bytes(paths.iter().map(|path| body(path).into()).collect())
    }
}

impl Server {
    fn is_closed(&self, conn: ConnId) -> bool {
        self.memory.0.get(&conn).is_none_or(|one| one.closed)
    }

    fn close(&mut self, now: Instant, conn: ConnId) {
        if let Some(connection) = self.memory.0.get_mut(&conn) {
            connection.closed = true;
        }
        let _ = self.stack.on_request(now, conn, Request::Close);
    }

    fn answer(&mut self, now: Instant, conn: ConnId, received: usize) {
        while let Some(connection) = self.memory.0.get_mut(&conn)
            && !connection.closed
        {
            let text = &connection.stream[connection.read..received.min(connection.stream.len())];
            let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") else {
                break;
            };
            let request = std::str::from_utf8(&text[..end]).expect("a request is text");
            let mut words = request.split(' ');
            assert_eq!(
                words.next(),
                Some("GET"),
                "a request begins where it should"
            );
            let path = words.next().expect("a path").to_owned();
            connection.read += end + 4;
            connection.answered += 1;
            let last = request.contains("Connection: close")
                || connection.answered >= self.habits.requests;
            let consumed = connection.read as u64;
            self.requests += 1;
            let from = self.responses.len();
            self.write_response(&path, last && !self.habits.silent);
            let extent = Extent {
                addr: from as u64,
                len: (self.responses.len() - from) as u32,
            };
            let send = Request::Send {
                extent,
                more: false,
            };
            self.stack.on_request(now, conn, send).expect("to send");
            let consumed = Request::Consumed(consumed);
            self.stack.on_request(now, conn, consumed).expect("to read");
            if last && self.habits.silent {
                if let Some(connection) = self.memory.0.get_mut(&conn) {
                    connection.closed = true;
                }
                self.closing.push(conn);
            } else if last {
                self.close(now, conn);
            }
        }
    }

    fn write_response(&mut self, path: &str, last: bool) {
        let body = body(path);
        let connection = if last { "Connection: close\r\n" } else { "" };
        let out = &mut self.responses;
        out.extend(format!("HTTP/1.1 200 OK\r\n{connection}").bytes());
        if self.habits.chunked {
            out.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            for chunk in body.chunks(1000) {
                out.extend(format!("{:x}\r\n", chunk.len()).bytes());
                out.extend(chunk);
                out.extend(b"\r\n");
            }
            out.extend(b"0\r\n\r\n");
        } else {
            out.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
            out.extend(body);
        }
    }
}
