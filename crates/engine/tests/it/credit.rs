//! What a process that has a listener says it takes of it.

use crate::world::World;
use queue_pair::Submission;

/// As nginx with an accept mutex takes its listener out of its set: what comes then is others' at once.
#[test]
fn a_process_whose_credit_falls_is_offered_no_more() {
    let mut world = World::new();
    let (mut sleeper, mut other) = (world.attach(None), world.attach(None));
    let (port, listener) = world.listen(&mut sleeper);
    let joined = world.join(&mut other, &sleeper);
    let credit = |listener, total| Submission::Credit {
        listener,
        total,
        waits: total > 0,
    };
    sleeper.submit(credit(listener, 32));
    other.submit(credit(joined, 32));
    world.settle();
    sleeper.submit(credit(listener, 0));
    world.settle();
    for _ in 0..4 {
        world.peer.connect(world.now, port);
        world.settle();
    }
    sleeper.collect();
    other.collect_and_accept();
    assert_eq!(sleeper.accepted().len(), 0);
    assert_eq!(other.accepted().len(), 4);
    // And it may want some again.
    sleeper.submit(credit(listener, 32));
    world.settle();
    world.peer.connect(world.now, port);
    world.settle();
    sleeper.collect_and_accept();
    assert_eq!(sleeper.accepted().len(), 1);
}
