//! MSG_ZEROCOPY and its notifications (Documentation/networking/msg_zerocopy.rst of Linux).
//!
//! What is sent goes into the send area at once, so the program may touch its memory when the call
//! returns. The notification that says so waits in the socket's error queue, as in the kernel, and tells
//! that the bytes were copied: a program that goes by that stops asking.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use super::Stream;

/// What is known of the sends of one socket. Without a lock, which a fork would have to wait for.
#[derive(Default)]
pub struct Zerocopy {
    /// SO_ZEROCOPY.
    on: AtomicBool,
    /// How many sends there were, wrapping at 2³², and in the upper half how many the program was told of.
    sends: AtomicU64,
}

/// How many sends there were, and how many of them the program was told of.
fn parts(sends: u64) -> (u32, u32) {
    (sends as u32, (sends >> 32) as u32)
}

fn joined(sent: u32, told: u32) -> u64 {
    u64::from(told) << 32 | u64::from(sent)
}

impl Stream {
    /// SO_ZEROCOPY, 0 or 1.
    pub fn zerocopy(&self) -> bool {
        self.zerocopy.on.load(Ordering::Relaxed)
    }

    /// Sets SO_ZEROCOPY.
    pub fn set_zerocopy(&self, on: bool) {
        self.zerocopy.on.store(on, Ordering::Relaxed);
    }

    /// A send with MSG_ZEROCOPY has taken bytes: it is over at once.
    pub fn zerocopy_sent(&self) {
        if !self.zerocopy() {
            return;
        }
        self.zerocopy
            .change(|sent, told| (sent.wrapping_add(1), told));
        self.socket.set_notices(true);
    }

    /// What the error queue holds next: the first and the last send that it tells of.
    pub fn next_notice(&self) -> Result<(u32, u32), Errno> {
        let (sent, told) = self.zerocopy.change(|sent, _| (sent, sent));
        self.socket.set_notices(false);
        if self.zerocopy.has_news() {
            // Of another thread, meanwhile.
            self.socket.set_notices(true);
        }
        if sent == told {
            // The mark may have been of a send that was told of before its thread had set it.
            return Err(Errno::AGAIN);
        }
        Ok((told, sent.wrapping_sub(1)))
    }

    /// Takes what the error queue holds next without looking at it, as recv does.
    ///
    /// # Errors
    /// `EAGAIN`: it holds nothing.
    pub fn drop_notice(&self) -> Result<usize, Errno> {
        self.next_notice().map(|_| 0)
    }
}

impl Zerocopy {
    /// Changes both counts at once: what they were.
    fn change(&self, to: impl Fn(u32, u32) -> (u32, u32)) -> (u32, u32) {
        let changed = |before| {
            let (sent, told) = parts(before);
            let (sent, told) = to(sent, told);
            Some(joined(sent, told))
        };
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let before = self.sends.fetch_update(set, get, changed);
        parts(before.unwrap_or_default())
    }

    fn has_news(&self) -> bool {
        let (sent, told) = parts(self.sends.load(Ordering::Acquire));
        sent != told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_are_told_of_once_and_together() {
        let zerocopy = Zerocopy::default();
        let send = || zerocopy.change(|sent, told| (sent.wrapping_add(1), told));
        let tell = || zerocopy.change(|sent, _| (sent, sent));
        zerocopy
            .sends
            .store(joined(u32::MAX, u32::MAX), Ordering::Relaxed);
        assert!(!zerocopy.has_news());
        send();
        send();
        assert!(zerocopy.has_news());
        assert_eq!(tell(), (1, u32::MAX));
        assert!(!zerocopy.has_news());
        assert_eq!(tell(), (1, 1));
    }
}
