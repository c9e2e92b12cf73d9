//! BBR: fills the pipe without filling the queue, whatever is lost at random, and shares with CUBIC.

use core::time::Duration;

use sim::{Burst, Chance, LinkConfig, Pair, PairConfig, Plan, SocketId};
use tcp::{Algorithm, ConnInfo, ConnOption, EcnPolicy, Request};

use crate::{ms, run_until_empty};

/// 50 Mbit/s and 40 ms: 250,000 bytes fill the pipe. The queue holds so many bytes.
fn path(algorithm: Algorithm, queue: usize) -> PairConfig {
    let mut config = PairConfig {
        link: LinkConfig {
            delay: ms(20),
            bandwidth: Some(50_000_000),
            queue,
            ..LinkConfig::default()
        },
        ..PairConfig::default()
    };
    config.options.congestion = algorithm;
    config.options.receive_buffer = 4 << 20;
    config
}

fn bulk() -> Plan {
    Plan {
        send_buffer: 0,
        ..Plan::transfer(1 << 40)
    }
}

fn info(pair: &Pair, client: SocketId) -> ConnInfo {
    let conn = pair.socket(client).conn;
    let info = pair.host(pair.client).stack.info(pair.now(), conn);
    info.expect("it lives")
}

/// Megabits a second of payload over the next so many seconds.
fn rate(pair: &mut Pair, server: SocketId, seconds: u64) -> f64 {
    let before = pair.socket(server).consumed;
    pair.run_for(Duration::from_secs(seconds));
    let bytes = pair.socket(server).consumed - before;
    bytes as f64 * 8.0 / 1e6 / seconds as f64
}

#[test]
fn it_fills_the_pipe_and_leaves_the_queue_empty() {
    // A queue of half a second, which CUBIC fills.
    let mut pair = Pair::with(1, path(Algorithm::Bbr, 3_000_000));
    let (client, server) = pair.establish(bulk(), Plan::LISTEN);
    pair.run_for(Duration::from_secs(3));
    let got = rate(&mut pair, server, 20);
    assert!(got > 45.0, "{got} Mbit/s");
    let srtt = info(&pair, client).srtt.unwrap();
    assert!(srtt < ms(65), "{srtt:?}");
    let mut cubic = Pair::with(1, path(Algorithm::Cubic, 3_000_000));
    let (client, _) = cubic.establish(bulk(), Plan::LISTEN);
    cubic.run_for(Duration::from_secs(23));
    let full = info(&cubic, client).srtt.unwrap();
    assert!(full > 2 * srtt, "{full:?} and {srtt:?}");
}

#[test]
fn what_is_lost_at_random_does_not_slow_it_down() {
    let with_loss = |algorithm, loss| {
        let mut config = path(algorithm, 250_000);
        config.link.loss = Chance::per_million(loss);
        let mut pair = Pair::with(2, config);
        let (_, server) = pair.establish(bulk(), Plan::LISTEN);
        pair.run_for(Duration::from_secs(3));
        rate(&mut pair, server, 20)
    };
    let (little, some) = (
        with_loss(Algorithm::Bbr, 1_000),
        with_loss(Algorithm::Bbr, 10_000),
    );
    assert!(little > 44.0 && some > 42.0, "{little} and {some} Mbit/s");
    let cubic = with_loss(Algorithm::Cubic, 10_000);
    assert!(some > 3.0 * cubic, "{some} and {cubic} Mbit/s");
}

/// Megabits a second in the first ten seconds over 50 Mbit/s and 50 ms, as in `outboard lab run goodput`, where
/// so many in a hundred are lost each way: of nine seeds in order, so that the fifth is the median.
fn first_ten_seconds(algorithm: Algorithm, percent: u32) -> [f64; 9] {
    let mut rates = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|seed| {
        let mut config = path(algorithm, 300_000);
        config.link.delay = ms(25);
        config.link.loss = Chance::percent(percent);
        let mut pair = Pair::with(seed, config);
        let (_, server) = pair.establish(bulk(), Plan::LISTEN);
        rate(&mut pair, server, 10)
    });
    rates.sort_by(f64::total_cmp);
    rates
}

