//! A stack on a bench: the test is the peer, the owner and the clock.
//!
//! A test reads like a packet trace. Sequence and acknowledgement numbers are relative to the
//! initial ones, as `tcpdump` prints them.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test file uses its part of the bench"
)]

pub mod fast_open;
pub mod many;
pub mod play;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tcp::{
    Config, ConnId, ConnOptions, ConnUpdate, DropReason, Event, Extent, FrameSink, Instant,
    KeepAlive, ListenSpec, ListenerId, Outgoing, PayloadStore, Request, SinkFull, Stack,
};
use wire::ip::Ecn;
use wire::segment::{Link, Segment};
use wire::seq::SeqNumber;
use wire::tcp::{FastOpenCookie, Flags, Options, Repr, SackBlock, SackBlocks, Timestamps};

pub const SYN: Flags = Flags::SYN;
pub const FIN: Flags = Flags::FIN;
pub const RST: Flags = Flags::RST;
pub const PSH: Flags = Flags::PSH;

/// The peer's initial sequence number.
pub const PEER_ISS: u32 = 0xffff_f000;

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// What the peer's stream carries at an offset.
pub fn peer_byte(offset: u64) -> u8 {
    (offset % 251) as u8
}

/// A segment that the stack has sent, numbers relative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub at: Instant,
    pub src: SocketAddr,
    pub dst: SocketAddr,
    pub seq: i64,
    pub ack: Option<i64>,
    pub flags: Flags,
    pub window: u16,
    pub options: Options,
    pub len: usize,
    pub gso_size: u16,
    pub payload: Vec<Extent>,
    pub raw: Repr,
    pub ecn: Ecn,
}

impl Sent {
    pub fn has(&self, flags: Flags) -> bool {
        self.flags.contains(flags)
    }

    /// `seq:end(len) ack`, as tcpdump has it.
    pub fn brief(&self) -> String {
        let mut s = format!("{}", self.flags.with(Flags::ACK, self.ack.is_some()));
        s += &format!(" {}:{}", self.seq, self.seq + self.len as i64);
        if let Some(ack) = self.ack {
            s += &format!(" ack {ack}");
        }
        s
    }
}

/// Keeps what the stack received, and checks it byte by byte.
#[derive(Default)]
pub struct Store {
    /// Bytes that may still be taken; `None` for any number.
    pub room: Option<usize>,
    pub placed: Vec<(u64, usize)>,
}

impl PayloadStore for Store {
    fn place(&mut self, _conn: ConnId, offset: u64, bytes: &[u8]) -> usize {
        let n = self.room.map_or(bytes.len(), |room| room.min(bytes.len()));
        if let Some(room) = &mut self.room {
            *room -= n;
        }
        for (i, &byte) in bytes[..n].iter().enumerate() {
            assert_eq!(byte, peer_byte(offset + i as u64), "payload misplaced");
        }
        self.placed.push((offset, n));
        n
    }
}

/// One emission, as the sink was given it.
pub struct Emission {
    at: Instant,
    tcp: Repr,
    src: SocketAddr,
    dst: SocketAddr,
    payload: Vec<Extent>,
    len: usize,
    gso_size: u16,
    ecn: Ecn,
}

/// Takes what the stack sends.
pub struct Sink {
    pub sent: VecDeque<Emission>,
    /// Segments in a burst.
    pub burst: usize,
    /// Emissions that may still be taken.
    pub room: usize,
    /// Payload is being fetched: only what has none is taken.
    pub away: bool,
    /// What memory allows.
    pub window_limit: u32,
    /// The timestamp that was last sent.
    pub stamp: u32,
}

impl FrameSink for Sink {
    fn burst_limit(&mut self, _conn: ConnId, mss: u16) -> usize {
        self.burst * usize::from(mss)
    }

    fn window_limit(&mut self, _conn: ConnId) -> u32 {
        self.window_limit
    }

    fn awaits_payload(&mut self, _conn: ConnId) -> bool {
        self.away
    }

