//! What becomes of committed bytes that the kernel has not taken when their queue is freed.

use std::time::{Duration, Instant};

use host::Errno;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::kernel;
use crate::queue::{Object, Queue};
use crate::stream::Stream;

/// So long a queue that is freed waits for the kernel to take what was committed.
const LIMIT: Duration = Duration::from_secs(1);

impl Drop for Queue {
    fn drop(&mut self) {
        // What a parent has committed the child of a fork does not send once more.
        if self.process == rustix::process::getpid() {
            self.flush_all();
        }
    }
}

impl Queue {
    /// Has the kernel take what was committed, as far as it does within the limit. What is left over is reset.
    fn flush_all(&mut self) {
        let end = Instant::now() + LIMIT;
        let mut full: Vec<&mut kernel::Stream> = Vec::new();
        for object in self.objects.values_mut() {
            if let Object::Connection(connection) = object
                && let Stream::Kernel(stream) = &mut connection.stream
                && is_full(stream)
            {
                full.push(stream);
            }
        }
        while !full.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            let Some(left) = Timespec::try_from(left).ok().filter(|_| !left.is_zero()) else {
                return;
            };
            let fds = full.iter().map(|stream| stream.fd());
            let fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT));
            // A signal is no reason to stop. More descriptors than the process may have cannot be waited for.
            if rustix::event::poll(&mut fds.collect::<Vec<_>>(), Some(&left)) == Err(Errno::INVAL) {
                std::thread::sleep(Duration::from_millis(1));
            }
            full.retain_mut(|stream| is_full(stream));
        }
    }
}

fn is_full(stream: &mut kernel::Stream) -> bool {
    stream.flush() == Err(Errno::AGAIN)
}
