//! A server that has the library, as the examples have it.

use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use native::{Context, Errno, Event, Kind, Mode, Queue, Setting};

use crate::{BUFFER, Work};

/// Copying sends that do not come back.
pub fn plain(work: &mut Work, tell: &Sender<SocketAddr>) {
    serve(work, tell, false);
}

/// Copying sends that come back when they are acknowledged.
pub fn coming_back(work: &mut Work, tell: &Sender<SocketAddr>) {
    serve(work, tell, true);
}

fn serve(work: &mut Work, tell: &Sender<SocketAddr>, comes_back: bool) {
    let context = Context::attach("default", "bench", Mode::Kernel).expect("a context");
    let mut queue = context.queue().expect("a queue");
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = queue.listen(anywhere, 128, 0).expect("a listener");
    queue
        .set(listener, Setting::NoDelay(true))
        .expect("an option");
    tell.send(queue.local(listener).expect("its address"))
        .expect("a client");
    let mut bytes = vec![0; BUFFER];
    let (mut events, mut ended) = (Vec::new(), 0);
    while ended < work.connections {
        queue.wait(&mut events, 256, None).expect("events");
        for event in events.drain(..) {
            match event.kind {
                Kind::Accept => while queue.accept(listener, 0).is_ok() {},
                Kind::Receive if !echo(work, &mut queue, event, &mut bytes, comes_back) => {
                    queue.close(event.handle).expect("a connection");
                    ended += 1;
                }
                _ => {}
            }
        }
    }
}

/// Echoes what there is. False: the stream has ended.
fn echo(
    work: &mut Work,
    queue: &mut Queue,
    event: Event,
    bytes: &mut [u8],
    comes_back: bool,
) -> bool {
    loop {
        let read = match queue.recv(event.handle, bytes) {
            Ok(0) | Err(Errno::CONNRESET) => return false,
            Ok(read) => read,
            Err(Errno::AGAIN) => return true,
            Err(errno) => panic!("receive: {errno}"),
        };
        work.received(read);
        let answer = &bytes[..read];
        let sent = match comes_back {
            true => queue.send_async(event.handle, answer, false, 0),
            false => queue.send(event.handle, answer, false),
        };
        assert_eq!(sent, Ok(read), "the peer has taken what was before");
    }
}
