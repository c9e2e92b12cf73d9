//! Where listeners are placed, as orders to the fast half, and what is said of them.

use super::*;
use crate::config::Config;
use crate::config::policy::tests::{FROM_100, Written};
use crate::exchange::{self, SessionKey, Tale, ToSlow, Told};
use crate::fast::ids::SessionId;
use crate::placement::{DWELL_NS, KNOWN, Lately};
use crate::slow::control::{Control, Governed, Pending};
use crate::slow::desk::Facts;
use crate::slow::desk::readers::{Reader, Readers};
use netdev::steering::{Load, SHARE_ALL};
use queue_pair::control::{Channel, Explanation, Reply};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What has come under each number.
#[derive(Clone, Default)]
struct Stated(Arc<Mutex<HashMap<u16, Load>>>);

impl ReadLoads for Stated {
    fn of_slot(&mut self, slot: u16, _local: SocketAddr) -> Option<Load> {
        self.0.lock().expect("no panic").get(&slot).copied()
    }
}

impl Stated {
    fn open(&self, slot: u16, count: u64) {
        let mut loads = self.0.lock().expect("no panic");
        loads.entry(slot).or_default().opened_engine += count;
    }

    fn ask(&self, slot: u16, count: u64) {
        let mut loads = self.0.lock().expect("no panic");
        loads.entry(slot).or_default().data_kernel += count;
    }
}

fn desk(settings: &str) -> (Desk, ToSlow, Stated) {
    let config = Config::parse("x", settings).expect("valid");
    let control = Control::without_socket(&config.limits).expect("descriptors");
    let (to_fast, to_slow) = exchange::pair(&config.limits).expect("descriptors");
    let desk = Desk::new(Facts::new(&config, [1], 0), control, to_fast).expect("polled");
    let loads = Stated::default();
    let reader = Box::new(loads.clone());
    (
        desk.placing(config.placements(), Some(reader)),
        to_slow,
        loads,
    )
}

fn local(port: u16) -> SocketAddr {
    ([0, 0, 0, 0], port).into()
}

/// The orders to place a listener: its port, the engine's share and the number.
fn told(fast: &mut ToSlow) -> Vec<(u16, Option<(u32, u16)>)> {
    let orders = std::iter::from_fn(|| fast.order());
    let placed = orders.map(|order| match order {
        Order::Place { local, shared } => (
            local.port(),
            shared.map(|shared| (shared.share, shared.slot)),
        ),
        other => panic!("{other:?}"),
    });
    placed.collect()
}

fn let_read(desk: &mut Desk, bytes: u64, listens: &[(u32, SocketAddr)]) -> Reader {
    let is_governed = desk.placing.governs(listens);
    desk.let_read(bytes, is_governed)
}

#[test]
fn a_listener_that_is_the_engines_costs_nothing() {
    let (mut desk, mut fast, _) = desk("");
    let now = Instant::now();
    desk.listens(WorkerId::FIRST, local(80), false, now);
    assert_eq!(told(&mut fast), []);
    assert_eq!((desk.placing.due(), desk.placed(local(80))), (None, None));
    assert_eq!(desk.all_placed().count(), 0);
}

#[test]
fn a_listener_is_placed_as_is_configured_and_again_when_that_changes() {
    let (mut desk, mut fast, _) = desk("[placements]\n\"0.0.0.0:80\" = \"kernel\"\n");
    let now = Instant::now();
    desk.listens(WorkerId::FIRST, local(80), false, now);
    desk.listens(WorkerId::FIRST, local(80), false, now);
    desk.listens(WorkerId::FIRST, local(81), false, now);
    assert_eq!(told(&mut fast), [(80, Some((0, 0)))], "once");
    let configured = |settings| Config::parse("x", settings).expect("valid").placements();
    desk.place_by(configured("placement = \"kernel\"\n"), now);
    assert_eq!(told(&mut fast), [(81, Some((0, 1)))]);
    desk.place_by(configured("placement = \"adaptive\"\n"), now);
    let both = [(80, Some((SHARE_ALL, 0))), (81, Some((SHARE_ALL, 1)))];
    assert_eq!(told(&mut fast), both);
    desk.place_by(configured(""), now);
    assert_eq!(told(&mut fast), [(80, None), (81, None)]);
    assert_eq!(desk.placed(local(80)), None);
    assert!(desk.placing.used.is_empty());
    // A mapped address is the IPv4 address.
    desk.place_by(configured("placement = \"kernel\"\n"), now);
    told(&mut fast);
    desk.listens(
        WorkerId::FIRST,
        "[::ffff:10.0.0.1]:82".parse().expect("an address"),
        false,
        now,
    );
    assert_eq!(told(&mut fast), [(82, Some((0, 2)))]);
    assert!(
        desk.placed("10.0.0.1:82".parse().expect("an address"))
            .is_some()
    );
}

