//! Small sends on several connections of the kernel's leave by one call, where there is io_uring.
//!
//! Who is told of what has come on many connections answers on many. What it sends to each is staged until it looks for
//! what has happened next, and then the kernel takes all of it at once. Who is told of one has nothing of that, and
//! nothing is staged.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use queue_pair::{SendRing, Sending};

use crate::context::KernelSockets;
use crate::event::Handle;
use crate::kernel::SMALL;
use crate::stage::Stage;

/// Who might have saved so many calls is given a ring: it is memory and a descriptor.
const WORTH: usize = 64;

/// What is staged for longer leaves with the next send, ...
const OLD: Duration = Duration::from_micros(50);
/// ... and where that is less than so many, the program has more to do than to send: so that nobody has to wait for
/// it, ...
const FEW: usize = 4;
/// ... nothing is staged for so many waits.
const PAUSE: u32 = 64;

/// What is staged in a queue, and how it leaves.
pub(crate) struct Together {
    ring: Ring,
    /// Where it is, once something may be.
    stage: Option<Arc<Stage>>,
    /// The connections on which something is staged; some of it may have left since.
    staged: Vec<Handle>,
    /// Since when.
    since: Instant,
    /// What is sent now is staged.
    is_on: bool,
    /// For so many waits it is not.
    pause: u32,
    /// From one look to the next: another number.
    turn: NonZeroU32,
    /// On so many of the connections that the program was told of in this turn nothing was sent yet.
    unanswered: usize,
}

enum Ring {
    /// There is none, and there will be none.
    Never,
    /// So many calls might have been saved by it.
    Later(usize),
    Made(Box<SendRing>),
}

impl Together {
    /// # Errors
    /// The program wants a ring, and there is none: the kernel's.
    pub(crate) fn new(by: KernelSockets) -> Result<Self, host::Errno> {
        Ok(Self {
            ring: match by {
                KernelSockets::Auto => Ring::Later(0),
                KernelSockets::Epoll => Ring::Never,
                KernelSockets::IoUring => Ring::Made(Box::new(SendRing::new()?)),
            },
            stage: None,
            staged: Vec::new(),
            since: Instant::now(),
            is_on: false,
            pause: 0,
            turn: NonZeroU32::MIN,
            unanswered: 0,
        })
    }

    /// Whether there is a ring.
    pub(crate) fn has_ring(&self) -> bool {
        matches!(self.ring, Ring::Made(_))
    }

    /// What serves a connection, in words.
    pub(crate) fn served_by(&self, is_offloaded: bool) -> &'static str {
        match (is_offloaded, self.has_ring()) {
            (true, _) => "engine",
            (false, true) => "kernel, io_uring",
            (false, false) => "kernel, epoll",
        }
    }

    /// What is sent from now on is not staged. Another turn begins.
    pub(crate) fn stop(&mut self) {
        self.is_on = false;
        self.unanswered = 0;
        self.turn = self.turn.checked_add(1).unwrap_or(NonZeroU32::MIN);
    }

    /// The number of this turn.
    pub(crate) fn turn(&self) -> NonZeroU32 {
        self.turn
    }

    /// The program is told that something has come on so many connections of the kernel's.
    pub(crate) fn told(&mut self, connections: usize) {
        if connections < 2 {
            return;
        }
        if let Ring::Later(saved) = &mut self.ring {
            *saved += connections - 1;
            if *saved >= WORTH {
                let made = SendRing::new();
                self.ring = made.map_or(Ring::Never, |ring| Ring::Made(Box::new(ring)));
            }
        }
        let is_due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        self.is_on = is_due && self.has_ring() && self.has_stage();
        if self.is_on {
            self.unanswered = connections;
        }
    }

    /// Whether there is a stage. Without one there is nothing for the ring.
    fn has_stage(&mut self) -> bool {
        if self.stage.is_none() {
            self.stage = Stage::new();
        }
        if self.stage.is_none() {
            self.ring = Ring::Never;
        }
        self.stage.is_some()
    }

    /// Whether the program has yet to send on connections that it was told of in this turn.
    pub(crate) fn is_to_answer(&self) -> bool {
        self.unanswered > 0
    }

    /// It has sent on one of them. Whether that was the last.
    pub(crate) fn has_answered(&mut self) -> bool {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.unanswered == 0
    }

    /// Whether a send of so many bytes is staged.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        self.is_on && bytes <= SMALL
    }

    /// Whether what is staged is to leave before something more is.
    pub(crate) fn is_due(&mut self) -> bool {
        if self.staged.is_empty() {
            return false;
        }
        let is_old = self.since.elapsed() > OLD;
        if is_old && self.staged.len() < FEW {
            (self.is_on, self.pause) = (false, PAUSE);
        }
        is_old || self.staged.len() >= SendRing::MOST
    }

    /// Where what is sent may be staged.
    pub(crate) fn stage(&self) -> Option<Arc<Stage>> {
        self.stage.clone()
    }

    /// Something is staged on this connection.
    pub(crate) fn add(&mut self, handle: Handle) {
        if self.staged.is_empty() {
            self.since = Instant::now();
        }
        self.staged.push(handle);
    }

    /// Whether nothing is staged.
    pub(crate) fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// The connections on which something was staged, which is going to be sent.
    pub(crate) fn take(&mut self) -> Vec<Handle> {
        std::mem::take(&mut self.staged)
    }

    /// Sends these, as far as they pay for it. What was not tried says so.
    pub(crate) fn send(&mut self, sends: &mut [Sending<'_>]) {
        if let Ring::Made(ring) = &mut self.ring
            && sends.len() > 1
            && sends
                .chunks_mut(SendRing::MOST)
                .any(|some| ring.send(some).is_err())
        {
            (self.ring, self.is_on) = (Ring::Never, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_long_between_its_sends_is_not_made_to_wait_for_them() {
        let Ok(mut together) = Together::new(KernelSockets::IoUring) else {
            return;
        };
        assert!(!together.takes(1), "nothing was told");
        together.told(2);
        assert!(together.takes(SMALL) && !together.takes(SMALL + 1) && !together.is_due());
        together.add(Handle::default());
        let long_ago = Instant::now().checked_sub(2 * OLD);
        together.since = long_ago.expect("the clock has run for longer");
        assert!(together.is_due() && !together.takes(1));
        for _ in 0..PAUSE {
            together.stop();
            together.told(64);
            assert!(!together.takes(1));
        }
        together.told(64);
        assert!(together.takes(1));
        // Many that are old are sent, and it goes on.
        (0..FEW).for_each(|_| together.add(Handle::default()));
        assert!(together.is_due() && together.takes(1));
        together.take();
        together.told(1);
        together.stop();
        assert!(!together.takes(1));
    }

    #[test]
    fn a_ring_is_made_when_it_would_have_paid() {
        let mut together = Together::new(KernelSockets::Auto).expect("no ring");
        for told in 1..=WORTH {
            assert!(!together.has_ring() && !together.takes(1), "{told}");
            together.told(1);
            together.told(2);
        }
        let is_there = SendRing::new().is_ok();
        assert_eq!(
            (together.has_ring(), together.takes(1)),
            (is_there, is_there)
        );
        let mut never = Together::new(KernelSockets::Epoll).expect("no ring");
        never.told(2 * WORTH);
        assert!(!never.has_ring() && !never.takes(1));
    }
}
