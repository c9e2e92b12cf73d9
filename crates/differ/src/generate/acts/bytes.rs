//! Reading and writing.

use crate::generate::model::{Model, Thing};
use crate::program::{Actor, Call, Flag, ReceiveBy, SendBy, Slot};

pub fn receive(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.stream(actor)?;
    receive_from(model, actor, slot)
}

pub fn receive_from(model: &mut Model, actor: Actor, slot: Slot) -> Option<()> {
    let by = model.any(&[
        ReceiveBy::Read,
        ReceiveBy::Read,
        ReceiveBy::Readv,
        ReceiveBy::Recv,
        ReceiveBy::Recv,
        ReceiveBy::Recvfrom,
        ReceiveBy::Recvmsg,
        ReceiveBy::Recvmmsg,
        ReceiveBy::Preadv2,
    ]);
    let mut flags = Vec::new();
    if !matches!(by, ReceiveBy::Read | ReceiveBy::Readv) && model.chance(25) {
        flags.push(Flag::DontWait);
    }
    if !matches!(by, ReceiveBy::Read | ReceiveBy::Readv | ReceiveBy::Preadv2) {
        if model.chance(15) {
            flags.push(Flag::Peek);
        }
        if model.chance(5) {
            flags.push(Flag::Truncate);
        }
        if model.chance(8) {
            flags.push(Flag::WaitAll);
        }
    }
    let most = if model.chance(40) {
        50_000
    } else {
        model.length()
    };
    let object = model.object(actor, slot)?;
    let waits = !model.objects[object].nonblocking && !flags.contains(&Flag::DontWait);
    if waits {
        if !model.is_ready(actor, slot) && !model.may_wait() {
            return None;
        }
        model.wait_for(actor, &[slot]);
    }
    if let Some(Thing::Stream(connection)) = model.thing(actor, slot)
        && !flags.contains(&Flag::Peek)
    {
        let line = &mut model.lines[usize::from(connection)];
        line.unread = line.unread.saturating_sub(most);
    }
    let call = Call::Receive {
        slot,
        most,
        by,
        flags,
    };
    model.push(actor, call);
    Some(())
}

pub fn send(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.stream(actor)?;
    send_to(model, actor, slot);
    Some(())
}

pub fn send_to(model: &mut Model, actor: Actor, slot: Slot) {
    let by = model.any(&[
        SendBy::Write,
        SendBy::Write,
        SendBy::Writev,
        SendBy::Send,
        SendBy::Send,
        SendBy::Sendto,
        SendBy::Sendmsg,
        SendBy::Sendmmsg,
        SendBy::Pwritev2,
    ]);
    let mut flags = Vec::new();
    if model.chance(15) {
        flags.push(Flag::DontWait);
    }
    let length = model.length();
    let call = Call::Send {
        slot,
        length,
        by,
        flags,
    };
    model.push(actor, call);
}

pub fn send_file(model: &mut Model, actor: Actor) -> Option<()> {
    let slot = model.stream(actor)?;
    let from = match model.pick_slot(actor, |thing| thing == Thing::File) {
        Some(from) => from,
        None => {
            let new = model.hold(actor, Thing::File, false);
            let length = model.length() * 2;
            model.push(actor, Call::File { new, length });
            new
        }
    };
    let offset = if model.chance(50) {
        Some(model.length())
    } else {
        None
    };
    let length = model.length();
    let call = Call::SendFile {
        slot,
        from,
        offset,
        length,
    };
    model.push(actor, call);
    Some(())
}

/// Both ends of a pipe, made now if there is none.
fn pipe(model: &mut Model, actor: Actor) -> (Slot, Slot) {
    let read = model.pick_slot(actor, |thing| thing == Thing::Pipe(false));
    let write = model.pick_slot(actor, |thing| thing == Thing::Pipe(true));
    if let (Some(read), Some(write)) = (read, write)
        && model.chance(85)
    {
        return (read, write);
    }
    let new = [
        model.hold(actor, Thing::Pipe(false), true),
        model.hold(actor, Thing::Pipe(true), true),
    ];
    model.push(actor, Call::Pipe { new });
    (new[0], new[1])
}

/// As much as a pipe takes whatever lies in it: the kernel counts pages, the engine bytes.
fn length_for_pipe(model: &mut Model) -> u32 {
    model.length().min(5000)
}

pub fn splice(model: &mut Model, actor: Actor) -> Option<()> {
    let stream = model.stream(actor)?;
    let (read, write) = pipe(model, actor);
    let length = length_for_pipe(model);
    let nonblocking = model.chance(50);
    let inwards = model.chance(50);
    let (from, to) = if inwards {
        (stream, write)
    } else {
        (read, stream)
    };
    if inwards {
        // It waits for what the connection brings, whatever is said of the pipe.
        let object = model.object(actor, stream)?;
        if !model.objects[object].nonblocking {
            if !model.is_ready(actor, stream) && !model.may_wait() {
                return None;
            }
            model.wait_for(actor, &[stream]);
        }
        if let Some(Thing::Stream(connection)) = model.thing(actor, stream) {
            let line = &mut model.lines[usize::from(connection)];
            line.unread = line.unread.saturating_sub(length);
        }
    } else if model.chance(70) {
        model.push(
            actor,
            Call::WritePlain {
                slot: write,
                length,
            },
        );
    }
    model.push(
        actor,
        Call::Splice {
            from,
            to,
            length,
            nonblocking,
        },
    );
    if inwards && model.is_idle(actor) && model.chance(80) {
        let most = 50_000;
        model.push(actor, Call::ReadPlain { slot: read, most });
    }
    Some(())
}

/// What a pipe holds goes out twice.
pub fn tee(model: &mut Model, actor: Actor) -> Option<()> {
    let stream = model.stream(actor)?;
    let (read, write) = pipe(model, actor);
    let copies = [
        model.hold(actor, Thing::Pipe(false), true),
        model.hold(actor, Thing::Pipe(true), true),
    ];
    model.push(actor, Call::Pipe { new: copies });
    let length = length_for_pipe(model);
    model.push(
        actor,
        Call::WritePlain {
            slot: write,
            length,
        },
    );
    let to = copies[1];
    model.push(
        actor,
        Call::Tee {
            from: read,
            to,
            length,
        },
    );
    for from in [copies[0], read] {
        model.push(
            actor,
            Call::Splice {
                from,
                to: stream,
                length,
                nonblocking: true,
            },
        );
    }
    Some(())
}
