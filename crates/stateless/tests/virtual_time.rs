//! The load client against a server on our own TCP, in virtual time, over links that lose, repeat
//! and reorder. Every request is answered once, every body is right, and nothing is left.

mod common;

use common::{Faults, Habits, Load, Stateless, World};
use stateless::client::Finish;
use stateless::client::run::{Due, Plan};

const SECOND: u64 = 1_000_000_000;
const REQUESTS: u64 = 400;

fn plan(due: Due, connections: u64) -> Plan {
    Plan {
        due,
        connections,
        requests: Some(REQUESTS),
        duration_ns: None,
        ramp_ns: 0,
        grace_ns: 120 * SECOND,
        retry_ns: SECOND,
    }
}

fn load(per_connection: u32, finish: Finish, due: Due) -> Load {
    Load {
        paths: ["/0", "/100", "/1400", "/5000", "/60000"]
            .map(Into::into)
            .into(),
        per_connection,
        finish,
        paced: matches!(due, Due::Requests(_)),
        timeout_us: 60_000_000,
        plan: plan(due, 20),
    }
}

/// Runs it; what is counted must be exact where nothing is lost, and complete where it is.
fn run(seed: u64, load: &Load, habits: Habits, faults: Faults) -> World {
    let mut world = World::new(seed, load, habits, faults);
    world.run(600 * SECOND);
    let counters = world.runner.client().counters();
    let said = format!("seed {seed}, {faults:?}, {habits:?}: {counters:#?}");
    assert_eq!(counters.requests, REQUESTS, "{said}");
    assert_eq!(counters.responses, REQUESTS, "{said}");
    assert_eq!(counters.status_2xx, REQUESTS, "{said}");
    assert_eq!(counters.bodies_wrong + counters.not_http, 0, "{said}");
    assert_eq!(
        counters.lost() + counters.malformed + counters.excess + counters.unanswered,
        0,
        "{said}"
    );
    assert_eq!(world.runner.client().outstanding(), 0, "{said}");
    assert_eq!(world.runner.client().latency().len(), REQUESTS, "{said}");
    world
}

const WAYS: [(u32, Finish); 5] = [
    (1, Finish::ByServer),
    (1, Finish::ByClient),
    (7, Finish::ByServer),
    (7, Finish::ByClient),
    (1000, Finish::ByClient),
];

#[test]
fn without_faults_every_segment_has_its_purpose() {
    for (per_connection, finish) in WAYS.into_iter().chain([(7, Finish::ByReset)]) {
        for due in [
            Due::AsTheyReturn,
            Due::Connections(1000.0),
            Due::Requests(1000.0),
        ] {
            let load = load(per_connection, finish, due);
            let world = run(1, &load, Habits::default(), Faults::default());
            let counters = world.runner.client().counters();
            let said = format!("{per_connection} {finish:?} {due:?}: {counters:#?}");
            assert_eq!(counters.losses(), 0, "{said}");
            assert_eq!(counters.errors(), 0, "{said}");
            assert_eq!(counters.closed, counters.syns, "{said}");
            assert_eq!(counters.syn_acks, counters.syns, "{said}");
            assert_eq!(counters.stale + counters.not_a_state, 0, "{said}");
            assert_eq!(world.server.requests, REQUESTS, "{said}");
            assert_eq!(world.server.connections, counters.syns, "{said}");
        }
    }
}

#[test]
fn a_machine_that_stands_still_loses_nothing_and_leaves_out_nothing() {
    for (per_connection, finish) in WAYS.into_iter().filter(|(count, _)| *count < 10) {
        for due in [Due::Connections(200.0), Due::Requests(200.0)] {
            // In the middle, and over the end.
            for at in [3 * SECOND / 4, SECOND, 2 * SECOND - SECOND / 100] {
                let mut load = load(per_connection, finish, due);
                load.plan.connections = 1000;
                load.plan.requests = None;
                load.plan.duration_ns = Some(2 * SECOND);
                load.plan.grace_ns = SECOND / 2;
                let mut world = World::new(1, &load, Habits::default(), Faults::default());
                world.stall = Some((world.now_ns + at, 3 * SECOND));
                world.run(600 * SECOND);
                let counters = world.runner.client().counters();
                let said = format!("{per_connection} {finish:?} {due:?} {at}: {counters:#?}");
                let begun = match due {
                    Due::Requests(_) => counters.requests,
                    _ => counters.syns,
                };
                assert_eq!(begun, REQUESTS, "{said}");
                // The server may have sent something again; it could not know.
                assert_eq!(counters.syns_again + counters.errors(), 0, "{said}");
                assert_eq!(world.runner.client().outstanding(), 0, "{said}");
                assert_eq!(world.runner.lasted_ns(world.now_ns), 2 * SECOND, "{said}");
            }
        }
    }
}

#[test]
fn loss_is_made_good() {
    for (per_connection, finish) in WAYS {
        for seed in 0..6 {
            let faults = Faults {
                loss: 30,
                ..Faults::default()
            };
            let load = load(per_connection, finish, Due::AsTheyReturn);
            let world = run(seed, &load, Habits::default(), faults);
            assert!(world.runner.client().counters().losses() > 0);
        }
    }
}

