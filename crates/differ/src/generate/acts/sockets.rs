//! Making, connecting and ending sockets, and calls that make no sense.

use crate::generate::model::{Model, Thing};
use crate::program::{
    AcceptBy, Actor, Address, Call, Change, Destination, Event, Family, Flag, How, Opt, Port,
    ReceiveBy, SendBy, Slot, Wait,
};

pub fn accept(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.pick_slot(actor, |thing| matches!(thing, Thing::Listener(_)))?;
    accept_from(model, actor, slot).map(drop)
}

/// Accepts from a listener; the new descriptor.
pub fn accept_from(model: &mut Model, actor: Actor, slot: Slot) -> Option<Slot> {
    let Some(Thing::Listener(port)) = model.thing(actor, slot) else {
        return None;
    };
    let by = model.any(&[
        AcceptBy::Accept,
        AcceptBy::Accept4,
        AcceptBy::Accept4Nonblocking,
        AcceptBy::Accept4CloseOnExec,
    ]);
    let queue = &mut model.ports[usize::from(port)].2;
    let waiting = (!queue.is_empty()).then(|| queue.remove(0));
    let nonblocking = by == AcceptBy::Accept4Nonblocking;
    let new = match waiting {
        Some(connection) => model.hold(actor, Thing::Stream(connection), nonblocking),
        None => {
            let object = model.object(actor, slot)?;
            if !model.objects[object].nonblocking {
                if !model.may_wait() {
                    return None;
                }
                model.wait_for(actor, &[slot]);
            }
            // What it will be, if anything.
            let next = model.lines.len().checked_sub(1)?;
            model.hold(actor, Thing::Stream(next as u8), nonblocking)
        }
    };
    model.push(actor, Call::Accept { slot, new, by });
    Some(new)
}

pub fn connect(model: &mut Model, actor: Actor) -> Option<()> {
    let family = model.any(&[Family::V4, Family::V4, Family::V6]);
    let nonblocking = model.chance(30);
    let nobody = model.chance(12);
    let thing = if nobody {
        Thing::Fresh(family)
    } else {
        Thing::Stream(model.new_connection()?)
    };
    let slot = model.hold(actor, thing, nonblocking);
    let to = match thing {
        Thing::Stream(connection) => Destination::Peer(connection),
        _ => Destination::Nobody,
    };
    let call = Call::Socket {
        new: slot,
        family,
        nonblocking,
    };
    model.push(actor, call);
    if model.chance(20) {
        let call = Call::Bind {
            slot,
            address: model.any(&[Address::Any, Address::Interface]),
            port: Port::Any,
        };
        model.push(actor, call);
    }
    if nonblocking && model.chance(50) {
        // Watched before it is connected.
        if let Some(set) = model.set(actor) {
            let call = Call::EpollControl {
                set,
                change: Change::Add,
                slot,
                events: vec![Event::In, Event::Out, Event::Edge],
            };
            model.push(actor, call);
        }
    }
    model.push(actor, Call::Connect { slot, to });
    if nonblocking {
        let call = Call::Poll {
            slots: vec![(slot, vec![Event::Out])],
            wait: Wait::Forever,
        };
        model.push(actor, call);
        let option = Opt::Error;
        model.push(actor, Call::GetOption { slot, option });
    }
    Some(())
}

pub fn listen(model: &mut Model, actor: Actor) -> Option<()> {
    listener(model, actor).map(drop)
}

/// A new listener at a port of its own.
pub fn listener(model: &mut Model, actor: Actor) -> Option<Slot> {
    let family = model.any(&[Family::V4, Family::V4, Family::V4, Family::V6]);
    let port = model.new_port(family)?;
    let nonblocking = model.chance(30);
    let slot = model.hold(actor, Thing::Listener(port), nonblocking);
    let address = model.any(&[Address::Any, Address::Interface]);
    let reuse = model.chance(50);
    // A queue that is full is not compared: how long it is, is each side's own affair.
    let backlog = model.any(&[16, 128]);
    model.push(
        actor,
        Call::Socket {
            new: slot,
            family,
            nonblocking,
        },
    );
    if reuse {
        let call = Call::SetOption {
            slot,
            option: Opt::ReuseAddress,
            value: 1,
        };
        model.push(actor, call);
    }
    let port = Port::Own(port);
    let call = Call::Bind {
        slot,
        address,
        port,
    };
    model.push(actor, call);
    model.push(actor, Call::Listen { slot, backlog });
    Some(slot)
}

pub fn shutdown(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = if model.chance(80) {
        model.stream(actor)?
    } else {
        model.socket(actor)?
    };
    let how = model.any(&[How::Read, How::Write, How::Write, How::Both]);
    model.push(actor, Call::Shutdown { slot, how });
    Some(())
}

/// Calls that make no sense.
pub fn nonsense(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.pick_slot(actor, |_| true)?;
    let sockets = model.slots(actor, |thing| {
        matches!(thing, Thing::Listener(_) | Thing::Fresh(_) | Thing::Set)
    });
    let other = model.pick(&sockets).unwrap_or(slot);
    let call = match model.below(9) {
        0 => Call::Receive {
            slot: other,
            most: 10,
            by: ReceiveBy::Recv,
            flags: vec![Flag::DontWait],
        },
        1 => Call::Send {
            slot: other,
            length: 10,
            by: SendBy::Write,
            flags: vec![],
        },
        2 => Call::Listen { slot, backlog: 0 },
        3 => Call::Connect {
            slot,
            to: Destination::Nobody,
        },
        4 => Call::Bind {
            slot,
            address: Address::Any,
            port: Port::Any,
        },
        5 => Call::Shutdown {
            slot: other,
            how: How::Both,
        },
        6 => Call::GetOption {
            slot,
            option: Opt::NoDelay,
        },
        7 => Call::EpollControl {
            set: other,
            change: Change::Add,
            slot: other,
            events: vec![Event::In],
        },
        _ => Call::Receive {
            slot,
            most: 0,
            by: ReceiveBy::Recv,
            flags: vec![Flag::DontWait],
        },
    };
    model.push(actor, call);
    Some(())
}