    fn emit(&mut self, now: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        if self.room == 0 || (self.away && out.payload_len > 0) {
            return Err(SinkFull);
        }
        self.room -= 1;
        if let Some(stamp) = out.tcp.options.timestamps {
            self.stamp = stamp.value;
        }
        assert_eq!(
            out.payload.iter().map(|e| e.len as usize).sum::<usize>(),
            out.payload_len
        );
        self.sent.push_back(Emission {
            at: now,
            tcp: out.tcp,
            src: SocketAddr::new(out.src, out.tcp.src_port),
            dst: SocketAddr::new(out.dst, out.tcp.dst_port),
            payload: out.payload.to_vec(),
            len: out.payload_len,
            gso_size: out.gso_size,
            ecn: out.ecn,
        });
        Ok(())
    }
}

/// A segment that the test's peer sends. Numbers relative to the initial ones.
#[derive(Clone, Copy)]
pub struct Seg {
    pub flags: Flags,
    pub seq: i64,
    pub ack: Option<i64>,
    pub window: u16,
    pub len: usize,
    pub options: Options,
    pub src_port: u16,
    /// What routers said of congestion.
    pub ecn: Ecn,
}

pub fn seg(seq: i64, len: usize) -> Seg {
    Seg {
        flags: Flags::NONE,
        seq,
        ack: None,
        window: 65_535,
        len,
        options: Options::NONE,
        src_port: 40_000,
        ecn: Ecn::NotCapable,
    }
}

impl Seg {
    pub fn ack(mut self, ack: i64) -> Seg {
        self.ack = Some(ack);
        self.flags = self.flags.with(Flags::ACK, true);
        self
    }

    pub fn flags(mut self, flags: Flags) -> Seg {
        self.flags |= flags;
        self
    }

    pub fn window(mut self, window: u16) -> Seg {
        self.window = window;
        self
    }

    pub fn mss(mut self, mss: u16) -> Seg {
        self.options.mss = Some(mss);
        self
    }

    pub fn wscale(mut self, scale: u8) -> Seg {
        self.options.window_scale = Some(scale);
        self
    }

    pub fn sack_permitted(mut self) -> Seg {
        self.options.sack_permitted = true;
        self
    }

    pub fn ts(mut self, value: u32, echo: u32) -> Seg {
        self.options.timestamps = Some(Timestamps { value, echo });
        self
    }

    pub fn fast_open(mut self, cookie: FastOpenCookie) -> Seg {
        self.options.fast_open = Some(cookie);
        self
    }

    pub fn ecn(mut self, ecn: Ecn) -> Seg {
        self.ecn = ecn;
        self
    }

    pub fn port(mut self, port: u16) -> Seg {
        self.src_port = port;
        self
    }
}

pub struct Bench {
    pub stack: Stack,
    pub now: Instant,
    pub store: Store,
    pub sink: Sink,
    pub local: SocketAddr,
    pub peer: IpAddr,
    /// The stack's initial sequence number, once seen.
    pub iss: Option<SeqNumber>,
    pub listener: Option<ListenerId>,
    pub conn: Option<ConnId>,
    /// What the events last said of `conn`.
    pub update: ConnUpdate,
    pub released: Vec<ConnId>,
    /// Offered in the peer's SYN by [`Bench::established`].
    pub offer: Seg,
    /// The peer has every option in its SYNs, and a timestamp in every segment.
    pub with_options: bool,
    next_addr: u64,
}

/// A plain configuration: no options negotiated, so that numbers in the traces are round.
pub fn plain() -> Config {
    Config {
        timestamps: false,
        selective_acks: false,
        window_scaling: false,
        ..Config::default()
    }
}

/// A connection with keep-alive: three probes, ten seconds apart, after a minute of silence.
pub fn kept_alive() -> Bench {
    let options = ConnOptions {
        keep_alive: KeepAlive {
            enabled: true,
            idle: 60,
            interval: 10,
            count: 3,
        },
        ..ConnOptions::default()
    };
    Bench::established(plain(), options)
}

