use super::*;
use crate::network::FixedNetwork;

fn network() -> FixedNetwork {
    FixedNetwork {
        mac: MacAddr([2; 6]),
        addresses: vec!["10.0.0.1".parse().unwrap()],
        peer: MacAddr([4; 6]),
        steered: Vec::new(),
        ports: Vec::new(),
    }
}

fn neighbours(paths: &Paths) -> impl Iterator<Item = &Neighbour> {
    paths.neighbours.iter().take(paths.neighbour_count as usize)
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

#[test]
fn a_path_in_use_is_not_evicted() {
    let mut network = network();
    let mut paths = Paths::with_limit(2);
    let kept = paths
        .find(&mut network, address(1), address(2))
        .expect("room");
    paths.acquire(kept);
    for last in 3..20 {
        paths.begin_turn();
        assert!(paths.find(&mut network, address(1), address(last)).is_ok());
        assert_eq!(paths.len(), 2.min(usize::from(last) - 1));
    }
    assert_eq!(paths.find(&mut network, address(1), address(2)), Ok(kept));
    let other = paths
        .find(&mut network, address(1), address(30))
        .expect("room");
    paths.acquire(other);
    assert_eq!(
        paths.find(&mut network, address(1), address(31)),
        Err(NoPath::Full),
        "all are in use"
    );
    paths.release(other);
    assert!(paths.find(&mut network, address(1), address(31)).is_ok());
}

#[test]
fn a_link_that_is_swept_has_room_for_every_neighbour_in_use() {
    let mut network = network();
    let mut paths = Paths::with_limit(4);
    let kept: Vec<_> = (2..5)
        .map(|last| {
            let path = paths
                .find(&mut network, address(1), address(last))
                .expect("room");
            paths.acquire(path);
            (last, path)
        })
        .collect();
    for last in 10..250 {
        paths.begin_turn();
        assert!(paths.find(&mut network, address(1), address(last)).is_ok());
        assert!(paths.neighbour_count <= 5);
    }
    for (last, path) in kept {
        let number = paths.neighbour_changed(address(last), Knowledge::Failed);
        assert!(number.is_some_and(|number| paths.goes_through(path, number)));
    }
    let users: u32 = neighbours(&paths).map(|n| n.paths).sum();
    assert_eq!(users, 4, "as many as there are paths");
}

#[test]
fn a_change_is_seen_by_every_path_through_that_neighbour() {
    let mut network = network();
    let mut paths = Paths::with_limit(4);
    let path = paths
        .find(&mut network, address(1), address(2))
        .expect("room");
    assert_eq!(paths.reach(&mut network, path), Reach::At(MacAddr([4; 6])));
    let number = paths.neighbour_changed(address(2), Knowledge::Unresolved);
    assert_eq!(
        paths.reach(&mut network, path),
        Reach::Resolving(number.expect("known"))
    );
    paths.neighbour_changed(address(2), Knowledge::Failed);
    assert_eq!(paths.reach(&mut network, path), Reach::Unreachable);
    assert_eq!(paths.neighbour_changed(address(9), Knowledge::Failed), None);
}

fn reached(paths: &mut Paths, network: &mut FixedNetwork, all: &[PathId]) -> Vec<Reach> {
    all.iter().map(|path| paths.reach(network, *path)).collect()
}

#[test]
fn a_turn_asks_so_much_and_the_rest_goes_on_as_before() {
    let mut network = network();
    let mut paths = Paths::with_limit(100);
    let all: Vec<PathId> = (2..32)
        .map(|last| {
            let path = loop {
                match paths.find(&mut network, address(1), address(last)) {
                    Ok(path) => break path,
                    Err(reason) => assert_eq!(reason, NoPath::Later),
                }
                paths.begin_turn();
            };
            paths.acquire(path);
            path
        })
        .collect();
    let there = vec![Reach::At(MacAddr([4; 6])); 30];
    assert_eq!(reached(&mut paths, &mut network, &all), there);
    network.peer = MacAddr([6; 6]);
    paths.neighbours_changed();
    let mut turns = 0;
    loop {
        paths.begin_turn();
        turns += 1;
        let reached = reached(&mut paths, &mut network, &all);
        let old = reached.iter().filter(|reach| **reach == there[0]);
        let old = old.count();
        assert_eq!(old, 30usize.saturating_sub(turns * QUESTIONS as usize));
        if old == 0 {
            break;
        }
    }
    // A route that may have changed is followed until it is asked for.
    paths.routes_changed();
    paths.begin_turn();
    paths.questions = 0;
    assert_eq!(
        reached(&mut paths, &mut network, &all[..1]),
        [Reach::At(MacAddr([6; 6]))]
    );
    // One that was not there may be there now.
    paths.leave_neighbour(all[0].0);
    assert_eq!(reached(&mut paths, &mut network, &all[..1]), [Reach::Later]);
    paths.begin_turn();
    assert_eq!(
        reached(&mut paths, &mut network, &all[..1]),
        [Reach::At(MacAddr([6; 6]))]
    );
}

#[test]
fn a_tick_tells_of_so_many_neighbours_and_of_the_others_at_the_next() {
    let mut network = network();
    let mut paths = Paths::with_limit(200);
    for last in 2..202 {
        paths.begin_turn();
        let path = paths.find(&mut network, address(1), address(last));
        let path = path.expect("room");
        assert_eq!(paths.reach(&mut network, path), Reach::At(MacAddr([4; 6])));
    }
    for number in 0..paths.neighbour_count {
        paths.neighbours[number].knowledge = Knowledge::Failed;
    }
    for left in [136, 72, 8, 0] {
        paths.tick(&mut network);
        let used = neighbours(&paths).filter(|n| n.used).count();
        assert_eq!(used, left);
    }
    assert!(!paths.needs_tick());
}
