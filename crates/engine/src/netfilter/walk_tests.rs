use super::*;
use crate::netfilter::packet::{Interface, Segment};
use crate::netfilter::rules::{Chain, Comparison, Element, Header, Load, Test};
use RuleVerdict::{Accept, Drop, Goto, Jump, Return};
use std::net::IpAddr;

fn table() -> Table {
    Table {
        family: 2,
        name: "t".to_owned(),
    }
}

fn rule(steps: impl IntoIterator<Item = Vec<Step>>, verdict: RuleVerdict) -> Rule {
    let mut steps: Vec<Step> = steps.into_iter().flatten().collect();
    steps.push(Step::Verdict(verdict));
    Rule { handle: 7, steps }
}

/// Two bytes of a header are these.
fn two_bytes(header: Header, from: usize, with: [u8; 2]) -> Vec<Step> {
    vec![
        Step::Load {
            what: Load::Header(header, from),
            len: 2,
            to: 0,
        },
        Step::Compare {
            at: 0,
            is: Comparison::Equal,
            with: with.to_vec(),
        },
    ]
}

fn port(port: u16) -> Vec<Step> {
    two_bytes(Header::Transport, 2, port.to_be_bytes())
}

/// From 10.`second`.0.0/16, as nft says it: by two bytes.
fn from(second: u8) -> Vec<Step> {
    two_bytes(Header::Network, 12, [10, second])
}

fn rate() -> Vec<Step> {
    vec![Step::Unknown("limit".to_owned())]
}

fn peers(second: u8) -> Ranges {
    let first = 10 << 24 | u128::from(second) << 16;
    Ranges::of([(first, first | 0xffff)])
}

/// An input chain, and others.
fn rules(drops: bool, chains: Vec<(&str, Vec<Rule>)>) -> Ruleset {
    let mut rules = Ruleset::default();
    rules.bases.push(Base {
        table: table(),
        chain: "input".to_owned(),
        hook: Hook::Input,
        nat: false,
        drops,
        priority: 0,
        devices: Vec::new(),
    });
    for (name, of) in chains {
        rules
            .chains
            .insert((table(), name.to_owned()), Chain { rules: of });
    }
    rules
}

/// Accepted, dropped and unclear.
fn parts(rules: &Ruleset) -> (Ranges, Ranges, Ranges) {
    let own: [IpAddr; 1] = ["10.0.0.1".parse().unwrap()];
    let packet = Packet {
        interface: &Interface {
            index: 3,
            name: "eth3".to_owned(),
            has_others: false,
        },
        way: Way::In,
        segment: Segment::Syn,
        own: &own,
        own_port: Some(80),
    };
    let mut of = (Ranges::NONE, Ranges::NONE, Ranges::NONE);
    for (peers, outcome) in rules.verdict(&packet, Ranges::all(32)) {
        let part = match outcome {
            Outcome::Accepted => &mut of.0,
            Outcome::Dropped(..) => &mut of.1,
            _ => &mut of.2,
        };
        *part = part.union(&peers);
    }
    of
}

#[test]
fn a_rule_that_holds_decides_and_the_policy_for_the_rest() {
    let all = Ranges::all(32);
    let accepts = vec![rule([port(81)], Drop), rule([port(80), from(1)], Accept)];
    let of = parts(&rules(true, vec![("input", accepts)]));
    assert_eq!(of, (peers(1), all.subtract(&peers(1)), Ranges::NONE));
    let of = parts(&rules(false, vec![("input", Vec::new())]));
    assert_eq!(of.0, all);
}

#[test]
fn what_is_not_known_matters_only_where_it_makes_a_difference() {
    let all = Ranges::all(32);
    let doubtful = |verdict| rule([from(1), rate()], verdict);
    // It logs, or it says what would be said anyway.
    let nothing = Rule {
        handle: 1,
        steps: rate(),
    };
    let input = vec![nothing, doubtful(Accept)];
    assert_eq!(parts(&rules(false, vec![("input", input.clone())])).0, all);
    let (_, dropped, unclear) = parts(&rules(true, vec![("input", input)]));
    assert_eq!((dropped, unclear), (all.subtract(&peers(1)), peers(1)));
    // In a chain that comes back it is the same.
    let called = vec![doubtful(Return), rule([from(2)], Drop)];
    let calls = vec![rule([], Jump("other".to_owned()))];
    let of = parts(&rules(false, vec![("input", calls), ("other", called)]));
    assert_eq!(of, (all.subtract(&peers(2)), peers(2), Ranges::NONE));
    // What may be accepted there may also come back, to what is dropped.
    let called = vec![rule([from(1), rate()], Accept)];
    let calls = vec![rule([], Jump("other".to_owned())), rule([], Drop)];
    let of = parts(&rules(false, vec![("input", calls), ("other", called)]));
    assert_eq!(of, (Ranges::NONE, all.subtract(&peers(1)), peers(1)));
    // A chain that may be called.
    let called = vec![rule([from(1)], Drop)];
    let calls = vec![rule([rate()], Jump("other".to_owned()))];
    let of = parts(&rules(false, vec![("input", calls), ("other", called)]));
    assert_eq!(of, (all.subtract(&peers(1)), Ranges::NONE, peers(1)));
}

