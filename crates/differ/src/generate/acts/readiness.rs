//! epoll, poll and select.

use crate::generate::model::{Model, Thing};
use crate::program::{Actor, Call, Change, Event, Slot, Wait};

pub fn create_set(model: &mut Model, actor: Actor) -> Option<()> {
    let new = model.hold(actor, Thing::Set, false);
    model.push(actor, Call::EpollCreate { new });
    Some(())
}

pub fn change_set(model: &mut Model, actor: Actor) -> Option<()> {
    let set = model.set(actor)?;
    let slot = model.pick_slot(actor, |thing| {
        matches!(
            thing,
            Thing::Stream(_) | Thing::Listener(_) | Thing::Pipe(_) | Thing::Fresh(_)
        )
    })?;
    add_to_set(model, actor, set, slot)
}

pub fn add_to_set(model: &mut Model, actor: Actor, set: Slot, slot: Slot) -> Option<()> {
    let object = model.object(actor, set)?;
    let change = if model.objects[object].members.contains(&slot) {
        model.any(&[Change::Modify, Change::Modify, Change::Delete, Change::Add])
    } else if model.chance(90) {
        Change::Add
    } else {
        model.any(&[Change::Modify, Change::Delete])
    };
    let mut events = model.interest();
    if model.chance(35) {
        events.push(Event::Edge);
    }
    if model.chance(15) {
        events.push(Event::OneShot);
    }
    if model.chance(10) && change == Change::Add {
        events.push(Event::Exclusive);
    }
    let members = &mut model.objects[object].members;
    match change {
        Change::Add => members.push(slot),
        Change::Modify => {}
        Change::Delete => members.retain(|member| *member != slot),
    }
    let call = Call::EpollControl {
        set,
        change,
        slot,
        events,
    };
    model.push(actor, call);
    Some(())
}

pub fn wait_in_set(model: &mut Model, actor: Actor) -> Option<()> {
    let set = model.set(actor)?;
    let wait = model.wait();
    if wait == Wait::Forever {
        model.wait_for(actor, &[set]);
    }
    let most = 32;
    model.push(actor, Call::EpollWait { set, most, wait });
    Some(())
}

pub fn watched(model: &mut Model, actor: Actor) -> Vec<Slot> {
    let mut all = model.slots(actor, |thing| {
        matches!(thing, Thing::Stream(_) | Thing::Listener(_))
    });
    let wanted = 1 + model.below(3);
    while all.len() > wanted {
        let out = model.below(all.len());
        all.remove(out);
    }
    all
}

pub fn poll(model: &mut Model, actor: Actor) -> Option<()> {
    let slots = watched(model, actor);
    poll_on(model, actor, slots)
}

pub fn poll_on(model: &mut Model, actor: Actor, slots: Vec<Slot>) -> Option<()> {
    if slots.is_empty() {
        return None;
    }
    let wait = model.wait();
    let mut entries = Vec::new();
    for slot in slots.clone() {
        entries.push((slot, model.interest()));
    }
    let outs = entries
        .iter()
        .any(|(_, events)| events.contains(&Event::Out));
    if wait == Wait::Forever && !outs {
        model.wait_for(actor, &slots);
    }
    let call = Call::Poll {
        slots: entries,
        wait,
    };
    model.push(actor, call);
    Some(())
}

pub fn select(model: &mut Model, actor: Actor) -> Option<()> {
    let slots = watched(model, actor);
    select_on(model, actor, slots)
}

pub fn select_on(model: &mut Model, actor: Actor, read: Vec<Slot>) -> Option<()> {
    if read.is_empty() {
        return None;
    }
    let wait = model.wait();
    let write = if model.chance(20) {
        watched(model, actor)
    } else {
        Vec::new()
    };
    if wait == Wait::Forever && write.is_empty() {
        model.wait_for(actor, &read);
    }
    model.push(actor, Call::Select { read, write, wait });
    Some(())
}
