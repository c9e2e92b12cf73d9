//! What programs do in several calls that belong together, and that single acts rarely make.

use super::acts::{
    accept_from, add_to_set, close_one, dup_of, engine, fork, listener, poll_on, receive_from,
    select_on, send_to,
};
use super::model::{Model, Thing};
use crate::program::{
    Actor, Address, Call, Change, Destination, DupBy, Event, Family, Opt, Peer, Port, ReceiveBy,
    SendBy, Slot, Step, Wait,
};

type Idiom = fn(&mut Model, Actor) -> Option<()>;

const IDIOMS: &[Idiom] = &[
    bind_and_connect,
    copy_of_a_set,
    several_at_one_port,
    child_only_closes,
    child_waits_first,
    child_closes_the_listener,
    waits_beside_an_acceptor,
    hand_over_and_close,
    request_and_response,
    several_writers,
    forks_beside_a_stopped_engine,
];

/// Draws one; none, if it does not fit.
pub fn one(model: &mut Model) {
    let idiom = model.any(IDIOMS);
    if let Some(actor) = model.idle() {
        // What does not fit leaves the calls that did.
        let _ = idiom(model, actor);
    }
}

/// Most programs begin with a listener and a connection.
pub fn prelude(model: &mut Model) {
    if model.chance(80) {
        let slot = listener(model, 0);
        if let Some(slot) = slot
            && model.chance(90)
        {
            let _ = accepted(model, 0, slot);
        }
    }
}

/// A connection of the peer's, accepted.
fn accepted(model: &mut Model, actor: Actor, slot: Slot) -> Option<Slot> {
    let Some(Thing::Listener(port)) = model.thing(actor, slot) else {
        return None;
    };
    let connection = model.new_connection()?;
    let family = model.ports[usize::from(port)].1;
    model.peer(Peer::Connect {
        connection,
        port,
        family,
    });
    accept_from(model, actor, slot)
}

/// A stream of the actor's: one that it has, or a new one.
fn some_stream(model: &mut Model, actor: Actor) -> Option<Slot> {
    if model.chance(70)
        && let Some(slot) = model.stream(actor)
    {
        return Some(slot);
    }
    let has = model.pick_slot(actor, |thing| matches!(thing, Thing::Listener(_)));
    let slot = match has {
        Some(slot) => slot,
        None => listener(model, actor)?,
    };
    accepted(model, actor, slot)
}

fn connection_of(model: &Model, actor: Actor, slot: Slot) -> Option<u8> {
    match model.thing(actor, slot) {
        Some(Thing::Stream(connection)) => Some(connection),
        _ => None,
    }
}

/// The client's port is chosen before it connects.
fn bind_and_connect(model: &mut Model, actor: Actor) -> Option<()> {
    let family = model.any(&[Family::V4, Family::V6]);
    let connection = model.new_connection()?;
    let slot = model.hold(actor, Thing::Stream(connection), false);
    model.push(
        actor,
        Call::Socket {
            new: slot,
            family,
            nonblocking: false,
        },
    );
    if model.chance(50) {
        let option = Opt::ReuseAddress;
        let value = 1;
        model.push(
            actor,
            Call::SetOption {
                slot,
                option,
                value,
            },
        );
    }
    // Where a listener was before, if there was none: the port is busy then, or it is not.
    let port = if model.chance(50) {
        Port::Any
    } else {
        Port::Own(model.new_port(family)?)
    };
    let address = model.any(&[Address::Any, Address::Interface]);
    model.push(
        actor,
        Call::Bind {
            slot,
            address,
            port,
        },
    );
    let to = Destination::Peer(connection);
    model.push(actor, Call::Connect { slot, to });
    send_to(model, actor, slot);
    Some(())
}

/// The set that is waited in and the one that is registered in are copies of each other.
fn copy_of_a_set(model: &mut Model, actor: Actor) -> Option<()> {
    let stream = some_stream(model, actor)?;
    let set = model.hold(actor, Thing::Set, false);
    model.push(actor, Call::EpollCreate { new: set });
    let copy = dup_of(model, actor, set)?;
    let (register, wait) = if model.chance(50) {
        (set, copy)
    } else {
        (copy, set)
    };
    add_to_set(model, actor, register, stream)?;
    let connection = connection_of(model, actor, stream)?;
    let before = model.chance(50);
    if before {
        model.peer(Peer::Send(connection, 10));
    }
    model.wait_for(actor, &[wait]);
    model.push(
        actor,
        Call::EpollWait {
            set: wait,
            most: 32,
            wait: Wait::Forever,
        },
    );
    if !before {
        model.peer(Peer::Send(connection, 10));
    }
    Some(())
}

