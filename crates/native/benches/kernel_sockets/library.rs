//! A server that has the library, as the examples have it.

use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use native::{Context, Errno, Event, KernelSockets, Kind, Mode, Queue, Setting};

use crate::{BUFFER, Work};

/// Copying sends that do not come back, each by a call of its own.
pub fn at_once(work: &mut Work, tell: &Sender<SocketAddr>) {
    serve(work, tell, KernelSockets::Epoll, false);
}

/// Copying sends that do not come back, those of a wait together.
pub fn together(work: &mut Work, tell: &Sender<SocketAddr>) {
    serve(work, tell, KernelSockets::IoUring, false);
}

/// Copying sends that come back when they are acknowledged, each by a call of its own.
pub fn coming_back(work: &mut Work, tell: &Sender<SocketAddr>) {
    serve(work, tell, KernelSockets::Epoll, true);
}

/// Copying sends that come back when they are acknowledged, those of a wait together.
pub fn coming_back_together(work: &mut Work, tell: &Sender<SocketAddr>) {
    serve(work, tell, KernelSockets::IoUring, true);
}

fn serve(work: &mut Work, tell: &Sender<SocketAddr>, by: KernelSockets, comes_back: bool) {
    let context = Context::attach("default", "bench", Mode::Kernel).expect("a context");
    let context = context.with_kernel_sockets(by).expect("io_uring");
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
