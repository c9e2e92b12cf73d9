//! Which descriptor numbers are ours.
//!
//! One word a number, in memory that is zero until used: an untouched page of it costs nothing,
//! and looking up a number that is not ours is one load, with no lock and no allocation, so it is
//! fit for signal handlers and for the time before this library has initialised itself.
//!
//! A word is 0 (the kernel's alone) or the address of a [`Description`]. Descriptions are never
//! freed, only used again ([`pool`]), so following a stale address is harmless: taking a
//! reference and then finding the same address still in the table proves that the reference is
//! to what the number means.

use core::ffi::c_int;
use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::numbers::description::{Content, Description};
use crate::numbers::pool;
use crate::objects::set::Set;
use crate::thread::inside;

/// Numbers from here on are never ours: a socket that gets one stays with the kernel.
pub const CAPACITY: usize = 1 << 20;

static TABLE: [AtomicUsize; CAPACITY] = [const { AtomicUsize::new(0) }; CAPACITY];

/// One more than the highest number that was ever in the table: bounds walks over it.
static END: AtomicUsize = AtomicUsize::new(0);

/// A reference to a description, held for the time of one call, or by a number in the table.
pub struct Held(&'static Description);

impl Held {
    /// A new description of `content`.
    pub fn new(content: Content) -> Self {
        // A handler would wait for the pool's lock.
        inside::enter();
        let held = Self::from_counted(pool::make(content));
        inside::leave();
        held
    }

    /// Takes over a reference that was already counted. The thread is [inside] until it is dropped.
    fn from_counted(description: &'static Description) -> Self {
        inside::enter();
        Self(description)
    }

    /// Whether both are references to one description.
    pub fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }

    /// Leaves the reference to the table.
    fn into_table(self) -> usize {
        let address = core::ptr::from_ref(self.0) as usize;
        core::mem::forget(self);
        inside::leave();
        address
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.0.references.acquire();
        Self::from_counted(self.0)
    }
}

impl Deref for Held {
    type Target = Description;

    fn deref(&self) -> &Description {
        self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.0.references.release() {
            pool::recycle(self.0);
        }
        inside::leave();
    }
}

/// What `fd` refers to, if it is ours.
#[inline(always)]
pub fn get(fd: c_int) -> Option<Held> {
    let word = TABLE.get(fd as u32 as usize)?;
    if word.load(Ordering::Relaxed) == 0 {
        return None;
    }
    hold(word)
}

#[inline(never)]
fn hold(word: &'static AtomicUsize) -> Option<Held> {
    loop {
        // Acquire: pairs with the swap in `install`, so the description is seen as it was made.
        let address = word.load(Ordering::Acquire);
        let description = at(address)?;
        // Before there is a reference: a handler that ended the thread would keep it.
        inside::enter();
        if !description.references.try_acquire() {
            inside::leave();
            // It was closed between the two loads; the number means something else by now.
            core::hint::spin_loop();
            continue;
        }
        // Inside already.
        let held = Held(description);
        if word.load(Ordering::Acquire) == address {
            return Some(held);
        }
    }
}

/// Makes `fd` refer to `held`'s description; the table takes over the reference. Returns false,
/// and drops the reference, when the number is beyond the table.
pub fn install(fd: c_int, held: Held) -> bool {
    let has_room = TABLE.get(fd as u32 as usize).is_some();
    drop(put(fd, held));
    has_room
}

/// As [`install`]: what the number was comes back, or `held` itself if it is beyond the table.
pub fn put(fd: c_int, held: Held) -> Option<Held> {
    let Some(word) = TABLE.get(fd as u32 as usize) else {
        return Some(held);
    };
    END.fetch_max(fd as usize + 1, Ordering::Relaxed);
    let before = word.swap(held.into_table(), Ordering::AcqRel);
    at(before).map(Held::from_counted)
}

/// Whether `fd` is ours, at this moment.
#[inline(always)]
pub fn is_ours(fd: c_int) -> bool {
    let word = TABLE.get(fd as u32 as usize);
    word.is_some_and(|word| word.load(Ordering::Relaxed) != 0)
}