/// Each of nine rates, and their median, lies where it should.
fn expect(rates: &[f64; 9], all: core::ops::Range<f64>, median: core::ops::Range<f64>) {
    let wrong = |rate: &&f64| !all.contains(rate);
    assert_eq!(rates.iter().find(wrong), None, "{rates:?}");
    assert!(median.contains(&rates[4]), "{rates:?}");
}

/// Two in a hundred is what version 3 takes for chance, and three standard deviations more.
#[test]
fn two_in_a_hundred_lost_leave_it_the_path() {
    let rates = first_ten_seconds(Algorithm::Bbr, 2);
    expect(&rates, 42.0..46.0, 43.5..45.5);
}

/// Beyond that it is too much in flight, and version 3 holds back: by degrees, and not at all as much as CUBIC.
/// (At three, 150 seeds have 38.4 in the mean; one in twenty has less than 33.6, and one 27.)
/// Version 1 would take 43 and 41 of it, as on the kernel: above these ranges as well something is wrong.
#[test]
fn more_than_that_lost_holds_it_back_by_degrees() {
    let three = first_ten_seconds(Algorithm::Bbr, 3);
    expect(&three, 30.0..43.5, 37.0..42.0);
    let five = first_ten_seconds(Algorithm::Bbr, 5);
    expect(&five, 17.0..31.0, 20.0..27.0);
    let cubic = first_ten_seconds(Algorithm::Cubic, 5);
    assert!(five[0] > 10.0 * cubic[8], "{five:?} and {cubic:?}");
}

#[test]
fn what_is_lost_in_bursts_does_not_slow_it_down() {
    // One in a hundred, five at a time: a round trip that loses any loses six in a hundred.
    let with_bursts = |seed| {
        let mut config = path(Algorithm::Bbr, 125_000);
        config.link.delay = ms(10);
        config.link.bursts = Some(Burst {
            begin: Chance::per_million(2_000),
            end: Chance::percent(20),
            loss: Chance::ALWAYS,
            longest: Duration::from_secs(1),
        });
        let mut pair = Pair::with(seed, config);
        let (_, server) = pair.establish(bulk(), Plan::LISTEN);
        rate(&mut pair, server, 10)
    };
    let mean = (1..=8).map(with_bursts).sum::<f64>() / 8.0;
    assert!(mean > 43.5, "{mean} Mbit/s");
}

#[test]
fn a_burst_on_a_short_path_does_not_take_all_that_is_in_flight() {
    // 1 ms: four segments fill the pipe, and twenty may wait.
    let with_bursts = |seed| {
        let mut config = path(Algorithm::Bbr, 30_000);
        config.link.delay = Duration::from_micros(500);
        config.link.bursts = Some(Burst {
            begin: Chance::per_million(2_000),
            end: Chance::percent(20),
            loss: Chance::ALWAYS,
            longest: ms(10),
        });
        let mut pair = Pair::with(seed, config);
        let (_, server) = pair.establish(bulk(), Plan::LISTEN);
        rate(&mut pair, server, 10)
    };
    let rates: Vec<f64> = (1..=8).map(with_bursts).collect();
    let mean = rates.iter().sum::<f64>() / 8.0;
    assert!(mean > 44.5, "{rates:?}");
}

#[test]
fn a_queue_that_is_short_loses_little() {
    let mut pair = Pair::with(3, path(Algorithm::Bbr, 60_000));
    let (client, server) = pair.establish(bulk(), Plan::LISTEN);
    pair.run_for(Duration::from_secs(5));
    let before = info(&pair, client);
    let got = rate(&mut pair, server, 20);
    assert!(got > 40.0, "{got} Mbit/s");
    let after = info(&pair, client);
    let again = after.bytes_retransmitted - before.bytes_retransmitted;
    let sent = after.bytes_acked - before.bytes_acked;
    assert!(again * 33 < sent, "{again} of {sent} bytes");
}

#[test]
fn a_short_queue_that_startup_overflows_leaves_it_the_path() {
    // A tenth of what is on its way, on 100 ms.
    let mut config = path(Algorithm::Bbr, 62_500);
    config.link.delay = ms(50);
    let mut pair = Pair::with(3, config);
    let (_, server) = pair.establish(bulk(), Plan::LISTEN);
    // From then on until the first bandwidth probe it cruises.
    pair.run_for(ms(1_500));
    let got = rate(&mut pair, server, 2);
    assert!(got > 43.0, "{got} Mbit/s");
}

