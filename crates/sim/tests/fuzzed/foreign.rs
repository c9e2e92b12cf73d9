//! A stack and a peer that keeps no convention: options come, go and change between SYN and ACK,
//! windows shrink, single bytes come at any stride, anything is acknowledged, and at any moment
//! there is silence. After that the applications close what they have and nobody aborts anything:
//! then all that the peer has caused must be gone within the time that the RFCs allow.
//!
//! Every step is held against the rules of [`Stack::audit`] and of [`Promises`], and what is acknowledged
//! has been kept.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use tcp::{
    Config, ConnId, ConnOption, ConnOptions, ConnUpdate, EcnPolicy, Event, Extent, FrameSink,
    Instant, ListenSpec, ListenerId, Outgoing, PayloadStore, Request, SinkFull, Stack,
};
use wire::flow::FlowKey;
use wire::icmp::{Reason, TcpError};
use wire::ip::Ecn;
use wire::segment::{Link, Segment};
use wire::seq::SeqNumber;
use wire::tcp::{FastOpenCookie, Flags, Options, Repr, SackBlock, Timestamps};

use super::promises::Promises;
use super::{ALGORITHMS, Bytes};

/// Steps of a script, at most.
const STEPS: usize = 600;
/// Flows of the peer's.
const FLOWS: usize = 5;
/// Where the stack listens.
const PORT: u16 = 80;
/// How long anything may outlast the peer's last word: an orphan sends nine times at most, two
/// minutes apart at most (RFC 6298 §2.5, R2 of RFC 9293 §3.8.3), and waits in FIN-WAIT-2 and in
/// TIME-WAIT for a minute each.
const LONGEST: Duration = Duration::from_secs(10 * 120 + 2 * 60);

/// A flow as the peer sees it.
#[derive(Clone, Default)]
struct Foreign {
    /// What the peer sends next.
    seq: SeqNumber,
    /// The oldest and the next number of the stack's, as far as they have been seen.
    una: SeqNumber,
    nxt: SeqNumber,
    /// The timestamp that the stack last sent.
    stamp: Option<u32>,
    /// The peer's own clock is off by this.
    clock: u32,
}

impl Foreign {
    /// Timestamps, if the stack sends any.
    fn stamped(&self, now: Instant) -> Options {
        Options {
            timestamps: self.stamp.map(|echo| Timestamps {
                value: (now.as_millis() as u32).wrapping_add(self.clock),
                echo,
            }),
            ..Options::NONE
        }
    }
}

/// What an application knows of its connection.
#[derive(Clone, Copy, Default)]
struct App {
    update: ConnUpdate,
    submitted: u64,
    consumed: u64,
    closed: bool,
}

/// Receive memory. It keeps no byte, only which of them have come, by their sequence numbers.
#[derive(Default)]
struct Memory {
    streams: HashMap<ConnId, Stream>,
    /// The segment that is being taken: its number, and where its payload lies.
    current: Option<(SeqNumber, usize)>,
    /// Bytes that may be placed before memory has run out.
    room: usize,
}

struct Stream {
    /// The sequence number of offset 0.
    base: SeqNumber,
    have: Vec<bool>,
    /// Everything before this has come.
    whole: usize,
}

impl PayloadStore for Memory {
    fn place(&mut self, conn: ConnId, offset: u64, bytes: &[u8]) -> usize {
        let (seq, payload) = self.current.expect("only segments bring payload");
        let base = seq + (bytes.as_ptr().addr() - payload) as u32 - offset as u32;
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        let stream = self.streams.entry(conn).or_insert_with(|| Stream {
            base,
            have: Vec::new(),
            whole: 0,
        });
        assert_eq!(stream.base, base, "payload at the wrong place of {conn:?}");
        let (from, to) = (offset as usize, offset as usize + taken);
        if stream.have.len() < to {
            stream.have.resize(to, false);
        }
        assert!(!stream.have[from..to].contains(&true), "placed twice");
        stream.have[from..to].fill(true);
        let more = stream.have[stream.whole..].iter().take_while(|&&have| have);
        stream.whole += more.count();
        taken
    }
}