#[test]
fn a_listener_of_a_program_that_serves_nothing_of_the_kernels_is_the_engines() {
    let (mut desk, mut fast, _) = desk("placement = \"kernel\"\n");
    let now = Instant::now();
    desk.listens(WorkerId::FIRST, local(80), true, now);
    assert_eq!(told(&mut fast), []);
    let configured = |settings| Config::parse("x", settings).expect("valid").placements();
    desk.place_by(configured("placement = \"adaptive\"\n"), now);
    // Another program that has it, too, does not say so.
    desk.listens(WorkerId::FIRST, local(80), false, now);
    assert_eq!(told(&mut fast), []);
    assert_eq!(desk.placed(local(80)), None);
    desk.listens_no_longer(WorkerId::FIRST, local(80));
    desk.listens(WorkerId::FIRST, local(80), false, now);
    assert_eq!(told(&mut fast), [(80, Some((SHARE_ALL, 0)))]);
    desk.listens(WorkerId::FIRST, local(80), true, now);
    assert_eq!(told(&mut fast), [(80, None)], "and back");
}

#[test]
fn a_number_is_free_again_when_its_listener_is_gone() {
    let (mut desk, mut fast, _) = desk("placement = \"kernel\"\n");
    let now = Instant::now();
    for port in 1..=MAX_SLOTS {
        desk.listens(WorkerId::FIRST, local(port), false, now);
    }
    told(&mut fast);
    desk.listens(WorkerId::FIRST, local(5000), false, now);
    let placed = desk.placed(local(5000)).expect("it was to be shared");
    let why = "too many listeners are shared";
    assert_eq!((&*placed.place, &*placed.why), ("engine", why));
    assert_eq!(told(&mut fast), [(5000, None)]);
    desk.listens_no_longer(WorkerId::FIRST, local(7));
    desk.listens(WorkerId::FIRST, local(5001), false, now);
    assert_eq!(told(&mut fast), [(5001, Some((0, 6)))]);
    // Who has waited gets the next one.
    desk.listens_no_longer(WorkerId::FIRST, local(8));
    desk.place_listeners(now + PERIOD);
    assert_eq!(told(&mut fast), [(5000, Some((0, 7)))]);
    let placed = desk.placed(local(5000)).expect("shared");
    assert_eq!((&*placed.place, &*placed.why), ("kernel", "configured"));
}

