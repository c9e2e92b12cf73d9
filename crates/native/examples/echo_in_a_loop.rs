//! An echo server whose loop is its own: poll(2) waits for the queue and for what else there is, here for
//! datagrams on the same port, each of which is answered by how many bytes were echoed:
//! `cargo run -p outboard-native --example echo_in_a_loop -- 0.0.0.0:7000`.

use std::net::{SocketAddr, UdpSocket};

use native::{Context, Errno, Handle, Kind, Mode, Queue, Shutdown};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Echoes as much as there is and fits; returns how much. What does not fit stays where it is until there is
/// room.
fn serve(queue: &mut Queue, connection: Handle) -> Result<usize, Errno> {
    let (mut echoed, mut bytes) = (0, [0; 16 * 1024]);
    loop {
        let moved = match queue.peek(connection, &mut bytes) {
            Ok(0) => Err(Errno::PIPE),
            Ok(there) => queue.send(connection, &bytes[..there], false),
            Err(errno) => Err(errno),
        };
        match moved {
            Ok(sent) => echoed += queue.recv(connection, &mut bytes[..sent])?,
            Err(Errno::AGAIN) => return Ok(echoed),
            Err(_) => {
                // Its end is told.
                let _ = queue.shutdown(connection, Shutdown::Both);
                return Ok(echoed);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = std::env::args().nth(1).ok_or("usage: echo ADDR:PORT")?;
    let at: SocketAddr = at.parse()?;
    let context = Context::attach("default", "loop", Mode::Any)?;
    let mut queue = context.queue()?;
    let listener = queue.listen(at, 1024, 0)?;
    let datagrams = UdpSocket::bind(at)?;
    let (mut echoed, mut events) = (0, Vec::new());
    loop {
        let limit = queue.arm()?;
        let limit = limit.map(Timespec::try_from).transpose()?;
        let mut waits = [
            PollFd::from_borrowed_fd(queue.fd(), PollFlags::IN),
            PollFd::new(&datagrams, PollFlags::IN),
        ];
        match poll(&mut waits, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_asked = !waits[1].revents().is_empty();
        queue.disarm();
        loop {
            queue.poll(&mut events, 64)?;
            if events.is_empty() {
                break;
            }
            for event in events.drain(..) {
                match event.kind {
                    Kind::Accept => while queue.accept(listener, 0).is_ok() {},
                    Kind::End => queue.close(event.handle)?,
                    _ => echoed += serve(&mut queue, event.handle)?,
                }
            }
        }
        if is_asked {
            let (_, from) = datagrams.recv_from(&mut [0; 64])?;
            datagrams.send_to(echoed.to_string().as_bytes(), from)?;
        }
    }
}
