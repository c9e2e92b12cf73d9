//! Every state of RFC 9293 against everything that can happen to it: the whole table, made by
//! bringing a stack into each state and letting each thing happen. Each line is an event, why it was
//! refused if it was, the state that follows, what was sent, and what the owner was told.
//!
//! Numbers are relative to the initial ones, as everywhere in these tests. In each state the peer's
//! next number is called `next`, and what it has not acknowledged yet begins at `una`. The owner
//! has 100 bytes in flight wherever it can.
//!
//! What differs from RFC 9293 §3.10 on purpose:
//!
//! - RFC 5961: a SYN in a synchronized state, an RST that is in the window but not exact, and an ACK
//!   of what is too old or was never sent are challenged.
//! - RFC 1337: TIME-WAIT ignores RST. A new SYN takes it over (RFC 9293 MAY-2, RFC 6191).
//! - Neither a SYN nor an RST that is not exact gives up a connection that is half open.
//! - Close before the handshake is complete waits for it; ABORT says RST even in CLOSING and
//!   LAST-ACK, where the peer may still wait for data.
//! - A half-open connection that was opened passively is known to nobody: no request can reach it; but
//!   one that Fast Open has opened is a connection at once, with data both ways (RFC 7413 §4.2.2).
//! - CLOSE of the RFC is called ShutdownWrite here; Close also says that nobody will read any more.
//!   ShutdownRead alone changes no state; after both, what brings data is reset, as after Close.

mod common;

use std::cell::Cell;
use std::fmt::Write;

use common::{fast_open, *};
use tcp::{Config, ConnId, ConnOptions, Event, Failure, Request, State};
use wire::icmp::Reason;
use wire::tcp::Flags;

/// A stack in some state, and the numbers that matter there.
struct Scene {
    bench: Bench,
    /// The next number of the peer.
    next: i64,
    /// The first number of ours that is not acknowledged.
    una: i64,
    /// Our next number.
    end: i64,
}

fn scene(bench: Bench, next: i64, una: i64, end: i64) -> Scene {
    Scene {
        bench,
        next,
        una,
        end,
    }
}

thread_local! {
    /// Both sides have every option; else none.
    static WITH_OPTIONS: Cell<bool> = const { Cell::new(false) };
}

fn config() -> Config {
    if WITH_OPTIONS.get() {
        Config::default()
    } else {
        plain()
    }
}

fn bench(config: Config) -> Bench {
    let mut b = Bench::new(config);
    b.with_options = WITH_OPTIONS.get();
    b
}

/// A stack of which nothing has happened yet.
fn new() -> Bench {
    bench(config())
}

fn listening() -> Bench {
    let mut b = new();
    b.listen(ConnOptions::default(), 16);
    b
}

fn established() -> Bench {
    let mut b = listening();
    b.handshake();
    b.send(100);
    b.discard();
    b
}

/// A server's Fast Open (RFC 7413): its SYN had 500 bytes, it is accepted and has answered, and the ACK that
/// completes its handshake is still to come.
fn fast_open_pending() -> Bench {
    let mut b = bench(Config {
        fast_open_server: true,
        ..config()
    });
    b.listen(fast_open::options(4), 16);
    let cookie = fast_open::ask(&mut b);
    b.inject(fast_open::syn(&b, cookie));
    b.expect("S. 0:0 ack 501");
    fast_open::accept(&mut b);
    b.send(100);
    b.expect("P. 1:101 ack 501");
    b
}

fn fin_wait_1() -> Bench {
    let mut b = established();
    b.request(Request::ShutdownWrite);
    b.expect("F. 101:101 ack 1");
    b
}

fn fin_wait_2() -> Bench {
    let mut b = fin_wait_1();
    b.inject(seg(1, 0).ack(102));
    b.quiet();
    b
}