#[test]
fn an_adaptive_listener_goes_to_the_kernel_and_back_and_says_why() {
    let (mut desk, mut fast, loads) = desk("placement = \"adaptive\"\nplacement_rate = 100\n");
    let mut now = Instant::now();
    desk.listens(WorkerId::FIRST, local(80), false, now);
    assert_eq!(told(&mut fast), [(80, Some((SHARE_ALL, 0)))]);
    let placed = desk.placed(local(80)).expect("shared");
    assert_eq!((&*placed.place, &*placed.why), ("engine", "not known yet"));
    let mut seconds = |desk: &mut Desk, count, opened| {
        let mut orders = Vec::new();
        for _ in 0..count {
            loads.open(0, opened);
            now += PERIOD;
            assert_eq!(desk.placing.due().map(|due| due <= now), Some(true));
            desk.place_listeners(now);
            orders.extend(told(&mut fast));
        }
        orders
    };
    let dwell = DWELL_NS / LOOK_NS;
    let orders = seconds(&mut desk, 2 * dwell, KNOWN);
    assert_eq!(orders, [(80, Some((0, 0)))]);
    let placed = desk.placed(local(80)).expect("shared");
    let expected = Placed {
        configured: "adaptive".into(),
        place: "kernel".into(),
        why: "quiet".into(),
        rate: KNOWN,
        peak: KNOWN,
        pays_from: 100,
        policy: None,
        life_us: None,
        carried: Some(0),
    };
    assert_eq!(placed, expected);
    let orders = seconds(&mut desk, 2 * dwell, 1000);
    assert_eq!(orders, [(80, Some((SHARE_ALL, 0)))]);
    let placed = desk.placed(local(80)).expect("shared");
    assert_eq!((&*placed.place, &*placed.why), ("engine", "busy"));
    assert_eq!(seconds(&mut desk, 2 * dwell, 1), [(80, Some((0, 0)))]);
    desk.listens_no_longer(WorkerId::FIRST, local(80));
    now += PERIOD;
    desk.place_listeners(now);
    assert_eq!(desk.placing.due(), None, "there is nobody to look at");
}

#[test]
fn without_a_steering_that_divides_all_is_the_engines() {
    let (desk, mut fast, _) = desk("placement = \"kernel\"\n");
    let configured = desk.placing.configured.clone();
    let mut desk = desk.placing(configured, None);
    desk.listens(WorkerId::FIRST, local(80), false, Instant::now());
    assert_eq!(told(&mut fast), []);
}

/// A desk with a policy by which connections are the engine's from 100 requests a second on, and files of more than
/// 1024 bytes below 50.
fn with_policy(name: &str) -> (Written, String) {
    let text = FROM_100.replace(
        "\"offload_from_rate\": 0, \"offload_below_rate\": null",
        "\"offload_from_rate\": 0, \"offload_below_rate\": 50",
    );
    let file = Written::new(name, &text);
    let settings = format!("placement = \"adaptive\"\n{}", file.setting());
    (file, settings)
}

/// So many seconds, in each of which so many requests come, each by a connection of its own.
fn pass(desk: &mut Desk, loads: &Stated, now: &mut Instant, seconds: u64, requests: u64) {
    for _ in 0..seconds {
        loads.open(0, requests);
        loads.ask(0, requests);
        *now += PERIOD;
        desk.place_listeners(*now);
    }
}

#[test]
fn a_policy_decides_where_connections_go_and_who_reads_files() {
    let (_file, settings) = with_policy("decides");
    let (mut desk, mut fast, loads) = desk(&settings);
    let mut now = Instant::now();
    desk.listens(WorkerId::FIRST, local(80), false, now);
    told(&mut fast);
    let here = [(7, local(80))];
    let dwell = DWELL_NS / LOOK_NS;
    assert_eq!(
        let_read(&mut desk, 9, &here),
        Reader::Engine(Governed::NotYet)
    );
    let placed = desk.placed(local(80)).expect("shared");
    let unknown = ByPolicy {
        from: Some(100),
        ..ByPolicy::default()
    };
    assert_eq!(placed.policy, Some(unknown.clone()));

    // Forty connections and forty requests a second are forty requests: not near enough to a hundred.
    pass(&mut desk, &loads, &mut now, 2 * dwell, 40);
    assert_eq!(told(&mut fast), [(80, Some((0, 0)))]);
    let placed = desk.placed(local(80)).expect("shared");
    assert_eq!(
        (&*placed.place, &*placed.why, placed.rate),
        ("kernel", "does not pay", 40)
    );
    let reads = Some(vec![(1025, u64::MAX)]);
    let by_policy = ByPolicy {
        rate: Some(40),
        peak: Some(40),
        reads,
        ..unknown
    };
    assert_eq!(placed.policy, Some(by_policy.clone()));
    let short = Reader::Program {
        first: 0,
        last: 1024,
    };
    assert_eq!(let_read(&mut desk, 1024, &here), short);
    assert_eq!(
        let_read(&mut desk, 1025, &here),
        Reader::Engine(Governed::Yes)
    );

    pass(&mut desk, &loads, &mut now, 2 * dwell, 100);
    assert_eq!(told(&mut fast), [(80, Some((SHARE_ALL, 0)))]);
    let placed = desk.placed(local(80)).expect("shared");
    assert_eq!((&*placed.place, &*placed.why), ("engine", "pays"));
    let busier = ByPolicy {
        rate: Some(100),
        peak: Some(100),
        reads: Some(Vec::new()),
        ..by_policy
    };
    assert_eq!((placed.policy, placed.pays_from), (Some(busier), 100));
    // The engine has enough to do.
    let all = Reader::Program {
        first: 0,
        last: u64::MAX,
    };
    assert_eq!(let_read(&mut desk, 1025, &here), all);
    // What the engine reads counts once it has it.
    let counted = Readers {
        engine: 0,
        program: 2,
    };
    assert_eq!(desk.readers, counted);

    // Who listens nowhere else is no load.
    desk.listens_no_longer(WorkerId::FIRST, local(80));
    pass(&mut desk, &loads, &mut now, 1, 100);
    assert_eq!(let_read(&mut desk, 9, &here), Reader::Engine(Governed::No));
}

