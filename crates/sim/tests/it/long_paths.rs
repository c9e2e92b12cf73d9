//! Long fast paths: buffers that tune themselves to them, and those that do not.

use core::time::Duration;

use sim::{Chance, LinkConfig, Pair, PairConfig, Plan, Reading, SocketId};
use tcp::Algorithm;

use crate::{ms, run_until_empty};

/// As many bytes as are never sent.
const ENDLESS: u64 = 1 << 40;

/// A path of 100 ms with so many megabits a second, and buffers that grow to 32 MiB.
fn long(megabits: u64) -> PairConfig {
    let mut config = PairConfig {
        link: LinkConfig {
            delay: ms(50),
            bandwidth: Some(megabits * 1_000_000),
            queue: (megabits * 6_250) as usize,
            ..LinkConfig::default()
        },
        burst: 40,
        ..PairConfig::default()
    };
    for stack in [&mut config.client, &mut config.server] {
        stack.max_receive_buffer = 32 << 20;
        stack.max_send_buffer = 32 << 20;
    }
    config.options.receive_buffer = 128 << 10;
    config.options.tune_receive_buffer = true;
    config
}

/// Sends as much as the stack says, without end.
fn bulk() -> Plan {
    Plan {
        send_buffer: 0,
        chunk: 64 << 10,
        ..Plan::transfer(ENDLESS)
    }
}

/// Megabits a second of payload over the next so many seconds.
fn rate(pair: &mut Pair, server: SocketId, seconds: u64) -> f64 {
    let before = pair.socket(server).consumed;
    pair.run_for(Duration::from_secs(seconds));
    let bytes = pair.socket(server).consumed - before;
    bytes as f64 * 8.0 / 1e6 / seconds as f64
}

fn receive_window(pair: &Pair, server: SocketId) -> u32 {
    let conn = pair.socket(server).conn;
    let info = pair.host(pair.server).stack.info(pair.now(), conn);
    info.expect("it lives").receive_window
}

#[test]
fn a_single_connection_fills_a_long_fast_path() {
    fills_a_long_fast_path(Algorithm::Cubic, 950.0);
}

#[test]
fn a_single_connection_fills_a_long_fast_path_by_bbr() {
    // It probes in that time, which loses some: 0.95 of what headers leave.
    fills_a_long_fast_path(Algorithm::Bbr, 909.0);
}

/// Megabits a second, of 957 that headers leave. The queue holds half of what is on its way.
fn fills_a_long_fast_path(algorithm: Algorithm, least: f64) {
    let mut config = long(1_000);
    config.options.congestion = algorithm;
    let mut pair = Pair::with(1, config);
    let (client, server) = pair.establish(bulk(), Plan::LISTEN);
    // Slow start is over, and the buffers are as large as the path wants them.
    pair.run_for(Duration::from_secs(3));
    let got = rate(&mut pair, server, 3);
    assert!(got >= least, "{got} Mbit/s");
    let window = receive_window(&pair, server);
    assert!((12_500_000..=32 << 20).contains(&window), "{window}");
    let credit = pair.socket(client).update.send_buffer;
    assert!((12_500_000..=32 << 20).contains(&credit), "{credit}");
}

/// What is in flight on a short fast path is as much as its queue holds: a window that leaves in one piece would
/// lose its end in each probe.
#[test]
fn a_short_fast_path_is_filled_and_loses_little() {
    for (micros, queue) in [
        (500, 62_500),
        (1_000, 125_000),
        (1_000, 62_500),
        (1_900, 125_000),
    ] {
        for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
            let mut config = long(1_000);
            config.link.delay = Duration::from_micros(micros / 2);
            config.link.queue = queue;
            config.options.congestion = algorithm;
            let mut pair = Pair::with(1, config);
            let (_, server) = pair.establish(bulk(), Plan::LISTEN);
            let got = rate(&mut pair, server, 4);
            let counters = pair.host(pair.client).stack.counters();
            let lost = counters.retransmitted_segments as f64 / counters.segments_out as f64;
            let place = format!("{micros} µs, {queue} bytes, {algorithm:?}");
            assert!(got > 940.0, "{place}: {got} Mbit/s");
            assert!(lost < 0.006, "{place}: {lost} sent again");
        }
    }
}