impl Bench {
    pub fn new(config: Config) -> Bench {
        Bench {
            stack: Stack::new(config, [7; 32]),
            now: Instant::from_millis(10_000),
            store: Store::default(),
            sink: Sink {
                sent: VecDeque::new(),
                burst: 1,
                room: usize::MAX,
                away: false,
                window_limit: u32::MAX,
                stamp: 0,
            },
            local: "192.0.2.1:80".parse().unwrap(),
            peer: "198.51.100.7".parse().unwrap(),
            iss: None,
            listener: None,
            conn: None,
            update: ConnUpdate::default(),
            released: Vec::new(),
            offer: seg(0, 0).flags(SYN).mss(1000),
            with_options: false,
            next_addr: 0,
        }
    }

    pub fn listening(config: Config, options: ConnOptions) -> Bench {
        let mut b = Bench::new(config);
        b.listen(options, 16);
        b
    }

    pub fn listen(&mut self, options: ConnOptions, backlog: u32) {
        let id = self
            .stack
            .listen(ListenSpec {
                addr: None,
                port: self.local.port(),
                backlog,
                max_half_open: 1024,
                v6_only: false,
                options,
            })
            .unwrap();
        self.listener = Some(id);
    }

    /// An accepted connection, its handshake done and everything quiet.
    pub fn established(config: Config, options: ConnOptions) -> Bench {
        let mut b = Bench::listening(config, options);
        b.handshake();
        b
    }

    /// The peer opens, with what `offer` says; the owner accepts.
    pub fn handshake(&mut self) {
        self.iss = None;
        self.inject(self.offer);
        let syn_ack = self.expect("S. 0:0 ack 1");
        let mut last = seg(1, 0).ack(1).port(self.offer.src_port);
        if let (Some(theirs), Some(ours)) =
            (self.offer.options.timestamps, syn_ack.options.timestamps)
        {
            last = last.ts(theirs.value, ours.value);
        }
        last.window = self.offer.window;
        self.inject(last);
        self.conn = self.stack.accept(self.listener.unwrap());
        assert!(self.conn.is_some(), "nothing to accept");
        self.events();
        self.quiet();
        assert!(self.update.connected);
    }

    /// The owner connects; the SYN is left to be expected.
    pub fn connect(&mut self, options: ConnOptions) -> ConnId {
        let remote = SocketAddr::new(self.peer, 40_000);
        let id = self
            .stack
            .connect(self.now, self.local, remote, &options)
            .unwrap();
        self.conn = Some(id);
        id
    }

    pub fn raw(&self, s: Seg) -> Repr {
        let relative = |base: u32, n: i64| SeqNumber(base.wrapping_add(n as u32));
        let mut options = s.options;
        if self.with_options {
            options.timestamps.get_or_insert(Timestamps {
                value: self.now.as_millis() as u32,
                echo: self.sink.stamp,
            });
            if s.flags.contains(SYN) {
                options.window_scale = Some(3);
                options.sack_permitted = true;
            }
        }
        Repr {
            src_port: s.src_port,
            dst_port: self.local.port(),
            seq: relative(PEER_ISS, s.seq),
            ack: s
                .ack
                .map(|ack| relative(self.iss.unwrap_or_default().0, ack)),
            flags: s.flags,
            window: s.window,
            options,
        }
    }

    /// A segment arrives, without the batch ending.
    pub fn arrive(&mut self, s: Seg) -> Result<(), DropReason> {
        let first = (s.seq - 1).max(0) as u64;
        let payload: Vec<u8> = (0..s.len as u64).map(|i| peer_byte(first + i)).collect();
        let segment = Segment {
            link: Link::default(),
            src: self.peer,
            dst: self.local.ip(),
            hop_limit: 64,
            ecn: s.ecn,
            tcp: self.raw(s),
            payload: &payload,
        };
        self.stack.on_segment(self.now, &segment, &mut self.store)
    }

    /// An ICMP error arrives, about a large segment that was sent from sequence number `seq` on.
    pub fn icmp(&mut self, reason: wire::icmp::Reason, seq: i64) -> Result<(), DropReason> {
        self.icmp_about(reason, seq, u16::MAX.into())
    }

    /// The same about a packet of so many bytes.
    pub fn icmp_about(
        &mut self,
        reason: wire::icmp::Reason,
        seq: i64,
        packet_len: u32,
    ) -> Result<(), DropReason> {
        let error = wire::icmp::TcpError {
            flow: wire::flow::FlowKey {
                local: self.local.ip(),
                remote: self.peer,
                local_port: self.local.port(),
                remote_port: self.offer.src_port,
            },
            seq: self.iss.unwrap_or_default() + seq as u32,
            packet_len,
            reason,
        };
        let result = self.stack.on_icmp(self.now, &error);
        self.turn();
        result
    }