#[test]
fn files_are_read_by_the_load_of_all_listeners_for_which_the_policy_decides() {
    let (_file, settings) = with_policy("all");
    let settings = settings + "[placements]\n\"0.0.0.0:82\" = \"kernel\"\n";
    let (mut desk, _fast, loads) = desk(&settings);
    let mut now = Instant::now();
    for port in 80..=82 {
        desk.listens(WorkerId::FIRST, local(port), false, now);
    }
    for _ in 0..2 * DWELL_NS / LOOK_NS {
        for slot in 0..3 {
            loads.open(slot, 2);
            loads.ask(slot, 20);
        }
        now += PERIOD;
        desk.place_listeners(now);
    }
    assert_eq!(desk.placing.leaves(1 << 20), Some((None, 40.0)));
    let placed = desk.placed(local(82)).expect("shared");
    assert_eq!(placed.policy, None, "it is not asked there");
}

/// So many seconds, in which so many connections and requests come to the listeners of these numbers.
fn come(
    desk: &mut Desk,
    loads: &Stated,
    now: &mut Instant,
    (seconds, each): (u64, &[(u16, u64, u64)]),
) {
    for _ in 0..seconds {
        for &(slot, opened, requests) in each {
            loads.open(slot, opened);
            loads.ask(slot, requests);
        }
        *now += PERIOD;
        desk.place_listeners(*now);
    }
}

#[test]
fn a_listener_of_few_busy_connections_is_load_and_one_that_is_not_read_makes_it_unknown() {
    let (_file, settings) = with_policy("few");
    let (mut desk, _fast, loads) = desk(&settings);
    let mut now = Instant::now();
    for port in 80..=81 {
        desk.listens(WorkerId::FIRST, local(port), false, now);
    }
    // Eight connections that were opened at once ask for all the rest of the time.
    loads.open(1, 8);
    let each = [(0, 2, 20), (1, 0, 50_000)];
    come(&mut desk, &loads, &mut now, (2 * DWELL_NS / LOOK_NS, &each));
    let placed = desk.placed(local(81)).expect("shared");
    assert_eq!((&*placed.why, placed.rate), ("not known yet", 50_000));
    assert_eq!(
        desk.placing.leaves(1 << 20),
        Some((Some((0, u64::MAX)), 50_020.0))
    );
    // Twenty requests a second are little, and the server's are not.
    let placed = desk.placed(local(80)).expect("shared");
    assert_eq!((&*placed.place, &*placed.why), ("engine", "pays"));
    assert_eq!(placed.policy.and_then(|policy| policy.rate), Some(50_020));

    let gone = loads.0.lock().expect("no panic").remove(&1);
    come(&mut desk, &loads, &mut now, (1, &[(0, 2, 20)]));
    assert_eq!(desk.placing.leaves(1 << 20), None, "not a part of the sum");
    let placed = desk.placed(local(81)).expect("shared");
    let why = "what comes to it cannot be read";
    assert_eq!((&*placed.why, placed.rate), (why, 0));
    let placed = desk.placed(local(80)).expect("shared");
    let why = "what comes to 0.0.0.0:81 cannot be read";
    assert_eq!((&*placed.place, &*placed.why), ("engine", why));
    loads
        .0
        .lock()
        .expect("no panic")
        .extend(gone.map(|load| (1, load)));
    come(&mut desk, &loads, &mut now, (1, &each));
    assert!(desk.placing.leaves(1 << 20).is_some(), "known again");
}