#[test]
fn a_fixed_receive_buffer_is_what_a_path_gets() {
    let mut config = long(1_000);
    config.options.tune_receive_buffer = false;
    let mut pair = Pair::with(1, config);
    let (_, server) = pair.establish(bulk(), Plan::LISTEN);
    pair.run_for(Duration::from_secs(2));
    // 128 KiB each 100 ms.
    let got = rate(&mut pair, server, 3);
    assert!((9.0..11.0).contains(&got), "{got} Mbit/s");
}

/// 200 ms, 50 Mbit/s and one in a hundred lost: there is always a hole, and what is behind it is not consumed
/// before that is filled.
#[test]
fn a_buffer_grows_although_there_is_always_a_hole() {
    let received = |tune: bool, seed| {
        let mut config = long(50);
        config.link.delay = ms(100);
        config.link.queue = 1_250_000;
        config.link.loss = Chance::per_million(10_000);
        config.options.congestion = Algorithm::Bbr;
        if !tune {
            config.options.tune_receive_buffer = false;
            config.options.receive_buffer = 16 << 20;
        }
        let mut pair = Pair::with(seed, config);
        let (_, server) = pair.establish(bulk(), Plan::LISTEN);
        pair.run_for(Duration::from_secs(4));
        pair.socket(server).consumed
    };
    let all = |tune| (1..=8).map(|seed| received(tune, seed)).sum::<u64>();
    let (tuned, large) = (all(true), all(false));
    assert!(100 * tuned > 88 * large, "{tuned} and {large} bytes");
}

#[test]
fn an_owner_that_sets_its_buffer_keeps_it() {
    let mut pair = Pair::with(1, long(1_000));
    let (_, server) = pair.establish(bulk(), Plan::LISTEN);
    let (host, conn) = (pair.server, pair.socket(server).conn);
    let now = pair.now();
    pair.host_mut(host)
        .stack
        .set_receive_buffer(now, conn, 256 << 10);
    pair.run_for(Duration::from_secs(2));
    let got = rate(&mut pair, server, 3);
    assert!((18.0..22.0).contains(&got), "{got} Mbit/s");
}

#[test]
fn without_timestamps_the_handshake_tells_the_round_trip() {
    let mut config = long(200);
    config.server.timestamps = false;
    let mut pair = Pair::with(1, config);
    let (_, server) = pair.establish(bulk(), Plan::LISTEN);
    pair.run_for(Duration::from_secs(3));
    let got = rate(&mut pair, server, 3);
    assert!(got >= 185.0, "{got} Mbit/s");
}

#[test]
fn a_path_that_becomes_longer_gets_a_larger_buffer() {
    let mut config = long(200);
    config.link.delay = ms(5);
    config.link.queue = 2_000_000;
    let mut pair = Pair::with(1, config);
    let (_, server) = pair.establish(bulk(), Plan::LISTEN);
    pair.run_for(Duration::from_secs(2));
    let short = receive_window(&pair, server);
    let (a, b) = (pair.client, pair.server);
    pair.link_mut(a, b).delay = ms(50);
    pair.link_mut(b, a).delay = ms(50);
    pair.run_for(Duration::from_secs(20));
    let got = rate(&mut pair, server, 5);
    assert!(got >= 185.0, "{got} Mbit/s, from a window of {short}");
}

#[test]
fn who_receives_little_or_does_not_read_is_offered_little() {
    let mut pair = Pair::with(1, long(1_000));
    // A few bytes at a time, for long.
    let trickle = Plan {
        chunk: 5_000,
        send_buffer: 5_000,
        ..Plan::transfer(ENDLESS)
    };
    let (_, server) = pair.establish(trickle, Plan::LISTEN);
    pair.run_for(Duration::from_secs(20));
    let window = receive_window(&pair, server);
    assert!(window <= 129 << 10, "{window}");

    let mut pair = Pair::with(2, long(1_000));
    let slow = Plan {
        reading: Reading::Slow(10_000, ms(100)),
        ..Plan::LISTEN
    };
    let (client, server) = pair.establish(bulk(), slow);
    pair.run_for(Duration::from_secs(20));
    let socket = pair.socket(server);
    let unread = socket.update.received - socket.consumed;
    assert!(unread <= 129 << 10, "{unread}");
    // And of its sender no more is wanted than it can use.
    let credit = pair.socket(client).update.send_buffer;
    assert!(credit <= 600_000, "{credit}");
}