#[test]
fn chains_come_back_where_they_were_called_unless_they_were_gone_to() {
    let all = Ranges::all(32);
    let other = vec![rule([from(1)], Accept), rule([from(2)], Return)];
    for (call, last) in [
        (Jump("other".to_owned()), all.subtract(&peers(1))),
        (Goto("other".to_owned()), Ranges::NONE),
    ] {
        let input = vec![rule([], call), rule([], Drop)];
        let of = parts(&rules(
            false,
            vec![("input", input), ("other", other.clone())],
        ));
        assert_eq!(of.1, last);
    }
}

#[test]
fn chains_that_call_each_other_end() {
    let input = vec![rule([], Jump("input".to_owned()))];
    let of = parts(&rules(false, vec![("input", input)]));
    assert_eq!(of.2, Ranges::all(32));
    // And so does what doubles with each call.
    let names: Vec<String> = (0..16).map(|n| format!("c{n}")).collect();
    let calls = |to: &String| vec![rule([], Jump(to.clone())); 32];
    let mut chains = vec![("input", calls(&names[1]))];
    for pair in names[1..].windows(2) {
        chains.push((&pair[0], calls(&pair[1])));
    }
    assert_eq!(parts(&rules(false, chains)).2, Ranges::all(32));
}

#[test]
fn every_chain_of_a_hook_has_to_accept() {
    let mut rules = rules(false, vec![("input", vec![rule([], Accept)])]);
    let mut second = rules.bases[0].clone();
    second.chain = "second".to_owned();
    rules.bases.push(second);
    let chain = Chain {
        rules: vec![rule([from(1)], Drop)],
    };
    rules.chains.insert((table(), "second".to_owned()), chain);
    assert_eq!(parts(&rules).1, peers(1));
    rules.bases[1].devices = vec!["eth4".to_owned()];
    assert_eq!(parts(&rules).0, Ranges::all(32), "another device's");
    rules.bases[1].devices = vec!["eth4".to_owned(), "eth*".to_owned()];
    assert_eq!(parts(&rules).1, peers(1), "of all that begin so");
    rules.bases[1].devices = Vec::new();
    rules.bases[1].nat = true;
    assert_eq!(parts(&rules).1, peers(1), "a SYN passes it");
    rules.bases[0].devices = vec!["eth4".to_owned()];
    assert_eq!(parts(&rules).1, peers(1), "after one that it does not pass");
}

#[test]
fn maps_say_what_becomes_of_whom() {
    let key = |second| vec![10, second];
    let element = |from, to, verdict| Element {
        from: key(from),
        to: key(to),
        datum: Some(Datum::Verdict(verdict)),
    };
    let mut set = Set {
        elements: vec![element(1, 1, Drop), element(2, 3, Accept)],
        ..Set::default()
    };
    let steps = vec![
        from(1)[0].clone(),
        Step::Find {
            at: 0,
            set: "map".to_owned(),
            inside: true,
            then: Then::Verdict,
        },
    ];
    let mut rules = rules(
        false,
        vec![(
            "input",
            vec![Rule { handle: 1, steps }, rule([from(3)], Drop)],
        )],
    );
    let name = (table(), "map".to_owned());
    rules.sets.insert(name.clone(), set.clone());
    assert_eq!(parts(&rules).1, peers(1), "3 is accepted before");
    set.otherwise = Some(Some(Datum::Verdict(Drop)));
    rules.sets.insert(name.clone(), set.clone());
    assert_eq!(parts(&rules).0, peers(2).union(&peers(3)));
    set.moves = true;
    rules.sets.insert(name, set);
    assert_eq!(parts(&rules).0, Ranges::NONE);
}