#[test]
fn what_is_repeated_or_overtaken_is_counted_once() {
    for (per_connection, finish) in WAYS {
        for seed in 0..6 {
            let faults = Faults {
                loss: 10,
                duplication: 50,
                delay: 100,
            };
            for due in [Due::AsTheyReturn, Due::Requests(2000.0)] {
                let load = load(per_connection, finish, due);
                run(seed, &load, Habits::default(), faults);
            }
        }
    }
}

#[test]
fn chunks_and_early_ends_are_understood() {
    for seed in 0..6 {
        for loss in [0, 20] {
            let habits = Habits {
                requests: 5,
                chunked: true,
                ..Habits::default()
            };
            let faults = Faults {
                loss,
                ..Faults::default()
            };
            let load = load(1000, Finish::ByClient, Due::AsTheyReturn);
            let world = run(seed, &load, habits, faults);
            let counters = world.runner.client().counters();
            assert!(counters.closed_early >= REQUESTS / 5 - 20, "{counters:#?}");
        }
    }
}

#[test]
fn a_request_that_a_close_overtakes_is_an_error() {
    for seed in 0..6 {
        let habits = Habits {
            requests: 5,
            silent: true,
            ..Habits::default()
        };
        let load = load(1000, Finish::ByClient, Due::AsTheyReturn);
        let mut world = World::new(seed, &load, habits, Faults::default());
        world.run(600 * SECOND);
        let counters = world.runner.client().counters();
        assert!(counters.unanswered > 0, "{counters:#?}");
        assert_eq!(
            counters.responses + counters.unanswered,
            REQUESTS,
            "{counters:#?}"
        );
        assert_eq!(counters.errors(), counters.unanswered, "{counters:#?}");
    }
}

#[test]
fn latency_counts_from_when_a_request_was_due() {
    // One connection carries what ten would have to: requests wait, and their waiting counts.
    let mut load = load(1000, Finish::ByClient, Due::Requests(20_000.0));
    load.paths = vec!["/100".into()];
    load.plan.connections = 1;
    let world = run(3, &load, Habits::default(), Faults::default());
    let latency = world.runner.client().latency();
    // A round trip is 200 µs: the last of 400 requests, due after 20 ms, is answered after 80.
    assert!(
        (55_000..70_000).contains(&latency.max()),
        "{}",
        latency.max()
    );
    assert!(latency.min() < 500, "{}", latency.min());
}

/// A load of `count` requests, two at once, of which none waits for another.
fn few(count: u64, grace_ns: u64) -> Load {
    let mut load = load(1000, Finish::ByClient, Due::AsTheyReturn);
    load.paths = vec!["/100".into()];
    load.plan.connections = 2;
    load.plan.requests = Some(count);
    load.plan.grace_ns = grace_ns;
    load
}

#[test]
fn a_late_answer_is_awaited_and_not_taken_for_a_loss() {
    let habits = Habits {
        delay_ns: 4 * SECOND,
        ..Habits::default()
    };
    let mut world = World::new(1, &few(4, 10 * SECOND), habits, Faults::default());
    world.run(60 * SECOND);
    let counters = world.runner.client().counters();
    assert_eq!(counters.responses, 4, "{counters:#?}");
    // No SYN comes into a connection whose server has said that it has the request.
    assert_eq!(counters.losses() + counters.errors(), 0, "{counters:#?}");
}

#[test]
fn what_is_under_way_at_the_end_is_an_error() {
    let habits = Habits {
        delay_ns: 4 * SECOND,
        ..Habits::default()
    };
    let mut world = World::new(1, &few(4, 3 * SECOND), habits, Faults::default());
    world.run(60 * SECOND);
    let counters = world.runner.client().counters();
    assert_eq!(
        (counters.responses, counters.unfinished),
        (2, 2),
        "{counters:#?}"
    );
    assert_eq!(counters.errors(), 2, "{counters:#?}");
}

#[test]
fn an_answer_that_takes_too_long_is_given_up_after_the_timeout() {
    let habits = Habits {
        delay_ns: 100 * SECOND,
        ..Habits::default()
    };
    let mut load = few(4, 60 * SECOND);
    load.timeout_us = 5_000_000;
    let mut world = World::new(1, &load, habits, Faults::default());
    let began = world.now_ns;
    world.run(60 * SECOND);
    let counters = world.runner.client().counters();
    assert_eq!(
        (counters.responses, counters.timed_out),
        (0, 4),
        "{counters:#?}"
    );
    assert_eq!(
        counters.syns_again + counters.unfinished,
        0,
        "{counters:#?}"
    );
    let took = world.now_ns - began;
    // Twice five seconds, and each up to a turn of the hand later.
    assert!((10 * SECOND..15 * SECOND).contains(&took), "{took}");
}

