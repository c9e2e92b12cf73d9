//! When registered memory is free, and how a program is told, on both sides.

#[path = "../../host/tests/fake_engine/mod.rs"]
mod fake_engine;

use std::net::SocketAddr;
use std::time::Duration;

use fake_engine::{FakeEngine, HANG};
use native::{Back, Context, Errno, Event, Handle, Kind, Memory, Mode, Piece, Queue};
use queue_pair::{Completion, ConnRef};

fn next(queue: &mut Queue) -> Event {
    let mut events = Vec::new();
    queue.wait(&mut events, 1, Some(HANG)).unwrap();
    *events.first().expect("an event")
}

fn until(queue: &mut Queue, kind: Kind) -> Event {
    loop {
        let event = next(queue);
        if event.kind == kind {
            return event;
        }
    }
}

/// Whether the queue tells that some is free, of all that it has to tell.
fn tells_free(queue: &mut Queue) -> bool {
    let mut events = Vec::new();
    queue.poll(&mut events, 64).unwrap();
    events.iter().any(|event| event.kind == Kind::Free)
}

/// Both ends of a connection within the machine, which the kernel has.
fn within_the_machine(context: &Context) -> (Queue, Handle, Handle) {
    let mut queue = context.queue().unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = queue.listen(any, 16, 1).unwrap();
    let at = queue.local(listener).unwrap();
    let client = queue.connect(at, &[], 2).unwrap();
    let server = loop {
        next(&mut queue);
        if let Ok(server) = queue.accept(listener, 3) {
            break server;
        }
    };
    while queue.send(client, b"", false) == Err(Errno::NOTCONN) {
        next(&mut queue);
    }
    (queue, client, server)
}

/// A connection of the engine's.
fn at_the_engine() -> (FakeEngine, Context, Queue, Handle, ConnRef) {
    let engine = FakeEngine::start();
    let context = Context::attach_at(&engine.path, "test", Mode::Engine).unwrap();
    let mut queue = context.queue().unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = queue.listen(any, 16, 1).unwrap();
    let conn = engine.host(|host| host.hand(1));
    until(&mut queue, Kind::Accept);
    let handle = queue.accept(listener, 2).unwrap();
    (engine, context, queue, handle, conn)
}

fn is_refused(memory: Memory) -> Memory {
    let (memory, errno) = memory.unregister().expect_err("it is in use");
    assert_eq!(errno, Errno::BUSY);
    memory
}

#[test]
fn memory_of_the_engines_is_under_way_on_a_connection_of_the_kernels() {
    let engine = FakeEngine::start();
    let context = Context::attach_at(&engine.path, "test", Mode::Any).unwrap();
    let (mut queue, client, _server) = within_the_machine(&context);
    assert!(!queue.is_offloaded(client).unwrap());
    let [one, other] = [100, 200].map(|len| context.register(len).unwrap());
    assert!(context.is_attached(), "the memory is the engine's");
    let sent = queue.send_registered(client, &one, 0, 100, false, Some(4));
    assert_eq!(sent, Ok(100));
    let one = is_refused(one);
    assert_eq!(until(&mut queue, Kind::Sent).cookie, 4);
    assert!(one.unregister().is_ok());
    // Of several, and one that is told of when it has left.
    let pieces = [0, 100].map(|offset| Piece {
        memory: &other,
        offset,
        len: 100,
    });
    let sent = queue.sendv_registered(client, &pieces, false, Some(5));
    assert_eq!(sent, Ok(200));
    let other = is_refused(other);
    queue.tell_when_free(&other, 6);
    assert_eq!(until(&mut queue, Kind::Sent).cookie, 5);
    let told = until(&mut queue, Kind::Free);
    assert_eq!((told.cookie, told.error, told.bytes), (6, 0, 0));
    // What does not come back the kernel has copied.
    let sent = queue.send_registered(client, &other, 0, 200, false, None);
    assert_eq!(sent, Ok(200));
    assert!(other.unregister().is_ok());
}

#[test]
fn a_program_is_told_when_what_has_left_the_engine_is_acknowledged() {
    let (engine, context, mut queue, handle, conn) = at_the_engine();
    let memory = context.register(1000).unwrap();
    queue.tell_when_free(&memory, 1);
    assert_eq!(next(&mut queue).cookie, 1, "it is free already");
    let sent = queue.send_registered(handle, &memory, 0, 1000, false, Back::Left(2));
    assert_eq!(sent, Ok(1000));
    let memory = is_refused(memory);
    queue.tell_when_free(&memory, 3);
    queue.tell_when_free(&memory, 4);
    let total = 1000;
    engine.host(|host| {
        host.submissions();
        host.post(Completion::Departed { conn, total });
    });
    assert_eq!(until(&mut queue, Kind::Sent).cookie, 2);
    assert!(!tells_free(&mut queue), "it may have to leave again");
    let memory = is_refused(memory);
    let limit = queue.arm().unwrap();
    queue.disarm();
    assert!(limit.is_some_and(|limit| limit <= Duration::from_millis(50)));
    engine.host(|host| host.acknowledge(conn, 1000));
    let told = [(); 2].map(|()| until(&mut queue, Kind::Free).cookie);
    assert_eq!(told, [3, 4], "each once");
    assert!(memory.unregister().is_ok());
    assert_eq!(queue.arm(), Ok(None), "it waits for nothing more");
    queue.disarm();
}

#[test]
fn memory_is_not_free_before_its_sends_have_come_back() {
    let (engine, context, mut queue, handle, conn) = at_the_engine();
    let memory = context.register(100).unwrap();
    let sent = queue.send_registered(handle, &memory, 0, 100, false, Some(2));
    assert_eq!(sent, Ok(100));
    engine.host(|host| {
        host.submissions();
        host.acknowledge(conn, 100);
    });
    // The socket has heard of it by this, and the program has not.
    assert_eq!(queue.send(handle, b"more", false), Ok(4));
    let memory = is_refused(memory);
    queue.tell_when_free(&memory, 3);
    assert_eq!(next(&mut queue).kind, Kind::Sent);
    assert_eq!(until(&mut queue, Kind::Free).cookie, 3);
    assert!(memory.unregister().is_ok());
}

#[test]
fn memory_that_is_used_again_is_waited_for_again_and_what_is_given_back_is_told_of() {
    let (engine, context, mut queue, handle, conn) = at_the_engine();
    let mut other = context.queue().unwrap();
    let memory = context.register(100).unwrap();
    let mut send = || queue.send_registered(handle, &memory, 0, 100, false, Some(2));
    assert_eq!(send(), Ok(100));
    other.tell_when_free(&memory, 3);
    assert_eq!(send(), Ok(100));
    engine.host(|host| {
        host.submissions();
        host.acknowledge(conn, 100);
    });
    assert_eq!(until(&mut queue, Kind::Sent).cookie, 2);
    assert!(!tells_free(&mut other));
    engine.host(|host| host.acknowledge(conn, 200));
    until(&mut queue, Kind::Sent);
    // Before the other queue has looked.
    assert!(memory.unregister().is_ok());
    let told = until(&mut other, Kind::Free);
    assert_eq!(told.cookie, 3);
    assert_eq!(told.handle, Handle::default());
}