#[test]
fn states_flags_and_marks() {
    let of = |test| {
        let input = vec![Rule {
            handle: 1,
            steps: vec![Step::Test(test), Step::Verdict(Drop)],
        }];
        let of = parts(&rules(false, vec![("input", input)]));
        match (of.0.is_empty(), of.1.is_empty()) {
            (false, true) => 'a',
            (true, false) => 'd',
            _ => '?',
        }
    };
    assert_eq!(of(Test::State(8)), 'd');
    assert_eq!(of(Test::State(6)), 'a');
    assert_eq!(of(Test::Not(Box::new(Test::State(6)))), 'd');
    assert_eq!(of(Test::Flags(0x17, 0x02)), 'd', "FIN, SYN, RST, ACK: SYN");
    assert_eq!(of(Test::Flags(0x03, 0x03)), 'a');
    assert_eq!(of(Test::Flags(0xc2, 0x02)), '?', "it may have ECN's");
}

#[test]
fn connections_that_are_there_are_cut_off_by_what_comes_before_their_acceptance() {
    let established = Rule {
        handle: 2,
        steps: vec![Step::Test(Test::State(2)), Step::Verdict(Accept)],
    };
    let eth3 = Interface {
        index: 3,
        name: "eth3".to_owned(),
        has_others: false,
    };
    let own: IpAddr = "10.0.0.1".parse().unwrap();
    let cut = |input: Vec<Rule>, port| rules(true, vec![("input", input)]).cut(&eth3, own, port);
    let peer = |second: u8| IpAddr::from([10, second, 0, 9]);
    // Refused are new ones only.
    let after = vec![established.clone(), rule([from(1)], Drop)];
    assert_eq!(cut(after, Some(80)), None);
    let before = vec![rule([port(80), from(1)], Drop), established.clone()];
    assert_eq!(cut(before.clone(), Some(81)), None);
    assert_eq!(cut(before.clone(), None), None, "not privileged, so not 80");
    let found = cut(before, Some(80)).expect("cut off");
    assert!(found.drops(Way::In, peer(1)) && !found.drops(Way::In, peer(2)));
    assert!(!found.drops(Way::Out, peer(1)), "of output nothing is said");
    assert_eq!(found.by, "rule 7 of chain input in table ip t");
    // What only the kernel knows drops nothing.
    let doubtful = vec![rule([from(1), rate()], Drop), established];
    assert_eq!(cut(doubtful, Some(80)), None);
    // The way out has chains of its own.
    let mut leaving = rules(true, vec![("input", Vec::new())]);
    leaving.bases[0].hook = Hook::Output;
    let found = leaving.cut(&eth3, own, None).expect("nobody may leave");
    assert!(found.drops(Way::Out, peer(1)) && !found.drops(Way::In, peer(1)));
    assert_eq!(found.by, "the policy of chain input in table ip t");
}

/// Dropped by a rule with these steps, if they hold: `d`, if they do not: `a`, `?` if it is unclear, and `p` if it
/// holds for some peers.
fn holds(steps: Vec<Step>, sets: Vec<(&str, Set)>) -> char {
    let mut rules = rules(false, vec![("input", vec![rule([steps], Drop)])]);
    for (name, set) in sets {
        rules.sets.insert((table(), name.to_owned()), set);
    }
    let (accepted, dropped, unclear) = parts(&rules);
    match (accepted.is_empty(), dropped.is_empty(), unclear.is_empty()) {
        (false, true, true) => 'a',
        (true, false, true) => 'd',
        (true, true, false) => '?',
        (false, false, true) => 'p',
        _ => 'x',
    }
}

fn compare(at: usize, with: &[u8]) -> Step {
    Step::Compare {
        at,
        is: Comparison::Equal,
        with: with.to_vec(),
    }
}

fn key(of: &[u8], datum: Option<Datum>) -> Element {
    Element {
        from: of.to_vec(),
        to: of.to_vec(),
        datum,
    }
}