/// What the stack has sent.
#[derive(Default)]
struct Wire {
    sent: Vec<(FlowKey, Repr, usize)>,
    promises: Promises,
    /// The Fast Open cookie that the stack gave last.
    cookie: Option<FastOpenCookie>,
    /// Emissions that there is room for.
    room: usize,
    burst: usize,
}

impl FrameSink for Wire {
    fn burst_limit(&mut self, _conn: ConnId, mss: u16) -> usize {
        self.burst * usize::from(mss)
    }

    fn emit(&mut self, _now: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        self.room = self.room.checked_sub(1).ok_or(SinkFull)?;
        let flow = FlowKey {
            local: out.dst,
            remote: out.src,
            local_port: out.tcp.dst_port,
            remote_port: out.tcp.src_port,
        };
        self.sent.push((flow, out.tcp, out.payload_len));
        self.cookie = out.tcp.options.fast_open.or(self.cookie);
        self.promises.on_sent(out.conn, out.tcp);
        Ok(())
    }
}

struct Scene {
    now: Instant,
    stack: Stack,
    listener: Option<ListenerId>,
    memory: Memory,
    wire: Wire,
    flows: Vec<(FlowKey, Foreign)>,
    apps: BTreeMap<ConnId, App>,
    options: ConnOptions,
}

pub fn run(script: &[u8]) {
    let mut script = Bytes(script);
    let mut scene = Scene::new(&mut script);
    for _ in 0..STEPS {
        let Some(step) = script.next() else { break };
        scene.step(step, &mut script);
        scene.settle();
    }
    scene.fall_silent(script.bit());
}

impl Scene {
    fn new(script: &mut Bytes<'_>) -> Scene {
        let (bits, more) = (script.byte(), script.byte());
        let config = Config {
            timestamps: bits & 1 == 0,
            selective_acks: bits & 2 == 0,
            window_scaling: bits & 4 == 0,
            syn_cookies: bits & 8 == 0,
            ecn: [EcnPolicy::On, EcnPolicy::Off][usize::from(bits >> 4 & 1)],
            tail_loss_probes: bits & 32 == 0,
            fast_open_server: bits & 128 != 0,
            max_half_open: 3,
            max_time_wait: 4,
            max_connections: 8,
            max_orphans: 6,
            max_control_segments: 16,
            max_out_of_order_ranges: 16,
            max_out_of_order_ranges_in_total: 24,
            max_receive_buffer: 1 << (14 + more % 11),
            ..Config::default()
        };
        let options = ConnOptions {
            receive_buffer: [65_535, 4_000, 20_000, 1 << 20][usize::from(more >> 6)],
            congestion: ALGORITHMS[usize::from(bits >> 6 & 1 | more >> 4 & 2)],
            fast_open: 2,
            ..ConnOptions::default()
        };
        let host = |n: u8| IpAddr::from([10, 0, 0, n]);
        let flow = |n: usize| FlowKey {
            local: host(2),
            remote: host(1),
            local_port: 40_000 + n as u16,
            remote_port: PORT,
        };
        let mut scene = Scene {
            now: Instant::from_secs(1_000),
            stack: Stack::new(config, [5; 32]),
            listener: None,
            memory: Memory::default(),
            wire: Wire::default(),
            flows: (0..FLOWS).map(|n| (flow(n), Foreign::default())).collect(),
            apps: BTreeMap::new(),
            options,
        };
        (scene.memory.room, scene.wire.room) = (usize::MAX, usize::MAX);
        scene.wire.burst = 1 + usize::from(more >> 4 & 3);
        scene.listen();
        scene
    }

    fn listen(&mut self) {
        let spec = ListenSpec {
            addr: None,
            port: PORT,
            backlog: 2,
            max_half_open: 2,
            v6_only: false,
            options: self.options,
        };
        self.listener = self.stack.listen(spec).ok();
    }