/// SO_REUSEPORT.
fn several_at_one_port(model: &mut Model, actor: Actor) -> Option<()> {
    let family = model.any(&[Family::V4, Family::V6]);
    let port = model.new_port(family)?;
    let mut slots = Vec::new();
    for _ in 0..2 + model.below(2) {
        let slot = model.hold(actor, Thing::Listener(port), false);
        model.push(
            actor,
            Call::Socket {
                new: slot,
                family,
                nonblocking: false,
            },
        );
        let option = Opt::ReusePort;
        let value = 1;
        model.push(
            actor,
            Call::SetOption {
                slot,
                option,
                value,
            },
        );
        let address = Address::Any;
        model.push(
            actor,
            Call::Bind {
                slot,
                address,
                port: Port::Own(port),
            },
        );
        model.push(actor, Call::Listen { slot, backlog: 16 });
        slots.push(slot);
    }
    for _ in 0..2 + model.below(3) {
        let connection = model.new_connection()?;
        model.peer(Peer::Connect {
            connection,
            port,
            family,
        });
        let new = model.hold(actor, Thing::Stream(connection), false);
        model.ports[usize::from(port)].2.clear();
        let slots = slots.clone();
        model.push(actor, Call::AcceptAny { slots, new });
        if model.chance(50) {
            send_to(model, actor, new);
        }
    }
    if model.chance(50) {
        let slot = slots.remove(0);
        close_one(model, actor, slot);
        let connection = model.new_connection()?;
        model.peer(Peer::Connect {
            connection,
            port,
            family,
        });
        let new = model.hold(actor, Thing::Stream(connection), false);
        model.ports[usize::from(port)].2.clear();
        model.push(actor, Call::AcceptAny { slots, new });
    }
    Some(())
}

/// The parent has read, the child lets go of its copy, the parent reads on.
fn child_only_closes(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = some_stream(model, actor)?;
    let connection = connection_of(model, actor, slot)?;
    let length = model.length();
    model.peer(Peer::Send(connection, length));
    receive_from(model, actor, slot)?;
    fork(model, actor)?;
    let child = (model.players.len() - 1) as Actor;
    close_one(model, child, slot);
    let length = model.length();
    model.peer(Peer::Send(connection, length));
    if model.is_idle(actor) {
        receive_from(model, actor, slot)?;
    }
    Some(())
}

/// A child that waits before it reads.
fn child_waits_first(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = some_stream(model, actor)?;
    let connection = connection_of(model, actor, slot)?;
    fork(model, actor)?;
    let child = (model.players.len() - 1) as Actor;
    if model.chance(50) {
        close_one(model, actor, slot);
    }
    match model.below(3) {
        0 => poll_on(model, child, vec![slot])?,
        1 => select_on(model, child, vec![slot])?,
        _ => {
            let set = model.hold(child, Thing::Set, false);
            model.push(child, Call::EpollCreate { new: set });
            add_to_set(model, child, set, slot)?;
            model.wait_for(child, &[set]);
            model.push(
                child,
                Call::EpollWait {
                    set,
                    most: 32,
                    wait: Wait::Forever,
                },
            );
        }
    }
    let length = model.length();
    model.peer(Peer::Send(connection, length));
    if model.is_idle(child) {
        receive_from(model, child, slot)?;
    }
    Some(())
}

/// The listener is closed by one who has inherited it, and the one who made it ends.
fn child_closes_the_listener(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.pick_slot(actor, |thing| matches!(thing, Thing::Listener(_)))?;
    let Some(Thing::Listener(port)) = model.thing(actor, slot) else {
        return None;
    };
    fork(model, actor)?;
    let child = (model.players.len() - 1) as Actor;
    close_one(model, child, slot);
    if model.chance(60) {
        let at_once = model.chance(50);
        model.push(actor, Call::Exit { at_once });
        let process = model.process_of(actor);
        for player in &mut model.players {
            player.alive &= player.process != process;
        }
    }
    let connection = model.new_connection()?;
    let family = model.ports[usize::from(port)].1;
    model.peer(Peer::Connect {
        connection,
        port,
        family,
    });
    Some(())
}