/// The least and the most in flight that BBR allows itself from its third second to its 23rd.
fn windows(pair: &mut Pair, client: SocketId) -> (u32, u32) {
    pair.run_for(Duration::from_secs(3));
    let (mut least, mut most) = (u32::MAX, 0);
    for _ in 0..400 {
        pair.run_for(ms(50));
        let cwnd = info(pair, client).cwnd;
        (least, most) = (least.min(cwnd), most.max(cwnd));
    }
    (least, most)
}

#[test]
fn it_looks_for_the_length_of_the_path_where_there_is_always_a_queue() {
    let mut pair = Pair::with(4, path(Algorithm::Bbr, 3_000_000));
    let (client, _) = pair.establish(bulk(), Plan::LISTEN);
    // CUBIC keeps it full.
    let (other, _) = pair.establish(bulk(), Plan::LISTEN);
    let (host, conn, now) = (pair.client, pair.socket(other).conn, pair.now());
    let option = Request::SetOption(ConnOption::Congestion(Algorithm::Cubic));
    assert_eq!(
        pair.host_mut(host).stack.on_request(now, conn, option),
        Ok(())
    );
    let (least, most) = windows(&mut pair, client);
    // ProbeRTT: half of what fills the pipe.
    assert!(4 * least < most, "{least} and {most}");
}

#[test]
fn it_does_not_look_where_it_sees_it_anyway() {
    let mut pair = Pair::with(4, path(Algorithm::Bbr, 3_000_000));
    let (client, _) = pair.establish(bulk(), Plan::LISTEN);
    let (least, _) = windows(&mut pair, client);
    assert!(least > 250_000, "{least}");
    assert!(info(&pair, client).min_rtt.unwrap() < ms(43));
}

#[test]
fn a_path_that_gets_slower_or_faster_is_followed() {
    let mut pair = Pair::with(5, path(Algorithm::Bbr, 500_000));
    let (_, server) = pair.establish(bulk(), Plan::LISTEN);
    pair.run_for(Duration::from_secs(5));
    let (from, to) = (pair.client, pair.server);
    for megabits in [10, 80] {
        pair.link_mut(from, to).bandwidth = Some(megabits * 1_000_000);
        pair.run_for(Duration::from_secs(20));
        let got = rate(&mut pair, server, 10);
        let wanted = 0.85 * megabits as f64;
        assert!(got > wanted, "{got} of {megabits} Mbit/s");
    }
}

#[test]
fn marks_hold_it_back_where_a_queue_marks() {
    let mut config = path(Algorithm::Bbr, 3_000_000);
    config.client.ecn = EcnPolicy::On;
    config.link.marking = Some(60_000);
    let mut pair = Pair::with(6, config);
    let (client, server) = pair.establish(bulk(), Plan::LISTEN);
    pair.run_for(Duration::from_secs(3));
    let got = rate(&mut pair, server, 20);
    assert!(got > 35.0, "{got} Mbit/s");
    let stack = &pair.host(pair.client).stack;
    assert!(stack.counters().congestion_echoes > 0);
    assert!(info(&pair, client).srtt.unwrap() < ms(60));
}

#[test]
fn it_shares_with_cubic() {
    let mut pair = Pair::with(7, path(Algorithm::Bbr, 375_000));
    let (client, bbr) = pair.establish(bulk(), Plan::LISTEN);
    let (other, cubic) = pair.establish(bulk(), Plan::LISTEN);
    let (host, conn, now) = (pair.client, pair.socket(other).conn, pair.now());
    let option = Request::SetOption(ConnOption::Congestion(Algorithm::Cubic));
    let set = pair.host_mut(host).stack.on_request(now, conn, option);
    assert_eq!(set, Ok(()));
    assert_eq!(info(&pair, client).congestion, Algorithm::Bbr);
    pair.run_for(Duration::from_secs(10));
    let before = [bbr, cubic].map(|socket| pair.socket(socket).consumed);
    pair.run_for(Duration::from_secs(60));
    let after = [bbr, cubic].map(|socket| pair.socket(socket).consumed);
    let shares = [0, 1].map(|i| (after[i] - before[i]) as f64 * 8.0 / 60e6);
    assert!(shares.iter().all(|share| *share > 8.0), "{shares:?}");
    assert!(shares.iter().sum::<f64>() > 42.0, "{shares:?}");
}

