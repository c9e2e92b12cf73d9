use super::*;
use crate::network::{FixedNetwork, NicId};

fn network() -> FixedNetwork {
    FixedNetwork::between(MacAddr([2; 6]), address(1), MacAddr([4; 6]))
}

/// Everybody is behind a router.
fn routed() -> FixedNetwork {
    let mut network = network();
    network.gateway = Some(address(254));
    network
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// On the first link.
fn on_link<A>(address: A) -> OnLink<A> {
    OnLink {
        nic: NicId::default(),
        address,
    }
}

/// With that hardware address, each byte of which is this.
fn at(byte: u8) -> Reach {
    Reach::At(on_link(MacAddr([byte; 6])))
}

fn far(number: u32) -> IpAddr {
    IpAddr::from((0x0a60_0000 + number).to_be_bytes())
}

fn in_use(paths: &Paths) -> usize {
    paths.by_course.len()
}

/// In a turn of its own, as someone who has no path yet.
fn find(paths: &mut Paths, network: &mut FixedNetwork, to: IpAddr) -> PathId {
    paths.begin_turn();
    paths.find(network, address(1), to, None).expect("asked")
}

/// The same, for a connection.
fn connect(paths: &mut Paths, network: &mut FixedNetwork, to: IpAddr) -> PathId {
    let path = find(paths, network, to);
    paths.acquire(path);
    path
}

#[test]
fn whoever_is_behind_the_same_router_has_the_same_path() {
    let mut network = routed();
    let mut paths = Paths::with_limit(16);
    let first = connect(&mut paths, &mut network, far(0));
    for number in 1..10_000 {
        assert_eq!(connect(&mut paths, &mut network, far(number)), first);
    }
    assert_eq!((paths.count, paths.neighbours.iter().count()), (1, 1));
    assert_eq!((paths.remembered(), network.asked), (16, 10_000));
    // Of those that came last nobody is asked for.
    find(&mut paths, &mut network, far(9_990));
    assert_eq!(network.asked, 10_000);
    find(&mut paths, &mut network, far(0));
    assert_eq!(network.asked, 10_001);
    for _ in 0..10_000 {
        paths.release(first);
    }
    assert_eq!(in_use(&paths), 1, "it is the path of what is remembered");
}

#[test]
fn what_differs_has_a_path_of_its_own_for_as_long() {
    let mut network = routed();
    network.narrow = vec![(far(1), 1_000), (far(3), 1_000)];
    let mut paths = Paths::with_limit(1);
    let all: Vec<_> = (0..4)
        .map(|number| connect(&mut paths, &mut network, far(number)))
        .collect();
    assert_eq!(all[0], all[2]);
    assert_eq!(all[1], all[3]);
    let mtus = all.iter().map(|path| paths.mtu(*path));
    assert!(mtus.eq([None, Some(1_000), None, Some(1_000)]));
    assert_eq!((in_use(&paths), paths.count), (2, 2));
    for path in [all[1], all[3]] {
        paths.release(path);
    }
    // One is remembered, until another is.
    assert_eq!(in_use(&paths), 2);
    find(&mut paths, &mut network, far(4));
    assert_eq!(in_use(&paths), 1);
    network.narrow.push((far(5), 500));
    connect(&mut paths, &mut network, far(5));
    assert_eq!(paths.count, 2, "its place is taken again");
}

#[test]
fn a_path_in_use_outlives_what_is_remembered_of_it() {
    let mut network = network();
    let mut paths = Paths::with_limit(2);
    let kept = connect(&mut paths, &mut network, address(2));
    for last in 3..20 {
        find(&mut paths, &mut network, address(last));
        assert!(paths.remembered() <= 2 && in_use(&paths) <= 3);
    }
    assert_eq!(find(&mut paths, &mut network, address(2)), kept);
    assert_eq!(paths.reach(&mut network, kept), at(4));
}

#[test]
fn a_link_that_is_swept_has_room_for_every_neighbour_in_use() {
    let mut network = network();
    let mut paths = Paths::with_limit(4);
    let kept: Vec<_> = (2..5)
        .map(|last| (last, connect(&mut paths, &mut network, address(last))))
        .collect();
    for last in 10..250 {
        find(&mut paths, &mut network, address(last));
        // Those in use, those that are remembered, and one.
        assert!(paths.neighbours.iter().count() <= 8);
    }
    for (last, path) in kept {
        assert!(paths.neighbour_changed(on_link(address(last)), Knowledge::Failed));
        assert_eq!(paths.next_hop(path), Some(on_link(address(last))));
        assert_eq!(paths.reach(&mut network, path), Reach::Unreachable);
    }
    let users: u32 = paths.neighbours.iter().map(|n| n.paths).sum();
    assert_eq!(users as usize, in_use(&paths));
}

#[test]
fn a_change_is_seen_by_every_path_through_that_neighbour() {
    let mut network = network();
    let mut paths = Paths::with_limit(4);
    let path = find(&mut paths, &mut network, address(2));
    assert_eq!(paths.reach(&mut network, path), at(4));
    assert!(paths.neighbour_changed(on_link(address(2)), Knowledge::Unresolved));
    assert_eq!(
        paths.reach(&mut network, path),
        Reach::Resolving(on_link(address(2)))
    );
    paths.neighbour_changed(on_link(address(2)), Knowledge::Failed);
    assert_eq!(paths.reach(&mut network, path), Reach::Unreachable);
    assert!(!paths.neighbour_changed(on_link(address(9)), Knowledge::Failed));
}

#[test]
fn an_answer_that_is_older_than_what_was_told_is_none() {
    let mut network = network();
    let mut paths = Paths::with_limit(1);
    let path = find(&mut paths, &mut network, address(2));
    let there = |last: u8| Knowledge::Resolved {
        mac: MacAddr([last; 6]),
        stale: false,
    };
    let asked = paths.as_of();
    // What is told of another one makes no answer old.
    find(&mut paths, &mut network, address(3));
    paths.neighbour_changed(on_link(address(3)), Knowledge::Failed);
    let answered = paths.neighbour_answered(on_link(address(2)), there(6), asked);
    assert!(answered);
    assert_eq!(paths.reach(&mut network, path), at(6));
    paths.neighbour_changed(on_link(address(2)), there(8));
    let old = paths.neighbour_answered(on_link(address(2)), there(6), asked);
    assert!(!old);
    assert_eq!(paths.reach(&mut network, path), at(8));
    let answered = paths.neighbour_answered(on_link(address(2)), there(4), paths.as_of());
    assert!(answered);
}

#[test]
fn who_comes_again_is_not_told_of_by_what_was_asked_before() {
    let mut network = network();
    let mut paths = Paths::with_limit(1);
    find(&mut paths, &mut network, address(2));
    let asked = paths.as_of();
    // Nobody hears of it for a while.
    for last in 3..9 {
        find(&mut paths, &mut network, address(last));
    }
    assert_eq!(
        paths.known_neighbour(on_link(address(2))),
        None,
        "it was forgotten"
    );
    find(&mut paths, &mut network, address(2));
    let old = paths.neighbour_answered(on_link(address(2)), Knowledge::Failed, asked);
    assert!(!old);
}

#[test]
fn a_turn_asks_for_so_many_neighbours_and_the_rest_go_on_as_before() {
    let mut network = network();
    let mut paths = Paths::with_limit(100);
    let all: Vec<PathId> = (2..32)
        .map(|last| connect(&mut paths, &mut network, address(last)))
        .collect();
    let there = at(4);
    network.peer = MacAddr([6; 6]);
    paths.neighbours_changed();
    let mut turns = 0;
    loop {
        paths.begin_turn();
        turns += 1;
        let reached = all.iter().map(|path| paths.reach(&mut network, *path));
        let old = reached.filter(|reach| *reach == there).count();
        assert_eq!(old, 30usize.saturating_sub(turns * QUESTIONS as usize));
        if old == 0 {
            break;
        }
    }
}

#[test]
fn a_route_that_may_have_changed_is_followed_until_it_is_asked_for() {
    let mut network = routed();
    let mut paths = Paths::with_limit(2);
    let old = connect(&mut paths, &mut network, far(0));
    for number in 1..5 {
        connect(&mut paths, &mut network, far(number));
    }
    network.gateway = Some(address(253));
    paths.routes_changed();
    assert!(!paths.is_current(old));
    paths.questions = Questions(1);
    let own = Some(old);
    let new = paths.find(&mut network, address(1), far(0), own);
    assert!(new.is_ok_and(|new| new != old && paths.is_current(new)));
    // What is not asked for: of others that have one, of those that are remembered, and of strangers.
    let later = [(far(1), own, Ok(old)), (far(4), None, Ok(old))];
    for (to, own, expected) in later {
        assert_eq!(paths.find(&mut network, address(1), to, own), expected);
    }
    let stranger = paths.find(&mut network, address(1), far(9), None);
    assert_eq!(stranger, Err(Later));
    // Each goes over to the one new path, and the old one is gone.
    for number in 0..5 {
        paths.begin_turn();
        let path = paths.find(&mut network, address(1), far(number), own);
        assert_eq!(path, new);
        paths.acquire(path.expect("asked"));
        paths.release(old);
    }
    assert_eq!((in_use(&paths), paths.count), (1, 2));
}

#[test]
fn nobody_waits_on_a_path_that_leads_nowhere() {
    let mut network = routed();
    let mut paths = Paths::with_limit(4);
    let nowhere = paths.path_of(NO_COURSE);
    paths.acquire(nowhere);
    assert_eq!(paths.reach(&mut network, nowhere), Reach::Unreachable);
    // One that was not there may be there now.
    paths.routes_changed();
    paths.questions = Questions(0);
    let own = Some(nowhere);
    let found = paths.find(&mut network, address(1), far(0), own);
    assert_eq!(found, Err(Later));
    paths.begin_turn();
    let found = paths.find(&mut network, address(1), far(0), own);
    let reach = found.map(|path| paths.reach(&mut network, path));
    assert_eq!(reach, Ok(at(4)));
}

#[test]
fn a_tick_tells_of_so_many_neighbours_and_of_the_others_at_the_next() {
    let mut network = network();
    let mut paths = Paths::with_limit(200);
    for last in 2..202 {
        let path = find(&mut paths, &mut network, address(last));
        assert_eq!(paths.reach(&mut network, path), at(4));
        paths.neighbour_changed(on_link(address(last)), Knowledge::Failed);
    }
    for left in [136, 72, 8, 0] {
        paths.tick(&mut network);
        let used = paths.neighbours.iter().filter(|n| n.used).count();
        assert_eq!(used, left);
    }
    assert!(!paths.needs_tick());
}

#[test]
fn where_no_route_leads_it_goes_where_segments_come_from() {
    let mut network = routed();
    network.unrouted = vec![far(1), far(2)];
    let mut paths = Paths::with_limit(4);
    find(&mut paths, &mut network, far(0));
    assert!(!paths.listens(), "everybody has a route");
    let nowhere = connect(&mut paths, &mut network, far(1));
    assert_eq!(paths.reach(&mut network, nowhere), Reach::Unreachable);
    assert!(paths.listens() && !paths.is_settled(nowhere));
    let asked = network.asked;
    find(&mut paths, &mut network, far(1));
    assert_eq!(network.asked, asked, "the kernel has said what it knows");
    for number in 0..3 {
        paths.heard(address(1), far(number), on_link(MacAddr([8; 6])));
    }
    // Who has a route is sent to along it.
    let there = find(&mut paths, &mut network, far(0));
    assert_eq!(paths.reach(&mut network, there), at(4));
    let (first, second) = (
        connect(&mut paths, &mut network, far(1)),
        connect(&mut paths, &mut network, far(2)),
    );
    assert_eq!(first, second);
    assert!(paths.is_settled(first));
    assert_eq!(paths.reach(&mut network, first), at(8));
    // Without questions it stays so.
    paths.questions = Questions(0);
    let found = paths.find(&mut network, address(1), far(1), Some(first));
    assert_eq!(found, Ok(first));
    paths.release(nowhere);
}

#[test]
fn who_comes_from_another_station_is_sent_to_there_after_a_tick() {
    let mut network = routed();
    network.unrouted = vec![far(1)];
    let mut paths = Paths::with_limit(4);
    find(&mut paths, &mut network, far(1));
    paths.heard(address(1), far(1), on_link(MacAddr([8; 6])));
    let old = connect(&mut paths, &mut network, far(1));
    paths.heard(address(1), far(1), on_link(MacAddr([8; 6])));
    assert!(!paths.needs_tick());
    paths.heard(address(1), far(1), on_link(MacAddr([6; 6])));
    assert!(paths.needs_tick() && paths.is_settled(old));
    paths.tick(&mut network);
    assert!(!paths.needs_tick() && !paths.is_settled(old));
    let new = find(&mut paths, &mut network, far(1));
    assert_eq!(paths.reach(&mut network, new), at(6));
    // A route that comes is taken.
    network.unrouted.clear();
    paths.routes_changed();
    let routed = find(&mut paths, &mut network, far(1));
    let reach = paths.reach(&mut network, routed);
    assert_eq!(reach, at(4));
}