#[test]
fn all_listeners_of_a_server_go_by_what_comes_to_it() {
    let (_file, settings) = with_policy("server");
    let (mut desk, mut fast, loads) = desk(&settings);
    let mut now = Instant::now();
    for port in 80..=82 {
        desk.listens(WorkerId::FIRST, local(port), false, now);
    }
    told(&mut fast);
    // Fifteen requests a second at each are too little for a hundred; forty are enough, though at none of them.
    let each = |count| [(0, 2, count), (1, 2, count), (2, 2, count)];
    come(
        &mut desk,
        &loads,
        &mut now,
        (2 * DWELL_NS / LOOK_NS, &each(15)),
    );
    let orders = told(&mut fast);
    assert_eq!(
        orders,
        [(80, Some((0, 0))), (81, Some((0, 1))), (82, Some((0, 2)))]
    );
    come(
        &mut desk,
        &loads,
        &mut now,
        (2 * DWELL_NS / LOOK_NS, &each(40)),
    );
    let all = [80, 81, 82].map(|port| (port, Some((SHARE_ALL, port - 80))));
    assert_eq!(told(&mut fast), all);
    // What is told in the log is what decided.
    let by = Lately {
        rate: 120.0,
        peak: 120.0,
    };
    assert_eq!(desk.placing.listeners[&local(80)].by, Some(by));
}

#[test]
fn listeners_that_come_and_go_hold_up_nobody() {
    let (_file, settings) = with_policy("come-and-go");
    let (mut desk, mut fast, loads) = desk(&settings);
    let mut now = Instant::now();
    desk.listens(WorkerId::FIRST, local(80), false, now);
    told(&mut fast);
    // Whatever has a number can be read.
    loads.open(1, 0);
    let mut orders = Vec::new();
    for _ in 0..2 * DWELL_NS / LOOK_NS {
        loads.open(0, 40);
        loads.ask(0, 40);
        for _ in 0..2 {
            desk.listens(WorkerId::FIRST, local(81), false, now);
            now += PERIOD / 2;
            desk.place_listeners(now);
            desk.listens_no_longer(WorkerId::FIRST, local(81));
        }
        orders.extend(told(&mut fast).into_iter().filter(|(port, _)| *port == 80));
    }
    assert_eq!(orders, [(80, Some((0, 0)))]);
    assert_eq!(desk.placing.leaves(1 << 20), Some((None, 40.0)));
}

#[test]
fn what_follows_no_policy_is_told_of_as_without_one() {
    let (_file, settings) = with_policy("not-followed");
    let settings = settings + "[placements]\n\"0.0.0.0:80\" = \"kernel\"\n";
    let (mut desk, _fast, loads) = desk(&settings);
    let mut now = Instant::now();
    desk.listens(WorkerId::FIRST, local(80), false, now);
    pass(&mut desk, &loads, &mut now, 3, 40);
    let rate = |desk: &Desk| desk.placed(local(80)).map(|placed| placed.rate);
    assert_eq!(rate(&desk), Some(80), "forty of each");
    let configured = |text: &str| Config::parse("x", text).expect("valid").placements();
    for text in ["placement = \"kernel\"\n", settings.as_str()] {
        desk.place_by(configured(text), now);
        pass(&mut desk, &loads, &mut now, 1, 40);
        assert_eq!(rate(&desk), Some(80), "{text}");
    }
}

