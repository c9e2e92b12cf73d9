//! Copies of descriptors, and what is asked and said of them.

use crate::generate::model::{Model, Thing};
use crate::program::{Actor, Call, DupBy, End, Opt, Slot};

pub fn dup(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.pick_slot(actor, |_| true)?;
    dup_of(model, actor, slot).map(drop)
}

/// Duplicates a descriptor; the copy.
pub fn dup_of(model: &mut Model, actor: Actor, slot: Slot) -> Option<Slot> {
    let object = model.object(actor, slot)?;
    let new = model.new_slot();
    let process = model.process_of(actor);
    let others = model.slots(actor, |_| true);
    let onto = if model.chance(40) {
        model.pick(&others).filter(|other| *other != slot)
    } else {
        None
    };
    let by = model.any(&[
        DupBy::Dup,
        DupBy::Dup,
        DupBy::Fcntl,
        DupBy::FcntlCloseOnExec,
        DupBy::Dup2(onto),
        DupBy::Dup3(onto),
    ]);
    if let DupBy::Dup2(Some(other)) | DupBy::Dup3(Some(other)) = by {
        model.held[process].remove(&other);
    }
    model.held[process].insert(new, object);
    model.push(actor, Call::Dup { slot, new, by });
    Some(new)
}

pub fn close(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.pick_slot(actor, |_| true)?;
    close_one(model, actor, slot);
    Some(())
}

pub fn close_one(model: &mut Model, actor: Actor, slot: Slot) {
    let process = model.process_of(actor);
    model.held[process].remove(&slot);
    model.push(actor, Call::Close { slot });
}

pub fn pass(model: &mut Model, actor: Actor) -> Option<()> {
    let via = match model.pick_slot(actor, |thing| thing == Thing::Pair) {
        Some(via) => via,
        None => {
            let new = [
                model.hold(actor, Thing::Pair, false),
                model.hold(actor, Thing::Pair, false),
            ];
            model.push(actor, Call::Pair { new });
            return Some(());
        }
    };
    let slot = model.pick_slot(actor, |thing| {
        matches!(thing, Thing::Stream(_) | Thing::Listener(_) | Thing::Set)
    })?;
    model.push(actor, Call::Pass { via, slot });
    Some(())
}

pub fn take(model: &mut Model, actor: Actor) -> Option<()> {
    let via = model.pick_slot(actor, |thing| thing == Thing::Pair)?;
    let next = model.lines.len().checked_sub(1)?;
    let connection = model.below(next + 1) as u8;
    let new = model.hold(actor, Thing::Stream(connection), true);
    model.push(actor, Call::Take { via, new });
    Some(())
}

pub fn ask(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.socket(actor)?;
    let call = match model.below(4) {
        0 => Call::Unread { slot },
        1 => Call::Flags { slot },
        2 => Call::Name {
            slot,
            of: End::Local,
        },
        _ => Call::Name {
            slot,
            of: End::Remote,
        },
    };
    model.push(actor, call);
    Some(())
}

pub fn set_nonblocking(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.socket(actor)?;
    let on = model.chance(60);
    let object = model.object(actor, slot)?;
    model.objects[object].nonblocking = on;
    let by_ioctl = model.chance(40);
    let call = Call::SetNonblocking { slot, on, by_ioctl };
    model.push(actor, call);
    Some(())
}

const SETTABLE: &[(Opt, &[i32])] = &[
    (Opt::ReuseAddress, &[0, 1]),
    (Opt::KeepAlive, &[0, 1]),
    (Opt::Linger, &[-1, 0, 5]),
    (Opt::ReceiveTimeout, &[0, 20]),
    (Opt::SendTimeout, &[0, 20]),
    (Opt::ReceiveLowAt, &[1]),
    (Opt::NoDelay, &[0, 1, 7]),
    (Opt::KeepIdle, &[0, 1, 60, 40_000]),
    (Opt::KeepInterval, &[0, 1, 75]),
    (Opt::KeepCount, &[0, 9, 200]),
    (Opt::UserTimeout, &[-1, 0, 30_000]),
    (Opt::QuickAck, &[0, 1]),
    (Opt::V6Only, &[0, 1]),
    (Opt::Priority, &[0, 3]),
    (Opt::SynCount, &[0, 3]),
    (Opt::OutOfBandInline, &[0, 1]),
    (Opt::Broadcast, &[0, 1, 7]),
    (Opt::Zerocopy, &[-1, 0, 1, 2]),
    (Opt::NotSentLowAt, &[0, 16_384]),
    (Opt::Congestion, &[0, 1, 2]),
    (Opt::TypeOfService, &[0, 0x10, 0xb9]),
    (Opt::TrafficClass, &[0, 0x20]),
    (Opt::MaxSegment, &[0, 87, 1000, 40_000]),
    (Opt::Linger2, &[-1, 0, 5]),
    (Opt::DeferAccept, &[0]),
    (Opt::Cork, &[0]),
    (Opt::FreeBind, &[0, 1]),
];

const READABLE: &[Opt] = &[
    Opt::ReuseAddress,
    Opt::ReusePort,
    Opt::KeepAlive,
    Opt::Error,
    Opt::Error,
    Opt::Type,
    Opt::AcceptConnections,
    Opt::Protocol,
    Opt::Domain,
    Opt::Linger,
    Opt::ReceiveTimeout,
    Opt::SendTimeout,
    Opt::ReceiveLowAt,
    Opt::NoDelay,
    Opt::Cork,
    Opt::KeepIdle,
    Opt::KeepInterval,
    Opt::KeepCount,
    Opt::UserTimeout,
    Opt::DeferAccept,
    Opt::V6Only,
    Opt::TypeOfService,
    Opt::Priority,
    Opt::SynCount,
    Opt::Linger2,
    Opt::FreeBind,
    Opt::OutOfBandInline,
    Opt::Broadcast,
    Opt::BusyPoll,
    Opt::Zerocopy,
    Opt::NotSentLowAt,
    Opt::TrafficClass,
];

pub fn set_option(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.socket(actor)?;
    let (option, values) = model.any(SETTABLE);
    let value = model.any(values);
    let call = Call::SetOption {
        slot,
        option,
        value,
    };
    model.push(actor, call);
    Some(())
}

pub fn get_option(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.socket(actor)?;
    let option = model.any(READABLE);
    model.push(actor, Call::GetOption { slot, option });
    Some(())
}
