//! Processes, threads and signals.

use crate::generate::model::{Model, Player};
use crate::program::{Actor, Call, Signal, Step};

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
                for player in &mut model.players {
                    if player.process == process {
                        player.waits = None;
                    }
                }
                Signal::Interrupt
            }
        }
    };
    model.steps.push(Step::Signal(actor, signal));
    Some(())
}