#[test]
fn steps_compute_on_registers() {
    let load = port(80)[0].clone();
    let value = Step::Value {
        bytes: vec![1, 2, 3, 4],
        to: 16,
    };
    let mask = Step::Mask {
        at: 0,
        to: 4,
        mask: vec![0xff, 0xf0],
        xor: vec![1, 0],
    };
    let swap = Step::Swap {
        at: 0,
        to: 4,
        len: 2,
        size: 2,
    };
    let between = |inside| Step::Between {
        at: 0,
        inside,
        from: vec![0, 79],
        to: vec![0, 81],
    };
    for (steps, expected) in [
        (vec![value.clone(), compare(16, &[1, 2, 3, 4])], 'd'),
        (vec![value, compare(16, &[1, 2, 3, 5])], 'a'),
        (vec![load.clone(), mask.clone(), compare(4, &[1, 80])], 'd'),
        (vec![load.clone(), mask, compare(4, &[0, 80])], 'a'),
        (vec![load.clone(), swap.clone(), compare(4, &[80, 0])], 'd'),
        (vec![load.clone(), swap, compare(4, &[0, 80])], 'a'),
        (vec![load.clone(), between(true)], 'd'),
        (vec![load.clone(), between(false)], 'a'),
        // What is not understood may have written anywhere.
        (vec![load, rate()[0].clone(), compare(0, &[0, 80])], '?'),
    ] {
        assert_eq!(holds(steps.clone(), Vec::new()), expected, "{steps:?}");
    }
}

#[test]
fn sets_hold_what_they_hold() {
    let find = |inside| Step::Find {
        at: 0,
        set: "set".to_owned(),
        inside,
        then: Then::Nothing,
    };
    let set = |keys: &[[u8; 2]]| Set {
        elements: keys.iter().map(|of| key(of, None)).collect(),
        ..Set::default()
    };
    let moves = |set| Set { moves: true, ..set };
    let catches_all = |set| Set {
        otherwise: Some(None),
        ..set
    };
    let of_port = |set, inside| holds(vec![port(80)[0].clone(), find(inside)], vec![("set", set)]);
    for (set, inside, outside) in [
        (set(&[[0, 79], [0, 80]]), 'd', 'a'),
        (set(&[[0, 79]]), 'a', 'd'),
        (set(&[]), 'a', 'd'),
        (moves(set(&[[0, 80]])), '?', '?'),
        (moves(set(&[])), '?', '?'),
        (catches_all(set(&[])), 'd', 'a'),
    ] {
        assert_eq!(of_port(set.clone(), true), inside, "{set:?}");
        assert_eq!(of_port(set.clone(), false), outside, "not in {set:?}");
    }
    // Of peers, each by itself, and one of which only half is known with them.
    let saddr = || from(1)[0].clone();
    let of_peers = |set| holds(vec![saddr(), find(true)], vec![("set", set)]);
    assert_eq!(of_peers(set(&[[10, 1], [10, 3]])), 'p');
    assert_eq!(
        holds(vec![saddr(), find(true)], Vec::new()),
        '?',
        "it has gone"
    );
    let sport = Step::Load {
        what: Load::Header(Header::Transport, 0),
        len: 2,
        to: 0,
    };
    let of_peers_port = holds(vec![sport, find(true)], vec![("set", set(&[[0, 9]]))]);
    assert_eq!(of_peers_port, '?');
}

#[test]
fn maps_load_what_they_have() {
    let load = Step::Find {
        at: 0,
        set: "map".to_owned(),
        inside: true,
        then: Then::Load(16),
    };
    let datum = |value: u8| Some(Datum::Value(vec![value; 4]));
    let map = |elements: Vec<Element>| Set {
        elements,
        ..Set::default()
    };
    let of = |load_key: &Step, map| {
        let steps = vec![load_key.clone(), load.clone(), compare(16, &[7; 4])];
        holds(steps, vec![("map", map)])
    };
    let dport = &port(80)[0];
    assert_eq!(of(dport, map(vec![key(&[0, 80], datum(7))])), 'd');
    assert_eq!(of(dport, map(vec![key(&[0, 80], datum(8))])), 'a');
    assert_eq!(
        of(dport, map(vec![key(&[0, 81], datum(7))])),
        'a',
        "not found"
    );
    assert_eq!(of(dport, map(vec![key(&[0, 80], None)])), '?', "no value");
    let moves = Set {
        moves: true,
        ..map(vec![key(&[0, 80], datum(8))])
    };
    assert_eq!(of(dport, moves), '?');
    let empty = Set {
        moves: true,
        ..Set::default()
    };
    assert_eq!(of(dport, empty), '?');
    let otherwise = Set {
        otherwise: Some(datum(7)),
        ..map(Vec::new())
    };
    assert_eq!(of(dport, otherwise), '?');
    // Who it is decides what is loaded.
    let saddr = &from(1)[0];
    assert_eq!(of(saddr, map(vec![key(&[10, 1], datum(7))])), '?');
}

