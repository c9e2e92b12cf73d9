//! Threads of a test that wait, and what tells that they sleep.

use std::time::Instant;

use host::{Errno, Readiness, Socket};
use queue_pair::ConnRef;
use rustix::process::Pid;

use super::{FakeEngine, HANG, is_asleep};

/// Waits, and is woken: whoever has waited in vain looks once more when the time is over.
pub fn wait(socket: &Socket, wanted: Readiness) -> Result<Readiness, Errno> {
    let begun = Instant::now();
    let ready = socket.wait(wanted, Some(HANG));
    assert!(begun.elapsed() < HANG, "nobody has woken it");
    ready
}

impl FakeEngine {
    /// Somebody sleeps by a bell, or is about to.
    pub fn await_armed(&self) {
        self.until(|inner| inner.attached[0].is_armed().then_some(()));
    }

    /// A bell is armed, and this thread sleeps.
    pub fn await_asleep(&self, thread: Pid) {
        self.until(|inner| {
            let sleeps = inner.attached[0].is_armed() && is_asleep(thread);
            sleeps.then_some(())
        });
    }

    /// Somebody sleeps by the word of this connection, or is about to.
    pub fn await_parked(&self, conn: ConnRef) {
        self.until(|inner| inner.attached[0].is_parked(conn).then_some(()));
    }
}
