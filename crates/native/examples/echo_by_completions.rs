//! An echo server on the engine, or on the kernel where there is none:
//! `cargo run -p outboard-native --example echo_by_completions -- 0.0.0.0:7000`.

use std::collections::HashMap;

use native::{Context, Errno, Handle, Kind, Mode, Queue};

/// What a connection has received and could not send yet.
#[derive(Default)]
struct Client {
    pending: Vec<u8>,
    ended: bool,
}

/// Echoes as much as there is and fits. False: the connection is done.
fn serve(queue: &mut Queue, handle: Handle, client: &mut Client) -> bool {
    let mut bytes = [0; 16 * 1024];
    loop {
        while !client.pending.is_empty() {
            match queue.send(handle, &client.pending, false) {
                Ok(sent) => drop(client.pending.drain(..sent)),
                Err(errno) => return errno == Errno::AGAIN,
            }
        }
        if client.ended {
            return false;
        }
        match queue.recv(handle, &mut bytes) {
            Ok(read) => {
                client.ended = read == 0;
                client.pending.extend_from_slice(&bytes[..read]);
            }
            Err(errno) => return errno == Errno::AGAIN,
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).ok_or("usage: echo ADDR:PORT")?;
    let context = Context::attach("default", "echo", Mode::Any)?;
    let mut queue = context.queue()?;
    let listener = queue.listen(addr.parse()?, 1024, 0)?;
    println!("echoing on {}", queue.local(listener)?);
    let mut clients: HashMap<Handle, Client> = HashMap::new();
    let mut events = Vec::new();
    loop {
        match queue.wait(&mut events, 64, None) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in events.drain(..) {
            if event.kind == Kind::Accept {
                while let Ok(client) = queue.accept(listener, 0) {
                    clients.insert(client, Client::default());
                }
            } else if let Some(client) = clients.get_mut(&event.handle)
                && (event.kind == Kind::End || !serve(&mut queue, event.handle, client))
            {
                clients.remove(&event.handle);
                queue.close(event.handle)?;
            }
        }
    }
}