#[test]
fn a_server_that_refuses_is_asked_less_and_less_and_no_more_than_was_wanted() {
    let habits = Habits {
        refuses: true,
        ..Habits::default()
    };
    let load = load(1, Finish::ByServer, Due::AsTheyReturn);
    let mut world = World::new(1, &load, habits, Faults::default());
    let began = world.now_ns;
    world.run(60 * SECOND);
    let counters = world.runner.client().counters();
    assert_eq!(counters.refused, REQUESTS, "{counters:#?}");
    assert_eq!(counters.errors(), REQUESTS, "{counters:#?}");
    assert_eq!(
        (counters.syns, counters.requests),
        (REQUESTS, 0),
        "{counters:#?}"
    );
    // Twenty at once, twenty times: pauses of 1, 2, 4, … milliseconds up to a second.
    let took = world.now_ns - began;
    assert!(took > 5 * SECOND, "{took}");
    // At a rate, the rate is kept.
    let mut load = load.clone();
    load.plan.due = Due::Connections(1000.0);
    let mut world = World::new(1, &load, habits, Faults::default());
    let began = world.now_ns;
    world.run(60 * SECOND);
    assert_eq!(world.runner.client().counters().refused, REQUESTS);
    let took = world.now_ns - began;
    assert!(took < SECOND, "{took}");
}

#[test]
fn a_connection_that_is_not_opened_by_the_end_is_an_error() {
    let mut load = few(1, SECOND);
    load.plan.requests = None;
    load.plan.duration_ns = Some(SECOND);
    let faults = Faults {
        loss: 1000,
        ..Faults::default()
    };
    let mut world = World::new(1, &load, Habits::default(), faults);
    world.run(60 * SECOND);
    let counters = world.runner.client().counters();
    assert_eq!(
        (counters.unfinished, counters.errors()),
        (2, 2),
        "{counters:#?}"
    );
}

#[test]
fn a_server_without_sessions_that_begins_anew_leaves_nothing_unanswered() {
    // A frame was lost, so it is asked from the first request on again; the end of all may come in
    // the middle of that.
    let ways = WAYS.into_iter().filter(|(count, _)| *count < 10);
    for (per_connection, finish) in ways {
        for due in [Due::AsTheyReturn, Due::Requests(2000.0)] {
            for seed in 0..20 {
                let faults = Faults {
                    loss: 30,
                    ..Faults::default()
                };
                let mut load = load(per_connection, finish, due);
                load.paths = vec!["/?s=64".into()];
                let mut world = World::with(Stateless::new(), seed, &load, faults);
                world.run(600 * SECOND);
                let counters = world.runner.client().counters();
                let said =
                    format!("seed {seed}, {per_connection}, {finish:?}, {due:?}: {counters:#?}");
                assert_eq!(counters.responses, REQUESTS, "{said}");
                assert_eq!(counters.errors(), 0, "{said}");
            }
        }
    }
}

#[test]
fn connections_that_were_held_are_let_go_of_in_portions() {
    const HELD: u64 = 3_000;
    const MILLISECOND: u64 = 1_000_000;
    let mut load = load(0, Finish::ByClient, Due::Connections(100_000.0));
    load.plan.connections = HELD;
    load.plan.requests = Some(HELD);
    // It does not take from the time to let go.
    load.plan.grace_ns = 5 * MILLISECOND;
    let mut world = World::new(3, &load, Habits::default(), Faults::default());
    world.run(600 * SECOND);
    let counters = world.runner.client().counters();
    assert_eq!(counters.syn_acks, HELD, "{counters:#?}");
    assert_eq!(counters.resets, HELD, "{counters:#?}");
    assert_eq!(world.resets.len() as u64, HELD);
    let within = |span: u64, most: usize| {
        let later = world.resets.iter().skip(most);
        let mut pairs = world.resets.iter().zip(later);
        pairs.all(|(first, next)| next - first >= span)
    };
    // 50 in a millisecond, or twice a batch if that is late.
    assert!(within(10 * MILLISECOND, 10 * 50 + 2 * 256));
    assert!(within(2 * MILLISECOND, 2 * 50 + 2 * 256));
    let (first, last) = (world.resets[0], world.resets[HELD as usize - 1]);
    assert!((50 * MILLISECOND..90 * MILLISECOND).contains(&(last - first)));
}

/// Whoever is told to do more than fits is told how much of it was left.
#[test]
fn what_was_due_and_not_begun_is_said_at_the_end() {
    let mut load = load(1, Finish::ByServer, Due::Connections(10_000.0));
    load.plan.requests = None;
    load.plan.duration_ns = Some(SECOND);
    let run = |load: &Load| {
        let mut world = World::new(1, load, Habits::default(), Faults::default());
        world.run(600 * SECOND);
        (
            world.runner.backlog(world.now_ns),
            world.runner.client().counters().syns,
        )
    };
    load.plan.connections = 1;
    let (left, begun) = run(&load);
    assert!(left > 5_000, "{left}");
    assert_eq!(left + begun, 10_000);
    load.plan.connections = 1_000;
    assert_eq!(run(&load), (0, 10_000));
    // With a number of requests no more are due than those.
    load.plan.requests = Some(50);
    load.plan.connections = 1;
    assert_eq!(run(&load), (0, 50));
}
