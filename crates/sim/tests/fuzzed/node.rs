//! A stack with its memory and its device: frames in, frames out.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::promises::Promises;
use sim::offers::Offers;
use sim::pattern;
use tcp::{
    Config, ConnId, ConnUpdate, Event, Extent, FrameSink, Instant, ListenSpec, ListenerId,
    Outgoing, PayloadStore, Request, SinkFull, Stack,
};
use wire::checksum::Sum;
use wire::segment::{self, ChecksumPolicy, Headers, Link, MAX_HEADERS_LEN, TcpChecksum};

/// What a connection has received.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    have: Vec<bool>,
}

/// Receive memory that sees to it that every byte is offered once.
#[derive(Default)]
pub struct Memory {
    streams: HashMap<ConnId, Stream>,
}

impl PayloadStore for Memory {
    fn place(&mut self, conn: ConnId, offset: u64, bytes: &[u8]) -> usize {
        assert!(!bytes.is_empty(), "nothing is placed");
        let stream = self.streams.entry(conn).or_default();
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        if stream.bytes.len() < to {
            stream.bytes.resize(to, 0);
            stream.have.resize(to, false);
        }
        assert!(!stream.have[from..to].contains(&true), "placed twice");
        stream.bytes[from..to].copy_from_slice(bytes);
        stream.have[from..to].fill(true);
        bytes.len()
    }
}

impl Memory {
    /// Checks what has been received in order against what was sent.
    pub fn check(&self, conn: ConnId, received: u64, sender_base: u64) {
        let Some(stream) = self.streams.get(&conn) else {
            assert_eq!(received, 0, "received what was never placed");
            return;
        };
        let received = received as usize;
        assert!(
            received <= stream.bytes.len(),
            "received what was never placed"
        );
        assert!(
            !stream.have[..received].contains(&false),
            "a hole in what was received"
        );
        let wrong = pattern::first_wrong(sender_base, &stream.bytes[..received]);
        assert_eq!(wrong, None, "a wrong byte");
    }
}

/// Takes what the stack sends, as frames.
#[derive(Default)]
pub struct Device {
    pub frames: VecDeque<Vec<u8>>,
    /// What peers of any kind were told.
    pub promises: Promises,
    /// What the peer was promised, where that is a stack as well, which knows its own scale: a promise outlives
    /// a connection there.
    pub offers: Option<Offers>,
}

impl FrameSink for Device {
    fn burst_limit(&mut self, _conn: ConnId, mss: u16) -> usize {
        mss.into()
    }

    fn emit(&mut self, _now: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        let mut payload = Vec::with_capacity(out.payload_len);
        for extent in out.payload {
            let start = payload.len();
            payload.resize(start + extent.len as usize, 0);
            pattern::fill(extent.addr, &mut payload[start..]);
        }
        assert_eq!(payload.len(), out.payload_len);
        self.promises.on_sent(out.conn, out.tcp);
        if let Some(offers) = &mut self.offers {
            offers.on_sent(out);
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
        self.frames.push_back(frame(&headers, &payload));
        Ok(())
    }
}

/// A complete frame; one that the reader of frames accepts.
pub fn frame(headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; MAX_HEADERS_LEN];
    let checksum = TcpChecksum::Complete(Sum::of(payload));
    let len = headers.emit(payload.len(), checksum, &mut frame);
    frame.truncate(len.expect("headers that can be written"));
    frame.extend_from_slice(payload);
    frame
}

/// A host with at most one connection that its application knows.
pub struct Node {
    pub stack: Stack,
    pub memory: Memory,
    pub device: Device,
    pub address: IpAddr,
    pub listener: Option<ListenerId>,
    pub conn: Option<ConnId>,
    pub update: ConnUpdate,
    pub released: bool,
    pub submitted: u64,
    pub consumed: u64,
    pub shut: bool,
    pub closed: bool,
    pub aborted: bool,
    /// Where the bytes that it sends begin.
    pub base: u64,
}

impl Node {
    pub fn new(address: IpAddr, config: Config, seed: u8) -> Node {
        Node {
            stack: Stack::new(config, [seed; 32]),
            memory: Memory::default(),
            device: Device::default(),
            address,
            listener: None,
            conn: None,
            update: ConnUpdate::default(),
            released: false,
            submitted: 0,
            consumed: 0,
            shut: false,
            closed: false,
            aborted: false,
            base: u64::from(seed) << 40,
        }
    }

    pub fn listen(&mut self, spec: ListenSpec) {
        self.listener = self.stack.listen(spec).ok();
        assert!(self.listener.is_some(), "to listen");
    }

    pub fn receive(&mut self, now: Instant, frame: &[u8]) {
        if let Ok(segment) = segment::parse(frame, ChecksumPolicy::Verify) {
            if let Some(offers) = &mut self.device.offers {
                offers.on_arrival(&segment);
            }
            let _ = self.stack.on_segment(now, &segment, &mut self.memory);
        }
    }

    /// Transmits, takes events, accepts; until there is nothing more.
    pub fn settle(&mut self, now: Instant) {
        for _ in 0..1_000 {
            let mut active = self.stack.poll_transmit(now, &mut self.device, 100) > 0;
            self.device.promises.hold(&self.stack, now, |_, _| {});
            while let Some(event) = self.stack.poll_event() {
                active = true;
                match event {
                    Event::Connection(id, update) if Some(id) == self.conn => self.update = update,
                    Event::Released(id) if Some(id) == self.conn => self.released = true,
                    Event::Acceptable(listener) if self.conn.is_none() => {
                        self.conn = self.stack.accept(listener);
                    }
                    _ => {}
                }
            }
            if !active {
                assert_eq!(self.stack.audit(), Ok(()));
                return;
            }
        }
        panic!("the stack never comes to rest");
    }

    /// Asks something of the connection, if it has a name; whether it was granted.
    pub fn request(&mut self, now: Instant, request: Request) -> bool {
        let Some(conn) = self.conn.filter(|_| !self.released) else {
            return false;
        };
        let granted = self.stack.on_request(now, conn, request).is_ok();
        if granted {
            match request {
                Request::Send { extent, .. } => self.submitted += u64::from(extent.len),
                Request::Consumed(total) => self.consumed = total,
                Request::ShutdownWrite => self.shut = true,
                Request::Close => {
                    self.closed = true;
                    // Unread data makes it an abort.
                    self.aborted |= self.consumed < self.update.received;
                }
                Request::Abort => (self.closed, self.aborted) = (true, true),
                Request::ShutdownRead | Request::SetOption(_) | Request::Open => {}
            }
        }
        granted
    }

    pub fn send(&mut self, now: Instant, len: u32, more: bool) {
        let addr = self.base + self.submitted;
        let extent = Extent { addr, len };
        self.request(now, Request::Send { extent, more });
    }

    pub fn consume(&mut self, now: Instant) {
        let received = self.update.received;
        if received > self.consumed {
            self.request(now, Request::Consumed(received));
        }
    }
}