/// Whether `fd` refers to `held`'s description, at this moment.
pub fn means(fd: c_int, held: &Held) -> bool {
    let word = TABLE.get(fd as u32 as usize);
    word.is_some_and(|word| word.load(Ordering::Acquire) == core::ptr::from_ref(held.0) as usize)
}

/// Takes `fd` out of the table. The reference that the table held comes back.
pub fn remove(fd: c_int) -> Option<Held> {
    let word = TABLE.get(fd as u32 as usize)?;
    at(word.swap(0, Ordering::AcqRel)).map(Held::from_counted)
}

/// As [`remove`], if `fd` still refers to `held`'s description: whoever asks was told that the
/// number is over by something that may have been its end, or not.
pub fn remove_if(fd: c_int, held: &Held) -> Option<Held> {
    let word = TABLE.get(fd as u32 as usize)?;
    let address = core::ptr::from_ref(held.0) as usize;
    word.compare_exchange(address, 0, Ordering::AcqRel, Ordering::Relaxed)
        .ok()
        .and_then(|address| at(address).map(Held::from_counted))
}

/// Makes every number that refers to `old` refer to `new`.
pub fn replace(old: &Held, new: &Held) {
    let before = core::ptr::from_ref(old.0) as usize;
    for fd in used(0, u32::MAX) {
        let after = new.clone().into_table();
        let replaced =
            TABLE[fd as usize].compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed);
        // Of both the table holds one no more: the one that was there, or the one that did not come.
        let left = if replaced.is_ok() { before } else { after };
        drop(at(left).map(Held::from_counted));
    }
}

/// The kernel has just handed out `fd`, so whatever the table says of it is over: it was closed
/// by a path that does not pass here (stdio's own close, a system call made in assembler).
#[inline(always)]
pub fn handed_out(fd: c_int) {
    if let Some(word) = TABLE.get(fd as u32 as usize)
        && word.load(Ordering::Relaxed) != 0
    {
        drop(remove(fd));
    }
}

/// The numbers from `first` to `last` that are ours, in rising order.
pub fn used(first: u32, last: u32) -> impl Iterator<Item = c_int> {
    let end = (last as usize)
        .saturating_add(1)
        .min(END.load(Ordering::Relaxed));
    (first as usize..end)
        .filter(|&fd| TABLE[fd].load(Ordering::Relaxed) != 0)
        .map(|fd| fd as c_int)
}

/// The numbers that refer to `held`'s description.
pub fn numbers_of(held: &Held) -> impl Iterator<Item = c_int> {
    let address = core::ptr::from_ref(held.0) as usize;
    used(0, u32::MAX).filter(move |&fd| TABLE[fd as usize].load(Ordering::Relaxed) == address)
}

/// A number of the set: `before`, if it still is one.
pub fn number_of_set(set: &Arc<Set>, before: c_int) -> Option<c_int> {
    let means_it = |number: &c_int| {
        get(*number).is_some_and(|held| held.epoll().is_some_and(|other| Arc::ptr_eq(other, set)))
    };
    core::iter::once(before)
        .chain(used(0, u32::MAX))
        .find(means_it)
}

/// In the child of a fork, whose only thread holds nothing: what the calls of other threads held they
/// hold in the parent alone. Otherwise what such a call was made on could never end here.
pub fn forget_other_calls() {
    let mut named: Vec<usize> = addresses().collect();
    named.sort_unstable();
    for description in pool::all() {
        let counted = description.references.count();
        if counted == 0 {
            continue;
        }
        let address = core::ptr::from_ref(description) as usize;
        let from = named.partition_point(|other| *other < address);
        let until = named.partition_point(|other| *other <= address);
        let numbers = (until - from) as u32;
        // A page that is not written to stays the parent's.
        if numbers != counted {
            description.references.become_count(numbers.max(1));
        }
        if numbers == 0 {
            // It was about to be given a number, or has just lost its last.
            drop(Held::from_counted(description));
        }
    }
}

/// Where the descriptions are that numbers refer to, once for each number.
fn addresses() -> impl Iterator<Item = usize> {
    used(0, u32::MAX).map(|fd| TABLE[fd as usize].load(Ordering::Relaxed))
}

fn at(address: usize) -> Option<&'static Description> {
    // SAFETY: a word is 0 or was put there by `install` from a `&'static Description`.
    unsafe { (address as *const Description).as_ref() }
}
