//! The signals that a guard hears: it passes them on, or ends.

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use signal_hook::consts::SIGCHLD;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What servers are told things by.
const HEARD: [Signal; 7] = [
    Signal::TERM,
    Signal::INT,
    Signal::QUIT,
    Signal::HUP,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
];

/// Signals that have come.
#[derive(Debug)]
pub struct Signals {
    come: Vec<(Signal, Arc<AtomicBool>)>,
    wakes: UnixStream,
}

impl Signals {
    /// Hears them from now on.
    ///
    /// # Errors
    /// There are no more descriptors, or the handlers cannot be set.
    pub fn hear() -> Result<Self> {
        let (wakes, written) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let mut come = Vec::new();
        for signal in HEARD {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal.as_raw(), Arc::clone(&flag))?;
            signal_hook::low_level::pipe::register(signal.as_raw(), written.try_clone()?)?;
            come.push((signal, flag));
        }
        signal_hook::low_level::pipe::register(SIGCHLD, written)?;
        Ok(Self { come, wakes })
    }

    /// Waits for one, or for a child's end, no longer than this, and takes those that have come.
    pub fn wait(&mut self, longest: Duration) -> Vec<Signal> {
        let longest = Timespec::try_from(longest).ok();
        let mut polled = [PollFd::new(&self.wakes, PollFlags::IN)];
        // Interrupted is as good as woken.
        let _ = poll(&mut polled, longest.as_ref());
        let mut bytes = [0; 64];
        while matches!(self.wakes.read(&mut bytes), Ok(1..)) {}
        let come = self.come.iter();
        let taken = come.filter(|(_, flag)| flag.swap(false, Ordering::Relaxed));
        taken.map(|(signal, _)| *signal).collect()
    }
}