fn close_wait() -> Bench {
    let mut b = established();
    b.inject(seg(1, 0).ack(1).flags(FIN));
    b.expect(". 101:101 ack 2");
    b
}

/// Brings a stack into a state.
type Way = fn() -> Scene;

/// The states, each with a way to it.
const STATES: &[(&str, Way)] = &[
    ("CLOSED", || scene(new(), 0, 0, 0)),
    ("LISTEN", || scene(listening(), 0, 0, 0)),
    ("SYN-SENT", || {
        let mut b = new();
        b.connect(ConnOptions::default());
        b.turn();
        b.expect("S 0:0");
        scene(b, 0, 0, 1)
    }),
    ("SYN-RECEIVED (passive)", || {
        let mut b = listening();
        b.inject(b.offer);
        b.expect("S. 0:0 ack 1");
        scene(b, 1, 0, 1)
    }),
    ("SYN-RECEIVED (active)", || {
        let mut b = new();
        b.connect(ConnOptions::default());
        b.turn();
        b.expect("S 0:0");
        b.inject(seg(0, 0).flags(SYN).mss(1000));
        b.expect("S. 0:0 ack 1");
        scene(b, 1, 0, 1)
    }),
    ("SYN-RECEIVED (passive, by Fast Open)", || {
        scene(fast_open_pending(), 501, 0, 101)
    }),
    // The same, but the peer has the SYN-ACK: whatever it sends acknowledges that.
    (
        "SYN-RECEIVED (passive, by Fast Open, SYN-ACK arrived)",
        || scene(fast_open_pending(), 501, 1, 101),
    ),
    ("ESTABLISHED", || scene(established(), 1, 1, 101)),
    ("FIN-WAIT-1", || scene(fin_wait_1(), 1, 1, 102)),
    ("FIN-WAIT-2", || scene(fin_wait_2(), 1, 102, 102)),
    ("FIN-WAIT-1 (shut down both ways)", || {
        let mut b = fin_wait_1();
        b.request(Request::ShutdownRead);
        scene(b, 1, 1, 102)
    }),
    ("FIN-WAIT-2 (shut down both ways)", || {
        let mut b = fin_wait_2();
        b.request(Request::ShutdownRead);
        scene(b, 1, 102, 102)
    }),
    ("FIN-WAIT-2 (closed by its owner)", || {
        let mut b = fin_wait_2();
        b.request(Request::Close);
        b.quiet();
        scene(b, 1, 102, 102)
    }),
    ("CLOSE-WAIT", || scene(close_wait(), 2, 1, 101)),
    ("CLOSING", || {
        let mut b = fin_wait_1();
        b.inject(seg(1, 0).ack(1).flags(FIN));
        b.expect(". 102:102 ack 2");
        scene(b, 2, 1, 102)
    }),
    ("LAST-ACK", || {
        let mut b = close_wait();
        b.request(Request::ShutdownWrite);
        b.expect("F. 101:101 ack 2");
        scene(b, 2, 1, 102)
    }),
    ("TIME-WAIT", || {
        let mut b = fin_wait_2();
        b.request(Request::Close);
        b.inject(seg(1, 0).ack(102).flags(FIN));
        b.expect(". 102:102 ack 2");
        scene(b, 2, 102, 102)
    }),
];

/// Lets something happen; says why it was refused, if it was.
type Happening = fn(&mut Scene) -> Option<String>;

fn arrive(scene: &mut Scene, segment: Seg) -> Option<String> {
    let refused = scene.bench.arrive(segment).err();
    refused.map(|reason| reason.name().to_string())
}

fn request(scene: &mut Scene, request: Request) -> Option<String> {
    let b = &mut scene.bench;
    // Of a connection that nobody has been told of there is no name.
    let Some(conn) = b.conn else {
        return Some("no name".into());
    };
    let refused = b.stack.on_request(b.now, conn, request).err();
    refused.map(|error| format!("{error:?}"))
}

