//! What the peer does.

use crate::generate::model::Model;
use crate::program::{Actor, Peer, Signal, Step};

pub fn peer_connects(model: &mut Model, _: Actor) -> Option<()> {
    let ports: Vec<u8> = (0..model.ports.len() as u8).collect();
    let port = model.pick(&ports)?;
    let connection = model.new_connection()?;
    let family = model.ports[usize::from(port)].1;
    model.peer(Peer::Connect {
        connection,
        port,
        family,
    });
    Some(())
}

pub fn living(model: &mut Model) -> Option<u8> {
    let open: Vec<u8> = (0..model.lines.len() as u8)
        .filter(|&one| {
            let line = &model.lines[usize::from(one)];
            !line.ended && line.unread < 40_000
        })
        .collect();
    model.pick(&open)
}

pub fn peer_sends(model: &mut Model, _: Actor) -> Option<()> {
    // Somebody may wait for it.
    let awaited: Vec<u8> = model
        .players
        .iter()
        .filter_map(|player| player.waits.as_ref())
        .flat_map(|(connections, _)| connections.clone())
        .filter(|connection| !model.lines[usize::from(*connection)].ended)
        .collect();
    let connection = if model.chance(60) && !awaited.is_empty() {
        model.any(&awaited)
    } else {
        living(model)?
    };
    let length = model.length();
    model.peer(Peer::Send(connection, length));
    Some(())
}

pub fn peer_ends(model: &mut Model, _: Actor) -> Option<()> {
    let connection = living(model)?;
    let act = match model.below(5) {
        0..=1 => Peer::Shutdown(connection),
        2..=3 => Peer::Close(connection),
        _ => Peer::Reset(connection),
    };
    model.peer(act);
    Some(())
}

/// Gives those who wait what they wait for, and lets those who are stopped go on.
pub fn wake_all(model: &mut Model) {
    for process in 0..model.stopped.len() {
        if model.stopped[process] {
            let actor = model
                .players
                .iter()
                .position(|player| player.process == process);
            model.stopped[process] = false;
            if let Some(actor) = actor {
                let step = Step::Signal(actor as Actor, Signal::Continue);
                model.steps.push(step);
            }
        }
    }
    for actor in 0..model.players.len() {
        let Some((connections, ports)) = model.players[actor].waits.clone() else {
            continue;
        };
        let open = connections
            .iter()
            .find(|connection| !model.lines[usize::from(**connection)].ended);
        if let Some(connection) = open {
            model.peer(Peer::Send(*connection, 7));
        } else if let Some(port) = ports.first()
            && let Some(connection) = model.new_connection()
        {
            let family = model.ports[usize::from(*port)].1;
            model.peer(Peer::Connect {
                connection,
                port: *port,
                family,
            });
        }
    }
}