/// One accepts and then does something else, another waits for the next connection.
fn waits_beside_an_acceptor(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.pick_slot(actor, |thing| matches!(thing, Thing::Listener(_)))?;
    let Some(Thing::Listener(port)) = model.thing(actor, slot) else {
        return None;
    };
    fork(model, actor)?;
    let child = (model.players.len() - 1) as Actor;
    accepted(model, child, slot)?;
    if model.is_idle(actor) {
        accept_from(model, actor, slot)?;
    }
    for _ in 0..1 + model.below(3) {
        let connection = model.new_connection()?;
        let family = model.ports[usize::from(port)].1;
        model.peer(Peer::Connect {
            connection,
            port,
            family,
        });
        if model.is_idle(actor) {
            accept_from(model, actor, slot)?;
        }
    }
    Some(())
}

/// A descriptor goes to a child by a message, and the sender closes its own.
fn hand_over_and_close(model: &mut Model, actor: Actor) -> Option<()> {
    let pair = [
        model.hold(actor, Thing::Pair, false),
        model.hold(actor, Thing::Pair, false),
    ];
    model.push(actor, Call::Pair { new: pair });
    let forks_before = model.chance(70);
    if forks_before {
        fork(model, actor)?;
    }
    let slot = some_stream(model, actor)?;
    let connection = connection_of(model, actor, slot)?;
    let before = model.chance(50);
    if before {
        model.peer(Peer::Send(connection, 100));
    }
    let via = pair[0];
    model.push(actor, Call::Pass { via, slot });
    if model.chance(60) {
        close_one(model, actor, slot);
    }
    let taker = if forks_before {
        (model.players.len() - 1) as Actor
    } else {
        actor
    };
    let new = model.hold(taker, Thing::Stream(connection), false);
    let via = pair[1];
    model.push(taker, Call::Take { via, new });
    if !before {
        model.peer(Peer::Send(connection, 100));
    }
    receive_from(model, taker, new)?;
    send_to(model, taker, new);
    Some(())
}

/// A server's turn.
fn request_and_response(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = some_stream(model, actor)?;
    let connection = connection_of(model, actor, slot)?;
    model.peer(Peer::Send(connection, 100));
    receive_from(model, actor, slot)?;
    send_to(model, actor, slot);
    if model.chance(50) {
        let set = match model.set(actor) {
            Some(set) => set,
            None => {
                let set = model.hold(actor, Thing::Set, false);
                model.push(actor, Call::EpollCreate { new: set });
                set
            }
        };
        let call = Call::EpollControl {
            set,
            change: Change::Add,
            slot,
            events: vec![Event::In, Event::RdHup, Event::Edge],
        };
        model.push(actor, call);
        let most = 32;
        let wait = Wait::No;
        model.push(actor, Call::EpollWait { set, most, wait });
        model.peer(Peer::Send(connection, 100));
        model.push(actor, Call::EpollWait { set, most, wait });
        model.push(actor, Call::EpollWait { set, most, wait });
    }
    Some(())
}

/// Parent and child write to one connection in turn, and the child's end does not end it.
fn several_writers(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = some_stream(model, actor)?;
    send_to(model, actor, slot);
    fork(model, actor)?;
    let child = (model.players.len() - 1) as Actor;
    send_to(model, child, slot);
    send_to(model, actor, slot);
    if model.chance(50) {
        close_one(model, child, slot);
    } else {
        let copy = model.new_slot();
        let by = DupBy::Dup;
        model.push(
            child,
            Call::Dup {
                slot,
                new: copy,
                by,
            },
        );
        model.push(child, Call::Close { slot });
        let call = Call::Send {
            slot: copy,
            length: 100,
            by: SendBy::Write,
            flags: vec![],
        };
        model.push(child, call);
    }
    send_to(model, actor, slot);
    if let Some(connection) = connection_of(model, actor, slot) {
        model.peer(Peer::Send(connection, 10));
        let call = Call::Receive {
            slot,
            most: 10,
            by: ReceiveBy::Read,
            flags: vec![],
        };
        model.push(actor, call);
    }
    model.steps.push(Step::Observe);
    Some(())
}

/// The engine hears late of a fork, and of what parent and child have done since.
fn forks_beside_a_stopped_engine(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = some_stream(model, actor)?;
    let connection = connection_of(model, actor, slot)?;
    if !model.halted {
        engine(model, actor)?;
    }
    fork(model, actor)?;
    let child = (model.players.len() - 1) as Actor;
    if model.chance(50) {
        fork(model, child)?;
    }
    let closes = model.any(&[actor, child]);
    close_one(model, closes, slot);
    let other = if closes == actor { child } else { actor };
    model.peer(Peer::Send(connection, 100));
    if model.is_idle(other) {
        receive_from(model, other, slot)?;
    }
    if model.is_idle(other) {
        send_to(model, other, slot);
    }
    engine(model, actor)
}