/// A router, or the peer's host, says what became of our segment that began at `seq`.
fn icmp(scene: &mut Scene, reason: Reason, seq: i64) -> Option<String> {
    let refused = scene.bench.icmp(reason, seq).err();
    refused.map(|reason| reason.name().to_string())
}

/// What can happen.
const EVENTS: &[(&str, Happening)] = &[
    ("SYN, a new one", |s| {
        arrive(s, seg(s.next + 200_000, 0).flags(SYN).mss(1000))
    }),
    ("SYN, the old one", |s| {
        arrive(s, seg(0, 0).flags(SYN).mss(1000))
    }),
    ("SYN in the window", |s| {
        arrive(s, seg(s.next + 10, 0).flags(SYN).mss(1000))
    }),
    ("SYN-ACK of our SYN", |s| {
        arrive(s, seg(0, 0).flags(SYN).ack(1).mss(1000))
    }),
    ("SYN-ACK of something else", |s| {
        arrive(s, seg(0, 0).flags(SYN).ack(77).mss(1000))
    }),
    ("ACK of everything", |s| {
        arrive(s, seg(s.next, 0).ack(s.end))
    }),
    ("ACK of nothing new", |s| {
        arrive(s, seg(s.next, 0).ack(s.una))
    }),
    ("ACK of what was never sent", |s| {
        arrive(s, seg(s.next, 0).ack(s.end + 1))
    }),
    ("ACK that is too old", |s| {
        arrive(s, seg(s.next, 0).ack(s.una - 100_000))
    }),
    ("data, next", |s| arrive(s, seg(s.next, 10).ack(s.una))),
    ("data after a hole", |s| {
        arrive(s, seg(s.next + 100, 10).ack(s.una))
    }),
    ("data, old", |s| arrive(s, seg(s.next - 10, 10).ack(s.una))),
    ("data beyond the window", |s| {
        arrive(s, seg(s.next + 70_000, 10).ack(s.una))
    }),
    ("data with ACK of everything", |s| {
        arrive(s, seg(s.next, 10).ack(s.end))
    }),
    ("data with URG", |s| {
        arrive(s, seg(s.next, 10).ack(s.una).flags(Flags::URG))
    }),
    ("data without ACK", |s| arrive(s, seg(s.next, 10))),
    ("FIN", |s| arrive(s, seg(s.next, 0).ack(s.una).flags(FIN))),
    ("FIN with ACK of everything", |s| {
        arrive(s, seg(s.next, 0).ack(s.end).flags(FIN))
    }),
    ("FIN again", |s| {
        arrive(s, seg(s.next - 1, 0).ack(s.end).flags(FIN))
    }),
    ("FIN after a hole", |s| {
        arrive(s, seg(s.next + 100, 0).ack(s.una).flags(FIN))
    }),
    ("RST, exact", |s| arrive(s, seg(s.next, 0).flags(RST))),
    ("RST with ACK of everything", |s| {
        arrive(s, seg(s.next, 0).ack(s.end).flags(RST))
    }),
    ("RST in the window", |s| {
        arrive(s, seg(s.next + 1, 0).flags(RST))
    }),
    ("RST outside", |s| arrive(s, seg(s.next - 1, 0).flags(RST))),
    ("ICMP: host unreachable", |s| {
        icmp(s, Reason::HostUnreachable, s.una)
    }),
    ("ICMP: port unreachable", |s| {
        icmp(s, Reason::PortUnreachable, s.una)
    }),
    ("ICMP: too big", |s| {
        icmp(s, Reason::TooBig { mtu: 576 }, s.una)
    }),
    ("ICMP: source quench", |s| {
        icmp(s, Reason::SourceQuench, s.una)
    }),
    ("ICMP of what is acknowledged", |s| {
        icmp(s, Reason::PortUnreachable, s.una - 1)
    }),
    ("ICMP of what was never sent", |s| {
        icmp(s, Reason::TooBig { mtu: 576 }, s.end)
    }),
    ("no route to the peer", |s| {
        let b = &mut s.bench;
        let Some(conn) = b.conn else {
            return Some("no name".into());
        };
        b.stack
            .on_unreachable(b.now, conn, Failure::HostUnreachable);
        None
    }),
    ("OPEN, active", |s| {
        let b = &mut s.bench;
        let remote = (b.peer, 40_000).into();
        match b
            .stack
            .connect(b.now, b.local, remote, &ConnOptions::default())
        {
            Ok(conn) => b.conn = Some(conn),
            Err(error) => return Some(format!("{error:?}")),
        }
        None
    }),
    ("SEND", |s| {
        let extent = tcp::Extent { addr: 500, len: 50 };
        request(
            s,
            Request::Send {
                extent,
                more: false,
            },
        )
    }),
    ("RECEIVE", |s| request(s, Request::Consumed(0))),
    ("ShutdownWrite", |s| request(s, Request::ShutdownWrite)),
    ("ShutdownRead", |s| request(s, Request::ShutdownRead)),
    ("Close", |s| request(s, Request::Close)),
    ("ABORT", |s| request(s, Request::Abort)),
    ("the next timer", |s| {
        let b = &mut s.bench;
        if b.stack.next_timeout().is_none() {
            return Some("no timer".into());
        }
        // The first calls may be early.
        while b.sink.sent.is_empty() {
            let at = b.stack.next_timeout()?;
            b.now = at;
            b.stack.on_timeout(at, 1000);
            b.stack.poll_transmit(at, &mut b.sink, 1000);
        }
        None
    }),
    ("a day of silence", |s| {
        let b = &mut s.bench;
        b.stack.next_timeout()?;
        b.advance(secs(86_400));
        None
    }),
];