    fn step(&mut self, step: u8, script: &mut Bytes<'_>) {
        let number = usize::from(step >> 5) % FLOWS;
        match step & 0x1f {
            0 | 1 => self.shake_hands(number, script),
            2 => self.say(number, Flags::SYN, script, 0),
            3..=6 => self.agree(number, script),
            7..=9 => {
                let len = [1, 100, 1_000, 1_460, 3_000, 9_000][usize::from(script.byte()) % 6];
                self.say(number, Flags::ACK | Flags::PSH, script, len);
            }
            10 => self.stride(number, script),
            11 | 12 => self.say(number, Flags::ACK, script, 0),
            13 => self.say(number, Flags::ACK | Flags::FIN, script, 0),
            14 => {
                let flags = Flags::from_bits(script.byte());
                let len = usize::from(script.byte());
                self.say(number, flags, script, len);
            }
            15 => self.say(number, Flags::RST, script, 0),
            16 | 17 => self.now += Duration::from_millis(script.byte().into()),
            18 => self.now += Duration::from_secs(u64::from(script.byte()) * 2),
            19..=21 => self.next_timer(),
            22 => self.error(number, script),
            23 => self.limit(script),
            24 if script.bit() => self.connect(number),
            _ => self.application(script),
        }
    }

    fn next_timer(&mut self) {
        if let Some(next) = self.stack.next_timeout() {
            self.now = self.now.max(next);
            self.stack.on_timeout(self.now, 100);
        }
    }

    /// SYN and, perhaps, the acknowledgement that completes the handshake.
    fn shake_hands(&mut self, number: usize, script: &mut Bytes<'_>) {
        self.flows[number].1 = Foreign {
            seq: SeqNumber(u32::from(script.byte()) << 24),
            clock: u32::from(script.byte()) << 24,
            ..Foreign::default()
        };
        let len = self.data_of_syn(script);
        self.say(number, Flags::SYN, script, len);
        self.flows[number].1.seq += 1;
        if len > 0 && script.bit() {
            // It was taken, or the peer believes so.
            self.flows[number].1.seq += len as u32;
        }
        self.settle();
        if !script.byte().is_multiple_of(8) {
            self.say(number, Flags::ACK, script, 0);
        }
    }

    /// How much a SYN carries; nothing where the stack does not know Fast Open.
    fn data_of_syn(&mut self, script: &mut Bytes<'_>) -> usize {
        if !self.stack.config().fast_open_server {
            return 0;
        }
        [0, 1, 300, 2_000][usize::from(script.byte() % 4)]
    }

    /// The peer behaves, or looks as if it did: it acknowledges what it was sent, all or half of it,
    /// or reports the end of it and goes on missing the beginning.
    fn agree(&mut self, number: usize, script: &mut Bytes<'_>) {
        let how = script.byte();
        let (flow, foreign) = &mut self.flows[number];
        let flight = foreign.nxt.distance_from(foreign.una).max(0) as u32;
        let (una, nxt) = (foreign.una, foreign.nxt);
        let mut options = foreign.stamped(self.now);
        let mut repeat = 1;
        match how >> 5 {
            0 if flight > 1 => foreign.una += flight / 2,
            1 => repeat = 3,
            2 | 3 if flight > 1 => {
                let (left, right) = (una + flight / 2, nxt);
                options.sack.push(SackBlock { left, right });
            }
            _ => foreign.una = nxt,
        }
        let tcp = Repr {
            src_port: flow.local_port,
            dst_port: flow.remote_port,
            seq: foreign.seq,
            ack: Some(foreign.una),
            flags: Flags::ACK,
            window: [60_000, 60_000, 60_000, 0, 10, 1_000][usize::from(how & 31) % 6],
            options,
        };
        let flow = *flow;
        for _ in 0..repeat {
            self.deliver(flow, tcp, 0);
        }
    }

