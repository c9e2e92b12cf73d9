//! Lines of the log are written by a thread of their own, so that nobody who has something to say waits
//! for those who read it: a pager, a pipe to a program that stands still. What finds no room is lost,
//! counted, and told of once there is room again.

use std::io::{Result, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written, at most.
const ROOM: usize = 4096;
/// How long the end of the program waits for the last of them.
const LAST_WORDS: Duration = Duration::from_secs(1);

enum Item {
    Line(Vec<u8>),
    /// Everything before it is written.
    Flush(SyncSender<()>),
}

/// Where lines are handed over.
#[derive(Clone)]
pub struct Lines {
    queue: SyncSender<Item>,
    /// Lines that found no room, and of which nobody was told.
    lost: Arc<AtomicU64>,
}

/// To be held until nothing more is logged: what waits then is written, if that does not take long.
#[must_use = "dropped at once, the last lines may be lost"]
pub struct Rest(Lines);

impl Lines {
    /// Has what is handed over written to `to`.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn to(to: impl Write + Send + 'static) -> Result<(Self, Rest)> {
        Self::with_room(to, ROOM)
    }

    fn with_room(to: impl Write + Send + 'static, room: usize) -> Result<(Self, Rest)> {
        let (queue, items) = sync_channel(room);
        let lines = Self {
            queue,
            lost: Arc::default(),
        };
        let lost = Arc::clone(&lines.lost);
        let thread = std::thread::Builder::new().name("lines".to_owned());
        thread.spawn(move || {
            give_up_rights();
            // A kernel without seccomp has said so to the engine.
            let _ = engine::slow::kernel::calls::confine_to_writing();
            write(&items, to, &lost);
        })?;
        Ok((lines.clone(), Rest(lines)))
    }
}

/// Who only writes lines needs no rights. This thread begins before its program gives up those that it does not
/// need, and would keep them: capabilities, and filters of system calls, are a thread's own.
fn give_up_rights() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    // Fewer are never refused.
    let _ = set_capabilities(None, sets);
}

fn write(items: &Receiver<Item>, mut to: impl Write, lost: &AtomicU64) {
    while let Ok(item) = items.recv() {
        match item {
            Item::Line(line) => {
                // Nowhere is left to say that it could not be said.
                let _ = to.write_all(&line);
                let lost = lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    tracing::warn!(lost, "so many lines were not written: nobody read the log");
                }
            }
            Item::Flush(done) => {
                let _ = to.flush();
                let _ = done.try_send(());
            }
        }
    }
}

impl Write for &Lines {
    /// One line, as the layer that formats them writes each at once.
    fn write(&mut self, line: &[u8]) -> Result<usize> {
        if self.queue.try_send(Item::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Lines;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        // A full queue means that nobody reads.
        if self.0.queue.try_send(Item::Flush(done)).is_ok() {
            let _ = written.recv_timeout(LAST_WORDS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Writes a line each time it is allowed to, and hands it on.
    struct Stalled {
        allowed: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Stalled {
        fn write(&mut self, line: &[u8]) -> Result<usize> {
            self.allowed.recv().map_err(std::io::Error::other)?;
            let text = String::from_utf8_lossy(line).into_owned();
            self.written.send(text).map_err(std::io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_log_that_is_not_read() {
        let (allow, allowed) = channel();
        let (written, lines) = channel();
        let (log, _rest) = Lines::with_room(Stalled { allowed, written }, 2).expect("a thread");
        let say = |number: u32| write!(&log, "{number}").expect("handed over");
        // One is on its way at most, two wait: the others are lost, and this does not wait.
        for number in 0..100 {
            say(number);
        }
        let lost = log.lost.load(Ordering::Relaxed);
        assert!((97..=98).contains(&lost), "{lost}");
        allow.send(()).expect("it writes");
        assert_eq!(lines.recv().expect("written"), "0");
        // Its loss is told of with the next line: here to nobody.
        allow.send(()).expect("it writes");
        assert_eq!(lines.recv().expect("written"), "1");
        assert_eq!(log.lost.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_was_said_before_the_end_is_written() {
        let (allow, allowed) = channel();
        let (written, lines) = channel();
        let (log, rest) = Lines::to(Stalled { allowed, written }).expect("a thread");
        for number in 0..10 {
            write!(&log, "{number}").expect("handed over");
            allow.send(()).expect("it writes");
        }
        drop(rest);
        assert_eq!(lines.try_iter().count(), 10);
    }
}