/// The state that a stack is in, by whatever it knows of the flow.
fn state(b: &Bench) -> String {
    let named = b.conn.and_then(|conn| b.stack.info(b.now, conn));
    let nameless = || {
        let conn: Option<ConnId> = b.stack.connections().next();
        conn.and_then(|conn| b.stack.info(b.now, conn))
    };
    match named.or_else(nameless) {
        Some(info) if info.state != State::Closed => info.state.name().to_string(),
        _ if b.stack.half_open_count() > 0 => "SYN-RECEIVED".into(),
        _ if b.stack.time_wait_count() > 0 => "TIME-WAIT".into(),
        None if b.listener.is_some() => "LISTEN".into(),
        _ => "CLOSED".into(),
    }
}

/// What has been sent, the same segment several times in a row only once.
fn sent(b: &mut Bench) -> String {
    let mut all = b.all();
    let count = all.len();
    all.dedup();
    let mut text = all.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    if count > 3 {
        write!(text, ", {} more", count - 3.min(all.len())).unwrap();
    }
    text
}

/// What the owner has been told since `before`.
fn told(b: &mut Bench, before: tcp::ConnUpdate, accepted: bool) -> Vec<String> {
    let mut told = Vec::new();
    let now = b.update;
    if now.connected && !before.connected {
        told.push("connected".to_string());
    }
    if now.received > before.received {
        told.push(format!("received {}", now.received));
    }
    if now.acked > before.acked {
        told.push(format!("acked {}", now.acked));
    }
    if now.peer_closed && !before.peer_closed {
        told.push("peer closed".into());
    }
    if let Some(failure) = now.failed.filter(|_| before.failed.is_none()) {
        told.push(format!("failed: {failure:?}"));
    }
    if accepted {
        told.push("acceptable".into());
    }
    if !b.released.is_empty() {
        told.push("released".into());
    }
    told
}