#[test]
fn explanations_of_a_long_policy_are_one_answer() {
    let rules = (1..=policy::MOST_RULES).map(|rule| {
        let from = if rule % 2 == 0 { "0" } else { "null" };
        format!(
            "{{ \"up_to_bytes\": {}, \"offload_from_rate\": {from}, \"offload_below_rate\": null }}",
            rule * 1_000_000_000_000
        )
    });
    let rules: Vec<String> = rules.collect();
    let never = "{ \"offload_from_rate\": null, \"offload_below_rate\": null }";
    let text = format!(
        "{{ \"version\": 2, \"connections\": {never}, \"rules\": [{}], \"above\": {never} }}",
        rules.join(", ")
    );
    let file = Written::new("long-policy", &text);
    let settings = format!("placement = \"adaptive\"\n{}", file.setting());
    let (mut desk, _fast, loads) = desk(&settings);
    let mut now = Instant::now();
    let listens = |port| exchange::Listening {
        local: local(port),
        waiting: 1,
        backlog: 10,
        credit: 4,
        enough: false,
        confined: false,
    };
    let listeners: Vec<_> = (80..104).map(listens).collect();
    for listening in &listeners {
        desk.listens(WorkerId::FIRST, listening.local, false, now);
    }
    let each: Vec<(u16, u64, u64)> = (0..24).map(|slot| (slot, 2, 4)).collect();
    come(&mut desk, &loads, &mut now, (2 * DWELL_NS / LOOK_NS, &each));
    for number in 0..256 {
        let said = Explanation {
            fd: Explanation::NO_DESCRIPTOR,
            kind: format!("call {number}"),
            reason: "x".repeat(256),
            detail: String::new(),
        };
        assert!(desk.control.report(7, said));
    }
    let lines = desk.explanations(7, &listeners, [0, 0]);
    for line in &lines[..24] {
        assert!(line.reason.starts_with("placed there: "), "{line:?}");
        assert!(line.reason.contains(" and others"), "{line:?}");
        assert!(line.reason.len() < 600, "{line:?}");
    }
    let last = lines.last().expect("some");
    assert!(last.kind.ends_with(" more"), "{last:?}");
    let answer = Reply::Explained(lines);
    assert!(queue_pair::control::Encoded::new(&answer).is_ok());
}

#[test]
fn a_program_has_no_more_listeners_than_the_engine_has_for_it() {
    let (mut desk, mut fast, _) = desk("");
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (ours, theirs) = pair.expect("descriptors");
    let slot = desk.control.add_client(theirs).expect("room");
    let mut ours = Channel::new(ours);
    let key = desk.key_of(slot).expect("it is there");
    let listens = |desk: &mut Desk, ours: &mut Channel, name: u32| {
        let client = desk.control.client(slot).expect("it is there");
        client.session = Some(SessionKey {
            id: SessionId(0),
            number: 1,
        });
        client.pending = Some(Pending::Listen {
            local: "[::ffff:10.0.0.1]:80".parse().expect("an address"),
            pinned: false,
        });
        desk.attend();
        desk.answered(WorkerId::FIRST, key, Ok(Told::Listening(name)));
        let reply = ours.try_receive::<Reply>().expect("open");
        assert!(
            matches!(reply, Some((Reply::Listening { .. }, _))),
            "{name}: {reply:?}"
        );
    };
    let here = SocketAddr::from(([10, 0, 0, 1], 80));
    for name in 1..=1000 {
        // Taken over from a program that listens there no longer: this one, which has asked for it again.
        fast.tell(Tale::Unlistened(here));
        listens(&mut desk, &mut ours, name);
        let client = desk.control.client(slot).expect("it is there");
        assert_eq!(client.listens, [(name, here)]);
    }
    // Who is to inherit it does not, and what ends at another worker is another one.
    let (lifeline, _theirs) = rustix::pipe::pipe().expect("descriptors");
    let watched = (5, WorkerId::FIRST);
    let control = &mut desk.control;
    control
        .watch_lifeline(slot, watched, lifeline, None)
        .expect("polled");
    control.note_inherited(5, None, vec![(1000, here)]);
    let inherits = |desk: &Desk| {
        let lifeline = desk.control.lifeline_of(5).expect("watched");
        desk.control.listens_inherited(lifeline).len()
    };
    desk.listens_no_longer(WorkerId(1), here);
    assert_eq!(inherits(&desk), 1);
    desk.listens_no_longer(WorkerId::FIRST, here);
    assert_eq!(inherits(&desk), 0);
    let client = desk.control.client(slot).expect("it is there");
    assert!(client.listens.is_empty());
}

