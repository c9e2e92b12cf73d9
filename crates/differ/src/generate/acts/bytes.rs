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
    ]);
    let mut flags = Vec::new();
    if !matches!(by, ReceiveBy::Read | ReceiveBy::Readv) {
        if model.chance(25) {
            flags.push(Flag::DontWait);
        }
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

pub fn splice(model: &mut Model, actor: Actor) -> Option<()> {
    let stream = model.stream(actor)?;
    let read = model.pick_slot(actor, |thing| thing == Thing::Pipe(false));
    let write = model.pick_slot(actor, |thing| thing == Thing::Pipe(true));
    let (Some(read), Some(write)) = (read, write) else {
        let new = [
            model.hold(actor, Thing::Pipe(false), true),
            model.hold(actor, Thing::Pipe(true), true),
        ];
        model.push(actor, Call::Pipe { new });
        return Some(());
    };
    let (from, to) = if model.chance(50) {
        (stream, write)
    } else {
        (read, stream)
    };
    let length = model.length();
    let call = Call::Splice {
        from,
        to,
        length,
        nonblocking: true,
    };
    model.push(actor, call);
    Some(())
}
