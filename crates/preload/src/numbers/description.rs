//! What descriptor numbers of ours stand for: the kernel would say "open file description".
//!
//! Numbers made by dup refer to the same one, which ends with the last of them.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_short};
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use host::Readiness;

use crate::objects::listening::Listening;
use crate::objects::set::Set;
use crate::objects::stream::Stream;
use crate::objects::tcp::Tcp;

/// How many hold a description: the numbers in the table, and the calls under way.
pub struct References(AtomicU32);

impl References {
    /// Counted once, for the one who makes the description.
    const fn one() -> Self {
        Self(AtomicU32::new(1))
    }

    /// One more; the caller holds one already.
    pub fn acquire(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One more, unless nobody holds any.
    #[inline(always)]
    pub fn try_acquire(&self) -> bool {
        // Acquire: pairs with the Release that made a recycled description anew.
        self.0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |count| {
                (count != 0).then_some(count + 1)
            })
            .is_ok()
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// In the child of a fork: the holders that are left.
    pub fn become_count(&self, count: u32) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// Counted once, of one that is used again.
    pub fn begin_again(&self) {
        self.0.store(1, Ordering::Release);
    }

    /// Whether there are at most `count` holders.
    pub fn are_last(&self, count: u32) -> bool {
        self.0.load(Ordering::Relaxed) <= count
    }

    /// One less; true for the last.
    #[inline(always)]
    pub fn release(&self) -> bool {
        // Release, then Acquire on the last: what others did with it happened before its end.
        if self.0.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        core::sync::atomic::fence(Ordering::Acquire);
        true
    }
}

/// See the [module](self).
pub struct Description {
    /// How many hold it.
    pub references: References,
    /// Written only while nobody holds it.
    content: UnsafeCell<Option<Content>>,
}

/// The kinds of things that numbers of ours stand for.
pub enum Content {
    /// A TCP socket: not yet connected or listening, or ours by now.
    Tcp(Tcp),
    /// An epoll set that has, or may come to have, sockets of ours in it.
    Epoll(Arc<Set>),
}

// SAFETY: the content is written only by the one who makes or ends the description, while nobody
// else holds it; in between it is shared by reference, and everything in it is `Sync`.
unsafe impl Sync for Description {}

impl Description {
    /// For the pool alone; counted once.
    pub fn new(content: Content) -> Self {
        Self {
            references: References::one(),
            content: UnsafeCell::new(Some(content)),
        }
    }

    /// # Safety
    /// Nobody holds the description.
    pub unsafe fn set_content(&self, content: Content) {
        // SAFETY: as the caller promises.
        unsafe { *self.content.get() = Some(content) };
    }

    /// # Safety
    /// Nobody holds the description.
    pub unsafe fn take_content(&self) -> Option<Content> {
        // SAFETY: as the caller promises.
        unsafe { (*self.content.get()).take() }
    }

    fn content(&self) -> Option<&Content> {
        // SAFETY: a `&Description` outside the pool comes from a `Held`, and while it is held
        // nobody writes.
        unsafe { (*self.content.get()).as_ref() }
    }

    /// The TCP socket, if it is one.
    #[inline(always)]
    pub fn tcp(&self) -> Option<&Tcp> {
        match self.content() {
            Some(Content::Tcp(tcp)) => Some(tcp),
            _ => None,
        }
    }

    /// The epoll set, if it is one.
    #[inline(always)]
    pub fn epoll(&self) -> Option<&Arc<Set>> {
        match self.content() {
            Some(Content::Epoll(set)) => Some(set),
            _ => None,
        }
    }

    /// The connection, if it is one of the engine's.
    #[inline(always)]
    pub fn stream(&self) -> Option<&Stream> {
        self.tcp()?.stream()
    }

    /// The listener, if the engine has been told of it.
    pub fn listener(&self) -> Option<&Listening> {
        self.tcp()?.listener()
    }

    /// poll begins to wait for it: whether it must ask here, and not the kernel alone.
    pub fn enter_poll(&self) -> bool {
        match self.content() {
            Some(Content::Tcp(tcp)) => !tcp.is_undecided(),
            Some(Content::Epoll(set)) => {
                // What comes into the set while the kernel alone is asked must end its wait.
                set.show_by_number();
                set.has_ours() || set.is_familys() || set.inside.any()
            }
            None => false,
        }
    }

    /// What poll reports from here.
    pub fn poll_readiness(&self) -> c_short {
        let ready = match self.content() {
            Some(Content::Tcp(tcp)) => match (tcp.stream(), tcp.listener()) {
                (Some(stream), _) => stream.socket.readiness(),
                (_, Some(listening)) => {
                    listening.listener.want();
                    listening.listener.readiness()
                }
                _ => Readiness::NONE,
            },
            Some(Content::Epoll(set)) if set.any_ready() => Readiness::IN | Readiness::RDNORM,
            _ => Readiness::NONE,
        };
        // The bits are those of poll; what is beyond them is epoll's alone.
        (ready.0 & 0x7fff) as c_short
    }

    /// A number that referred to this closes, maybe the last.
    pub fn number_closes(&self, _fd: c_int) {
        if let Some(stream) = self.stream()
            && self.references.are_last(2)
        {
            stream.linger();
        }
    }
}