    /// The peer says anything, from about where it stands.
    fn say(&mut self, number: usize, flags: Flags, script: &mut Bytes<'_>, len: usize) {
        // As often as not nothing is odd about it, or no connection would come far.
        let odd = script.byte();
        let odd = if odd < 150 { 0 } else { odd };
        let (flow, foreign) = self.flows[number].clone();
        let moved = |seq: SeqNumber, by: u16| seq + i32::from(by as i16) as u32;
        let mut seq = foreign.seq;
        if odd & 1 != 0 {
            seq = moved(seq, script.word());
        }
        let ack = match odd >> 1 & 7 {
            0..=3 => foreign.nxt,
            4 => foreign.una,
            5 => foreign.una + foreign.nxt.distance_from(foreign.una) as u32 / 2,
            6 => moved(foreign.nxt, script.word()),
            _ => SeqNumber(u32::from(script.word()) << 16),
        };
        let mut options = Options::NONE;
        if flags.contains(Flags::SYN) {
            let bits = script.byte();
            options.mss = (bits & 1 == 0).then(|| [1_460, 0, 20, 536][usize::from(bits >> 6)]);
            options.window_scale = (bits & 2 == 0).then_some(bits >> 4);
            options.sack_permitted = bits & 4 == 0;
            if self.stack.config().fast_open_server && bits & 8 == 0 {
                options.fast_open = self.wire.cookie.or(Some(FastOpenCookie::REQUEST));
            }
        }
        let stamped = flags.contains(Flags::SYN) || foreign.stamp.is_some();
        if stamped != (odd & 0x30 == 0x30) {
            let value = (self.now.as_millis() as u32).wrapping_add(foreign.clock);
            let value = match odd >> 6 {
                0 | 1 => value,
                2 => value.wrapping_sub(script.word().into()),
                _ => value.wrapping_add(u32::from(script.word()) << 12),
            };
            let echo = foreign.stamp.unwrap_or(0);
            options.timestamps = Some(Timestamps { value, echo });
        }
        let more = script.byte();
        let more = if more < 128 { more & 0x70 } else { more };
        for _ in 0..more & 3 {
            let left = moved(foreign.una, script.word());
            let right = left + u32::from(script.byte()) * 100;
            options.sack.push(SackBlock { left, right });
        }
        let windows = [60_000, 65_535, 1_000, 100, 10, 1, 0, 500];
        let tcp = Repr {
            src_port: flow.local_port,
            dst_port: flow.remote_port,
            seq,
            ack: flags.contains(Flags::ACK).then_some(ack),
            flags: flags.with(Flags::ECE, more & 4 != 0 && more & 8 != 0),
            window: windows[usize::from(more >> 4 & 7)],
            options,
        };
        self.deliver(flow, tcp, len);
        if seq == foreign.seq && more & 0x88 != 0x88 && !flags.contains(Flags::SYN) {
            // It goes on from there.
            let fin = u32::from(flags.contains(Flags::FIN));
            self.flows[number].1.seq += len as u32 + fin;
        }
    }

    /// Small pieces, with holes between them.
    fn stride(&mut self, number: usize, script: &mut Bytes<'_>) {
        let stride = 1 + u32::from(script.word() % 5_000);
        let (flow, foreign) = self.flows[number].clone();
        for step in 0..u32::from(script.byte() % 40) {
            let tcp = Repr {
                src_port: flow.local_port,
                dst_port: flow.remote_port,
                seq: foreign.seq + 1 + step * stride,
                ack: Some(foreign.nxt),
                flags: Flags::ACK,
                window: 1_000,
                options: foreign.stamped(self.now),
            };
            self.deliver(flow, tcp, 1);
        }
    }

    fn deliver(&mut self, flow: FlowKey, tcp: Repr, len: usize) {
        let payload = vec![7; len];
        // What a SYN carries comes after it.
        let first = tcp.seq + u32::from(tcp.flags.contains(Flags::SYN));
        self.memory.current = Some((first, payload.as_ptr().addr()));
        let segment = Segment {
            link: Link::default(),
            src: flow.local,
            dst: flow.remote,
            hop_limit: 64,
            ecn: if len % 3 == 1 {
                Ecn::CongestionExperienced
            } else {
                Ecn::NotCapable
            },
            tcp,
            payload: &payload,
        };
        let _ = self.stack.on_segment(self.now, &segment, &mut self.memory);
        assert_eq!(self.stack.audit(), Ok(()));
    }

