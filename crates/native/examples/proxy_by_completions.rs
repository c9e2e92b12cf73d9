//! A proxy: what a client sends goes to a server, and back, on the engine or on the kernel:
//! `cargo run -p outboard-native --example proxy_by_completions -- 0.0.0.0:8080 192.0.2.7:80`.
//!
//! Bytes are looked at where they arrived and given back when the other side has taken them, so that
//! a side that does not read holds up the other one, and nothing is kept here. Either side may end its
//! direction and go on reading.

use std::collections::HashMap;
use std::net::SocketAddr;

use native::{Context, Errno, Event, Handle, Kind, Mode, Queue, Setting, Shutdown, View};

/// Bytes that are looked at at once.
const PIECE: usize = 64 << 10;

struct Side {
    handle: Handle,
    /// What came here and the other side has not taken yet, from so many bytes on.
    view: Option<(View, usize)>,
    open: bool,
    read_all: bool,
    ended: bool,
}

/// A client and its server. A side's cookie is twice the pair's number, and 1 more for the server.
struct Pair([Side; 2]);

impl Side {
    fn new(handle: Handle, open: bool) -> Self {
        let (view, read_all, ended) = (None, false, false);
        Self {
            handle,
            view,
            open,
            read_all,
            ended,
        }
    }

    /// Moves what came here to another side, as far as that takes it.
    fn pour(&mut self, queue: &mut Queue, to: Handle) -> Result<(), Errno> {
        while !self.read_all {
            if self.view.is_none() {
                self.view = queue.view(self.handle, PIECE)?.map(|view| (view, 0));
            }
            let Some((view, sent)) = &mut self.view else {
                self.read_all = true;
                return queue.shutdown(to, Shutdown::Write);
            };
            let bytes = view.bytes()?;
            *sent += queue.send_from(to, &bytes[*sent..], false, None)?;
            if *sent == bytes.len()
                && let Some((view, _)) = self.view.take()
            {
                queue.release(view)?;
            }
        }
        Ok(())
    }
}

impl Pair {
    /// Takes note of what has happened to one side, and moves what can be moved. True: both are done.
    fn happened(&mut self, queue: &mut Queue, at: usize, event: &Event) -> Result<bool, Errno> {
        if event.error != 0 {
            return Err(Errno::from_raw_os_error(event.error));
        }
        let [client, server] = &mut self.0;
        match event.kind {
            Kind::Open => server.open = true,
            Kind::End if at == 0 => client.ended = true,
            Kind::End => server.ended = true,
            _ => {}
        }
        if !server.open {
            return Ok(false);
        }
        let handles = (server.handle, client.handle);
        for (from, to) in [(&mut *client, handles.0), (&mut *server, handles.1)] {
            match from.pour(queue, to) {
                Ok(()) | Err(Errno::AGAIN) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok([client, server]
            .iter()
            .all(|side| side.read_all && side.ended))
    }

    /// Ends both connections, with a reset if one failed.
    fn end(self, queue: &mut Queue, failed: bool) -> Result<(), Errno> {
        for side in self.0 {
            if failed {
                // One that is over cannot be reset any more.
                let _ = queue.set(side.handle, Setting::ResetOnClose(true));
            }
            queue.close(side.handle)?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(addr), Some(server)) = (words.next(), words.next()) else {
        return Err("usage: proxy ADDR:PORT SERVER:PORT".into());
    };
    let server: SocketAddr = server.parse()?;
    let context = Context::attach("default", "proxy", Mode::Any)?;
    let mut queue = context.queue()?;
    let listener = queue.listen(addr.parse()?, 1024, 0)?;
    queue.set(listener, Setting::NoDelay(true))?;
    let (mut pairs, mut next, mut events) = (HashMap::<u64, Pair>::new(), 1, Vec::new());
    loop {
        match queue.wait(&mut events, 64, None) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in events.drain(..) {
            if event.kind == Kind::Accept {
                while let Ok(client) = queue.accept(listener, next * 2) {
                    match queue.connect(server, &[Setting::NoDelay(true)], next * 2 + 1) {
                        Ok(server) => {
                            let sides = [Side::new(client, true), Side::new(server, false)];
                            pairs.insert(next, Pair(sides));
                            next += 1;
                        }
                        Err(errno) => {
                            eprintln!("{server}: {errno}");
                            queue.close(client)?;
                        }
                    }
                }
            } else if let Some(pair) = pairs.get_mut(&(event.cookie / 2)) {
                let done = pair.happened(&mut queue, (event.cookie % 2) as usize, &event);
                if done != Ok(false)
                    && let Some(pair) = pairs.remove(&(event.cookie / 2))
                {
                    pair.end(&mut queue, done.is_err())?;
                }
            }
        }
    }
}
