//! Processes, threads and signals.

use crate::generate::model::{Model, Player, Thing};
use crate::program::{Actor, Call, Engine, Handler, Signal, StartBy, Step};

pub fn fork(model: &mut Model, actor: Actor) -> Option<()> {
    let child = model.new_actor()?;
    let mut player = model.players[usize::from(actor)].clone();
    let held = model.held[player.process].clone();
    player.process = model.held.len();
    model.held.push(held);
    model.stopped.push(false);
    model.players.push(player);
    model.push(actor, Call::Fork { child });
    Some(())
}

pub fn thread(model: &mut Model, actor: Actor) -> Option<()> {
    let new = model.new_actor()?;
    let player = model.players[usize::from(actor)].clone();
    model.players.push(player);
    model.push(actor, Call::Thread { new });
    Some(())
}

/// The other actors of this one's process end.
pub fn end_others(model: &mut Model, actor: Actor, itself: bool) {
    let process = model.process_of(actor);
    for (other, player) in model.players.iter_mut().enumerate() {
        if player.process == process && (itself || other != usize::from(actor)) {
            player.alive = false;
        }
    }
}

pub fn exec(model: &mut Model, actor: Actor) -> Option<()> {
    end_others(model, actor, false);
    model.push(actor, Call::Exec);
    Some(())
}

pub fn exit(model: &mut Model, actor: Actor) -> Option<()> {
    // The program would be over.
    let process = model.process_of(actor);
    let others = |player: &Player| player.alive && player.process != process;
    if !model.players.iter().any(others) {
        return None;
    }
    end_others(model, actor, true);
    let at_once = model.chance(50);
    model.push(actor, Call::Exit { at_once });
    Some(())
}

/// Every process ends.
pub fn exit_all(model: &mut Model) {
    for process in 0..model.held.len() {
        let actors = 0..model.players.len() as Actor;
        let own = |actor: &Actor| model.process_of(*actor) == process && model.is_idle(*actor);
        let found = actors.clone().find(own);
        if let Some(actor) = found {
            let at_once = model.chance(30);
            end_others(model, actor, true);
            model.push(actor, Call::Exit { at_once });
        }
    }
}

pub fn signal(model: &mut Model, _: Actor) -> Option<()> {
    let all: Vec<Actor> = (0..model.players.len() as Actor).collect();
    let actor = model.pick(&all)?;
    let process = model.process_of(actor);
    let signal = if model.stopped[process] {
        model.stopped[process] = false;
        Signal::Continue
    } else {
        match model.below(4) {
            0 => {
                model.stopped[process] = true;
                Signal::Stop
            }
            1 if model.players.len() > 1 => {
                end_others(model, actor, true);
                Signal::Kill
            }
            _ => {
                ends_waits(model, process);
                Signal::Interrupt
            }
        }
    };
    model.steps.push(Step::Signal(actor, signal));
    Some(())
}

/// Whoever of this process waits in a call does not any more.
fn ends_waits(model: &mut Model, process: usize) {
    for player in &mut model.players {
        if player.process == process {
            player.waits = None;
        }
    }
}

/// Another program writes to something of the actor's.
pub fn start(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = if model.chance(90) {
        model.stream(actor)?
    } else {
        model.socket(actor)?
    };
    let by = model.any(&[StartBy::Spawn, StartBy::System, StartBy::Popen]);
    let length = model.any(&[1, 10, 100, 1000]);
    model.push(actor, Call::Start { by, slot, length });
    Some(())
}

/// A handler makes a call, and what that has returned is asked.
pub fn handle(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.stream(actor)?;
    let Some(Thing::Stream(connection)) = model.thing(actor, slot) else {
        return None;
    };
    let unread = model.lines[usize::from(connection)].unread;
    let most = Handler::MOST.into();
    let does = match model.below(5) {
        0 => Handler::Nothing,
        // What has to come first might be late.
        1 | 2 if unread >= most => {
            model.lines[usize::from(connection)].unread -= most;
            Handler::Receive(slot, Handler::MOST)
        }
        _ => Handler::Send(slot, model.any(&[1, 10, 100])),
    };
    let restart = model.chance(50);
    model.push(actor, Call::Handle { does, restart });
    if does != Handler::Nothing && model.chance(60) {
        model.steps.push(Step::Signal(actor, Signal::Interrupt));
        if !restart {
            let process = model.process_of(actor);
            ends_waits(model, process);
        }
    }
    if model.chance(70) {
        model.push(actor, Call::Handled);
    }
    Some(())
}

/// The engine stands still, or goes on.
pub fn engine(model: &mut Model, _: Actor) -> Option<()> {
    model.halted = !model.halted;
    let step = match model.halted {
        true => Engine::Stop,
        false => Engine::Continue,
    };
    model.steps.push(Step::Engine(step));
    Some(())
}