    /// A router has something to say.
    fn error(&mut self, number: usize, script: &mut Bytes<'_>) {
        let (flow, foreign) = &self.flows[number];
        let reasons = [
            Reason::TooBig {
                mtu: script.word().into(),
            },
            Reason::PortUnreachable,
            Reason::HostUnreachable,
            Reason::TimeExceeded,
        ];
        let error = TcpError {
            flow: flow.reversed(),
            seq: foreign.una,
            packet_len: u32::from(script.word()),
            reason: reasons[usize::from(script.byte()) % 4],
        };
        let _ = self.stack.on_icmp(self.now, &error);
    }

    /// Memory, device, listener and cookies have their own troubles.
    fn limit(&mut self, script: &mut Bytes<'_>) {
        let what = script.byte();
        match what % 6 {
            0 => self.memory.room = usize::from(script.word()),
            1 => self.memory.room = usize::MAX,
            2 => self.wire.room = usize::from(script.byte() % 4),
            3 => match self.listener.take() {
                Some(listener) => self.stack.unlisten(self.now, listener),
                None => self.listen(),
            },
            4 => self.stack.withhold_cookies((what & 8 != 0).then_some(2)),
            _ => self.wire.room = usize::MAX,
        }
    }

    /// The stack opens a connection to the peer.
    fn connect(&mut self, number: usize) {
        let flow = self.flows[number].0.reversed();
        let local = (flow.local, flow.local_port).into();
        let remote = (flow.remote, flow.remote_port).into();
        let options = self.options;
        if let Ok(conn) = self.stack.connect(self.now, local, remote, &options) {
            self.apps.insert(conn, App::default());
        }
    }

    /// An application does something, but never aborts.
    fn application(&mut self, script: &mut Bytes<'_>) {
        let (which, what) = (script.byte(), script.byte());
        let index = usize::from(which) % self.apps.len().max(1);
        let Some((&conn, app)) = self.apps.iter_mut().nth(index) else {
            return;
        };
        let wanted = match what & 15 {
            0..=3 => {
                let addr = app.submitted;
                let len = 1 + u32::from(script.word());
                Request::Send {
                    extent: Extent { addr, len },
                    more: what & 16 != 0,
                }
            }
            4 | 5 => Request::Consumed(app.update.received),
            6 if what & 16 != 0 => Request::ShutdownRead,
            6 => Request::ShutdownWrite,
            7 => Request::Close,
            8 => {
                let bytes = u32::from(script.word()) * 4;
                return self.stack.set_receive_buffer(self.now, conn, bytes);
            }
            9 => return self.shed(conn),
            10 => Request::SetOption(ConnOption::Cork(what & 16 != 0)),
            11 => Request::SetOption(ConnOption::NoDelay(what & 16 != 0)),
            12 => Request::SetOption(ConnOption::KeepAlive(what & 16 != 0)),
            13 => Request::SetOption(ConnOption::UserTimeout(Duration::from_secs(
                script.byte().into(),
            ))),
            14 => Request::SetOption(ConnOption::QuickAck(what & 16 != 0)),
            _ => Request::SetOption(ConnOption::MaxSegment(40 + script.word() % 2_000)),
        };
        self.request(conn, wanted);
    }

    /// Memory is scarce: what is out of order has to go.
    fn shed(&mut self, conn: ConnId) {
        self.stack.shed_out_of_order(conn);
        if let Some(stream) = self.memory.streams.get_mut(&conn) {
            stream.have.truncate(stream.whole);
        }
    }

    fn request(&mut self, conn: ConnId, request: Request) {
        let Some(app) = self.apps.get_mut(&conn).filter(|app| !app.closed) else {
            return;
        };
        if self.stack.on_request(self.now, conn, request).is_ok() {
            match request {
                Request::Send { extent, .. } => app.submitted += u64::from(extent.len),
                Request::Consumed(total) => app.consumed = total,
                Request::Close => app.closed = true,
                _ => {}
            }
        }
    }