    /// A segment arrives as a batch of its own.
    pub fn inject(&mut self, s: Seg) {
        let _ = self.arrive(s);
        self.turn();
    }

    /// A segment arrives and is dropped for this reason.
    pub fn inject_dropped(&mut self, s: Seg, reason: DropReason) {
        assert_eq!(self.arrive(s), Err(reason));
        self.turn();
    }

    /// The end of a batch: transmission, then events.
    pub fn turn(&mut self) {
        self.stack.poll_transmit(self.now, &mut self.sink, 1000);
        self.events();
        // It costs as much as there are connections.
        if self.stack.connection_count() < 100 {
            self.stack.audit().unwrap();
        }
    }

    pub fn events(&mut self) {
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Connection(id, update) if Some(id) == self.conn => self.update = update,
                Event::Connection(..) | Event::Acceptable(_) => {}
                Event::Released(id) => self.released.push(id),
            }
        }
    }

    /// Lets time pass, timer by timer.
    pub fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..1_000_000 {
            match self.stack.next_timeout() {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    self.stack.on_timeout(self.now, 1000);
                    self.turn();
                }
                _ => {
                    self.now = end;
                    self.turn();
                    return;
                }
            }
        }
        panic!("timers run in circles");
    }

    pub fn request(&mut self, request: Request) {
        self.stack
            .on_request(self.now, self.conn.unwrap(), request)
            .unwrap();
        self.turn();
    }

    /// The owner sends `len` bytes, contiguous with what it sent before.
    pub fn send(&mut self, len: u32) {
        self.send_more(len, false);
    }

    pub fn send_more(&mut self, len: u32, more: bool) {
        let extent = Extent {
            addr: self.next_addr,
            len,
        };
        self.next_addr += u64::from(len);
        self.request(Request::Send { extent, more });
    }

    /// The next segment that was sent.
    pub fn next(&mut self) -> Option<Sent> {
        let Emission {
            at,
            tcp: raw,
            src,
            dst,
            payload,
            len,
            gso_size,
            ecn,
        } = self.sink.sent.pop_front()?;
        if raw.flags.contains(SYN) {
            self.iss = Some(raw.seq);
        }
        let iss = self.iss.unwrap_or_default();
        Some(Sent {
            at,
            src,
            dst,
            seq: raw.seq.distance_from(iss).into(),
            ack: raw
                .ack
                .map(|ack| ack.distance_from(SeqNumber(PEER_ISS)).into()),
            flags: raw.flags,
            window: raw.window,
            options: raw.options,
            len,
            gso_size,
            payload,
            raw,
            ecn,
        })
    }

    /// Exactly this segment is next.
    #[track_caller]
    pub fn expect(&mut self, brief: &str) -> Sent {
        let Some(sent) = self.next() else {
            panic!("expected `{brief}`, but nothing was sent");
        };
        assert_eq!(sent.brief(), brief);
        sent
    }

    /// Nothing (more) was sent.
    #[track_caller]
    pub fn quiet(&mut self) {
        if let Some(sent) = self.next() {
            panic!("unexpected segment: {}", sent.brief());
        }
    }

    /// Everything that was sent.
    pub fn all_sent(&mut self) -> Vec<Sent> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Everything that was sent, briefly.
    pub fn all(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next())
            .map(|s| s.brief())
            .collect()
    }

    pub fn discard(&mut self) {
        while self.next().is_some() {}
    }

    pub fn info(&self) -> tcp::ConnInfo {
        self.stack.info(self.now, self.conn.unwrap()).unwrap()
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.stack.counters().dropped(reason)
    }
}

pub fn blocks(pairs: &[(i64, i64)], iss: SeqNumber) -> SackBlocks {
    let mut blocks = SackBlocks::EMPTY;
    for &(left, right) in pairs {
        blocks.push(SackBlock {
            left: iss + left as u32,
            right: iss + right as u32,
        });
    }
    blocks
}