#[test]
fn verdicts_of_a_map_are_certain_where_their_keys_are() {
    let find = |at: &Step| {
        let find = Step::Find {
            at: 0,
            set: "map".to_owned(),
            inside: true,
            then: Then::Verdict,
        };
        vec![at.clone(), find]
    };
    let drops = |of: &[u8]| key(of, Some(Datum::Verdict(Drop)));
    let accepts = |of: &[u8]| key(of, Some(Datum::Verdict(Accept)));
    let ends = |at: &Step, set: Set, rest: Vec<Rule>| {
        let steps = find(at);
        let mut input = vec![Rule { handle: 1, steps }];
        input.extend(rest);
        let mut rules = rules(false, vec![("input", input)]);
        rules.sets.insert((table(), "map".to_owned()), set);
        parts(&rules)
    };
    let all = Ranges::all(32);
    let map = |elements: Vec<Element>| Set {
        elements,
        ..Set::default()
    };
    let (dport, saddr) = (&port(80)[0], &from(1)[0]);
    assert_eq!(ends(dport, map(vec![drops(&[0, 80])]), Vec::new()).1, all);
    // One that is no verdict is passed by, and what nobody names goes on to the next rule.
    let odd = key(&[10, 3], None);
    let of = ends(
        saddr,
        map(vec![odd, accepts(&[10, 1]), drops(&[10, 2])]),
        vec![rule([], Drop)],
    );
    assert_eq!(of, (peers(1), all.subtract(&peers(1)), Ranges::NONE));
    // The peer's port may be that one or not: what is said otherwise may hold as well.
    let sport = Step::Load {
        what: Load::Header(Header::Transport, 0),
        len: 2,
        to: 0,
    };
    let of = ends(&sport, map(vec![drops(&[0, 9])]), Vec::new());
    assert_eq!(of.2, all);
    let otherwise = Set {
        otherwise: Some(Some(Datum::Verdict(Drop))),
        ..map(vec![accepts(&[0, 9])])
    };
    assert_eq!(ends(&sport, otherwise.clone(), Vec::new()).2, all);
    assert_eq!(ends(dport, otherwise, Vec::new()).1, all);
    // Elements of a map that moves may go; packets bring none that say something else.
    let moves = |keys| Set {
        moves: true,
        ..map(keys)
    };
    let goes = moves(vec![accepts(&[0, 81]), drops(&[0, 80])]);
    assert_eq!(ends(dport, goes, Vec::new()).2, all);
    let stays = moves(vec![drops(&[0, 81])]);
    assert_eq!(ends(dport, stays, Vec::new()).0, all);
}

#[test]
fn a_rule_that_counts_only_decides_nothing() {
    let all = Ranges::all(32);
    let counts = Rule {
        handle: 1,
        steps: from(1),
    };
    let input = vec![counts.clone(), rule([from(1)], Drop), counts];
    let of = parts(&rules(false, vec![("input", input)]));
    assert_eq!(of, (all.subtract(&peers(1)), peers(1), Ranges::NONE));
    // In a chain that is called twice, once for some.
    let other = vec![rule([from(2)], Drop)];
    let input = vec![
        rule([from(1)], Jump("other".to_owned())),
        rule([from(2)], RuleVerdict::Continue),
        rule([from(2)], Jump("other".to_owned())),
    ];
    let of = parts(&rules(false, vec![("input", input), ("other", other)]));
    assert_eq!(of.1, peers(2));
}

#[test]
fn only_chains_on_the_packets_way_are_passed() {
    let mut rules = rules(false, vec![("input", vec![rule([], Drop)])]);
    for (family, passes) in [
        (1, true),
        (2, true),
        (3, false),
        (5, true),
        (7, false),
        (10, false),
    ] {
        let table = Table {
            family,
            name: "t".to_owned(),
        };
        let chain = rules.chains[&(rules.bases[0].table.clone(), "input".to_owned())].clone();
        rules
            .chains
            .insert((table.clone(), "input".to_owned()), chain);
        rules.bases[0].table = table;
        assert_eq!(parts(&rules).1.is_empty(), !passes, "{family}");
    }
    // Places are told by the names that people know.
    let place = |family| Place {
        table: Table {
            family,
            name: "t".to_owned(),
        },
        chain: "c".to_owned(),
        rule: None,
    };
    for (family, name) in [
        (1, "inet"),
        (2, "ip"),
        (5, "netdev"),
        (7, "bridge"),
        (10, "ip6"),
    ] {
        let said = format!("the policy of chain c in table {name} t");
        assert_eq!(place(family).to_string(), said);
    }
}