    /// Transmits, takes events, accepts; until there is nothing more.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut active = self.stack.poll_transmit(self.now, &mut self.wire, 7) > 0;
            self.read_wire();
            assert_eq!(self.stack.audit(), Ok(()));
            while let Some(event) = self.stack.poll_event() {
                active = true;
                self.on_event(event);
            }
            if !active {
                return;
            }
        }
        panic!("the stack never comes to rest");
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Acceptable(listener) => {
                while let Some(conn) = self.stack.accept(listener) {
                    self.apps.insert(conn, App::default());
                }
            }
            Event::Connection(conn, update) => {
                if let Some(app) = self.apps.get_mut(&conn) {
                    assert!(
                        update.acked <= app.submitted,
                        "acknowledged what was not sent"
                    );
                    assert!(update.received >= app.update.received, "taken back");
                    app.update = update;
                }
            }
            Event::Released(conn) => {
                let app = self.apps.remove(&conn);
                assert!(
                    app.is_none_or(|app| app.closed),
                    "released before it was closed"
                );
                self.memory.streams.remove(&conn);
                self.wire.promises.forget(conn);
            }
        }
    }

    /// Takes note of what the stack has sent, and holds it against what it had said before.
    fn read_wire(&mut self) {
        for (flow, tcp, len) in self.wire.sent.drain(..) {
            let Some((_, foreign)) = self.flows.iter_mut().find(|(key, _)| *key == flow) else {
                continue;
            };
            let end = tcp.seq + len as u32 + u32::from(tcp.flags.contains(Flags::FIN));
            if tcp.flags.contains(Flags::SYN) {
                foreign.una = tcp.seq + 1;
                foreign.nxt = tcp.seq + 1;
            } else if end.after(foreign.nxt) {
                foreign.nxt = end;
            }
            foreign.stamp = tcp.options.timestamps.map(|stamp| stamp.value);
        }
        let (streams, apps) = (&self.memory.streams, &self.apps);
        self.wire.promises.hold(&self.stack, self.now, |conn, ack| {
            let Some(stream) = streams.get(&conn) else {
                return;
            };
            // A FIN has a number of its own.
            let kept = stream.base + stream.whole as u32;
            assert!(
                ack.at_or_before(kept + 1),
                "{conn:?} acknowledges what is lost"
            );
            let update = apps.get(&conn).map(|app| app.update);
            if let Some(update) = update.filter(|update| !update.peer_closed) {
                assert!(update.received <= stream.whole as u64);
            }
        });
    }

    /// Nothing comes any more, and the applications close; `reads` says that they read before.
    fn fall_silent(&mut self, reads: bool) {
        (self.memory.room, self.wire.room) = (usize::MAX, usize::MAX);
        self.settle();
        for (conn, app) in self.apps.clone() {
            // A long patience of the application's own is not what is asked for here.
            let patience = ConnOption::UserTimeout(Duration::ZERO);
            self.request(conn, Request::SetOption(patience));
            if reads && app.update.failed.is_none() {
                self.request(conn, Request::Consumed(app.update.received));
            }
            self.request(conn, Request::Close);
        }
        self.settle();
        let end = self.now + LONGEST;
        while let Some(next) = self.stack.next_timeout().filter(|&next| next <= end) {
            self.now = self.now.max(next);
            self.stack.on_timeout(self.now, 100);
            self.settle();
        }
        let stack = &self.stack;
        let left = (
            stack.connection_count(),
            stack.half_open_count(),
            stack.time_wait_count(),
            stack.flow_count(),
        );
        assert_eq!(left, (0, 0, 0, 0), "something outlasts the peer's silence");
        assert!(self.apps.is_empty(), "a connection was never released");
        assert_eq!(self.stack.next_timeout(), None, "a timer runs for nothing");
        assert!(!self.stack.wants_transmit());
    }
}