#[test]
fn several_of_its_kind_share() {
    let mut pair = Pair::with(8, path(Algorithm::Bbr, 500_000));
    let servers = [0, 1, 2].map(|_| {
        let (_, server) = pair.establish(bulk(), Plan::LISTEN);
        pair.run_for(Duration::from_secs(3));
        server
    });
    pair.run_for(Duration::from_secs(20));
    let before = servers.map(|socket| pair.socket(socket).consumed);
    pair.run_for(Duration::from_secs(60));
    let shares = [0, 1, 2].map(|i| pair.socket(servers[i]).consumed - before[i]);
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(*most < 3 * least, "{shares:?}");
}

#[test]
fn an_application_that_sends_now_and_then_keeps_what_is_known() {
    let mut pair = Pair::with(9, path(Algorithm::Bbr, 500_000));
    let (client, server) = pair.establish(bulk(), Plan::LISTEN);
    pair.run_for(Duration::from_secs(5));
    // From now on a little at a time.
    let trickle = Plan {
        send_buffer: 3_000,
        chunk: 3_000,
        ..bulk()
    };
    *pair.plan_mut(client) = trickle;
    pair.run_for(Duration::from_secs(4));
    *pair.plan_mut(client) = bulk();
    pair.pump(client);
    let got = rate(&mut pair, server, 2);
    assert!(got > 35.0, "{got} Mbit/s");
}

#[test]
fn every_byte_arrives_through_loss_reordering_and_timeouts() {
    for seed in 0..12 {
        let mut config = path(Algorithm::Bbr, 100_000);
        config.link.loss = Chance::per_million(30_000);
        config.link.jitter = ms(seed);
        config.options.receive_buffer = 200_000;
        config.client.selective_acks = seed % 3 != 0;
        config.server.timestamps = seed % 4 != 0;
        let mut pair = Pair::with(seed, config);
        let (client, _) = pair.establish(Plan::transfer(2_000_000), Plan::LISTEN);
        run_until_empty(&mut pair);
        pair.check_delivered(client);
    }
}

/// How many segments were sent again in 20 s on a path of so many milliseconds that loses one in a hundred,
/// and how many of them the peer has reported as needless.
fn lossy(algorithm: Algorithm, round_trip: u64, seed: u64) -> (u64, u64) {
    let mut config = path(algorithm, 50_000_000 / 8_000 * round_trip as usize);
    config.link.delay = Duration::from_micros(round_trip * 500);
    let mut pair = Pair::with(seed, config);
    pair.establish(bulk(), Plan::LISTEN);
    let (from, to) = (pair.client, pair.server);
    pair.link_mut(from, to).loss = Chance::per_million(10_000);
    pair.run_for(Duration::from_secs(20));
    let counters = pair.host(from).stack.counters();
    (counters.retransmitted_segments, counters.dsacks_in)
}

#[test]
fn what_is_lost_is_sent_again_but_what_is_not_is_not() {
    for algorithm in [Algorithm::Bbr, Algorithm::Cubic] {
        for (round_trip, seed) in [(20, 1), (100, 2)] {
            let (again, needless) = lossy(algorithm, round_trip, seed);
            let at = format!("{algorithm:?}, {round_trip} ms: {needless} of {again}");
            assert!(needless * 20 <= again, "{at}");
        }
    }
}

#[test]
fn a_long_path_that_loses_one_in_a_hundred_is_filled_soon() {
    for seed in 1..=8 {
        let mut config = path(Algorithm::Bbr, 1_250_000);
        config.link.delay = ms(100);
        config.link.loss = Chance::per_million(10_000);
        let mut pair = Pair::with(seed, config);
        let (_, server) = pair.establish(bulk(), Plan::LISTEN);
        pair.run_for(Duration::from_secs(5));
        let got = rate(&mut pair, server, 5);
        assert!(got > 40.0, "seed {seed}: {got} Mbit/s");
    }
}