#[test]
fn files_are_decided_about_by_the_busiest_of_ten_seconds() {
    let (_file, settings) = with_policy("peak");
    let (mut desk, _fast, loads) = desk(&settings);
    let mut now = Instant::now();
    desk.listens(WorkerId::FIRST, local(80), false, now);
    // Files are the engine's below fifty.
    pass(&mut desk, &loads, &mut now, 12, 40);
    assert_eq!(desk.placing.leaves(1 << 20), Some((None, 40.0)));
    pass(&mut desk, &loads, &mut now, 1, 60);
    for _ in 0..9 {
        pass(&mut desk, &loads, &mut now, 1, 40);
        assert_eq!(
            desk.placing.leaves(1 << 20),
            Some((Some((0, u64::MAX)), 60.0))
        );
    }
    pass(&mut desk, &loads, &mut now, 1, 40);
    assert_eq!(desk.placing.leaves(1 << 20), Some((None, 40.0)));
}

#[test]
fn files_of_who_is_not_placed_by_the_policy_are_not_its() {
    let (_file, settings) = with_policy("others");
    let settings = settings + "[placements]\n\"0.0.0.0:81\" = \"engine\"\n";
    let (mut desk, _fast, loads) = desk(&settings);
    let mut now = Instant::now();
    desk.listens(WorkerId::FIRST, local(80), false, now);
    desk.listens(WorkerId::FIRST, local(81), false, now);
    desk.listens(WorkerId::FIRST, local(82), true, now);
    pass(&mut desk, &loads, &mut now, 12, 40);
    // A client, and servers that are the engine's whatever comes.
    let others: [&[(u32, SocketAddr)]; 3] =
        [&[], &[(1, local(81))], &[(1, local(81)), (2, local(82))]];
    for listens in others {
        assert_eq!(
            let_read(&mut desk, 9, listens),
            Reader::Engine(Governed::No)
        );
    }
    assert_eq!(desk.readers, Readers::default());
    let both = [(1, local(81)), (2, local(80))];
    assert!(matches!(
        let_read(&mut desk, 9, &both),
        Reader::Program { .. }
    ));
}

#[test]
fn another_figure_makes_nothing_of_what_is_known() {
    let (_file, settings) = with_policy("figure");
    let (mut desk, mut fast, loads) = desk("placement = \"adaptive\"\nplacement_rate = 1000\n");
    let mut now = Instant::now();
    desk.listens(WorkerId::FIRST, local(80), false, now);
    told(&mut fast);
    pass(&mut desk, &loads, &mut now, 2 * DWELL_NS / LOOK_NS, 40);
    assert_eq!(told(&mut fast), [(80, Some((0, 0)))]);
    let configured = |text: &str| Config::parse("x", text).expect("valid").placements();
    desk.place_by(configured(&settings), now);
    assert_eq!(told(&mut fast), [(80, Some((SHARE_ALL, 0)))]);
    let placed = desk.placed(local(80)).expect("shared");
    assert_eq!((&*placed.why, placed.rate), ("not known yet", 0));
    // The same figure, and other bands: what is known holds.
    pass(&mut desk, &loads, &mut now, 2 * DWELL_NS / LOOK_NS, 40);
    assert_eq!(told(&mut fast), [(80, Some((0, 0)))]);
    let text = FROM_100.replace("100", "30");
    let lower = Written::new("lower", &text);
    desk.place_by(
        configured(&format!("placement = \"adaptive\"\n{}", lower.setting())),
        now,
    );
    pass(&mut desk, &loads, &mut now, 1, 40);
    assert_eq!(told(&mut fast), [(80, Some((SHARE_ALL, 0)))]);
}