#[test]
fn buffers_that_grow_lose_nothing() {
    let mut config = long(300);
    config.link.loss = Chance::per_million(500);
    config.exhaustion = Chance::per_million(500);
    let mut pair = Pair::with(3, config);
    let plan = Plan {
        send_buffer: 0,
        ..Plan::transfer(30_000_000)
    };
    let (client, _) = pair.establish(plan, Plan::LISTEN);
    run_until_empty(&mut pair);
    pair.check_delivered(client);
}

/// Steps of the world for each segment that carries data: it leaves, arrives and is read, and so does what
/// acknowledges it, with a timer now and then. Those of one moment are one step.
const STEPS_PER_SEGMENT: u64 = 3;

/// One in ten of so many segments is lost once: 300 holes in one window.
const BURST: u32 = 3_000;

/// A connection over 10 Gbit/s and 100 ms in packets of 9,000 bytes: 125 MB in flight, 14,000 segments.
struct TenGigabits {
    pair: Pair,
    client: SocketId,
    server: SocketId,
}

impl TenGigabits {
    /// Slow start takes eleven round trips without loss; the rest of 2.5 s is for what ends it.
    fn after_slow_start(algorithm: Algorithm) -> TenGigabits {
        let mut config = long(10_000);
        for stack in [&mut config.client, &mut config.server] {
            stack.mtu = 9_000;
            stack.max_receive_buffer = 512 << 20;
            stack.max_send_buffer = 512 << 20;
        }
        config.options.congestion = algorithm;
        config.burst = 7;
        let mut pair = Pair::with(1, config);
        let (client, server) = pair.establish(bulk(), Plan::LISTEN);
        pair.run_for(ms(2_500));
        TenGigabits {
            pair,
            client,
            server,
        }
    }

    fn counters(&self) -> &tcp::Counters {
        self.pair.host(self.pair.client).stack.counters()
    }

    /// Megabits a second over the next so many milliseconds. What they cost follows the segments, not the
    /// window, whatever is missing in it.
    fn rate(&mut self, millis: u64) -> f64 {
        let (segments, steps) = (self.counters().segments_out, self.pair.steps());
        let before = self.pair.socket(self.server).consumed;
        self.pair.run_for(ms(millis));
        let bits = (self.pair.socket(self.server).consumed - before) * 8;
        let segments = self.counters().segments_out - segments;
        let steps = self.pair.steps() - steps;
        assert!(
            steps < STEPS_PER_SEGMENT * segments,
            "{steps} steps for {segments} segments"
        );
        bits as f64 / 1e3 / millis as f64
    }

    /// Fills the wire, loses a burst of segments, and repairs it within three round trips; returns what it
    /// has afterwards.
    fn fill_and_repair(&mut self) -> f64 {
        let got = self.rate(500);
        assert!(got >= 9_500.0, "{got} Mbit/s");
        let flight = self.pair.info(self.client).expect("it lives").in_flight;
        assert!(flight > 100_000_000, "{flight} bytes in flight");

        let again = self.counters().retransmitted_segments;
        let (from, mut count) = (self.pair.client, 0);
        self.pair.filter(from, move |segment| {
            count += u32::from(!segment.payload.is_empty());
            count > BURST || count % 10 != 0
        });
        self.rate(300);
        let info = self.pair.info(self.client).expect("it lives");
        assert!(!info.recovering && info.lost == 0, "{info:?}");
        let counters = self.counters();
        assert_eq!(counters.timeouts, 0);
        let again = counters.retransmitted_segments - again;
        assert_eq!(again, u64::from(BURST) / 10);
        self.rate(200)
    }
}

#[test]
fn ten_gigabits_over_a_tenth_of_a_second() {
    // CUBIC goes on with seven tenths of what was in flight, of which a part had waited in the queue.
    let got = TenGigabits::after_slow_start(Algorithm::Cubic).fill_and_repair();
    assert!((8_000.0..9_500.0).contains(&got), "{got} Mbit/s");
}

#[test]
fn ten_gigabits_over_a_tenth_of_a_second_by_bbr() {
    let got = TenGigabits::after_slow_start(Algorithm::Bbr).fill_and_repair();
    assert!(got >= 9_500.0, "{got} Mbit/s");
}