fn cell(enter: Way, happen: Happening) -> String {
    let mut s = enter();
    let before = s.bench.update;
    s.bench.released.clear();
    let refused = happen(&mut s);
    let b = &mut s.bench;
    b.stack.poll_transmit(b.now, &mut b.sink, 1000);
    let mut acceptable = false;
    while let Some(event) = b.stack.poll_event() {
        match event {
            Event::Connection(id, update) if Some(id) == b.conn => b.update = update,
            Event::Connection(..) => {}
            Event::Acceptable(_) => acceptable = true,
            Event::Released(id) => b.released.push(id),
        }
    }
    let mut line = state(b);
    if let Some(refused) = refused {
        write!(line, " ({refused})").unwrap();
    }
    let sent = sent(b);
    if !sent.is_empty() {
        write!(line, "; sends {sent}").unwrap();
    }
    let soft = b.conn.and_then(|conn| b.stack.info(b.now, conn));
    if let Some(failure) = soft.and_then(|info| info.soft_error) {
        write!(line, "; remembers {failure:?}").unwrap();
    }
    let told = told(b, before, acceptable);
    if !told.is_empty() {
        write!(line, "; tells {}", told.join(", ")).unwrap();
    }
    line
}

/// What can happen besides where every segment should have a timestamp.
const WITH_TIMESTAMPS: &[(&str, Happening)] = &[
    ("ACK without timestamp", |s| {
        plainly(s, seg(s.next, 0).ack(s.end))
    }),
    ("data without timestamp", |s| {
        plainly(s, seg(s.next, 10).ack(s.una))
    }),
    ("FIN without timestamp", |s| {
        plainly(s, seg(s.next, 0).ack(s.end).flags(FIN))
    }),
    ("SYN without timestamp", |s| {
        plainly(s, seg(s.next + 200_000, 0).flags(SYN).mss(1000))
    }),
    ("RST without timestamp", |s| {
        plainly(s, seg(s.next, 0).flags(RST))
    }),
    ("ACK with an old timestamp", |s| {
        let old = s.bench.now.as_millis() as u32 - 1000;
        let echo = s.bench.sink.stamp;
        arrive(s, seg(s.next, 0).ack(s.end).ts(old, echo))
    }),
    ("RST with an old timestamp", |s| {
        let old = s.bench.now.as_millis() as u32 - 1000;
        arrive(s, seg(s.next, 0).flags(RST).ts(old, 0))
    }),
    ("SYN with an old timestamp", |s| {
        let old = s.bench.now.as_millis() as u32 - 1000;
        let syn = seg(s.next + 200_000, 0).flags(SYN).mss(1000);
        arrive(s, syn.ts(old, 0))
    }),
];

/// A segment arrives that has no option but what is said of it.
fn plainly(scene: &mut Scene, segment: Seg) -> Option<String> {
    scene.bench.with_options = false;
    arrive(scene, segment)
}

//~ RFC 9293 §3.10.1, §3.10.2, §3.10.3, §3.10.4, §3.10.5, §3.10.7.1, §3.10.7.2, §3.10.7.3
//~ RFC 9293 §3.10.7.4, §3.10.8
#[test]
fn every_state_and_everything_that_happens_to_it() {
    insta::assert_snapshot!(table(EVENTS));
}

/// The same with window scaling, selective acknowledgement and timestamps.
//~ RFC 7323 §3.2, §5.3
#[test]
fn every_state_with_every_option() {
    WITH_OPTIONS.set(true);
    let all = [EVENTS, WITH_TIMESTAMPS].concat();
    insta::assert_snapshot!(table(&all));
}

fn table(events: &[(&str, Happening)]) -> String {
    let mut table = String::new();
    for (name, enter) in STATES {
        writeln!(table, "{name}").unwrap();
        let entered = state(&enter().bench);
        assert!(
            name.starts_with(&entered),
            "{name}: the way leads to {entered}"
        );
        for (event, happen) in events {
            let cell = cell(*enter, *happen);
            writeln!(table, "  {event:28} {cell}").unwrap();
        }
        table.push('\n');
    }
    table
}
